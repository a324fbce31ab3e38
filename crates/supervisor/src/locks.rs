//! The locks in the file of the segment: who holds the lock of a record, and the supervisor's own.
//!
//! A process holds the lock of its record, and the kernel takes it away when the process ends or executes another
//! program. By the lock of the supervisor the processes know that it lives. What must hold: no thread of the supervisor
//! waits for a lock of the swap table whose holder is dead ([`wait_for_lock`]).

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use uswap_core::clusters::lock::Holder;
use uswap_core::mm::{MmRecord, MmState, MmTable, SUPERVISOR_LOCK_BYTE, lock_byte};
use uswap_os::{Fd, record_lock};
use uswap_units::MmId;

use crate::error::StartError;

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
    if u32::from(holder.number()) >= mms.count() || !tries.is_multiple_of(SPINS) {
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
        // Acquire pairs with `hold_supervisor_lock`.
        let file = ManuallyDrop::new(Fd::from_raw(self.0.load(Ordering::Acquire)));
        LockHolder::of(&file, record) == LockHolder::Nobody
    }
}

/// Takes the lock by which the processes of the run know that their supervisor lives.
pub fn hold_supervisor_lock(segment: &Fd) -> Result<(), StartError> {
    if record_lock::try_lock(segment, SUPERVISOR_LOCK_BYTE) != Ok(true) {
        return Err(StartError::SupervisorLock);
    }
    // Release pairs with `is_unlocked`: the file is open.
    SEGMENT.0.store(segment.raw(), Ordering::Release);
    Ok(())
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
        // perl-base is on every Debian.
        let script = "use Fcntl;\n\
             open(my $file, '+<', \"/proc/$ARGV[0]/fd/$ARGV[1]\") or die;\n\
             my $lock = pack('s s x4 q q i x4', F_WRLCK, 0, 5, 1, 0);\n\
             fcntl($file, F_SETLK, $lock) or die;\n\
             $| = 1;\n\
             print(qq(locked\\n));\n\
             sysread(STDIN, my $byte, 1);\n\
             exec('cat');\n";
        let mut child = Command::new("perl")
            .args(["-e", script, &std::process::id().to_string(), &segment.raw().to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("perl is there");
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
