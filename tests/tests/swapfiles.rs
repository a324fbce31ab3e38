//! Several swap files: which is filled first, and what happens when one of them is full or fails.

use std::path::Path;
use uswap_tests::touched::{BUDGET_MIB, must_be_right, touch};
use uswap_tests::{MIB, Outcome, Running, Scratch, SmallDisk, needs_uswap, report, shared_turn};

/// One line of the report for each swap file: bytes written to it, and the most that was in use.
struct Use {
    written: u64,
    peak: u64,
}

/// Runs the program with these swap files, sees that it reads what it wrote, and tells how much each file took.
/// `meanwhile` is done while it runs.
#[track_caller]
fn run(
    name: &str,
    swap: &[String],
    options: &[&str],
    meanwhile: impl FnOnce(&mut Running),
) -> (Outcome, Vec<Use>) {
    let scratch = Scratch::new();
    let json = scratch.file("report.json").to_string_lossy().into_owned();
    let mut words = vec!["--json", json.as_str()];
    swap.iter().for_each(|swap| words.extend(["--swap", swap.as_str()]));
    words.extend(options);
    let mut running = touch().uswap(BUDGET_MIB, &words).start();
    meanwhile(&mut running);
    let outcome = running.finish();
    must_be_right(&outcome);
    let text = std::fs::read_to_string(&json).expect("the report was written");
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let number = |file: &serde_json::Value, name: &str| file[name].as_u64().expect("a number");
    let files = value["swap_files"].as_array().expect("a list").iter();
    let files: Vec<Use> = files
        .map(|file| Use { written: number(file, "written_bytes"), peak: number(file, "peak_bytes") })
        .collect();
    let each: Vec<String> =
        files.iter().map(|file| format!("{} ({})", file.written / MIB, file.peak / MIB)).collect();
    report(&format!("{name}: MiB written to each (most in use): {}", each.join(", ")));
    (outcome, files)
}

fn place(directory: &Path, rest: &str) -> String {
    format!("{}:{rest}", directory.to_string_lossy())
}

#[test]
fn swapfiles_are_filled_by_priority_and_equal_ones_in_turn() {
    let _turn = shared_turn();
    if !needs_uswap() {
        return;
    }
    let scratch = Scratch::new();
    let directories = ["low", "one", "two", "first"].map(|name| scratch.file(name));
    directories.iter().for_each(|path| std::fs::create_dir(path).expect("the scratch directory is writable"));
    let [low, one, two, first] = &directories;
    // The last two go to the same directory.
    let swap = [
        place(low, "400M"),
        place(one, "400M:5"),
        place(two, "400M:5:solid-state"),
        place(first, "16M:9"),
        place(first, "16M:9:rotational"),
    ];
    let (_, files) = run("by_priority", &swap, &[], |_| ());
    let [low, one, two, first, other] = files.as_slice() else { panic!("five files were named") };
    assert_eq!(low.written, 0, "the others have room");
    assert!([first, other].iter().all(|file| file.peak > 15 * MIB), "the first ones are full");
    assert!(one.written > 40 * MIB && one.written.abs_diff(two.written) < 8 * MIB, "not in turn");
}

#[test]
fn swapfiles_one_disk_is_full_and_the_others_go_on() {
    let _turn = shared_turn();
    if !needs_uswap() {
        return;
    }
    let (Some(small), Some(large)) = (SmallDisk::new(48), SmallDisk::new(400)) else { return };
    let swap = [place(&small.mounted, "40M:9"), place(&large.mounted, "350M")];
    let (outcome, files) = run("one_is_full", &swap, &["--on-full", "kill"], |_| {
        // Somebody else takes half of the room that was free, or all that is left by now.
        let other = vec![1; 20 * MIB as usize];
        let _however_much_fits = std::fs::write(small.mounted.join("other"), other);
    });
    assert!(files[0].written > 10 * MIB && files[1].written > 60 * MIB);
    let named = format!("the swap file in '{}' is full", small.mounted.display());
    assert!(outcome.stderr.contains(&named), "not said: {}", outcome.stderr);
    assert!(!outcome.stderr.contains("over the budget from here"), "{}", outcome.stderr);
}

/// Writes to the first disk fail from some moment on; what was written before can be read.
#[test]
fn swapfiles_one_disk_fails_to_write_and_the_others_go_on() {
    let _turn = shared_turn();
    if !needs_uswap() {
        return;
    }
    let (Some(failing), Some(sound)) = (SmallDisk::new(400), SmallDisk::new(400)) else { return };
    let swap = [place(&failing.mounted, "350M:9"), place(&sound.mounted, "350M")];
    let (outcome, files) = run("one_fails", &swap, &["--on-full", "kill"], |running| {
        assert!(running.waits_for_swap_file(&failing.mounted, 20 * MIB).is_some(), "it was not used");
        failing.fail_writes();
    });
    assert!(files[0].written > 10 * MIB && files[1].written > 60 * MIB);
    let named = format!("the swap file in '{}' cannot be written", failing.mounted.display());
    assert!(outcome.stderr.contains(&named), "not said: {}", outcome.stderr);
}

#[test]
fn swapfiles_both_disks_are_full_and_the_rule_applies() {
    let _turn = shared_turn();
    if !needs_uswap() {
        return;
    }
    let (Some(one), Some(other)) = (SmallDisk::new(40), SmallDisk::new(48)) else { return };
    let swap = [place(&one.mounted, "36M"), place(&other.mounted, "43M")];
    let (outcome, files) = run("both_are_full", &swap, &["--on-full", "grow"], |_| ());
    assert!(files.iter().all(|file| file.written > 20 * MIB), "both were used");
    assert!(outcome.stderr.contains("over the budget from here"), "no message: {}", outcome.stderr);
    let words = ["--swap", &swap[0], "--swap", &swap[1], "--on-full", "kill"];
    let killed = touch().uswap(BUDGET_MIB, &words).finish();
    assert!(killed.code != Some(0), "200M of random bytes cannot fit");
    assert!(killed.stderr.contains("--on-full kill"), "no message: {}", killed.stderr);
}
