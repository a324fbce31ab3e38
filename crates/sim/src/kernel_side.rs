//! One process as its engine finds it: memory, the gate, what calls are using, who waits for a word, and the swap files
//! that are open.
//!
//! [`seam`](crate::seam) shows it to the engine. The program changes the memory with the gate held as `host` holds it.

use crate::executor::TaskId;
use crate::memory::Memory;
use crate::world::World;
use std::cell::{Cell, RefCell};
use uswap_core::files::Follow;
use uswap_units::{MmId, PageRange};

#[derive(Default)]
struct Gate {
    shared: u32,
    exclusive: bool,
    exclusive_waiting: u32,
    waiters: Vec<TaskId>,
}

/// The side of a process that is not its program.
pub struct KernelSide {
    /// Its memory.
    pub memory: RefCell<Memory>,
    gate: RefCell<Gate>,
    /// Ranges that the kernel touches in calls, with the task that makes the call.
    pub hazards: RefCell<Vec<(TaskId, PageRange)>>,
    /// Tasks that wait for a change of a word of ours, with its address.
    pub word_waiters: RefCell<Vec<(usize, TaskId)>>,
    /// Swap files that are open, a bit each.
    open: Cell<u64>,
}

impl KernelSide {
    /// With this memory.
    pub fn new(memory: Memory) -> KernelSide {
        KernelSide {
            memory: RefCell::new(memory),
            gate: RefCell::default(),
            hazards: RefCell::default(),
            word_waiters: RefCell::default(),
            open: Cell::new(0),
        }
    }

    /// Enters a shared section; whoever waits for the exclusive one goes first.
    pub async fn lock_shared(&self, world: &World<'_>) {
        world.executor.step().await;
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
        world.executor.step().await;
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
    /// True while nobody is inside.
    pub fn gate_is_free(&self) -> bool {
        let gate = self.gate.borrow();
        !gate.exclusive && gate.shared == 0
    }

    /// Opens all files that there are. The process lives already, and reads nothing yet.
    pub fn open_files(&self, world: &World<'_>, mm: MmId) {
        while self.follow_one(world, mm, false) {}
    }
    /// Follows what has changed; rarely, it cannot open a file.
    pub fn follow_files(&self, world: &World<'_>, mm: MmId) {
        while self.follow_one(world, mm, world.options.file_changes > 0 && world.below(60) == 0) {}
    }
    fn follow_one(&self, world: &World<'_>, mm: MmId, fails: bool) -> bool {
        let record = world.segment.mms().record(mm);
        let held = record.held_files();
        let Some(follow) = world.segment.slots().files().to_follow(held).next() else { return false };
        record.set_held_files(match follow {
            Follow::Open(file) if fails => held.with(file.id, Err(())),
            Follow::Open(file) => {
                self.open.set(self.open.get() | 1 << file.id.number());
                held.with(file.id, Ok(()))
            }
            Follow::Close(file) => {
                self.open.set(self.open.get() & !(1 << file.number()));
                held.without(file)
            }
        });
        true
    }
    /// The files that are open, a bit each.
    pub fn open(&self) -> u64 {
        self.open.get()
    }
}
