//! What the thread that evicts reads of its own process: `statm`, `stat` and `status`.
//!
//! What must hold: the thread that starts it opens them. A file has the lowest free number for a moment, and while the
//! code of the program runs it may count on which one that is (`close(0); dup(pipe)`): a forked child is prepared while
//! it has one thread. What that thread still opens later is rare: a swap file that is added, or what takes the number
//! of a file that goes. Called by [`crate::process`], which holds the value, by [`crate::joining`], which opens them,
//! and by [`crate::background`].

use crate::descriptors;
use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicI32, Ordering};
use uswap_os::Fd;
use uswap_os::mlock::StatusFile;
use uswap_os::process::{StatFile, StatmFile};

/// Their numbers, or -1.
pub(crate) struct BackgroundFiles {
    statm: AtomicI32,
    stat: AtomicI32,
    status: AtomicI32,
}

const NOT_OPEN: i32 = -1;

impl BackgroundFiles {
    pub(crate) const fn new() -> BackgroundFiles {
        let [statm, stat, status] = [const { AtomicI32::new(NOT_OPEN) }; 3];
        BackgroundFiles { statm, stat, status }
    }

    /// Opens them, if that can be done. Numbers of a process that this one was forked from are forgotten. The thread is
    /// started behind it.
    pub(crate) fn open(&self) {
        let statm = StatmFile::open(None).map(StatmFile::into_fd);
        let stat = StatFile::open_own().map(StatFile::into_fd);
        let status = StatusFile::open(None).map(StatusFile::into_fd);
        for (number, file) in [(&self.statm, statm), (&self.stat, stat), (&self.status, status)] {
            let kept = file.and_then(descriptors::keep).map_or(NOT_OPEN, Fd::into_raw);
            number.store(kept, Ordering::Relaxed);
        }
    }

    pub(crate) fn statm(&self) -> Option<ManuallyDrop<StatmFile>> {
        opened(&self.statm).map(|file| ManuallyDrop::new(StatmFile::from_fd(file)))
    }

    pub(crate) fn stat(&self) -> Option<ManuallyDrop<StatFile>> {
        opened(&self.stat).map(|file| ManuallyDrop::new(StatFile::from_fd(file)))
    }

    pub(crate) fn status(&self) -> Option<ManuallyDrop<StatusFile>> {
        opened(&self.status).map(|file| ManuallyDrop::new(StatusFile::from_fd(file)))
    }

    pub(crate) fn close(&self) {
        for number in [&self.statm, &self.stat, &self.status] {
            let number = number.swap(NOT_OPEN, Ordering::Relaxed);
            if number != NOT_OPEN {
                descriptors::close(number);
            }
        }
    }
}

fn opened(number: &AtomicI32) -> Option<Fd> {
    let number = number.load(Ordering::Relaxed);
    (number != NOT_OPEN).then(|| Fd::from_raw(number))
}
