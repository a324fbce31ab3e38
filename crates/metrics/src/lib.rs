//! How a run goes, for programs that collect metrics and for a browser.
//!
//! What it is for: `uswap metrics`, and the options `--metrics` and `--html` of a run. What must hold: nobody on
//! another machine is answered, a client that hangs or says nonsense holds up nothing, and the end of a run waits for
//! no client. All of it stands on [`uswap_control::stat::RunStat`], in whatever way that was asked for.
//!
//! | module | for |
//! |---|---|
//! | [`args`], [`command`] | `uswap metrics` |
//! | [`family`], [`counters`], [`tables`] | which metrics there are |
//! | [`openmetrics`] | the text that Prometheus reads |
//! | [`document`] | the same as tables of a document |
//! | [`address`], [`socket`], [`http`], [`server`] | who asks, and is answered |
//! | [`page`] | the page of a run |
//! | [`series`], [`programs`], [`recorder`], [`report`] | the page of a run that has ended |
#![forbid(unsafe_code)]

pub mod address;
pub mod args;
pub mod command;
pub mod counters;
pub mod document;
pub mod family;
pub mod http;
pub mod openmetrics;
pub mod page;
pub mod programs;
pub mod recorder;
pub mod report;
pub mod series;
pub mod server;
pub mod socket;
pub mod tables;

pub use openmetrics::render;
