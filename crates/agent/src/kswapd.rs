//! The first engine thread of a process: sleeps until there is pressure, then takes memory under management and
//! reclaims.

use crate::activate::Descriptors;
use crate::handlers::Preferred;
use crate::scan::Scanner;
use crate::state::{self, ENGINE, Phase, Request, SEGMENT};
use crate::sync::run;
use crate::{activate, affinity, fork, fresh, handlers, leave, locks, say, start};
use core::sync::atomic::{AtomicU32, Ordering};
use uswap_core::balance::Headroom;
use uswap_core::budget::Signal;
use uswap_core::counters::Counter;
use uswap_core::segment::Segment;
use uswap_engine::Workspace;
use uswap_host::{messages, supervisor, swap_files};
use uswap_os::clock;
use uswap_os::fd::Timeout;
use uswap_os::futex::{self, Scope};
use uswap_os::sys::abi;
use uswap_os::thread::{self, Files, StackArea};

const STACK_BYTES: usize = 128 * 1024;
pub static STACK: StackArea = StackArea::new(STACK_BYTES);

/// Sleeps without pressure last this long at most, so that a supervisor that is gone is noticed.
const SLEEP_NS: u64 = 1_000_000_000;

/// So often is looked for what needs no haste. Handlers without work for so long give their buffers back.
const LOOK_NS: u64 = SLEEP_NS / 2;

/// How a kswapd begins.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Begin {
    /// Nothing is registered.
    Watching = 0,
    /// A forked child whose memory is managed: it takes over at once.
    TakeOver = 1,
}

/// 1 when a child that takes over may go on.
static READY: AtomicU32 = AtomicU32::new(0);

/// Starts kswapd. A process without one is left alone.
pub fn start(begin: Begin) {
    READY.store(0, Ordering::Release);
    match thread::spawn(&STACK, kswapd, begin as usize, Files::Own) {
        Ok(_) => (),
        Err(errno) if begin == Begin::TakeOver => crate::fatal(format_args!(
            "as a forked child it cannot start its engine ({errno}), and part of its memory is swapped. Raise the \
             limit of processes (ulimit -u)"
        )),
        Err(_) => state::set_phase(Phase::Outside),
    }
}

/// Waits until a child that takes over has its memory.
pub fn wait_ready() {
    while READY.load(Ordering::Acquire) == 0 {
        futex::wait(&READY, 0, Timeout::Forever, Scope::Private);
    }
}

fn ready() {
    READY.store(1, Ordering::Release);
    futex::wake(&READY, 1, Scope::Private);
}

extern "C" fn kswapd(begin: usize) {
    thread::set_name(c"uswap-kswapd");
    handlers::prefer_this_thread(Preferred::Yes);
    if let Some(segment) = SEGMENT.get() {
        find_place(segment, begin);
    }
    supervisor::let_go();
}

/// Gets the record of this process and works until the process leaves the run.
fn find_place(segment: &'static Segment<'static>, begin: usize) {
    if begin == Begin::TakeOver as usize {
        if let Err(reason) = supervisor::claim_record(
            segment,
            state::mm(),
            segment.mms().record(state::mm()).number(),
            core::convert::identity,
        ) {
            crate::fatal(format_args!(
                "as a forked child it has no place in its run ({reason}), and part of it is swapped"
            ));
        }
    } else {
        let Some(mm) = supervisor::take_record(segment, core::convert::identity) else {
            state::set_phase(Phase::Outside);
            return;
        };
        state::set_mm(mm);
    }
    start::announce(segment);
    // Messages go to the supervisor's standard error: the table of this thread has no descriptor of the program.
    // It gets the number 2 here too.
    if let Ok(messages) = supervisor::open(2, abi::O_WRONLY | abi::O_APPEND)
        && let Ok(second) = messages.duplicate(2)
    {
        let _stays_open = second.into_raw();
    }
    let mut scanner = None;
    let mut descriptors = Some(Descriptors::open());
    if begin == Begin::TakeOver as usize {
        scanner = descriptors.take().and_then(fork::take_over);
        ready();
    }
    let mut counted_ns = 0;
    // Most processes end before anything is due.
    let due_ns = clock::now_ns() + LOOK_NS;
    let mut chores = Chores { due_ns, turns_seen: 0, files_seen: None, is_alone: false };
    loop {
        state::count_cpu(&mut counted_ns);
        let seen = segment.budget().signal_count(Signal::Pressure);
        match state::pending_request() {
            Some(Request::Leave) => {
                leave::leave();
                return;
            }
            Some(Request::LookAtLocks) => {
                locks::look(segment);
                state::request_done();
            }
            Some(request) => leave::answer(request),
            None => (),
        }
        chores.follow_files(segment, descriptors.as_ref());
        chores.look(segment);
        if chores.is_alone {
            // Nobody measures or writes back any more: what was swapped out stays readable, and nothing follows it.
            if let Some(engine) = ENGINE.get() {
                engine.stop_evicting();
            }
            if let Some(asked) = fresh::wanted() {
                fresh::looked(asked);
            }
            sleep(segment, seen);
            continue;
        }
        let marks = segment.budget().watermarks();
        if is_idle(segment) || segment.budget().is_ending() {
            sleep(segment, seen);
            continue;
        }
        if state::phase() == Phase::Watching {
            scanner = descriptors.take().and_then(activate::activate);
            if scanner.is_none() {
                return;
            }
        }
        let (Some(scanner), Some(engine)) = (&mut scanner, ENGINE.get()) else { return };
        engine.note_looked();
        // New memory is registered before it is needed: then its first touches come to us, and cannot be faster than
        // reclaim.
        scanner.pages.scan_if_due(engine);
        if segment.budget().used() > marks.low {
            work(segment, scanner, &mut chores);
        } else {
            sleep(segment, seen);
        }
    }
}

/// Nothing needs to be looked for, and no memory taken under management.
fn is_idle(segment: &Segment<'static>) -> bool {
    let budget = segment.budget();
    budget.used() <= budget.watermarks().register && fresh::wanted().is_none()
}

/// What kswapd looks for now and then.
struct Chores {
    due_ns: u64,
    /// Turns of the handlers at the last look.
    turns_seen: u32,
    /// Changes of the swap files that were followed.
    files_seen: Option<u64>,
    /// The supervisor is gone.
    is_alone: bool,
}

impl Chores {
    /// The run may get more swap files, and lose some. `descriptors`: those that wait for the engine to be built.
    fn follow_files(
        &mut self,
        segment: &Segment<'static>,
        descriptors: Option<&Result<Descriptors, &'static str>>,
    ) {
        let open = match descriptors {
            Some(waiting) => waiting.as_ref().ok().map(|waiting| &waiting.swap_files),
            None => ENGINE.get().map(|engine| &engine.platform().swap_files),
        };
        swap_files::follow(segment, segment.mms().record(state::mm()), open, &mut self.files_seen);
    }

    fn look(&mut self, segment: &Segment<'static>) {
        let now_ns = clock::now_ns();
        if now_ns > self.due_ns {
            self.due_ns = now_ns + LOOK_NS;
            // Others of the run learn of it too.
            let lives = supervisor::lives(segment);
            affinity::let_go_of_the_dead(segment);
            if !self.is_alone && !lives {
                self.is_alone = true;
                messages::supervisor_is_gone(segment, say::say);
            }
            handlers::call_if_idle(&mut self.turns_seen);
            locks::look(segment);
        }
    }
}

fn sleep(segment: &Segment<'static>, seen: u32) {
    let word = segment.budget().signal_word(Signal::Pressure);
    futex::wait_low(word, seen, Timeout::Nanoseconds(SLEEP_NS), Scope::Shared);
}

/// From low down to high: look for new memory and reclaim.
fn work(segment: &Segment<'static>, scanner: &mut Scanner, chores: &mut Chores) {
    let Some(engine) = ENGINE.get() else { return };
    segment.counters().add(Counter::KswapdWakes, 1);
    let workspace: &mut Workspace = scanner.workspace;
    loop {
        chores.follow_files(segment, None);
        chores.look(segment);
        prefer_while_urgent(segment, &mut scanner.preferred);
        scanner.pages.scan_if_due(engine);
        if run(engine.kswapd_turn(workspace)) || state::pending_request().is_some() {
            return;
        }
        if chores.is_alone {
            return;
        }
    }
}

/// New memory must be found before much of it is touched, and what is over the budget must go. Else reclaim and the
/// program take turns: a program that waits for a whole round of reclaim has long stalls, and one that is faster than
/// reclaim is slowed down by its own faults.
fn prefer_while_urgent(segment: &Segment<'static>, now: &mut Preferred) {
    let budget = segment.budget();
    let urgent = budget.headroom() == Headroom::Wide || budget.used() > budget.ram();
    let wanted = if urgent { Preferred::Yes } else { Preferred::No };
    if *now != wanted {
        *now = wanted;
        handlers::prefer_this_thread(wanted);
    }
}
