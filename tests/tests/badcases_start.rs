//! What cannot work says so at once: a clear message, a right exit code, no hang.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;
use uswap_tests::{Outcome, Run, Scratch, needs, skip, turn, uswap_binary};

fn binary() -> Option<PathBuf> {
    let binary = uswap_binary();
    if binary.is_none() {
        skip("this case is about uswap itself");
    }
    binary
}

fn run_words(binary: &PathBuf, words: &[&str]) -> Outcome {
    Run::plain(binary).args(words).timeout(Duration::from_secs(20)).finish()
}

/// The message is on standard error, contains one of `wanted`, and the program was not run.
#[track_caller]
fn refused(outcome: &Outcome, wanted: &[&str]) {
    assert!(
        outcome.code.is_some_and(|code| code != 0),
        "code {:?}, signal {:?}",
        outcome.code,
        outcome.signal
    );
    let said = outcome.stderr.to_lowercase();
    assert!(wanted.iter().any(|word| said.contains(word)), "none of {wanted:?} in: {}", outcome.stderr);
    assert!(!outcome.stderr.contains("panicked"), "{}", outcome.stderr);
    assert!(!outcome.stdout.contains("it ran"), "the program was run: {}", outcome.stderr);
}

#[test]
fn badcases_ram_malformed_or_too_small() {
    let _turn = turn();
    let Some(binary) = binary() else { return };
    for ram in ["", "abc", "-5M", "12X", "0", "1K", "100", "99999999999999999999G", "50%%"] {
        let outcome = run_words(&binary, &["run", "--ram", ram, "--", "echo", "it ran"]);
        refused(&outcome, &["ram"]);
    }
    refused(&run_words(&binary, &["run", "--ram", "256M"]), &["usage", "program", "required"]);
}

#[test]
fn badcases_unknown_program() {
    let _turn = turn();
    let Some(binary) = binary() else { return };
    let outcome = run_words(&binary, &["run", "--ram", "128M", "--", "no-such-program-here", "it ran"]);
    refused(&outcome, &["no-such-program-here"]);
    assert_eq!(outcome.code, Some(127), "shells answer 127: {}", outcome.stderr);
    let outcome = run_words(&binary, &["run", "--ram", "128M", "--", "/etc/passwd"]);
    refused(&outcome, &["/etc/passwd"]);
    assert_eq!(outcome.code, Some(126), "shells answer 126: {}", outcome.stderr);
}

/// A static program cannot be managed: it is named, and either refused or run as it is.
#[test]
fn badcases_static_program_is_named() {
    let _turn = turn();
    let Some(binary) = binary() else { return };
    if !needs(&["busybox"]) {
        return;
    }
    let outcome = run_words(&binary, &["run", "--ram", "128M", "--", "/bin/busybox", "echo", "hello"]);
    assert!(outcome.stderr.contains("busybox") && outcome.stderr.contains("static"), "{}", outcome.stderr);
    assert!(outcome.code != Some(0) || outcome.stdout == "hello\n", "{outcome:?}");
}

#[test]
fn badcases_swap_directory_missing_or_unwritable() {
    let _turn = turn();
    let Some(binary) = binary() else { return };
    let places = ["/no/such/directory", "/proc", "/etc/passwd"];
    for place in places {
        let outcome = run_words(&binary, &["run", "--ram", "128M", "--swap", place, "--", "echo", "it ran"]);
        refused(&outcome, &[place]);
    }
    // tmpfs is memory: swapping to it is refused unless told.
    let outcome = run_words(&binary, &["run", "--ram", "128M", "--swap", "/dev/shm", "--", "echo", "it ran"]);
    refused(&outcome, &["tmpfs"]);
}

/// Without rights to a userfaultfd that serves the kernel, the message says what is missing.
#[test]
fn badcases_no_userfaultfd_for_this_user() {
    let _turn = turn();
    let Some(binary) = binary() else { return };
    if !needs(&["setpriv", "unshare"]) {
        return;
    }
    let reachable = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "test", "-x"])
        .arg(&binary)
        .status();
    if !reachable.is_ok_and(|status| status.success()) {
        return skip("this test needs root, and a target directory that everybody may read");
    }
    let scratch = Scratch::new();
    let script = format!(
        "mount --bind /dev/null /dev/userfaultfd && \
         exec setpriv --reuid=65534 --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all \
         {} run --ram 128M -- echo it ran",
        binary.display()
    );
    let outcome = Run::plain("unshare")
        .args(["-m", "/bin/sh", "-c", &script])
        .directory(scratch.path())
        .timeout(Duration::from_secs(20))
        .finish();
    refused(&outcome, &["userfaultfd"]);
}

/// `doctor` names what is missing, too.
#[test]
fn badcases_doctor_speaks_of_userfaultfd() {
    let _turn = turn();
    let Some(binary) = binary() else { return };
    let outcome = run_words(&binary, &["doctor"]);
    assert!(format!("{}{}", outcome.stdout, outcome.stderr).contains("userfaultfd"), "{outcome:?}");
}
