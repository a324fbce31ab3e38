//! `mremap` of the simulated program: words and registration go where the mapping goes, as `host` does it.
//!
//! Called by [`crate::program`]. What is common to all calls is in [`crate::mappings`].

use crate::mappings::Caller;
use crate::places::{ZONE_START, gap_for, placed, some_mapping, some_range};
use crate::seam::Space;
use std::cell::Cell;
use uswap_core::page_word::Afterwards;
use uswap_units::{PageId, PageRange};

impl<'a> Caller<'_, 'a> {
    /// mremap: makes a mapping longer or shorter where it is, or moves it where the kernel finds room, or to a place
    /// that the program names, perhaps one that is mapped, perhaps with MREMAP_DONTUNMAP.
    pub async fn remap(&self) {
        let Some(from) = some_mapping(self.world, self.process, 64) else { return };
        let new_pages = match self.world.below(4) {
            0 => 1 + self.world.below(from.pages()),
            1 => from.pages() + 1 + self.world.below(16),
            _ => from.pages(),
        };
        match self.world.below(3) {
            0 => self.remap_anywhere(from, new_pages).await,
            _ => self.remap_fixed(from).await,
        }
    }

    async fn remap_anywhere(&self, from: PageRange, new_pages: u64) {
        if !self.process.oracle.claim(from) {
            return;
        }
        self.world.count("mremap", 1);
        self.activate_if_needed(new_pages.saturating_sub(from.pages())).await;
        let new = Cell::new(PageRange::EMPTY);
        if !self.makes_unmanaged(&|| _ = self.grow_or_move(from, new_pages, &new)).await
            && let Some(space) = self.process.managed_space()
        {
            let is_managed = space.page_table().first_managed(from).is_some();
            self.lock_alone_with(&space, &[from]).await;
            if let Some(to) = self.grow_or_move(from, new_pages, &new)
                && is_managed
            {
                self.step().await;
                self.after_move(&space, from, to, PageRange::EMPTY, false).await;
            }
            self.unlock_exclusive();
        }
        self.process.oracle.unclaim(from);
        if new.get() != PageRange::EMPTY {
            self.process.oracle.unclaim(new.get());
        }
    }

    /// Where it is if there is room, or else in a place that touches no other mapping. Where it is then; what is `new`
    /// is used by nobody until the call has returned.
    fn grow_or_move(&self, from: PageRange, new_pages: u64, new: &Cell<PageRange>) -> Option<PageRange> {
        let here = PageRange::of_pages(from.start(), new_pages);
        let zone_end = PageId::new(ZONE_START + self.world.options.zone_pages);
        if here.end() <= from.end() {
            self.make_unmap(PageRange::new(here.end(), from.end()));
            return Some(here);
        }
        let behind = PageRange::new(from.end(), here.end());
        let is_free = here.end() <= zone_end && !self.process.kernel.memory.borrow().has_some(behind);
        if is_free && self.world.below(4) > 0 && self.process.oracle.claim(behind) {
            new.set(behind);
            self.note(format_args!("mremap {from:?}: grows to {here:?}"));
            self.make_grown(from, here.end());
            return Some(here);
        }
        let gap = gap_for(self.world, self.process, u64::MAX, new_pages + 2)?;
        let to = PageRange::of_pages(gap.start().plus(1), new_pages);
        if !self.process.oracle.claim(to) {
            return None;
        }
        new.set(to);
        self.make_move(from, to.start());
        self.process.manage_again(from);
        self.make_grown(PageRange::of_pages(to.start(), from.pages()), to.end());
        Some(to)
    }

    async fn remap_fixed(&self, from: PageRange) {
        let stays = self.world.below(4) == 0;
        let named = some_range(self.world, 1).start();
        let to = placed(self.world, self.process, PageRange::of_pages(named, from.pages()));
        let is_over = self.process.kernel.memory.borrow().has_some(to);
        let is_locked = self.process.kernel.memory.borrow().in_range(from).any(|(_, mapped)| mapped.locked);
        if from.overlaps(to)
            || (is_over && self.world.below(3) > 0)
            || (stays && is_locked)
            || !self.process.oracle.claim(from)
        {
            return;
        }
        if !self.process.oracle.claim(to) {
            return self.process.oracle.unclaim(from);
        }
        self.world.count(if stays { "mremap dontunmap" } else { "mremap fixed" }, 1);
        let make = || {
            self.make_unmap(to);
            let like = self.process.kernel.memory.borrow().pages[&from.start().number()].clone();
            self.make_move(from, to.start());
            if stays {
                self.process.kernel.memory.borrow_mut().map(from, &like);
                self.expect_zeros(from);
            } else {
                self.process.manage_again(from);
            }
        };
        if !self.makes_unmanaged(&make).await
            && let Some(space) = self.process.managed_space()
        {
            self.remap_fixed_managed(&space, (from, to), stays, &make).await;
        }
        self.process.oracle.unclaim(from);
        self.process.oracle.unclaim(to);
    }

    async fn remap_fixed_managed(
        &self,
        space: &Space<'a>,
        (from, to): (PageRange, PageRange),
        stays: bool,
        make: &dyn Fn(),
    ) {
        if space.page_table().first_managed(from).is_none() {
            self.lock_alone_with(space, &[from, to]).await;
            make();
            self.step().await;
            space.drop_words(to, Afterwards::Unmanaged);
            return self.unlock_exclusive();
        }
        // Another thread may touch the place before it is registered again: then nothing may be missing there.
        if !self.lock_with_all_home(space, from, to).await {
            return self.world.count("mremap of a page that cannot be read", 1);
        }
        self.process.kernel.memory.borrow_mut().unregister(from);
        self.step().await;
        make();
        self.step().await;
        self.after_move(space, from, to, to, stays).await;
        self.unlock_exclusive();
    }

    /// The words follow a mapping that was moved, or has changed its length. With the gate exclusive.
    async fn after_move(
        &self,
        space: &Space<'a>,
        from: PageRange,
        to: PageRange,
        fixed: PageRange,
        stays: bool,
    ) {
        let is_active = space.is_active(from);
        space.drop_words(fixed, Afterwards::Unmanaged);
        let kept = PageRange::new(from.start(), from.end().min(from.start().plus(to.pages())));
        if kept.end() < from.end() {
            space.drop_words(PageRange::new(kept.end(), from.end()), Afterwards::Unmanaged);
        }
        let is_moved = to.start() != from.start();
        let mut has_room = !is_moved || space.carry(kept, to.start()).is_ok();
        if has_room && is_moved && stays {
            self.take(space, from);
        }
        self.step().await;
        has_room = has_room && self.register_again(space, to);
        if !is_active {
            space.deactivate(to);
            if stays {
                space.deactivate(from);
            }
        }
        if has_room && is_moved {
            self.process.kernel.memory.borrow_mut().unprotect(to);
        }
        if !has_room {
            self.world.count("programs ended, since the page tables were full", 1);
            self.process.end(self.world);
            self.world.executor.park("nothing", None).await;
        }
    }
}
