//! Notices processes that are gone (or were replaced by exec) and gives back what they held.
//!
//! A process is gone when the thread of its kswapd is: that thread ends with the memory it belongs to, at exit, exec and SIGKILL alike.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use uswap_core::clusters::lock::Holder;
use uswap_core::counters::Counter;
use uswap_core::mm::MmTable;
use uswap_core::mm::{MmRecord, MmState};
use uswap_engine::reaper::{drop_mm, give_back_clusters};
use uswap_os::{process, thread};
use uswap_units::MmId;

use super::pressure;
use super::shared::Shared;

const LOOK_EVERY: Duration = Duration::from_millis(5);

/// As long as nothing is stored there is nothing to give back.
const LOOK_EVERY_WHEN_EMPTY: Duration = Duration::from_millis(50);

/// A forked child that nobody claims, and whose parent is gone, is dead after this time.
const UNCLAIMED_MAX: Duration = Duration::from_secs(2);

/// Memory of the swap table is kept this long after it was used last: most of it is used again.
const GIVE_BACK_EVERY: Duration = Duration::from_secs(1);

/// A lock is held for less than 1 us by who runs, and for some ms by who was interrupted: this many tries, and then it is time to ask.
const SPINS: u32 = 64;

/// A thread that is gone may leave others of its process that still run for a moment.
const LAST_STEPS: Duration = Duration::from_millis(2);

/// How the supervisor waits for a lock of the swap table: its threads must not wait for a process that is dead, since they are who reaps it.
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
        MmState::Live | MmState::Taken => !lives(mms, record),
        MmState::Reaping => true,
        MmState::Forked | MmState::Free => false,
    };
    if is_gone {
        std::thread::sleep(LAST_STEPS);
        return Holder::IsGone;
    }
    Holder::Lives
}

pub fn run(shared: &Shared) {
    let mut unclaimed: HashMap<MmId, Instant> = HashMap::new();
    let mut gave_back = Instant::now();
    while !shared.is_stopping() {
        if gave_back.elapsed() >= GIVE_BACK_EVERY {
            give_back_clusters(shared.segment, shared);
            gave_back = Instant::now();
        }
        for record in shared.segment.mms().in_use() {
            if is_gone(shared, record, &mut unclaimed) {
                pressure::note_end(shared, record);
                drop_mm(shared.segment, shared, record.id());
            }
        }
        // The next child that gets a record has its own time.
        unclaimed.retain(|id, _| shared.segment.mms().record(*id).state() == MmState::Forked);
        let empty = shared.segment.counters().get(Counter::Staged) == 0;
        std::thread::park_timeout(if empty { LOOK_EVERY_WHEN_EMPTY } else { LOOK_EVERY });
    }
}

fn is_gone(shared: &Shared, record: MmRecord<'_>, unclaimed: &mut HashMap<MmId, Instant>) -> bool {
    match record.state() {
        MmState::Live | MmState::Taken => !lives(shared.segment.mms(), record),
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

/// Whether the process of a record that is taken or live is there: not when it ended or executed another program. Who has not announced itself has no kswapd to ask for.
fn lives(mms: MmTable<'_>, record: MmRecord<'_>) -> bool {
    match record.state() {
        MmState::Live => thread::send_signal(record.pid(), record.kswapd_tid() as u32, 0).is_ok(),
        MmState::Taken => {
            record.pid() == 0 || (process::is_alive(record.pid()) && !mms.is_superseded(record))
        }
        // It has just become one of them.
        MmState::Forked | MmState::Free | MmState::Reaping => true,
    }
}

/// Managed processes that are alive.
pub fn live_processes(shared: &Shared) -> usize {
    let mms = shared.segment.mms();
    let is_process = |record: &MmRecord<'_>| matches!(record.state(), MmState::Live | MmState::Taken);
    mms.in_use().filter(|record| is_process(record) && record.pid() != 0 && lives(mms, *record)).count()
}
