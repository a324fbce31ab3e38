//! Buffers of one engine task, made once.

use crate::platform::FileBuffer;
use uswap_codec::{PAGE_BYTES, Page, Scratch};

/// Buffers of one task: 36 KiB and the compressor's table.
pub struct Workspace {
    /// The page that is being served or stored.
    pub page: Page,
    /// A second page, to verify what was stored.
    pub other: Page,
    /// Compressed content, or a raw page.
    pub blob: [u8; PAGE_BYTES],
    /// A blob as it lies in the file.
    pub file: FileBuffer,
    /// The compressor's table.
    pub scratch: Scratch,
}

impl Workspace {
    /// `const`, so that it can be the initialiser of a `static`: on a small stack it would be too large.
    pub const fn new() -> Workspace {
        Workspace {
            page: [0; PAGE_BYTES],
            other: [0; PAGE_BYTES],
            blob: [0; PAGE_BYTES],
            file: FileBuffer([0; 3 * PAGE_BYTES]),
            scratch: Scratch::new(),
        }
    }
}

impl Default for Workspace {
    fn default() -> Self {
        Self::new()
    }
}
