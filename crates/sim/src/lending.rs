//! Lends things that threads need for a short while, as `host` does: workspaces and evictors.

use crate::engine::{Evictor, Workspace};
use crate::executor::{Executor, TaskId};
use std::cell::RefCell;
use std::ops::{Deref, DerefMut};
use uswap_core::page_word::EVICTORS_MAX;

/// Things of a process, each lent to one thread at a time.
pub struct LendingPool<T> {
    things: RefCell<Vec<Box<T>>>,
    waiters: RefCell<Vec<TaskId>>,
}

/// One thing, until this is dropped; also when its thread is killed.
pub struct Lent<'p, 'a, T> {
    pool: &'p LendingPool<T>,
    executor: &'p Executor<'a>,
    thing: Option<Box<T>>,
}

impl<T> LendingPool<T> {
    /// A pool of these things.
    pub fn new(things: Vec<Box<T>>) -> LendingPool<T> {
        LendingPool { things: RefCell::new(things), waiters: RefCell::default() }
    }
    /// One that is free.
    pub fn try_borrow<'p, 'a>(&'p self, executor: &'p Executor<'a>) -> Option<Lent<'p, 'a, T>> {
        let thing = self.things.borrow_mut().pop()?;
        Some(Lent { pool: self, executor, thing: Some(thing) })
    }
    /// One that is free; waits for it.
    pub async fn borrow<'p, 'a>(&'p self, executor: &'p Executor<'a>) -> Lent<'p, 'a, T> {
        loop {
            if let Some(lent) = self.try_borrow(executor) {
                return lent;
            }
            self.waiters.borrow_mut().push(executor.current());
            executor.park("a workspace or an evictor", None).await;
        }
    }
    /// Those that are not lent, of a process that is gone.
    pub fn take_all(&self) -> Vec<Box<T>> {
        self.things.take()
    }
}

impl<T> Deref for Lent<'_, '_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.thing.as_deref().expect("it is there until it is dropped")
    }
}

impl<T> DerefMut for Lent<'_, '_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.thing.as_deref_mut().expect("it is there until it is dropped")
    }
}

impl<T> Drop for Lent<'_, '_, T> {
    fn drop(&mut self) {
        self.pool.things.borrow_mut().extend(self.thing.take());
        self.pool.waiters.take().into_iter().for_each(|task| self.executor.unpark(task));
    }
}

/// Faults that a process serves at a time.
const WORKSPACES: usize = 6;
/// Evictors of a process.
const EVICTORS: usize = EVICTORS_MAX as usize;

/// What processes that are gone have left, for those to come: making it takes longer than a short run.
#[derive(Default)]
pub struct Spare {
    workspaces: RefCell<Vec<Box<Workspace>>>,
    /// Of each id.
    evictors: [RefCell<Vec<Box<Evictor>>>; EVICTORS],
}

impl Spare {
    /// Workspaces of a new process. What is left in them does not matter.
    pub fn workspaces(&self) -> LendingPool<Workspace> {
        let one = |_| self.workspaces.borrow_mut().pop().unwrap_or_else(|| Box::new(Workspace::new()));
        LendingPool::new((0..WORKSPACES).map(one).collect())
    }
    /// Evictors of a new process.
    pub fn evictors(&self) -> LendingPool<Evictor> {
        let one = |(id, spare): (usize, &RefCell<Vec<Box<Evictor>>>)| {
            let left = spare.borrow_mut().pop();
            let mut evictor = left.unwrap_or_else(|| Box::new(Evictor::new(id as u32)));
            evictor.reset();
            evictor
        };
        LendingPool::new(self.evictors.iter().enumerate().map(one).collect())
    }
    /// Takes back what a process that is gone had.
    pub fn take_back(&self, workspaces: &LendingPool<Workspace>, evictors: &LendingPool<Evictor>) {
        self.workspaces.borrow_mut().extend(workspaces.take_all());
        for evictor in evictors.take_all() {
            self.evictors[evictor.id().index() as usize].borrow_mut().push(evictor);
        }
    }
}
