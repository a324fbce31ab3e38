//! System calls of the simulated program that change its mappings, with what `host` does around them: the gate, the
//! words and the registration.
//!
//! What the kernel does is one step, and the oracle changes with it (the functions `make_...`).

use crate::engine::Touch;
use crate::khugepaged;
use crate::memory::{Kind, MappedPage, Rights};
use crate::oracle::Expected;
use crate::places::{placed, some_mapping, some_range};
use crate::process::{Phase, Process};
use crate::seam::Space;
use crate::world::World;
use uswap_core::page_table::ALL_PAGES;
use uswap_core::page_word::Afterwards;
use uswap_units::{Bytes, PageId, PageRange};

/// Smaller mappings are left alone when a process becomes managed.
const MAPPING_PAGES_MIN: u64 = 3;

/// A call that a thread of a process makes.
#[derive(Clone, Copy)]
pub struct Caller<'c, 'a> {
    /// Where.
    pub world: &'c World<'a>,
    /// Whose memory it is about.
    pub process: &'c Process<'a>,
}

/// Takes all memory that may be managed, if nothing is yet.
pub async fn activate<'a>(world: &World<'a>, process: &Process<'a>, space: &Space<'a>) {
    process.kernel.lock_exclusive(world).await;
    if process.phase.get() == Phase::Watching {
        world.note(format_args!("process {} is managed", process.number));
        world.count("processes that became managed", 1);
        process.phase.set(Phase::Active);
        take_everything(world, process, space).await;
    }
    process.kernel.unlock_exclusive(world);
}

/// Takes all that may be managed, with the gate exclusive. Calls may be under way that have told their ranges and found
/// no words: what they touch is there before it is registered. Who begins later finds the words, and waits.
async fn take_everything<'a>(world: &World<'a>, process: &Process<'a>, space: &Space<'a>) {
    let caller = Caller { world, process };
    let mappings = process.kernel.memory.borrow().mappings_in(ALL_PAGES);
    let is_wanted = |(range, like): &(PageRange, MappedPage)| {
        like.kind == Kind::Plain && like.rights == Rights::Write && range.pages() >= MAPPING_PAGES_MIN
    };
    let parts: Vec<PageRange> = mappings
        .into_iter()
        .filter(is_wanted)
        .flat_map(|(range, _)| process.parts_to_manage(range))
        .filter(|part| space.adopt(*part).is_ok() || caller.has_no_room(space, *part))
        .collect();
    caller.step().await;
    let hazards: Vec<PageRange> = process.kernel.hazards.borrow().iter().map(|(_, range)| *range).collect();
    for page in hazards.iter().flat_map(|range| range.each()) {
        let _only_what_may_be_read = process.kernel.memory.borrow_mut().touch(page, Touch::Read);
    }
    for part in parts {
        caller.step().await;
        caller.take(space, part);
    }
}

impl<'a> Caller<'_, 'a> {
    pub(crate) fn note(&self, what: core::fmt::Arguments<'_>) {
        self.world.note(what);
    }
    pub(crate) async fn step(&self) {
        self.world.executor.step().await;
    }
    async fn lock_exclusive(&self) {
        self.process.kernel.lock_exclusive(self.world).await;
    }
    pub(crate) async fn lock_alone_with(&self, space: &Space<'a>, ranges: &[PageRange]) {
        self.process.lock_alone_with(self.world, space, ranges).await;
    }
    pub(crate) fn unlock_exclusive(&self) {
        self.process.kernel.unlock_exclusive(self.world);
    }

    /// Makes a call that needs nothing else, if nothing is managed.
    pub(crate) async fn makes_unmanaged(&self, make: &dyn Fn()) -> bool {
        if self.process.phase.get() == Phase::Watching {
            self.process.kernel.lock_shared(self.world).await;
            let may = self.process.phase.get() == Phase::Watching;
            if may {
                make();
            }
            self.process.kernel.unlock_shared(self.world);
            return may;
        }
        let is_home = self.process.phase.get() == Phase::Home;
        if is_home {
            make();
        }
        is_home
    }

    /// Memory that is about to be mapped would be more than there is room for.
    pub(crate) async fn activate_if_needed(&self, pages: u64) {
        let segment = self.world.segment;
        let used = segment.budget().used().bytes() + Bytes::of_pages(pages).bytes();
        if self.process.phase.get() == Phase::Watching
            && used > segment.budget().watermarks().register.bytes()
        {
            activate(self.world, self.process, &self.process.space()).await;
        }
    }

    /// Takes a part of one mapping under management, with the gate exclusive.
    pub(crate) fn take(&self, space: &Space<'a>, range: PageRange) {
        if self.process.phase.get() != Phase::Active || range.start() >= range.end() {
            return;
        }
        // Ahead of all else: some of the range may be managed, and its words name content.
        if space.reserve_words(range).is_err() {
            return self.world.count("page tables full", 1);
        }
        self.process.kernel.memory.borrow_mut().register(range);
        space.adopt(range).expect("there is room for the words");
        self.keep_if_locked(space, range);
    }
    /// The tables of the run are full: what was adopted of a part that was not managed before is given up. False.
    fn has_no_room(&self, space: &Space<'a>, part: PageRange) -> bool {
        self.world.count("page tables full", 1);
        space.drop_words(part, Afterwards::Unmanaged);
        false
    }
    fn take_but_left_alone(&self, space: &Space<'a>, range: PageRange, kind: Kind) {
        if kind == Kind::Plain {
            let parts = self.process.parts_to_manage(range);
            parts.into_iter().for_each(|part| self.take(space, part));
        }
    }
    fn take_candidates(&self, space: &Space<'a>, range: PageRange) {
        let mappings = self.process.kernel.memory.borrow().mappings_in(range);
        for (part, like) in mappings.into_iter().filter(|(_, like)| like.rights != Rights::Nothing) {
            self.take_but_left_alone(space, part, like.kind);
        }
    }
    fn keep_if_locked(&self, space: &Space<'a>, range: PageRange) {
        if self
            .process
            .kernel
            .memory
            .borrow()
            .pages
            .get(&range.start().number())
            .is_some_and(|mapped| mapped.locked)
        {
            space.deactivate(range);
        }
    }
    /// What may be managed of a range may be evicted if it is not locked. With the gate exclusive.
    fn follow_locks(&self, space: &Space<'a>, range: PageRange) {
        let mappings = self.process.kernel.memory.borrow().mappings_in(range);
        for (part, like) in mappings {
            if like.kind != Kind::Plain || like.rights == Rights::Nothing {
                continue;
            }
            if like.locked { space.deactivate(part) } else { space.activate(part) }
        }
    }
    /// A moved or grown mapping is registered as it was. False: the program is ended.
    #[must_use]
    pub(crate) fn register_again(&self, space: &Space<'a>, range: PageRange) -> bool {
        if self.process.phase.get() != Phase::Active {
            // Everything came home while this call waited for the gate.
            return true;
        }
        khugepaged::come_by(self.world, self.process);
        self.process.kernel.memory.borrow_mut().register(range);
        let has_room = space.adopt(range).is_ok() && space.drop_filled(range);
        if has_room {
            self.keep_if_locked(space, range);
        }
        has_room
    }

    fn make_map(&self, range: PageRange, kind: Kind) {
        self.note(format_args!("mmap {range:?} {kind:?}"));
        self.process.kernel.memory.borrow_mut().map(range, &MappedPage::new(kind));
        self.process.manage_again(range);
        self.expect_zeros(range);
    }
    pub(crate) fn expect_zeros(&self, range: PageRange) {
        let mut expected = self.process.oracle.expected.borrow_mut();
        expected.extend(range.numbers().map(|page| (page, Expected::zeros())));
    }
    pub(crate) fn make_unmap(&self, range: PageRange) {
        self.note(format_args!("munmap {range:?}"));
        self.process.kernel.memory.borrow_mut().unmap(range);
        self.process.oracle.expected.borrow_mut().retain(|&page, _| !range.contains(PageId::new(page)));
        self.process.forget_kept(range);
        self.process.manage_again(range);
    }
    /// MADV_DONTNEED: how far it came.
    fn make_drop(&self, range: PageRange) -> PageId {
        let end = self.process.kernel.memory.borrow_mut().drop_content(range);
        self.note(format_args!("dropped {range:?} up to {end:?}"));
        let mut expected = self.process.oracle.expected.borrow_mut();
        expected
            .range_mut(range.start().number()..end.number())
            .for_each(|(_, what)| *what = Expected::zeros());
        self.process.forget_kept(PageRange::new(range.start(), end));
        end
    }
    /// Pages go to a place where nothing is mapped.
    pub(crate) fn make_move(&self, from: PageRange, to: PageId) {
        self.note(format_args!("mremap {from:?} to {to:?}"));
        self.process.kernel.memory.borrow_mut().move_to(from, to);
        self.process.leave_alone_as(from, PageRange::of_pages(to, from.pages()));
        let mut expected = self.process.oracle.expected.borrow_mut();
        for index in 0..from.pages() {
            let what =
                expected.remove(&from.start().plus(index).number()).expect("what is mapped is expected");
            expected.insert(to.plus(index).number(), what);
        }
        self.process.forget_kept(from);
    }
    pub(crate) fn make_grown(&self, from: PageRange, end: PageId) {
        let like = self.process.kernel.memory.borrow().pages[&from.end().minus(1).number()].emptied();
        let new = PageRange::new(from.end(), end);
        self.process.manage_again(new);
        self.process.kernel.memory.borrow_mut().map(new, &like);
        self.expect_zeros(new);
    }

    /// mmap at a free place; small zones make it a place that was used a moment ago.
    pub async fn map(&self) {
        let range = placed(self.world, self.process, some_range(self.world, 96));
        let kind = if self.world.below(16) == 0 { Kind::Other } else { Kind::Plain };
        self.activate_if_needed(range.pages()).await;
        let is_free =
            |range| !self.process.kernel.memory.borrow().has_some(range) && self.process.oracle.claim(range);
        let make = || {
            if is_free(range) {
                self.make_map(range, kind);
                self.process.oracle.unclaim(range);
            }
        };
        self.world.count("mmap", 1);
        if self.makes_unmanaged(&make).await {
            return;
        }
        let Some(space) = self.process.managed_space() else { return };
        self.lock_exclusive().await;
        if !is_free(range) {
            return self.unlock_exclusive();
        }
        self.make_map(range, kind);
        self.unlock_exclusive();
        self.step().await;
        self.take_new(&space, range, kind).await;
        self.process.oracle.unclaim(range);
    }
    async fn take_new(&self, space: &Space<'a>, range: PageRange, kind: Kind) {
        if kind == Kind::Plain {
            self.lock_alone_with(space, &[range]).await;
            self.take(space, range);
            self.unlock_exclusive();
        }
    }

    /// mmap with MAP_FIXED over what is there.
    pub async fn map_over(&self) {
        let range = some_range(self.world, 48);
        if !self.process.kernel.memory.borrow().has_some(range) || !self.process.oracle.claim(range) {
            return;
        }
        self.world.count("mmap over", 1);
        let make = || {
            self.make_unmap(range);
            self.make_map(range, Kind::Plain);
        };
        if !self.makes_unmanaged(&make).await
            && let Some(space) = self.process.managed_space()
        {
            self.lock_alone_with(&space, &[range]).await;
            make();
            self.step().await;
            space.drop_words(range, Afterwards::Unmanaged);
            self.unlock_exclusive();
            self.step().await;
            self.take_new(&space, range, Kind::Plain).await;
        }
        self.process.oracle.unclaim(range);
    }

    /// munmap of a part of what is there, holes included.
    pub async fn unmap(&self) {
        let range = some_range(self.world, 64);
        if !self.process.kernel.memory.borrow().has_some(range) || !self.process.oracle.claim(range) {
            return;
        }
        self.world.count("munmap", 1);
        let make = || self.make_unmap(range);
        if !self.makes_unmanaged(&make).await
            && let Some(space) = self.process.managed_space()
        {
            self.lock_alone_with(&space, &[range]).await;
            make();
            self.step().await;
            space.drop_words(range, Afterwards::Unmanaged);
            self.unlock_exclusive();
        }
        self.process.oracle.unclaim(range);
    }

    /// MADV_DONTNEED, or MADV_FREE, which is made as that. Others may go on using the pages.
    pub async fn drop_pages(&self) {
        let Some(range) = some_mapping(self.world, self.process, 64) else { return };
        // Sometimes what lies behind is meant too, with holes and other mappings.
        let more = if self.world.below(4) == 0 { self.world.below(32) } else { 0 };
        let range = PageRange::new(range.start(), range.end().plus(more));
        let is_used_by_kernel =
            self.process.kernel.hazards.borrow().iter().any(|(_, held)| held.overlaps(range));
        if is_used_by_kernel || self.process.oracle.is_claimed(range) {
            return;
        }
        self.process.oracle.advised.borrow_mut().push(range);
        self.world.count("madvise dontneed", 1);
        let make = || _ = self.make_drop(range);
        if !self.makes_unmanaged(&make).await
            && let Some(space) = self.process.managed_space()
        {
            self.lock_exclusive().await;
            if self.make_drop(range) == range.end() {
                self.step().await;
                space.drop_words(range, Afterwards::StillManaged);
            } else {
                self.world.count("madvise dontneed of locked memory", 1);
                self.drop_in_front(&space, range);
            }
            self.unlock_exclusive();
        }
        let mut advised = self.process.oracle.advised.borrow_mut();
        let at = advised.iter().position(|other| *other == range).expect("it was put there above");
        advised.swap_remove(at);
    }
    fn drop_in_front(&self, space: &Space<'a>, range: PageRange) {
        let mappings = self.process.kernel.memory.borrow().mappings_in(range);
        for (part, _) in mappings {
            if self.make_drop(part) != part.end() {
                return;
            }
            space.drop_words(part, Afterwards::StillManaged);
        }
    }

    /// mprotect.
    pub async fn protect(&self) {
        let Some(range) = some_mapping(self.world, self.process, 48) else { return };
        let rights = [Rights::Nothing, Rights::Read, Rights::Write, Rights::Write];
        let rights = rights[self.world.below(4) as usize];
        if !self.process.oracle.claim(range) {
            return;
        }
        self.world.count("mprotect", 1);
        let make = || {
            self.note(format_args!("mprotect {range:?} {rights:?}"));
            self.process
                .kernel
                .memory
                .borrow_mut()
                .in_range_mut(range)
                .for_each(|mapped| mapped.rights = rights);
        };
        if !self.makes_unmanaged(&make).await
            && let Some(space) = self.process.managed_space()
        {
            self.lock_exclusive().await;
            if rights == Rights::Nothing {
                space.deactivate(range);
                make();
            } else {
                make();
                self.step().await;
                self.follow_locks(&space, range);
                if rights == Rights::Write && space.page_table().first_unmanaged(range).is_some() {
                    self.take_candidates(&space, range);
                }
            }
            self.unlock_exclusive();
        }
        self.process.oracle.unclaim(range);
    }

    /// MADV_DONTFORK and MADV_DOFORK.
    pub fn do_not_fork(&self) {
        let Some(range) = some_mapping(self.world, self.process, 32) else { return };
        let is_inherited = self.world.below(3) == 0;
        if self.process.oracle.claim(range) {
            self.note(format_args!("madvise {range:?} inherited {is_inherited}"));
            self.world.count("madvise dontfork", 1);
            let mut memory = self.process.kernel.memory.borrow_mut();
            memory.in_range_mut(range).for_each(|mapped| mapped.is_inherited = is_inherited);
            self.process.oracle.unclaim(range);
        }
    }

    /// mlock, or munlock.
    pub async fn lock(&self) {
        let Some(range) = some_mapping(self.world, self.process, 12) else { return };
        if !self.process.oracle.claim(range) {
            return;
        }
        let locks = self.world.below(2) == 0;
        self.world.count(if locks { "mlock" } else { "munlock" }, 1);
        let make = || {
            self.note(format_args!("lock {range:?} {locks}"));
            self.process
                .kernel
                .memory
                .borrow_mut()
                .in_range_mut(range)
                .for_each(|mapped| mapped.locked = locks);
        };
        if !self.makes_unmanaged(&make).await
            && let Some(space) = self.process.managed_space()
        {
            if locks {
                // No evictor drops a range of which a part becomes locked.
                self.lock_exclusive().await;
                make();
                self.step().await;
                self.follow_locks(&space, range);
                self.unlock_exclusive();
                self.fill_locked(&space, range).await;
            } else {
                self.lock_exclusive().await;
                make();
                self.follow_locks(&space, range);
                self.unlock_exclusive();
            }
        }
        self.process.oracle.unclaim(range);
    }
    /// What is away is brought, and only then the kernel fills: it meets nothing that is missing.
    async fn fill_locked(&self, space: &Space<'a>, range: PageRange) {
        let mappings = self.process.kernel.memory.borrow().mappings_in(range);
        space.hold_evicting();
        for (part, like) in &mappings {
            if like.rights != Rights::Nothing {
                let touch = Touch::that(like.rights == Rights::Write);
                self.process.fault_in_range(self.world, space, *part, touch).await;
            }
        }
        space.resume_evicting();
        self.step().await;
        let mut memory = self.process.kernel.memory.borrow_mut();
        for (page, like) in mappings.iter().flat_map(|(part, like)| part.each().map(move |page| (page, like)))
        {
            let touch = Touch::that(like.rights == Rights::Write);
            let is_lost = || self.process.is_lost(self.world, space, page);
            if like.rights != Rights::Nothing
                && matches!(memory.touch(page, touch), crate::memory::Found::Fault)
                && !is_lost()
            {
                self.world.fail(format!("mlock meets a fault at {page:?}"));
            }
        }
    }

    /// The kernel may touch pages at any time from now on, as those of a stack.
    pub async fn keep(&self) {
        let Some(range) = some_mapping(self.world, self.process, 4) else { return };
        let Some(space) = self.process.managed_space() else { return };
        let is_writable =
            self.process.kernel.memory.borrow().is_all(range, |mapped| mapped.rights == Rights::Write);
        if !is_writable || !self.process.oracle.claim(range) {
            return;
        }
        self.world.count("pages kept", range.pages());
        self.process.pin_range(self.world, &space, range).await;
        let is_right = |page: &PageId| {
            let is_managed = space.is_managed(*page);
            let memory = self.process.kernel.memory.borrow();
            let mapped = memory.pages.get(&page.number());
            is_managed && mapped.is_some_and(|mapped| mapped.content.is_some() && !mapped.protected)
        };
        // What is not managed, or cannot be read back, stays out.
        let pages = range.each().filter(is_right);
        self.process.kept.borrow_mut().extend(pages);
        self.process.oracle.unclaim(range);
    }

    /// The program wants to serve the faults of a range itself: it comes home, and is not managed any more.
    pub async fn leave_alone(&self) {
        let Some(range) = some_mapping(self.world, self.process, 16) else { return };
        let Some(space) = self.process.managed_space() else { return };
        if !self.process.oracle.claim(range) {
            return;
        }
        self.world.count("ranges left alone", 1);
        if self.lock_with_all_home(&space, range, PageRange::EMPTY).await {
            self.note(format_args!("{range:?} is left alone"));
            self.process.left_alone.borrow_mut().push(range);
            if space.page_table().first_managed(range).is_some() {
                space.drop_words(range, Afterwards::Unmanaged);
                self.process.kernel.memory.borrow_mut().unregister(range);
            }
            self.unlock_exclusive();
        }
        self.process.oracle.unclaim(range);
    }

    /// All pages of `from` are in the program, and none is protected: the gate is held exclusive. False: one of them
    /// cannot be read.
    pub(crate) async fn lock_with_all_home(
        &self,
        space: &Space<'a>,
        from: PageRange,
        other: PageRange,
    ) -> bool {
        loop {
            let _nothing_of_it_goes = space.hold_range(from);
            while let Some(page) = space.first_away(from) {
                let fault = self.process.fault_in(self.world, space, page, Touch::Write).await;
                if fault == crate::engine::FaultOutcome::Lost {
                    return false;
                }
            }
            self.lock_alone_with(space, &[from, other]).await;
            if space.first_away(from).is_none() {
                return true;
            }
            self.unlock_exclusive();
        }
    }
}
