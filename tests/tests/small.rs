//! Processes that do something while they are small, and then grow: see the program `small`.

use uswap_tests::{Run, Scratch, modes, program, shared_turn, uswap_binary};

/// A process of it is small with half a MiB of memory.
const RAM_MIB: u64 = 64;

fn case(mode: &str) {
    case_with(mode, &[]);
}

fn case_with(mode: &str, options: &[&str]) {
    let _turn = shared_turn();
    let run = || Run::plain(program("small")).args([mode, "--bytes", "160M"]);
    let plain = run().finish();
    plain.must_succeed();
    let outcome = run().uswap(RAM_MIB, options).finish();
    outcome.must_succeed();
    assert_eq!(outcome.stdout, plain.stdout);
    assert!(outcome.stdout.ends_with("OK\n"), "{}", outcome.stdout);
    if uswap_binary().is_some() {
        let is_left_alone = outcome.stderr.contains("left alone");
        assert_eq!(is_left_alone, mode == "too_much_advice", "{}", outcome.stderr);
        assert!(is_left_alone || outcome.stderr.contains("compressed"), "{}", outcome.stderr);
    }
}

/// The descriptors are too few for eight swap files, which it finds when it has its record: that is given up.
#[test]
fn it_takes_its_place_again_when_it_has_lost_it() {
    let directories: Vec<Scratch> = (0..8).map(|_| Scratch::new()).collect();
    let names: Vec<String> =
        directories.iter().map(|scratch| scratch.file("").display().to_string()).collect();
    let options: Vec<&str> = names.iter().flat_map(|name| ["--swap", name.as_str()]).collect();
    case_with("few_descriptors_when_seen", &options);
}

/// The list of the program and the list below must be the same.
#[test]
fn every_mode_has_a_test() {
    modes::all_have_a_test("small", include_str!("small.rs"), |mode| format!("=> \"{mode}\""));
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
    signals_stay_its_own => "signals",
    growth_in_a_handler_is_seen_later => "grows_in_handler",
    forked_children_grow_by_themselves => "children",
    a_child_that_shares_the_memory_does_not_arm_it => "vfork",
    nor_does_one_in_a_forked_child => "vfork_in_child",
    programs_get_their_environment => "executes",
    a_thread_that_nobody_has_seen_is_armed => "thread_on_own_stack",
    a_process_that_cannot_be_armed_is_armed_later => "thread_with_a_debugger",
    who_arms_waits_for_a_thread_that_another_traces => "thread_with_a_tracer",
    threads_wait_for_the_one_that_arms => "threads_beside_arming",
    growth_of_one_block_is_seen => "reallocates",
    advice_that_nobody_has_seen_is_kept_to => "raw_advice",
    growth_by_raw_system_calls_is_found => "raw_growth",
    it_is_armed_when_it_may_open_files_again => "no_descriptors",
    it_takes_its_place_when_it_may_open_files_again => "no_descriptors_when_seen",
    it_takes_its_place_with_some_descriptors => "few_descriptors_when_seen",
    a_child_takes_its_place_later => "child_without_descriptors",
    who_has_more_of_it_is_left_alone_and_goes_on => "too_much_advice",
}
