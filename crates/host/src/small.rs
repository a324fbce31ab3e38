//! A process that is small: only calls by which it would grow are seen.
//!
//! Most processes of a run are small and short, and should pay nothing: each of their calls would go through the
//! boundary in vain. So a process begins with a few functions of its C library patched. It is armed, with all that
//! [`uswap_interpose::install`] does, before the first call by which it grows to the size that takes a place in the
//! run, gets a second thread, or does what must be seen from its beginning. Where these functions are not found in one
//! object (musl, sanitizers) it is armed at its start.
//!
//! What must hold: while it is small nothing is ours but the patches: no signal, no alternate stack, no slot, no
//! descriptor. A fork copies that, and is not seen. A child that shares the memory (`vfork`) may not arm it: the parent
//! would be marked as armed, and would not be ([`crate::owner`]). Once a thread may be armed its calls wait for the
//! one that arms, and that waits for those that are under way.
//!
//! Not seen: a raw system call of a library. What it may have done that matters is looked for when the process is
//! armed, as for one that asks for its budget while it runs ([`crate::attach`]). A process that has grown by nothing
//! but such calls is found by the supervisor, which lets it arm itself where it stands ([`grown_unseen`]).
//!
//! Called by `agent`, which starts a process and has the entry point by which it is armed from outside, and by
//! [`crate::calls`].

use crate::address_space::program_break;
use crate::attach::refuse_what_is_out_of_sight;
use crate::credentials::credentials;
use crate::descriptors;
use crate::environment;
use crate::joining::{FAULTS, options, signal_bit};
use crate::messages;
use crate::own_stack::{on_own_stack, on_stack};
use crate::owner::{self, Owner};
use crate::process::{AfterSetuid, Phase, Process, Terms};
use crate::refused::{NO_DESCRIPTORS, Refused};
use crate::syscalls::{MAP_GROWSDOWN, MAP_LOCKED, MAP_STACK, growth};
use crate::try_later::TryLater;
use core::arch::naked_asm;
use core::ops::Range;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};
use uswap_interpose::{
    Call, Context, KnownFunction, MAIN_STACK_BYTES, Options, install, install_in_functions, interrupted,
    is_installed, make_unarmed, thread,
};
use uswap_os::memory::{Access, Mapping};
use uswap_os::sys::prctl::{
    PR_SET_DUMPABLE, PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, PR_SET_SYSCALL_USER_DISPATCH, PR_SET_TSC,
};
use uswap_os::sys::{self, abi};
use uswap_os::thread::BlockedSignals;
use uswap_os::{PAGE_BYTES, clock, process};

/// A stack that may grow beyond this could do so without any call that is seen.
const STACK_BYTES_MAX: u64 = 64 << 20;
/// So many files are open at once while it is armed. A child that is forked in that time, which nobody sees, keeps them
/// until it executes a program.
const ARM_DESCRIPTORS: usize = 3;
/// For the work of arming.
const STACK_BYTES: usize = 128 * 1024;

/// Functions of the C library.
pub struct Functions<'a> {
    /// Those of [`uswap_identity::GROWTH_FUNCTIONS`]; 0 for one that is not known.
    pub addresses: &'a [usize],
    /// What the supervisor knows of them, if it does.
    pub known: &'a [KnownFunction],
}

/// By how much the process has grown, with the data that its program has.
static GROWN_BYTES: AtomicU64 = AtomicU64::new(0);
/// Behind the stack of the first thread.
static STACK_END: AtomicUsize = AtomicUsize::new(0);
/// Calls that are made as if nobody looked, at this moment.
static UNDER_WAY: AtomicU32 = AtomicU32::new(0);
/// Nearly all take some microseconds.
const CALLS_NS: u64 = 1_000_000_000;
const CALLS_STEP_NS: u64 = 50_000;
/// Tries to arm it that failed for a reason that may pass.
static TRY_LATER: TryLater = TryLater::new();
/// Not 0: it cannot be armed, and is left alone.
static IS_LEFT_ALONE: AtomicU32 = AtomicU32::new(0);

/// Between a constructor and the end of the stack that `main` uses are the frames of the loader.
const LOADER_FRAMES_BYTES: usize = 256 * 1024;

impl Process {
    /// Becomes part of a run. Called once, before the program has threads. Its system calls are seen when it grows, or
    /// from now on, if that cannot be seen in these functions. It takes a place in the run when it has grown, and is
    /// managed when memory gets short.
    pub fn start(&'static self, terms: Terms, functions: &Functions<'_>) -> Result<(), Refused> {
        self.set_own(terms);
        // The loader runs constructors on the stack of the first thread, below where `main` will be.
        let here = 0u8;
        let stack_end = &raw const here as usize + LOADER_FRAMES_BYTES;
        if self.begin_small(functions, stack_end) {
            return Ok(());
        }
        let armed = self.arm_at_start(stack_end - MAIN_STACK_BYTES..stack_end);
        if armed.is_err() && !is_installed() {
            // Some of the functions may be patched.
            self.stay_small();
        }
        armed
    }

    /// From now on only the calls are seen by which it would grow; false: that cannot be done. Behind `stack_end`
    /// nothing of the stack is used.
    fn begin_small(&'static self, functions: &Functions<'_>, stack_end: usize) -> bool {
        let may_be_deep = process::limit(abi::RLIMIT_STACK)
            .map_or(true, |limit| limit.is_none_or(|bytes| bytes > STACK_BYTES_MAX));
        let is_alone = || process::count_threads() == Ok(1);
        if may_be_deep || functions.addresses.contains(&0) || !is_alone() || !owner::note() {
            return false;
        }
        STACK_END.store(stack_end, Ordering::Relaxed);
        GROWN_BYTES.store(process::data_bytes_of_program().unwrap_or(0), Ordering::Relaxed);
        self.program_break.store(program_break(), Ordering::Relaxed);
        if !install_in_functions(self, functions.addresses, functions.known) {
            return false;
        }
        self.set_phase(Phase::Small);
        true
    }

    /// It cannot be armed: these functions go on as if nobody looked.
    fn stay_small(&self) {
        IS_LEFT_ALONE.store(1, Ordering::Relaxed);
        self.set_phase(Phase::Small);
    }

    /// A call of a small process. None: it is armed now, and the call goes the way of all others.
    pub(crate) fn serve_small(&'static self, call: &Call, context: &Context) -> Option<isize> {
        if self.must_be_seen(call, context.stack_pointer()) {
            if self.arm(context.stack_pointer()) {
                return None;
            }
            if may_forbid_calls(call) && self.phase() == Phase::Small && self.is_owner() {
                // It was not armed for a reason that may pass. But what it is about to set may end it for a call of
                // ours, or comes in the way of ours: so there will be none.
                IS_LEFT_ALONE.store(1, Ordering::Relaxed);
            }
        }
        if call.number as u32 == abi::__NR_execve {
            return Some(environment::execute_unarmed(call));
        }
        let under_way = self.begin_unarmed()?;
        // SAFETY:
        // 1. The program's own call, and one of those that the functions make.
        let answer = unsafe { make_unarmed(call) };
        if call.number as u32 == abi::__NR_brk {
            self.program_break.store(answer as usize, Ordering::Relaxed);
        }
        drop(under_way);
        Some(answer)
    }

    /// The supervisor has found the process large: it is armed, and takes a place, since no call will say how much it
    /// has.
    #[cold]
    pub(crate) fn serve_interruption(&'static self, context: &Context) {
        if self.phase() == Phase::Small {
            let _or_it_stays_small = self.arm(context.stack_pointer());
        }
        if self.phase() == Phase::Waiting {
            on_own_stack(thread::current(), || self.enter());
        }
    }

    fn must_be_seen(&self, call: &Call, stack_pointer: usize) -> bool {
        if IS_LEFT_ALONE.load(Ordering::Relaxed) != 0 {
            return false;
        }
        let [first, _, third, flags, ..] = call.arguments;
        let must = match call.number as u32 {
            // A thread comes: its stack has a guard. That for a child that executes a program has none.
            abi::__NR_mmap if flags & MAP_STACK != 0 => third == 0,
            abi::__NR_mmap => flags & (MAP_GROWSDOWN | MAP_LOCKED) != 0,
            abi::__NR_madvise => {
                matches!(third as u32, abi::MADV_FREE | abi::MADV_WIPEONFORK | abi::MADV_MERGEABLE)
            }
            abi::__NR_mlock | abi::__NR_mlock2 | abi::__NR_mlockall => true,
            abi::__NR_prctl => is_one_of(first, [PR_SET_DUMPABLE, PR_SET_TSC]) || may_forbid_calls(call),
            _ => false,
        };
        let depth = STACK_END.load(Ordering::Relaxed).saturating_sub(stack_pointer) as u64;
        let is_deep = depth >= self.terms().join_bytes && main_stack().contains(&stack_pointer);
        let bytes = growth(call, self.program_break.load(Ordering::Relaxed)) as u64;
        let grown = GROWN_BYTES.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        must || is_deep || bytes > 0 && grown >= self.terms().join_bytes
    }

    /// A call is to be made as if nobody looked. None: the process is armed by now.
    ///
    /// While another thread arms it calls wait until that is done: this thread may be armed already, and a child that
    /// it made so would be half armed.
    fn begin_unarmed(&self) -> Option<UnderWay> {
        loop {
            let under_way = UnderWay::begin();
            if !is_installed() {
                return Some(under_way);
            }
            drop(under_way);
            if !self.is_to_wait() {
                return Some(UnderWay::begin());
            }
            self.wait_until_armed();
            if self.phase() != Phase::Small {
                return None;
            }
        }
    }

    /// Whether this thread will be armed, or is. Not one of another process, whose parent waits for it, and not one in
    /// a handler on the program's alternate stack: who arms waits until it has left that.
    #[cold]
    fn is_to_wait(&self) -> bool {
        let is_ours = |start: usize| thread::slots().any(|slot| slot.alternate_stack() == start);
        let is_in_handler = alternate_stack_in_use().is_some_and(|start| !is_ours(start));
        !is_in_handler && self.is_owner() && IS_LEFT_ALONE.load(Ordering::Relaxed) == 0
    }

    #[cold]
    fn wait_until_armed(&self) {
        // A handler of the program could make a call that waits for the gate, while this thread is inside.
        let ours = FAULTS | signal_bit(abi::SIGSYS);
        if let Ok(_blocked) = BlockedSignals::block_all_but(ours) {
            drop(self.gate.shared());
        }
    }

    /// Whether this memory is the process's own.
    ///
    /// A copy that was made while another thread armed the process is left alone: the gate is closed in it, and that
    /// thread is not there.
    fn is_owner(&self) -> bool {
        let owner = owner::look();
        if owner == Owner::ThisFromNow {
            // Those that are counted in a copy are its parent's.
            UNDER_WAY.store(0, Ordering::Relaxed);
            TRY_LATER.reset();
            if !self.gate.is_open() {
                IS_LEFT_ALONE.store(1, Ordering::Relaxed);
                self.gate.reset();
            }
        }
        owner != Owner::Another
    }

    /// False: not now, or never.
    #[cold]
    fn arm(&'static self, stack_pointer: usize) -> bool {
        // The supervisor may send it here, too: this one first, since a filter may forbid the calls of the others.
        let is_left_alone = IS_LEFT_ALONE.load(Ordering::Relaxed) != 0;
        if is_left_alone || TRY_LATER.is_early() || alternate_stack_in_use().is_some() || !self.is_owner() {
            return false;
        }
        let Ok(stack) = Mapping::anonymous(STACK_BYTES, PAGE_BYTES, Access::ReadWrite) else { return false };
        // A handler of the program could make a call that waits for the gate.
        let ours = FAULTS | signal_bit(abi::SIGSYS);
        let Ok(_blocked) = BlockedSignals::block_all_but(ours) else { return false };
        on_stack(stack.start()..stack.end(), || {
            let _alone = self.gate.exclusive();
            if self.phase() != Phase::Small || IS_LEFT_ALONE.load(Ordering::Relaxed) != 0 {
                return self.phase() != Phase::Small;
            }
            match self.arm_now(stack_pointer) {
                Ok(()) => {
                    self.set_phase(Phase::Waiting);
                    true
                }
                Err(Refused::IsShared) => false,
                Err(Refused::NeedsNow(_) | Refused::Calls(uswap_interpose::Error::NotStopped(_)))
                    if TRY_LATER.put_off() =>
                {
                    false
                }
                Err(reason) => {
                    match is_installed() {
                        // All its calls are seen, and each must go its way.
                        true => self.set_phase(Phase::Outside),
                        false => self.stay_small(),
                    }
                    if !matches!(reason, Refused::NoRun) {
                        messages::say_of_process(format_args!("it is left alone: {reason}"));
                    }
                    false
                }
            }
        })
    }

    /// With the gate exclusive.
    fn arm_now(&'static self, stack_pointer: usize) -> Result<(), Refused> {
        let terms = self.terms();
        if terms.after_setuid == AfterSetuid::Leaves && credentials() != terms.credentials {
            // As one that was seen to change them.
            environment::forget();
            return Err(Refused::NoRun);
        }
        if !descriptors::is_room(ARM_DESCRIPTORS) {
            return Err(NO_DESCRIPTORS);
        }
        refuse_what_is_out_of_sight(owner::shares_memory)?;
        self.prepare()?;
        let main = main_stack();
        // Of any other stack nobody knows how much room it has.
        let stack = if main.contains(&stack_pointer) { main } else { stack_pointer..stack_pointer };
        let report = install(self, &Options { stack: Some(stack), arms_others: true, ..options() })
            .map_err(Refused::Calls)?;
        // Ahead of the looks at what calls have done.
        wait_for_calls();
        if report.armed_threads > 0 {
            self.take_in_threads()?;
        }
        self.take_in_advice()
    }
}

/// Whether the call may be the last one ahead of which this process may make calls of ours. Who sets a filter of system
/// calls says first that it wants no new privileges.
fn may_forbid_calls(call: &Call) -> bool {
    let forbidding = [PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, PR_SET_SYSCALL_USER_DISPATCH];
    call.number as u32 == abi::__NR_prctl && is_one_of(call.arguments[0], forbidding)
}

fn is_one_of<const N: usize>(option: usize, options: [u32; N]) -> bool {
    options.iter().any(|one| *one as usize == option)
}

/// Where the supervisor lets a thread go on that it has stopped, of a process that has grown by calls that nobody has
/// seen: see [`interrupted`].
///
/// # Safety
/// For a thread that was stopped in code of the program, with the address where it was below its red zone.
#[unsafe(naked)]
pub unsafe extern "C" fn grown_unseen() {
    naked_asm!("jmp {}", sym interrupted::<Process>)
}

fn main_stack() -> Range<usize> {
    let end = STACK_END.load(Ordering::Relaxed);
    end - MAIN_STACK_BYTES..end
}

/// First byte of the alternate stack of the thread, if it is in a handler there: it could not be given another one.
fn alternate_stack_in_use() -> Option<usize> {
    let mut stack = [0usize; 3];
    // SAFETY:
    // 1. The kernel writes a `stack_t`, three words, to three words.
    let asked = unsafe { sys::syscall3(abi::__NR_sigaltstack, 0, stack.as_mut_ptr() as usize, 0) };
    (asked.is_err() || stack[1] as u32 & abi::SS_ONSTACK != 0).then_some(stack[0])
}

/// A call that is made as if nobody looked, until it is dropped.
struct UnderWay;

impl UnderWay {
    fn begin() -> UnderWay {
        UNDER_WAY.fetch_add(1, Ordering::Relaxed);
        // Pairs with the fence of `wait_for_calls`: either the count is seen there, or the look behind it finds that
        // `install` has begun.
        fence(Ordering::SeqCst);
        UnderWay
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        // Release pairs with the Acquire of `wait_for_calls`: the call is made.
        UNDER_WAY.fetch_sub(1, Ordering::Release);
    }
}

/// Waits for calls of threads that were armed while they made them: what they do to mappings would be unseen once these
/// are managed. Only so long: a child that shares the memory may have been killed in one, and a handler may have
/// interrupted one of the very thread that arms, or have left one by a jump (`siglongjmp`).
fn wait_for_calls() {
    let end_ns = clock::now_ns() + CALLS_NS;
    // Pairs with the fence of `UnderWay::begin`.
    fence(Ordering::SeqCst);
    // Acquire pairs with the Release of `UnderWay`.
    while UNDER_WAY.load(Ordering::Acquire) != 0 && clock::now_ns() < end_ns {
        clock::sleep_ns(CALLS_STEP_NS);
    }
}
