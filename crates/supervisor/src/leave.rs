//! `uswap leave`: all memory comes home, and the processes go on without a budget.
//!
//! Each process brings its own pages, in the thread that evicts in the background, and manages nothing afterwards; so
//! does one that joins later. The supervisor stays, since the program is its child.

use std::time::{Duration, Instant};

use uswap_control::unpoisoned;
use uswap_core::budget::Signal;
use uswap_core::mm::HaveOpen;
use uswap_units::{Bytes, PAGE_BYTES};

use crate::human;
use crate::shared::Shared;

/// More than any machine has, and small enough to reckon with.
const NO_BUDGET: Bytes = Bytes::new(1 << 50);

const STEP: Duration = Duration::from_millis(10);

/// If for so long no page comes home, nobody brings any.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is said of a run that was left.
pub fn left() -> String {
    "the run was left: nothing of it is managed any more".to_owned()
}

/// Waits until all memory is home. What was done, or why nothing was.
pub fn leave(shared: &Shared) -> Result<String, String> {
    let frozen = unpoisoned(shared.changing_limits.lock());
    if frozen.is_some() {
        return Err("the run is frozen: thaw it first ('uswap thaw')".to_owned());
    }
    let (segment, budget) = (shared.segment, shared.segment.budget());
    if budget.is_leaving() {
        return Err(left());
    }
    // Copies of pages that are in RAM as well are among them.
    let away_bytes = segment.swap_table().used_count() * PAGE_BYTES as u64;
    let available_bytes = available_bytes();
    if available_bytes.is_some_and(|available| away_bytes > available) {
        return Err(format!(
            "up to {} would come home, and this machine has {} available: the kernel might kill processes. Free \
             memory first, or let the run go on",
            human::bytes(away_bytes),
            human::bytes(available_bytes.unwrap_or(0))
        ));
    }
    // Nothing is over it from here on.
    budget.set_ram(NO_BUDGET);
    budget.set_leaving();
    drop(frozen);
    let (mut away, mut at) = (u64::MAX, Instant::now());
    loop {
        shared.raise(Signal::Pressure);
        let pid = match segment.mms().have_left_all_files() {
            HaveOpen::All => break,
            HaveOpen::NotYet(pid) | HaveOpen::Refused(pid) => pid,
        };
        if shared.is_stopping() {
            return Err("the run has ended".to_owned());
        }
        let now = segment.swap_table().used_count();
        if now != away {
            (away, at) = (now, Instant::now());
        }
        if at.elapsed() > PATIENCE {
            return Ok(format!(
                "process {pid} has not brought its memory home yet (is it stopped?): it does so when it goes on"
            ));
        }
        shared.sleep(STEP);
    }
    Ok(format!("{} of RAM are in use, and nothing is managed any more", human::bytes(budget.used().bytes())))
}

/// What the kernel can give without swap of its own.
fn available_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()? << 10)
}
