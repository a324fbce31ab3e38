//! Fork: the child's copy of the page table, and bringing everything home.

use crate::arrivals::{Move, NOTHING};
use crate::engine::Engine;
use crate::event::{Removal, overlap};
use crate::fault::FaultOutcome;
use crate::late_unmaps::MOVES_MAX;
use crate::platform::{Platform, Touch};
use crate::throttle::Patience;
use crate::unfinished::{UNFINISHED_MAX, Unfinished};
use crate::workspace::Workspace;
use uswap_core::page_table::{PAGES_MAX, PageTable};
use uswap_core::page_word::{self, Afterwards, PageSlot, Place, Remove};
use uswap_units::{BLOCK_PAGES, MmId, PageId, PageRange};

/// All pages.
const EVERYTHING: PageRange = PageRange { start: PageId(0), end: PageId(PAGES_MAX) };

/// As many as it takes from locking a word to the end, so that the simulator tries that while a table is copied.
const STEPS_AT_LOCKED: u32 = 6;

/// New places of moves that a child does not know.
struct Places {
    places: [PageRange; MOVES_MAX + UNFINISHED_MAX],
    count: usize,
}

impl Places {
    fn new() -> Places {
        Places { places: [NOTHING; MOVES_MAX + UNFINISHED_MAX], count: 0 }
    }
    fn add(&mut self, place: PageRange) {
        self.places[self.count] = place;
        self.count += 1;
    }
    fn overlap(&self, range: PageRange) -> bool {
        self.places[..self.count].iter().any(|&place| overlap(place, range))
    }
}

/// True when a child has a page that one move took from `page`, in the place where it was before that move or before
/// others: `older` ones, the newest first.
fn came_from(
    mut page: PageId,
    older: impl Iterator<Item = Move>,
    child_has: impl Fn(PageId) -> bool,
) -> bool {
    if child_has(page) {
        return true;
    }
    for Move { from, to } in older {
        if (Move { from, to }).target().contains(page) {
            page = from.start.plus(page.0 - to.0);
            if child_has(page) {
                return true;
            }
        }
    }
    false
}

impl<P: Platform> Engine<'_, P> {
    /// Copies the page table for a forked child, with the gate exclusive: it is exactly the memory that the child has.
    /// Each stored page gets one more reference. From now on the child reads staged frames from our arena until
    /// [`Engine::end_handover`]. None: no record or table page is free.
    pub async fn clone_for_child(&self) -> Option<MmId> {
        self.handovers.begin();
        let record = self.record();
        record.set_fork_generation(record.fork_generation() + 1);
        let child = self.clone_table().await;
        if child.is_none() {
            self.end_handover();
        }
        child
    }

    async fn clone_table(&self) -> Option<MmId> {
        let child = self.segment.mms().take(self.segment.hands())?;
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
                let seen = leaf.word(index as usize);
                let word = page_word::inherited(seen);
                if word.raw() == 0 {
                    continue;
                }
                if let Some(swap) = word.swap() {
                    if seen.is_locked() {
                        // Whoever has locked it is at work meanwhile, but gives what the word names back only when the
                        // copy is done.
                        for _ in 0..STEPS_AT_LOCKED {
                            self.platform.step().await;
                        }
                    }
                    swap_table.share(swap);
                }
                let put = copy.slot(leaf.first_page().plus(index)).put_back(word);
                assert!(put, "nobody else knows the table of a child that is being made");
            }
        }
        child.set_resident_pages(self.record().resident_pages());
        child.set_managed_pages(self.record().managed_pages());
        child.set_parent(u64::from(self.mm.0) + 1);
        child.set_forked();
        Some(child.id())
    }

    /// Clones the table for the children that wait, as far as is known: best when no event is unread. The gate is
    /// exclusive.
    pub(crate) async fn finish_forks(&self, unfinished: &mut Unfinished) {
        self.finish_forks_if(unfinished, |_, _| true).await;
    }

    /// The same for some of the children, chosen by their descriptors and the positions at which they stand in the
    /// list.
    pub(crate) async fn finish_forks_if(
        &self,
        unfinished: &mut Unfinished,
        chosen: impl Fn(i32, usize) -> bool,
    ) {
        // From the end, so that those to come stay where they are.
        for position in (0..unfinished.len()).rev() {
            let is_chosen = |left| matches!(left, Removal::Fork(descriptor) if chosen(descriptor, position));
            let Some(Removal::Fork(descriptor)) = unfinished.take_at(position, is_chosen) else { continue };
            // The content of homeless pages is on its way into the parent's new place, where no word of a child could
            // find it.
            let homeless = unfinished.iter().any(|left| matches!(left, Removal::Homeless { .. }));
            let mut child = if homeless { None } else { self.clone_for_child().await };
            if let Some(mm) = child
                && !self.make_true(descriptor, mm, unfinished, position)
            {
                crate::reaper::drop_mm(self.segment, &self.platform, mm);
                self.end_handover();
                child = None;
            }
            self.platform.child_forked(descriptor, child);
        }
    }

    /// The kernel does not tell in which order a fork and a change of mappings by another thread took effect. The child
    /// itself shows it: words that were moved here but not there go back, those that were moved there but not here go
    /// on, and words of what the child does not have are dropped. `read_before`: so many of the unfinished were read
    /// before the fork. False: no table page is free.
    fn make_true(&self, descriptor: i32, mm: MmId, unfinished: &Unfinished, read_before: usize) -> bool {
        let root = self.segment.mms().record(mm).root().expect("it was cloned a moment ago");
        let table = self.segment.page_table(mm, root);
        let child_has = |page| self.platform.child_has(descriptor, page);
        let arrived = |page| self.private.lock().late_unmaps.arrivals.contains(page);
        let mut not_moved = Places::new();
        let mut moves = self.private.lock().late_unmaps.moves();
        while let Some(Move { from, to }) = moves.next() {
            let target = Move { from, to }.target();
            if let Some(page) = table.first_managed(target)
                && !child_has(page)
                && came_from(from.start.plus(page.0 - to.0), moves.clone(), child_has)
            {
                not_moved.add(target);
                if !self.carry(table, target, from.start) {
                    return false;
                }
            }
        }
        for (position, left) in unfinished.iter().enumerate() {
            match left {
                Removal::Postponed { from, to, stays } => {
                    // A place that stays is there before and after.
                    let page = self.page_to_ask_for(table, from).unwrap_or(from.start);
                    let moved_before =
                        || stays && position < read_before && self.has_new_place(descriptor, table, to);
                    // What came to the old place by a move that the child does not know went on after the fork too.
                    // That the child has not what was moved does not mean that it is at the new place: it may have been
                    // unmapped there, which is next in the list.
                    if not_moved.overlap(from) || child_has(page) && !moved_before() {
                        not_moved.add(to);
                        continue;
                    }
                    let room = table.leaves(to).flat_map(|leaf| leaf.slots_in(to));
                    room.for_each(|(_, slot)| self.drop_word(slot));
                    if !self.carry(table, from, to.start) {
                        return false;
                    }
                }
                Removal::Unmapped(range) => {
                    // A mapping that grew in place since is in the parent too. Was the unmapping read first, the child
                    // most likely has that, and not what was there before.
                    let ask = position < read_before;
                    let again = if ask { self.registered_again(table, range) } else { None };
                    for (page, slot) in table.leaves(range).flat_map(|leaf| leaf.slots_in(range)) {
                        let is_again = again.is_some_and(|again| again.contains(page)) && !arrived(page);
                        if slot.load().is_managed() && (is_again || !child_has(page)) {
                            self.drop_word(slot);
                        }
                    }
                }
                // Read before the fork, dropped before it: what is there now, the child has by itself.
                Removal::DropAgain(range) if position < read_before => {
                    let slots = table.leaves(range).flat_map(|leaf| leaf.slots_in(range));
                    slots.for_each(|(_, slot)| self.drop_word(slot));
                }
                _ => (),
            }
        }
        true
    }

    /// Whether a child has what was moved to `to`, if that was read before the fork and `table` has the words of what
    /// was there before. A page that had none may show that it has not; else what was read first was first.
    fn has_new_place(&self, child: i32, table: PageTable<'_>, to: PageRange) -> bool {
        self.platform.child_has(child, table.first_unmanaged(to).unwrap_or(to.start))
    }

    /// Where this process has something again, in a range that is known to be unmapped and of which a child has words.
    /// The first such part: two of them in one moment are not expected.
    fn registered_again(&self, table: PageTable<'_>, range: PageRange) -> Option<PageRange> {
        table.first_managed(range)?;
        self.platform.registered_mapping(range)
    }

    /// Carries words of a child's table, which nobody else knows yet, from one place to another. False: no table page
    /// is free.
    fn carry(&self, table: PageTable<'_>, from: PageRange, to: PageId) -> bool {
        for (page, slot) in table.leaves(from).flat_map(|leaf| leaf.slots_in(from)) {
            let word = slot.take().expect("nobody works on the words of a child that is being made");
            if !word.is_managed() {
                continue;
            }
            let target = to.plus(page.0 - from.start.0);
            let Ok(leaf) = table.leaf_or_allocate(target) else {
                let put = slot.put_back(word);
                assert!(put, "it was taken from there");
                return false;
            };
            self.drop_word(leaf.slot(target));
            let put = leaf.slot(target).put_back(word);
            assert!(put, "what was there was dropped");
        }
        true
    }

    fn drop_word(&self, slot: PageSlot<'_>) {
        if let Remove::Was(word) = slot.remove(Afterwards::Unmanaged)
            && let Some(swap) = word.swap()
        {
            self.put_entry(swap);
        }
    }

    /// A child has all it needs: frames may be dropped again.
    pub fn end_handover(&self) {
        self.handovers.end();
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

    /// In a new process (a forked child), before anyone else works on it: it does not have these addresses
    /// (MADV_DONTFORK).
    pub fn forget_unmapped(&self, range: PageRange) {
        self.remove_words(range, uswap_core::page_word::Afterwards::Unmanaged);
    }

    /// True when the content of a page in `range` is anywhere but in the program.
    pub fn holds_content(&self, range: PageRange) -> bool {
        let away = |place| matches!(place, Place::Staged(_) | Place::Swapped);
        self.table.leaves(range).any(|leaf| leaf.slots_in(range).any(|(_, slot)| away(slot.load().place())))
    }

    /// Brings every page home. Evicting must have been stopped. Returns pages that could not be brought, because an
    /// event is unread or someone works on them; the caller tries again. None: the process is gone.
    pub async fn bring_all_home(&self, workspace: &mut Workspace) -> Option<u64> {
        let mut left = 0;
        for leaf in self.table.leaves(EVERYTHING) {
            for index in 0..BLOCK_PAGES {
                let word = leaf.word(index as usize);
                if !matches!(word.place(), Place::Staged(_) | Place::Swapped) {
                    continue;
                }
                let page = leaf.first_page().plus(index);
                match self.serve_fault(page, Touch::Read, Patience::Over, workspace).await {
                    FaultOutcome::Served(_) => (),
                    FaultOutcome::Retry => left += 1,
                    FaultOutcome::Gone => return None,
                }
            }
        }
        Some(left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(from: u64, to: u64) -> Move {
        Move { from: PageRange { start: PageId(from), end: PageId(from + 10) }, to: PageId(to) }
    }

    #[test]
    fn where_pages_came_from_is_followed_through_all_moves_that_a_child_does_not_know() {
        // 100 to 200, another to 500, then 200 to 300; and the child has 100, or what the first move left.
        let older = || [moved(700, 500), moved(100, 200)].into_iter();
        assert!(came_from(PageId(203), older(), |page| page == PageId(103)));
        assert!(came_from(PageId(203), older(), |page| page == PageId(203)));
        assert!(!came_from(PageId(203), older(), |page| page == PageId(703)), "nothing came from there");
        assert!(!came_from(PageId(203), older().take(1), |page| page == PageId(103)));
    }
}
