//! All processes of a run.

use crate::memory::Memory;
use crate::oracle::Expected;
use crate::process::Process;
use crate::world::World;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The world, and who lives in it.
pub struct Processes<'a> {
    /// What they share.
    pub world: Rc<World<'a>>,
    /// All that ever were, by number.
    all: RefCell<Vec<Rc<Process<'a>>>>,
}

impl<'a> Processes<'a> {
    /// Nobody yet.
    pub fn new(world: Rc<World<'a>>) -> Processes<'a> {
        Processes { world, all: RefCell::default() }
    }
    /// A process with this memory and these expectations. Not yet alive.
    pub fn add(&self, memory: Memory, expected: BTreeMap<u64, Expected>) -> Rc<Process<'a>> {
        let mut all = self.all.borrow_mut();
        let process = Rc::new(Process::new(&self.world, all.len(), memory, expected));
        all.push(process.clone());
        process
    }
    /// Those that live.
    pub fn alive(&self) -> Vec<Rc<Process<'a>>> {
        self.all.borrow().iter().filter(|process| process.alive.get()).cloned().collect()
    }
    /// Those that do not live any more, or not yet.
    pub fn not_alive(&self) -> Vec<Rc<Process<'a>>> {
        self.all.borrow().iter().filter(|process| !process.alive.get()).cloned().collect()
    }
    /// The run is over: all that ever were.
    pub fn take(&self) -> Vec<Rc<Process<'a>>> {
        self.all.take()
    }
}
