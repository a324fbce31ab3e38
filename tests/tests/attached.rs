//! Programs that give themselves a budget while they run, by the crate `uswap`: what they have is right, and nothing is
//! left of it afterwards.

use std::time::{Duration, Instant};

use rustix::process::Signal;
use uswap_tests::process::Process;
use uswap_tests::{Outcome, Run, full_size, program, shared_turn, uswap_binary};

/// A program, and where it finds the command. None: uswap is not what is tested.
fn limited(mode: &str, options: &[&str]) -> Option<Run> {
    let command = uswap_binary()?;
    let run = Run::plain(program("limited")).arg(mode).args(["--ram", "32M", "--bytes", "96M"]).args(options);
    let command = std::path::absolute(command).expect("there is a working directory");
    Some(run.env("USWAP_COMMAND", command.to_str().expect("its path is text")))
}

/// The supervisors of runs that this process has asked for.
fn supervisors(pid: i32) -> Vec<i32> {
    let of_process = format!("supervise\0--pid\0{pid}\0");
    let entries = std::fs::read_dir("/proc").expect("/proc is mounted").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let words = |pid: &i32| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    pids.filter(|pid| words(pid).contains(&of_process)).collect()
}

/// A supervisor ends when nobody needs it.
fn must_end(pid: i32) {
    let began = Instant::now();
    while !supervisors(pid).is_empty() {
        assert!(began.elapsed() < Duration::from_secs(120), "the supervisor of process {pid} is there still");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Runs to its good end.
fn must_be_right(mode: &str, options: &[&str]) -> Option<Outcome> {
    let _turn = shared_turn();
    let running = limited(mode, options)?.start();
    let pid = running.pid();
    let outcome = running.finish();
    outcome.must_succeed();
    assert!(outcome.stdout.ends_with("OK\n"), "{}", outcome.stdout);
    if let Some(line) = outcome.stdout.lines().find(|line| line.starts_with("SKIP")) {
        println!("{line}");
    }
    must_end(pid);
    Some(outcome)
}

#[test]
fn what_is_over_the_budget_already_comes_into_it() {
    let Some(outcome) = must_be_right("alone", &[]) else { return };
    assert_eq!(outcome.stderr, "", "there is nothing to be said");
}

#[test]
fn no_wait_of_a_thread_ends_in_another_way() {
    for _ in 0..if full_size() { 500 } else { 3 } {
        let _the_binary_may_be_none = must_be_right("waits", &["--threads", "96"]);
    }
}

#[test]
fn threads_that_use_memory_find_all_of_it() {
    for _ in 0..if full_size() { 500 } else { 3 } {
        let _the_binary_may_be_none = must_be_right("faults", &["--threads", "20"]);
    }
}

#[test]
fn what_was_advised_before_is_kept_to() {
    must_be_right("advised", &[]);
}

#[test]
fn children_belong_to_the_run_that_their_parent_asked_for() {
    must_be_right("children", &[]);
}

#[test]
fn a_budget_can_be_given_up() {
    must_be_right("release", &[]);
}

#[test]
fn mistakes_are_told_and_leave_the_process_as_it_was() {
    must_be_right("twice", &[]);
}

#[test]
fn what_the_kernel_does_behind_its_back_is_found() {
    must_be_right("ring", &[]);
}

#[test]
fn a_program_that_is_traced_gets_none_and_goes_on() {
    must_be_right("traced", &[]);
}

#[test]
fn a_program_outlives_its_supervisor() {
    let _turn = shared_turn();
    let Some(run) = limited("lasts", &["--seconds", "3"]) else { return };
    let mut running = run.start();
    let pid = running.pid();
    while !running.ended() && !running.output_so_far().contains("limited") {
        std::thread::sleep(Duration::from_millis(10));
    }
    let [supervisor] = supervisors(pid)[..] else { panic!("{:?}", running.messages_so_far()) };
    Process::now(supervisor).expect("it lives").signal(Signal::KILL);
    let outcome = running.finish();
    outcome.must_succeed();
    assert!(outcome.stderr.contains("nobody keeps the budget"), "{}", outcome.stderr);
}

#[test]
fn a_supervisor_ends_with_a_program_that_is_killed() {
    let _turn = shared_turn();
    let Some(run) = limited("lasts", &["--seconds", "60"]) else { return };
    let mut running = run.start();
    let pid = running.pid();
    while !running.ended() && !running.output_so_far().contains("limited") {
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(supervisors(pid).len(), 1, "{}", running.messages_so_far());
    Process::now(pid).expect("nobody has waited for it").signal(Signal::KILL);
    assert_eq!(running.finish().signal, Some(Signal::KILL.as_raw()));
    must_end(pid);
}

#[test]
fn a_program_that_is_in_a_run_gets_no_other_budget() {
    let _turn = shared_turn();
    let Some(run) = limited("say", &[]) else { return };
    let outcome = run.uswap(64, &["-q"]).finish();
    outcome.must_succeed();
    assert!(outcome.stdout.contains("inside of a run"), "{}", outcome.stdout);
}
