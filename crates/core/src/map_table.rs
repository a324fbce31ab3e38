//! Where a process answers the supervisor: what it has counted of its own memory. One table for the whole run.
//!
//! Only the process itself may walk its page table, since it frees leaves without asking anybody. So the supervisor
//! writes whom it asks ([`ask`](MapTable::ask)) and wakes that process, which fills the table
//! ([`asked_of`](MapTable::asked_of), [`put`](MapTable::put)) and says that it is complete
//! ([`publish`](MapTable::publish)).
//!
//! ```text
//! request   63..24   23..8  7..0        word of the table   63..44            43..0
//!           number   mm     stage                           tag of a request  value
//! ```
//! Must hold: a complete table has nothing of an earlier request in it. The process of that one may have been stopped
//! in the middle of its walk, and go on whenever it likes. So each word names the request that it belongs to, and a
//! process changes a word only from a value of its own request: what comes late changes nothing. There is no lock and
//! nothing to give back, so whoever is killed here leaves nothing behind. Called by the supervisor, which asks, by
//! `engine` in the kswapd of the process that is asked, and by [`crate::memory_map`], which says what the values are.

use crate::plant::{Plant, is_planted};
use uswap_sync::{AtomicU64, Ordering};
use uswap_units::MmId;

/// Words of the head, on a cache line of their own: each kswapd looks there when it wakes.
pub(crate) const HEAD_WORDS: usize = 8;

const REQUEST: usize = 0;
/// Grows while a process works on the answer.
const PROGRESS: usize = 1;

const NUMBER_SHIFT: u32 = 24;
const MM_SHIFT: u32 = 8;
const STAGE_MASK: u64 = 0xFF;
const WITHDRAWN: u64 = 0;
const ASKED: u64 = 1;
const COMPLETE: u64 = 2;

const TAG_SHIFT: u32 = 44;
const VALUE_MASK: u64 = (1 << TAG_SHIFT) - 1;

/// View of the table.
#[derive(Clone, Copy)]
pub struct MapTable<'a> {
    pub(crate) head: &'a [AtomicU64],
    pub(crate) words: &'a [AtomicU64],
}

/// What was asked, as the head says it while nobody has answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MapRequest(u64);

/// The supervisor wants to know something else, or nothing any more.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Withdrawn;

impl MapRequest {
    const fn number(self) -> u64 {
        self.0 >> NUMBER_SHIFT
    }
    /// In front of the values that belong to it. It comes again after 2^20 requests.
    const fn tag(self) -> u64 {
        self.number() << TAG_SHIFT
    }
    const fn at(self, stage: u64) -> u64 {
        self.0 & !STAGE_MASK | stage
    }
}

impl<'a> MapTable<'a> {
    /// Values that fit.
    pub fn len(&self) -> usize {
        self.words.len()
    }
    /// True if none do.
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// Asks a process; the caller wakes it. Of the supervisor only, and one at a time: what was asked before is
    /// withdrawn.
    #[must_use]
    pub fn ask(&self, mm: MmId) -> MapRequest {
        let before = MapRequest(self.head[REQUEST].load(Ordering::Relaxed));
        let number = (before.number() + 1) & (u64::MAX >> NUMBER_SHIFT);
        let request = MapRequest(number << NUMBER_SHIFT | u64::from(mm.number()) << MM_SHIFT | ASKED);
        for word in self.words {
            // An exchange as `put` is one: whatever comes late is ahead of it, or fails.
            word.swap(request.tag(), Ordering::Relaxed);
        }
        // Release pairs with `asked_of`: whoever sees the request finds words that are its own.
        self.head[REQUEST].store(request.0, Ordering::Release);
        request
    }

    /// Nobody waits for the answer any more.
    pub fn withdraw(&self, request: MapRequest) {
        let next = request.at(WITHDRAWN);
        let _or_complete =
            self.head[REQUEST].compare_exchange(request.0, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether the table has the answer to this request.
    pub fn is_complete(&self, request: MapRequest) -> bool {
        // Acquire pairs with `publish`.
        self.head[REQUEST].load(Ordering::Acquire) == request.at(COMPLETE)
    }

    /// A value of the request. None: the table was asked something else since.
    pub fn get(&self, request: MapRequest, index: usize) -> Option<u64> {
        let word = self.words[index].load(Ordering::Relaxed);
        (word & !VALUE_MASK == request.tag()).then_some(word & VALUE_MASK)
    }

    /// Grows while somebody works on an answer.
    pub fn progress(&self) -> u64 {
        self.head[PROGRESS].load(Ordering::Relaxed)
    }

    /// What this process is asked.
    pub fn asked_of(&self, mm: MmId) -> Option<MapRequest> {
        // Acquire pairs with `ask`.
        let request = MapRequest(self.head[REQUEST].load(Ordering::Acquire));
        (request.0 & STAGE_MASK == ASKED && request.0 >> MM_SHIFT & 0xFFFF == u64::from(mm.number()))
            .then_some(request)
    }

    /// The process goes on with its answer.
    pub fn note_progress(&self) {
        self.head[PROGRESS].fetch_add(1, Ordering::Relaxed);
    }

    /// Changes a value, as the process that is asked. Nobody else does that for this request.
    ///
    /// # Errors
    /// The request is over: nothing was changed.
    pub fn put(&self, request: MapRequest, index: usize, value: u64) -> Result<(), Withdrawn> {
        assert!(value <= VALUE_MASK);
        let word = &self.words[index];
        let seen = word.load(Ordering::Relaxed);
        if seen & !VALUE_MASK != request.tag() {
            return Err(Withdrawn);
        }
        let next = request.tag() | value;
        if is_planted(Plant::LatePut) {
            word.store(next, Ordering::Relaxed);
            return Ok(());
        }
        let put = word.compare_exchange(seen, next, Ordering::Relaxed, Ordering::Relaxed);
        put.map(|_| ()).map_err(|_| Withdrawn)
    }

    /// Says that the answer is complete, as the process that is asked.
    pub fn publish(&self, request: MapRequest) {
        let next = request.at(COMPLETE);
        // Release pairs with `is_complete`: whoever sees that sees the values.
        let _or_withdrawn =
            self.head[REQUEST].compare_exchange(request.0, next, Ordering::Release, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(any(loom, shuttle))))]
mod tests {
    use super::*;

    fn words<const N: usize>() -> [AtomicU64; N] {
        core::array::from_fn(|_| AtomicU64::new(0))
    }

    #[test]
    fn who_is_asked_answers_and_nobody_else() {
        let (head, values) = (words::<HEAD_WORDS>(), words::<3>());
        let table = MapTable { head: &head, words: &values };
        assert_eq!(table.asked_of(MmId::new(0)), None, "nothing was ever asked");
        let request = table.ask(MmId::new(7));
        assert_eq!((table.asked_of(MmId::new(6)), table.asked_of(MmId::new(7))), (None, Some(request)));
        assert_eq!(table.put(request, 1, 5), Ok(()));
        assert_eq!(table.put(request, 1, VALUE_MASK), Ok(()));
        assert!(!table.is_complete(request));
        table.publish(request);
        assert!(table.is_complete(request) && table.asked_of(MmId::new(7)).is_none());
        let got: [_; 3] = core::array::from_fn(|index| table.get(request, index));
        assert_eq!(got, [Some(0), Some(VALUE_MASK), Some(0)]);
    }

    #[test]
    fn what_comes_late_changes_nothing() {
        let (head, values) = (words::<HEAD_WORDS>(), words::<1>());
        let table = MapTable { head: &head, words: &values };
        let late = table.ask(MmId::new(1));
        table.withdraw(late);
        assert_eq!(table.asked_of(MmId::new(1)), None);
        table.publish(late);
        assert!(!table.is_complete(late), "nobody waits for it");
        let request = table.ask(MmId::new(1));
        assert_eq!(table.put(late, 0, 9), Err(Withdrawn));
        table.publish(late);
        assert!(!table.is_complete(request) && !table.is_complete(late));
        assert_eq!((table.get(late, 0), table.get(request, 0)), (None, Some(0)));
        table.publish(request);
        table.withdraw(request);
        assert!(table.is_complete(request), "it was withdrawn too late");
    }

    #[test]
    fn numbers_of_requests_go_round() {
        let (head, values) = (words::<HEAD_WORDS>(), words::<1>());
        let table = MapTable { head: &head, words: &values };
        head[REQUEST].store(u64::MAX << NUMBER_SHIFT, Ordering::Relaxed);
        let request = table.ask(MmId::new(u16::MAX));
        assert_eq!((request.number(), table.asked_of(MmId::new(u16::MAX))), (0, Some(request)));
        assert_eq!(table.put(request, 0, 1), Ok(()));
        let next = table.ask(MmId::new(3));
        assert_eq!((table.put(request, 0, 2), table.get(next, 0)), (Err(Withdrawn), Some(0)));
    }
}
