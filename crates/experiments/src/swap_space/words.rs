//! Memory of the allocators that are compared: words that start at a cache line, bytes in them, and a lock.
//!
//! All of it through the atomics of `uswap-sync`, so that simulated time sees each access. Only benchmarks use this: a
//! thread that dies keeps its lock.

use std::hint::spin_loop;

use uswap_sync::{AtomicU64, Ordering, trace};

/// Words of a cache line.
pub const LINE_WORDS: usize = trace::LINE_BYTES / 8;

/// Zeroed words that start at the border of a cache line, so that a run in simulated time repeats.
pub struct Words {
    words: Vec<AtomicU64>,
    start: usize,
    count: usize,
}

impl Words {
    /// So many.
    #[must_use]
    pub fn new(count: usize) -> Words {
        let words: Vec<AtomicU64> = (0..count + LINE_WORDS).map(|_| AtomicU64::new(0)).collect();
        let start = (words.as_ptr() as usize / 8).wrapping_neg() % LINE_WORDS;
        Words { words, start, count }
    }

    /// All of them.
    #[must_use]
    pub fn all(&self) -> &[AtomicU64] {
        &self.words[self.start..self.start + self.count]
    }

    /// The word at an index.
    pub fn get(&self, index: usize) -> u64 {
        self.all()[index].load(Ordering::Relaxed)
    }

    /// Sets the word at an index.
    pub fn set(&self, index: usize, value: u64) {
        self.all()[index].store(value, Ordering::Relaxed);
    }

    /// From the address of the first to behind the last.
    pub(super) fn addresses(&self) -> std::ops::Range<usize> {
        let start = self.all().as_ptr() as usize;
        start..start + self.count * 8
    }
}

/// A byte for each slot, eight to a word. Each look at a byte is a load, as it is for who scans such a map.
pub struct Bytes {
    words: Words,
}

impl Bytes {
    /// Zeroed.
    #[must_use]
    pub fn new(count: u32) -> Bytes {
        Bytes { words: Words::new(count.div_ceil(8) as usize) }
    }

    /// The byte of a slot.
    #[must_use]
    pub fn get(&self, slot: u32) -> u8 {
        // Acquire pairs with the Release of `set`, for who looks without the lock.
        let word = self.words.all()[slot as usize / 8].load(Ordering::Acquire);
        word.to_le_bytes()[slot as usize % 8]
    }

    /// Sets the byte of a slot. Who changes the bytes of one word holds one lock.
    pub fn set(&self, slot: u32, value: u8) {
        let word = &self.words.all()[slot as usize / 8];
        let mut bytes = word.load(Ordering::Relaxed).to_le_bytes();
        bytes[slot as usize % 8] = value;
        // Release pairs with the Acquire of `get`.
        word.store(u64::from_le_bytes(bytes), Ordering::Release);
    }
}

/// A lock that is held, until this is dropped.
#[must_use]
pub struct Held<'a> {
    word: &'a AtomicU64,
}

/// Takes the lock in a word that is 0 while it is free.
pub fn lock(word: &AtomicU64) -> Held<'_> {
    loop {
        if let Some(tried) = try_lock(word) {
            return tried.held();
        }
        while word.load(Ordering::Relaxed) != 0 {
            spin_loop();
            // With more threads than processors the holder may not be running.
            std::thread::yield_now();
        }
    }
}

/// A lock that was free when it was tried, and is held since.
#[must_use]
pub struct Tried<'a> {
    word: &'a AtomicU64,
}

/// Takes the lock if nobody holds it.
///
/// Made-up time knows only locks that are waited for. So who tries one while it holds another gives that other back
/// before
/// [`Tried::held`]: two that hold what the other tries would wait for each other there.
pub fn try_lock(word: &AtomicU64) -> Option<Tried<'_>> {
    // Acquire pairs with the Release of the drop: what the last holder wrote is seen.
    word.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).ok()?;
    Some(Tried { word })
}

impl<'a> Tried<'a> {
    /// From here on simulated time counts it as held.
    pub fn held(self) -> Held<'a> {
        trace::locked(std::ptr::from_ref(self.word) as usize);
        Held { word: self.word }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        // Release pairs with the Acquire of `try_lock`.
        self.word.store(0, Ordering::Release);
        trace::unlocked(std::ptr::from_ref(self.word) as usize);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_one_word_do_not_disturb_each_other() {
        let bytes = Bytes::new(20);
        (0..20).for_each(|slot| bytes.set(slot, slot as u8 + 1));
        bytes.set(9, 0);
        let seen: Vec<u8> = (0..20).map(|slot| bytes.get(slot)).collect();
        let expected: Vec<u8> = (1..=20).map(|value| if value == 10 { 0 } else { value }).collect();
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_lock_is_held_by_one() {
        let word = AtomicU64::new(0);
        let held = lock(&word);
        assert!(try_lock(&word).is_none());
        drop(held);
        assert!(try_lock(&word).is_some());
    }

    #[test]
    fn words_start_at_a_cache_line() {
        let words = Words::new(3);
        assert_eq!(words.addresses().start % trace::LINE_BYTES, 0);
        assert_eq!(words.all().len(), 3);
    }
}
