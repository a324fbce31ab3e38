//! Notices processes that are gone (or were replaced by exec) and gives back what they held.
//!
//! A process is gone when nobody holds the lock of its record: its kswapd held it, and that thread ends with the memory
//! it belongs to, at exit, exec and SIGKILL alike.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use uswap_core::mm::{MmRecord, MmState, lock_byte};
use uswap_engine::reaper::{drop_mm, trim_clusters};
use uswap_os::{Fd, record_lock};
use uswap_units::MmId;

use crate::locks::LockHolder;
use crate::shared::Shared;

const LOOK_EVERY: Duration = Duration::from_millis(5);

/// As long as nothing is stored there is nothing to give back.
const LOOK_EVERY_WHEN_EMPTY: Duration = Duration::from_millis(50);

/// A forked child that nobody claims, and whose parent is gone, is dead after this time.
const UNCLAIMED_MAX: Duration = Duration::from_secs(2);

/// Memory of the swap table is kept this long after it was used last: most of it is used again.
const GIVE_BACK_EVERY: Duration = Duration::from_secs(1);

/// Processes that are asked in one look whether they still hold the lock of their record.
const ASKED_AT_ONCE: usize = 64;

pub fn run(shared: &Shared) {
    let mut unclaimed: HashMap<MmId, Instant> = HashMap::new();
    let mut gave_back = Instant::now();
    // Counts the records that were looked at, over all looks.
    let mut turn = 0_usize;
    while !shared.is_stopping() {
        if gave_back.elapsed() >= GIVE_BACK_EVERY {
            trim_clusters(shared.segment, shared);
            gave_back = Instant::now();
        }
        let records: Vec<_> = shared.segment.mms().in_use().collect();
        let asked_before = turn;
        for (index, &record) in records.iter().enumerate() {
            // The end of a process is seen at once, and that it executed another program within a few looks.
            let ahead = (index + records.len() - asked_before % records.len()) % records.len();
            if ahead < ASKED_AT_ONCE {
                turn = turn.wrapping_add(1);
            } else if shared.processes.of(record).is_some_and(|process| !process.has_ended()) {
                continue;
            }
            if is_gone(shared, record, &mut unclaimed) {
                shared.pressure.note_end(&shared.processes, &shared.limits().rules, record);
                drop_mm(shared.segment, shared, record.id());
                let _was_held = record_lock::unlock(&shared.memfd, lock_byte(record.id()));
            }
        }
        // The next child that gets a record has its own time.
        unclaimed.retain(|id, _| shared.segment.mms().record(*id).state() == MmState::Forked);
        let empty = shared.segment.reuse().stored() == 0;
        shared.sleep(if empty { LOOK_EVERY_WHEN_EMPTY } else { LOOK_EVERY });
    }
}

fn is_gone(shared: &Shared, record: MmRecord<'_>, unclaimed: &mut HashMap<MmId, Instant>) -> bool {
    match record.state() {
        MmState::Live | MmState::Taken => took_lock(&shared.memfd, record),
        MmState::Forked => {
            let parent = record.parent().map(|parent| shared.segment.mms().record(parent));
            let parent_lives = parent.is_some_and(|parent| parent.state() == MmState::Live);
            if parent_lives {
                unclaimed.remove(&record.id());
                return false;
            }
            let since = *unclaimed.entry(record.id()).or_insert_with(Instant::now);
            since.elapsed() > UNCLAIMED_MAX && record.reap_forked()
        }
        MmState::Free | MmState::Reaping => false,
    }
}

/// Takes the lock of a record from a process that is gone. Who takes a record must have its lock first: so if it is
/// still the record of a process then, this is that of the dead one, and stays so until the lock is given up.
fn took_lock(segment: &Fd, record: MmRecord<'_>) -> bool {
    let byte = lock_byte(record.id());
    if !record.has_process() || LockHolder::of(segment, record) != LockHolder::Nobody {
        return false;
    }
    if record_lock::try_lock(segment, byte) != Ok(true) {
        return false;
    }
    let is_dead = record.has_process();
    if !is_dead {
        let _was_held = record_lock::unlock(segment, byte);
    }
    is_dead
}
