//! Makes files below a prefix.
//!
//! Must hold: a running `uswap` and its programs keep the files that they have mapped. So each file is written under
//! another name and then renamed, never written over.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use super::content::{Item, Source};

/// Makes a file below a prefix; its path.
///
/// # Errors
/// It cannot be written, or what it is made of cannot be read.
pub fn put(item: &Item, prefix: &Path) -> Result<PathBuf> {
    place(&prefix.join(&item.place), |new| {
        match &item.source {
            Source::Link(target) => return Ok(symlink(target, new)?),
            Source::Text(text) => fs::write(new, text)?,
            Source::File(file) => {
                fs::copy(file, new).with_context(|| format!("copying {}", file.display()))?;
            }
        }
        Ok(fs::set_permissions(new, fs::Permissions::from_mode(item.kind.mode()))?)
    })
}

/// Makes a file in its directory, which is made if it is not there.
fn place(destination: &Path, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let directory = destination.parent().context("it has no directory")?;
    let name = destination.file_name().context("it has no name")?.to_string_lossy();
    let unfinished = directory.join(format!(".{name}.new"));
    fs::create_dir_all(directory).with_context(|| format!("making {}", directory.display()))?;
    // Of an installation that was interrupted.
    let _there_is_none = fs::remove_file(&unfinished);
    make(&unfinished).with_context(|| format!("making {}", destination.display()))?;
    fs::rename(&unfinished, destination).with_context(|| format!("renaming to {}", destination.display()))?;
    Ok(destination.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::package::content::{Kind, Package};
    use crate::package::scratch;

    fn item(place: &str, source: Source) -> Item {
        Item { package: Package::Command, place: place.to_owned(), kind: Kind::Program, source }
    }

    #[test]
    fn a_file_that_is_in_use_is_replaced_not_overwritten() {
        let directory = scratch("install");
        let source = directory.join("tool");
        let prefix = directory.join("prefix");
        fs::create_dir_all(prefix.join("bin")).expect("the temporary directory can be written");
        fs::write(&source, "new").expect("as above");
        fs::write(prefix.join("bin/tool"), "old").expect("as above");
        let in_use = fs::File::open(prefix.join("bin/tool")).expect("it was just written");

        let path = put(&item("bin/tool", Source::File(source)), &prefix).expect("the copy succeeds");

        assert_eq!(std::io::read_to_string(in_use).expect("it is open"), "old");
        assert_eq!(fs::read_to_string(&path).expect("it is there"), "new");
        let mode = fs::metadata(&path).expect("it is there").permissions().mode();
        assert_eq!(mode & 0o777, 0o755);
        let entries = fs::read_dir(prefix.join("bin")).expect("it is there").count();
        assert_eq!(entries, 1, "no unfinished file is left");
        fs::remove_dir_all(&directory).expect("it is ours");
    }

    #[test]
    fn a_link_is_replaced() {
        let directory = scratch("link");
        for target in ["old", "new"] {
            put(&item("link", Source::Link(target)), &directory).expect("it is made");
        }
        assert_eq!(fs::read_link(directory.join("link")).expect("it is one"), Path::new("new"));
        fs::remove_dir_all(&directory).expect("it is ours");
    }
}
