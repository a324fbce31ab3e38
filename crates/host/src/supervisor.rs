//! The supervisor of the run as a process of the run reaches it, and what this process holds so that the supervisor
//! knows it.
//!
//! Descriptors come through `/proc/PID/fd`. Where that is no way (another user, a pid or mount namespace of its own),
//! the supervisor sends them over a socket with an abstract name. What must hold: a number is never taken for a process
//! that it may not be. The supervisor's number is followed only to a segment that is this run's; and this process is
//! known by the lock of its record ([`uswap_os::record_lock`]), which is held in the descriptor table of the thread
//! that evicts.
//!
//! Called by [`crate::invitation`], [`crate::joining`], [`crate::attach`], [`crate::fork`] and [`crate::leaving`],
//! which enter the run or leave it, by [`crate::swap_files`] and [`crate::messages`], which open one of its files, by
//! [`crate::background`], which looks whether it lives, and by [`crate::memory`], which raises signals.
//!
//! Memory order: `HELD` and `PIPE` are numbers of descriptors, stored with Release when these are open (`take_record`,
//! `claim_record`, `keep_pipe`). That pairs with the Acquire of whoever uses them (`lives`, `was_asked_for`) or takes
//! them away (`give_up_record`, `say_that_it_left`). `forget_open` runs in the only thread of a child, or where no
//! thread evicts.

use crate::descriptors;
use crate::refused::Refused;
use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};
use uswap_core::budget::Signal;
use uswap_core::mm::{MmRecord, RecordHolder, SUPERVISOR_LOCK_BYTE, lock_byte};
use uswap_core::segment::Segment;
use uswap_identity::LEFT;
use uswap_os::fd::Fd;
use uswap_os::futex::{self, Scope};
use uswap_os::message::write_without_signal;
use uswap_os::sys::{Result, abi};
use uswap_os::text::{TextBuffer, take_number};
use uswap_os::{clock, process, record_lock, socket};
use uswap_units::{MmId, ProcessNumber};

static PID: AtomicU32 = AtomicU32::new(0);
static SEGMENT_NUMBER: AtomicI32 = AtomicI32::new(-1);
static SEGMENT_INODE: AtomicU64 = AtomicU64::new(0);
/// Part of the socket's name; it is secret, so that strangers cannot even ask.
static TOKEN: AtomicU64 = AtomicU64::new(0);
/// The segment's file in the descriptor table of kswapd, by which the locks are asked for; -1: none.
static HELD: AtomicI32 = AtomicI32::new(-1);

/// The pipe to a supervisor that this process has asked for; -1: none.
static PIPE: AtomicI32 = AtomicI32::new(-1);

/// Longest wait for the supervisor, which may be stopped.
const PATIENCE_NS: u64 = 2_000_000_000;

/// Every kswapd looks once a second at least.
const LOOKS_OF_OTHERS: u32 = 30;
const LOOK_NS: u64 = 100_000_000;

/// What an invitation says, beside what the supervisor is known by.
pub struct Accepted<'a> {
    /// As [`RunOptions`](uswap_identity::RunOptions) has them.
    pub options: u64,
    /// What is known of [`GROWTH_FUNCTIONS`](uswap_identity::GROWTH_FUNCTIONS), in hexadecimal digits; or nothing.
    pub known: &'a [u8],
    /// Path of the agent.
    pub agent: &'a [u8],
}

/// Takes in the invitation, `pid:segment:inode:token:options:known:agent`.
pub fn accept(invitation: &[u8]) -> Option<Accepted<'_>> {
    let (pid, rest) = take_number(invitation, 10)?;
    let (number, rest) = take_number(rest.strip_prefix(b":")?, 10)?;
    let (inode, rest) = take_number(rest.strip_prefix(b":")?, 10)?;
    let (token, rest) = take_number(rest.strip_prefix(b":")?, 16)?;
    let (options, rest) = take_number(rest.strip_prefix(b":")?, 10)?;
    let rest = rest.strip_prefix(b":")?;
    let (known, agent) = rest.split_at(rest.iter().position(|&byte| byte == b':')?);
    let agent = &agent[1..];
    PID.store(pid as u32, Ordering::Relaxed);
    SEGMENT_NUMBER.store(number as i32, Ordering::Relaxed);
    SEGMENT_INODE.store(inode, Ordering::Relaxed);
    TOKEN.store(token, Ordering::Relaxed);
    Some(Accepted { options, known, agent })
}

/// Its number, for messages: in the pid namespace of the user.
pub fn pid() -> u32 {
    PID.load(Ordering::Relaxed)
}

/// The file of the segment.
pub fn open_segment() -> Result<Fd> {
    open(SEGMENT_NUMBER.load(Ordering::Relaxed), abi::O_RDWR)
}

/// Opens what the supervisor has open under a number. The flags matter where it is opened anew.
pub fn open(number: i32, flags: u32) -> Result<Fd> {
    if is_visible()
        && let Ok(opened) = Fd::open(path(number).as_c_str(), flags | abi::O_CLOEXEC | abi::O_NOCTTY, 0)
    {
        return Ok(opened);
    }
    receive(number)
}

fn path(number: i32) -> TextBuffer<64> {
    process::descriptor_path(PID.load(Ordering::Relaxed), number)
}

/// Whether `/proc` shows the supervisor under its number. In another pid namespace that is nobody, or somebody else.
fn is_visible() -> bool {
    let path = path(SEGMENT_NUMBER.load(Ordering::Relaxed));
    // A descriptor of this kind cannot be read from, and opening it has no effect on what is there.
    let status = Fd::open(path.as_c_str(), abi::O_PATH | abi::O_CLOEXEC, 0).and_then(|file| file.status());
    status.is_ok_and(|status| status.inode == SEGMENT_INODE.load(Ordering::Relaxed))
}

fn receive(number: i32) -> Result<Fd> {
    let token = TOKEN.load(Ordering::Relaxed);
    let name: TextBuffer<40> = TextBuffer::format(format_args!("uswap-run-{token:016x}"));
    let socket = socket::connect(name.as_bytes(), PATIENCE_NS)?;
    socket::send(&socket, &number.to_le_bytes())?;
    socket::receive_descriptor(&socket)
}

/// In the descriptor table that shall hold the lock, for a process that has no record yet: takes one, and holds its
/// lock.
pub(crate) fn take_record(segment: &Segment<'static>) -> core::result::Result<MmId, Refused> {
    const NO_RECORD: Refused =
        Refused::NeedsNow("the run has no room for one more process: start it in a run of its own");
    // A number that is kept leaves the list of ours when it is closed.
    let held = segment_to_hold().and_then(descriptors::keep);
    let file = ManuallyDrop::new(held.map_err(|errno| Refused::of_open(errno, Refused::NoRun))?);
    let try_lock = |mm: MmId| record_lock::try_lock(&file, lock_byte(mm)).unwrap_or(false);
    let unlock = |mm: MmId| {
        let _was_held = record_lock::unlock(&file, lock_byte(mm));
    };
    let with_table = |record: MmRecord<'_>| {
        let root = segment.tables().allocate(record.id());
        if root.is_err() {
            record.free();
        }
        root.ok()
    };
    let taken = segment.mms().take_with_lock(RecordHolder::Process, try_lock, unlock);
    let Some((record, root)) = taken.and_then(|record| Some((record, with_table(record)?))) else {
        descriptors::close(file.raw());
        return Err(NO_RECORD);
    };
    record.set_root(root);
    HELD.store(file.raw(), Ordering::Release);
    Ok(record.id())
}

/// The same in a forked child: takes over the record that its parent made for it, known by its number.
pub fn claim_record(
    segment: &Segment<'static>,
    mm: MmId,
    number: ProcessNumber,
) -> core::result::Result<(), &'static str> {
    let Ok(file) = segment_to_hold().and_then(descriptors::keep) else {
        // Without a supervisor nobody asks for the lock, and nobody can hand the segment over.
        return if is_abandoned(segment) && segment.mms().record(mm).claim_forked(number) {
            Ok(())
        } else {
            Err("the segment of the run cannot be opened")
        };
    };
    record_lock::lock(&file, lock_byte(mm)).map_err(|_| "the lock of its record cannot be had")?;
    if !segment.mms().record(mm).claim_forked(number) {
        return Err("its parent is gone, and its record with it");
    }
    HELD.store(file.into_raw(), Ordering::Release);
    Ok(())
}

/// Numbers below are those of standard streams.
fn segment_to_hold() -> Result<Fd> {
    let file = open_segment()?;
    if file.raw() > 2 { Ok(file) } else { file.duplicate(3) }
}

/// The process leaves the run, and its descriptors stay open: the supervisor may clean up.
pub fn give_up_record(mm: MmId) {
    let held = HELD.swap(-1, Ordering::AcqRel);
    if held >= 0 {
        let file = ManuallyDrop::new(Fd::from_raw(held));
        let _was_held = record_lock::unlock(&file, lock_byte(mm));
    }
}

/// In a forked child, where the number is of the parent's table, and in a process that has given up its record and
/// closes what it had open for it.
pub fn forget_open() {
    HELD.store(-1, Ordering::Release);
    PIPE.store(-1, Ordering::Release);
}

/// Keeps the pipe by which [`say_that_it_left`] reaches the supervisor.
pub(crate) fn keep_pipe(pipe: Fd) {
    PIPE.store(pipe.into_raw(), Ordering::Release);
}

/// Whether this process has asked for the run itself, and is in it.
pub(crate) fn was_asked_for() -> bool {
    PIPE.load(Ordering::Acquire) >= 0
}

/// The process that has asked for the run is in it no longer.
pub(crate) fn say_that_it_left() {
    let pipe = PIPE.swap(-1, Ordering::AcqRel);
    if pipe >= 0 {
        let _it_may_be_gone = write_without_signal(pipe, LEFT.as_bytes());
        descriptors::close(pipe);
    }
}

/// Whether the supervisor lives. On engine threads, which have the descriptor table of kswapd.
pub fn lives(segment: &Segment<'_>) -> bool {
    let held = HELD.load(Ordering::Acquire);
    if held < 0 || segment.budget().is_abandoned() {
        return !segment.budget().is_abandoned();
    }
    // It stays open.
    let file = ManuallyDrop::new(Fd::from_raw(held));
    let lives = !matches!(record_lock::holder(&file, SUPERVISOR_LOCK_BYTE), Ok(None));
    if !lives {
        segment.budget().set_abandoned();
    }
    lives
}

/// Raises a signal, and wakes all who wait for it in any process of the run.
pub(crate) fn raise(segment: &Segment<'static>, signal: Signal) {
    segment.budget().raise(signal);
    futex::wake_low(segment.budget().signal_word(signal), u32::MAX, Scope::Shared);
}

/// Whether the supervisor is gone. Whoever has no descriptor to ask the kernel waits until a kswapd has, of its parent
/// or of another process.
fn is_abandoned(segment: &Segment<'static>) -> bool {
    for _ in 0..LOOKS_OF_OTHERS {
        if segment.budget().is_abandoned() {
            return true;
        }
        raise(segment, Signal::Pressure);
        clock::sleep_ns(LOOK_NS);
    }
    false
}
