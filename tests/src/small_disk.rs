//! File systems of a few MiB on loop devices, for disks that are full or fail. Called by the tests of bad cases and of
//! several swap files.

use crate::places::{Scratch, needs, skip};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

/// What holds a disk for a moment lets it go within this time, or never.
const PATIENCE: Duration = Duration::from_mins(1);

/// A small file system of its own, in RAM: as fast everywhere. Unmounted and detached when dropped.
#[derive(Debug)]
pub struct SmallDisk {
    /// Where it is mounted.
    pub mounted: PathBuf,
    /// What stands for the disk: a file in memory without a name.
    image: File,
    _scratch: Scratch,
}

fn ok(program: &str, words: &[&str]) -> bool {
    Command::new(program).args(words).output().is_ok_and(|output| output.status.success())
}

impl SmallDisk {
    /// A disk of this size. None: this machine has no loop devices; that was said.
    pub fn new(mib: u64) -> Option<Self> {
        if !needs(&["mkfs.ext4", "mount", "umount"]) {
            return None;
        }
        let scratch = Scratch::new();
        let mounted = scratch.file("mounted");
        std::fs::create_dir(&mounted).expect("the scratch directory is writable");
        let flags = MemfdFlags::ALLOW_SEALING | MemfdFlags::CLOEXEC;
        let image =
            File::from(rustix::fs::memfd_create("uswap-small-disk", flags).expect("a file in memory"));
        image.set_len(mib << 20).expect("it is as large as it may be");
        let disk = Self { mounted, image, _scratch: scratch };
        let path = disk.image_path();
        let made = ok("mkfs.ext4", &["-q", "-F", "-O", "^has_journal", &path]);
        if !made || !ok("mount", &["-o", "loop", &path, &disk.mounted.to_string_lossy()]) {
            skip("no loop device may be mounted here");
            return None;
        }
        Some(disk)
    }

    /// What can be mounted.
    pub fn image_path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.image.as_raw_fd())
    }

    /// Takes it away from where it is mounted. Who has just closed a file may still be about to.
    ///
    /// # Panics
    /// When somebody still has a file open after a minute.
    pub fn unmount(&self) {
        let began = Instant::now();
        loop {
            let unmounted = Command::new("umount").arg(&self.mounted).output().expect("it starts");
            if unmounted.status.success() {
                return;
            }
            let is_late = began.elapsed() > PATIENCE;
            assert!(!is_late, "somebody still has the file open: {unmounted:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// From now on every read and write fails.
    pub fn fail(&self) {
        self.image.set_len(0).expect("the image is ours");
        // So that reads come from the disk and not from the cache.
        std::fs::write("/proc/sys/vm/drop_caches", "1").expect("a mount succeeded, so we are root");
    }

    /// From now on every write fails; what was written can be read.
    pub fn fail_writes(&self) {
        let began = Instant::now();
        while let Err(error) = rustix::fs::fcntl_add_seals(&self.image, SealFlags::WRITE) {
            // The kernel holds a page of it for a moment: a read or write is under way.
            assert!(error == Errno::BUSY && began.elapsed() < PATIENCE, "it cannot be sealed: {error}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let path = self.mounted.to_string_lossy();
        // `-l` also takes it away from a process that still dies.
        if !ok("umount", &[&path]) {
            ok("umount", &["-l", &path]);
        }
    }
}
