//! `uswap map`: which parts of the memory of a process are where.
//!
//! Only the process itself may walk its page table, so it is asked, and its kswapd counts (`uswap_core::map_table`). It
//! is waited for as long as it goes on: large maps take their time.

use std::time::{Duration, Instant};

use uswap_control::map::{MapBucket, MemoryMap, Places};
use uswap_control::unpoisoned;
use uswap_core::budget::Signal;
use uswap_core::map_table::MapRequest;
use uswap_core::memory_map::{Bucket, PageKind, read};
use uswap_core::mm::{MmRecord, MmState};
use uswap_units::{PAGE_BYTES, ProcessNumber};

use crate::freeze::is_frozen;
use crate::processes::live;
use crate::shared::Shared;

/// A process may show no progress for so long: between two parts of its answer it may evict, and wait for a disk or, on
/// a machine that is busy, for a processor.
const PATIENCE: Duration = Duration::from_secs(2);

/// And it may take so long in all: some billion pages.
const PATIENCE_IN_ALL: Duration = Duration::from_secs(30);

/// How often it is looked whether it has answered. A small map takes less than that.
const STEP: Duration = Duration::from_millis(1);

const AT_HOME: &str = "its memory came home and stays in RAM: nothing of it is managed any more";
const NOT_YET: &str = "nothing of its memory is managed yet: that begins when memory gets short";

/// The map of a process. `None`: of the one that has most memory under management. It is waited for until `is_over`.
pub fn map(shared: &Shared, pid: Option<u32>, is_over: &dyn Fn() -> bool) -> Result<MemoryMap, String> {
    let _one_at_a_time = unpoisoned(shared.making_map.lock());
    let record = find(shared, pid)?;
    let (number, pid, name) = (record.number(), record.pid(), shared.processes.name_of(record));
    if is_at_home(shared, record) {
        return Ok(MemoryMap::empty(pid, name, AT_HOME));
    }
    if is_frozen(shared) {
        let why = "the run is frozen, its processes are stopped: 'uswap thaw' lets them go on";
        return Err(why.to_owned());
    }
    let table = shared.segment.map_table();
    let asked = Asked { record, pid, number, request: table.ask(record.id()) };
    shared.raise(Signal::Pressure);
    let waited = wait(shared, &asked, is_over);
    if waited.is_err() {
        table.withdraw(asked.request);
    }
    match waited {
        Err(Missing::AtHome) => Ok(MemoryMap::empty(pid, name, AT_HOME)),
        Err(Missing::Because(why)) => Err(why),
        Ok(()) => {
            let buckets: Vec<MapBucket> =
                read(table, asked.request).map(|bucket| bucket_of(&bucket)).collect();
            Ok(match buckets.is_empty() {
                true => MemoryMap::empty(pid, name, NOT_YET),
                false => MemoryMap::new(pid, name, buckets),
            })
        }
    }
}

/// Who was asked for what.
struct Asked {
    record: MmRecord<'static>,
    pid: u32,
    number: ProcessNumber,
    request: MapRequest,
}

/// Why there is no answer.
enum Missing {
    AtHome,
    Because(String),
}

fn find(shared: &Shared, pid: Option<u32>) -> Result<MmRecord<'static>, String> {
    shared.processes.follow(shared.segment.mms(), &shared.memfd);
    let mut known = live(shared.segment.mms()).filter(|record| record.pid() != 0);
    match pid {
        Some(pid) => known.find(|record| record.pid() == pid).ok_or_else(|| {
            format!("process {pid} is not managed in this run: 'uswap stat' names the processes that are")
        }),
        None => known.max_by_key(MmRecord::managed_pages).ok_or_else(|| {
            "no process of this run is managed yet: that begins when one has grown to a part of the budget"
                .to_owned()
        }),
    }
}

/// It looks at nothing any more.
fn is_at_home(shared: &Shared, record: MmRecord<'_>) -> bool {
    shared.segment.budget().is_leaving() || record.held_files().reads_none()
}

fn wait(shared: &Shared, asked: &Asked, is_over: &dyn Fn() -> bool) -> Result<(), Missing> {
    let (table, began) = (shared.segment.map_table(), Instant::now());
    let (mut progress, mut progress_at) = (table.progress(), began);
    loop {
        if has_ended(shared, asked) {
            return Err(Missing::Because(format!("process {} has ended", asked.pid)));
        }
        if table.is_complete(asked.request) {
            return Ok(());
        }
        if is_at_home(shared, asked.record) {
            return Err(Missing::AtHome);
        }
        if shared.is_stopping() || is_over() {
            return Err(Missing::Because("the run has ended".to_owned()));
        }
        if table.progress() != progress {
            (progress, progress_at) = (table.progress(), Instant::now());
        }
        if progress_at.elapsed() > PATIENCE || began.elapsed() > PATIENCE_IN_ALL {
            return Err(Missing::Because(why_silent(shared, asked, began.elapsed())));
        }
        shared.sleep(STEP);
    }
}

/// The record may be another process's by now.
fn has_ended(shared: &Shared, asked: &Asked) -> bool {
    let Asked { record, number, .. } = *asked;
    record.number() != number
        || record.state() != MmState::Live
        || shared.processes.look(record, |_| ()).is_none()
}

fn why_silent(shared: &Shared, asked: &Asked, waited: Duration) -> String {
    let pid = asked.pid;
    let stat = shared.processes.look(asked.record, |pid| uswap_os::process::stat(pid).ok()).flatten();
    let seen = match stat.is_some_and(|stat| matches!(stat.state, b'T' | b't')) {
        true => format!("it is stopped: let it go on (kill -CONT {pid}, or in its debugger), and ask again"),
        false => "it may wait for a disk or a processor, or be frozen by its cgroup: ask again".to_owned(),
    };
    format!("process {pid} has not looked at its memory within {:.1} s: {seen}", waited.as_secs_f64())
}

fn bucket_of(bucket: &Bucket) -> MapBucket {
    let bytes = |kind: PageKind| bucket.pages[kind as usize] * PAGE_BYTES as u64;
    MapBucket {
        start: bucket.start.address(),
        end: bucket.end.address(),
        places: Places {
            untouched_bytes: bytes(PageKind::Untouched),
            warm_bytes: bytes(PageKind::Warm),
            cold_bytes: bytes(PageKind::Cold),
            pool_bytes: bytes(PageKind::Pool),
            file_bytes: bytes(PageKind::File),
            same_filled_bytes: bytes(PageKind::SameFilled),
            recent_bytes: bucket.recent * PAGE_BYTES as u64,
        },
    }
}
