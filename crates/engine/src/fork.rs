//! A forked child: its own copy of the page words, and one more reference to everything that they name.
//!
//! Must hold: words are copied and references counted in one exclusive section of the gate, that of the fork; so no
//! entry is given up in between. Called by `host` and `sim`, in the thread that forks.

use crate::plant::{Plant, is_planted};
use crate::space::AddressSpace;
use crate::world::World;
use uswap_core::mm::MmState;
use uswap_core::page_table::ALL_PAGES;
use uswap_core::page_word::inherited;
use uswap_units::{BLOCK_PAGES, MmId, PageRange};

impl<W: World> AddressSpace<'_, W> {
    /// Copies the page table for a child that is about to be forked, with the gate exclusive until it has been: so it
    /// is exactly the memory that the child has. None: no record or no table page is free.
    ///
    /// Nobody gives up what a word names outside of a shared section, so each entry is still counted when one more is
    /// added.
    pub fn clone_for_child(&self) -> Option<MmId> {
        let child = self.segment.mms().take(self.segment.holder())?;
        let Ok(root) = self.segment.tables().allocate(child.id()) else {
            child.free();
            return None;
        };
        child.set_root(root);
        let table = self.segment.page_table(child.id(), root);
        for leaf in self.table.leaves(ALL_PAGES) {
            let Ok(copy) = table.leaf_or_allocate(leaf.first_page()) else {
                self.give_up_child(child.id());
                return None;
            };
            for index in 0..BLOCK_PAGES {
                let word = inherited(leaf.word(index as usize));
                if word.raw() == 0 {
                    continue;
                }
                if let Some(swap) = word.swap().filter(|_| !is_planted(Plant::ForkWithoutCount)) {
                    self.segment.swap_table().share(swap);
                }
                let put = copy.word_ref(leaf.first_page().plus(index)).put_back(word);
                assert!(put, "nobody else knows the table of a child that is being made");
            }
        }
        child.set_resident_pages(self.record().resident_pages());
        child.set_managed_pages(self.record().managed_pages());
        child.set_parent(Some(self.mm));
        child.set_forked();
        Some(child.id())
    }

    /// There is no child after all.
    pub fn give_up_child(&self, child: MmId) {
        let record = self.segment.mms().record(child);
        if record.state() != MmState::Forked || record.reap_forked() {
            crate::reaper::drop_mm(self.segment, &self.world, child);
        }
    }

    /// In a child that has taken over: the pages of a range are not mapped here (MADV_DONTFORK).
    pub fn forget_unmapped(&self, range: PageRange) {
        self.drop_words(range, uswap_core::page_word::Afterwards::Unmanaged);
    }

    /// True when the content of a page of the range is anywhere but in the program.
    pub fn holds_content(&self, range: PageRange) -> bool {
        self.first_away(range).is_some()
    }
}
