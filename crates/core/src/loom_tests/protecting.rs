//! A missing page comes back, and is written, while an evictor protects what lies around it.

use crate::page_word::{
    Commit, EvictableChunks, EvictedContent, EvictorId, PageWordRef, Place, TryLock, Warmth,
};
use crate::protecting::Protecting;
use crate::reuse::StoreTime;
use loom::sync::Arc;
use loom::thread;
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::{PageId, PageRange, SwapId};

const PAGE: PageId = PageId::new(7);
const AROUND: PageRange = PageRange::new(PageId::new(6), PageId::new(9));
/// What the evictor goes on with.
const NEXT: [PageRange; 2] =
    [PageRange::new(PageId::new(1), PageId::new(4)), PageRange::new(PageId::new(20), PageId::new(24))];
const COPY: SwapId = SwapId::new(3);

/// What the kernel has mapped. Its calls take effect in one order.
const MISSING: u64 = 0;
const WRITABLE: u64 = 1;
const PROTECTED: u64 = 2;

struct Page {
    word: AtomicU64,
    chunks: AtomicU64,
    mapped: AtomicU64,
    protecting: Protecting,
}

impl Page {
    fn swapped() -> Page {
        let page = Page {
            word: AtomicU64::new(0),
            chunks: AtomicU64::new(0),
            mapped: AtomicU64::new(MISSING),
            protecting: Protecting::default(),
        };
        assert!(page.word_ref().adopt());
        page.lock();
        let evicted = page.word_ref().commit_evicted(COPY, StoreTime::new(0), EvictedContent::StoredAnew);
        assert_eq!(evicted, Commit::Done);
        page
    }
    fn word_ref(&self) -> PageWordRef<'_> {
        PageWordRef { word: &self.word, evictable: EvictableChunks(&self.chunks), chunk_in_block: 0 }
    }
    fn lock(&self) -> Place {
        let TryLock::Locked(word) = self.word_ref().try_lock() else { panic!("nobody else locks it") };
        word.place()
    }
    /// One call protects what is mapped in the range. The next one is for others.
    fn evict_around(&self, next: Option<PageRange>) {
        let evictor = EvictorId::new(0);
        self.protecting.begin(evictor, AROUND);
        if self.word_ref().load().is_missing() {
            let _was_another =
                self.mapped.compare_exchange(WRITABLE, PROTECTED, Ordering::SeqCst, Ordering::SeqCst);
        }
        if let Some(next) = next {
            self.protecting.begin(evictor, next);
        }
        self.protecting.end(evictor);
    }
    /// Comes back for a write: mapped writable, without a copy.
    fn write(&self) {
        assert_eq!(self.lock(), Place::Swapped);
        let maybe_protected = self.protecting.covers(PAGE);
        self.mapped.swap(WRITABLE, Ordering::SeqCst);
        let commit = match maybe_protected {
            true => self.word_ref().commit_protected(None),
            false => self.word_ref().commit_present(None, Warmth::Cold),
        };
        assert_eq!(commit, Commit::Done);
    }
    /// Comes back for a read: mapped protected, with its copy. Then it is written.
    fn read_and_write(&self) {
        assert_eq!(self.lock(), Place::Swapped);
        self.mapped.swap(PROTECTED, Ordering::SeqCst);
        assert_eq!(self.word_ref().commit_present(Some(COPY), Warmth::Cold), Commit::Done);
        assert_eq!(self.lock(), Place::Present);
        let maybe_protected = self.protecting.covers(PAGE);
        self.mapped.swap(WRITABLE, Ordering::SeqCst);
        let commit = match maybe_protected {
            true => self.word_ref().commit_protected(None),
            false => self.word_ref().commit_written(),
        };
        assert_eq!(commit, Commit::Done);
    }
}

fn check(fault: fn(&Page)) {
    check_before(None, fault);
    NEXT.into_iter().for_each(|next| check_before(Some(next), fault));
}

fn check_before(next: Option<PageRange>, fault: fn(&Page)) {
    loom::model(move || {
        let page = Arc::new(Page::swapped());
        let evictor = {
            let page = Arc::clone(&page);
            thread::spawn(move || page.evict_around(next))
        };
        fault(&page);
        evictor.join().unwrap();
        let is_known = page.word_ref().load().is_protected();
        assert!(page.mapped.load(Ordering::SeqCst) != PROTECTED || is_known, "protected, and nobody knows");
    });
}

#[test]
pub(super) fn a_page_that_comes_back_for_a_write_is_known_to_be_protected() {
    check(Page::write);
}

#[test]
pub(super) fn a_page_that_is_read_and_written_is_known_to_be_protected() {
    check(Page::read_and_write);
}
