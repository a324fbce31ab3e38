//! Filters that a program sets on its own calls (seccomp), and what is under way in it when they come.

mod places;

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use places::example;

/// What it prints, if it ends well.
fn output(command: &mut Command) -> String {
    let output = command.output().expect("the program starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "signal {:?}: {errors}", output.status.signal());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Calls that were made and dispatched of this number.
fn counts(file: &std::path::Path, number: u64) -> (u64, u64) {
    let text = std::fs::read_to_string(file).expect("each process appends its counts");
    let lines = text.lines().map(|line| {
        let words: Vec<u64> = line.split(' ').map(|word| word.parse().expect("a number")).collect();
        <[u64; 4]>::try_from(words).expect("process, number, calls, dispatched")
    });
    lines.filter(|line| line[1] == number).fold((0, 0), |sum, line| (sum.0 + line[2], sum.1 + line[3]))
}

/// Without the wait for the patch that is under way nearly all children are ended by their filter.
#[test]
fn a_filter_for_all_threads_meets_no_call_of_a_patch() {
    const GETUID: u64 = 102;
    const ROUNDS: u64 = 100;
    let file = std::env::temp_dir().join(format!("interpose-filters-{}", std::process::id()));
    let _there_is_none = std::fs::remove_file(&file);
    let mut command = Command::new(example("filtered"));
    command
        .arg(ROUNDS.to_string())
        .env("LD_PRELOAD", example("libcounting.so"))
        .env("INTERPOSE_COUNTS", &file)
        .env("INTERPOSE_PATCH_AFTER", "1");
    let told = output(&mut command);
    let (calls, dispatched) = counts(&file, GETUID);
    let _left_behind = std::fs::remove_file(&file);
    assert_eq!(told, format!("{ROUNDS} of {ROUNDS} ended by themselves\n"));
    assert_eq!(calls, ROUNDS * 2 * 512);
    assert!(dispatched < calls, "no site was patched");
    println!("{calls} calls, {dispatched} dispatched");
}

#[test]
fn a_filter_is_known_before_it_is_set() {
    let told = output(Command::new(example("turning_points")).arg("filter"));
    assert_eq!(told, "programs are left alone as soon as there is a filter\n");
}

/// Else it would have another slot from then on, without what is known of it.
#[test]
fn a_thread_is_known_in_a_handler_behind_the_change_of_its_pointer() {
    let told = output(Command::new(example("turning_points")).arg("thread_pointer"));
    assert_eq!(told, "the thread is known behind each instruction\n");
}
