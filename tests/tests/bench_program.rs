//! `uswap bench -- PROGRAM`: what a program does is compared with its run without a limit, by root and by a user
//! without rights. No thresholds on time.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use uswap_tests::{Outcome, Run, Scratch, needs, report, skip, turn, uswap_binary};

/// Fills 40 MiB, half of it random, checks it in mixed order, prints what comes of it, and ends with code 3.
const PROGRAM: &str = "
import random, sys
random.seed(7)
pages = [random.randbytes(2048) + bytes(2048) for _ in range(10000)]
sums = [sum(page[::64]) for page in pages]
order = list(range(10000))
random.shuffle(order)
assert all(sum(pages[i][::64]) == sums[i] for i in order)
print(sum(sums))
sys.exit(3)
";

/// Whose rights a bench has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum User {
    /// Who runs the tests.
    Same,
    /// Nobody has a right that others have not.
    Nobody,
}

/// `uswap bench` with these options and this program, in a directory that everybody may write to. None, with a line
/// that says why, where this user cannot.
fn bench(user: User, scratch: &Scratch, options: &[&str], program: &[&str]) -> Option<Outcome> {
    let Some(binary) = uswap_binary() else {
        skip("there is no uswap binary: nothing to bench");
        return None;
    };
    let mut words: Vec<&str> = Vec::new();
    if user == User::Nobody {
        words.extend(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
        let may = Command::new(words[0]).args(&words[1..]).args(["test", "-x"]).arg(&binary).status();
        if !may.is_ok_and(|status| status.success()) {
            skip("this needs root, setpriv, and a target directory that everybody may read");
            return None;
        }
    }
    let [swap, out] = ["swap", "out"].map(|name| {
        let path = scratch.file(name);
        std::fs::create_dir_all(&path).expect("the scratch directory is writable");
        std::fs::set_permissions(&path, Permissions::from_mode(0o777)).expect("it is ours");
        path.display().to_string()
    });
    let binary = binary.display().to_string();
    words.extend([binary.as_str(), "bench", "--swap-dir", &swap, "--out", &out]);
    let run = Run::plain(words[0]).args(&words[1..]).args(options).arg("--").args(program);
    let outcome = run.timeout(Duration::from_secs(300)).finish();
    let left = std::fs::read_dir(&swap).expect("it was made").count();
    assert_eq!(left, 0, "the bench left something in {swap}");
    Some(outcome)
}

fn results(scratch: &Scratch) -> serde_json::Value {
    let text = std::fs::read_to_string(scratch.file("out/results.json")).expect("the results are written");
    serde_json::from_str(&text).expect("they are JSON")
}

/// How the only run of a rival ended, and what was said of it; why it was left out, if it was.
fn ending(results: &serde_json::Value, rival: &str) -> (String, String) {
    let cells = results["cells"].as_array().expect("there are cells");
    let cell = cells.iter().find(|cell| cell["rival"] == rival).expect("the rival is in the results");
    if let Some(why) = cell["left_out"].as_str() {
        return ("left out".to_owned(), why.to_owned());
    }
    let outcome = &cell["runs"][0]["outcome"];
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    (text(&outcome["how"]), text(&outcome["detail"]))
}

/// True RAM of the only run of a rival, in parts of the budget.
fn share(results: &serde_json::Value, rival: &str) -> f64 {
    let cells = results["cells"].as_array().expect("there are cells");
    let cell = cells.iter().find(|cell| cell["rival"] == rival).expect("the rival is in the results");
    let sum = cell["runs"][0]["memory"]["sum_bytes"].as_f64().expect("it ran");
    sum / results["budget_bytes"].as_f64().expect("there is a budget")
}

/// The right result is that of the program, even if it is an exit code that says "failed".
fn a_program_is_measured(user: User) {
    let _turn = turn();
    if !needs(&["python3"]) {
        return;
    }
    let scratch = Scratch::new();
    let options = ["--ram", "24M", "--rounds", "1", "--timeout", "60", "--rivals", "zram-lz4,uswap"];
    let Some(outcome) = bench(user, &scratch, &options, &["python3", "-c", PROGRAM]) else { return };
    outcome.must_succeed();
    let results = results(&scratch);
    let unlimited = results["workloads"][0]["unlimited"]["result"].as_str().expect("it is there");
    assert!(unlimited.starts_with("exit code 3, standard output "), "{unlimited}");
    for rival in ["none", "uswap"] {
        assert_eq!(ending(&results, rival).0, "done", "{rival}: {}", outcome.stderr);
        report(&format!(
            "bench of a program: {rival} has {:.0} % of the RAM",
            100.0 * share(&results, rival)
        ));
    }
    // The program takes 40 MiB and the interpreter; uswap keeps to the budget, within what it may be over for a moment.
    assert!(share(&results, "none") > 1.6, "its memory was not seen");
    let ours = share(&results, "uswap");
    assert!((0.5..1.3).contains(&ours), "{ours} of the budget");
    let zram = ending(&results, "zram-lz4");
    let can = rustix::process::geteuid().is_root()
        && user == User::Same
        && Path::new("/sys/class/zram-control").exists()
        && std::fs::read_to_string("/proc/swaps").is_ok_and(|text| text.lines().count() == 1);
    // The kernel may kill its own.
    assert_eq!(zram.0 == "left out", !can, "{zram:?}");
    assert_ne!(zram.0, "failed", "{zram:?}");
    let line = format!("zram-lz4 is left out: {}", zram.1);
    assert_eq!(outcome.stderr.contains(&line), !can, "{}", outcome.stderr);
    assert!(outcome.stdout.contains("One program at the same true RAM, 24 MiB"), "{}", outcome.stdout);
}

#[test]
fn bench_program_is_measured() {
    a_program_is_measured(User::Same);
}

#[test]
fn bench_program_is_measured_for_a_user_without_rights() {
    a_program_is_measured(User::Nobody);
}

/// One that differs under uswap only, and one that never does the same twice.
#[test]
fn bench_program_with_another_result_is_wrong() {
    let _turn = turn();
    let options = ["--ram", "24M", "--rounds", "1", "--rivals", "uswap"];
    let scratch = Scratch::new();
    let script = "echo same; [ -z \"$USWAP_RUN\" ] || exit 3";
    let Some(outcome) = bench(User::Same, &scratch, &options, &["sh", "-c", script]) else { return };
    outcome.must_succeed();
    let seen = results(&scratch);
    assert_eq!(ending(&seen, "none").0, "done");
    let (how, why) = ending(&seen, "uswap");
    assert_eq!(how, "failed");
    assert!(why.starts_with("WRONG RESULT: exit code 3, "), "{why}");
    assert!(why.contains("; without a limit exit code 0, "), "{why}");
    assert!(outcome.stdout.contains("wrong 1 of 1"), "{}", outcome.stdout);
    assert!(outcome.stderr.contains("which fits into 24 MiB"), "{}", outcome.stderr);

    let scratch = Scratch::new();
    let counter = scratch.file("counter").display().to_string();
    let script = format!("echo one >> {counter}; wc -l < {counter}");
    let Some(outcome) = bench(User::Same, &scratch, &options, &["sh", "-c", &script]) else { return };
    outcome.must_succeed();
    let seen = results(&scratch);
    for rival in ["none", "uswap"] {
        let (how, why) = ending(&seen, rival);
        assert!(how == "failed" && why.contains("WRONG RESULT: exit code 0, "), "{rival}: {how}, {why}");
    }
    assert!(outcome.stdout.contains("Runs without a limit differ"), "{}", outcome.stdout);
}

#[test]
fn bench_program_that_is_not_there_is_named() {
    let scratch = Scratch::new();
    let Some(outcome) = bench(User::Same, &scratch, &[], &["no-such-program"]) else { return };
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.stderr.contains("there is no program 'no-such-program'"), "{}", outcome.stderr);
}
