//! The command as a user meets it, as far as no engine is needed: refusals with their codes, `doctor`, and a `demo`
//! that is stopped.

#![forbid(unsafe_code)]

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

fn uswap() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uswap"));
    command.stdin(Stdio::null()).env_remove("USWAP_AGENT");
    command
}

fn run(arguments: &[&str]) -> Output {
    uswap().args(["run", "--ram", "64M"]).args(arguments).output().unwrap()
}

/// As much of an agent as the command looks at: a dynamic segment, and a note with the identity of this build.
fn agent() -> Vec<u8> {
    let mut note = Vec::new();
    let words = [uswap_identity::NOTE_OWNER.len() as u32, uswap_identity::IDENTITY_BYTES as u32];
    for word in [words[0], words[1], uswap_identity::NOTE_KIND] {
        note.extend_from_slice(&word.to_le_bytes());
    }
    note.extend_from_slice(b"uswap\0\0\0");
    let version = uswap_identity::OWN.version().as_bytes();
    note.extend_from_slice(version);
    note.resize(note.len() + 16 - version.len(), 0);
    for word in uswap_identity::OWN.words() {
        note.extend_from_slice(&word.to_le_bytes());
    }
    let mut file = vec![0; 64 + 2 * 56];
    file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    for (at, value) in [(16, 3_u16), (18, 62), (32, 64), (54, 56), (56, 2)] {
        file[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }
    for (segment, kind) in [(64, 2_u8), (64 + 56, 4)] {
        file[segment] = kind;
        let offset = (file.len() as u64).to_le_bytes();
        file[segment + 8..segment + 16].copy_from_slice(&offset);
        file[segment + 32..segment + 40].copy_from_slice(&(note.len() as u64).to_le_bytes());
    }
    file.extend_from_slice(&note);
    file
}

fn message(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// An empty directory that goes away with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("uswap-commands-{}-{name}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        Self(dir)
    }

    fn program(&self, name: &str, content: &[u8]) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An ELF file for this machine without program headers: as static as can be.
fn static_program() -> Vec<u8> {
    let mut file = vec![0; 64];
    file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    file[16] = 2;
    file[18] = 62;
    file
}

#[test]
fn usage_errors_are_2_and_name_an_example() {
    let output = uswap().args(["run", "--ram", "much", "--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(message(&output).contains("256M"), "{}", message(&output));
    let output = uswap().args(["run", "--ram", "5M", "--", "true"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(message(&output).contains("8M"), "{}", message(&output));
}

#[test]
fn an_unknown_program_is_127_and_an_unusable_one_126() {
    let output = run(&["--", "no-such-program-anywhere"]);
    assert_eq!(output.status.code(), Some(127));
    assert!(message(&output).contains("no-such-program-anywhere"));
    assert!(output.stdout.is_empty());
    assert_eq!(run(&["--", "/etc/passwd"]).status.code(), Some(126));
}

#[test]
fn a_static_program_is_refused_in_one_line() {
    let scratch = Scratch::new("static");
    let output = run(&["--", &scratch.program("frozen", &static_program())]);
    assert_eq!(output.status.code(), Some(125));
    let message = message(&output);
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(message.contains("statically linked") && message.contains("--unmanaged-ok"), "{message}");
}

#[test]
fn a_wrong_agent_is_named_before_anything_runs() {
    let output = uswap()
        .args(["run", "--ram", "64M", "--", "echo", "ran"])
        .env("USWAP_AGENT", "/no/such/agent.so")
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(message(&output).contains("/no/such/agent.so"));
    assert!(output.stdout.is_empty());
}

#[test]
fn a_missing_swap_directory_or_report_directory_is_named_before_anything_runs() {
    let scratch = Scratch::new("places");
    let agent = scratch.program("agent.so", &agent());
    for (option, path) in [("--swap", "/no/such/dir"), ("--json", "/no/such/dir/report.json")] {
        let mut command = uswap();
        command.args(["run", "--ram", "64M", option, path, "--", "echo", "ran"]).env("USWAP_AGENT", &agent);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(125), "{option}");
        assert!(message(&output).contains(path), "{option}: {}", message(&output));
        assert!(output.stdout.is_empty());
    }
}

#[test]
fn room_that_cannot_stay_free_is_named_before_anything_runs() {
    let scratch = Scratch::new("min-free");
    let agent = scratch.program("agent.so", &agent());
    let mut command = uswap();
    command.args(["run", "--ram", "64M", "--swap-min-free", "8000T", "--", "echo", "ran"]);
    let output = command.env("USWAP_AGENT", &agent).output().unwrap();
    assert_eq!(output.status.code(), Some(125));
    assert!(message(&output).contains("--swap-min-free"), "{}", message(&output));
    assert!(output.stdout.is_empty());
}

#[test]
fn doctor_agrees_with_its_exit_code_in_text_and_json() {
    let text = uswap().arg("doctor").output().unwrap();
    let json = uswap().args(["doctor", "--json"]).output().unwrap();
    let value: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    let can_run = value["can_run"].as_bool().unwrap();
    assert_eq!(json.status.code(), Some(i32::from(!can_run)));
    assert_eq!(text.status.code(), json.status.code());
    let shown = String::from_utf8(text.stdout).unwrap();
    assert_eq!(shown.contains("`uswap run` can work here"), can_run, "{shown}");
    for finding in value["findings"].as_array().unwrap() {
        assert!(shown.contains(finding["name"].as_str().unwrap()), "{finding}");
    }
}

#[test]
fn doctor_says_no_to_a_swap_directory_that_is_not_there() {
    let output = uswap().args(["doctor", "--swap", "/no/such/dir"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.contains("/no/such/dir") && shown.contains("--swap DIR"), "{shown}");
}

#[test]
fn a_demo_that_is_stopped_leaves_nothing_behind() {
    for signal in [Signal::INT, Signal::TERM] {
        let scratch = Scratch::new(&format!("demo-{}", signal.as_raw()));
        let mut child = uswap()
            .args(["demo", "--ram", "32M", "--swap"])
            .arg(&scratch.0)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let second = lines.find(|line| line.as_ref().unwrap().starts_with("[2/5]"));
        assert!(second.is_some());
        assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 1, "its files are in one directory");
        kill_process(Pid::from_raw(child.id().cast_signed()).unwrap(), signal).unwrap();
        lines.for_each(drop);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.signal(), Some(signal.as_raw()), "{}", message(&output));
        assert_eq!(std::fs::read_dir(&scratch.0).unwrap().count(), 0, "all of it is removed");
    }
}

#[test]
fn a_demo_without_room_says_how_much_it_needs() {
    let output = uswap().args(["demo", "--ram", "4000G"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(message(&output).contains("TiB"), "{}", message(&output));
    let output = uswap().args(["demo", "--swap", "/no/such/dir"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(message(&output).contains("/no/such/dir") && !Path::new("/no/such").exists());
}
