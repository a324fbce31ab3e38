//! Fork: the child's copy of the page table, and bringing everything home.

use crate::engine::Engine;
use crate::fault::FaultOutcome;
use crate::platform::Platform;
use crate::reclaim::Patience;
use crate::workspace::Workspace;
use core::sync::atomic::Ordering;
use uswap_core::mm::MmState;
use uswap_core::page_table::PAGES_MAX;
use uswap_core::page_word::{self, Place};
use uswap_units::{BLOCK_PAGES, MmId, PageId, PageRange};

/// All pages.
const EVERYTHING: PageRange = PageRange { start: PageId(0), end: PageId(PAGES_MAX) };

impl<P: Platform> Engine<'_, P> {
    /// Copies the page table for a forked child, with the gate exclusive: it is exactly the memory that the child has. Each stored page gets one more
    /// reference. From now on the child reads staged frames from our arena until [`Engine::end_handover`]. None: no record or table page is free.
    pub fn clone_for_child(&self) -> Option<MmId> {
        self.handovers.fetch_add(1, Ordering::AcqRel);
        let record = self.record();
        record.set_fork_generation(record.fork_generation() + 1);
        let child = self.clone_table();
        if child.is_none() {
            self.end_handover();
        }
        child
    }

    fn clone_table(&self) -> Option<MmId> {
        let child = self.segment.mms().take()?;
        let Ok(root) = self.segment.tables().allocate(child.id()) else {
            child.free();
            return None;
        };
        child.set_root(root);
        child.set_fork_generation(1);
        let table = self.segment.page_table(child.id(), root);
        let swap_table = self.segment.swap_table();
        for leaf in self.table.leaves(EVERYTHING) {
            let Ok(copy) = table.leaf_or_allocate(leaf.first_page()) else {
                crate::reaper::drop_mm(self.segment, &self.platform, child.id());
                return None;
            };
            for index in 0..BLOCK_PAGES {
                let word = page_word::inherited(leaf.word(index as usize));
                if word.raw() == 0 {
                    continue;
                }
                if let Some(swap) = word.swap() {
                    swap_table.share(swap);
                }
                let put = copy.slot(leaf.first_page().plus(index)).put_back(word);
                assert!(put, "nobody else knows the table of a child that is being made");
            }
        }
        child.set_resident_pages(self.record().resident_pages());
        child.set_managed_pages(self.record().managed_pages());
        child.set_parent(u64::from(self.mm.0) + 1);
        child.set_state(MmState::Forked, 0);
        Some(child.id())
    }

    /// A child has all it needs: frames may be dropped again.
    pub fn end_handover(&self) {
        let before = self.handovers.fetch_sub(1, Ordering::AcqRel);
        assert!(before > 0);
    }

    /// In a new process (a forked child): which chunks of the arena are in use follows from the page words.
    pub fn rebuild_arena(&self) {
        let mut private = self.private.lock();
        let staged = self.table.leaves(EVERYTHING).flat_map(|leaf| {
            leaf.slots_in(EVERYTHING).filter_map(|(page, slot)| match slot.load().place() {
                Place::Staged(frame) => Some((page, frame)),
                Place::Fresh | Place::Present | Place::Swapped => None,
            })
        });
        private.arena.rebuild(staged);
    }

    /// In a new process (a forked child), before anyone else works on it: it does not have these addresses (MADV_DONTFORK).
    pub fn forget_unmapped(&self, range: PageRange) {
        self.remove_words(range, uswap_core::page_word::Afterwards::Unmanaged);
    }

    /// True when the content of a page in `range` is anywhere but in the program.
    pub fn holds_content(&self, range: PageRange) -> bool {
        let away = |place| matches!(place, Place::Staged(_) | Place::Swapped);
        self.table.leaves(range).any(|leaf| leaf.slots_in(range).any(|(_, slot)| away(slot.load().place())))
    }

    /// Brings every page home. Evicting must have been stopped. Returns pages that could not be brought, because an event is unread or someone works on them;
    /// the caller tries again. None: the process is gone.
    pub async fn bring_all_home(&self, workspace: &mut Workspace) -> Option<u64> {
        let mut left = 0;
        for leaf in self.table.leaves(EVERYTHING) {
            for index in 0..BLOCK_PAGES {
                let word = leaf.word(index as usize);
                if !matches!(word.place(), Place::Staged(_) | Place::Swapped) {
                    continue;
                }
                match self.serve_fault(leaf.first_page().plus(index), Patience::Over, workspace).await {
                    FaultOutcome::Served(_) => (),
                    FaultOutcome::Retry => left += 1,
                    FaultOutcome::Gone => return None,
                }
            }
        }
        Some(left)
    }
}
