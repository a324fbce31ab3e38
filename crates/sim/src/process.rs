//! One simulated process as `host` has it: its memory, its gate, its engine, and its end.

use crate::content::{Version, page_of};
use crate::engine::{AddressSpace, Evictor, FaultOutcome, Touch, Workspace};
use crate::kernel_side::KernelSide;
use crate::lending::LendingPool;
use crate::memory::Memory;
use crate::oracle::{Expected, Oracle};
use crate::seam::{SimMemory, Space};
use crate::world::World;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use uswap_core::mm::MmState;
use uswap_core::page_table::ALL_PAGES;
use uswap_units::{Bytes, MmId, PageId, PageRange, TableId};

/// A page that was brought may be protected once more, by an evictor that had seen that it was missing.
const BRING_ROUNDS_MAX: u32 = 64;

/// Where a process stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// It has a place in the run; nothing is registered.
    Watching,
    /// Its memory is managed.
    Active,
    /// Everything came home, and stays.
    Home,
}

/// One process.
pub struct Process<'a> {
    /// Its number in the world.
    pub number: usize,
    /// Its memory, its gate, and what else its engine sees.
    pub kernel: Rc<KernelSide>,
    /// What its memory must hold.
    pub oracle: Oracle,
    /// Its record.
    pub mm: Cell<Option<MmId>>,
    /// The record is its own: a forked child takes it over first.
    pub has_claimed: Cell<bool>,
    /// Where it stands.
    pub phase: Cell<Phase>,
    space: RefCell<Option<Rc<Space<'a>>>>,
    /// It runs.
    pub alive: Cell<bool>,
    /// Pages that the kernel may touch at any time.
    pub kept: RefCell<Vec<PageId>>,
    /// Ranges that are never managed, as stacks.
    pub left_alone: RefCell<Vec<PageRange>>,
    /// Workspaces for faults.
    pub workspaces: LendingPool<Workspace>,
    /// Its evictors.
    pub evictors: LendingPool<Evictor>,
    /// Program threads that have not ended.
    pub threads_running: Cell<usize>,
}

impl<'a> Process<'a> {
    /// A process with this memory and these expectations. Not yet alive.
    pub fn new(
        world: &World<'a>,
        number: usize,
        memory: Memory,
        expected: BTreeMap<u64, Expected>,
    ) -> Process<'a> {
        Process {
            number,
            kernel: Rc::new(KernelSide::new(memory)),
            oracle: Oracle::new(number, expected),
            mm: Cell::new(None),
            has_claimed: Cell::new(false),
            phase: Cell::new(Phase::Watching),
            space: RefCell::default(),
            alive: Cell::new(false),
            kept: RefCell::default(),
            left_alone: RefCell::default(),
            workspaces: world.spare.workspaces(),
            evictors: world.spare.evictors(),
            threads_running: Cell::new(0),
        }
    }

    /// Its record is its own from now on, and it has an engine.
    pub fn join(&self, world: &Rc<World<'a>>, mm: MmId, root: TableId) {
        self.has_claimed.set(true);
        let record = world.segment.mms().record(mm);
        record.set_state(MmState::Live, self.number as u32 + 100);
        self.kernel.open_files(world, mm);
        let memory = SimMemory { world: world.clone(), kernel: self.kernel.clone() };
        // Pages that come along with one depend on the budget, which is tiny here.
        let budget = world.segment.budget();
        let ram = budget.ram();
        budget.set_ram(Bytes::of_pages(256 * world.options.readahead_pages));
        let space = AddressSpace::new(world.segment.acting_as(mm), mm, root, memory);
        budget.set_ram(ram);
        *self.space.borrow_mut() = Some(Rc::new(space));
    }

    /// The engine, if it has one.
    pub fn try_space(&self) -> Option<Rc<Space<'a>>> {
        self.space.borrow().clone()
    }
    /// The engine of a process that has joined.
    pub fn space(&self) -> Rc<Space<'a>> {
        self.try_space().expect("a process that has joined has an engine")
    }
    /// The engine, while memory is managed.
    pub fn managed_space(&self) -> Option<Rc<Space<'a>>> {
        self.try_space().filter(|_| self.phase.get() == Phase::Active)
    }

    /// Enters the exclusive section at a moment when nobody works on a managed page of these ranges.
    pub async fn lock_alone_with(&self, world: &World<'_>, space: &Space<'a>, ranges: &[PageRange]) {
        loop {
            self.kernel.lock_exclusive(world).await;
            let Some(page) = ranges.iter().find_map(|&range| space.first_locked(range)) else { return };
            self.kernel.unlock_exclusive(world);
            space.wait_unlocked(page).await;
        }
    }

    /// Makes room if memory is short, and brings a page.
    pub async fn fault_in(
        &self,
        world: &World<'a>,
        space: &Space<'a>,
        page: PageId,
        touch: Touch,
    ) -> FaultOutcome {
        if space.is_short() && space.is_managed(page) {
            space.make_room(|| self.evictors.try_borrow(&world.executor)).await;
        }
        let mut workspace = self.workspaces.borrow(&world.executor).await;
        space.fault(page, touch, &mut workspace).await
    }

    /// Brings the managed pages of a range, as if they were touched so.
    pub async fn fault_in_range(&self, world: &World<'a>, space: &Space<'a>, range: PageRange, touch: Touch) {
        let mut rest = range;
        while let Some(first) = space.page_table().first_managed(rest) {
            for _ in 0..BRING_ROUNDS_MAX {
                if space.is_ready(first, touch)
                    || self.fault_in(world, space, first, touch).await == FaultOutcome::Lost
                {
                    break;
                }
                world.executor.step().await;
            }
            rest = rest.rest_from(first.plus(1));
        }
    }

    /// The managed pages of a range are brought, may be written, and stay.
    pub async fn pin_range(&self, world: &World<'a>, space: &Space<'a>, range: PageRange) {
        self.kernel.lock_exclusive(world).await;
        space.pin(range);
        self.kernel.unlock_exclusive(world);
        self.fault_in_range(world, space, range, Touch::Write).await;
    }

    /// Writes a page that was found present.
    pub fn write_now(&self, world: &World<'_>, page: PageId, version: Version) {
        self.kernel.memory.borrow_mut().write(page, page_of(version));
        self.oracle.expect(page, version);
        world.note(format_args!("write {page:?} = {version}"));
    }

    /// Everything comes home, and the kernel serves its faults from then on.
    pub async fn let_go(&self, world: &World<'a>, space: &Space<'a>) {
        space.hold_evicting();
        loop {
            while let Some(page) = space.first_away(ALL_PAGES) {
                if self.fault_in(world, space, page, Touch::Write).await == FaultOutcome::Lost {
                    // The program gets its signal, and this ends.
                    return space.resume_evicting();
                }
            }
            self.kernel.lock_exclusive(world).await;
            if space.first_away(ALL_PAGES).is_none() {
                break;
            }
            self.kernel.unlock_exclusive(world);
        }
        if self.phase.get() == Phase::Active {
            world.note(format_args!("the memory of process {} came home", self.number));
            world.count("processes that came home", 1);
            self.kernel.memory.borrow_mut().unregister(ALL_PAGES);
            self.phase.set(Phase::Home);
        }
        self.kernel.unlock_exclusive(world);
    }

    /// The process ends here and now; its record is cleaned up later.
    pub fn end(&self, world: &World<'a>) {
        if !self.alive.replace(false) {
            return;
        }
        world.note(format_args!("process {} ends", self.number));
        world.executor.end_tasks_of(self.number);
        *self.kernel.memory.borrow_mut() = Memory::default();
        self.oracle.expected.borrow_mut().clear();
        self.forget_space();
        self.threads_running.set(0);
        world.spare.take_back(&self.workspaces, &self.evictors);
    }

    /// Nothing of it runs any more.
    pub fn forget_space(&self) {
        *self.space.borrow_mut() = None;
    }
}
