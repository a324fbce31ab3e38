//! Where the command `uswap` is.
//!
//! Must hold: what is named is taken or refused, and nothing else in its place; nothing is looked for in the working
//! directory. Called by [`mod@crate::limit`].

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::Error;

const NAME: &str = "uswap";
const VARIABLE: &str = "USWAP_COMMAND";

/// The one that was named, by the caller or in the environment, or else the first in `PATH`.
pub fn find(named: Option<&Path>) -> Result<PathBuf, Error> {
    let of_environment = || std::env::var_os(VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(path) = named.map(Path::to_owned).or_else(of_environment) {
        let missing = || Error::NoCommand(format!("'{}', which is no program", path.display()));
        return if is_program(&path) {
            std::path::absolute(&path).map_err(|_| missing())
        } else {
            Err(missing())
        };
    }
    let directories = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&directories)
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(NAME))
        .find(|path| is_program(path))
        .ok_or_else(|| Error::NoCommand("in PATH".to_owned()))
}

fn is_program(path: &Path) -> bool {
    path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_named_must_be_a_program() {
        assert_eq!(find(Some(Path::new("/bin/sh"))).expect("it is one"), Path::new("/bin/sh"));
        for wrong in ["/no/such/program", "/etc/passwd", "/bin"] {
            let error = find(Some(Path::new(wrong))).expect_err(wrong).to_string();
            assert!(error.contains(wrong) && error.contains("install"), "{error}");
        }
    }
}
