//! The lock of a page, and mapping calls that drop it meanwhile.

use crate::page_word::{Afterwards, Commit, EvictableChunks, PageWordRef, Place, Remove, TryLock};
use loom::sync::Arc;
use loom::thread;
use uswap_sync::{AtomicU64, Ordering};

struct Page {
    word: AtomicU64,
    chunks: AtomicU64,
    content: AtomicU64,
    /// How often somebody was told to release what the page held.
    released: AtomicU64,
}

impl Page {
    fn managed() -> Arc<Page> {
        let page = Page {
            word: AtomicU64::new(0),
            chunks: AtomicU64::new(0),
            content: AtomicU64::new(0),
            released: AtomicU64::new(0),
        };
        assert!(page.word_ref().adopt());
        Arc::new(page)
    }
    fn word_ref(&self) -> PageWordRef<'_> {
        PageWordRef { word: &self.word, evictable: EvictableChunks(&self.chunks), chunk_in_block: 0 }
    }
    /// Locks, puts content there if the page is fresh, and gives the lock back.
    fn fault(&self) {
        let TryLock::Locked(was) = self.word_ref().try_lock() else { return };
        if was.place() == Place::Present {
            assert_eq!(self.content.load(Ordering::Relaxed), 1, "who sees a place sees the content there");
        }
        self.content.store(1, Ordering::Relaxed);
        if let Commit::Removed(_) = self.word_ref().commit(Place::Present, None) {
            self.content.store(0, Ordering::Relaxed);
            self.released.fetch_add(1, Ordering::Relaxed);
            self.word_ref().finish_removed();
        }
    }
    fn remove(&self, afterwards: Afterwards) {
        if let Remove::Was(was) = self.word_ref().remove(afterwards) {
            if was.place() == Place::Present {
                assert_eq!(self.content.load(Ordering::Relaxed), 1);
                self.released.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn fault_remove_fault(afterwards: Afterwards) {
    loom::model(move || {
        let page = Page::managed();
        let tasks: [fn(&Page); 2] = [Page::fault, Page::fault];
        let threads = tasks.map(|task| {
            let page = Arc::clone(&page);
            thread::spawn(move || task(&page))
        });
        page.remove(afterwards);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        let end = page.word_ref().load();
        assert!(!end.is_locked());
        assert!(!end.is_removed());
        assert!(page.released.load(Ordering::Relaxed) <= 1, "one call drops a page once");
        match afterwards {
            Afterwards::StillManaged => assert!(end.is_managed()),
            Afterwards::Unmanaged => assert_eq!(end.raw(), 0),
        }
    });
}

#[test]
fn loom_faults_race_with_a_discarded_page() {
    fault_remove_fault(Afterwards::StillManaged);
}

#[test]
fn loom_faults_race_with_an_unmapped_page() {
    fault_remove_fault(Afterwards::Unmanaged);
}

#[test]
fn loom_two_lockers_exclude_each_other() {
    loom::model(|| {
        let page = Page::managed();
        let other = Arc::clone(&page);
        let thread = thread::spawn(move || other.fault());
        page.fault();
        thread.join().unwrap();
        page.word_ref().pin();
        assert_eq!(page.word_ref().load().place(), Place::Present);
    });
}

#[test]
fn loom_flags_set_while_locked_are_kept() {
    loom::model(|| {
        let page = Page::managed();
        let other = Arc::clone(&page);
        let thread = thread::spawn(move || other.fault());
        page.word_ref().activate();
        page.word_ref().pin();
        thread.join().unwrap();
        let end = page.word_ref().load();
        assert!(end.is_active());
        assert!(end.is_pinned());
        assert!(!end.is_locked());
        // A flag set between the look and the lock makes the lock busy; a fault then tries again.
        page.fault();
        assert_eq!(page.word_ref().load().place(), Place::Present);
    });
}

/// A page that becomes evictable while its chunk is looked at is seen, or the chunk is looked at again.
#[test]
fn loom_an_evictable_page_is_never_overlooked() {
    loom::model(|| {
        let page = Page::managed();
        page.word_ref().activate();
        let TryLock::Locked(_) = page.word_ref().try_lock() else { panic!("nobody has it") };
        let other = Arc::clone(&page);
        let thread =
            thread::spawn(move || assert_eq!(other.word_ref().commit(Place::Present, None), Commit::Done));
        page.word_ref().evictable.begin_look(0);
        let seen = page.word_ref().load().may_be_evicted();
        thread.join().unwrap();
        assert!(seen || page.word_ref().evictable.chunks() == 1);
    });
}
