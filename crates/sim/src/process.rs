//! One made-up process: its memory, its gate, its engine tasks, and its end.

use crate::executor::TaskId;
use crate::memory::{Access, Memory};
use crate::platform::{SimEngine, SimPlatform, SimSupervisor};
use crate::program::{self, Expected};
use crate::world::World;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use uswap_core::budget::Signal;
use uswap_core::mm::{Hands, MmState};
use uswap_engine::messages::FaultQueue;
use uswap_engine::platform::{Register, Touch};
use uswap_engine::{Engine, Workspace};
use uswap_units::{MmId, PageId, PageRange, TableId};

#[derive(Default)]
struct Gate {
    shared: u32,
    exclusive: bool,
    exclusive_waiting: u32,
    waiters: Vec<TaskId>,
}

/// One process.
pub struct Process<'a> {
    /// Its number in the world.
    pub number: usize,
    /// Its memory.
    pub memory: RefCell<Memory>,
    gate: RefCell<Gate>,
    /// Its record.
    pub mm: Cell<Option<MmId>>,
    /// Its engine, once it has one.
    pub engine: RefCell<Option<Rc<SimEngine<'a>>>>,
    /// Children whose fork has not returned yet.
    pub unborn: RefCell<Vec<Rc<Process<'a>>>>,
    /// It runs.
    pub alive: Cell<bool>,
    /// What its pages must hold.
    pub expected: RefCell<BTreeMap<u64, Expected>>,
    /// Reads and writes in progress by page.
    pub users: RefCell<BTreeMap<u64, u32>>,
    /// Ranges whose mapping is being changed.
    pub claimed: RefCell<Vec<PageRange>>,
    /// Ranges that calls are dropping which the engine follows.
    pub dropping: RefCell<Vec<PageRange>>,
    /// Threads in mremap with MREMAP_DONTUNMAP.
    pub moves_that_stay: Cell<u32>,
    /// Handlers that wait for messages.
    pub poll_waiters: RefCell<Vec<TaskId>>,
    /// Handlers that serve.
    pub serving: Cell<u64>,
    /// Program threads that have not ended.
    pub threads_running: Cell<usize>,
    /// Children that it serves.
    pub children: RefCell<Vec<usize>>,
    /// A child has touched its doorbell.
    pub doorbell: Cell<bool>,
    /// A child may go on with its own engine.
    pub handed_over: Cell<bool>,
    /// A child's parent died too early.
    pub orphaned: Cell<bool>,
    /// Swap files that it has open, a bit each.
    pub open: Cell<u64>,
    /// A task of the parent still works on this child's record.
    pub served_by_parent: Cell<bool>,
}

impl<'a> Process<'a> {
    /// A process with this memory and these expectations. Not yet alive.
    pub fn add(world: &Rc<World<'a>>, memory: Memory, expected: BTreeMap<u64, Expected>) -> Rc<Process<'a>> {
        let mut processes = world.processes.borrow_mut();
        let process = Rc::new(Process {
            number: processes.len(),
            memory: RefCell::new(memory),
            gate: RefCell::default(),
            mm: Cell::new(None),
            engine: RefCell::default(),
            unborn: RefCell::default(),
            alive: Cell::new(false),
            expected: RefCell::new(expected),
            users: RefCell::default(),
            claimed: RefCell::default(),
            dropping: RefCell::default(),
            moves_that_stay: Cell::new(0),
            poll_waiters: RefCell::default(),
            serving: Cell::new(0),
            threads_running: Cell::new(0),
            children: RefCell::default(),
            doorbell: Cell::new(false),
            handed_over: Cell::new(false),
            orphaned: Cell::new(false),
            open: Cell::new(0),
            served_by_parent: Cell::new(false),
        });
        processes.push(process.clone());
        process
    }

    /// Starts a process with nothing mapped. False: there is no record or no page for its table.
    pub fn start(world: &Rc<World<'a>>) -> bool {
        let segment = world.segment;
        let Some(mm) = segment.mms().take(Hands::Run) else { return false };
        let Ok(root) = segment.tables().allocate(mm.id()) else {
            mm.free();
            return false;
        };
        mm.set_root(root);
        let memory = Memory::with_arena(Process::arena_frames(world.options.engine.arena_chunks));
        let process = Process::add(world, memory, BTreeMap::new());
        process.mm.set(Some(mm.id()));
        process.alive.set(true);
        set_live(world, mm.id(), process.number);
        process.open_files(world);
        process.start_engine(world, mm.id(), root);
        process.start_tasks(world);
        program::start_threads(world, &process);
        true
    }

    /// The engine; the caller is one of its tasks, or knows that there is one.
    pub fn engine(&self) -> Rc<SimEngine<'a>> {
        self.engine.borrow().clone().expect("a process that manages memory has an engine")
    }

    /// Enters a shared section; whoever waits for the exclusive one goes first.
    pub async fn lock_shared(&self, world: &World<'_>) {
        loop {
            {
                let mut gate = self.gate.borrow_mut();
                if !gate.exclusive && gate.exclusive_waiting == 0 {
                    gate.shared += 1;
                    return;
                }
                gate.waiters.push(world.executor.current());
            }
            world.executor.park("the gate, shared", None).await;
        }
    }
    /// Leaves a shared section.
    pub fn unlock_shared(&self, world: &World<'_>) {
        let mut gate = self.gate.borrow_mut();
        assert!(gate.shared > 0);
        gate.shared -= 1;
        gate.waiters.drain(..).for_each(|task| world.executor.unpark(task));
    }
    /// Enters the exclusive section.
    pub async fn lock_exclusive(&self, world: &World<'_>) {
        self.gate.borrow_mut().exclusive_waiting += 1;
        loop {
            {
                let mut gate = self.gate.borrow_mut();
                if !gate.exclusive && gate.shared == 0 {
                    (gate.exclusive, gate.exclusive_waiting) = (true, gate.exclusive_waiting - 1);
                    return;
                }
                gate.waiters.push(world.executor.current());
            }
            world.executor.park("the gate, exclusive", None).await;
        }
    }
    /// Leaves the exclusive section.
    pub fn unlock_exclusive(&self, world: &World<'_>) {
        let mut gate = self.gate.borrow_mut();
        assert!(gate.exclusive);
        gate.exclusive = false;
        gate.waiters.drain(..).for_each(|task| world.executor.unpark(task));
    }
    /// True while nobody changes page words.
    pub fn gate_is_free(&self) -> bool {
        let gate = self.gate.borrow();
        !gate.exclusive && gate.shared == 0
    }

    /// Wakes handlers that wait for messages.
    pub fn wake_handlers(&self, world: &World<'_>) {
        self.poll_waiters.borrow_mut().drain(..).for_each(|task| world.executor.unpark(task));
    }

    /// Makes a page exclusive again as a write to it does. A missing page is a fault like any other. What is not the
    /// program's may lie beside it: only pages that MOVE refused may be asked for.
    pub async fn recover(&self, world: &World<'_>, page: PageId) {
        if !self.memory.borrow().refused.contains(&page.0) {
            return world
                .fail(format!("{page:?} of process {} is to be recovered and was not refused", self.number));
        }
        loop {
            world.executor.step().await;
            let access = self.memory.borrow_mut().touch(page, Touch::Write, world.executor.current());
            match access {
                Access::Missing => {
                    self.wake_handlers(world);
                    world.executor.park("a page that a fork left shared", None).await;
                }
                Access::Present(_) => {
                    if let Some(mapped) = self.memory.borrow_mut().pages.get_mut(&page.0) {
                        mapped.shared &= !mapped.writable;
                    }
                    return;
                }
                Access::Poisoned | Access::Unmapped => return,
            }
        }
    }

    /// Gives the process an engine with its tasks.
    pub fn start_engine(
        self: &Rc<Self>,
        world: &Rc<World<'a>>,
        mm: MmId,
        root: TableId,
    ) -> Rc<SimEngine<'a>> {
        let platform = SimPlatform { world: world.clone(), process: self.clone(), arena: self.clone() };
        let engine =
            Rc::new(Engine::new(world.segment.acting_as(mm), mm, root, platform, world.options.engine));
        *self.engine.borrow_mut() = Some(engine.clone());
        engine
    }

    /// Starts handlers and kswapd.
    pub fn start_tasks(self: &Rc<Self>, world: &Rc<World<'a>>) {
        for _ in 0..world.options.handlers {
            let task = handler(world.clone(), self.clone());
            world.executor.spawn("handler", Some(self.number), world.slowness(), task);
        }
        world.executor.spawn(
            "kswapd",
            Some(self.number),
            world.slowness(),
            kswapd(world.clone(), self.clone()),
        );
    }

    /// The process ends here and now; its record is cleaned up later.
    pub fn end(self: &Rc<Self>, world: &Rc<World<'a>>) {
        if !self.alive.replace(false) {
            return;
        }
        world.note(format_args!("process {} ends", self.number));
        world.executor.end_tasks_of(self.number);
        for child in self.children.take() {
            let child = world.processes.borrow()[child].clone();
            child.lose_parent(world);
        }
        *self.memory.borrow_mut() = Memory::default();
        *self.engine.borrow_mut() = None;
        self.threads_running.set(0);
        world.executor.spawn("reaper", None, world.slowness(), reap(world.clone(), self.clone()));
    }

    /// The descriptor of a child that is not ready closes with its parent: what is missing reads as zeros from now on.
    fn lose_parent(self: &Rc<Self>, world: &Rc<World<'a>>) {
        self.served_by_parent.set(false);
        if self.alive.get() && !self.handed_over.get() {
            self.orphaned.set(true);
            self.close_descriptor(world);
        }
    }

    /// The userfaultfd of the process is closed: nothing is registered any more.
    pub fn close_descriptor(&self, world: &World<'_>) {
        let mut memory = self.memory.borrow_mut();
        memory.pages.values_mut().for_each(|page| page.registered = false);
        memory.all_waiters().into_iter().for_each(|task| world.executor.unpark(task));
    }
}

async fn reap<'a>(world: Rc<World<'a>>, process: Rc<Process<'a>>) {
    world.sleep_up_to(5_000_000).await;
    while process.served_by_parent.get() {
        world.sleep_up_to(100_000).await;
    }
    if let Some(mm) = process.mm.get() {
        let supervisor = SimSupervisor { world: &world };
        uswap_engine::reaper::drop_mm(world.segment, &supervisor, mm);
        uswap_engine::reaper::give_back_clusters(world.segment, &supervisor);
        world.note(format_args!("{mm:?} is reaped"));
        process.mm.set(None);
    }
}

async fn handler<'a>(world: Rc<World<'a>>, process: Rc<Process<'a>>) {
    let engine = process.engine();
    let mut workspace = Box::new(Workspace::new());
    let mut queue = FaultQueue::new();
    while !world.stopping_handlers.get() || !queue.is_empty() {
        let count = engine.take_messages(&mut queue, &mut workspace).await;
        if !queue.is_empty() {
            process.serving.set(process.serving.get() + 1);
            let goes_on = engine.serve_queue(&mut queue, &mut workspace).await;
            process.serving.set(process.serving.get() - 1);
            if !goes_on {
                return;
            }
            if !queue.is_empty() {
                world.sleep_up_to(400_000).await;
            }
        } else if count == 0 && !process.memory.borrow().has_messages() {
            process.poll_waiters.borrow_mut().push(world.executor.current());
            let until = world.executor.now_ns() + 10_000_000 * world.options.calm();
            world.executor.park("messages", Some(until)).await;
        }
    }
}

async fn kswapd<'a>(world: Rc<World<'a>>, process: Rc<Process<'a>>) {
    let engine = process.engine();
    let mut workspace = Box::new(Workspace::new());
    while !world.stopping.get() {
        let budget = world.segment.budget();
        let seen = budget.signal_count(Signal::Pressure);
        process.follow_files(&world);
        if budget.used() > engine.watermarks().low {
            take_under_management(&world, &process, &engine).await;
        }
        if engine.kswapd_turn(&mut workspace).await {
            world.wait(Signal::Pressure, seen, 4_000_000 * world.options.calm()).await;
        }
    }
}

/// Scans the mappings for memory that nobody manages, and activates it: words, registration, look again, activate.
async fn take_under_management<'a>(world: &World<'a>, process: &Process<'a>, engine: &SimEngine<'a>) {
    let mut runs: Vec<PageRange> = Vec::new();
    for (&page, mapped) in &process.memory.borrow().pages {
        if !mapped.writable || engine.is_managed(PageId(page)) {
            continue;
        }
        match runs.last_mut() {
            Some(run) if run.end.0 == page => run.end = PageId(page + 1),
            _ => runs.push(PageRange { start: PageId(page), end: PageId(page + 1) }),
        }
    }
    if runs.is_empty() {
        return;
    }
    world.sleep_up_to(30_000).await;
    // The whole mapping is registered as soon as it is seen, so that its first touches come to us; words are made only
    // where pages are.
    for run in &runs {
        let _nothing_mapped_any_more = engine.register(*run).await;
        world.executor.step().await;
    }
    runs.retain(|_| world.below(4) > 0);
    if engine.adopt(&runs).await.is_err() {
        world.count("page tables full", 1);
    }
    for run in runs {
        world.executor.step().await;
        let registered = engine.register(run).await == Register::Done;
        world.executor.step().await;
        // Registering skips holes. A mapping that fills a hole afterwards is not ours, and no event would tell.
        if registered && process.is_registered(run) {
            engine.activate(&[run]).await;
        } else {
            world.count("ranges changed before they were registered", 1);
            engine.abandon(&[run]).await;
        }
    }
}

impl Process<'_> {
    /// True when every page of a range is mapped and registered.
    pub fn is_registered(&self, range: PageRange) -> bool {
        let memory = self.memory.borrow();
        memory.pages.range(range.start.0..range.end.0).filter(|(_, page)| page.registered).count() as u64
            == range.pages()
    }
    /// Frames of an arena.
    pub fn arena_frames(chunks: u32) -> usize {
        uswap_engine::arena_frames(chunks) as usize
    }
}

/// Marks a record as that of a running process.
pub fn set_live(world: &World<'_>, mm: MmId, number: usize) {
    world.segment.mms().record(mm).set_state(MmState::Live, number as u32 + 100);
}
