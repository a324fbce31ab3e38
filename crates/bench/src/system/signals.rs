//! Undoes everything when the bench is told to end, or panics.
//!
//! What must hold: after SIGINT, SIGTERM or SIGHUP the running program is killed, every change is taken back, and the
//! exit code is 128 + the signal, as a shell would say it. The release build aborts on a panic without running
//! destructors, so the panic hook does the same work.

use std::sync::Once;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use super::undo::{Undo, say};

/// How long a panic waits for another thread that is changing or undoing something.
const PANIC_WAIT_MAX: Duration = Duration::from_secs(20);

/// Exit code after a panic, as Rust has it.
const PANIC_EXIT_CODE: i32 = 101;

/// From now on a signal or a panic undoes everything in `undo` and ends this process. For the first list given; the
/// bench has only one.
///
/// # Errors
/// If the handlers cannot be installed.
pub fn undo_at_the_end_of_the_process(undo: &Undo) -> anyhow::Result<()> {
    static INSTALLED: Once = Once::new();
    let mut result = Ok(());
    INSTALLED.call_once(|| result = install(undo));
    result
}

fn install(undo: &Undo) -> anyhow::Result<()> {
    let mut numbers = vec![SIGINT, SIGTERM];
    if !is_hangup_ignored() {
        numbers.push(SIGHUP);
    }
    let mut signals = Signals::new(numbers)
        .context("signals cannot be handled, so Ctrl-C would leave swap devices behind; see `ulimit -a`")?;
    let for_signals = undo.clone();
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            if let Some(signal) = signals.forever().next() {
                say(format_args!("ended by signal {signal}: everything is put back as it was"));
                for_signals.undo_all_and(|| std::process::exit(128 + signal));
            }
        })
        .context("no thread can be started for signals, so Ctrl-C would leave swap devices behind")?;
    undo_on_panic(undo.clone());
    Ok(())
}

fn undo_on_panic(undo: Undo) {
    let says_it = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        says_it(panic);
        let start = Instant::now();
        // The panic may come from a thread that holds the list; waiting for ever would be waiting for itself.
        while !undo.try_undo_all() {
            if start.elapsed() > PANIC_WAIT_MAX {
                say(format_args!(
                    "not everything was undone: look at /proc/swaps and for cgroups named 'uswap-bench-*'"
                ));
                break;
            }
            thread::sleep(Duration::from_millis(10));
        }
        std::process::exit(PANIC_EXIT_CODE);
    }));
}

/// `nohup` asks for that: then it stays so.
pub(crate) fn is_hangup_ignored() -> bool {
    is_ignored(SIGHUP, &std::fs::read_to_string("/proc/self/status").unwrap_or_default())
}

/// Whether the mask in the text of /proc/PID/status says so.
fn is_ignored(signal: i32, status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ignored_signal_is_seen_in_the_mask() {
        let status =
            "Name:\tsh\nSigBlk:\tffffffffffffffff\nSigIgn:\t0000000000000001\nSigCgt:\t0000000000000002\n";
        assert!(is_ignored(SIGHUP, status));
        assert!(!is_ignored(SIGINT, status));
        assert!(!is_ignored(SIGHUP, ""));
    }
}
