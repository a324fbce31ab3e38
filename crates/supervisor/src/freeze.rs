//! `uswap freeze` and `uswap thaw`: the memory of a run goes to its swap files, and its processes are stopped until it
//! is to go on.
//!
//! Processes evict their own pages, so they run while that lasts, in the smallest budget there is; then they are
//! stopped, and what is in the pool is written. The supervisor itself goes on, and keeps what it needs.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use uswap_control::unpoisoned;
use uswap_os::pidfd::Pidfd;
use uswap_os::{clock, process};

use crate::human;
use crate::options::{Limits, OnFull, PoolSize, RAM_BYTES_MIN};
use crate::shared::{SIGCONT, SIGSTOP, Shared};

/// The processes have so long to evict what they have.
const PATIENCE: Duration = Duration::from_secs(60);

/// If for so long nothing gets less, and no write to a swap file is under way, nothing more goes.
const FRUITLESS: Duration = Duration::from_secs(1);

const STEP: Duration = Duration::from_millis(10);

/// How often it is looked whether all have stopped: for 5 s. One that waits for a disk stops later.
const STOP_ROUNDS_MAX: u32 = 500;

/// Whether the processes are stopped by this, or are about to be.
pub fn is_frozen(shared: &Shared) -> bool {
    // Acquire pairs with the Release of `freeze` and `thaw`.
    shared.is_frozen.load(Ordering::Acquire)
}

/// All goes to the swap files by `write_back`, and the processes are stopped. What was done, or why nothing was.
pub fn freeze(
    shared: &Shared,
    write_back: impl FnOnce() -> Result<String, String>,
) -> Result<String, String> {
    let began = Instant::now();
    let mut before = unpoisoned(shared.changing_limits.lock());
    if before.is_some() {
        return Err("the run is frozen already".to_owned());
    }
    if shared.segment.budget().is_leaving() {
        return Err(crate::leave::left());
    }
    let limits = shared.limits();
    let least = Limits {
        ram_bytes: RAM_BYTES_MIN,
        pool: PoolSize::Auto,
        // Where the files are full, that is said, and the rest stays.
        on_full: OnFull::Grow,
        rules: Vec::new(),
    };
    *before = Some(Limits::clone(&limits));
    let used_before = shared.segment.budget().used().bytes();
    // Release pairs with the Acquire of `keeps_budget` and `is_frozen`, for which the mark stands for itself.
    shared.is_frozen.store(true, Ordering::Release);
    shared.set_limits(least);
    wait_while_it_gets_less(shared);
    stop_all(shared);
    let written = write_back();
    drop(before);
    let used = shared.segment.budget().used().bytes();
    let stays = format!(
        "the processes are stopped, and take {} of RAM instead of {}; that took {:.1} s",
        human::bytes(used),
        human::bytes(used_before),
        began.elapsed().as_secs_f64()
    );
    Ok(match written {
        Ok(_) => stays,
        Err(why) => format!("{stays}. Not all could be written: {why}"),
    })
}

fn wait_while_it_gets_less(shared: &Shared) {
    let budget = shared.segment.budget();
    let began = Instant::now();
    let (mut least, mut at) = (u64::MAX, began);
    while began.elapsed() < PATIENCE && at.elapsed() < FRUITLESS && !shared.is_stopping() {
        let used = budget.used().bytes();
        if used <= RAM_BYTES_MIN {
            return;
        }
        // A disk may stand still for some seconds.
        if used < least || budget.is_room_coming(clock::engine_now_ns()) {
            (least, at) = (used.min(least), Instant::now());
        }
        shared.sleep(STEP);
    }
}

/// Stops all processes, also those that are not managed, and those that others have started meanwhile.
fn stop_all(shared: &Shared) {
    if shared.options.regions_only {
        return shared.signal_all(SIGSTOP);
    }
    for _ in 0..STOP_ROUNDS_MAX {
        let mut running = 0;
        for_each_process(shared, |process, state| {
            if !matches!(state, b'T' | b't' | b'Z' | b'X') {
                running += 1;
                let _has_ended = process.signal(SIGSTOP);
            }
        });
        if running == 0 || shared.is_stopping() {
            return;
        }
        shared.sleep(STEP);
    }
}

fn continue_all(shared: &Shared) {
    if shared.options.regions_only {
        return shared.signal_all(SIGCONT);
    }
    for_each_process(shared, |process, state| {
        if state == b'T' {
            let _has_ended = process.signal(SIGCONT);
        }
    });
}

/// Visits the processes of the run that the kernel has, with their states. A number is looked up by its parent's
/// children, and counts only if it still has that parent when it is open.
fn for_each_process(shared: &Shared, mut visit: impl FnMut(&Pidfd, u8)) {
    let root = shared.root();
    let of_root = process::stat(root.pid()).map_or(0, |stat| stat.parent);
    let mut to_visit = vec![(root.pid(), of_root)];
    while let Some((pid, parent)) = to_visit.pop() {
        let _gone = process::for_each_child(pid, |child| to_visit.push((child, pid)));
        if pid == process::process_id() {
            continue;
        }
        let Ok(opened) = Pidfd::open(pid) else { continue };
        let stat = opened.while_it_lives(|pid| process::stat(pid).ok()).flatten();
        if let Some(stat) = stat.filter(|stat| stat.parent == parent) {
            visit(&opened, stat.state);
        }
    }
}

/// The processes go on, with the limits that they had before.
pub fn thaw(shared: &Shared) -> Result<String, String> {
    let mut before = unpoisoned(shared.changing_limits.lock());
    let Some(limits) = before.take() else {
        return Err("the run is not frozen: 'uswap freeze' does that".to_owned());
    };
    let ram_bytes = limits.ram_bytes;
    shared.set_limits(limits);
    // Release pairs with the Acquire of `keeps_budget`: who keeps the budget again finds the limits that were put back.
    shared.is_frozen.store(false, Ordering::Release);
    continue_all(shared);
    Ok(format!("the processes go on, within {}", human::bytes(ram_bytes)))
}
