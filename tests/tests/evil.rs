//! One test for each mode of `evil`: programs that are hard to live inside, with four times their budget.

use uswap_tests::pair::figures;
use uswap_tests::{Run, full_size, modes, needs_root, program, shared_turn, turn, uswap_binary};

/// Pages of zeros that first touches got, by the closing report.
fn zero_filled(report: &str) -> u64 {
    let words: Vec<&str> = report.split_whitespace().collect();
    let at = words.iter().position(|word| word.trim_end_matches(',') == "zero-filled");
    at.and_then(|at| words[at - 1].replace(',', "").parse().ok()).unwrap_or(0)
}

/// Whether a program that asks for huge pages gets some.
fn gives_huge_pages() -> bool {
    let when = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    when.contains("[madvise]") || when.contains("[always]")
}

/// Modes in which memory or time is measured, or that need most of the machine.
const ALONE: &[&str] = &[
    "allocated_again",
    "allocated_and_fast",
    "excluded_place_again",
    "huge_pages",
    "huge_pages_after_fork",
    "huge_pages_child_lives",
    "large_and_fast",
    "no_time_stamps",
    "sparse_in_huge_pages",
    "thousand_threads",
];

fn case(mode: &str) {
    let root_is_for = match mode {
        "own_userfaultfd" => Some("a userfaultfd of the program's own"),
        "drop_privileges" => Some("dropping privileges"),
        _ => None,
    };
    if root_is_for.is_some_and(|what| !needs_root(what)) {
        return;
    }
    let alone = ALONE.contains(&mode);
    let _turn = if alone { turn() } else { shared_turn() };
    let (bytes, ram_mib) = match mode {
        // Of smaller budgets a huge page is too large a part.
        "huge_pages" if full_size() => ("800M", 256),
        "huge_pages" => ("450M", 256),
        "sparse_in_huge_pages" => ("1000M", 256),
        // What is huge at the fork, three tenths, fits twice: the kernel gives it, and none leaves while the child
        // lives.
        "huge_pages_after_fork" => ("320M", 256),
        "huge_pages_child_lives" => ("240M", 192),
        _ if full_size() => ("400M", 100),
        // What takes long: 72 processes, or all of memory again and again.
        "deep_family" | "moved_mapping" => ("32M", 16),
        "exec_itself" | "late_child" | "sparse" | "split_mapping" => ("60M", 20),
        _ if alone => ("200M", 50),
        _ => ("120M", 30),
    };
    let mut run = Run::plain(program("evil")).args([mode, "--bytes", bytes]);
    if ["huge_pages_after_fork", "huge_pages_child_lives"].contains(&mode)
        && gives_huge_pages()
        && uswap_binary().is_some()
    {
        // Without uswap all is present.
        run = run.args(["--present-max", "90"]);
    }
    let outcome = run.uswap(ram_mib, &[]).finish();
    outcome.must_succeed();
    assert_eq!(outcome.stdout, "OK\n");
    figures(&format!("evil_{mode}"), ram_mib, &outcome, &outcome);
    if mode == "excluded_place_again" {
        // Here the right content alone shows nothing: memory that stays in RAM is right too.
        outcome.must_hold_budget_mostly(ram_mib);
    }
    if mode.ends_with("_and_fast") {
        // New memory is touched faster than any reclaim: it holds only if the first touches already wait for room.
        outcome.must_hold_budget(ram_mib);
    }
    if mode == "sparse_in_huge_pages" && uswap_binary().is_some() {
        // 30,000 touches of 256,000 pages: what was given is what was touched, and no more than 3 % on top.
        let given = zero_filled(&outcome.stderr);
        assert!((25_000..30_900).contains(&given), "{}", outcome.stderr);
    }
    if mode == "late_child" {
        // One that is traced cannot serve its own faults: each would stop it.
        assert!(outcome.stderr.contains("lets itself be traced"), "{}", outcome.stderr);
    }
}

/// The list of the program and the list below must be the same.
#[test]
fn evil_every_mode_has_a_test() {
    let _turn = shared_turn();
    modes::all_have_a_test("evil", include_str!("evil.rs"), |mode| format!("evil_{mode} => \"{mode}\""));
}

macro_rules! modes {
    ($($test:ident => $mode:literal),* $(,)?) => {
        $(
            #[test]
            fn $test() {
                case($mode);
            }
        )*
    };
}

modes! {
    evil_close_all_descriptors => "close_all_descriptors",
    evil_few_descriptors_allowed => "few_descriptors_allowed",
    evil_limits_after_start => "limits_after_start",
    evil_unshare_descriptors => "unshare_descriptors",
    evil_block_all_signals => "block_all_signals",
    evil_holes_stay_free => "holes_stay_free",
    evil_signal_storm => "signal_storm",
    evil_own_segv_and_bus_handlers => "own_segv_and_bus_handlers",
    evil_alternate_stack => "alternate_stack",
    evil_small_alternate_stack => "small_alternate_stack",
    evil_fault_in_handler => "fault_in_handler",
    evil_execute_in_handler => "execute_in_handler",
    evil_deep_family => "deep_family",
    evil_exec_itself => "exec_itself",
    evil_killed_at_any_time => "killed_at_any_time",
    evil_memory_before_main => "memory_before_main",
    evil_late_child => "late_child",
    evil_filled_by_the_kernel => "filled_by_the_kernel",
    evil_drop_privileges => "drop_privileges",
    evil_changes_at_the_beginning => "changes_at_the_beginning",
    evil_changes_at_the_end => "changes_at_the_end",
    evil_thousand_threads => "thousand_threads",
    evil_threads_share_pages => "threads_share_pages",
    evil_wipe_on_fork => "wipe_on_fork",
    evil_populated => "populated",
    evil_huge_pages => "huge_pages",
    evil_huge_pages_after_fork => "huge_pages_after_fork",
    evil_huge_pages_child_lives => "huge_pages_child_lives",
    evil_sparse_in_huge_pages => "sparse_in_huge_pages",
    evil_dont_fork => "dont_fork",
    evil_excluded_place_again => "excluded_place_again",
    evil_split_mapping => "split_mapping",
    evil_mapped_again => "mapped_again",
    evil_moved_mapping => "moved_mapping",
    evil_large_and_fast => "large_and_fast",
    evil_allocated_and_fast => "allocated_and_fast",
    evil_allocated_again => "allocated_again",
    evil_lock_part => "lock_part",
    evil_own_userfaultfd => "own_userfaultfd",
    evil_shared_anonymous => "shared_anonymous",
    evil_sparse => "sparse",
    evil_syscalls_on_cold_buffers => "syscalls_on_cold_buffers",
    evil_heap_and_stack => "heap_and_stack",
    evil_rounding => "rounding",
    evil_no_time_stamps => "no_time_stamps",
}
