//! Threads that run already when calls are interposed: a child arms them from outside.
//!
//! ```text
//!    caller                                      child (shares the memory)         the other threads
//!    starts the child, lets it trace             seizes and stops them all         stand still
//!    takes the signals, gives each a slot        waits
//!    waits                                       arms each: alternate stack,
//!                                                mask, dispatch; lets it go        go on
//! ```
//!
//! A thread cannot be armed by another one, and a signal that asked it to arm itself would end waits with EINTR, or
//! wait itself where it is blocked. A tracer changes the mask and the registers of a thread wherever it stands, and
//! lets it make single calls from our text. A call that the stop has interrupted is made anew: by the kernel, or, where
//! the kernel would answer EINTR, by us, since no signal was the reason. Its time begins anew then, too.
//!
//! What must hold: between the first stop and the last detach nothing here takes a lock or allocates, since any thread
//! may stand still with it.
//!
//! Called by [`mod@crate::install`], once, ahead of everything that it changes.

use core::ops::ControlFlow;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use uswap_os::fd::{Fd, Timeout};
use uswap_os::futex::{self, Scope};
use uswap_os::maps::{Kind, Maps};
use uswap_os::memory::{Access, Mapping};
use uswap_os::ptrace::{Registers, Stop, Tracee, allow_tracer};
use uswap_os::sys::prctl::{PR_GET_TID_ADDRESS, PR_SET_PDEATHSIG};
use uswap_os::sys::{self, Errno, Result, abi};
use uswap_os::text::{TextBuffer, for_each_line, skip_spaces, take_number};
use uswap_os::thread::{StackArea, reap, spawn_process};
use uswap_os::{PAGE_BYTES, clock, process};

use crate::kernel;
use crate::thread::{self, Slot};
use crate::{cancellation, dispatch, signals};

/// So long all threads may take to stop. One that waits for a disk stops when that has answered.
const PATIENCE_NS: u64 = 10_000_000_000;
/// Between two looks at a thread that cannot be stopped now, or runs a handler on its alternate stack.
const PAUSE_NS: u64 = 500_000;
/// How long another tracer may have a thread: the supervisor of a run looks at one for a moment.
const OTHER_TRACER_NS: u64 = 2_000_000_000;
/// How long a thread that ends may take from where it cannot be traced any more to where it is gone.
const ENDING_NS: u64 = 100_000_000;
const CHILD_STACK_BYTES: usize = 64 * 1024;

/// How far the two are.
static PHASE: AtomicU32 = AtomicU32::new(BEGIN);
/// The child must not begin before it may trace.
const BEGIN: u32 = 0;
const STOP: u32 = 1;
/// All others stand still.
const STOPPED: u32 = 2;
const ARM: u32 = 3;
/// Let them go as they were.
const RELEASE: u32 = 4;
const DONE: u32 = 5;
/// They could not be stopped, and go on as they were.
const FAILED: u32 = 6;

/// The mapping of the table, once there was a try. Only who has begun `install` looks here.
static TABLE: AtomicUsize = AtomicUsize::new(0);
/// Why it failed: an error number.
static ERROR: AtomicU32 = AtomicU32::new(0);
static CHILD_STACK: StackArea = StackArea::new(CHILD_STACK_BYTES);

/// A thread that stands still. In a mapping: the thread itself writes `old_stack` and `word` by calls that it is made
/// to make.
#[repr(C)]
struct Entry {
    /// 0: it has ended.
    thread_id: AtomicU32,
    thread_pointer: AtomicUsize,
    stack_pointer: AtomicUsize,
    slot: AtomicUsize,
    new_stack: [AtomicUsize; 3],
    old_stack: [AtomicUsize; 3],
    word: AtomicUsize,
}

/// The threads. Written by one side at a time: see `PHASE`.
struct Table {
    count: AtomicUsize,
    caller: u32,
    process: u32,
    entries: &'static [Entry],
}

/// The other threads stand still. When this is dropped they go on as they were.
pub(crate) struct Stopped {
    table: &'static Table,
    child: u32,
}

fn set_phase(phase: u32) {
    // Release: what was written before is seen by who sees the phase.
    PHASE.store(phase, Ordering::Release);
    futex::wake(&PHASE, u32::MAX, Scope::Private);
}

/// The first phase that is none of these.
fn wait_beyond(phases: &[u32]) -> u32 {
    loop {
        // Acquire pairs with the Release of `set_phase`.
        let phase = PHASE.load(Ordering::Acquire);
        if !phases.contains(&phase) {
            return phase;
        }
        futex::wait(&PHASE, phase, Timeout::Forever, Scope::Private);
    }
}

/// Stops all threads of this process but the calling one. ESRCH: `/proc` is of another pid namespace, and shows others.
pub(crate) fn stop_others() -> Result<Stopped> {
    if process::ids_in_proc().process != process::process_id() {
        return Err(Errno::ESRCH);
    }
    let start = table_mapping()?;
    // SAFETY:
    // 1. The mapping is large enough, and never unmapped; zeros are a valid `Entry`, which is atomic, and so is what a
    //    try before has left there, whose child has ended.
    // 2. The table lies in its first page, and is written before anybody knows it.
    let table: &'static Table = unsafe {
        let entries = core::slice::from_raw_parts((start + PAGE_BYTES) as *const Entry, thread::THREADS_MAX);
        let table = start as *mut Table;
        table.write(Table {
            count: AtomicUsize::new(0),
            caller: kernel::thread_id(),
            process: process::process_id(),
            entries,
        });
        &*table
    };
    // It needs no pair: the kernel starts the child behind it.
    PHASE.store(BEGIN, Ordering::Release);
    let child = spawn_process(&CHILD_STACK, child, start)?;
    allow_tracer(child);
    set_phase(STOP);
    let stopped = Stopped { table, child };
    match wait_beyond(&[STOP]) {
        STOPPED => Ok(stopped),
        _ => Err(Errno::from_number(ERROR.load(Ordering::Relaxed))),
    }
}

/// Where the table and its entries are: one mapping, however often it is tried.
fn table_mapping() -> Result<usize> {
    let known = TABLE.load(Ordering::Relaxed);
    if known != 0 {
        return Ok(known);
    }
    let bytes = PAGE_BYTES + thread::THREADS_MAX * size_of::<Entry>();
    let start = Mapping::anonymous(bytes, PAGE_BYTES, Access::ReadWrite)?.leak();
    TABLE.store(start, Ordering::Relaxed);
    Ok(start)
}

impl Drop for Stopped {
    fn drop(&mut self) {
        // Acquire pairs with `set_phase`, as in `wait_beyond`.
        if PHASE.load(Ordering::Acquire) == STOPPED {
            set_phase(RELEASE);
        }
        // The child has said its last word, or will.
        CHILD_STACK.join(Timeout::Forever);
        reap(self.child);
        allow_tracer(0);
    }
}

impl Stopped {
    /// Arms them and lets them go. Answers how many. The signals are ours, and `dispatch` knows our text.
    pub(crate) fn arm(self) -> Result<u32> {
        let mut prepared = Ok(());
        for entry in self.table.known() {
            prepared = prepared.and_then(|()| prepare(entry));
        }
        note_stacks(self.table);
        set_phase(if prepared.is_ok() { ARM } else { RELEASE });
        let phase = wait_beyond(&[ARM, RELEASE]);
        let count = self.table.known().count() as u32;
        match (prepared, phase) {
            (Ok(()), DONE) => Ok(count),
            (Err(errno), _) => Err(errno),
            _ => Err(Errno::from_number(ERROR.load(Ordering::Relaxed))),
        }
    }
}

/// A slot for a thread that stands still.
fn prepare(entry: &Entry) -> Result<()> {
    let thread_id = entry.thread_id.load(Ordering::Relaxed);
    let slot = thread::begin_other(thread_id, entry.thread_pointer.load(Ordering::Relaxed))?;
    entry.slot.store(slot as *const Slot as usize, Ordering::Relaxed);
    let stack = [slot.alternate_stack(), 0, thread::ALTERNATE_STACK_BYTES];
    entry.new_stack.iter().zip(stack).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
    Ok(())
}

/// Which stacks are the threads' own: that of the first thread, and those with the thread's local storage at their end,
/// as C libraries lay them out. A thread on any other makes its calls on call stacks.
fn note_stacks(table: &Table) {
    let Ok(maps) = Maps::open() else { return };
    maps.for_each_in(0..usize::MAX, |vma| {
        for entry in table.known() {
            let stack_pointer = entry.stack_pointer.load(Ordering::Relaxed);
            let thread_pointer = entry.thread_pointer.load(Ordering::Relaxed);
            let range = vma.start..vma.end;
            let has_storage = range.contains(&thread_pointer) && thread_pointer > stack_pointer;
            if range.contains(&stack_pointer) && (has_storage || vma.kind == Kind::Stack) {
                let end = if has_storage { thread_pointer } else { vma.end };
                if let Some(slot) = entry.slot() {
                    slot.note_own_stack(vma.start, end);
                }
            }
        }
        ControlFlow::Continue(())
    });
}

impl Table {
    /// Those that stand still.
    fn known(&self) -> impl Iterator<Item = &'static Entry> {
        let count = self.count.load(Ordering::Relaxed);
        self.entries[..count].iter().filter(|entry| entry.thread_id.load(Ordering::Relaxed) != 0)
    }
}

impl Entry {
    fn tracee(&self) -> Tracee {
        Tracee::of_seized(self.thread_id.load(Ordering::Relaxed))
    }

    fn slot(&self) -> Option<&'static Slot> {
        let slot = self.slot.load(Ordering::Relaxed) as *const Slot;
        // SAFETY:
        // 1. Null, or what `prepare` has stored: slots are never unmapped.
        unsafe { slot.as_ref() }
    }

    /// Lets the thread make this call of ours, with all its signals blocked. `registers` are its own, which it keeps.
    fn call(&self, registers: &Registers, number: u32, arguments: [usize; 5]) -> Result<usize> {
        let tracee = self.tracee();
        let place = cancellation::own_call();
        let [rdi, rsi, rdx, r10, r8] = arguments;
        let mut made = Registers { rip: place, rax: number as usize, orig_rax: usize::MAX, ..*registers };
        (made.rdi, made.rsi, made.rdx, made.r10, made.r8) = (rdi, rsi, rdx, r10, r8);
        tracee.set_registers(&made)?;
        while made.rip == place {
            tracee.step()?;
            match tracee.wait_stopped() {
                Stop::Gone => return Err(Errno::ESRCH),
                // SIGSTOP, which cannot be blocked: the step is yet to be made.
                Stop::Trap | Stop::Group | Stop::Signal(_) => made = tracee.registers()?,
            }
        }
        match made.rax as isize {
            error @ -4095..0 => Err(Errno::from_number(-error as u32)),
            answer => Ok(answer as usize),
        }
    }
}

/// The child.
extern "C" fn child(table: usize) {
    // SAFETY:
    // 1. A call that takes numbers: this process ends with the thread that has started it.
    let _always_allowed =
        unsafe { sys::syscall3(abi::__NR_prctl, PR_SET_PDEATHSIG as usize, abi::SIGKILL as usize, 0) };
    // SAFETY:
    // 1. `stop_others` has written the table there, and it stays.
    let table = unsafe { &*(table as *const Table) };
    wait_beyond(&[BEGIN]);
    if let Err(errno) = stop_all(table) {
        release_all(table);
        ERROR.store(errno.number() as u32, Ordering::Relaxed);
        return set_phase(FAILED);
    }
    set_phase(STOPPED);
    match wait_beyond(&[STOPPED]) {
        ARM => match arm_all(table) {
            Ok(()) => set_phase(DONE),
            Err(errno) => {
                ERROR.store(errno.number() as u32, Ordering::Relaxed);
                set_phase(FAILED);
            }
        },
        _ => {
            release_all(table);
            set_phase(DONE);
        }
    }
}

fn stop_all(table: &Table) -> Result<()> {
    let deadline_ns = clock::now_ns() + PATIENCE_NS;
    let mut refused_since_ns = None;
    loop {
        let before = table.count.load(Ordering::Relaxed);
        let seized = seize_new(table, refused_since_ns)?;
        let count = table.count.load(Ordering::Relaxed);
        for entry in &table.entries[before..count] {
            wait_stopped(entry, deadline_ns)?;
        }
        match seized {
            Seized::All if count == before => return Ok(()),
            Seized::All => refused_since_ns = None,
            Seized::NotYetAll => {
                refused_since_ns.get_or_insert_with(clock::now_ns);
                clock::sleep_ns(PAUSE_NS);
            }
        }
    }
}

/// How far the threads are seized.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seized {
    All,
    /// One cannot be seized now, and will be, or will end.
    NotYetAll,
}

/// Seizes the threads that are not yet. `refused_since_ns`: when one could not be seized for the first time.
fn seize_new(table: &Table, refused_since_ns: Option<u64>) -> Result<Seized> {
    let (mut error, mut seized) = (None, Seized::All);
    process::for_each_thread(Some(table.process), |thread_id| {
        let count = table.count.load(Ordering::Relaxed);
        let is_of = |entry: &Entry| entry.thread_id.load(Ordering::Relaxed) == thread_id;
        if thread_id == table.caller || error.is_some() || table.entries[..count].iter().any(is_of) {
            return;
        }
        let Some(entry) = table.entries.get(count) else {
            error = Some(Errno::EAGAIN);
            return;
        };
        match Tracee::seize(thread_id) {
            Ok(_) => {
                entry.thread_id.store(thread_id, Ordering::Relaxed);
                table.count.store(count + 1, Ordering::Relaxed);
            }
            Err(Errno::ESRCH) => (),
            // The first thread of a process may have ended, and is still in its list.
            Err(_) if has_ended(thread_id) => (),
            Err(Errno::EPERM) if is_for_a_moment(thread_id, count, refused_since_ns) => {
                seized = Seized::NotYetAll;
            }
            Err(errno) => error = Some(errno),
        }
    })?;
    error.map_or(Ok(seized), Err)
}

/// Whether it is likely that this thread may be traced soon, or is gone soon. Where a process may trace nobody at all,
/// that is so for the first thread too. A tracer outside of our pid namespace is not shown.
fn is_for_a_moment(thread_id: u32, seized: usize, refused_since_ns: Option<u64>) -> bool {
    let has_tracer = || {
        let is_there = |rest: &[u8]| take_number(rest, 10).is_some_and(|(pid, _)| pid != 0);
        status(thread_id, b"TracerPid:", is_there) == Ok(Some(true))
    };
    let waited_ns = refused_since_ns.map_or(0, |since_ns| clock::now_ns().saturating_sub(since_ns));
    waited_ns < ENDING_NS || waited_ns < OTHER_TRACER_NS && (seized > 0 || has_tracer())
}

fn has_ended(thread_id: u32) -> bool {
    match status(thread_id, b"State:", |rest| matches!(rest.first(), Some(b'Z' | b'X'))) {
        Ok(is_ended) => is_ended == Some(true),
        // What cannot be read for another reason may live.
        Err(errno) => matches!(errno, Errno::ENOENT | Errno::ESRCH),
    }
}

/// Waits until the thread stands still, and not in a handler on its alternate stack, which could not be changed.
fn wait_stopped(entry: &Entry, deadline_ns: u64) -> Result<()> {
    loop {
        let tracee = entry.tracee();
        match tracee.wait(deadline_ns) {
            None => return Err(Errno::EBUSY),
            Some(Stop::Gone) => {
                entry.thread_id.store(0, Ordering::Relaxed);
                return Ok(());
            }
            Some(Stop::Signal(signal)) => {
                tracee.go_on(signal)?;
                continue;
            }
            Some(Stop::Trap | Stop::Group) => (),
        }
        let registers = tracee.registers()?;
        entry.thread_pointer.store(registers.fs_base, Ordering::Relaxed);
        entry.stack_pointer.store(registers.rsp, Ordering::Relaxed);
        let mask = tracee.signal_mask()?;
        tracee.set_signal_mask(u64::MAX)?;
        let asked =
            entry.call(&registers, abi::__NR_sigaltstack, [0, entry.old_stack.as_ptr() as usize, 0, 0, 0]);
        tracee.set_registers(&registers)?;
        tracee.set_signal_mask(mask)?;
        asked?;
        let [_, flags, _] = &entry.old_stack;
        if flags.load(Ordering::Relaxed) as u32 & abi::SS_ONSTACK == 0 {
            return Ok(());
        }
        if clock::now_ns() >= deadline_ns {
            return Err(Errno::EBUSY);
        }
        tracee.go_on(0)?;
        clock::sleep_ns(PAUSE_NS);
        tracee.interrupt()?;
    }
}

/// Lets all go as they were.
fn release_all(table: &Table) {
    for entry in table.known() {
        let tracee = entry.tracee();
        let go = || {
            let mut registers = tracee.registers()?;
            if is_to_be_made_anew(entry, &registers, tracee.signal_mask()?) {
                make_anew(&mut registers);
            }
            tracee.set_registers(&registers)
        };
        let _it_may_have_been_killed: Result<()> = go();
        let _as_above = tracee.detach();
    }
}

fn arm_all(table: &Table) -> Result<()> {
    let mut all = Ok(());
    for entry in table.known() {
        let armed = arm(entry);
        // A thread that was killed needs nothing, and the process neither.
        if armed != Err(Errno::ESRCH) {
            all = all.and(armed);
        }
    }
    // Only now: who goes on takes processor time from the others.
    for entry in table.known() {
        let _it_may_have_been_killed = entry.tracee().detach();
    }
    all
}

/// Arms a thread that stands still.
fn arm(entry: &Entry) -> Result<()> {
    let (tracee, slot) = (entry.tracee(), entry.slot().ok_or(Errno::ESRCH)?);
    let mut registers = tracee.registers()?;
    let mask = tracee.signal_mask()?;
    let is_anew = is_to_be_made_anew(entry, &registers, mask);
    tracee.set_signal_mask(u64::MAX)?;
    let stacks = [entry.new_stack.as_ptr() as usize, entry.old_stack.as_ptr() as usize];
    entry.call(&registers, abi::__NR_sigaltstack, [stacks[0], stacks[1], 0, 0, 0])?;
    for (kept, word) in slot.program_stack.iter().zip([0, 2, 1]) {
        kept.store(entry.old_stack[word].load(Ordering::Relaxed), Ordering::Relaxed);
    }
    let word = [PR_GET_TID_ADDRESS as usize, entry.word.as_ptr() as usize, 0, 0, 0];
    if entry.call(&registers, abi::__NR_prctl, word).is_ok() {
        slot.note_clear_child_tid(entry.word.load(Ordering::Relaxed));
    }
    slot.note_robust_list(process::robust_list(slot.thread_id()).unwrap_or(0));
    slot.note_rseq(tracee.rseq_area());
    entry.call(&registers, abi::__NR_prctl, dispatch::arming())?;
    if is_anew {
        make_anew(&mut registers);
    }
    tracee.set_registers(&registers)?;
    slot.shown_blocked.store((mask & signals::ours()) as usize, Ordering::Relaxed);
    tracee.set_signal_mask(mask & !signals::ours())
}

/// Whether the thread was in a call that the stop has ended, and that the kernel would not make anew by itself as it
/// was. If there is a signal for it that has a handler, that is what ends the call. One that is ignored ends none: a
/// child that ends while its parent arms leaves such a one, since all are blocked there, and what is blocked waits.
fn is_to_be_made_anew(entry: &Entry, registers: &Registers, mask: u64) -> bool {
    const ERESTART_RESTARTBLOCK: isize = -516;
    const EINTR: isize = -4;
    let is_in_call = registers.orig_rax as isize >= 0;
    let answer = registers.rax as isize;
    is_in_call
        && matches!(answer, EINTR | ERESTART_RESTARTBLOCK)
        && handlers_wait(entry.thread_id.load(Ordering::Relaxed)) & !mask == 0
}

fn make_anew(registers: &mut Registers) {
    if registers.orig_rax == abi::__NR_close as usize {
        // What is closed is closed, and its number may be another's by now.
        registers.rax = 0;
        return;
    }
    registers.rip -= 2;
    registers.rax = registers.orig_rax;
    registers.orig_rax = usize::MAX;
}

/// Signals with handlers that wait for a thread or its process.
fn handlers_wait(thread_id: u32) -> u64 {
    let set = |name| {
        status(thread_id, name, |rest| take_number(rest, 16).map_or(0, |set| set.0))
            .ok()
            .flatten()
            .unwrap_or(0)
    };
    (set(b"SigPnd:") | set(b"ShdPnd:")) & set(b"SigCgt:")
}

/// What `read` makes of a line of `/proc/TID/status`, without its name. None: there is no such line. ENOENT, ESRCH: nor
/// such a thread.
fn status<T>(thread_id: u32, name: &[u8], read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
    let path = TextBuffer::<32>::format(format_args!("/proc/{thread_id}/status"));
    let file = Fd::open(path.as_c_str(), abi::O_RDONLY | abi::O_CLOEXEC, 0)?;
    let (mut read, mut found) = (Some(read), None);
    // The line may stand behind a long list of groups.
    for_each_line::<64>(&file, |line| {
        if let Some(rest) = line.strip_prefix(name) {
            found = read.take().map(|read| read(skip_spaces(rest))).or(found.take());
        }
    })?;
    Ok(found)
}
