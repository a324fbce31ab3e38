//! A tarball with `install.sh`, for systems whose packages are not Debian's.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::content::{self, Layout, Source};
use super::{Time, VERSION, libraries, put_stripped, stage};
use crate::commands::succeed;
use crate::tree::root;

/// What the installer says in place of the oldest glibc that will do: 2.N.
const GLIBC_NEEDED: &str = "@GLIBC@";

/// What lies beside the installer, for people.
const DOCUMENTS: [&str; 6] = [
    "README.md",
    "CHANGELOG.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "docs/SEMANTICS.md",
    "docs/guide/install.md",
];

/// Makes it in `out`; its path.
///
/// # Errors
/// A tool is missing, or a file cannot be written.
pub fn make(out: &Path, share: &Path, time: &Time) -> Result<PathBuf> {
    let name = format!("uswap-{VERSION}-x86_64-linux");
    let above = stage("tarball")?;
    let tree = above.join(&name);
    // The installer writes the prefix where it installs to.
    let items = content::items(Layout::Prefix, Path::new("/usr"), share)?;
    put_stripped(&items, &tree)?;
    for document in DOCUMENTS {
        let path = tree.join(document);
        fs::create_dir_all(path.parent().context("it has a directory")?)?;
        fs::copy(root().join(document), path).with_context(|| format!("copying {document}"))?;
    }
    let programs: Vec<PathBuf> = items
        .iter()
        .filter(|item| item.kind.strip().is_some() && matches!(item.source, Source::File(_)))
        .map(|item| tree.join(&item.place))
        .collect();
    fs::write(tree.join("install.sh"), installer(libraries::newest_glibc(&programs)?)?)?;
    let mut chmod = Command::new("chmod");
    chmod.arg("+x").arg(tree.join("install.sh"));
    succeed(chmod)?;
    let path = std::path::absolute(out.join(format!("{name}.tar.gz")))?;
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mode=u=rwX,go=rX"]);
    tar.arg(format!("--mtime=@{}", time.0)).arg("--use-compress-program=gzip -9n");
    tar.arg("-cf").arg(&path).arg(&name).current_dir(&above);
    succeed(tar)?;
    Ok(path)
}

/// The installer, for programs that need this glibc.
pub fn installer(glibc: u32) -> Result<String> {
    let path = root().join("packaging/tarball/install.sh");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    Ok(text.replace(GLIBC_NEEDED, &format!("2.{glibc}")))
}
