//! The executor: tasks of the simulated world, a virtual clock, and a seeded choice of who runs next.
//!
//! Everything runs on one thread of the operating system. A task that waits says for what and until when; nobody runs
//! by accident, so the same seed gives the same run. Callers: `world` and everything above it.

use core::future::Future;
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use uswap_units::Prng;

/// Number of a task; never used twice in one run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct TaskId(pub usize);

/// Who dies with whom: process numbers, or nobody.
pub type Owner = Option<usize>;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Ready,
    Waiting { why: &'static str, until_ns: Option<u64> },
    Done,
}

type Work<'a> = Pin<Box<dyn Future<Output = ()> + 'a>>;

struct Task<'a> {
    name: &'static str,
    owner: Owner,
    work: Option<Work<'a>>,
    state: State,
    /// Counts waits, so that an old timer does not end a new wait.
    wait_count: u64,
    /// Chosen only in one of so many turns: some runs have slow tasks.
    slowness: u64,
    /// Turns that it had.
    turns: u64,
}

/// Why the executor stopped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    /// The condition that the caller waited for is true.
    Reached,
    /// Every task waits, and none has a timer.
    Deadlock,
    /// The limit of polls was reached.
    Polls,
}

/// Tasks, their states and the clock.
pub struct Executor<'a> {
    tasks: RefCell<Vec<Task<'a>>>,
    ready: RefCell<Vec<TaskId>>,
    timers: RefCell<BinaryHeap<Reverse<(u64, usize, u64)>>>,
    now_ns: Cell<u64>,
    current: Cell<TaskId>,
    polls: Cell<u64>,
}

impl Default for Executor<'_> {
    fn default() -> Self {
        Executor {
            tasks: RefCell::default(),
            ready: RefCell::default(),
            timers: RefCell::default(),
            now_ns: Cell::new(0),
            current: Cell::new(TaskId(usize::MAX)),
            polls: Cell::new(0),
        }
    }
}

impl<'a> Executor<'a> {
    /// Virtual time since the start of the run.
    pub fn now_ns(&self) -> u64 {
        self.now_ns.get()
    }
    /// Times that a task ran.
    pub fn polls(&self) -> u64 {
        self.polls.get()
    }
    /// The task that runs now.
    pub fn current(&self) -> TaskId {
        self.current.get()
    }
    /// Name and number of the running task, for traces.
    pub fn current_name(&self) -> (&'static str, Owner) {
        self.tasks.borrow().get(self.current.get().0).map_or(("world", None), |task| (task.name, task.owner))
    }

    /// Adds a task.
    pub fn spawn(
        &self,
        name: &'static str,
        owner: Owner,
        slowness: u64,
        work: impl Future<Output = ()> + 'a,
    ) -> TaskId {
        let mut tasks = self.tasks.borrow_mut();
        let id = TaskId(tasks.len());
        let work: Option<Work<'a>> = Some(Box::pin(work));
        tasks.push(Task { name, owner, work, state: State::Ready, wait_count: 0, slowness, turns: 0 });
        self.ready.borrow_mut().push(id);
        id
    }

    /// Ends every task of a process wherever it is.
    pub fn end_tasks_of(&self, process: usize) {
        let mut dropped = Vec::new();
        for task in self.tasks.borrow_mut().iter_mut().filter(|task| task.owner == Some(process)) {
            task.state = State::Done;
            dropped.extend(task.work.take());
        }
        let tasks = self.tasks.borrow();
        self.ready.borrow_mut().retain(|id| tasks[id.0].state == State::Ready);
    }

    /// Lets a waiting task go on.
    pub fn unpark(&self, id: TaskId) {
        let mut tasks = self.tasks.borrow_mut();
        if let State::Waiting { .. } = tasks[id.0].state {
            tasks[id.0].state = State::Ready;
            self.ready.borrow_mut().push(id);
        }
    }

    /// The running task waits until it is unparked, or until a time.
    pub fn park(&self, why: &'static str, until_ns: Option<u64>) -> Park<'_, 'a> {
        Park { executor: self, why, until_ns, armed: false }
    }
    /// The running task lets others run.
    pub fn step(&self) -> Park<'_, 'a> {
        self.park("its turn", Some(0))
    }
    /// The running task waits for so long.
    pub fn sleep(&self, ns: u64) -> Park<'_, 'a> {
        self.park("time", Some(self.now_ns() + ns))
    }

    fn arm(&self, why: &'static str, until_ns: Option<u64>) {
        let id = self.current.get();
        let mut tasks = self.tasks.borrow_mut();
        let task = &mut tasks[id.0];
        if task.state == State::Done {
            return;
        }
        task.wait_count += 1;
        match until_ns {
            Some(until_ns) if until_ns <= self.now_ns() => {
                task.state = State::Ready;
                self.ready.borrow_mut().push(id);
            }
            until_ns => {
                task.state = State::Waiting { why, until_ns };
                if let Some(until_ns) = until_ns {
                    self.timers.borrow_mut().push(Reverse((until_ns, id.0, task.wait_count)));
                }
            }
        }
    }

    fn fire_timers(&self) {
        loop {
            let due = self.timers.borrow().peek().is_some_and(|Reverse((at, ..))| *at <= self.now_ns());
            if !due {
                return;
            }
            let Some(Reverse((_, task, wait_count))) = self.timers.borrow_mut().pop() else { return };
            if self.tasks.borrow()[task].wait_count == wait_count {
                self.unpark(TaskId(task));
            }
        }
    }

    fn choose(&self, prng: &RefCell<Prng>) -> Option<TaskId> {
        let mut ready = self.ready.borrow_mut();
        if ready.is_empty() {
            return None;
        }
        let mut prng = prng.borrow_mut();
        let mut index = prng.below(ready.len() as u64) as usize;
        let slowness = self.tasks.borrow()[ready[index].0].slowness;
        if slowness > 1 && !prng.chance(1, slowness) {
            index = prng.below(ready.len() as u64) as usize;
        }
        Some(ready.swap_remove(index))
    }

    /// Runs tasks until `reached` is true.
    pub fn run(&self, prng: &RefCell<Prng>, polls_max: u64, mut reached: impl FnMut() -> bool) -> Stop {
        let mut context = Context::from_waker(Waker::noop());
        loop {
            if reached() {
                return Stop::Reached;
            }
            if self.polls.get() >= polls_max {
                return Stop::Polls;
            }
            self.fire_timers();
            let Some(id) = self.choose(prng) else {
                let Some(next) = self.timers.borrow().peek().map(|Reverse((at, ..))| *at) else {
                    return Stop::Deadlock;
                };
                self.now_ns.set(next.max(self.now_ns()));
                continue;
            };
            self.current.set(id);
            self.polls.set(self.polls.get() + 1);
            // A step of a task costs about as much as the system call behind it.
            self.now_ns.set(self.now_ns() + 200 + prng.borrow_mut().below(1800));
            let Some(mut work) = self.tasks.borrow_mut()[id.0].work.take() else { continue };
            let poll = work.as_mut().poll(&mut context);
            let mut tasks = self.tasks.borrow_mut();
            let task = &mut tasks[id.0];
            task.turns += 1;
            // A task may have ended its own process.
            if poll == Poll::Ready(()) || task.state == State::Done {
                task.state = State::Done;
                drop(tasks);
                self.ready.borrow_mut().retain(|other| *other != id);
            } else {
                task.work = Some(work);
            }
            self.current.set(TaskId(usize::MAX));
        }
    }

    /// One line for each task that has not ended: who waits for what, and how often it had its turn.
    pub fn report(&self) -> String {
        let mut text = String::new();
        for (index, task) in
            self.tasks.borrow().iter().enumerate().filter(|(_, task)| task.state != State::Done)
        {
            let what = match task.state {
                State::Waiting { why, until_ns: Some(at) } => format!("waits for {why} until {at} ns"),
                State::Waiting { why, until_ns: None } => format!("waits for {why}, without limit"),
                State::Ready | State::Done => "could run".to_owned(),
            };
            text += &format!("  t{index} {} of {:?}, {} turns: {what}\n", task.name, task.owner, task.turns);
        }
        text
    }

    /// True when every task has ended.
    pub fn is_idle(&self) -> bool {
        self.tasks.borrow().iter().all(|task| task.state == State::Done)
    }

    /// Drops every task, so that what they refer to goes too.
    pub fn clear(&self) {
        let dropped: Vec<_> =
            self.tasks.borrow_mut().iter_mut().filter_map(|task| task.work.take()).collect();
        drop(dropped);
    }
}

/// A wait of the running task.
pub struct Park<'e, 'a> {
    executor: &'e Executor<'a>,
    why: &'static str,
    until_ns: Option<u64>,
    armed: bool,
}

impl Future for Park<'_, '_> {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if self.armed {
            return Poll::Ready(());
        }
        self.armed = true;
        self.executor.arm(self.why, self.until_ns);
        Poll::Pending
    }
}
