//! What a place for blobs has to do: the swap file is the first.

use std::sync::{Arc, Mutex, OnceLock};

use uswap_control::unpoisoned;
use uswap_core::files::FileAccess;
use uswap_engine::world::FileError;
use uswap_os::file::{IoCause, IoError, SwapFile, WriteSlice};
use uswap_os::ring::Ring;
use uswap_os::sys::Errno;
use uswap_units::FileOffset;
use uswap_units::limits::WRITEBACK_BATCH_BYTES;

/// One write of the ring; a batch is written in four of them at once.
const WRITE_BYTES: usize = WRITEBACK_BATCH_BYTES / 4;
const RING_ENTRIES: u32 = 8;

/// Where blobs go when they leave the pool. Which slots are free the segment says, not the store; whole slots are read
/// and written.
pub(crate) trait Store: Send + Sync {
    /// Fills `buffer` from `offset`.
    fn read(&self, offset: FileOffset, buffer: &mut [u8]) -> Result<(), FileError>;
    /// Writes all of `buffer` at `offset`. One thread does it.
    fn write(&self, offset: FileOffset, buffer: &[u8]) -> Result<(), FileError>;
    /// Nothing of these bytes is needed any more.
    fn release(&self, offset: FileOffset, bytes: u64) -> Result<(), Errno>;
    /// Nothing at all is needed any more; it is dropped next.
    fn release_all(&self);
    /// Bytes that still have room; an error: it does not know.
    fn room(&self) -> Result<u64, Errno>;
    /// How processes read it by themselves: the number of its descriptor in the supervisor's table, and how it is
    /// opened.
    fn descriptor(&self) -> (i32, FileAccess);
}

/// The ring of all stores, made when the first of them is written: most runs never do, and none should wait for it to
/// start. None: io_uring may not be used here.
pub(super) type SharedRing = Arc<OnceLock<Mutex<Option<Ring>>>>;

/// A swap file.
pub(super) struct FileStore {
    pub file: SwapFile,
    pub ring: SharedRing,
}

impl Store for FileStore {
    fn read(&self, offset: FileOffset, buffer: &mut [u8]) -> Result<(), FileError> {
        self.file.read_at(buffer, offset.bytes()).map_err(file_error)
    }

    fn write(&self, offset: FileOffset, buffer: &[u8]) -> Result<(), FileError> {
        let slices: Vec<WriteSlice<'_>> = buffer
            .chunks(WRITE_BYTES)
            .enumerate()
            .map(|(index, bytes)| WriteSlice { bytes, offset: offset.bytes() + (index * WRITE_BYTES) as u64 })
            .collect();
        let ring = self.ring.get_or_init(|| Mutex::new(Ring::new(RING_ENTRIES).ok()));
        let mut ring = unpoisoned(ring.lock());
        self.file.write_batch(ring.as_mut(), &slices).map_err(file_error)
    }

    fn release(&self, offset: FileOffset, bytes: u64) -> Result<(), Errno> {
        self.file.punch_hole(offset.bytes(), bytes)
    }

    fn release_all(&self) {
        // If that fails, its blocks go back when it is closed.
        let _truncated = self.file.fd().truncate(0);
    }

    fn room(&self) -> Result<u64, Errno> {
        self.file.free_bytes()
    }

    fn descriptor(&self) -> (i32, FileAccess) {
        let access = if self.file.is_direct() { FileAccess::Direct } else { FileAccess::Buffered };
        (self.file.fd().raw(), access)
    }
}

/// The engine's word for a failed file operation.
fn file_error(error: IoError) -> FileError {
    match error.cause {
        IoCause::Errno(errno) if matches!(errno.name(), Some("ENOSPC" | "EDQUOT" | "EFBIG")) => {
            FileError::Full
        }
        IoCause::Errno(errno) => FileError::Io(errno.number()),
        IoCause::EndOfFile | IoCause::NothingWritten => FileError::Short,
    }
}
