//! mremap: words follow their pages to the new place.
//!
//! Every function here runs with the gate exclusive; where one has to give it back in between, `event_in_progress`
//! keeps others from words that are on their way.

use crate::arrivals::Move;
use crate::engine::Engine;
use crate::event::Removal;
use crate::load::Load;
use crate::platform::{Install, Platform, Wake};
use crate::workspace::Workspace;
use core::sync::atomic::Ordering;
use uswap_core::page_word::{Afterwards, PageSlot, PageWord, Place};
use uswap_units::{PageId, PageRange};

impl<P: Platform> Engine<'_, P> {
    /// Moves words, unless there are others at the new place. Normally an unmap event of the new place came before; if
    /// not, it or a remap event from there is late.
    pub(crate) async fn remap_or_wait(&self, from: PageRange, to: PageRange, stays: bool) -> Removal {
        if self.table.first_managed(to).is_some() && self.platform.event_pending() {
            return Removal::Postponed { from, to, stays };
        }
        self.event_in_progress.store(true, Ordering::Release);
        let left = self.remap(from, to, stays).await;
        self.event_in_progress.store(false, Ordering::Release);
        let moved = Move { from, to: to.start };
        let mut private = self.private.lock();
        private.late_unmaps.note_move(moved);
        if left == Removal::Done {
            private.late_unmaps.arrivals.words_are_there(moved);
        }
        drop(private);
        self.free_leaves_of_unmapped(from);
        left
    }

    async fn remap(&self, range: PageRange, to: PageRange, stays: bool) -> Removal {
        // mremap unmaps its new place in one step with the move: whatever words are there are of the past.
        self.remove_words(to, Afterwards::Unmanaged);
        let (from, to) = (range.start, to.start);
        let moved = Move { from: range, to };
        if !self.has_leaves(range, to) {
            return Removal::Homeless { from: range, to };
        }
        for leaf in self.table.leaves(range) {
            for (page, slot) in leaf.slots_in(range) {
                // All that is in a place that stays came before this move: nobody uses it until the call returns.
                if !stays && self.private.lock().late_unmaps.arrivals.has_word_not_of(moved, page) {
                    // It came after this move.
                    continue;
                }
                let word = self.take_word(slot).await;
                if word.is_managed() {
                    let target = to.plus(page.0 - from.0);
                    self.put_at(target, word).await;
                }
            }
        }
        Removal::Done
    }

    /// Makes the leaves of the new place of each managed page. False: a table page is missing.
    fn has_leaves(&self, from: PageRange, to: PageId) -> bool {
        let pages = self
            .table
            .leaves(from)
            .flat_map(|leaf| leaf.slots_in(from))
            .filter(|(_, slot)| slot.load().raw() != 0);
        pages
            .map(|(page, _)| to.plus(page.0 - from.start.0))
            .all(|target| self.table.leaf_or_allocate(target).is_ok())
    }

    /// Takes a word; if a task works on the page, lets it finish first. Evictions are held off meanwhile
    /// (`event_in_progress`), and nobody else reads messages, because the reader's turn is ours.
    async fn take_word(&self, slot: PageSlot<'_>) -> PageWord {
        loop {
            if let Some(word) = slot.take() {
                return word;
            }
            self.platform.unlock_exclusive();
            self.platform.pause().await;
            self.platform.lock_exclusive().await;
        }
    }

    /// Puts a moved word at its new place, once a task that still holds the lock of what was there before is done.
    async fn put_at(&self, target: PageId, word: PageWord) {
        // Looked up anew each time: an empty leaf may be freed while the gate is given back.
        while !self
            .table
            .leaf_or_allocate(target)
            .expect("the leaf was made before")
            .slot(target)
            .put_back(word)
        {
            self.platform.unlock_exclusive();
            self.platform.pause().await;
            self.platform.lock_exclusive().await;
        }
        if let Place::Staged(frame) = word.place() {
            self.private.lock().arena.set_page_of(frame, target);
        }
    }

    /// Copies the content of moved pages to their new place, where they are not managed any more.
    pub(crate) async fn bring_home(&self, from: PageRange, to: PageId, workspace: &mut Workspace) -> Removal {
        self.event_in_progress.store(true, Ordering::Release);
        let mut left = Removal::Done;
        'pages: for leaf in self.table.leaves(from) {
            for (page, slot) in leaf.slots_in(from) {
                let word = self.take_word(slot).await;
                if word.is_managed()
                    && !self.bring_page_home(word, to.plus(page.0 - from.start.0), workspace).await
                {
                    let put = slot.put_back(word);
                    assert!(put, "nothing is adopted while an event is in progress");
                    left = Removal::Homeless {
                        from: PageRange { start: page, end: from.end },
                        to: to.plus(page.0 - from.start.0),
                    };
                    break 'pages;
                }
            }
        }
        self.event_in_progress.store(false, Ordering::Release);
        left
    }

    /// False: an event is unread.
    async fn bring_page_home(&self, word: PageWord, target: PageId, workspace: &mut Workspace) -> bool {
        let is_there = self.private.lock().late_unmaps.arrivals.contains(target);
        let install = match word.place() {
            // Unmapped since. What is there now, if anything, is something else.
            _ if !is_there => Install::NotMapped,
            Place::Fresh | Place::Present => Install::AlreadyMapped,
            Place::Staged(frame) => {
                self.platform.read_frame(frame, &mut workspace.page);
                self.platform.copy_in(target, core::slice::from_ref(&workspace.page), Wake::Now).last
            }
            Place::Swapped => {
                match self.load(word.swap().expect("a swapped page names its entry"), workspace).await {
                    Load::Done(_) => self.platform.copy_in(target, &workspace.pages[..1], Wake::Now).last,
                    Load::Lost => self.platform.poison(target),
                }
            }
        };
        if install == Install::EventPending {
            return false;
        }
        if let Some(swap) = word.swap() {
            self.put_entry(swap);
        }
        true
    }
}
