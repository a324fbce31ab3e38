//! A page is isolated, stored and dropped, while the program writes it, another evictor wants it, or a mapping call
//! drops it: the newest content is where the word says, and each copy has one owner.

use crate::page_word::{
    Afterwards, Commit, EvictableChunks, EvictedContent, EvictorId, PageWord, PageWordRef, Place, Remove,
    TryLock, Warmth,
};
use crate::reuse::StoreTime;
use loom::sync::Arc;
use loom::thread;
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::SwapId;

/// What the kernel has mapped, above the content. Its calls and the program's writes take effect in one order.
const WRITABLE: u64 = 1 << 32;
const PROTECTED: u64 = 2 << 32;
const MISSING: u64 = 3 << 32;
const STATE: u64 = 3 << 32;

const OLD: u64 = 7;
const NEW: u64 = 8;

/// Copies that evictors may make, one each.
const COPIES: usize = 2;

struct Page {
    word: AtomicU64,
    chunks: AtomicU64,
    memory: AtomicU64,
    /// The content of each copy.
    copies: [AtomicU64; COPIES],
    /// How often each was given back.
    put: [AtomicU64; COPIES],
}

fn index_of(copy: SwapId) -> usize {
    copy.index() - 1
}

impl Page {
    fn written() -> Page {
        let page = Page {
            word: AtomicU64::new(0),
            chunks: AtomicU64::new(0),
            memory: AtomicU64::new(WRITABLE | OLD),
            copies: core::array::from_fn(|_| AtomicU64::new(0)),
            put: core::array::from_fn(|_| AtomicU64::new(0)),
        };
        assert!(page.word_ref().adopt());
        page.word_ref().activate();
        page
    }
    fn word_ref(&self) -> PageWordRef<'_> {
        PageWordRef { word: &self.word, evictable: EvictableChunks(&self.chunks), chunk_in_block: 0 }
    }
    fn put(&self, copy: Option<SwapId>) {
        if let Some(copy) = copy {
            self.put[index_of(copy)].fetch_add(1, Ordering::Relaxed);
        }
    }
    /// A call of the kernel: what is mapped, and its content, as they are then.
    fn call(&self, change: impl Fn(u64) -> u64) -> u64 {
        let mut seen = self.memory.load(Ordering::SeqCst);
        loop {
            match self.memory.compare_exchange(seen, change(seen), Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return seen,
                Err(now) => seen = now,
            }
        }
    }
    fn protect(&self) {
        self.call(|memory| if memory & STATE == WRITABLE { memory & !STATE | PROTECTED } else { memory });
    }

    /// Protects the page. None: somebody else has it.
    fn isolate(&self, evictor: EvictorId) -> Option<PageWord> {
        let TryLock::Locked(word) = self.word_ref().try_lock() else { return None };
        if !word.may_be_isolated() {
            assert_eq!(self.word_ref().unlock_unchanged(), Commit::Done);
            return None;
        }
        self.protect();
        let isolated = self.word_ref().commit_isolated(evictor);
        if isolated.is_none() {
            self.clean_up(word);
        }
        isolated
    }
    /// Stores the page, and drops it if nobody has touched it meanwhile.
    fn evict(&self, evictor: EvictorId) {
        let copy = SwapId::new(evictor.index() + 1);
        let Some(isolated) = self.isolate(evictor) else { return };
        // While it is being read it stays.
        if !self.word_ref().lock_isolated(isolated) {
            return;
        }
        let content = self.memory.load(Ordering::SeqCst);
        assert_eq!(content & STATE, PROTECTED, "what is isolated is protected");
        let Some(isolated) = self.word_ref().commit_isolated(evictor) else { return self.clean_up(isolated) };
        self.copies[index_of(copy)].store(content & !STATE, Ordering::Relaxed);
        let Some(named) = self.word_ref().keep_copy(isolated, copy) else { return self.put(Some(copy)) };
        if self.word_ref().lock_isolated(named) {
            let dropped = self.call(|_| MISSING);
            assert_eq!(dropped & !STATE, content & !STATE, "the newest content is dropped");
            if let Commit::Removed(_) =
                self.word_ref().commit_evicted(copy, StoreTime::new(0), EvictedContent::StoredAnew)
            {
                self.clean_up(named);
            }
        }
    }
    /// A mapping call has dropped the page while its word was locked.
    fn clean_up(&self, word: PageWord) {
        self.put(word.swap());
        self.word_ref().finish_removed();
    }

    /// The program writes: at once, or after its fault was served. False: somebody has the word, and it is tried again.
    fn try_write(&self) -> bool {
        let seen = self.memory.load(Ordering::SeqCst);
        if seen & STATE == WRITABLE {
            let written = WRITABLE | NEW;
            return self.memory.compare_exchange(seen, written, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        }
        let TryLock::Locked(word) = self.word_ref().try_lock() else { return false };
        let commit = match word.place() {
            Place::Swapped => {
                let copy = word.swap().expect("a swapped page names its entry");
                let content = self.copies[index_of(copy)].load(Ordering::Relaxed);
                let before = self.call(|_| WRITABLE | content);
                assert_eq!(before & STATE, MISSING, "a page that is stored is in the program too");
                self.word_ref().commit_present(None, Warmth::Cold)
            }
            Place::Present | Place::Fresh => {
                self.call(|memory| match memory & STATE {
                    PROTECTED => memory & !STATE | WRITABLE,
                    _ => memory,
                });
                self.word_ref().commit_written()
            }
        };
        match commit {
            Commit::Done => self.put(word.swap()),
            Commit::Removed(_) => self.clean_up(word),
        }
        false
    }
    fn write(&self) {
        while !self.try_write() {
            thread::yield_now();
        }
    }
    /// MADV_DONTNEED, which is alone with the memory, but for words that are locked.
    fn discard(&self) {
        if let Remove::Was(word) = self.word_ref().remove(Afterwards::StillManaged) {
            self.put(word.swap());
        }
    }

    /// Each copy that was made is named by the word, or was given back, once.
    fn check_copies(&self) {
        let named = self.word_ref().load().swap().map(index_of);
        for index in 0..COPIES {
            let is_made = self.copies[index].load(Ordering::Relaxed) != 0;
            let owners = self.put[index].load(Ordering::Relaxed) + u64::from(named == Some(index));
            assert_eq!(owners, u64::from(is_made), "copy {index} has {owners} owners");
        }
    }
    fn check_content(&self, newest: u64) {
        let (word, memory) = (self.word_ref().load(), self.memory.load(Ordering::SeqCst));
        let copy = word.swap().map(|copy| self.copies[index_of(copy)].load(Ordering::Relaxed));
        match word.place() {
            Place::Swapped => {
                assert_eq!(memory & STATE, MISSING);
                assert_eq!(copy, Some(newest), "the newest content is lost");
            }
            _ => {
                assert_eq!(memory & !STATE, newest, "the newest content is lost");
                assert!(!word.is_clean() || copy == Some(newest), "a copy is old, and may be relied on");
            }
        }
    }
}

/// What is done beside an evictor; then what must hold.
fn beside_an_evictor(act: fn(&Page), check: fn(&Page)) {
    loom::model(move || {
        let page = Arc::new(Page::written());
        let evictor = {
            let page = Arc::clone(&page);
            thread::spawn(move || page.evict(EvictorId::new(0)))
        };
        act(&page);
        evictor.join().unwrap();
        let word = page.word_ref().load();
        assert!(!word.is_locked() && !word.is_removed());
        check(&page);
        page.check_copies();
    });
}

pub(super) fn a_page_is_written_while_it_is_evicted() {
    beside_an_evictor(Page::write, |page| page.check_content(NEW));
}

#[test]
fn loom_a_page_that_is_written_while_it_is_evicted_is_not_lost() {
    a_page_is_written_while_it_is_evicted();
}

#[test]
fn loom_two_evictors_of_a_page_make_one_copy_that_counts() {
    beside_an_evictor(|page| page.evict(EvictorId::new(1)), |page| page.check_content(OLD));
}

/// What is dropped by the program while its copy is made is nobody's then.
#[test]
fn loom_a_page_that_is_discarded_while_it_is_evicted_leaves_no_copy() {
    beside_an_evictor(Page::discard, |_| ());
}
