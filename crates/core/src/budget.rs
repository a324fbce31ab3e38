//! The budget of a run in shared words: the limit, what is used, and who waits for what.
//!
//! The supervisor measures (`set_measured`), the engines of the processes add and subtract what they do between two
//! measurements.
//!
//! Must hold: what is used never goes below 0, and what was added or subtracted while a measurement was under way is
//! still in it afterwards. Only the supervisor sets the limit and the flags. Called by `engine`, `host` and `sim`,
//! which add and subtract, and by the supervisor, which measures and sets.

use crate::balance::{Headroom, Watermarks};
use crate::slots::SlotMap;
use uswap_sync::{AtomicU32, AtomicU64, Ordering};
use uswap_units::Bytes;
use uswap_units::limits::{ROOM_PATIENCE_NS, WRITE_PATIENCE_NS};

/// Words of the budget in the segment; each on a cache line of its own.
pub(crate) const BUDGET_WORDS: usize = 11 * 8;

/// View of the budget.
#[derive(Clone, Copy)]
pub struct Budget<'a> {
    pub(crate) words: &'a [AtomicU64],
}

const RAM: usize = 0;
const USED: usize = 8;
const PRESSURE: usize = 16;
const ROOM: usize = 24;
const SHRINK: usize = 32;
const ABANDONED: usize = 56;
const FLAGS: usize = 40;
const PEAK: usize = 48;
const WRITTEN: usize = 64;
const PASS: usize = 72;
const READAHEAD: usize = 80;
/// In the word of the last write: it has not ended. The rest is its time.
const IN_FLIGHT: u64 = 1;

/// Events that tasks of several processes wait for. Each is a sequence number in a shared word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Signal {
    /// Memory is above the register watermark, or there is something else that every kswapd has to look at.
    Pressure,
    /// The pool has room again, pages were evicted, or memory is below the min watermark: whoever waits for room.
    Room,
    /// The pool has too little room: the shrinker.
    Shrink,
    /// A part of the swap files is wanted ahead of faults, or was read.
    Readahead,
}

/// The file is full and the pool too.
const FULL: u64 = 1;
/// The run is coming to its end by the rule the user chose.
const ENDING: u64 = 2;
/// No memory has appeared for a while that no fault of ours gave out.
const QUIET: u64 = 4;
/// Most slots of the file are used.
const FILE_NEARLY_FULL: u64 = 8;
/// All memory is to come home.
const LEAVING: u64 = 16;

impl<'a> Budget<'a> {
    fn word(&self, index: usize) -> &'a AtomicU64 {
        &self.words[index]
    }
    /// The RAM limit of the run.
    pub fn ram(&self) -> Bytes {
        Bytes::new(self.word(RAM).load(Ordering::Relaxed))
    }
    /// Sets the RAM limit.
    pub fn set_ram(&self, ram: Bytes) {
        self.word(RAM).store(ram.bytes(), Ordering::Relaxed);
    }
    /// RAM in use: resident anonymous memory of the tree, pool, tables, engine.
    pub fn used(&self) -> Bytes {
        Bytes::new(self.word(USED).load(Ordering::Relaxed))
    }
    /// A new measurement replaces what was added up until it began, when `before` was in use. What was added and
    /// subtracted since then stays: a look at many processes takes its time, and if it were forgotten the next look
    /// would take it for growth.
    pub fn set_measured(&self, before: Bytes, measured: Bytes) {
        self.change(|now| (now + measured.bytes()).saturating_sub(before.bytes()));
        self.word(PEAK).fetch_max(measured.bytes(), Ordering::Relaxed);
    }
    /// The largest measurement.
    pub fn peak(&self) -> Bytes {
        Bytes::new(self.word(PEAK).load(Ordering::Relaxed))
    }
    /// Memory was taken.
    pub fn add(&self, bytes: u64) {
        self.word(USED).fetch_add(bytes, Ordering::Relaxed);
    }
    /// Memory was given back. Stops at 0, since a measurement may have come in between.
    pub fn subtract(&self, bytes: u64) {
        self.change(|now| now.saturating_sub(bytes));
    }
    fn change(&self, change: impl Fn(u64) -> u64) {
        let used = self.word(USED);
        let mut seen = used.load(Ordering::Relaxed);
        while let Err(now) =
            used.compare_exchange_weak(seen, change(seen), Ordering::Relaxed, Ordering::Relaxed)
        {
            seen = now;
        }
    }
    /// The word that a signal counts in. Waiters compare its low half.
    pub fn signal_word(&self, signal: Signal) -> &'a AtomicU64 {
        self.word(match signal {
            Signal::Pressure => PRESSURE,
            Signal::Room => ROOM,
            Signal::Shrink => SHRINK,
            Signal::Readahead => READAHEAD,
        })
    }
    /// Counts a signal; the caller wakes the waiters. Release pairs with `signal_count`.
    pub fn raise(&self, signal: Signal) {
        self.signal_word(signal).fetch_add(1, Ordering::Release);
    }
    /// The count of a signal, to wait for its change. Acquire pairs with `raise`: whoever sees the count sees what it
    /// was raised for, and does not wait for that.
    pub fn signal_count(&self, signal: Signal) -> u32 {
        self.signal_word(signal).load(Ordering::Acquire) as u32
    }
    /// True while the swap file is full (or cannot be written) and the pool too.
    pub fn is_full(&self) -> bool {
        self.word(FLAGS).load(Ordering::Relaxed) & FULL != 0
    }
    /// The shrinker says whether it can make room.
    pub fn set_full(&self, full: Fullness) {
        match full {
            Fullness::Full => self.word(FLAGS).fetch_or(FULL, Ordering::Relaxed),
            Fullness::Room => self.word(FLAGS).fetch_and(!FULL, Ordering::Relaxed),
        };
    }
    /// True while more than seven eighths of the file are used: what is written anew leaves holes where it was.
    pub fn file_is_nearly_full(&self) -> bool {
        self.word(FLAGS).load(Ordering::Relaxed) & FILE_NEARLY_FULL != 0
    }
    /// Looks how much of the file is used: counting takes too long to do it for each page. Returns slots.
    pub fn note_file(&self, slots: SlotMap<'_>) -> u64 {
        let used = slots.used();
        if used > slots.capacity() / 8 * 7 {
            self.word(FLAGS).fetch_or(FILE_NEARLY_FULL, Ordering::Relaxed);
        } else {
            self.word(FLAGS).fetch_and(!FILE_NEARLY_FULL, Ordering::Relaxed);
        }
        used
    }
    /// The shrinker writes, or it has just brought room and goes on: whoever waits for room now does not wait in vain.
    /// Not if one write takes too long.
    pub fn is_room_coming(&self, now_ns: u64) -> bool {
        let word = self.word(WRITTEN).load(Ordering::Relaxed);
        let patience = if word & IN_FLIGHT != 0 { WRITE_PATIENCE_NS } else { ROOM_PATIENCE_NS };
        word != 0 && now_ns.saturating_sub(word & !IN_FLIGHT) < patience
    }
    /// The shrinker says how far it is.
    pub fn set_shrinking(&self, shrinking: Shrinking) {
        let word = match shrinking {
            Shrinking::Writes { since_ns } => (since_ns & !IN_FLIGHT) | IN_FLIGHT,
            Shrinking::BroughtRoom { at_ns } => at_ns & !IN_FLIGHT,
            Shrinking::Cannot => 0,
        };
        self.word(WRITTEN).store(word, Ordering::Relaxed);
    }
    /// Nobody needs to wait for memory any more: the run is being ended.
    pub fn set_ending(&self) {
        self.word(FLAGS).fetch_or(ENDING, Ordering::Relaxed);
    }
    /// The run is being ended.
    pub fn is_ending(&self) -> bool {
        self.word(FLAGS).load(Ordering::Relaxed) & ENDING != 0
    }
    /// All memory is to come home, and nothing is managed from now on. Release pairs with `is_leaving`: whoever sees it
    /// sees that the limit was lifted before.
    pub fn set_leaving(&self) {
        self.word(FLAGS).fetch_or(LEAVING, Ordering::Release);
    }
    /// All memory is to come home, or has done so. Acquire pairs with `set_leaving`.
    pub fn is_leaving(&self) -> bool {
        self.word(FLAGS).load(Ordering::Acquire) & LEAVING != 0
    }
    /// How much memory is to be kept free. Wide, until the supervisor has seen that less will do.
    pub fn headroom(&self) -> Headroom {
        if self.word(FLAGS).load(Ordering::Relaxed) & QUIET != 0 { Headroom::Narrow } else { Headroom::Wide }
    }
    /// The supervisor says how much memory is to be kept free.
    pub fn set_headroom(&self, headroom: Headroom) {
        match headroom {
            Headroom::Narrow => self.word(FLAGS).fetch_or(QUIET, Ordering::Relaxed),
            Headroom::Wide => self.word(FLAGS).fetch_and(!QUIET, Ordering::Relaxed),
        };
    }
    /// The watermarks now.
    pub fn watermarks(&self) -> Watermarks {
        Watermarks::of(self.ram(), self.headroom())
    }
    /// How far the accounts of the processes are ([`crate::fairness`]): the one that was behind all others when it was
    /// its turn.
    pub fn pass(&self) -> u64 {
        self.word(PASS).load(Ordering::Relaxed)
    }
    /// The supervisor is gone: somebody has seen that nobody holds its lock. Release pairs with `is_abandoned`: whoever
    /// sees it sees what the supervisor did at last, as the caller does.
    pub fn set_abandoned(&self) {
        self.word(ABANDONED).store(1, Ordering::Release);
    }
    /// True when it was seen that the supervisor is gone. It may be gone before. Acquire pairs with `set_abandoned`.
    pub fn is_abandoned(&self) -> bool {
        self.word(ABANDONED).load(Ordering::Acquire) != 0
    }
    /// One that is behind all others has got this far.
    pub fn raise_pass_to(&self, pass: u64) {
        self.word(PASS).fetch_max(pass, Ordering::Relaxed);
    }
}

/// What the shrinker does about a pool that is nearly full.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Shrinking {
    /// It waits for a write.
    Writes {
        /// When it began.
        since_ns: u64,
    },
    /// The pool has more room since then.
    BroughtRoom {
        /// When.
        at_ns: u64,
    },
    /// Nothing was written: there is nothing, or it cannot be.
    Cannot,
}

/// Whether the shrinker can make room in the pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fullness {
    /// It can.
    Room,
    /// The file is full or cannot be written.
    Full,
}

const _: () = assert!(size_of::<AtomicU32>() == 4 || cfg!(any(loom, shuttle)));

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_waited_for_but_not_for_ever() {
        let words: [AtomicU64; BUDGET_WORDS] = core::array::from_fn(|_| AtomicU64::new(0));
        let budget = Budget { words: &words };
        assert!(!budget.is_room_coming(1), "nothing was ever written");
        budget.set_shrinking(Shrinking::Writes { since_ns: 1001 });
        assert!(budget.is_room_coming(1001));
        assert!(budget.is_room_coming(1000 + WRITE_PATIENCE_NS - 1));
        assert!(!budget.is_room_coming(1000 + WRITE_PATIENCE_NS), "it hangs");
        budget.set_shrinking(Shrinking::BroughtRoom { at_ns: 2000 });
        assert!(budget.is_room_coming(2000 + ROOM_PATIENCE_NS - 1));
        assert!(!budget.is_room_coming(2000 + ROOM_PATIENCE_NS), "no other write followed");
        budget.set_shrinking(Shrinking::Cannot);
        assert!(!budget.is_room_coming(2000));
    }
}
