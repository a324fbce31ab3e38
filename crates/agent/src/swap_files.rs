//! The swap files of the run, opened through the supervisor's descriptors, to be read.
//!
//! All engine threads of a process share a descriptor table, so each may read through what one of them has opened. A number that is here stays open until all of them are closed.

use crate::state::{SEGMENT, SUPERVISOR};
use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicI32, Ordering};
use uswap_core::files::{FileAccess, FileRecord, SwapFiles};
use uswap_engine::platform::{FileBuffer, FileError};
use uswap_os::fd::Fd;
use uswap_os::file::{Caching, IoCause, SwapFile};
use uswap_os::process;
use uswap_units::limits::SWAP_FILES_MAX;

const NOT_OPEN: i32 = -1;

/// Descriptors of the files, by their numbers in the run.
pub struct OpenFiles([AtomicI32; SWAP_FILES_MAX]);

impl OpenFiles {
    /// All that the run has. None: one of them cannot be opened.
    pub fn of_the_run(files: SwapFiles<'_>) -> Option<OpenFiles> {
        let open = OpenFiles([const { AtomicI32::new(NOT_OPEN) }; SWAP_FILES_MAX]);
        files.all().all(|file| open.add(&file)).then_some(open)
    }

    fn add(&self, file: &FileRecord) -> bool {
        let path = process::descriptor_path(SUPERVISOR.load(Ordering::Relaxed), file.spec.descriptor);
        let Ok(opened) = SwapFile::reopen(path.as_c_str(), caching(file)) else { return false };
        // Release pairs with `read`.
        self.0[usize::from(file.id.0)].store(opened.into_fd().into_raw(), Ordering::Release);
        true
    }

    /// Reads whole slots at `offset` among those of all files.
    pub fn read(&self, offset: u64, bytes: usize, buffer: &mut FileBuffer) -> Result<(), FileError> {
        let place = SEGMENT.get().and_then(|segment| segment.slots().files().locate(offset));
        let Some((file, start)) = place else { return Err(FileError::Short) };
        let descriptor = self.0[usize::from(file.id.0)].load(Ordering::Acquire);
        if descriptor == NOT_OPEN {
            return Err(FileError::Short);
        }
        // It is read through here, and stays open.
        let opened = ManuallyDrop::new(SwapFile::from_fd(Fd::from_raw(descriptor), caching(&file)));
        opened.read_at(&mut buffer.0[..bytes], start).map_err(|error| match error.cause {
            IoCause::Errno(errno) => FileError::Io(errno.number()),
            IoCause::EndOfFile | IoCause::NothingWritten => FileError::Short,
        })
    }
}

impl Drop for OpenFiles {
    fn drop(&mut self) {
        for descriptor in &mut self.0 {
            if *descriptor.get_mut() != NOT_OPEN {
                drop(Fd::from_raw(*descriptor.get_mut()));
            }
        }
    }
}

fn caching(file: &FileRecord) -> Caching {
    match file.spec.access {
        FileAccess::Direct => Caching::Direct,
        FileAccess::Buffered => Caching::Buffered,
    }
}
