//! A system call of the program, before and after the kernel.
//!
//! Must hold: what is made here instead of the kernel gives the answer and the errno that the kernel gives. Called by
//! `interpose` ahead of each call and after it, on the thread that makes it; [`crate::background`] ends the process
//! here where its other threads have ended.

use crate::own_stack::on_own_stack;
use crate::process::{Phase, Process};
use crate::syscalls::{
    changes_privileges, child_stack, clone_flags, is_special, make, refused, registered_rseq_area,
    runs_beside, sets_alternate_stack, sets_filter, shares_descriptors, waits_for_copy,
};
use crate::{descriptors, environment, program_copy, thread_words};
use core::ffi::c_void;
use core::sync::atomic::{Ordering, fence};
use uswap_interpose::buffers::{Begun, Boundary, StackPoint};
use uswap_interpose::table::{Kind, Row, row};
use uswap_interpose::thread::{self, Slot};
use uswap_interpose::{Before, Births, Call, Context, Fault, INTERRUPTED, Interposer, NewProcess};
use uswap_os::sys::prctl::{PR_SET_MEMORY_MERGE, PR_SET_TSC};
use uswap_os::sys::{Errno, abi};
use uswap_os::{clock, process};
use uswap_units::{PageId, PageRange};

#[inline]
fn stack_point(slot: &Slot, context: &Context) -> StackPoint {
    let pointer = context.stack_pointer() as u64;
    let stack = match slot.program_stack() {
        Some((start, bytes)) if (start..=start + bytes).contains(&(pointer as usize)) => start as u64,
        _ => 0,
    };
    StackPoint { pointer, stack }
}

impl Process {
    #[inline]
    fn boundary(&self, slot: &Slot) -> Boundary<'_, Process> {
        Boundary::new(self, self.hazards().slot(slot.index()))
    }

    /// The stack of the thread that makes a call.
    #[inline]
    fn look_at_stack(&self, phase: Phase, slot: &Slot, context: &Context) {
        match phase {
            Phase::Active => self.pin_stack_if_moved(slot, context.stack_pointer() as u64),
            Phase::Watching => self.publish_stack(slot, context.stack_pointer() as u64),
            Phase::Waiting => {
                self.publish_stack(slot, context.stack_pointer() as u64);
                self.join_if_deep(slot, context.stack_pointer());
            }
            _ => (),
        }
    }

    /// The buffers of a call that only has buffers, as nearly all.
    #[inline]
    fn ready(&self, call: &Call, slot: &Slot, context: &Context) -> Before {
        match self.boundary(slot).before(call, stack_point(slot, context), &mut make) {
            Begun::Free => Before::Pass,
            Begun::Held => Before::PassThenAfter,
            Begun::Answered(answer) => Before::Answer(answer),
        }
    }

    /// A call of `is_special`, on a descriptor that may be ours, or of a process that is outside.
    #[inline(never)]
    fn before_special(&self, call: &mut Call, context: &Context) -> Before {
        if call.number == INTERRUPTED {
            self.own().serve_interruption(context);
            return Before::Answer(0);
        }
        if self.phase() == Phase::Small
            && let Some(answer) = self.own().serve_small(call, context)
        {
            return Before::Answer(answer);
        }
        let slot = context.slot();
        if call.number as u32 == abi::__NR_exit {
            self.end_if_last_thread(call, slot);
        }
        let phase = self.phase();
        if phase == Phase::Outside {
            // A process that has left its run has some of ours open, which a child will close.
            if let Some(answer) = descriptors::answer(call) {
                return Before::Answer(answer);
            }
            return match self.locks_outside(call) {
                true => Before::Answer(self.serve_mapping(call, context)),
                false => Before::Pass,
            };
        }
        if let Some(answer) = descriptors::answer(call).or_else(|| refused(call)) {
            return Before::Answer(answer);
        }
        self.look_at_stack(phase, slot, context);
        if changes_privileges(call) {
            return Before::PassThenAfter;
        }
        if sets_filter(call) {
            self.come_home(slot, "it forbids itself system calls, and those of uswap may be among them");
        }
        if let Some(area) = registered_rseq_area(call) {
            self.pin_rseq_area(slot, area);
        }
        // Ahead of its ranges: it is the new array that the kernel reads.
        let is_changed = environment::rewrite(call, slot);
        if let Some(row) = row(call.number) {
            if let Some(flags) = clone_flags(call) {
                self.prepare_child(slot, flags);
            }
            if let Some(stack) = child_stack(call).filter(|_| row.kind() == Kind::Process) {
                self.pin_stack(slot, stack);
            }
            if let Some(before) = self.before_of_kind(row, call, context) {
                return before;
            }
        }
        match self.ready(call, slot, context) {
            Before::Pass if is_changed || sets_alternate_stack(call) => Before::PassThenAfter,
            Before::Answer(answer) => {
                environment::end_use(call, slot);
                Before::Answer(answer)
            }
            before => before,
        }
    }

    fn before_of_kind(&self, row: &Row, call: &Call, context: &Context) -> Option<Before> {
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
        const PTRACE_TRACEME: usize = 0;
        let [first, second, third, ..] = call.arguments;
        match call.number as u32 {
            abi::__NR_prctl if first == PR_SET_TSC as usize => clock::no_time_stamps(),
            // A child that shares the memory executes another program next.
            abi::__NR_ptrace
                if first == PTRACE_TRACEME
                    && self.process_id.load(Ordering::Relaxed) == process::process_id() =>
            {
                self.come_home(context.slot(), "it lets itself be traced, and its calls cannot be seen");
            }
            abi::__NR_prctl if first == PR_SET_MEMORY_MERGE as usize && second != 0 => {
                self.come_home(context.slot(), "it lets the kernel merge its pages (KSM)");
            }
            abi::__NR_ioctl => self.note_userfaultfd(second as u32, third, context),
            _ => (),
        }
    }

    /// Children that a managed process cannot have: its memory comes home first.
    fn prepare_child(&self, slot: &Slot, flags: u64) {
        if runs_beside(flags) {
            self.come_home(
                slot,
                "it starts a process that shares its memory, and may stop its threads or live longer",
            );
        }
        if shares_descriptors(flags) {
            self.come_home(slot, "it forks a process that shares its descriptors, those of uswap among them");
        }
        self.forking.note_descriptors(shares_descriptors(flags));
        if waits_for_copy(flags) {
            self.come_home(slot, "it waits for a process that has a copy of its memory (CLONE_VFORK)");
        }
    }

    /// The program is about to use a userfaultfd of its own: what that names is the program's from now on. The kernel
    /// asks of some of these calls only that the memory is registered with anybody.
    fn note_userfaultfd(&self, request: u32, at: usize, context: &Context) {
        const REGISTER: u32 = 0xc020_aa00;
        const UNREGISTER: u32 = 0x8010_aa01;
        const COPY: u32 = 0xc028_aa03;
        const ZEROPAGE: u32 = 0xc020_aa04;
        const MOVE: u32 = 0xc028_aa05;
        const WRITEPROTECT: u32 = 0xc018_aa06;
        const CONTINUE: u32 = 0xc020_aa07;
        const POISON: u32 = 0xc020_aa08;
        let mut words = [[0; 8]; 3];
        let count = match request {
            REGISTER | UNREGISTER | ZEROPAGE | WRITEPROTECT | CONTINUE | POISON => 2,
            COPY | MOVE => 3,
            _ => return,
        };
        if !program_copy::read(at, words[..count].as_flattened_mut()) {
            return;
        }
        let [first, second, third] = words.map(u64::from_ne_bytes);
        let range = |start: u64, bytes: u64| PageRange::of_addresses(start, start.saturating_add(bytes));
        let ranges = match request {
            COPY => [range(first, third), range(0, 0)],
            MOVE => [range(first, third), range(second, third)],
            _ => [range(first, second), range(0, 0)],
        };
        let is_managed = |range: PageRange| {
            let space = self.space().filter(|_| self.phase() == Phase::Active);
            space.is_some_and(|space| space.page_table().first_managed(range).is_some())
        };
        for range in ranges.into_iter().filter(|range| request == REGISTER || is_managed(*range)) {
            on_own_stack(context.slot(), || self.give_to_program(range));
        }
    }

    /// With the last thread of the program the process ends, though the thread that evicts is there, and with its
    /// status, as without uswap on Linux 6.18.
    #[cold]
    fn end_if_last_thread(&self, call: &mut Call, slot: &Slot) {
        let evicting_id = self.evicting_id.load(Ordering::Relaxed);
        if evicting_id == 0 || evicting_id != process::process_id() {
            // Nobody evicts here, and a filter may forbid even to ask; or a child that shares the memory (vfork).
            return;
        }
        // Of two that end at once, at least the later one sees both marks: each sets its own, and looks at that of the
        // other behind the fence, which pairs with itself there. It does so for the count of threads that begin, too.
        slot.user[thread_words::ENDS].store(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let births = Births::now();
        let all_end =
            || thread::slots().all(|slot| slot.user[thread_words::ENDS].load(Ordering::SeqCst) != 0);
        // In this order: a thread that begins is counted until it has its slot. One that begins behind this look, in a
        // slot that was passed, has a parent that this look may find ended: then the count has changed.
        let is_last = !births.is_one_beginning() && all_end() && Births::now() == births;
        if is_last {
            call.number = abi::__NR_exit_group as usize;
        }
    }

    /// With no thread of the program left, as the thread that evicts has found; the first of them ended with this wait
    /// status. An end that was seen would have ended the process, so one of them was killed: the status is that of such
    /// a one.
    pub(crate) fn end_after_its_threads(&self, status_of_first: u32) -> ! {
        let is_killed = |status: u32| status & 0x7F != 0;
        // SeqCst as in `end_if_last_thread`, though no mark changes any more: the kernel says that the threads are
        // gone.
        let was_seen = thread::slots().all(|slot| slot.user[thread_words::ENDS].load(Ordering::SeqCst) != 0);
        match status_of_first {
            status if is_killed(status) => process::die_of(status & 0x7F),
            _ if !was_seen => process::die_of(abi::SIGSYS),
            status => process::exit_process((status >> 8) as u8),
        }
    }
}

impl Interposer for Process {
    #[inline]
    fn before(&self, call: &mut Call, context: &Context) -> Before {
        let phase = self.phase();
        if phase == Phase::Outside || is_special(call.number) || descriptors::may_be_own(call.arguments[0]) {
            return self.before_special(call, context);
        }
        let slot = context.slot();
        self.look_at_stack(phase, slot, context);
        self.ready(call, slot, context)
    }

    #[inline]
    fn after(&self, call: &Call, answer: isize, context: &Context) -> isize {
        let slot = context.slot();
        if !is_special(call.number) {
            return self.boundary(slot).after(call, answer, stack_point(slot, context), &mut make);
        }
        if changes_privileges(call) {
            if answer >= 0 {
                self.leave_run(slot);
            }
            return answer;
        }
        let answer = self.boundary(slot).after(call, answer, stack_point(slot, context), &mut make);
        if answer == 0 && sets_alternate_stack(call) {
            self.pin_alternate_stack(slot);
        }
        environment::end_use(call, slot);
        answer
    }

    fn thread_begins(&self, context: &Context) {
        self.pin_new_thread(context.slot(), context.stack_pointer() as u64);
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
            uswap_interpose::with_vectors(|| self.own().begin_as_child());
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
