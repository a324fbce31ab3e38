//! What is known of each site whose calls were dispatched: how many, and what became of it.
//!
//! A table of fixed size, filled from any thread without a lock; a site that finds no place is not patched.
//! An entry names an address: code that is unmapped and replaced at the same address keeps its state, and its
//! calls are dispatched for good.
//!
//! Must hold: the state of a site is set once, by the thread that has the patch lock. Counts are hints: other threads
//! change them meanwhile. Called by [`crate::patch`].

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::sites::{Unpatchable, Way};

/// 16 bytes each.
const SITES_MAX: usize = 4096;
/// Places looked at for one site.
const STEPS_MAX: usize = 32;

/// What became of a site.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SiteState {
    /// A jump to a trampoline.
    Patched(Way),
    /// Its code does not allow it.
    Unpatchable(Unpatchable),
    /// Not code of a file that is mapped privately and read-only.
    NotOfAFile,
    /// No free addresses within two gigabytes.
    NoRoomNear,
    /// The kernel does not let text be changed, or not while other threads run.
    Refused,
}

/// A site as it is told to people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SiteReport {
    /// Behind its `syscall`.
    pub end: usize,
    /// Calls that were dispatched.
    pub calls: u32,
    /// The state as a word: see `SiteReport::text`.
    code: u32,
}

impl SiteReport {
    /// What became of the site, in words.
    pub fn text(&self) -> &'static str {
        match self.code {
            COUNTED => "few calls",
            PATCHED_AHEAD => "patched at an instruction ahead",
            PATCHED_PAD => "patched through padding",
            NOT_OF_A_FILE => "not code of a file that is mapped privately and read-only",
            NO_ROOM_NEAR => "no free addresses within two gigabytes",
            REFUSED => "the text cannot be changed, or not while other threads run",
            code => REASONS[(code - UNPATCHABLE) as usize].text(),
        }
    }
}

const COUNTED: u32 = 0;
const PATCHED_AHEAD: u32 = 1;
const PATCHED_PAD: u32 = 2;
const NOT_OF_A_FILE: u32 = 3;
const NO_ROOM_NEAR: u32 = 4;
const REFUSED: u32 = 5;
const UNPATCHABLE: u32 = 6;
const REASONS: [Unpatchable; 5] = [
    Unpatchable::NoFunction,
    Unpatchable::NotReached,
    Unpatchable::NoRoom,
    Unpatchable::Branch,
    Unpatchable::StackMayBeGone,
];

/// A place in the table.
pub(super) struct Site {
    end: AtomicUsize,
    calls: AtomicU32,
    state: AtomicU32,
}

static SITES: [Site; SITES_MAX] =
    [const { Site { end: AtomicUsize::new(0), calls: AtomicU32::new(0), state: AtomicU32::new(0) } };
        SITES_MAX];

impl Site {
    pub(super) fn is_due(&self, patch_after: u32) -> bool {
        self.state.load(Ordering::Relaxed) == COUNTED && self.calls.load(Ordering::Relaxed) >= patch_after
    }

    pub(super) fn set_state(&self, state: SiteState) {
        let code = match state {
            SiteState::Patched(Way::Ahead { .. }) => PATCHED_AHEAD,
            SiteState::Patched(Way::Pad { .. }) => PATCHED_PAD,
            SiteState::NotOfAFile => NOT_OF_A_FILE,
            SiteState::NoRoomNear => NO_ROOM_NEAR,
            SiteState::Refused => REFUSED,
            SiteState::Unpatchable(reason) => {
                let index = REASONS.iter().position(|known| *known == reason);
                UNPATCHABLE + index.expect("every reason is in the list") as u32
            }
        };
        self.state.store(code, Ordering::Relaxed);
    }
}

/// Counts a call of the site; `None`: no place for it.
pub(super) fn note(end: usize) -> Option<&'static Site> {
    let start = end.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 52;
    for step in 0..STEPS_MAX {
        let site = &SITES[(start + step) % SITES_MAX];
        let found = match site.end.compare_exchange(0, end, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => end,
            Err(found) => found,
        };
        if found == end {
            site.calls.fetch_add(1, Ordering::Relaxed);
            return Some(site);
        }
    }
    None
}

/// All sites that were seen by dispatch since sites are patched.
pub fn sites_seen() -> impl Iterator<Item = SiteReport> {
    SITES.iter().filter(|site| site.end.load(Ordering::Relaxed) != 0).map(|site| SiteReport {
        end: site.end.load(Ordering::Relaxed),
        calls: site.calls.load(Ordering::Relaxed),
        code: site.state.load(Ordering::Relaxed),
    })
}
