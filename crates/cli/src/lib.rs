//! The command `uswap` with all its subcommands, from `run` and `doctor` to `ps`, `stat` and `top`.
//!
//! What it is for: it talks to a person and to the program's surroundings (arguments, terminal, signals, exit codes,
//! reports). What must hold: nothing that the program reads, writes or returns is changed on its way through.
//! Memory itself is the business of the crate `uswap-supervisor` and of the agent inside the program.
//!
//! | module | for |
//! |---|---|
//! | [`args`], [`ram`], [`size`], [`age`], [`named`], [`swap_place`], [`without`] | what was typed |
//! | [`config`] | what is not typed each time |
//! | [`agent_file`], [`filter`] | with what is the program managed, and is it allowed |
//! | [`process`] | one child, its signals, its ending |
//! | [`control`], [`map`], [`progress`], [`ps`] | commands to a run that is under way, and which there are |
//! | [`report`] | what happened, as table and as JSON |
//! | [`human`], [`message`] | numbers as a person reads them; lines for a person that never end a run |
//! | [`limit`] | what the supervisor of a run is told |
//! | [`shown`] | a run for a browser and for Prometheus |
//! | [`run`], [`supervise`], [`doctor`], [`demo`] | four of the commands; `bench` is a crate of its own |
#![forbid(unsafe_code)]

pub mod age;
pub mod agent_file;
pub mod args;
pub mod config;
pub mod control;
pub mod demo;
pub mod doctor;
pub mod filter;
pub mod human;
pub mod limit;
pub mod map;
pub mod message;
pub mod named;
pub mod process;
pub mod progress;
pub mod ps;
pub mod ram;
pub mod report;
pub mod run;
pub mod shown;
pub mod size;
pub mod supervise;
pub mod swap_place;
pub mod without;
