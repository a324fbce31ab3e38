//! limited: gives itself a budget while it runs, and checks its memory.
//!
//! `limited MODE --ram 32M --bytes 96M ...`, one mode a case: `waits` has threads in all kinds of waits, and the others
//! are in `cases`. It prints OK, or what was wrong, and then it ends with status 1.

mod cases;
mod content;
mod waits;

use uswap_test_programs::arguments::Arguments;
use uswap_test_programs::message::end_process;

use content::Content;

const KNOWN: [&str; 5] = ["ram", "bytes", "threads", "swap", "seconds"];

/// What a mode is told.
pub struct Told {
    ram: String,
    ram_bytes: usize,
    bytes: usize,
    threads: usize,
    seconds: u64,
    swap: String,
}

impl Told {
    /// The budget that was asked for.
    fn limit(&self) -> uswap::Limit {
        let limit = uswap::Limit::new(&self.ram);
        if self.swap.is_empty() { limit } else { limit.swap(&self.swap) }
    }

    fn must_limit(&self) {
        if let Err(error) = self.limit().hold() {
            end_process(1, format_args!("FAIL no budget: {error}"));
        }
    }
}

fn main() {
    let mode = std::env::args().nth(1).unwrap_or_default();
    let arguments = Arguments::read(std::env::args().skip(2), &KNOWN);
    let told = Told {
        ram: arguments.text("ram", "32M").to_owned(),
        ram_bytes: arguments.bytes("ram", "32M"),
        bytes: arguments.bytes("bytes", "96M"),
        threads: arguments.number("threads", 96) as usize,
        seconds: arguments.number("seconds", 2),
        swap: arguments.text("swap", "").to_owned(),
    };
    match mode.as_str() {
        "waits" => threads_in_waits(&told),
        "alone" => cases::alone(&told),
        "advised" => cases::advised(&told),
        "children" => cases::children(&told),
        "release" => cases::release(&told),
        "twice" => cases::twice(&told),
        "faults" => cases::faults(&told),
        "ring" => cases::ring(&told),
        "lasts" => cases::lasts(&told),
        "traced" => cases::traced(&told),
        "say" => cases::say(&told),
        _ => end_process(2, format_args!("there is no mode '{mode}'")),
    }
    println!("OK");
}

/// Half of the memory is there when the budget comes, which all threads wait through in their own way.
fn threads_in_waits(told: &Told) {
    let old = Content::new(told.bytes / 2, 1);
    let mut new = None;
    let wrong = waits::while_threads_wait(told.threads, || {
        told.must_limit();
        new = Some(Content::new(told.bytes / 2, 2));
    });
    if wrong > 0 {
        end_process(1, format_args!("FAIL {wrong} waits ended in another way"));
    }
    for content in [&old].into_iter().chain(&new) {
        content.verify();
    }
    content::must_be_within(told.ram_bytes);
}
