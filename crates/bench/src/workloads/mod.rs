//! The work that rivals are compared by: programs of our own, and scripts around real programs.
//!
//! | module | for |
//! |---|---|
//! | [`spec`] | the list of all: title, figure, size; what must be run |
//! | [`script`] | the scripts, and how they are prepared |
//! | [`scenario`], [`choice`] | which workloads and rivals, how large, how often; what the command line says of one workload |
//! | [`output`] | the line of JSON in which every workload says what it measured |
//! | [`program`] | `uswap workload NAME`: [`usemem`], [`pmbench`], [`seqscan`] |
//! | [`content`] | what these put into memory |
//! | [`area`], [`histogram`], [`zipf`], [`size`] | what these are made of |
//!
//! What must hold: a workload does the same work for the same size and seed, whatever it runs under, and its checksum
//! says so; its memory at its highest is what was asked for, within 15 %.

pub mod area;
pub mod choice;
pub mod content;
pub mod histogram;
pub mod output;
pub mod pmbench;
pub mod program;
pub mod scenario;
pub mod script;
pub mod seqscan;
pub mod size;
pub mod spec;
pub mod usemem;
pub mod zipf;

pub use output::{Output, parse_output};
pub use scenario::Scenario;
pub use spec::{Kind, Launch, Parameters, Prepared, WorkloadSpec, all, by_name};
