//! A system call of the program, before and after the kernel.

use crate::messages;
use crate::own_stack::on_own_stack;
use crate::process::{Phase, Process, Space, stop_program};
use crate::{descriptors, environment, mappings};
use core::ffi::c_void;
use core::sync::atomic::{Ordering, fence};
use uswap_core::page_table::PAGES_MAX;
use uswap_engine::Fault as Served;
use uswap_engine::world::Touch;
use uswap_interpose::buffers::{Begun, Boundary, StackPoint};
use uswap_interpose::table::{Kind, Row, row};
use uswap_interpose::thread::{self, Slot};
use uswap_interpose::{Before, Call, Context, Fault, Interposer, NewProcess, make_as_program};
use uswap_os::fd::Event;
use uswap_os::sys::{Errno, abi};
use uswap_os::{clock, process};
use uswap_units::{PageId, PageRange};

/// The words of a thread's slot that are ours.
pub(crate) mod word {
    /// For which part of its stack was seen to.
    pub(crate) const STACK_SEEN: usize = 0;
    /// The thread is about to end.
    pub(crate) const ENDS: usize = 1;
    /// Start and length of the mapping that holds the environment of its last `execve`.
    pub(crate) const ENVIRONMENT: usize = 2;
    pub(crate) const ENVIRONMENT_BYTES: usize = 3;
}

/// A page that was brought may be protected once more, by an evictor that had seen that it was missing; and what cannot
/// be filled is not mapped.
const BRING_ROUNDS_MAX: u32 = 64;

/// No attempt gave the content of a page.
pub(crate) struct PageLost;

/// What lies below the stack pointer and above it, to be kept in RAM: the kernel writes the frames of signals there.
const STACK_BELOW_BYTES: u64 = 128 * 1024;
const STACK_ABOVE_BYTES: u64 = 64 * 1024;
/// A stack pointer that stays in so many bytes is not looked at again.
const STACK_STEP_SHIFT: u32 = 15;

/// Makes a call as it stands.
pub(crate) fn make(call: &Call) -> isize {
    // SAFETY:
    // 1. It is the program's own call, or one that asks less.
    unsafe { make_as_program(call) }
}

fn stack_point(context: &Context) -> StackPoint {
    let pointer = context.stack_pointer() as u64;
    let stack = match context.slot().program_stack() {
        Some((start, bytes)) if (start..=start + bytes).contains(&(pointer as usize)) => start as u64,
        _ => 0,
    };
    StackPoint { pointer, stack }
}

impl Process {
    fn boundary(&self, context: &Context) -> Boundary<'_, Process> {
        Boundary::new(self, self.hazards().slot(context.slot().index()))
    }

    fn before_special(&self, row: &Row, call: &Call, context: &Context) -> Option<Before> {
        match row.kind() {
            // Those that name buffers (`mincore`, `mbind`) only ask and advise: their buffers must be there.
            Kind::Mapping if row.buffers().is_empty() && row.nested().is_none() => {
                Some(Before::Answer(self.serve_mapping(call, context)))
            }
            Kind::Asynchronous => {
                self.come_home(context.slot(), "it lets the kernel use its memory behind its back");
                None
            }
            _ => {
                self.note_special(call, context);
                None
            }
        }
    }

    /// Calls that change what this process may rely on, and are made as they stand.
    fn note_special(&self, call: &Call, context: &Context) {
        const PR_SET_TSC: usize = 26;
        const PTRACE_TRACEME: usize = 0;
        const UFFDIO_REGISTER: u32 = 0xc020_aa00;
        let [first, second, third, ..] = call.arguments;
        match call.number as u32 {
            abi::__NR_prctl if first == PR_SET_TSC => clock::no_time_stamps(),
            // A child that shares the memory executes another program next.
            abi::__NR_ptrace
                if first == PTRACE_TRACEME
                    && self.process_id.load(Ordering::Relaxed) == process::process_id() =>
            {
                self.come_home(context.slot(), "it lets itself be traced, and its calls cannot be seen");
            }
            abi::__NR_ioctl if second as u32 == UFFDIO_REGISTER => {
                let mut range = [[0; 8]; 2];
                if crate::program_copy::read(third, range.as_flattened_mut()) {
                    let [start, bytes] = range.map(u64::from_ne_bytes);
                    let range = PageRange::of_addresses(start, start.saturating_add(bytes));
                    on_own_stack(context.slot(), || self.give_to_program(range));
                }
            }
            _ => (),
        }
    }

    /// The kernel writes to the stacks of threads when it likes: what is around the stack pointer stays.
    #[inline]
    fn see_to_stack(&self, slot: &Slot, stack_pointer: u64) {
        let step = (stack_pointer >> STACK_STEP_SHIFT) as usize;
        if slot.user[word::STACK_SEEN].load(Ordering::Relaxed) != step {
            self.keep_stack(slot, stack_pointer);
            slot.user[word::STACK_SEEN].store(step, Ordering::Relaxed);
        }
    }

    #[cold]
    fn keep_stack(&self, slot: &Slot, stack_pointer: u64) {
        let start = stack_pointer.saturating_sub(STACK_BELOW_BYTES);
        let range = PageRange::of_addresses(start, stack_pointer + STACK_ABOVE_BYTES);
        if self.space().is_some_and(|space| space.page_table().first_managed(range).is_some()) {
            on_own_stack(slot, || self.keep_range(range));
        }
    }

    /// With the last thread of the program the process ends, though the thread that evicts is there, and with its
    /// status, as without uswap on Linux 6.18.
    #[cold]
    fn see_to_last_thread(&self, call: &mut Call, slot: &Slot) {
        let evicting_id = self.evicting_id.load(Ordering::Relaxed);
        if evicting_id == 0 || evicting_id != process::process_id() {
            // Nobody evicts here, and a filter may forbid even to ask; or a child that shares the memory (vfork).
            return;
        }
        // Of two that end at once, at least the later one sees both marks.
        slot.user[word::ENDS].store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        // In this order: a thread that begins is counted until it has its slot.
        let is_last = !uswap_interpose::is_thread_beginning()
            && thread::slots().all(|slot| slot.user[word::ENDS].load(Ordering::SeqCst) != 0);
        if is_last {
            call.number = abi::__NR_exit_group as usize;
        }
    }

    /// The frames of signals are written to the program's alternate stack while SIGBUS is blocked.
    fn keep_alternate_stack(&self, slot: &Slot) {
        // Who activates meanwhile has either seen this stack, or is done now.
        drop(self.mappings.shared());
        if self.phase() == Phase::Active
            && let Some((start, bytes)) = slot.program_stack()
        {
            let range = PageRange::of_addresses(start as u64, (start + bytes) as u64);
            on_own_stack(slot, || self.keep_range(range));
        }
    }

    /// The managed pages of a range are brought, may be written, and stay. On a stack of ours.
    pub(crate) fn keep_range(&self, range: PageRange) {
        let Some(space) = self.space() else { return };
        {
            let _nobody_evicts = self.mappings.exclusive();
            space.pin(range);
        }
        self.bring_range(range, Touch::Write);
    }

    /// Brings the managed pages of a range, as if they were touched so.
    pub(crate) fn bring_range(&self, range: PageRange, touch: Touch) {
        let Some(space) = self.space() else { return };
        let mut rest = range;
        while let Some(first) = space.page_table().first_managed(rest) {
            for round in 0..BRING_ROUNDS_MAX {
                if space.is_ready(first, touch) {
                    break;
                }
                if round > 0 {
                    uswap_os::thread::yield_now();
                }
                if !matches!(self.bring(first, touch), Served::Served(_)) {
                    break;
                }
            }
            rest.start = first.plus(1);
        }
    }

    /// With no thread of the program left, as the thread that evicts has found; the first of them ended with this wait
    /// status. An end that was seen would have ended the process, so one of them was killed: the status is that of such
    /// a one.
    pub(crate) fn end_after_its_threads(&self, status_of_first: u32) -> ! {
        let is_killed = |status: u32| status & 0x7F != 0;
        let was_seen = thread::slots().all(|slot| slot.user[word::ENDS].load(Ordering::SeqCst) != 0);
        match status_of_first {
            status if is_killed(status) => process::die_of(status & 0x7F),
            _ if !was_seen => process::die_of(abi::SIGSYS),
            status => process::exit_process((status >> 8) as u8),
        }
    }

    /// Its memory comes home, and stays from now on. The thread that evicts is gone then.
    pub(crate) fn come_home(&self, slot: &Slot, reason: &str) {
        match self.phase() {
            Phase::Outside | Phase::Home => (),
            Phase::Waiting | Phase::Watching => {
                let _nobody_activates = self.mappings.exclusive();
                if self.phase().is_before_active() {
                    self.set_phase(Phase::Home);
                    messages::say_of_process(format_args!("it is not managed: {reason}"));
                }
            }
            Phase::Active => on_own_stack(slot, || self.let_go(reason)),
        }
        // Also if another thread is at it: whoever goes on from here may forbid calls to all threads.
        self.dismiss_background();
    }

    /// Brings all that is away of a range, as if it were written. An error: a page cannot be read back.
    pub(crate) fn bring_home(&self, space: &Space, range: PageRange) -> Result<(), PageLost> {
        let mut is_lost = false;
        while space.for_each_away_in(range, |page| {
            is_lost |= self.bring(page, Touch::Write) == Served::Lost;
        }) {
            if is_lost {
                return Err(PageLost);
            }
        }
        Ok(())
    }

    /// Everything comes home, and the kernel serves its faults from then on. On a stack of ours.
    pub(crate) fn let_go(&self, reason: &str) {
        const ALL: PageRange = PageRange { start: PageId(0), end: PageId(PAGES_MAX) };
        let Some(space) = self.space() else { return };
        space.hold_evicting();
        let alone = loop {
            if self.bring_home(space, ALL).is_err() {
                // Unregistered it would read as zeros.
                stop_program(format_args!(
                    "a page cannot be read back, and its memory shall come home ({reason})"
                ));
            }
            let alone = self.mappings.exclusive();
            if space.first_away(ALL).is_none() {
                break alone;
            }
        };
        if self.phase() == Phase::Active {
            // Its last descriptor is gone with that, and what is missing reads as zeros, which is what nobody has
            // touched. The number stays in use, unless the program may open no file any more (RLIMIT_NOFILE, as
            // sandboxes set it): then it is nobody's.
            let uffd = space.world().uffd.fd().raw();
            if Event::new().and_then(|other| other.fd().replace(uffd)).is_err() {
                descriptors::close(uffd);
            }
            self.set_phase(Phase::Home);
            messages::say_of_process(format_args!("its memory came home and stays in RAM: {reason}"));
        }
        drop(alone);
    }
}

/// Whether a call may change what the process is allowed to read. They name no memory.
fn changes_privileges(call: &Call) -> bool {
    const PR_SET_DUMPABLE: usize = 4;
    match call.number as u32 {
        abi::__NR_setuid | abi::__NR_setgid | abi::__NR_setreuid | abi::__NR_setregid => true,
        abi::__NR_setresuid | abi::__NR_setresgid | abi::__NR_setfsuid | abi::__NR_setfsgid => true,
        abi::__NR_prctl => call.arguments[0] == PR_SET_DUMPABLE && call.arguments[1] != 1,
        _ => false,
    }
}

/// Whether a call may change the stack that the program's handlers of signals use.
fn sets_alternate_stack(call: &Call) -> bool {
    call.number as u32 == abi::__NR_sigaltstack && call.arguments[0] != 0
}

/// Whether a call may forbid system calls to the thread that makes it.
fn sets_filter(call: &Call) -> bool {
    const PR_SET_SECCOMP: usize = 22;
    const SECCOMP_SET_MODE_FILTER: usize = 1;
    match call.number as u32 {
        abi::__NR_prctl => call.arguments[0] == PR_SET_SECCOMP,
        abi::__NR_seccomp => call.arguments[0] <= SECCOMP_SET_MODE_FILTER,
        _ => false,
    }
}

/// Whether a call starts a process that shares the memory, runs beside this one, and goes to no tracer of this one.
///
/// With it the leak checkers of sanitizers stop all threads of the program, to look through its memory. One of ours
/// would be stopped with the gate, or with the lock of a page, and the process that stops it would wait for either.
fn starts_stopper(call: &Call) -> bool {
    const SHARES: u64 = (abi::CLONE_VM | abi::CLONE_UNTRACED) as u64;
    const OTHERS: u64 = (abi::CLONE_VFORK | abi::CLONE_THREAD) as u64;
    let flags = match call.number as u32 {
        abi::__NR_clone => call.arguments[0] as u64,
        abi::__NR_clone3 => {
            let mut flags = [0; 8];
            let is_read = crate::program_copy::read(call.arguments[0], &mut flags);
            if is_read { u64::from_ne_bytes(flags) } else { 0 }
        }
        _ => 0,
    };
    flags & (SHARES | OTHERS) == SHARES
}

/// The pages of the stack that a call gives to a child; we write on it with all signals blocked.
fn child_stack(call: &Call) -> Option<u64> {
    match call.number as u32 {
        abi::__NR_clone if call.arguments[1] != 0 => Some(call.arguments[1] as u64),
        abi::__NR_clone3 => {
            let mut stack = [[0; 8]; 2];
            let is_read = crate::program_copy::read(call.arguments[0] + 40, stack.as_flattened_mut());
            let [start, bytes] = stack.map(u64::from_ne_bytes);
            (is_read && start != 0).then_some(start.wrapping_add(bytes))
        }
        _ => None,
    }
}

impl Interposer for Process {
    fn before(&self, call: &mut Call, context: &Context) -> Before {
        if call.number as u32 == abi::__NR_exit {
            self.see_to_last_thread(call, context.slot());
        }
        let phase = self.phase();
        if phase == Phase::Outside {
            return match self.locks_outside(call) {
                true => Before::Answer(self.serve_mapping(call, context)),
                false => Before::Pass,
            };
        }
        if let Some(answer) = descriptors::answer(call).or_else(|| mappings::refused(call)) {
            return Before::Answer(answer);
        }
        match phase {
            Phase::Active => self.see_to_stack(context.slot(), context.stack_pointer() as u64),
            Phase::Waiting => self.join_if_deep(context.slot(), context.stack_pointer()),
            _ => (),
        }
        if changes_privileges(call) {
            return Before::PassThenAfter;
        }
        if sets_filter(call) {
            self.come_home(
                context.slot(),
                "it forbids itself system calls, and those of uswap may be among them",
            );
        }
        // Ahead of its ranges: it is the new array that the kernel reads.
        let is_changed = environment::mend(call, context.slot());
        if let Some(row) = row(call.number) {
            if starts_stopper(call) {
                self.come_home(
                    context.slot(),
                    "it starts a process that shares its memory and may stop its threads",
                );
            }
            if let Some(stack) = child_stack(call).filter(|_| row.kind() == Kind::Process) {
                self.keep_stack(context.slot(), stack);
            }
            if let Some(before) = self.before_special(row, call, context) {
                return before;
            }
        }
        match self.boundary(context).before(call, stack_point(context), &mut make) {
            Begun::Free if !is_changed && !sets_alternate_stack(call) => Before::Pass,
            Begun::Free | Begun::Held => Before::PassThenAfter,
            Begun::Answered(answer) => Before::Answer(answer),
        }
    }

    fn after(&self, call: &Call, answer: isize, context: &Context) -> isize {
        if changes_privileges(call) {
            if answer >= 0 {
                self.leave_run(context.slot());
            }
            return answer;
        }
        let answer = self.boundary(context).after(call, answer, stack_point(context), &mut make);
        if answer == 0 && sets_alternate_stack(call) {
            self.keep_alternate_stack(context.slot());
        }
        answer
    }

    fn thread_ends(&self, context: &Context) {
        self.hazards().slot(context.slot().index()).reset();
        environment::release(context.slot());
    }

    fn copy_begins(&self, context: &Context) -> Result<(), Errno> {
        self.prepare_copy(context.slot())
    }

    fn copy_ends(&self, answer: isize, context: &Context) {
        self.end_copy(answer, context.slot());
    }

    fn process_begins(&self, kind: NewProcess, _: &Context) {
        if kind == NewProcess::Copied {
            self.own().begin_as_child();
        }
    }

    fn fault(&self, signal: u32, info: *const c_void, context: *mut c_void) -> Fault {
        self.serve_signal(signal, info, context)
    }
}

impl Process {
    /// A page by its address, for whoever wants to look.
    pub fn is_managed(&self, address: usize) -> bool {
        self.space().is_some_and(|space| space.is_managed(PageId::of_address(address as u64)))
    }
}
