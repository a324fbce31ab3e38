//! Serves forked children until they have an engine of their own.
//!
//! A child whose doorbell does not ring (made by a raw system call, so that no fork handler ran) gets all its missing
//! pages after a while, and then lives without uswap.

use crate::fork::{self, Answer};
use crate::remote::RemotePlatform;
use crate::state::{self, ENGINE};
use crate::sync::run;
use core::sync::atomic::{AtomicU64, Ordering};
use uswap_core::counters::Counter;
use uswap_engine::fault::FaultOutcome;
use uswap_engine::platform::Touch;
use uswap_engine::reaper;
use uswap_engine::throttle::Patience;
use uswap_engine::{Engine, EngineOptions, Workspace};
use uswap_os::clock;
use uswap_os::fd::{self, Event, PollEntry, Timeout};
use uswap_os::thread::{self, Files, StackArea};
use uswap_os::uffd::{Features, Message, Stop, Uffd, UffdMsg, Wake};
use uswap_units::{MmId, PageId};

/// The children, a few copies of one on its way, and as much as other engine threads have. What is not touched takes no
/// memory.
const STACK_BYTES: usize =
    ((CHILDREN_MAX + 8) * size_of::<Child>()).next_multiple_of(4096) + crate::handlers::STACK_BYTES;

pub static STACK: StackArea = StackArea::new(STACK_BYTES);

/// Children at once. More wait in the kernel until a place is free: their parents' forks take longer.
const CHILDREN_MAX: usize = 16;

/// A child that has not rung by then gets everything at once.
const RING_TIMEOUT_NS: u64 = 1_000_000_000;

/// So often an answer is tried: other children wait meanwhile.
const ANSWER_TRIES: u32 = 1000;

/// New children: descriptor + 1 in the high half, record + 1 in the low one (0: the parent had no room for its page
/// table).
static NEW: [AtomicU64; CHILDREN_MAX] = [const { AtomicU64::new(0) }; CHILDREN_MAX];
static BELL: state::Slot<Event> = state::Slot::new();

/// A child as its parent sees it.
struct Child {
    uffd: Uffd,
    /// None: there was no room for its page table. It cannot be served, and is ended before it can read wrong data.
    kept: Option<Kept>,
    deadline_ns: u64,
}

struct Kept {
    engine: Engine<'static, RemotePlatform>,
    mm: MmId,
}

/// Opens what forkd needs. False: no descriptor is free.
pub fn prepare() -> bool {
    Event::new().map(|event| BELL.set(event)).is_ok()
}

/// Starts forkd, if the kernel reports forks.
pub fn start() {
    if fork::forks_reported()
        && let Err(errno) = thread::spawn(&STACK, forkd, 0, Files::Shared)
    {
        crate::fatal(format_args!("the thread that serves forked children cannot be started: {errno}"));
    }
}

/// In a forked child: there is no forkd.
pub fn reset_after_fork() {
    BELL.clear();
    for new in &NEW {
        new.store(0, Ordering::Relaxed);
    }
    // SAFETY: 1. a forked child has only the thread that forked.
    unsafe { STACK.reset_after_fork() };
}

/// A handler has read a fork message and cloned the page table.
pub fn hand_over(descriptor: i32, child: Option<MmId>) {
    let record = child.map_or(0, |mm| u64::from(mm.0) + 1);
    let value = ((descriptor as u64 + 1) << 32) | record;
    loop {
        for place in &NEW {
            if place.compare_exchange(0, value, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                if let Some(bell) = BELL.get() {
                    bell.raise();
                }
                return;
            }
        }
        thread::yield_now();
    }
}

extern "C" fn forkd(_: usize) {
    thread::set_name(c"uswap-forkd");
    let (Some(bell), Some(parent)) = (BELL.get(), ENGINE.get()) else { return };
    let mut children: [Option<Child>; CHILDREN_MAX] = [const { None }; CHILDREN_MAX];
    // SAFETY: 1. there is one forkd.
    let workspace = unsafe { state::workspace(state::WorkspaceOf::Forkd) };
    loop {
        let mut entries = [const { PollEntry::NONE }; CHILDREN_MAX + 1];
        entries[0] = PollEntry::readable(bell.fd());
        let mut waiting = false;
        for (entry, child) in entries[1..].iter_mut().zip(&children) {
            if let Some(child) = child {
                *entry = PollEntry::readable(child.uffd.fd());
                waiting = true;
            }
        }
        let timeout = if waiting { Timeout::Nanoseconds(20_000_000) } else { Timeout::Forever };
        let _interrupted_or_ready = fd::poll(&mut entries, timeout);
        bell.clear();
        for place in &mut children {
            if place.is_none() {
                *place = take_new(parent);
            }
            if let Some(child) = place
                && serve(child, parent, workspace)
            {
                if child.kept.is_some() {
                    parent.end_handover();
                }
                // Dropping the descriptor ends the child's registration.
                *place = None;
            }
        }
    }
}

fn take_new(parent: &'static state::AgentEngine) -> Option<Child> {
    let value = NEW.iter().map(|place| place.swap(0, Ordering::AcqRel)).find(|&value| value != 0)?;
    let descriptor = (value >> 32) as i32 - 1;
    let uffd = Uffd::from_raw_fd(descriptor, Features::EVENTS);
    let kept = (value as u32).checked_sub(1).map(|mm| {
        let mm = MmId(mm as u16);
        let root = parent.segment().mms().record(mm).root().expect("a cloned record has a table");
        let remote = RemotePlatform { descriptor, parent: parent.platform() };
        let options = EngineOptions::of_budget(parent.segment().budget().ram(), 0);
        let engine = Engine::new(parent.segment(), mm, root, remote, options);
        engine.stop_evicting();
        Kept { engine, mm }
    });
    Some(Child { uffd, kept, deadline_ns: clock::now_ns() + RING_TIMEOUT_NS })
}

/// Serves what a child waits for. True when the child needs its parent no more.
fn serve(child: &Child, parent: &'static state::AgentEngine, workspace: &mut Workspace) -> bool {
    let mut messages = [UffdMsg::EMPTY; 8];
    let count = child.uffd.read(&mut messages).unwrap_or(0);
    for message in &messages[..count] {
        let Message::Fault { address, write, .. } = message.decode(Features::EVENTS) else {
            // Before its fork handler has run, a child does not change its mappings. One made by a raw call may: what
            // it drops is its own.
            continue;
        };
        if address == fork::doorbell() {
            let answer = child.kept.as_ref().map_or(Answer::Refused, |kept| Answer::Record(kept.mm));
            give_answer(child, answer);
            return true;
        }
        let Some(kept) = &child.kept else {
            let _ends_it = child.uffd.poison(address, uswap_units::PAGE_BYTES);
            continue;
        };
        parent.segment().counters().add(Counter::ForkServed, 1);
        let touch = Touch::that(write);
        if !serve_fault(kept, PageId::of_address(address as u64), touch, workspace) {
            return end_child(kept, parent);
        }
    }
    let Some(kept) = &child.kept else { return is_gone(child) };
    if is_gone(child) {
        return end_child(kept, parent);
    }
    clock::now_ns() > child.deadline_ns && bring_home(child, kept, parent, workspace)
}

/// False: the child is gone.
fn serve_fault(kept: &Kept, page: PageId, touch: Touch, workspace: &mut Workspace) -> bool {
    loop {
        match run(kept.engine.serve_fault(page, touch, Patience::Over, workspace)) {
            FaultOutcome::Served(_) => return true,
            FaultOutcome::Retry => thread::yield_now(),
            FaultOutcome::Gone => return false,
        }
    }
}

fn is_gone(child: &Child) -> bool {
    let probe = state::ENGINE.get().map_or(0, |engine| engine.platform().probe);
    matches!(child.uffd.no_event_pending(probe), Err(Stop::Gone))
}

/// Fills the doorbell. A child without an answer ends itself, so a refusal that passes (no memory just now) is not the
/// last word.
fn give_answer(child: &Child, answer: Answer) {
    for _ in 0..ANSWER_TRIES {
        match child.uffd.copy_page(fork::doorbell(), &answer.page(), Wake::Later).stop {
            Some(Stop::Retry | Stop::Other(uswap_os::Errno::ENOMEM)) => thread::yield_now(),
            _filled_or_gone => return,
        }
    }
}

fn end_child(kept: &Kept, parent: &'static state::AgentEngine) -> bool {
    reaper::drop_mm(parent.segment(), parent.platform(), kept.mm);
    true
}

/// The child did not ring: fills everything that it misses, and lets it go. One that was only slow finds the answer
/// when it rings.
fn bring_home(
    child: &Child,
    kept: &Kept,
    parent: &'static state::AgentEngine,
    workspace: &mut Workspace,
) -> bool {
    match run(kept.engine.bring_all_home(workspace)) {
        Some(0) => {
            let ended = end_child(kept, parent);
            // The last thing before its descriptor is closed: a child that rings late must find its memory free of our
            // registration when it makes its own.
            give_answer(child, Answer::Home);
            ended
        }
        None => end_child(kept, parent),
        Some(_) => false,
    }
}
