//! The swap files of the run, opened through the supervisor's descriptors, to be read.
//!
//! All engine threads of a process share a descriptor table, so each may read through what one of them has opened. A
//! number that is here stays in use until all of them are closed: when the file behind it is gone from the run,
//! something else is put there that cannot be read.
//!
//! Must hold: the record of the process says that it lives before the files of the run are looked at, and which of them
//! it has open as soon as they are; the run writes to a file only when all who live have said so. Called by
//! [`crate::joining`], which opens them, by [`crate::background`], which follows what changes, and by
//! [`crate::memory`], which reads.

use crate::{descriptors, supervisor};
use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicI32, Ordering};
use uswap_core::files::{FileAccess, FileRecord, Follow};
use uswap_core::held_files::HeldFiles;
use uswap_core::mm::MmRecord;
use uswap_core::segment::Segment;
use uswap_engine::world::{FileBuffer, FileError};
use uswap_os::fd::{Event, Fd};
use uswap_os::file::{Caching, IoCause, SwapFile};
use uswap_units::limits::SWAP_FILES_MAX;
use uswap_units::{FileId, SwapOffset};

const NOT_OPEN: i32 = -1;

/// Descriptors of the files, by their numbers in the run.
pub struct OpenFiles {
    descriptors: [AtomicI32; SWAP_FILES_MAX],
    segment: Segment<'static>,
}

impl OpenFiles {
    /// All that the run has now; the record says so. None: one of them cannot be opened. Those that were opened before
    /// stay with the other descriptors of ours.
    pub fn of_the_run(segment: Segment<'static>, record: MmRecord<'_>) -> Option<OpenFiles> {
        let descriptors = [const { AtomicI32::new(NOT_OPEN) }; SWAP_FILES_MAX];
        let open = OpenFiles { descriptors, segment };
        let mut held = HeldFiles::default();
        for follow in segment.slots().files().to_follow(held) {
            let Follow::Open(file) = follow else { continue };
            if !open.add(&file) {
                return None;
            }
            held = held.with(file.id, Ok(()));
        }
        record.set_held_files(held);
        Some(open)
    }

    fn add(&self, file: &FileRecord) -> bool {
        let flags = SwapFile::flags(caching(file));
        let opened = supervisor::open(file.spec.descriptor, flags).and_then(descriptors::keep);
        let Ok(opened) = opened else { return false };
        // Release pairs with `read`.
        self.descriptors[file.id.index()].store(opened.into_raw(), Ordering::Release);
        true
    }

    /// Nothing can be read through its number any more. Reads that are under way end as if nothing had happened.
    fn close(&self, file: FileId) {
        // Acquire pairs with `add`.
        let number = self.descriptors[file.index()].load(Ordering::Acquire);
        if number != NOT_OPEN
            && let Ok(unreadable) = Event::new()
        {
            let _stays_open = unreadable.fd().replace(number);
        }
    }

    /// The process reads no file any more. Its record has to say so.
    pub fn close_all(&self) {
        (0..SWAP_FILES_MAX as u8).for_each(|number| self.close(FileId::new(number)));
    }

    /// Reads whole slots at `offset` among those of all files.
    pub fn read(&self, offset: SwapOffset, bytes: usize, buffer: &mut FileBuffer) -> Result<(), FileError> {
        let place = self.segment.slots().files().locate(offset);
        let Some((file, start)) = place else { return Err(FileError::Short) };
        // Acquire pairs with `add`: who has the number finds the file open.
        let descriptor = self.descriptors[file.id.index()].load(Ordering::Acquire);
        if descriptor == NOT_OPEN {
            return Err(FileError::Short);
        }
        // It is read through here, and stays open.
        let opened = ManuallyDrop::new(SwapFile::from_fd(Fd::from_raw(descriptor), caching(&file)));
        opened.read_at(&mut buffer.0[..bytes], start.bytes()).map_err(|error| match error.cause {
            IoCause::Errno(errno) => FileError::Io(errno.number()),
            IoCause::EndOfFile | IoCause::NothingWritten => FileError::Short,
        })
    }
}

/// Follows what has changed in the files of the run since `changes_seen`. Without open files: this process is not
/// managed, and reads none.
pub fn follow(
    segment: &Segment<'_>,
    record: MmRecord<'_>,
    open: Option<&OpenFiles>,
    changes_seen: &mut Option<u64>,
) {
    let files = segment.slots().files();
    let changes = files.changes();
    if *changes_seen == Some(changes) {
        return;
    }
    *changes_seen = Some(changes);
    let mut held = record.held_files();
    for follow in files.to_follow(held) {
        held = match follow {
            Follow::Open(file) => {
                let is_open = open.is_none_or(|open| open.add(&file));
                held.with(file.id, if is_open { Ok(()) } else { Err(()) })
            }
            Follow::Close(file) => {
                if let Some(open) = open {
                    open.close(file);
                }
                held.without(file)
            }
        };
    }
    record.set_held_files(held);
}

fn caching(file: &FileRecord) -> Caching {
    match file.spec.access {
        FileAccess::Direct => Caching::Direct,
        FileAccess::Buffered => Caching::Buffered,
    }
}
