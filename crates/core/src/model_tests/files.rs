//! Swap files that come and go, against a model with a list of states and, for each process, the set of files that it
//! has open.
//!
//! What it is about: whoever reads swap files has each open that may be named by a swap word, whatever processes start,
//! fork, take over and end meanwhile.

use super::{SMALL, with_segment};
use crate::files::{FileAccess, FileKind, FileSpec, FileState, Follow};
use crate::held_files::HeldFiles;
use crate::mm::{HaveOpen, MmState, RecordHolder};
use crate::segment::{Geometry, Segment};
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::vec::Vec;
use uswap_units::limits::SWAP_FILES_MAX;
use uswap_units::{FileId, MmId};

#[derive(Clone, Copy, Debug)]
enum Op {
    Add,
    Change {
        file: usize,
        next: usize,
    },
    Start,
    Fork {
        process: usize,
    },
    /// A forked child says that it lives, and has opened nothing yet.
    Claim {
        process: usize,
    },
    /// One step of what is to follow, if there is one; else the process reads from now on.
    Follow {
        process: usize,
        fails: bool,
    },
    End {
        process: usize,
    },
}

fn operation() -> impl Strategy<Value = Op> {
    let process = 0..8_usize;
    prop_oneof![
        2 => Just(Op::Add),
        6 => (0..SWAP_FILES_MAX, 0..4_usize).prop_map(|(file, next)| Op::Change { file, next }),
        2 => Just(Op::Start),
        2 => process.clone().prop_map(|process| Op::Fork { process }),
        3 => process.clone().prop_map(|process| Op::Claim { process }),
        20 => (process.clone(), prop::bool::weighted(0.05)).prop_map(|(process, fails)| Op::Follow { process, fails }),
        1 => process.prop_map(|process| Op::End { process }),
    ]
}

const STATES: [FileState; 4] = [FileState::Opening, FileState::InUse, FileState::Draining, FileState::Gone];
/// The changes that there are, as numbers of the states above.
const CHANGES: [(usize, usize); 5] = [(0, 1), (0, 3), (1, 2), (2, 1), (2, 3)];
const SLOTS: u64 = 8;
const GEOMETRY: Geometry = Geometry { slots: 512 * 40, ..SMALL };

#[derive(Clone, Debug)]
struct Process {
    mm: MmId,
    lives: bool,
    /// It has looked at all files since it lives.
    reads: bool,
    open: BTreeSet<u8>,
    refused: BTreeSet<u8>,
}

struct Model<'a> {
    segment: Segment<'a>,
    files: Vec<usize>,
    processes: Vec<Process>,
}

impl Model<'_> {
    fn take(&self) -> Option<Process> {
        let record = self.segment.mms().take(RecordHolder::Run)?;
        let (open, refused) = (BTreeSet::new(), BTreeSet::new());
        Some(Process { mm: record.id(), lives: false, reads: false, open, refused })
    }

    fn live(&mut self, process: usize) {
        let process = &mut self.processes[process];
        process.lives = true;
        self.segment.mms().record(process.mm).set_state(MmState::Live, u32::from(process.mm.number()) + 100);
    }

    fn have_open(&self, file: u8) -> HaveOpen {
        let mut lives: Vec<&Process> = self.processes.iter().filter(|process| process.lives).collect();
        lives.sort_by_key(|process| process.mm.number());
        for process in lives {
            let pid = u32::from(process.mm.number()) + 100;
            if process.refused.contains(&file) {
                return HaveOpen::Refused(pid);
            }
            if !process.open.contains(&file) {
                return HaveOpen::NotYet(pid);
            }
        }
        HaveOpen::All
    }

    fn change(&mut self, file: usize, next: usize) {
        let (Some(&state), files) = (self.files.get(file), self.segment.slots().files()) else { return };
        let (from, to) = (STATES[state], STATES[next]);
        assert_eq!(from.may_become(to), CHANGES.contains(&(state, next)));
        if !from.may_become(to) {
            return;
        }
        if (from, to) == (FileState::Opening, FileState::InUse) && self.have_open(file as u8) != HaveOpen::All
        {
            return;
        }
        let before = files.changes();
        for (other, _) in
            CHANGES.into_iter().filter(|(other, to)| *other != state && STATES[*to] == STATES[next])
        {
            assert!(
                !files.change_state(FileId::new(file as u8), STATES[other], to),
                "it is not in that state"
            );
        }
        assert!(files.change_state(FileId::new(file as u8), from, to));
        assert!(files.changes() > before);
        self.files[file] = next;
    }

    fn follow(&mut self, index: usize, fails: bool) {
        if !self.processes[index].lives {
            return;
        }
        let record = self.segment.mms().record(self.processes[index].mm);
        let held = record.held_files();
        let next = self.segment.slots().files().to_follow(held).next();
        let process = &mut self.processes[index];
        match next {
            None => process.reads = true,
            // Whoever cannot even begin is not managed.
            Some(Follow::Open(_)) if fails && !process.reads => self.end(index),
            Some(Follow::Open(file)) => {
                let set = if fails { &mut process.refused } else { &mut process.open };
                assert!(set.insert(file.id.number()) && self.files[file.id.index()] != 3);
                record.set_held_files(held.with(file.id, if fails { Err(()) } else { Ok(()) }));
            }
            Some(Follow::Close(file)) => {
                assert_eq!(self.files[file.index()], 3);
                assert!(process.open.remove(&file.number()) | process.refused.remove(&file.number()));
                record.set_held_files(held.without(file));
            }
        }
    }

    fn end(&mut self, process: usize) {
        let process = self.processes.remove(process);
        self.segment.mms().record(process.mm).free();
    }

    fn apply(&mut self, op: Op) {
        let count = self.processes.len();
        match op {
            Op::Add => {
                let spec = super::slots::spec(SLOTS, FileKind::SolidState);
                let added = self.segment.slots().add_file_to_open(spec);
                assert_eq!(added.is_ok(), self.files.len() < SWAP_FILES_MAX);
                self.files.extend(added.is_ok().then_some(0));
            }
            Op::Change { file, next } => self.change(file % self.files.len().max(1), next),
            Op::Start => {
                if let Some(process) = self.take() {
                    self.processes.push(process);
                    self.live(count);
                }
            }
            Op::Fork { process } if count > 0 && self.processes[process % count].reads => {
                if let Some(child) = self.take() {
                    self.segment.mms().record(child.mm).set_forked();
                    self.processes.push(child);
                }
            }
            Op::Claim { process } if count > 0 => self.live(process % count),
            Op::Follow { process, fails } if count > 0 => self.follow(process % count, fails),
            Op::End { process } if count > 0 => self.end(process % count),
            _ => (),
        }
    }

    fn check(&self) {
        let (files, mms) = (self.segment.slots().files(), self.segment.mms());
        let states: Vec<FileState> = files.all().map(|file| file.state).collect();
        assert_eq!(states, self.files.iter().map(|&state| STATES[state]).collect::<Vec<_>>());
        assert!(files.in_use().all(|file| file.state == FileState::InUse));
        let in_use = states.iter().filter(|state| **state == FileState::InUse).count() as u64;
        assert_eq!(self.segment.slots().capacity(), in_use * SLOTS);
        for (number, state) in (0..).zip(&states) {
            assert_eq!(mms.have_open(FileId::new(number)), self.have_open(number));
            let closed =
                self.processes.iter().all(|process| !process.lives || !process.open.contains(&number));
            assert_eq!(mms.have_closed(FileId::new(number)) == HaveOpen::All, closed);
            let may_be_named = matches!(state, FileState::InUse | FileState::Draining);
            for process in self.processes.iter().filter(|process| process.reads && may_be_named) {
                assert!(
                    process.open.contains(&number),
                    "{process:?} reads, and has not opened file {number}"
                );
            }
        }
    }
}

proptest! {
    #[test]
    fn who_reads_has_every_file_open_that_may_be_named(ops in prop::collection::vec(operation(), 1..200)) {
        with_segment(GEOMETRY, |segment| {
            let mut model = Model { segment, files: Vec::new(), processes: Vec::new() };
            for op in ops {
                model.apply(op);
                model.check();
            }
        });
    }
}

#[test]
fn who_reads_no_file_any_more_is_not_waited_for() {
    with_segment(GEOMETRY, |segment| {
        let spec = FileSpec {
            slots: SLOTS,
            priority: 0,
            kind: FileKind::SolidState,
            descriptor: 3,
            access: FileAccess::Buffered,
        };
        let file = segment.slots().add_file_to_open(spec).expect("the geometry has room for it");
        let record = segment.mms().take(RecordHolder::Run).expect("the geometry has room for it");
        record.set_state(MmState::Live, 7);
        assert_eq!(segment.mms().have_open(file), HaveOpen::NotYet(7));
        record.set_held_files(HeldFiles::NEVER_AGAIN);
        assert_eq!(segment.mms().have_open(file), HaveOpen::All);
        assert_eq!(segment.mms().have_closed(file), HaveOpen::All);
    });
}
