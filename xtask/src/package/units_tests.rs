//! The units of systemd, as `systemd-analyze verify` sees them.

use std::fs;
use std::process::Command;

use super::scratch;
use crate::tree::root;

/// What systemd has to say about a unit of that text; an empty string if it has nothing.
fn complaints(text: &str, options: &[&str]) -> Option<String> {
    let directory = scratch("unit");
    let path = directory.join("uswap@.service");
    fs::write(&path, text).expect("it is ours");
    let mut command = Command::new("systemd-analyze");
    command.args(options).args(["verify", "--man=no"]).arg(&path);
    command.env("XDG_RUNTIME_DIR", &directory).env("HOME", &directory).env("SYSTEMD_LOG_LEVEL", "notice");
    let output = command.output().ok();
    fs::remove_dir_all(&directory).expect("it is ours");
    let output = output?;
    let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    Some(if output.status.success() { said } else { format!("{}: {said}", output.status) })
}

/// With a command that is there, whether uswap is installed or not.
fn text_of(unit: &str) -> String {
    let path = root().join("packaging/systemd").join(unit);
    let text = fs::read_to_string(path).expect("it is in the repository");
    assert!(text.contains("ExecStart=/usr/bin/uswap "), "{text}");
    text.replace("ExecStart=/usr/bin/uswap ", "ExecStart=/bin/sh ")
}

#[test]
fn systemd_has_nothing_to_say_about_the_units() {
    for (unit, options) in [("uswap@.service", &[][..]), ("user/uswap@.service", &["--user"])] {
        match complaints(&text_of(unit), options) {
            Some(said) => assert_eq!(said, "", "{unit}"),
            None => return println!("SKIP: there is no systemd-analyze: apt-get install systemd"),
        }
    }
    // It does have something to say about others.
    let damaged = text_of("uswap@.service").replace("DynamicUser=", "DynamicUsr=");
    assert!(complaints(&damaged, &[]).is_some_and(|said| said.contains("DynamicUsr")));
}

#[test]
fn the_filter_has_what_uswap_calls() {
    let mut command = Command::new("systemd-analyze");
    let Ok(output) = command.args(["syscall-filter", "@system-service"]).output() else {
        return println!("SKIP: there is no systemd-analyze: apt-get install systemd");
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let has = |wanted: &str| said.lines().any(|line| line.trim() == wanted);
    assert!(has("userfaultfd"), "{said}");
    // In these are io_uring, prctl and the others.
    assert!(["@aio", "@process", "@signal", "@io-event", "@file-system"].into_iter().all(has), "{said}");
}

#[test]
fn the_example_sets_what_the_units_read() {
    let example = fs::read_to_string(root().join("packaging/systemd/example.conf")).expect("it is there");
    for unit in ["uswap@.service", "user/uswap@.service"] {
        let text = text_of(unit);
        for name in ["RAM", "OPTIONS", "PROGRAM"] {
            assert!(
                text.contains(&format!("${name}")) || text.contains(&format!("${{{name}}}")),
                "{name}: {text}"
            );
            assert!(example.lines().any(|line| line.starts_with(&format!("{name}="))), "{name}: {example}");
        }
    }
}
