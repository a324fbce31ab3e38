//! Programs that are missing, not executable, static, foreign, damaged, setuid, or scripts: each gets its answer.

use super::*;
use std::os::unix::fs::PermissionsExt as _;

/// A directory that goes away with the test.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("uswap-program-{}-{name}", std::process::id()));
        std::fs::create_dir(&dir).unwrap();
        Self(dir)
    }

    fn file(&self, name: &str, content: &[u8], mode: u32) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, content).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn text(unusable: &Unusable) -> &str {
    let (Unusable::NotFound(text) | Unusable::NotExecutable(text)) = unusable;
    text
}

fn find(path: &Path) -> Result<Program, Unusable> {
    Program::find(path.as_os_str(), None)
}

#[test]
fn a_program_in_path_is_found_and_managed() {
    let program = Program::find(OsStr::new("sort"), Some(OsStr::new("/no/such:/usr/bin:/bin"))).unwrap();
    assert!(program.path.is_absolute());
    assert_eq!(program.agent_support, AgentSupport::Managed);
    assert_eq!(program.start, Start::Direct);
}

#[test]
fn an_unknown_program_is_127() {
    for name in ["no-such-program-here", "./no-such", "/no/such/program", "/etc/passwd/x", ""] {
        let failure = Program::find(OsStr::new(name), Some(OsStr::new("/usr/bin"))).unwrap_err();
        assert!(matches!(failure, Unusable::NotFound(_)), "{name}: {failure:?}");
    }
}

#[test]
fn a_file_that_may_not_be_executed_is_126() {
    let scratch = Scratch::new("mode");
    let plain = scratch.file("plain", b"#!/bin/sh\n", 0o644);
    let failure = find(&plain).unwrap_err();
    assert!(matches!(failure, Unusable::NotExecutable(_)));
    assert!(text(&failure).contains("chmod +x"), "{failure:?}");
    assert!(matches!(find(&scratch.0).unwrap_err(), Unusable::NotExecutable(_)));
    let in_path = Program::find(OsStr::new("plain"), Some(scratch.0.as_os_str())).unwrap_err();
    assert!(matches!(in_path, Unusable::NotExecutable(_)));
}

#[test]
fn a_later_directory_of_path_wins_over_a_file_that_may_not_be_executed() {
    let scratch = Scratch::new("later");
    scratch.file("sort", b"#!/bin/sh\n", 0o644);
    let search_path = std::env::join_paths([scratch.0.as_path(), Path::new("/usr/bin")]).unwrap();
    assert_eq!(
        Program::find(OsStr::new("sort"), Some(&search_path)).unwrap().path,
        Path::new("/usr/bin/sort")
    );
}

#[test]
fn a_script_is_as_manageable_as_its_interpreter() {
    let scratch = Scratch::new("script");
    let frozen = scratch.file("frozen", &elf::tests::made_up(None), 0o755);
    let script = scratch.file("script", b"#! /bin/sh -e\necho\n", 0o755);
    assert_eq!(find(&script).unwrap().agent_support, AgentSupport::Managed);
    let of_static = scratch.file("of-static", format!("#!{}\n", frozen.display()).as_bytes(), 0o755);
    assert!(
        matches!(find(&of_static).unwrap().agent_support, AgentSupport::Unmanageable(why) if why.contains("static"))
    );
    let plain_text = scratch.file("plain-text", b"echo hello\n", 0o755);
    assert_eq!(find(&plain_text).unwrap().start, Start::ByShell);
}

#[test]
fn a_script_without_its_interpreter_says_which_one_is_missing() {
    let scratch = Scratch::new("missing");
    let script = scratch.file("script", b"#!/no/such/python\n", 0o755);
    let failure = find(&script).unwrap_err();
    assert!(matches!(failure, Unusable::NotFound(_)));
    assert!(text(&failure).contains("/no/such/python"), "{failure:?}");
    let dos = scratch.file("dos", b"#!/bin/sh\r\necho\r\n", 0o755);
    assert!(text(&find(&dos).unwrap_err()).contains("carriage return"));
    let nameless = scratch.file("nameless", b"#!  \n", 0o755);
    assert!(matches!(find(&nameless).unwrap_err(), Unusable::NotExecutable(_)));
}

#[test]
fn a_script_that_is_its_own_interpreter_ends() {
    let scratch = Scratch::new("loop");
    let path = scratch.0.join("loop");
    let script = scratch.file("loop", format!("#!{}\n", path.display()).as_bytes(), 0o755);
    assert!(matches!(find(&script).unwrap_err(), Unusable::NotExecutable(_)));
}

#[test]
fn static_foreign_and_damaged_programs_are_told_apart() {
    let scratch = Scratch::new("elf");
    let frozen = scratch.file("frozen", &elf::tests::made_up(None), 0o755);
    assert!(
        matches!(find(&frozen).unwrap().agent_support, AgentSupport::Unmanageable(why) if why.contains("statically"))
    );
    let mut foreign = elf::tests::made_up(None);
    foreign[18] ^= 0x55;
    let foreign = scratch.file("foreign", &foreign, 0o755);
    let support = find(&foreign).unwrap().agent_support;
    assert!(matches!(support, AgentSupport::Unmanageable(why) if why.contains("another machine")));
    let loaderless = scratch.file("loaderless", &elf::tests::made_up(Some("/no/such/ld.so")), 0o755);
    assert!(text(&find(&loaderless).unwrap_err()).contains("/no/such/ld.so"));
    let damaged = scratch.file("damaged", &elf::tests::made_up(None)[..40], 0o755);
    assert!(matches!(find(&damaged).unwrap_err(), Unusable::NotExecutable(_)));
    let binary = scratch.file("binary", b"\0\x01\x02", 0o755);
    assert!(matches!(find(&binary).unwrap_err(), Unusable::NotExecutable(_)));
}

/// Needs root, to give a file to another user; elsewhere the setuid program of the system is looked at.
#[test]
fn a_setuid_program_is_not_managed_unless_it_changes_nothing() {
    let scratch = Scratch::new("setuid");
    let copy = scratch.file("copy", &std::fs::read("/bin/true").unwrap(), 0o4755);
    assert_eq!(find(&copy).unwrap().agent_support, AgentSupport::Managed, "its owner is who runs it");
    let looked_at = if rustix::process::getuid().is_root() {
        std::os::unix::fs::chown(&copy, Some(65534), None).unwrap();
        std::fs::set_permissions(&copy, std::fs::Permissions::from_mode(0o4755)).unwrap();
        copy
    } else {
        PathBuf::from("/bin/su")
    };
    assert!(
        matches!(find(&looked_at).unwrap().agent_support, AgentSupport::Unmanageable(why) if why.contains("setuid"))
    );
}

/// A process that ended while it was looked at was named as one whose program may not be read.
#[test]
fn a_program_that_is_gone_is_not_one_that_may_not_be_read() {
    let gone = std::env::temp_dir().join("uswap-program-that-was-here");
    assert!(matches!(inspect(&gone, 0).unwrap_err(), Unusable::NotFound(_)));
    assert_eq!(agent_support_of(&gone), None);
}
