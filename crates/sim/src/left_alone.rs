//! Ranges of a process that are never managed, pages that the kernel touches at any time, and pages that are lost.

use crate::process::Process;
use crate::seam::Space;
use crate::world::World;
use uswap_core::swap_word::Content;
use uswap_units::{PageId, PageRange};

impl Process<'_> {
    /// The parts of a range that are not left alone.
    pub fn parts_to_manage(&self, range: PageRange) -> Vec<PageRange> {
        let is_left_alone = |page: PageId| self.left_alone.borrow().iter().any(|range| range.contains(page));
        let mut parts: Vec<PageRange> = Vec::new();
        for page in range.each().filter(|&page| !is_left_alone(page)) {
            match parts.last_mut() {
                Some(part) if part.end() == page => *part = part.with_next(),
                _ => parts.push(PageRange::of_pages(page, 1)),
            }
        }
        parts
    }
    /// Something new is mapped in a range, or nothing any more.
    pub fn manage_again(&self, range: PageRange) {
        let mut left_alone = self.left_alone.borrow_mut();
        let rests = left_alone.drain(..).flat_map(|alone| {
            let front = PageRange::new(alone.start(), alone.end().min(range.start()));
            let back = PageRange::new(alone.start().max(range.end()), alone.end());
            if alone.overlaps(range) { [front, back] } else { [alone, PageRange::EMPTY] }
        });
        let rests: Vec<PageRange> = rests.filter(|rest| rest.start() < rest.end()).collect();
        *left_alone = rests;
    }
    /// What is moved out of a range that is left alone is left alone where it is then.
    pub fn leave_alone_as(&self, from: PageRange, to: PageRange) {
        self.manage_again(to);
        let is_left_alone = self.left_alone.borrow().iter().any(|range| range.overlaps(from));
        if is_left_alone {
            self.left_alone.borrow_mut().push(to);
        }
    }
    /// The kernel does not touch these pages any more.
    pub fn forget_kept(&self, range: PageRange) {
        self.kept.borrow_mut().retain(|page| !range.contains(*page));
    }
    /// The page cannot be read back: its entry says so, or it lies on a disk that may fail.
    pub fn is_lost(&self, world: &World<'_>, space: &Space<'_>, page: PageId) -> bool {
        let swap = space.page_table().word_ref(page).and_then(|slot| slot.load().swap());
        let table = space.segment().swap_table();
        swap.is_some_and(|swap| match table.load(swap).content() {
            Content::Lost => true,
            Content::Slot { .. } => world.disks.borrow().iter().any(|disk| disk.bad_reads > 0),
            _ => false,
        })
    }
}
