//! Programs that go round, in a memory of chunks: how much they miss, by the rule and without it.

use crate::drop_behind::{Chosen, DropBehind, Sample, SampleState};
use std::collections::BTreeSet;
use std::vec::Vec;
use uswap_units::{CHUNK_PAGES, ChunkId};

/// Chunks of RAM.
const RAM: usize = 400;

/// Who chooses what goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    Hand,
    DropBehind,
}

struct Memory {
    rule: Rule,
    present: BTreeSet<u64>,
    /// Where the hand goes on.
    hand: u64,
    stored_pages: u64,
    drop_behind: DropBehind,
}

impl Memory {
    fn new(rule: Rule) -> Memory {
        let drop_behind = DropBehind::new(RAM as u64 * CHUNK_PAGES);
        Memory { rule, present: BTreeSet::new(), hand: 0, stored_pages: 0, drop_behind }
    }

    /// Goes through chunks in order; how many were missed.
    fn pass(&mut self, chunks: core::ops::Range<u64>) -> usize {
        let mut missed = 0;
        for chunk in chunks {
            if self.present.contains(&chunk) {
                continue;
            }
            missed += 1;
            while self.present.len() >= RAM {
                self.evict();
            }
            self.present.insert(chunk);
            self.drop_behind.note_passed(ChunkId::new(chunk));
        }
        missed
    }

    fn evict(&mut self) {
        let (now, present) = (self.stored_pages, &self.present);
        let back = |sample: Sample| present.contains(&sample.page.chunk().number());
        self.drop_behind
            .look(now, |sample| if back(sample) { SampleState::Present } else { SampleState::Away });
        let behind = if self.rule == Rule::DropBehind { self.drop_behind.next(now) } else { None };
        let (chosen, chunk) = match behind {
            Some(chunk) => (Chosen::Behind, chunk.number()),
            None => {
                let next = self.present.range(self.hand..).next().or(self.present.first());
                (Chosen::ByHand, *next.expect("memory is full"))
            }
        };
        if chosen == Chosen::ByHand {
            self.hand = chunk + 1;
        }
        if self.present.remove(&chunk) {
            self.drop_behind.note_evicted(chosen, CHUNK_PAGES);
            self.stored_pages += CHUNK_PAGES;
            if self.drop_behind.wants_sample(chosen, now) {
                self.drop_behind.follow(chosen, Sample { page: ChunkId::new(chunk).first_page(), at: now });
            }
        }
    }

    /// Part of the chunks missed in each of so many rounds, in percent.
    fn rounds(&mut self, chunks: core::ops::Range<u64>, count: usize) -> Vec<usize> {
        let length = (chunks.end - chunks.start) as usize;
        (0..count).map(|_| self.pass(chunks.clone()) * 100 / length).collect()
    }
}

#[test]
fn who_goes_round_in_more_than_memory_misses_what_does_not_fit() {
    for (chunks, at_most) in [(440, 25), (500, 35), (600, 50), (800, 65), (1000, 75)] {
        assert_eq!(Memory::new(Rule::Hand).rounds(0..chunks, 6), [100; 6], "{chunks}");
        let missed = Memory::new(Rule::DropBehind).rounds(0..chunks, 12);
        assert!(missed[4..].iter().all(|&missed| missed <= at_most), "{chunks}: {missed:?}");
    }
}

#[test]
fn what_is_not_used_any_more_makes_room_for_a_round_that_would_fit() {
    for chunks in [120, 200, 300, 380] {
        let mut memory = Memory::new(Rule::DropBehind);
        let _others = memory.rounds(10_000..10_600, 8);
        let missed = memory.rounds(0..chunks, 12);
        assert_eq!(missed[11], 0, "{chunks}: {missed:?}");
        let in_vain: usize = missed[1..].iter().sum::<usize>() * chunks as usize / 100;
        assert!(in_vain <= RAM * 2, "{chunks}: {in_vain} chunks were missed again: {missed:?}");
    }
}

#[test]
fn rounds_in_turn_keep_what_they_can() {
    // Two arrays, each of which fits, together they do not.
    let mut memory = Memory::new(Rule::DropBehind);
    let mut missed = Vec::new();
    for _ in 0..12 {
        missed.push(memory.pass(0..300) + memory.pass(1000..1250));
    }
    assert!(missed[6..].iter().all(|&missed| missed <= 550 / 2), "{missed:?}");
}
