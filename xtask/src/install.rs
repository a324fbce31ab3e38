//! `cargo xtask install --prefix DIR`: the command to `DIR/bin`, the agent to `DIR/lib/uswap`.
//!
//! Must hold: a running `uswap` and its programs keep the files that they have mapped. So each file is written under
//! another name and then renamed, never written over.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use anyhow::{Context, Result};

use crate::commands;

/// Builds, then copies.
///
/// # Errors
/// The build fails, or a file cannot be written.
pub fn run(prefix: &Path) -> Result<()> {
    commands::build()?;
    copy_into(&commands::uswap_path(), &prefix.join("bin"))?;
    copy_into(&commands::agent_path(), &prefix.join("lib/uswap"))
}

/// Copies a file into a directory, which is made if it is not there. Mode 0755.
fn copy_into(file: &Path, directory: &Path) -> Result<()> {
    let name = file.file_name().expect("what was built has a name");
    let destination = directory.join(name);
    let unfinished = directory.join(format!(".{}.new", name.to_string_lossy()));
    fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))?;
    fs::copy(file, &unfinished)
        .with_context(|| format!("copying {} to {}", file.display(), unfinished.display()))?;
    fs::set_permissions(&unfinished, fs::Permissions::from_mode(0o755))?;
    fs::rename(&unfinished, &destination)
        .with_context(|| format!("renaming to {}", destination.display()))?;
    println!("installed {}", destination.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_in_use_is_replaced_not_overwritten() {
        let directory = std::env::temp_dir().join(format!("uswap-xtask-install-{}", std::process::id()));
        let source = directory.join("tool");
        let destination = directory.join("prefix/bin");
        fs::create_dir_all(&destination).expect("the temporary directory can be written");
        fs::write(&source, "new").expect("as above");
        fs::write(destination.join("tool"), "old").expect("as above");
        let in_use = fs::File::open(destination.join("tool")).expect("it was just written");

        copy_into(&source, &destination).expect("the copy succeeds");

        assert_eq!(std::io::read_to_string(in_use).expect("it is open"), "old");
        assert_eq!(fs::read_to_string(destination.join("tool")).expect("it is there"), "new");
        let entries = fs::read_dir(&destination).expect("it is there").count();
        assert_eq!(entries, 1, "no unfinished file is left");
        fs::remove_dir_all(&directory).expect("it is ours");
    }
}
