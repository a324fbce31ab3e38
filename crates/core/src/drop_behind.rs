//! Drop-behind: what a program went past in order is evicted before what it has not been at for longer.
//!
//! A program that goes through more memory than there is, over and over, comes to each page just after it was evicted,
//! if the longest unused pages go first: all of them are missed, however little is too much. If those go that it has
//! just gone past, the rest stays, and is there the next time ("most recently used", Chou and DeWitt, 1985). But what
//! stays may be of no use any more. So both are tried: some of the evicted pages of either kind are *samples*, and it
//! is counted how many come back (as set dueling does for caches, Qureshi and others, 2007). Where those come back more
//! often that the program went past, the hand of the clock chooses alone.
//!
//! Pure state of one process.
//!
//! Must hold: a chunk is handed out at most once each time it was noted, and never while it is one of the four noted
//! last. The hand chooses whenever fewer than one in sixteen of the pages evicted lately were its own. Called by
//! `engine`, which tells what faults and evictors did, and asks what to evict next.

use uswap_units::{ChunkId, PageId};

/// Chunks that wait at most; the oldest then stays in memory.
const CHUNKS: usize = 64;

/// How many of the youngest are left alone: the program may still be at them.
const AT_WORK: usize = 4;

/// Samples of each kind that are followed at once.
const SAMPLES: usize = 8;

/// Judged samples of each kind before they say anything.
const JUDGED_MIN: u32 = 4;

/// After so many, what was before counts half.
const JUDGED_MAX: u32 = 8;

/// One page in so many is chosen by the hand while nothing is known, and while what stays is of use.
const HAND_EVERY_UNKNOWN: u64 = 2;
const HAND_EVERY_USEFUL: u64 = 16;

/// After so many evicted pages, what was before counts half.
const COUNTED_MAX: u64 = 1 << 13;

/// Who chose a page that is evicted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Chosen {
    /// It was gone past.
    Behind,
    /// The hand of the clock.
    ByHand,
}

/// What is known of a page that was evicted as a sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SampleState {
    /// It has come back.
    Present,
    /// It has not come back.
    Away,
    /// It came back, and was evicted again.
    AwayAgain,
    /// There is no such page any more.
    Gone,
}

/// A page that is followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    /// The page.
    pub page: PageId,
    /// Pages that the run had stored when it was evicted.
    pub at: u64,
}

/// What the samples say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    /// Too little.
    Unknown,
    /// What stays comes to use as often as what goes: the program goes round.
    Useful,
    /// What stays is of less use.
    Useless,
}

/// Samples of one kind.
#[derive(Clone, Copy, Debug)]
struct Samples {
    followed: [Option<Sample>; SAMPLES],
    taken_at: u64,
    judged: u32,
    back: u32,
    /// Pages stored until the latest of them came back; what was before counts less and less.
    back_after: u64,
}

impl Samples {
    const fn new() -> Samples {
        Samples { followed: [None; SAMPLES], taken_at: 0, judged: 0, back: 0, back_after: 0 }
    }
    fn came_back(&mut self, age: u64) {
        self.judge(true);
        self.back_after = age.max(u64::midpoint(self.back_after, age));
    }
    fn judge(&mut self, came_back: bool) {
        self.judged += 1;
        self.back += u32::from(came_back);
        if self.judged > JUDGED_MAX {
            self.judged /= 2;
            self.back /= 2;
        }
    }
}

/// What a process went past in order.
#[derive(Debug)]
pub struct DropBehind {
    chunks: [ChunkId; CHUNKS],
    head: usize,
    length: usize,
    /// Pages that were evicted, by who chose them.
    evicted: [u64; 2],
    samples: [Samples; 2],
    /// Until the run has stored so many pages, the hand chooses alone.
    off_until: u64,
    /// Pages that the run stores while a sample is followed: twice its budget.
    patience: u64,
}

impl DropBehind {
    /// Of a run with so many pages of RAM.
    pub const fn new(ram_pages: u64) -> DropBehind {
        DropBehind {
            chunks: [ChunkId::new(0); CHUNKS],
            head: 0,
            length: 0,
            evicted: [0; 2],
            samples: [Samples::new(); 2],
            off_until: 0,
            patience: 2 * ram_pages,
        }
    }

    /// The program has gone past all of a chunk, in order, and what it met there came from where it was stored.
    pub fn note_passed(&mut self, chunk: ChunkId) {
        if self.length == CHUNKS {
            (self.head, self.length) = ((self.head + 1) % CHUNKS, CHUNKS - 1);
        }
        self.chunks[(self.head + self.length) % CHUNKS] = chunk;
        self.length += 1;
    }

    /// Adds to the pages that were evicted.
    pub fn note_evicted(&mut self, chosen: Chosen, pages: u64) {
        self.evicted[chosen as usize] += pages;
        while self.evicted.iter().sum::<u64>() > COUNTED_MAX {
            self.evicted = self.evicted.map(|pages| pages / 2);
        }
    }

    /// The chunk to evict next, when the run has stored `now` pages. None: the hand chooses.
    pub fn next(&mut self, now: u64) -> Option<ChunkId> {
        let hand_every = match self.verdict() {
            _ if now < self.off_until => return None,
            Verdict::Unknown => HAND_EVERY_UNKNOWN,
            Verdict::Useful => HAND_EVERY_USEFUL,
            Verdict::Useless => {
                self.off_until = now + self.patience;
                (self.samples, self.length) = ([Samples::new(); 2], 0);
                return None;
            }
        };
        if self.length <= AT_WORK {
            return None;
        }
        let [behind, by_hand] = self.evicted;
        if by_hand * hand_every < behind + by_hand {
            return None;
        }
        // The youngest of the others: the older ones stay, and are there the next time.
        let place = |index: usize| (self.head + index) % CHUNKS;
        let taken = self.length - 1 - AT_WORK;
        let chunk = self.chunks[place(taken)];
        for index in taken..self.length - 1 {
            self.chunks[place(index)] = self.chunks[place(index + 1)];
        }
        self.length -= 1;
        Some(chunk)
    }

    /// True when a page that is evicted now should be followed.
    pub fn wants_sample(&self, chosen: Chosen, now: u64) -> bool {
        let samples = &self.samples[chosen as usize];
        now >= self.off_until
            && now >= samples.taken_at + self.patience / 64
            && samples.followed.contains(&None)
    }

    /// Follows a page.
    pub fn follow(&mut self, chosen: Chosen, sample: Sample) {
        let samples = &mut self.samples[chosen as usize];
        if let Some(free) = samples.followed.iter_mut().find(|followed| followed.is_none()) {
            (*free, samples.taken_at) = (Some(sample), sample.at);
        }
    }

    /// Looks at all samples.
    pub fn look(&mut self, now: u64, sample_state: impl Fn(Sample) -> SampleState) {
        // Whoever goes round comes to what the hand chose no later than to what it went past.
        let soon = match self.samples[Chosen::Behind as usize].back_after {
            0 => self.patience,
            back_after => self.patience.min(back_after * 3 / 2 + self.patience / 16),
        };
        for (samples, patience) in self.samples.iter_mut().zip([self.patience, soon]) {
            for index in 0..SAMPLES {
                let Some(sample) = samples.followed[index] else { continue };
                let age = now.saturating_sub(sample.at);
                match sample_state(sample) {
                    SampleState::Away if age <= patience => continue,
                    SampleState::Away => samples.judge(false),
                    SampleState::Present | SampleState::AwayAgain => samples.came_back(age),
                    SampleState::Gone => (),
                }
                samples.followed[index] = None;
            }
        }
    }

    /// What the samples say now.
    fn verdict(&self) -> Verdict {
        let [behind, by_hand] = &self.samples;
        // A quarter of them may be chance. If the hand's come back more often than that allows, the others cannot beat
        // them.
        if by_hand.judged >= JUDGED_MIN && by_hand.back * 4 >= by_hand.judged * 3 {
            return Verdict::Useful;
        }
        if behind.judged.min(by_hand.judged) < JUDGED_MIN {
            return Verdict::Unknown;
        }
        let (behind_part, hand_part) = (behind.back * by_hand.judged, by_hand.back * behind.judged);
        if behind_part * 4 > hand_part * 4 + behind.judged * by_hand.judged {
            Verdict::Useless
        } else {
            Verdict::Useful
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use Chosen::{Behind, ByHand};
    use std::vec::Vec;
    use uswap_units::CHUNK_PAGES;

    const RAM: u64 = 1 << 16;
    /// Pages stored between two samples.
    const APART: u64 = 2 * RAM / 64;

    fn sample(at: u64) -> Sample {
        Sample { page: PageId::new(at), at }
    }

    /// After so many samples of each kind, of which those came back that `came` says.
    fn judged(behind_back: u32, hand_back: u32) -> DropBehind {
        let mut state = DropBehind::new(RAM);
        for (chosen, back) in [(Behind, behind_back), (ByHand, hand_back)] {
            for index in 0..8 {
                state.follow(chosen, sample(0));
                let sample_state = if index < back { SampleState::AwayAgain } else { SampleState::Away };
                state.look(2 * RAM + 1, |_| sample_state);
            }
        }
        state
    }

    fn pass(state: &mut DropBehind, chunks: u64) {
        (0..chunks).for_each(|chunk| state.note_passed(ChunkId::new(chunk)));
    }

    #[test]
    fn what_stays_is_kept_while_it_comes_to_use_as_often_as_what_goes() {
        assert_eq!(DropBehind::new(RAM).verdict(), Verdict::Unknown);
        for (behind, hand, verdict) in [
            (8, 8, Verdict::Useful),
            (8, 6, Verdict::Useful),
            (8, 5, Verdict::Useless),
            (8, 0, Verdict::Useless),
            (0, 0, Verdict::Useful),
            (2, 0, Verdict::Useful),
            (3, 0, Verdict::Useless),
            (0, 8, Verdict::Useful),
        ] {
            assert_eq!(judged(behind, hand).verdict(), verdict, "{behind} and {hand} of 8");
        }
    }

    #[test]
    fn the_hand_chooses_half_then_little_or_all() {
        let by_hand = |state: &mut DropBehind| {
            let mut count = 0;
            for chunk in 0..320 {
                state.note_passed(ChunkId::new(chunk));
                let chosen = if state.next(5 * RAM).is_none() { ByHand } else { Behind };
                state.note_evicted(chosen, CHUNK_PAGES);
                count += u32::from(chosen == ByHand);
            }
            count
        };
        // Before there are as many as the program may be at, the hand chooses too, and that counts.
        assert_eq!(by_hand(&mut DropBehind::new(RAM)), 160);
        assert_eq!(by_hand(&mut judged(8, 8)), 20);
        assert_eq!(by_hand(&mut judged(8, 0)), 320);
    }

    #[test]
    fn what_is_of_no_use_is_tried_again_after_a_while() {
        let mut state = judged(8, 0);
        pass(&mut state, 64);
        assert_eq!(state.next(100), None);
        assert!(!state.wants_sample(Behind, 100));
        pass(&mut state, 64);
        assert_eq!(state.next(100 + 2 * RAM - 1), None);
        assert_eq!(state.next(100 + 2 * RAM), Some(ChunkId::new(59)));
        assert!(state.wants_sample(Behind, 100 + 2 * RAM));
    }

    #[test]
    fn the_last_are_left_alone_and_those_before_go_first() {
        let mut state = judged(8, 8);
        pass(&mut state, 70);
        let mut taken =
            || (0..3).filter_map(|_| state.next(0)).map(|chunk| chunk.number()).collect::<Vec<_>>();
        assert_eq!(taken(), [65, 64, 63]);
        for _ in 0..70 {
            let _taken = state.next(0);
        }
        assert_eq!(state.next(0), None);
        state.note_passed(ChunkId::new(70));
        assert_eq!(state.next(0), Some(ChunkId::new(66)), "the program is at those behind it");
        assert_eq!(state.next(0), None);
    }

    #[test]
    fn samples_are_taken_far_apart_and_followed_for_twice_the_budget() {
        let mut state = DropBehind::new(RAM);
        for at in (0..).step_by(APART as usize).take(SAMPLES) {
            assert!(state.wants_sample(Behind, at.max(APART)));
            state.follow(Behind, sample(at));
            assert!(!state.wants_sample(Behind, at + APART - 1));
        }
        assert!(!state.wants_sample(Behind, 10 * RAM), "there is no room for one");
        assert!(state.wants_sample(ByHand, 10 * RAM));
        state.look(2 * RAM, |_| SampleState::Away);
        assert!(!state.wants_sample(Behind, 10 * RAM), "there is still time");
        state.look(2 * RAM, |sample| if sample.at == 0 { SampleState::Gone } else { SampleState::Away });
        assert!(state.wants_sample(Behind, 10 * RAM));
        state.look(2 * RAM + 1, |_| SampleState::AwayAgain);
        state.look(2 * RAM + 1, |_| SampleState::AwayAgain);
        assert_eq!((state.samples[0].judged, state.samples[0].back), (7, 7));
    }
}
