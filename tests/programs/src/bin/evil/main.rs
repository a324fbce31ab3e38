//! evil: programs that are hard to live inside. Each mode is one case; it prints OK and ends with status 0, or prints
//! what went wrong and ends with status 1.
//!
//! `evil MODE [--bytes 200M] [--seed 1]`. `--bytes` is how much memory the mode uses: about four times the budget it
//! is run in. `--seconds 3` is how long `signal_storm` lasts. `evil list` prints the modes. `--present-max 90` (huge
//! pages and a fork) is for runs with uswap: it fails if there were no huge pages, or more than 90 % of what nobody
//! used is present.

mod allocated;
mod beginnings;
mod descriptors;
mod families;
mod filled;
mod handlers;
mod inherited;
mod kernel;
mod ranges;
mod signals;
mod storm;
mod support;
mod threads;
mod traced;

use support::{Case, early};
use uswap_test_programs::arguments::Arguments;

type Mode = fn(&Case);

/// Name and function of each mode.
const MODES: [(&str, Mode); 45] = [
    ("close_all_descriptors", descriptors::close_all),
    ("few_descriptors_allowed", descriptors::few_allowed),
    ("limits_after_start", descriptors::limits_after_start),
    ("unshare_descriptors", descriptors::unshare),
    ("block_all_signals", signals::block_all),
    ("own_segv_and_bus_handlers", signals::own_handlers),
    ("alternate_stack", signals::alternate_stack),
    ("small_alternate_stack", handlers::small_alternate_stack),
    ("fault_in_handler", handlers::fault_in_handler),
    ("execute_in_handler", handlers::execute_in_handler),
    ("signal_storm", storm::signals),
    ("deep_family", families::deep),
    ("exec_itself", families::exec_itself),
    ("holes_stay_free", families::holes_stay_free),
    ("killed_at_any_time", families::killed_at_any_time),
    ("memory_before_main", early::check),
    ("late_child", traced::late_child),
    ("filled_by_the_kernel", filled::by_the_kernel),
    ("drop_privileges", families::drop_privileges),
    ("changes_at_the_beginning", beginnings::changes),
    ("changes_at_the_end", beginnings::changes_at_the_end),
    ("thousand_threads", threads::thousand),
    ("threads_share_pages", threads::share_pages),
    ("wipe_on_fork", ranges::wipe_on_fork),
    ("populated", ranges::populated),
    ("huge_pages", ranges::huge_pages),
    ("huge_pages_after_fork", ranges::huge_pages_after_fork),
    ("huge_pages_child_lives", ranges::huge_pages_child_lives),
    ("sparse_in_huge_pages", ranges::sparse_in_huge_pages),
    ("dont_fork", ranges::dont_fork),
    ("excluded_place_again", ranges::excluded_place_again),
    ("split_mapping", ranges::split_mapping),
    ("mapped_again", ranges::mapped_again),
    ("moved_mapping", ranges::moved_mapping),
    ("large_and_fast", ranges::large_and_fast),
    ("allocated_and_fast", allocated::and_fast),
    ("allocated_again", allocated::again),
    ("lock_part", ranges::lock_part),
    ("own_userfaultfd", ranges::own_userfaultfd),
    ("shared_anonymous", ranges::shared_anonymous),
    ("sparse", ranges::sparse),
    ("syscalls_on_cold_buffers", kernel::cold_buffers),
    ("heap_and_stack", ranges::heap_and_stack),
    ("rounding", inherited::rounding),
    ("no_time_stamps", inherited::no_time_stamps),
];

fn main() {
    let mut words = std::env::args().skip(1);
    let mode = words.next().unwrap_or_default();
    if mode == "list" {
        MODES.iter().for_each(|(name, _)| println!("{name}"));
        return;
    }
    let Some((_, run)) = MODES.iter().find(|(name, _)| *name == mode) else {
        eprintln!("unknown mode {mode:?}; `evil list` prints all");
        std::process::exit(2);
    };
    let arguments = Arguments::read(words, &["bytes", "seed", "depth", "present-max", "seconds"]);
    run(&Case {
        bytes: arguments.bytes("bytes", "200M"),
        seed: arguments.number("seed", 1),
        depth: arguments.number("depth", 0),
        seconds: arguments.number("seconds", 3),
        present_max: arguments.number("present-max", 100) as usize,
    });
    println!("OK");
}
