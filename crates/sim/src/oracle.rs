//! The oracle of a process: what each of its pages must hold, and which of them are in use, or about to change.
//!
//! It changes in the same instant as the memory. The program's threads, its calls and its children ask it and tell it.

use crate::content::{Version, page_of};
use crate::world::World;
use std::cell::RefCell;
use std::collections::BTreeMap;
use uswap_codec::Page;
use uswap_units::{PageId, PageRange};

/// What one page must hold.
#[derive(Clone, Copy, Debug)]
pub struct Expected {
    /// This content.
    pub version: Version,
    /// It gave SIGBUS: not looked at any more.
    pub poisoned: bool,
}

impl Expected {
    /// A page of zeros.
    pub fn zeros() -> Expected {
        Expected { version: 0, poisoned: false }
    }
}

/// What is known of the memory of one process.
pub struct Oracle {
    /// The number of the process.
    process: usize,
    /// What its pages must hold.
    pub expected: RefCell<BTreeMap<u64, Expected>>,
    /// Ranges whose content is being dropped: others may go on using them.
    pub advised: RefCell<Vec<PageRange>>,
    /// Uses in progress by page.
    users: RefCell<BTreeMap<u64, u32>>,
    /// Ranges whose mapping is being changed.
    claimed: RefCell<Vec<PageRange>>,
}

fn has_overlap(ranges: &[PageRange], range: PageRange) -> bool {
    ranges.iter().any(|other| other.overlaps(range))
}

impl Oracle {
    /// Of a process that begins with these pages.
    pub fn new(process: usize, expected: BTreeMap<u64, Expected>) -> Oracle {
        Oracle {
            process,
            expected: RefCell::new(expected),
            advised: RefCell::default(),
            users: RefCell::default(),
            claimed: RefCell::default(),
        }
    }

    /// The program has got SIGBUS: it does not look there again.
    pub fn poison(&self, world: &World<'_>, page: PageId) {
        world.note(format_args!("SIGBUS at {page:?}"));
        world.count("SIGBUS", 1);
        if let Some(expected) = self.expected.borrow_mut().get_mut(&page.number()) {
            expected.poisoned = true;
        }
    }

    /// A page has this content from now on.
    pub fn expect(&self, page: PageId, version: Version) {
        if let Some(expected) = self.expected.borrow_mut().get_mut(&page.number()) {
            expected.version = version;
        }
    }

    /// A page that is present must hold what is expected.
    pub fn verify(&self, world: &World<'_>, page: PageId, content: &Page) {
        let Some(expected) = self.expected.borrow().get(&page.number()).copied() else { return };
        if !expected.poisoned && page_of(expected.version) != *content {
            let found = (0..100_000).find(|&version| page_of(version) == *content);
            world.fail(format!(
                "DATA LOSS: {page:?} of process {} must hold version {} and holds {found:?} ({:02x?}...)",
                self.process,
                expected.version,
                &content[..16]
            ));
        }
    }

    /// The pages of a range are in use: nobody changes their mapping until [`Oracle::end_use`].
    pub fn begin_use(&self, range: PageRange) {
        let mut users = self.users.borrow_mut();
        range.numbers().for_each(|page| *users.entry(page).or_default() += 1);
    }
    /// They are not any more.
    pub fn end_use(&self, range: PageRange) {
        let mut users = self.users.borrow_mut();
        for page in range.numbers() {
            let count = users.get_mut(&page).expect("who ends a use has begun it");
            *count -= 1;
            if *count == 0 {
                users.remove(&page);
            }
        }
    }

    /// Claims a range for a change of its mapping. False when somebody uses it.
    pub fn claim(&self, range: PageRange) -> bool {
        let is_used = self.users.borrow().range(range.numbers()).next().is_some();
        if is_used || self.is_changing(range) {
            return false;
        }
        self.claimed.borrow_mut().push(range);
        true
    }
    /// Gives a claim back.
    pub fn unclaim(&self, range: PageRange) {
        let mut claimed = self.claimed.borrow_mut();
        let at = claimed.iter().position(|other| *other == range).expect("who gives a claim back has it");
        claimed.swap_remove(at);
    }
    /// Whether the mapping of some page of a range is being changed.
    pub fn is_claimed(&self, range: PageRange) -> bool {
        has_overlap(&self.claimed.borrow(), range)
    }
    /// Whether that, or the content of some of it is being dropped.
    pub fn is_changing(&self, range: PageRange) -> bool {
        self.is_claimed(range) || has_overlap(&self.advised.borrow(), range)
    }
}
