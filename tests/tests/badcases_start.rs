//! What cannot work says so at once: a clear message, a right exit code, no hang.

use std::path::{Path, PathBuf};
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
    Run::plain(binary).args(words).timeout(Duration::from_secs(120)).finish()
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

/// What makes no sense on this machine is asked back, with what may have been meant.
#[test]
fn badcases_sizes_beyond_the_machine() {
    let _turn = turn();
    let Some(binary) = binary() else { return };
    let scratch = Scratch::new();
    let dir = scratch.path().display();
    let cases: &[(&[&str], i32, &str)] = &[
        (&["--ram", "100T"], 2, "this machine has"),
        (&["--ram", "64"], 2, "did you mean 64M?"),
        (&["--ram", "64K"], 2, "did you mean 64M?"),
        (&["--ram", "64M", "--swap", &format!("{dir}:8")], 2, "did you mean 8M?"),
        (&["--ram", "64M", "--swap", "/dev/shm:256G", "--allow-tmpfs"], 125, "/dev/shm"),
        (&["--ram", "64M", "--swap-min-free", "64"], 2, "did you mean 64M?"),
        (&["--ram", "64M", "--swap-min-free", "1000T"], 125, "stay free"),
        (&["--ram", "64M", "--pool", "30"], 2, "did you mean 30%?"),
        (&["--ram", "64M", "--pool", "64M"], 2, "30%"),
        (&["--ram", "64M", "--protect", "db=64"], 2, "db=100M"),
        (&["--ram", "64M", "--protect", "db=1T"], 125, "--protect"),
    ];
    for (options, code, asked) in cases {
        let words = [&["run"], *options, &["--", "echo", "it ran"]].concat();
        let outcome = run_words(&binary, &words);
        assert!(outcome.stderr.contains(asked), "{options:?}: no '{asked}' in: {}", outcome.stderr);
        assert_eq!(outcome.code, Some(*code), "{options:?}: {}", outcome.stderr);
        assert_eq!(outcome.stdout, "", "{options:?}");
    }
}

/// A pool that is too small for its size classes gets more than was asked for, and the user knows.
#[test]
fn badcases_a_pool_that_gets_more_is_told() {
    let _turn = turn();
    let Some(binary) = binary() else { return };
    let said = |pool: &str, more: &[&str]| {
        let words = [&["run", "--ram", "64M", "--pool", pool][..], more, &["--", "echo", "it ran"]].concat();
        let outcome = run_words(&binary, &words);
        assert!(outcome.code == Some(0) && outcome.stdout.contains("it ran"), "{}", outcome.stderr);
        outcome.stderr.contains("--pool asks for 655.4 KiB, and the pool may have 3.9 MiB")
    };
    assert!(said("1%", &[]));
    assert!(!said("1%", &["--quiet"]));
    assert!(!said("50%", &[]));
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

/// `doctor` names what is missing, too.
#[test]
fn badcases_doctor_speaks_of_userfaultfd() {
    let _turn = turn();
    let Some(binary) = binary() else { return };
    let outcome = run_words(&binary, &["doctor"]);
    assert!(format!("{}{}", outcome.stdout, outcome.stderr).contains("userfaultfd"), "{outcome:?}");
}

/// Name of the agent's file.
const AGENT: &str = "libuswap_agent.so";

/// The agent that the command finds by itself.
fn agent(binary: &Path) -> PathBuf {
    let dir = binary.parent().expect("it is in a directory");
    let places = [dir.join(AGENT), dir.join("../lib/uswap").join(AGENT)];
    places.into_iter().find(|path| path.is_file()).expect("an agent lies beside the command")
}

/// What is no agent, or not all of it, or of other sources, is refused before anything runs; `doctor` says so too.
#[test]
fn badcases_agent_that_is_none() {
    let _turn = turn();
    let Some(binary) = binary() else { return };
    let scratch = Scratch::new();
    let file = scratch.file(AGENT);
    let whole = std::fs::read(agent(&binary)).expect("the agent can be read");
    let libm = ["/lib/x86_64-linux-gnu/libm.so.6", "/usr/lib64/libm.so.6", "/usr/lib/libm.so.6"];
    let libm = libm.iter().find_map(|path| std::fs::read(path).ok()).unwrap_or_default();
    let script = b"#!/bin/sh\nexit 0\n".to_vec();
    let mut cases = vec![
        (Vec::new(), "empty"),
        (script, "not a shared library"),
        (of_other_sources(&whole), "other sources"),
    ];
    if !libm.is_empty() {
        cases.push((libm, "not an agent of uswap"));
    }
    for end in [1, 63, 64, 832, 4095, whole.len() / 4, whole.len() / 2, whole.len() - 64, whole.len() - 1] {
        cases.push((whole[..end].to_vec(), "cut off"));
    }
    for (bytes, seen) in cases {
        std::fs::write(&file, &bytes).expect("there is room");
        let agent = file.to_str().expect("a plain path");
        let run = Run::plain(&binary).args(["run", "-q", "--ram", "64M", "--", "echo", "it ran"]);
        let outcome = run.env("USWAP_AGENT", agent).timeout(Duration::from_secs(120)).finish();
        refused(&outcome, &[seen]);
        assert_eq!(outcome.code, Some(125), "{} bytes: {}", bytes.len(), outcome.stderr);
        for word in [agent, "budget", "USWAP_AGENT"] {
            assert!(outcome.stderr.contains(word), "no {word} in: {}", outcome.stderr);
        }
        let outcome = Run::plain(&binary).arg("doctor").env("USWAP_AGENT", agent).finish();
        assert_eq!(outcome.code, Some(1), "{}", outcome.stdout);
        assert!(outcome.stdout.contains(seen), "no {seen} in: {}", outcome.stdout);
    }
    std::fs::write(&file, &whole).expect("there is room");
    let run = Run::plain(&binary).args(["run", "-q", "--ram", "64M", "--", "echo", "it ran"]);
    let outcome = run.env("USWAP_AGENT", file.to_str().expect("a plain path")).finish();
    outcome.must_succeed();
    assert_eq!(outcome.stdout, "it ran\n");
}

/// The same library, but with another hash of its sources wherever it is written.
fn of_other_sources(agent: &[u8]) -> Vec<u8> {
    const OWNER: &[u8] = b"\x01\0\0\0uswap\0\0\0";
    let note = agent.windows(OWNER.len()).position(|window| window == OWNER).expect("the agent has a note");
    let sources = note + OWNER.len() + 16;
    let mut other = agent.to_vec();
    for half in [sources, sources + 8] {
        let bytes = &agent[half..half + 8];
        for at in (0..agent.len() - 8).filter(|&at| agent[at..at + 8] == *bytes) {
            other[at] ^= 0xff;
        }
    }
    other
}

/// Who installs uswap anew while it runs something gets no mixture: what starts from then on is left alone, and one of
/// them says so for all.
#[test]
fn badcases_agent_replaced_while_it_runs() {
    let _turn = turn();
    let Some(binary) = binary() else { return };
    if !needs(&["python3"]) {
        return;
    }
    let scratch = Scratch::new();
    let (file, new) = (scratch.file(AGENT), scratch.file("new.so"));
    let whole = std::fs::read(agent(&binary)).expect("the agent can be read");
    std::fs::write(&file, &whole).expect("there is room");
    std::fs::write(&new, of_other_sources(&whole)).expect("there is room");
    // Small processes have nothing to do with the run before they grow.
    let script = "say() { /usr/bin/python3 -c 'import sys; block = bytearray(8 << 20); print(sys.argv[1])' $1; }; \
                  say before; mv \"$0\" \"$1\"; say one; say two; say three";
    let words = ["run", "-q", "--ram", "64M", "--", "/bin/sh", "-c", script];
    let outcome = Run::plain(&binary)
        .args(words)
        .args([&new, &file])
        .env("USWAP_AGENT", file.to_str().expect("a plain path"))
        .timeout(Duration::from_secs(120))
        .finish();
    outcome.must_succeed();
    assert_eq!(outcome.stdout, "before\none\ntwo\nthree\n");
    let said = outcome.stderr.matches("is not of the sources").count();
    assert_eq!(said, 1, "once for all: {}", outcome.stderr);
}

/// The shell runs `line`, in which `"$@"` is uswap with these words.
fn in_shell(line: &str, binary: &Path, words: &[&str]) -> Outcome {
    let binary = binary.to_str().expect("its path is text");
    Run::plain("sh").args(["-c", line, "sh", binary]).args(words).finish()
}

/// The shell's limit is in blocks of 512 bytes: too little for a swap file, and enough for the message.
#[test]
fn badcases_a_limit_of_file_sizes_is_named() {
    let _turn = turn();
    let Some(binary) = binary() else { return };
    let words = ["run", "--ram", "64M", "--", "echo", "it ran"];
    let outcome = in_shell("ulimit -f 200; exec \"$@\"", &binary, &words);
    refused(&outcome, &["ulimit -f"]);
}

/// Lets itself be traced, of which uswap says that its memory comes home. Python itself ignores SIGPIPE.
const SAYS_SOMETHING: &str = "
import ctypes, signal
signal.signal(signal.SIGPIPE, signal.SIG_DFL)
kept = [bytes([i % 251]) * 4096 for i in range(12000)]
ctypes.CDLL(None).ptrace(0, 0, 0, 0)
print(sum(row[0] for row in kept), flush=True)
";

/// Standard error of the run is a pipe that nobody reads any more.
#[test]
fn badcases_a_message_that_nobody_reads_ends_nobody() {
    let _turn = turn();
    let Some(binary) = binary() else { return };
    if !needs(&["python3"]) {
        return;
    }
    let line = "{ sleep 0.3; \"$@\" 2>&3 >&4; echo code $? >&4; } 3>&1 4>&2 | true";
    let words = ["run", "--ram", "24M", "--", "python3", "-c", SAYS_SOMETHING];
    let outcome = in_shell(line, &binary, &words);
    outcome.must_succeed();
    assert_eq!(outcome.stderr, "1495128\ncode 0\n");
}
