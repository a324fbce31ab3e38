//! Finds the agent, the library that is preloaded into the program, and sees that it is one.
//!
//! Looked for, in this order: `$USWAP_AGENT`, beside the executable, `../lib/uswap/` of it. What must hold: the path
//! can stand in LD_PRELOAD, which has no way to quote a space or a colon; and what is there is an agent that works
//! with this command ([`library`]): the dynamic linker says little about another, and runs the program without.

mod library;

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::StatVfsMountFlags;

use crate::process::StartFailure;
use library::Flaw;

/// File name of the agent.
pub const AGENT_FILE: &str = "libuswap_agent.so";

/// Path of the agent for this run, which is there, whole, and of the same sources as this command. The arguments are
/// those of `find`.
///
/// The path is what is preloaded, and not the file that was checked, held open as /proc/self/fd/N: each program that
/// the program starts, much later too, has the path in its own environment, and that descriptor only if it was left
/// open in all that lie between. Who replaces the file meanwhile is noticed all the same: the segment says what it was
/// made for, and an agent of other sources leaves it alone.
///
/// # Errors
/// With exit code 125: what is wrong with it, and what to try.
pub fn find_and_check(named: Option<&OsStr>, executable: &Path) -> Result<PathBuf, StartFailure> {
    let path = find(named, executable)?;
    let file = File::open(&path).map_err(|error| Flaw::Unreadable(error.to_string()));
    let checked = file.and_then(|file| library::check(&file)).and_then(|()| check_mount(&path));
    checked.map(|()| path.clone()).map_err(|flaw| StartFailure::own(message(&path, &flaw)))
}

/// Code cannot be mapped from everywhere.
fn check_mount(path: &Path) -> Result<(), Flaw> {
    match rustix::fs::statvfs(path) {
        Ok(system) if system.f_flag.contains(StatVfsMountFlags::NOEXEC) => Err(Flaw::NoExecution),
        _ => Ok(()),
    }
}

/// What was seen, why it matters, what to try.
fn message(path: &Path, flaw: &Flaw) -> String {
    let own = uswap_identity::OWN;
    let seen = match flaw {
        Flaw::Empty => "is empty".to_owned(),
        Flaw::NoLibrary => "is not a shared library for x86-64".to_owned(),
        Flaw::Cut { bytes, needed } => {
            format!("is cut off: it has {bytes} bytes, and its headers speak of {needed}")
        }
        Flaw::Foreign => {
            "is not an agent of uswap, or an older one, which does not say what it was built from".to_owned()
        }
        Flaw::Other(other) => format!(
            "was built from other sources than this command: it is of uswap {}, build {:08x}, and this is {}, build \
             {:08x}",
            other.version(),
            other.build(),
            own.version(),
            own.build()
        ),
        Flaw::NoExecution => {
            "lies on a file system that is mounted noexec, so no program can load it".to_owned()
        }
        Flaw::Unreadable(error) => format!("cannot be read ({error})"),
    };
    format!(
        "the agent '{}' {seen}. It is the part that runs inside the program: with this file the program would run \
         outside \
         its budget, or not at all, so nothing was started. Install uswap again, command and agent together (in the \
         sources: `cargo xtask build`), or name the right file with USWAP_AGENT",
        path.display()
    )
}

/// Path of the agent. `named` is the value of `USWAP_AGENT`; `executable` the path of this program.
///
/// # Errors
/// With exit code 125: it is not there, or its path cannot be preloaded.
fn find(named: Option<&OsStr>, executable: &Path) -> Result<PathBuf, StartFailure> {
    let path = match named.filter(|path| !path.is_empty()) {
        Some(named) => {
            let path = PathBuf::from(named);
            if !path.is_file() {
                return Err(StartFailure::own(format!(
                    "USWAP_AGENT names '{}', which is not a file: correct it or unset it",
                    path.display()
                )));
            }
            path
        }
        None => beside(executable)?,
    };
    // The program may change its directory before it executes another.
    let path = std::path::absolute(&path).map_err(|error| {
        StartFailure::own(format!("the path of the agent cannot be made absolute ({error})"))
    })?;
    if path.as_os_str().as_bytes().iter().any(|byte| matches!(byte, b':' | b' ' | b'\t' | b'\n')) {
        return Err(StartFailure::own(format!(
            "the agent is at '{}', and LD_PRELOAD cannot hold a path with a space or a colon: copy it \
             elsewhere and name it with USWAP_AGENT",
            path.display()
        )));
    }
    Ok(path)
}

fn beside(executable: &Path) -> Result<PathBuf, StartFailure> {
    let dir = executable.parent().unwrap_or(Path::new("/"));
    let places = [dir.join(AGENT_FILE), dir.join("../lib/uswap").join(AGENT_FILE)];
    places.iter().find(|path| path.is_file()).cloned().ok_or_else(|| {
        StartFailure::own(format!(
            "{AGENT_FILE} is missing: it is the part that runs inside the program. Looked for '{}' and '{}'. Install \
             uswap again, all of it (from its sources: `cargo xtask build`), or name the file with USWAP_AGENT",
            places[0].display(),
            places[1].display(),
        ))
    })
}

/// The value of LD_PRELOAD for the program: the agent first, then what was there.
pub fn preload(agent: &Path, before: Option<&OsStr>) -> OsString {
    let mut value = agent.as_os_str().as_bytes().to_vec();
    if let Some(before) = before.filter(|before| !before.is_empty()) {
        value.push(b':');
        value.extend_from_slice(before.as_bytes());
    }
    OsString::from_vec(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_agent_is_put_before_what_was_preloaded() {
        let agent = Path::new("/opt/a.so");
        assert_eq!(preload(agent, None), "/opt/a.so");
        assert_eq!(preload(agent, Some(OsStr::new(""))), "/opt/a.so");
        assert_eq!(preload(agent, Some(OsStr::new("/b.so /c.so"))), "/opt/a.so:/b.so /c.so");
    }

    #[test]
    fn what_is_not_this_builds_agent_is_named_with_what_to_try() {
        let path = std::env::temp_dir().join(format!("uswap-agent-check-{}.so", std::process::id()));
        let own = library::tests::made_up_own();
        let found = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            find_and_check(Some(path.as_os_str()), Path::new("/no/such/program"))
        };
        assert_eq!(found(&own), Ok(path.clone()));
        let other = library::tests::made_up(Some(&[b'0'; uswap_identity::IDENTITY_BYTES]));
        let foreign = library::tests::made_up(None);
        for (bytes, word) in [
            (&own[..99], "cut off"),
            (&foreign, "not an agent"),
            (&other, "other sources"),
            (b"", "empty"),
            (b"x", "not a shared"),
        ] {
            let failure = found(bytes).unwrap_err();
            assert_eq!(failure.exit_code, 125);
            for wanted in [word, path.to_str().unwrap(), "budget", "USWAP_AGENT"] {
                assert!(failure.message.contains(wanted), "{wanted}: {}", failure.message);
            }
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn each_place_is_tried_in_order() {
        let root = std::env::temp_dir().join(format!("uswap-agent-test-{}", std::process::id()));
        let executable = root.join("bin/uswap");
        let library = root.join("lib/uswap").join(AGENT_FILE);
        let neighbour = root.join("bin").join(AGENT_FILE);
        std::fs::create_dir_all(root.join("bin")).unwrap();
        std::fs::create_dir_all(root.join("lib/uswap")).unwrap();

        let missing = find(None, &executable).unwrap_err();
        assert_eq!(missing.exit_code, 125);
        assert!(missing.message.contains("cargo xtask build"), "{}", missing.message);
        std::fs::write(&library, b"").unwrap();
        assert!(find(None, &executable).unwrap().ends_with("lib/uswap/libuswap_agent.so"));
        std::fs::write(&neighbour, b"").unwrap();
        assert_eq!(find(None, &executable).unwrap(), neighbour);
        assert_eq!(find(Some(library.as_os_str()), &executable).unwrap(), library);
        assert!(
            find(Some(OsStr::new("/no/such.so")), &executable).unwrap_err().message.contains("USWAP_AGENT")
        );

        let spaced = root.join("with space.so");
        std::fs::write(&spaced, b"").unwrap();
        assert!(find(Some(spaced.as_os_str()), &executable).unwrap_err().message.contains("space"));
        std::fs::remove_dir_all(&root).unwrap();
    }
}
