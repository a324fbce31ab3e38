//! A run that is asked and steered by the command while its program runs. Called by the tests of steering.

use crate::MIB;
use crate::places::{report, uswap_binary};
use crate::run::Running;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// A state that is waited for comes within this time, or never.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// `uswap WORDS... PID`, or an error with what it says.
pub fn ask(words: &[&str], pid: i32) -> Output {
    let mut command = Command::new(uswap_binary().expect("it was looked for"));
    command.args(words).arg(pid.to_string()).output().expect("it starts")
}

/// What a command that must succeed says.
#[track_caller]
pub fn must_say(words: &[&str], pid: i32) -> String {
    let output = ask(words, pid);
    assert!(output.status.success(), "{words:?}: {output:?}");
    let said = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
    report(&format!("uswap {}: {said}", words.join(" ")));
    said
}

/// Panics unless the command is refused with these words.
#[track_caller]
pub fn must_refuse(words: &[&str], pid: i32, why: &str) {
    let output = ask(words, pid);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains(why), "{words:?}: {output:?}");
}

/// What `uswap stat --json` says.
pub fn stat(pid: i32) -> serde_json::Value {
    let output = ask(&["stat", "--json"], pid);
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).expect("it is JSON")
}

/// A number of the run.
pub fn number(pid: i32, name: &str) -> u64 {
    stat(pid)[name].as_u64().unwrap_or_else(|| panic!("no number for {name}"))
}

/// Waits until a number of the run is as it should be.
#[track_caller]
pub fn wait_until(running: &mut Running, name: &str, is_right: impl Fn(u64) -> bool) -> u64 {
    let began = Instant::now();
    loop {
        assert!(!running.ended(), "the program ended before {name} was right");
        // It may not listen yet.
        let answer = ask(&["stat", "--json"], running.pid());
        let stat: serde_json::Value = serde_json::from_slice(&answer.stdout).unwrap_or_default();
        let value = stat[name].as_u64();
        if let Some(value) = value.filter(|value| is_right(*value)) {
            return value;
        }
        assert!(began.elapsed() < PATIENCE, "{name} stays {value:?}: {answer:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// What is used is within the budget, but for what forks and new mappings bring for a moment.
#[track_caller]
pub fn must_keep_to(pid: i32, ram_mib: u64) {
    let look = |_| {
        std::thread::sleep(Duration::from_millis(100));
        number(pid, "used_bytes")
    };
    let used: Vec<u64> = (0..10).map(look).collect();
    let over = used.iter().filter(|used| **used > ram_mib * MIB / 100 * 110).count();
    assert!(over <= 2, "{used:?} of {ram_mib} MiB");
}

/// Halves a budget that the run uses, and looks whether the half is kept to. What `uswap set` waits for is that it
/// holds.
#[track_caller]
pub fn halve(running: &mut Running, name: &str, ram_mib: u64) {
    wait_until(running, "used_bytes", |bytes| bytes > ram_mib * MIB / 100 * 80);
    std::thread::sleep(Duration::from_secs(1));
    let half_mib = ram_mib / 2;
    let said = must_say(&["set", "--ram", &format!("{half_mib}M")], running.pid());
    assert!(
        said.starts_with(&format!("--ram went from {ram_mib} MiB to {half_mib} MiB: ")),
        "{name}: {said}"
    );
    assert!(!said.contains("still over"), "{name}: {said}");
    must_keep_to(running.pid(), half_mib);
}

/// Gives a run `ram_mib`, and looks whether most of it gets used and all of it is kept to.
#[track_caller]
pub fn enlarge(running: &mut Running, name: &str, ram_mib: u64) {
    must_say(&["set", "--ram", &format!("{ram_mib}M")], running.pid());
    let used = wait_until(running, "used_bytes", |bytes| bytes > ram_mib * MIB / 100 * 70);
    report(&format!("{name}: {} MiB are used of {ram_mib}", used / MIB));
    must_keep_to(running.pid(), ram_mib);
}
