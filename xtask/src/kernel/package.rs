//! Debian's kernel, out of its package, which is downloaded and not installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The package that names the current one.
const NEWEST: &str = "linux-image-amd64";

/// What the disk of the machine needs, in the order in which it is loaded.
pub const MODULES: [&str; 6] = [
    "lib/crc16.ko",
    "crypto/crc32c_generic.ko",
    "fs/mbcache.ko",
    "fs/jbd2/jbd2.ko",
    "fs/ext4/ext4.ko",
    "drivers/block/loop.ko",
];

/// A kernel that can be started.
pub struct Kernel {
    /// Its package.
    pub name: String,
    /// What the emulator loads.
    pub image: PathBuf,
    modules: PathBuf,
}

impl Kernel {
    /// The file of a module.
    pub fn module(&self, name: &str) -> PathBuf {
        self.modules.join("kernel").join(name)
    }
}

/// Downloads and unpacks a kernel below `place`, unless it is there. None: there is none, which was said.
pub fn unpack(place: &Path, package: Option<&str>) -> Result<Option<Kernel>> {
    let Some(name) = package.map(str::to_owned).or_else(newest) else {
        println!("SKIP: apt-cache knows no package {NEWEST}: is this Debian, and was `apt-get update` run?");
        return Ok(None);
    };
    let unpacked = place.join(&name);
    if !unpacked.is_dir() && !download(place, &name, &unpacked)? {
        println!(
            "SKIP: the package {name} cannot be downloaded: is there a network, and was `apt-get update` run?"
        );
        return Ok(None);
    }
    let release = name.strip_prefix("linux-image-").context("a kernel's package is linux-image-RELEASE")?;
    let image = unpacked.join("boot").join(format!("vmlinuz-{release}"));
    ensure!(image.is_file(), "there is no {}", image.display());
    let modules = unpacked.join("lib/modules").join(release);
    Ok(Some(Kernel { name, image, modules }))
}

/// The package that [`NEWEST`] depends on.
fn newest() -> Option<String> {
    let output = Command::new("apt-cache").args(["depends", NEWEST]).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().find_map(|line| line.trim().strip_prefix("Depends: ").map(str::to_owned))
}

/// False: it could not be downloaded.
fn download(place: &Path, name: &str, unpacked: &Path) -> Result<bool> {
    let status = Command::new("apt-get").args(["download", name]).current_dir(place).status()?;
    let files = std::fs::read_dir(place)?.flatten().map(|entry| entry.path());
    let is_it = |path: &PathBuf| {
        let file = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        file.starts_with(&format!("{name}_")) && file.ends_with(".deb")
    };
    let Some(file) = files.into_iter().find(is_it).filter(|_| status.success()) else { return Ok(false) };
    // Whole, or not at all.
    let partly = unpacked.with_extension("part");
    let _nothing_is_left_over = std::fs::remove_dir_all(&partly);
    let status = Command::new("dpkg-deb").arg("-x").arg(&file).arg(&partly).status()?;
    ensure!(status.success(), "{} cannot be unpacked", file.display());
    std::fs::rename(&partly, unpacked)?;
    std::fs::remove_file(file)?;
    Ok(true)
}
