//! Serves forked children until they have an engine of their own.
//!
//! A child whose doorbell does not ring (made by a raw system call, so that no fork handler ran) gets all its missing pages after a while, and then lives without uswap.

use crate::fork;
use crate::remote::RemotePlatform;
use crate::state::{self, ENGINE};
use crate::sync::run;
use core::sync::atomic::{AtomicU64, Ordering};
use uswap_core::counters::Counter;
use uswap_engine::fault::FaultOutcome;
use uswap_engine::reclaim::Patience;
use uswap_engine::reaper;
use uswap_engine::{Engine, EngineOptions, Workspace};
use uswap_os::clock;
use uswap_os::fd::{self, Event, PollEntry, Timeout};
use uswap_os::thread::{self, Files, StackArea};
use uswap_os::uffd::{Features, Message, Uffd, UffdMsg};
use uswap_units::{MmId, PageId};

pub static STACK: StackArea = StackArea::new(128 * 1024);

/// Children at once. More wait in the kernel until a place is free: their parents' forks take longer.
const CHILDREN_MAX: usize = 16;

/// A child that has not rung by then gets everything at once.
const RING_TIMEOUT_NS: u64 = 1_000_000_000;

/// New children: descriptor + 1 in the high half, record + 1 in the low one (0: the parent had no room for its page table).
static NEW: [AtomicU64; CHILDREN_MAX] = [const { AtomicU64::new(0) }; CHILDREN_MAX];
static BELL: state::Slot<Event> = state::Slot::new();

struct Child {
    uffd: Uffd,
    engine: Engine<'static, RemotePlatform>,
    mm: MmId,
    deadline_ns: u64,
}

/// Starts forkd, if the kernel reports forks.
pub fn start() {
    if !fork::forks_reported() {
        return;
    }
    if let Ok(event) = Event::new() {
        BELL.set(event);
        if let Err(errno) = thread::spawn(&STACK, forkd, 0, Files::Shared) {
            crate::fatal(format_args!("the thread that serves forked children cannot be started: {errno}"));
        }
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
    let Some(child) = child else {
        // Without a page table the child would read zeros. Its descriptor stays open and unserved only if there is no better way: end it by closing nothing.
        crate::fatal(format_args!(
            "a child was forked, but the page tables of the run are full: the process is ended before its child can read wrong data"
        ))
    };
    let value = ((descriptor as u64 + 1) << 32) | (u64::from(child.0) + 1);
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
                // Dropping the descriptor ends the child's registration.
                *place = None;
                parent.end_handover();
            }
        }
    }
}

fn take_new(parent: &'static state::AgentEngine) -> Option<Child> {
    let value = NEW.iter().map(|place| place.swap(0, Ordering::AcqRel)).find(|&value| value != 0)?;
    let (descriptor, mm) = ((value >> 32) as i32 - 1, MmId((value as u32 - 1) as u16));
    let uffd = Uffd::from_raw_fd(descriptor, Features::EVENTS);
    let root = parent.segment().mms().record(mm).root().expect("a cloned record has a table");
    let remote = RemotePlatform { descriptor, parent: parent.platform() };
    let engine = Engine::new(parent.segment(), mm, root, remote, EngineOptions { arena_chunks: 0 });
    engine.stop_evicting();
    Some(Child { uffd, engine, mm, deadline_ns: clock::now_ns() + RING_TIMEOUT_NS })
}

/// Serves what a child waits for. True when the child needs its parent no more.
fn serve(child: &Child, parent: &'static state::AgentEngine, workspace: &mut Workspace) -> bool {
    let mut messages = [UffdMsg::EMPTY; 8];
    let count = child.uffd.read(&mut messages).unwrap_or(0);
    for message in &messages[..count] {
        let Message::Fault { address, .. } = message.decode(Features::EVENTS) else {
            // Before its fork handler has run, a child does not change its mappings; one made by a raw call may. What it drops is its own loss of memory only.
            continue;
        };
        if address == fork::doorbell() {
            let _filled = child.uffd.copy_page(address, &fork::answer(child.mm), uswap_os::uffd::Wake::Later);
            return true;
        }
        parent.segment().counters().add(Counter::ForkServed, 1);
        let page = PageId::of_address(address as u64);
        loop {
            match run(child.engine.serve_fault(page, Patience::Over, workspace)) {
                FaultOutcome::Served(_) => break,
                FaultOutcome::Retry => thread::yield_now(),
                FaultOutcome::Gone => return end_child(child, parent),
            }
        }
    }
    if is_gone(child) {
        return end_child(child, parent);
    }
    clock::now_ns() > child.deadline_ns && bring_home(child, parent, workspace)
}

fn is_gone(child: &Child) -> bool {
    matches!(
        child.uffd.no_event_pending(state::ENGINE.get().map_or(0, |engine| engine.platform().probe)),
        Err(uswap_os::uffd::Stop::Gone)
    )
}

fn end_child(child: &Child, parent: &'static state::AgentEngine) -> bool {
    reaper::drop_mm(parent.segment(), parent.platform(), child.mm);
    true
}

/// The child did not ring: fills everything that it misses, and lets it go.
fn bring_home(child: &Child, parent: &'static state::AgentEngine, workspace: &mut Workspace) -> bool {
    match run(child.engine.bring_all_home(workspace)) {
        Some(0) | None => end_child(child, parent),
        Some(_) => false,
    }
}
