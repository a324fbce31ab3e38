//! Programs that take memory from a pool of the crate `uswap`, and advise about it: it is right, and nothing else of
//! them is managed.

use uswap_tests::{Run, modes, program, shared_turn, uswap_binary};

/// A program, and where it finds the command. None: uswap is not what is tested.
fn named(mode: &str) -> Option<Run> {
    let command = std::path::absolute(uswap_binary()?).expect("there is a working directory");
    let run = Run::plain(program("named")).arg(mode).args(["--ram", "32M", "--bytes", "96M"]);
    Some(run.env("USWAP_COMMAND", command.to_str().expect("its path is text")))
}

fn must_be_right(mode: &str) {
    let _turn = shared_turn();
    let Some(run) = named(mode) else { return };
    let outcome = run.finish();
    outcome.must_succeed();
    assert_eq!(outcome.stdout, "OK\n", "{mode}");
    assert!(mode == "sparse" || outcome.stderr.is_empty(), "there is nothing to be said: {}", outcome.stderr);
}

#[test]
fn each_mode_has_a_test() {
    modes::all_have_a_test("named", include_str!("named.rs"), |mode| format!("(\"{mode}\")"));
}

#[test]
fn a_table_larger_than_its_budget_is_right_and_nothing_else_is_managed() {
    must_be_right("table");
}

#[test]
fn the_kernel_reads_and_writes_what_was_taken_from_a_pool() {
    must_be_right("calls");
}

#[test]
fn threads_take_memory_and_give_it_back() {
    must_be_right("threads");
}

#[test]
fn a_vector_in_a_pool_grows_and_shrinks() {
    must_be_right("grows");
}

#[test]
fn a_child_has_what_its_parent_has_taken_and_what_it_executes_is_none_of_the_run() {
    must_be_right("children");
}

#[test]
fn address_space_is_not_taken_from_the_budget_before_it_is_used() {
    must_be_right("sparse");
}

#[test]
fn what_is_sent_away_goes_and_what_is_called_for_comes() {
    must_be_right("pageout");
}

#[test]
fn what_is_sent_away_goes_though_memory_was_never_short() {
    must_be_right("roomy");
}

#[test]
fn what_is_cold_goes_first() {
    must_be_right("cold");
}

#[test]
fn what_is_pinned_stays() {
    must_be_right("pin");
}

#[test]
fn memory_is_right_while_others_advise_about_it() {
    must_be_right("advised");
}

#[test]
fn a_process_has_one_budget() {
    must_be_right("terms");
}

#[test]
fn a_pool_of_a_process_with_a_budget_shares_it() {
    must_be_right("limited");
}

#[test]
fn a_pool_of_a_process_in_a_run_shares_its_budget() {
    let _turn = shared_turn();
    let Some(run) = named("run") else { return };
    let outcome = run.uswap(32, &[]).finish();
    outcome.must_succeed();
    assert_eq!(outcome.stdout, "OK\n");
}
