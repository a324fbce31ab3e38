//! The managed processes of the run, each by a pidfd.
//!
//! A process holds the lock of its record (`uswap_os::record_lock`). The kernel says which process that is, in this pid
//! namespace, and takes the lock away when the process ends or executes another program. What must hold: a number is
//! used only for a process that was found in this way, and what is read under it counts only if the process has not
//! ended meanwhile; signals go through the pidfd. The number in a record is written here and nowhere else.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use uswap_control::unpoisoned;
use uswap_core::mm::{MmRecord, MmState, MmTable};
use uswap_os::Fd;
use uswap_os::pidfd::Pidfd;
use uswap_os::process;
use uswap_units::ProcessNumber;

use crate::locks::LockHolder;

/// With whom the run begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Root {
    /// What the supervisor starts, and what comes from that: all below it.
    Supervisor,
    /// This process, which asked for it, and what comes from that.
    Member(u32),
}

impl Root {
    /// The number of the process that is on top.
    pub fn pid(self) -> u32 {
        match self {
            Root::Supervisor => process::process_id(),
            Root::Member(pid) => pid,
        }
    }

    /// Whether that process is of the run itself.
    pub fn is_member(self) -> bool {
        matches!(self, Root::Member(_))
    }
}

/// The processes, by the numbers of their records ([`MmRecord::number`]).
#[derive(Default)]
pub struct Processes {
    known: Mutex<HashMap<ProcessNumber, Arc<Pidfd>>>,
    /// The program itself, managed or not.
    program: OnceLock<Pidfd>,
}

impl Processes {
    /// The program was started as `pid`, and nobody has waited for it yet.
    pub fn set_program(&self, pid: u32) {
        if let Ok(pidfd) = Pidfd::open(pid) {
            let _only_once = self.program.set(pidfd);
        }
    }

    /// The program itself.
    pub fn program(&self) -> Option<&Pidfd> {
        self.program.get()
    }

    /// Finds out who has come, and forgets who has ended.
    pub fn follow(&self, mms: MmTable<'_>, segment: &Fd) {
        let mut known = self.lock();
        known.retain(|_, pidfd| !pidfd.has_ended());
        let records: Vec<_> = mms.in_use().filter(MmRecord::has_process).collect();
        known.retain(|number, _| records.iter().any(|record| record.number() == *number));
        for record in records {
            match known.get(&record.number()) {
                Some(_) => (),
                None if record.pid() != 0 => {
                    record.set_pid(0);
                }
                None => {
                    if let Some(pidfd) = identify(segment, record)
                        && record.set_pid(pidfd.pid())
                    {
                        known.insert(record.number(), Arc::new(pidfd));
                    }
                }
            }
        }
    }

    /// The process of a record, as long as it has not ended.
    pub fn of(&self, record: MmRecord<'_>) -> Option<Arc<Pidfd>> {
        self.lock().get(&record.number()).map(Arc::clone)
    }

    /// What `look` finds under the number of the process of a record, if it was that process all the time.
    pub fn look<R>(&self, record: MmRecord<'_>, look: impl FnOnce(u32) -> R) -> Option<R> {
        self.of(record)?.while_it_lives(look)
    }

    /// The name of a process: as the kernel shows it, or as it was when it began.
    pub fn name_of(&self, record: MmRecord<'_>) -> String {
        let read = |pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        let now = self.look(record, read).unwrap_or_default();
        let now = now.trim_end();
        if now.is_empty() {
            let first = record.name();
            return String::from_utf8_lossy(&first).trim_end_matches('\0').to_owned();
        }
        now.to_owned()
    }

    /// Sends a signal to all, and to the program.
    pub fn signal(&self, signal: u32) {
        let all: Vec<_> = self.lock().values().map(Arc::clone).collect();
        for pidfd in all.iter().map(Arc::as_ref).chain(self.program()) {
            let _has_ended = pidfd.signal(signal);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ProcessNumber, Arc<Pidfd>>> {
        unpoisoned(self.known.lock())
    }
}

/// Opens the process that holds the lock of a record. Before and after it is the same one, which holds the lock all the
/// time: so it had its number all the time.
fn identify(segment: &Fd, record: MmRecord<'_>) -> Option<Pidfd> {
    let LockHolder::Process(pid @ 1..) = LockHolder::of(segment, record) else { return None };
    let pidfd = Pidfd::open(pid).ok()?;
    (LockHolder::of(segment, record) == LockHolder::Process(pid)).then_some(pidfd)
}

/// Records of processes that are managed.
pub fn live(mms: MmTable<'_>) -> impl Iterator<Item = MmRecord<'_>> {
    mms.in_use().filter(|record| record.state() == MmState::Live)
}

/// Managed processes that are there.
pub fn count_live(mms: MmTable<'_>, segment: &Fd) -> usize {
    let lives = |record: &MmRecord<'_>| LockHolder::of(segment, *record) != LockHolder::Nobody;
    mms.in_use().filter(MmRecord::has_process).filter(lives).count()
}
