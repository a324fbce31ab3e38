//! Buffers of one engine task, made once.
//!
//! Must hold: whoever works in one has it for itself. It is made before it is needed, since nothing may be allocated on
//! the path of a fault. Called by `host` and `sim`, which lend one to each fault, by [`crate::fault`], and by
//! [`crate::evict`], whose evictors have one each.

use crate::world::FileBuffer;
use core::ops::Range;
use uswap_codec::{PAGE_BYTES, Page, Scratch};
use uswap_units::SwapOffset;
use uswap_units::limits::{FILE_BUFFER_BYTES, RUN_PAGES_MAX};

/// Buffers of one task: 200 KiB and the codecs' 80. A system gives memory only to what was touched: a task that serves
/// single faults uses 36 KiB of it.
pub struct Workspace {
    /// The page that is being stored or copied.
    pub page: Page,
    /// Pages that were loaded, to be filled in together.
    pub pages: [Page; RUN_PAGES_MAX],
    /// Compressed content, or a raw page.
    pub blob: [u8; PAGE_BYTES],
    /// Blobs as they lie in the file.
    pub file: FileBuffer,
    /// Offsets of the file that `file` holds.
    pub file_holds: Range<SwapOffset>,
    /// Working area of the codecs.
    pub scratch: Scratch,
}

impl Workspace {
    /// `const`, so that it can be the initialiser of a `static`: on a small stack it would be too large.
    pub const fn new() -> Workspace {
        Workspace {
            page: [0; PAGE_BYTES],
            pages: [[0; PAGE_BYTES]; RUN_PAGES_MAX],
            blob: [0; PAGE_BYTES],
            file: FileBuffer([0; FILE_BUFFER_BYTES]),
            file_holds: SwapOffset::NOTHING,
            scratch: Scratch::new(),
        }
    }
}

impl Default for Workspace {
    fn default() -> Self {
        Self::new()
    }
}
