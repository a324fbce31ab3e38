//! The managed processes of the run, each by a pidfd.
//!
//! A process holds the lock of its record (`uswap_os::record_lock`). The kernel says which process that is, in this pid
//! namespace, and takes the lock away when the process ends or executes another program. What must hold: a number is
//! used only for a process that was found in this way, and what is read under it counts only if the process has not
//! ended meanwhile; signals go through the pidfd. The number in a record is written here and nowhere else.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use uswap_core::mm::{MmRecord, MmTable, lock_byte};
use uswap_os::pidfd::Pidfd;
use uswap_os::{Fd, record_lock};

use crate::shared::Shared;

/// The processes, by the numbers of their records ([`MmRecord::number`]).
#[derive(Default)]
pub struct Processes {
    known: Mutex<HashMap<u64, Arc<Pidfd>>>,
    /// The program itself, managed or not.
    program: OnceLock<Pidfd>,
}

/// Who holds the lock of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockHolder {
    /// Its process, which has this number; 0: none in this pid namespace.
    Process(u32),
    /// Nobody: its process has ended, or executed another program.
    Nobody,
    /// The kernel does not say.
    Unknown,
}

impl LockHolder {
    /// As the kernel has it now.
    pub fn of(segment: &Fd, record: MmRecord<'_>) -> LockHolder {
        match record_lock::holder(segment, lock_byte(record.id())) {
            Ok(Some(pid)) => LockHolder::Process(pid),
            Ok(None) => LockHolder::Nobody,
            Err(_) => LockHolder::Unknown,
        }
    }
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
    pub fn follow(&self, shared: &Shared) {
        let mut known = self.lock();
        known.retain(|_, pidfd| !pidfd.has_ended());
        let records: Vec<_> = shared.segment.mms().in_use().filter(MmRecord::has_process).collect();
        known.retain(|number, _| records.iter().any(|record| record.number() == *number));
        for record in records {
            match known.get(&record.number()) {
                Some(_) => (),
                None if record.pid() != 0 => {
                    record.set_pid(0);
                }
                None => {
                    if let Some(pidfd) = identify(&shared.memfd, record)
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

    /// Sends a signal to all, and to the program.
    pub fn signal(&self, signal: u32) {
        let all: Vec<_> = self.lock().values().map(Arc::clone).collect();
        for pidfd in all.iter().map(Arc::as_ref).chain(self.program()) {
            let _has_ended = pidfd.signal(signal);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Arc<Pidfd>>> {
        self.known.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

/// Opens the process that holds the lock of a record. Before and after it is the same one, which holds the lock all the
/// time: so it had its number all the time.
fn identify(segment: &Fd, record: MmRecord<'_>) -> Option<Pidfd> {
    let LockHolder::Process(pid @ 1..) = LockHolder::of(segment, record) else { return None };
    let pidfd = Pidfd::open(pid).ok()?;
    (LockHolder::of(segment, record) == LockHolder::Process(pid)).then_some(pidfd)
}

/// Managed processes that are there.
pub fn count_live(mms: MmTable<'_>, segment: &Fd) -> usize {
    let lives = |record: &MmRecord<'_>| LockHolder::of(segment, *record) != LockHolder::Nobody;
    mms.in_use().filter(MmRecord::has_process).filter(lives).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;
    use std::process::{Command, Stdio};
    use uswap_os::memory;

    /// The kernel names who has a lock as this process knows him, and nobody when he has gone or executes a program.
    #[test]
    fn a_lock_names_its_process_in_our_namespace_until_it_executes_another_program() {
        let segment = memory::memfd_create(c"locks", 4096).expect("memory for a page");
        assert_eq!(record_lock::holder(&segment, 5), Ok(None));
        // Its own lock is nobody's: threads of the supervisor do not exclude each other.
        assert_eq!(record_lock::try_lock(&segment, 9), Ok(true));
        assert_eq!(record_lock::holder(&segment, 9), Ok(None));
        let script = "import fcntl, os, struct, sys\n\
             file = os.open(f'/proc/{sys.argv[1]}/fd/{sys.argv[2]}', os.O_RDWR)\n\
             lock = struct.pack('hhqqi4x', fcntl.F_WRLCK, 0, 5, 1, 0)\n\
             fcntl.fcntl(file, fcntl.F_SETLK, lock)\n\
             print('locked', flush=True)\n\
             os.read(0, 1)\n\
             os.execvp('cat', ['cat'])\n";
        let mut child = Command::new("python3")
            .args(["-c", script, &std::process::id().to_string(), &segment.raw().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 is there");
        let mut said = [0; 7];
        let stdout = child.stdout.as_mut().expect("it is a pipe");
        std::io::Read::read_exact(stdout, &mut said).expect("it says that it has the lock");
        assert_eq!(record_lock::holder(&segment, 5), Ok(Some(child.id())));
        assert_eq!(record_lock::try_lock(&segment, 5), Ok(false));
        let stdin = child.stdin.as_mut().expect("it is a pipe");
        assert!(stdin.as_raw_fd() >= 0);
        std::io::Write::write_all(stdin, b"xy").expect("it reads");
        // The byte that comes back is of the other program: the lock is gone by then.
        let mut echo = [0; 1];
        let stdout = child.stdout.as_mut().expect("it is a pipe");
        std::io::Read::read_exact(stdout, &mut echo).expect("cat answers");
        assert_eq!(record_lock::holder(&segment, 5), Ok(None));
        assert_eq!(record_lock::try_lock(&segment, 5), Ok(true));
        drop(child.stdin.take());
        child.wait().expect("it is our child");
    }
}
