//! `uswap workload NAME`: the workloads that are programs of our own.
//!
//! What must hold: the last line on standard output is the result, the only line that begins with `{`; wrong content is
//! never a result, but a line `FAIL` that says where, and status 1. Memory is anonymous, or the file that
//! `USWAP_BENCH_BACKING` names.

use std::ffi::OsString;
use std::iter;

use clap::Parser;

use super::{pmbench, seqscan, usemem};

/// One of the programs.
#[derive(Debug, Parser)]
#[command(name = "uswap workload", about = "Programs that use much memory, for uswap bench")]
enum Program {
    /// Processes that write all of their memory once, in order, and free it
    Usemem(usemem::Options),
    /// One process of usemem
    #[command(hide = true)]
    UsememPart(usemem::PartOptions),
    /// Threads that access random pages for a time
    Pmbench(pmbench::Options),
    /// Threads that read all memory in order, several times
    Seqscan(seqscan::Options),
}

/// Runs the program that `arguments` name, the words behind `uswap workload`; answers the exit status: 0, 1 for a
/// failure, 2 for wrong arguments.
pub fn main(arguments: &[OsString]) -> i32 {
    let words = iter::once(OsString::from("uswap workload")).chain(arguments.iter().cloned());
    let program = match Program::try_parse_from(words) {
        Ok(program) => program,
        Err(error) => {
            // Help is asked for: standard output and status 0. What cannot be printed is no reason to fail otherwise.
            let _ = error.print();
            return error.exit_code();
        }
    };
    let result = match program {
        Program::Usemem(options) => usemem::run(&options).map(Some),
        Program::UsememPart(options) => usemem::run_part(&options).map(|()| None),
        Program::Pmbench(options) => pmbench::run(&options).map(Some),
        Program::Seqscan(options) => seqscan::run(&options).map(Some),
    };
    match result {
        Ok(output) => {
            output.into_iter().for_each(|output| println!("{}", output.to_line()));
            0
        }
        Err(error) => {
            println!("FAIL {error:#}");
            1
        }
    }
}
