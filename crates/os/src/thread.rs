//! Threads that no libc knows: raw clones with stacks and thread-local storage of their own.
//!
//! For the background evictor. What must hold inside such a thread: no libc, no thread-local storage,
//! no panic; all signals are blocked, 32 and 33 of glibc too, so neither the program's handlers nor setuid's broadcast
//! ever run there (glibc does not know the thread, so it does not wait for it either). The thread pointer points into a
//! pad of zeros: code that reads a thread-local by accident reads zero.
//!
//! ```text
//! low                                                                                 high
//! | guard page | stack ............ grows down <- | 16 KiB of zeros | fs -> 4 KiB pad |
//! ```
//!
//! Called by `host`, for the thread that evicts, by `interpose`, the supervisor, `cli` and `bench`, and by
//! [`crate::detached`], [`crate::file`], [`crate::message`], [`crate::probe`] and [`crate::process`], which block
//! signals.

use core::arch::naked_asm;
use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::PAGE_BYTES;
use crate::fd::Timeout;
use crate::futex::{self, Scope};
use crate::memory::{self, Access, Mapping};
use crate::sys::{self, Errno, Result, abi};

/// Bytes of zeros below the thread pointer, where the compiler expects thread-locals.
const TLS_BYTES_BELOW: usize = 16 * 1024;
/// Bytes at and above the thread pointer: the self pointers at 0 and 16, then zeros.
const TLS_BYTES_ABOVE: usize = PAGE_BYTES;
/// The word of an area that a thread is about to get.
const STARTING: u32 = u32::MAX;

/// The memory of one thread at a time. Meant to be a `static`; mapped at its first [`spawn`] and never unmapped.
#[derive(Debug)]
pub struct StackArea {
    stack_bytes: usize,
    start: AtomicUsize,
    /// Thread id while a thread runs on it; the kernel clears it when the thread has left the stack.
    thread_id: AtomicU32,
}

/// The descriptor table of a new thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Files {
    /// Its own, empty: all inherited descriptors are closed in it before the entry runs. The program cannot close what
    /// the thread opens, and the thread keeps nothing of the program open.
    Own,
    /// That of the thread that spawns it.
    Shared,
}

/// What the new thread finds at the top of its stack.
#[repr(C)]
struct Start {
    entry: extern "C" fn(usize),
    argument: usize,
    own_files: usize,
}

impl StackArea {
    /// An area with `stack_bytes` of stack (rounded up to pages, at least 16 KiB), not mapped yet.
    pub const fn new(stack_bytes: usize) -> StackArea {
        let least = if stack_bytes < 16 * 1024 { 16 * 1024 } else { stack_bytes };
        let stack_bytes = least.next_multiple_of(PAGE_BYTES);
        StackArea { stack_bytes, start: AtomicUsize::new(0), thread_id: AtomicU32::new(0) }
    }

    /// Maps the area if it is not: for whoever wants no mapping call later.
    pub fn prepare(&self) -> Result<()> {
        self.mapped().map(drop)
    }

    /// First byte and length in bytes of the mapping, guard included; `None` before it is mapped. Never register this
    /// with userfaultfd.
    pub fn range(&self) -> Option<(usize, usize)> {
        // Acquire pairs with the release in `mapped`.
        match self.start.load(Ordering::Acquire) {
            0 => None,
            start => Some((start, self.bytes())),
        }
    }

    /// Id of the thread that runs on it.
    pub fn thread_id(&self) -> Option<u32> {
        // Acquire pairs with the kernel's clearing of the word, as in `join`.
        match self.thread_id.load(Ordering::Acquire) {
            0 | STARTING => None,
            thread_id => Some(thread_id),
        }
    }

    /// Waits until the thread has left the area, at most `timeout` a look; answers whether it has.
    pub fn join(&self, timeout: Timeout) -> bool {
        // Acquire pairs with the kernel's clearing of the word: what the thread did is seen.
        loop {
            let word = self.thread_id.load(Ordering::Acquire);
            if word == 0 {
                return true;
            }
            // The kernel wakes this word without the private flag.
            if futex::wait(&self.thread_id, word, timeout, Scope::Shared) == futex::WaitOutcome::TimedOut {
                return self.thread_id.load(Ordering::Acquire) == 0;
            }
        }
    }

    /// Says that no thread runs on the area.
    ///
    /// # Safety
    /// That must be so: in a forked child, whose copy of the word names a thread of the parent.
    pub unsafe fn reset_after_fork(&self) {
        // Release pairs with the Acquire of the next `spawn`, as the kernel's clearing would.
        self.thread_id.store(0, Ordering::Release);
    }

    const fn bytes(&self) -> usize {
        PAGE_BYTES + self.stack_bytes + TLS_BYTES_BELOW + TLS_BYTES_ABOVE
    }

    fn mapped(&self) -> Result<usize> {
        // Acquire pairs with the exchange below: another thread has made the mapping ready.
        let start = self.start.load(Ordering::Acquire);
        if start != 0 {
            return Ok(start);
        }
        let mapping = Mapping::anonymous(self.bytes(), PAGE_BYTES, Access::ReadWrite)?;
        // SAFETY:
        // 1. The mapping is new and nobody has a reference into it.
        unsafe { memory::protect(mapping.start(), PAGE_BYTES, Access::None) }?;
        // Kernels without the advice only make larger dumps or huge pages of stacks.
        let _ = memory::no_dump(mapping.start(), mapping.bytes());
        let _ = memory::no_huge_pages(mapping.start(), mapping.bytes());
        // Release pairs with the acquire above and in `range`.
        match self.start.compare_exchange(0, mapping.start(), Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => Ok(mapping.leak()),
            Err(other) => Ok(other),
        }
    }
}

/// Starts `entry(argument)` on `area`; answers its thread id. The thread ends when `entry` returns.
///
/// EBUSY: a thread runs on the area. EAGAIN: the limit of threads.
pub fn spawn(
    area: &'static StackArea,
    entry: extern "C" fn(usize),
    argument: usize,
    files: Files,
) -> Result<u32> {
    let of_process =
        abi::CLONE_VM | abi::CLONE_FS | abi::CLONE_SIGHAND | abi::CLONE_THREAD | abi::CLONE_SYSVSEM;
    let shared = if files == Files::Shared { abi::CLONE_FILES } else { 0 };
    spawn_with(area, entry, argument, of_process | shared, matches!(files, Files::Own))
}

/// As [`spawn`], but what runs on the area is a process of its own, that shares the memory, the descriptors and the
/// directory of this one. No signal says that it has ended: [`StackArea::join`], then [`reap`].
pub fn spawn_process(area: &'static StackArea, entry: extern "C" fn(usize), argument: usize) -> Result<u32> {
    spawn_as(area, entry, argument, abi::CLONE_FS | abi::CLONE_FILES | abi::CLONE_UNTRACED)
}

/// A process that shares the memory of this one, and beside that what the flags of `clone` say.
pub(crate) fn spawn_as(
    area: &'static StackArea,
    entry: extern "C" fn(usize),
    argument: usize,
    flags: u32,
) -> Result<u32> {
    spawn_with(area, entry, argument, abi::CLONE_VM | flags, false)
}

/// Takes the status of a process of [`spawn_process`] that has ended, so that nothing of it is left.
pub fn reap(process_id: u32) {
    let flags = abi::__WCLONE as usize;
    // SAFETY:
    // 1. The kernel writes nothing where it is given no addresses.
    let _another_may_have_waited =
        unsafe { sys::syscall4(abi::__NR_wait4, process_id as usize, 0, flags, 0) };
}

fn spawn_with(
    area: &'static StackArea,
    entry: extern "C" fn(usize),
    argument: usize,
    flags: u32,
    has_own_files: bool,
) -> Result<u32> {
    let start = area.mapped()?;
    // Acquire pairs with the kernel's clearing of the word: the thread before has left the stack.
    area.thread_id
        .compare_exchange(0, STARTING, Ordering::AcqRel, Ordering::Relaxed)
        .map_err(|_| Errno::EBUSY)?;
    let thread_pointer = start + area.bytes() - TLS_BYTES_ABOVE;
    let stack_end = thread_pointer - TLS_BYTES_BELOW;
    // 16-byte aligned, so that the stack is as the calling convention wants it at the call in `clone_thread`.
    let top = (stack_end - size_of::<Start>()) & !15;
    let own_files = usize::from(has_own_files);
    // SAFETY:
    // 1. All three addresses lie inside the area's mapping, which is writable there and never unmapped, and are aligned
    //    to 8.
    // 2. We hold the area by its word: no thread uses it, and no reference into it exists.
    unsafe {
        (thread_pointer as *mut usize).write(thread_pointer);
        (thread_pointer as *mut usize).add(2).write(thread_pointer);
        (top as *mut Start).write(Start { entry, argument, own_files });
    }
    let flags = flags | abi::CLONE_SETTLS | abi::CLONE_PARENT_SETTID | abi::CLONE_CHILD_CLEARTID;
    let blocked = BlockedSignals::block_all()?;
    let word = area.thread_id.as_ptr() as usize;
    // SAFETY:
    // 1. `top` is the top of an unused stack with a `Start` on it, as `clone_thread` demands.
    // 2. The word lives for ever (`&'static`), which is how long the kernel may write it.
    // 3. `entry` is safe code that may run on any thread; the new thread shares the address space as any thread does.
    let answer = unsafe { clone_thread(flags as usize, top, word, word, thread_pointer) };
    drop(blocked);
    if (-4095..0).contains(&answer) {
        area.thread_id.store(0, Ordering::Release);
        return Err(Errno::from_number((-answer) as u32));
    }
    Ok(answer as u32)
}

/// Control of the floating point unit as a process begins with it: to the nearest, without signals. A codec counts on
/// that.
const USUAL_FLOATS: u32 = 0x1F80;

/// `clone(flags, stack, parent_tid, child_tid, tls)`, whose child calls `thread_main(stack)` and never returns. The
/// child inherits the registers of a thread of the program, so that it sets what may have been changed there:
/// direction, and control of the floating point unit.
///
/// # Safety
/// `stack` is 16-byte aligned with a `Start` on it and free memory below.
#[unsafe(naked)]
unsafe extern "C" fn clone_thread(
    flags: usize,
    stack: usize,
    parent: usize,
    child: usize,
    tls: usize,
) -> isize {
    naked_asm!(
        "mov r10, rcx",
        "mov eax, {clone}",
        "syscall",
        "test rax, rax",
        "jz 2f",
        "ret",
        "2:",
        "cld",
        "mov dword ptr [rsp - 8], {floats}",
        "ldmxcsr [rsp - 8]",
        "xor ebp, ebp",
        "mov rdi, rsp",
        "call {main}",
        "ud2",
        clone = const abi::__NR_clone,
        floats = const USUAL_FLOATS,
        main = sym thread_main,
    )
}

/// The first Rust code of a new thread.
extern "C" fn thread_main(start: *const Start) -> ! {
    // SAFETY:
    // 1. `spawn` wrote a `Start` there before the thread existed, and nobody writes it afterwards.
    let start = unsafe { start.read() };
    if start.own_files != 0 {
        close_all_descriptors();
    }
    allow_time_stamps();
    (start.entry)(start.argument);
    exit_thread()
}

/// Lets the calling thread read the processor's time stamp, which the thread that started it may have been forbidden:
/// the vDSO reads it.
fn allow_time_stamps() {
    use crate::sys::prctl::{PR_SET_TSC, PR_TSC_ENABLE};
    let _ = sys::plain(abi::__NR_prctl, PR_SET_TSC as usize, PR_TSC_ENABLE as usize, 0);
}

/// Closes every descriptor of the calling thread's table.
fn close_all_descriptors() {
    let unlimited = u32::MAX as usize;
    if sys::plain(abi::__NR_close_range, 0, unlimited, 0).is_err() {
        // Before Linux 5.9, or forbidden: one by one up to a usual limit.
        for number in 0..65_536 {
            let _ = sys::plain(abi::__NR_close, number, 0, 0);
        }
    }
}

/// Ends the calling thread, not the process.
fn exit_thread() -> ! {
    loop {
        let _ = sys::plain(abi::__NR_exit, 0, 0, 0);
    }
}

/// Signals of the calling thread blocked until this is dropped.
#[derive(Debug)]
pub struct BlockedSignals {
    /// Those that were not blocked before.
    added: u64,
}

impl BlockedSignals {
    /// Blocks all that can be blocked, 32 and 33 included.
    pub fn block_all() -> Result<BlockedSignals> {
        BlockedSignals::block_all_but(0)
    }

    /// Blocks all but those in a set, of which the caller may change the mask meanwhile. Bit `n - 1` is signal `n`.
    pub fn block_all_but(set: u64) -> Result<BlockedSignals> {
        signal_mask(abi::SIG_BLOCK, !set).map(|before| BlockedSignals { added: !set & !before })
    }
}

impl Drop for BlockedSignals {
    fn drop(&mut self) {
        let _ = signal_mask(abi::SIG_UNBLOCK, self.added);
    }
}

/// Changes the calling thread's mask by a set of signals; answers the one before.
pub(crate) fn signal_mask(how: u32, set: u64) -> Result<u64> {
    let mut before = 0u64;
    // SAFETY:
    // 1. Both pointers are to live words of 8 bytes, the size that is given.
    unsafe {
        sys::syscall4(
            abi::__NR_rt_sigprocmask,
            how as usize,
            &raw const set as usize,
            &raw mut before as usize,
            8,
        )
    }?;
    Ok(before)
}

/// Signals that wait for the calling thread or its process; bit `n - 1` is signal `n`.
pub fn pending_signals() -> u64 {
    let mut pending = 0u64;
    // SAFETY:
    // 1. The kernel writes one word of 8 bytes, the size that is given.
    let _none_if_forbidden =
        unsafe { sys::syscall3(abi::__NR_rt_sigpending, &raw mut pending as usize, 8, 0) };
    pending
}

/// Takes a signal that waits for the calling thread and is blocked, if there is one. It never arrives.
pub fn take_signal(signal: u32) {
    let set = 1u64 << (signal - 1);
    let no_time = [0u64; 2];
    // SAFETY:
    // 1. The kernel reads a set of 8 bytes, the size that is given, and a time of two words; the pointer between them
    //    is null.
    let _there_may_be_none = unsafe {
        sys::syscall4(abi::__NR_rt_sigtimedwait, &raw const set as usize, 0, no_time.as_ptr() as usize, 8)
    };
}

/// Names the calling thread, at most 15 bytes.
pub fn set_name(name: &CStr) {
    // SAFETY:
    // 1. The name ends with a zero byte; the kernel reads at most 16 bytes of it.
    let _ = unsafe {
        sys::syscall3(abi::__NR_prctl, sys::prctl::PR_SET_NAME as usize, name.as_ptr() as usize, 0)
    };
}

/// Id of the calling thread.
pub fn thread_id() -> u32 {
    sys::plain(abi::__NR_gettid, 0, 0, 0).unwrap_or(0) as u32
}

/// Sends a signal to one thread of a process.
pub fn send_signal(process_id: u32, thread_id: u32, signal: u32) -> Result<()> {
    sys::plain(abi::__NR_tgkill, process_id as usize, thread_id as usize, signal as usize).map(drop)
}

/// Lets another thread run.
pub fn yield_now() {
    let _ = sys::plain(abi::__NR_sched_yield, 0, 0, 0);
}

/// CPUs 0..1024 as bits.
pub type CpuSet = [u64; 16];

/// The CPUs that a thread may run on; 0 is the calling thread.
pub fn affinity(thread_id: u32) -> Result<CpuSet> {
    let mut set: CpuSet = [0; 16];
    // SAFETY:
    // 1. The kernel writes at most the size given.
    unsafe {
        sys::syscall3(
            abi::__NR_sched_getaffinity,
            thread_id as usize,
            size_of::<CpuSet>(),
            set.as_mut_ptr() as usize,
        )
    }?;
    Ok(set)
}

/// How many CPUs the calling thread may run on; 1 when the kernel does not say.
pub fn cpu_count() -> usize {
    affinity(0).map_or(1, |set| set.iter().map(|word| word.count_ones() as usize).sum::<usize>().max(1))
}

/// Sets the nice value (-20 first, 19 last) of a thread; 0 is the calling thread.
pub fn set_nice(thread_id: u32, nice: i32) -> Result<()> {
    sys::plain(abi::__NR_setpriority, abi::PRIO_PROCESS as usize, thread_id as usize, nice as isize as usize)
        .map(drop)
}
