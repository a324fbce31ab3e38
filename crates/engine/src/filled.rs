//! Zeros that the kernel has put where pages are missing, while their mapping was not registered.
//!
//! fork and mremap take the registration from a mapping, and pages that are stored are missing in it until it is
//! registered again. No thread touches it in that time. But the kernel may: khugepaged makes a huge page of some that
//! are there and of holes, which it fills with zeros. It does so where huge pages are `always` made, and where the
//! program has asked for them (MADV_HUGEPAGE). From the registration on it leaves holes alone.
//!
//! Must hold: the words say where the content is, so what is there besides is dropped before anybody can touch it: with
//! the gate exclusive, or in the only thread of a forked child. Called by `host` and `sim`, once a range is registered
//! again.

use crate::plant::{Plant, is_planted};
use crate::space::AddressSpace;
use crate::world::{BlockBits, World};
use uswap_core::page_table::Leaf;
use uswap_units::{BLOCK_PAGES, PageRange};

impl<W: World> AddressSpace<'_, W> {
    /// Drops what the kernel has filled of a range. False: it cannot be told, or the kernel refuses; then the range
    /// must not be touched.
    #[must_use]
    pub fn drop_filled(&self, range: PageRange) -> bool {
        is_planted(Plant::FilledByTheKernel)
            || self.table.leaves(range).all(|leaf| self.drop_filled_in(&leaf, range))
    }

    fn drop_filled_in(&self, leaf: &Leaf<'_>, range: PageRange) -> bool {
        let first = leaf.first_page();
        let is_missing =
            |&index: &usize| range.contains(first.plus(index as u64)) && leaf.word(index).is_missing();
        let mut filled: BlockBits = [0; _];
        for index in (0..BLOCK_PAGES as usize).filter(is_missing) {
            filled[index / 64] |= 1 << (index % 64);
        }
        if filled.iter().all(|&bits| bits == 0) {
            return true;
        }
        let Some(held) = self.world.held_in_block(first) else { return false };
        filled.iter_mut().zip(held).for_each(|(filled, held)| *filled &= held);
        let is_filled = |index: usize| filled[index / 64] >> (index % 64) & 1 != 0;
        (0..BLOCK_PAGES as usize)
            .filter(|&index| is_filled(index))
            .all(|index| self.world.drop_pages(&[PageRange::of_pages(first.plus(index as u64), 1)]) == 1)
    }
}
