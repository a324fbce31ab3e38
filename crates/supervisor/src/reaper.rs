//! Notices processes that are gone (or were replaced by exec) and gives back what they held.
//!
//! A process is gone when nobody holds the lock of its record: its kswapd held it, and that thread ends with the memory
//! it belongs to, at exit, exec and SIGKILL alike.

use std::collections::HashMap;
use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use uswap_core::clusters::lock::Holder;
use uswap_core::mm::{MmRecord, MmState, MmTable, SUPERVISOR_LOCK_BYTE, lock_byte};
use uswap_engine::reaper::{drop_mm, give_back_clusters};
use uswap_os::{Fd, record_lock};
use uswap_units::MmId;

use crate::pressure;
use crate::processes::LockHolder;
use crate::shared::Shared;

const LOOK_EVERY: Duration = Duration::from_millis(5);

/// As long as nothing is stored there is nothing to give back.
const LOOK_EVERY_WHEN_EMPTY: Duration = Duration::from_millis(50);

/// A forked child that nobody claims, and whose parent is gone, is dead after this time.
const UNCLAIMED_MAX: Duration = Duration::from_secs(2);

/// Memory of the swap table is kept this long after it was used last: most of it is used again.
const GIVE_BACK_EVERY: Duration = Duration::from_secs(1);

/// A lock is held for less than 1 us by who runs, and for some ms by who was interrupted: this many tries, and then it
/// is time to ask.
const SPINS: u32 = 64;

/// A thread that is gone may leave others of its process that still run for a moment.
const LAST_STEPS: Duration = Duration::from_millis(2);

/// How the supervisor waits for a lock of the swap table: its threads must not wait for a process that is dead, since
/// they are who reaps it.
pub fn wait_for_lock(mms: MmTable<'_>, holder: MmId, tries: u32) -> Holder {
    if tries < SPINS {
        std::hint::spin_loop();
        return Holder::Lives;
    }
    std::thread::yield_now();
    // Another thread of the supervisor.
    if u32::from(holder.0) >= mms.count() || !tries.is_multiple_of(SPINS) {
        return Holder::Lives;
    }
    let record = mms.record(holder);
    let is_gone = match record.state() {
        MmState::Live | MmState::Taken => record.has_process() && SEGMENT.is_unlocked(record),
        MmState::Reaping => true,
        MmState::Forked | MmState::Free => false,
    };
    if is_gone {
        std::thread::sleep(LAST_STEPS);
        return Holder::IsGone;
    }
    Holder::Lives
}

/// The file of the segment, for who waits for a lock and has nothing but the table of records. It stays open.
struct SegmentFile(AtomicI32);

static SEGMENT: SegmentFile = SegmentFile(AtomicI32::new(-1));

impl SegmentFile {
    fn is_unlocked(&self, record: MmRecord<'_>) -> bool {
        let file = ManuallyDrop::new(Fd::from_raw(self.0.load(Ordering::Acquire)));
        LockHolder::of(&file, record) == LockHolder::Nobody
    }
}

/// Takes the lock by which the processes of the run know that their supervisor lives.
pub fn hold_supervisor_lock(segment: &Fd) -> anyhow::Result<()> {
    record_lock::try_lock(segment, SUPERVISOR_LOCK_BYTE).ok().filter(|&held| held).with_context(
        || "a new file in memory cannot be locked: system calls seem to be forbidden here (seccomp)",
    )?;
    SEGMENT.0.store(segment.raw(), Ordering::Release);
    Ok(())
}

/// Processes that are asked in one look whether they still hold the lock of their record.
const ASKED_AT_ONCE: usize = 64;

pub fn run(shared: &Shared) {
    let mut unclaimed: HashMap<MmId, Instant> = HashMap::new();
    let mut gave_back = Instant::now();
    // Counts the records that were looked at, over all looks.
    let mut turn = 0_usize;
    while !shared.is_stopping() {
        if gave_back.elapsed() >= GIVE_BACK_EVERY {
            give_back_clusters(shared.segment, shared);
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
                pressure::note_end(shared, record);
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
            let parent =
                record.parent().checked_sub(1).map(|id| shared.segment.mms().record(MmId(id as u16)));
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
