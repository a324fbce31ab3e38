//! What a userfaultfd has to say, decoded.
//!
//! Read by the handlers under the engine's gate. A message is 32 bytes: the kind in the first byte, up to three words
//! from byte 8 on.

use crate::fd::Fd;
use crate::sys::abi;

/// One message as the kernel writes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct UffdMsg([u64; 4]);

const _: () = assert!(size_of::<UffdMsg>() == size_of::<abi::uffd_msg>());

/// A message, decoded. Addresses are byte addresses of this process.
#[derive(Debug, PartialEq, Eq)]
pub enum Message {
    /// A thread waits for a page.
    Fault {
        /// The page's first byte.
        address: usize,
        /// Whether it wants to write.
        write: bool,
        /// The page is there but write-protected: unprotect and wake, do not fill.
        write_protected: bool,
        /// Who, when the descriptor has [`super::Features::THREAD_ID`].
        thread_id: Option<u32>,
    },
    /// A child was forked; its memory is served through `fd`, which belongs to whoever decodes the message.
    Fork {
        /// For [`super::Uffd::from_fd`].
        fd: Fd,
    },
    /// `bytes` bytes moved from `from` to `to`; the pages that are missing there are now missing at `to`.
    Remap {
        /// Old first byte.
        from: usize,
        /// New first byte.
        to: usize,
        /// Length of the old range in bytes.
        bytes: usize,
    },
    /// The pages of `start..end` are about to be dropped; the range stays mapped and registered.
    Remove {
        /// First byte.
        start: usize,
        /// Behind the last byte.
        end: usize,
    },
    /// `start..end` is no longer mapped.
    Unmap {
        /// First byte.
        start: usize,
        /// Behind the last byte.
        end: usize,
    },
    /// A kind that this version does not know. None is sent unless its feature was asked for.
    Unknown {
        /// First byte of the message.
        kind: u8,
    },
}

impl UffdMsg {
    /// Room for a message.
    pub const EMPTY: UffdMsg = UffdMsg([0; 4]);

    /// Decodes the message. Takes it, because a fork message carries a descriptor that must be owned once: decode each
    /// message once.
    pub fn decode(self, features: super::Features) -> Message {
        let [head, first, second, third] = self.0;
        match head as u8 as u32 {
            abi::UFFD_EVENT_PAGEFAULT => Message::Fault {
                address: second as usize & !(crate::PAGE_BYTES - 1),
                write: first & abi::UFFD_PAGEFAULT_FLAG_WRITE as u64 != 0,
                write_protected: first & abi::UFFD_PAGEFAULT_FLAG_WP as u64 != 0,
                thread_id: features.contains(super::Features::THREAD_ID).then_some(third as u32),
            },
            abi::UFFD_EVENT_FORK => Message::Fork { fd: Fd::from_raw(first as u32 as i32) },
            abi::UFFD_EVENT_REMAP => {
                Message::Remap { from: first as usize, to: second as usize, bytes: third as usize }
            }
            abi::UFFD_EVENT_REMOVE => Message::Remove { start: first as usize, end: second as usize },
            abi::UFFD_EVENT_UNMAP => Message::Unmap { start: first as usize, end: second as usize },
            kind => Message::Unknown { kind: kind as u8 },
        }
    }

    /// Whether this is a fault: those may be served in any order, events must be processed in theirs.
    pub fn is_fault(&self) -> bool {
        self.0[0] as u8 as u32 == abi::UFFD_EVENT_PAGEFAULT
    }
}
