//! The threads that read messages and serve faults: one leads, the others wait to take over.
//!
//! The leader reads and serves in turn, because most faults take less time than handing them to another thread would.
//! Before it waits for the disk or reclaims, it passes the lead on. So several faults are in flight, and events are
//! always read by someone.

use crate::state::{self, AgentEngine, ENGINE};
use crate::sync::run;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use uswap_engine::Workspace;
use uswap_engine::messages::FaultQueue;
use uswap_os::fd::{self, Event, PollEntry, Timeout};
use uswap_os::gate::Lock;
use uswap_os::thread::{self, Files, StackArea};
use uswap_os::{clock, memory};

/// Handlers of a process. Each may wait for one slow fault; 4 * (56 KiB workspace + touched stack) is about 300 KiB
/// when all are busy.
pub const HANDLERS: usize = 4;

/// Stack of an engine thread. Futures of the engine live on it; measured use is below 24 KiB.
pub const STACK_BYTES: usize = 128 * 1024;

/// Faults that could not be served are tried again after this time, or when the next message comes.
const PUT_OFF_NS: u64 = 50_000;
const PUT_OFF: Timeout = Timeout::Nanoseconds(PUT_OFF_NS);

/// Processor time is read once in so many turns: a reading costs 0.1 us, a turn 4.
const CPU_COUNT_TURNS: u32 = 64;

pub static STACKS: [StackArea; HANDLERS] = [const { StackArea::new(STACK_BYTES) }; HANDLERS];

static LEAD: Lock = Lock::new();
/// Thread id of the leader; 0 while there is none.
static LEADER: AtomicU32 = AtomicU32::new(0);
/// Handlers that wait for the lead.
static FOLLOWERS: AtomicU32 = AtomicU32::new(0);
/// Handlers whose buffers hold memory.
static WITH_BUFFERS: AtomicU32 = AtomicU32::new(0);
/// Turns of leaders: who sees it unchanged knows that no fault came.
static TURNS: AtomicU32 = AtomicU32::new(0);
static STOPPING: AtomicBool = AtomicBool::new(false);
/// Raised to make the leader look at `STOPPING`, or, if that is not set, give the memory of its buffers back.
static CALL: state::Slot<Event> = state::Slot::new();

/// Opens what the handlers need. False: no descriptor is free.
pub fn prepare() -> bool {
    Event::new().map(|event| CALL.set(event)).is_ok()
}

/// Starts the handlers; they share the descriptor table of the caller (kswapd).
pub fn start() -> bool {
    STOPPING.store(false, Ordering::Release);
    // In a forked child they are inherited.
    WITH_BUFFERS.store(HANDLERS as u32, Ordering::Release);
    CALL.get().is_some()
        && STACKS
            .iter()
            .enumerate()
            .all(|(number, stack)| thread::spawn(stack, handler, number, Files::Shared).is_ok())
}

/// Ends the handlers and waits for them. Everything must have come home.
pub fn stop() {
    STOPPING.store(true, Ordering::Release);
    call();
    for stack in &STACKS {
        stack.join(Timeout::Forever);
    }
}

fn call() {
    if let Some(event) = CALL.get() {
        event.raise();
    }
}

/// Makes a leader that had nothing to do since the last look give its buffers back. A leader that waited for that with
/// a timeout would set a timer for each fault, and take it back: 0.5 us of 15. `seen`: turns at the last look.
pub fn call_if_idle(seen: &mut u32) {
    let turns = TURNS.load(Ordering::Relaxed);
    if core::mem::replace(seen, turns) == turns && WITH_BUFFERS.load(Ordering::Relaxed) > 0 {
        call();
    }
}

/// In a forked child: there are no handlers.
pub fn reset_after_fork() {
    CALL.clear();
    LEAD.reset();
    LEADER.store(0, Ordering::Relaxed);
    FOLLOWERS.store(0, Ordering::Relaxed);
    for stack in &STACKS {
        // SAFETY: 1. a forked child has only the thread that forked.
        unsafe { stack.reset_after_fork() };
    }
}

/// The calling thread is about to wait: passes the lead on if it has it. False if it leads and nobody can take over, so
/// that it must not wait for something that only a message can bring.
pub fn let_another_lead() -> bool {
    if LEADER.load(Ordering::Relaxed) != thread::thread_id() {
        return true;
    }
    if FOLLOWERS.load(Ordering::Acquire) == 0 {
        return false;
    }
    LEADER.store(0, Ordering::Relaxed);
    LEAD.unlock_forgotten();
    true
}

/// Whether a thread of the engine goes before those of the program, where the user may say so.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Preferred {
    /// While it waits for a processor, a thread of the program waits for it.
    Yes,
    No,
}

/// For the calling thread.
pub fn prefer_this_thread(preferred: Preferred) {
    let nice = if preferred == Preferred::Yes { -15 } else { 0 };
    let _only_root_may = thread::set_nice(thread::thread_id(), nice);
}

fn leads(thread: u32) -> bool {
    LEADER.load(Ordering::Relaxed) == thread
}

fn take_lead(thread: u32) {
    FOLLOWERS.fetch_add(1, Ordering::AcqRel);
    core::mem::forget(LEAD.lock());
    FOLLOWERS.fetch_sub(1, Ordering::AcqRel);
    LEADER.store(thread, Ordering::Relaxed);
}

extern "C" fn handler(number: usize) {
    thread::set_name(c"uswap-handler");
    // As the program's threads, and not as kswapd, from which it inherits: while one thread of the program waits the
    // others go on until they wait too, and then all are served with one switch.
    prefer_this_thread(Preferred::No);
    let Some(engine) = ENGINE.get() else { return };
    // SAFETY: 1. handler `number` runs on stack `number`, one thread at a time.
    let workspace = unsafe { state::workspace(state::WorkspaceOf::Handler(number)) };
    let mut faults = FaultQueue::new();
    let this_thread = thread::thread_id();
    let (mut turns, mut counted_ns, mut has_buffers) = (0_u32, 0, true);
    let mut guess = Guess { turns_left: 0, pause_turns: 0 };
    loop {
        turns += 1;
        if turns.is_multiple_of(CPU_COUNT_TURNS) {
            state::count_cpu(&mut counted_ns);
        }
        // What this thread has read it serves itself, also after it has passed the lead on.
        if faults.is_empty() || leads(this_thread) {
            if !leads(this_thread) {
                take_lead(this_thread);
            }
            TURNS.store(TURNS.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
            let at_once = faults.is_empty() && guess.is_there();
            let timeout = if faults.is_empty() { Timeout::Forever } else { PUT_OFF };
            let came = if at_once { Came::Messages } else { wait_for_messages(engine, timeout) };
            if STOPPING.load(Ordering::Acquire) {
                break;
            }
            if came == Came::Call {
                if !take_call() {
                    break;
                }
                give_buffers_back(workspace, &mut has_buffers);
                continue;
            }
            let count = run(engine.take_messages(&mut faults, workspace));
            if at_once {
                guess.note(count > 0);
            }
        } else {
            clock::sleep_ns(PUT_OFF_NS);
        }
        if !has_buffers && !faults.is_empty() {
            has_buffers = true;
            WITH_BUFFERS.fetch_add(1, Ordering::Relaxed);
        }
        if !run(engine.serve_queue(&mut faults, workspace)) {
            break;
        }
    }
    if leads(this_thread) {
        LEADER.store(0, Ordering::Relaxed);
        LEAD.unlock_forgotten();
    }
}

/// The leader had nothing to do: gives the memory of its buffers back, and lets another lead who has not done that yet.
fn give_buffers_back(workspace: &mut Workspace, has_buffers: &mut bool) {
    if core::mem::take(has_buffers) {
        for (start, bytes) in workspace.large_buffers() {
            // SAFETY:
            // 1. The range lies in the workspace, to which the caller has the only reference, and holds numbers that
            //    are used within one call only: zeros are as good as what was there.
            let _stays_as_it_is = unsafe { memory::drop_pages(start, bytes) };
        }
        WITH_BUFFERS.fetch_sub(1, Ordering::Relaxed);
    }
    if WITH_BUFFERS.load(Ordering::Relaxed) > 0 && let_another_lead() {
        // Time for the other to take it.
        clock::sleep_ns(1_000_000);
    }
}

/// Whether the next message is there when the fault before it has been served. Who is woken on our processor runs
/// before we do, and may be at its next fault: then there is no need to ask the kernel before reading, which costs 1 us
/// of a fault.
struct Guess {
    /// Not before so many turns.
    turns_left: u32,
    /// So many they were after the last miss; twice as many after the next one.
    pause_turns: u32,
}

const PAUSE_TURNS_MAX: u32 = 64;

impl Guess {
    fn is_there(&mut self) -> bool {
        let tries = self.turns_left == 0;
        self.turns_left = self.turns_left.saturating_sub(1);
        tries
    }

    fn note(&mut self, was_there: bool) {
        self.pause_turns = if was_there { 0 } else { (self.pause_turns * 2 + 1).min(PAUSE_TURNS_MAX) };
        self.turns_left = self.pause_turns;
    }
}

/// Why a leader goes on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Came {
    /// There may be messages, or faults that were put off are to be tried again.
    Messages,
    /// It is called, and nothing else.
    Call,
}

fn wait_for_messages(engine: &AgentEngine, timeout: Timeout) -> Came {
    let Some(called) = CALL.get() else { return Came::Messages };
    let mut entries = [PollEntry::readable(engine.platform().app.fd()), PollEntry::readable(called.fd())];
    let _interrupted = fd::poll(&mut entries, timeout);
    if entries[1].is_readable() && !entries[0].is_readable() { Came::Call } else { Came::Messages }
}

/// Takes a call. False: it may have been the call to stop, which is passed on to the other handlers.
fn take_call() -> bool {
    let Some(event) = CALL.get() else { return true };
    let _how_often = event.clear();
    // Who stops us says so before it calls.
    if STOPPING.load(Ordering::Acquire) {
        event.raise();
        return false;
    }
    true
}
