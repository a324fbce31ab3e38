//! Finds the agent, the library that is preloaded into the program.
//!
//! Looked for, in this order: `$USWAP_AGENT`, beside the executable, `../lib/uswap/` of it. What must hold: the path
//! can stand in LD_PRELOAD, which has no way to quote a space or a colon.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use crate::process::StartFailure;

/// File name of the agent.
pub const AGENT_FILE: &str = "libuswap_agent.so";

/// Path of the agent for this run. `named` is the value of `USWAP_AGENT`, `executable` the path of this program.
///
/// # Errors
/// With exit code 125: it is not there, or its path cannot be preloaded.
pub fn find(named: Option<&OsStr>, executable: &Path) -> Result<PathBuf, StartFailure> {
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
            "the agent is at '{}', and LD_PRELOAD cannot hold a path with a space or a colon: copy {AGENT_FILE} \
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
            "{AGENT_FILE} is missing: it is the part that runs inside the program. Looked for '{}' and '{}'. Build it \
             with `cargo build --release --package uswap-agent`, or name it with USWAP_AGENT",
            places[0].display(),
            places[1].display()
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
    fn each_place_is_tried_in_order() {
        let root = std::env::temp_dir().join(format!("uswap-agent-test-{}", std::process::id()));
        let executable = root.join("bin/uswap");
        let library = root.join("lib/uswap").join(AGENT_FILE);
        let neighbour = root.join("bin").join(AGENT_FILE);
        std::fs::create_dir_all(root.join("bin")).unwrap();
        std::fs::create_dir_all(root.join("lib/uswap")).unwrap();

        let missing = find(None, &executable).unwrap_err();
        assert_eq!(missing.exit_code, 125);
        assert!(missing.message.contains("cargo build"), "{}", missing.message);
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
