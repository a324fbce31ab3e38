//! Which swap files a process has open.
//!
//! A word of the record of the process: a bit for each file that is open, and one for each that could not be opened.
//!
//! Must hold: only the process itself changes its word. It says that a file is open after it has opened it, and no file
//! is both open and refused. Called by [`crate::files`], which says what a process must do next, by [`crate::mm`],
//! which keeps the word, by `host`, which opens and closes the files, and by the supervisor, which looks who has done
//! so.

use uswap_units::FileId;
use uswap_units::limits::SWAP_FILES_MAX;

/// The files that a process has open, a bit each, and those that it could not open. It says so in its record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HeldFiles(pub(crate) u64);

const REFUSED_SHIFT: u32 = 32;
const READS_NONE: u64 = 1 << 63;
const _: () = assert!(SWAP_FILES_MAX < REFUSED_SHIFT as usize);

impl HeldFiles {
    /// Of a process that reads no file any more, and does not follow what becomes of them.
    pub const NEVER_AGAIN: HeldFiles = HeldFiles(READS_NONE);

    /// It reads no file any more.
    pub const fn reads_none(self) -> bool {
        self.0 & READS_NONE != 0
    }
    /// It has this one open.
    pub const fn has(self, file: FileId) -> bool {
        self.0 & 1 << file.number() != 0
    }
    /// It could not open this one.
    pub const fn refused(self, file: FileId) -> bool {
        self.0 & 1 << (REFUSED_SHIFT + file.number() as u32) != 0
    }
    pub(crate) const fn has_answered(self, file: FileId) -> bool {
        self.has(file) || self.refused(file)
    }
    /// After it has opened the file, or could not.
    #[must_use]
    pub const fn with(self, file: FileId, opened: Result<(), ()>) -> HeldFiles {
        let shift = match opened {
            Ok(()) => file.number() as u32,
            Err(()) => REFUSED_SHIFT + file.number() as u32,
        };
        HeldFiles(self.0 | 1 << shift)
    }
    /// After it has closed the file.
    #[must_use]
    pub const fn without(self, file: FileId) -> HeldFiles {
        HeldFiles(self.0 & !(1 << file.number() | 1 << (REFUSED_SHIFT + file.number() as u32)))
    }
}
