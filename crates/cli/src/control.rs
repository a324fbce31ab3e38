//! Commands to a run that is under way: `uswap stat`, `uswap writeback`, `uswap swapon` and `uswap swapoff`.
//!
//! What must hold: a command is given only to the process that was named. What is said is
//! [`uswap_supervisor::control`], and where the run listens [`uswap_control`].

use uswap_supervisor::control::order::{Answer, Form, Order};
use uswap_supervisor::files::place::SwapPlace;

use crate::args::{StatArguments, SwapoffArguments, SwaponArguments, WritebackArguments};
use crate::message::{say, write_stdout};

/// `uswap writeback`; the exit code.
pub fn writeback(arguments: &WritebackArguments) -> i32 {
    tell(arguments.pid, &Order::Writeback(arguments.older_than))
}

/// `uswap swapon`; the exit code.
pub fn swapon(arguments: &SwaponArguments) -> i32 {
    // The run may be somewhere else.
    let dir = std::path::absolute(&arguments.swap.dir).unwrap_or_else(|_| arguments.swap.dir.clone());
    tell(arguments.pid, &Order::SwapOn(SwapPlace { dir, ..arguments.swap.clone() }))
}

/// `uswap swapoff`; the exit code.
pub fn swapoff(arguments: &SwapoffArguments) -> i32 {
    let dir = std::path::absolute(&arguments.dir).unwrap_or_else(|_| arguments.dir.clone());
    tell(arguments.pid, &Order::SwapOff(dir))
}

/// `uswap stat`; the exit code.
pub fn stat(arguments: &StatArguments) -> i32 {
    let form = if arguments.json { Form::Json } else { Form::Text };
    tell(arguments.pid, &Order::Stat(form))
}

fn tell(pid: u32, order: &Order) -> i32 {
    match ask(pid, order) {
        Ok(Answer::Done(what)) => i32::from(!write_stdout(&format!("{what}\n"))),
        Ok(Answer::Error(why)) | Err(why) => {
            say(format_args!("{why}"));
            1
        }
    }
}

fn ask(pid: u32, order: &Order) -> Result<Answer, String> {
    let line = uswap_control::ask(pid, &order.line()?, None)?;
    Answer::parse(&line).ok_or_else(|| format!("the run of process {pid} ended before it had answered"))
}
