//! A program in a memory cgroup, and what is counted of it. All rivals are made of this. Where no cgroup can be made,
//! programs without a limit are counted by their processes.
//!
//! What must hold: helpers end before the group is removed, and the group before the swap that it used.

use std::ffi::OsString;
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;

use super::reclaimer::Reclaimer;
use super::{Counting, Session, Setting};
use crate::results::Memory;
use crate::system::family::Family;
use crate::system::group::{Group, GroupMemory};
use crate::system::repeater::{Next, Repeater};
use crate::system::undo::Scope;

/// Linux 6.18 decides by statistics of the group that go stale, and kills programs with swap still free; whoever reads
/// them brings them up to date. Its time is not counted: it mends the kernel, it does not belong to the rival.
const FRESH_PAUSE: Duration = Duration::from_millis(20);

/// What of a group is resident memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Counted {
    /// What could be swapped: anonymous memory, shared memory, swap cache.
    Swappable,
    /// The caches of files as well. They are the data of a program that maps a file. Pages of the program's own files
    /// are in it too, as far as the group was the first to read them: some MiB for an interpreter.
    SwappableAndFiles,
}

/// Reads how much RAM holds compressed pages.
pub(super) type Compressed = Box<dyn Fn() -> anyhow::Result<u64> + Send>;

/// What counts a program, and ends it.
enum Counter {
    Group(Arc<Group>),
    Family(Family),
}

impl Counter {
    fn make(scope: &mut Scope, counting: Counting) -> anyhow::Result<Self> {
        Ok(match counting {
            Counting::Group => Self::Group(Arc::new(Group::make(scope)?)),
            Counting::Processes => Self::Family(Family::make(scope)?),
        })
    }
}

/// A group in which one program runs.
pub(super) struct GroupSession {
    // In the order in which they must be dropped.
    reclaimer: Option<Reclaimer>,
    _fresh: Option<Repeater>,
    counter: Counter,
    /// The group, if it limits.
    limited: Option<Arc<Group>>,
    /// Memory is summed from processes: nobody may read the group's statistics.
    raw: bool,
    counted: Counted,
    compressed: Option<Compressed>,
    environment: Vec<(&'static str, OsString)>,
    remark: Option<String>,
    _scope: Scope,
}

impl GroupSession {
    /// Without a limit, for measuring only.
    pub(super) fn free(mut scope: Scope, counting: Counting) -> anyhow::Result<Self> {
        Ok(Self {
            reclaimer: None,
            _fresh: None,
            counter: Counter::make(&mut scope, counting)?,
            limited: None,
            raw: false,
            counted: Counted::Swappable,
            compressed: None,
            environment: Vec::new(),
            remark: None,
            _scope: scope,
        })
    }

    /// With a limit, at first the budget.
    pub(super) fn limited(scope: Scope, setting: &Setting) -> anyhow::Result<Self> {
        let mut session = Self::free(scope, setting.counting)?;
        let Counter::Group(group) = &session.counter else {
            anyhow::bail!("it needs a memory cgroup for its limit, and none can be made here");
        };
        let group = Arc::clone(group);
        session.limited = Some(Arc::clone(&group));
        session.raw = !setting.keep_statistics_fresh;
        group.set_limit(setting.budget_bytes)?;
        if setting.keep_statistics_fresh {
            let read = move || if group.memory().is_ok() { Next::Again } else { Next::End };
            session._fresh = Some(Repeater::start("statistics", FRESH_PAUSE, read)?);
        }
        Ok(session)
    }

    /// With pages that are compressed somewhere else.
    pub(super) fn with_compressed(mut self, read: impl Fn() -> anyhow::Result<u64> + Send + 'static) -> Self {
        self.compressed = Some(Box::new(read));
        self
    }

    /// With a reclaimer beside the program.
    pub(super) fn with_reclaimer(mut self) -> anyhow::Result<Self> {
        let group = self.limited.as_ref().context("only a group with a limit needs a reclaimer")?;
        self.reclaimer = Some(Reclaimer::start(Arc::clone(group))?);
        Ok(self)
    }

    /// For a program that maps a file.
    pub(super) fn with_files_counted(mut self, environment: (&'static str, OsString)) -> Self {
        self.counted = Counted::SwappableAndFiles;
        self.environment.push(environment);
        self
    }

    /// With something that a reader must know.
    pub(super) fn with_remark(mut self, remark: String) -> Self {
        self.remark = Some(remark);
        self
    }

    /// Processes in it now.
    pub(super) fn process_ids(&self) -> Vec<u32> {
        match &self.counter {
            Counter::Group(group) => group.process_ids(),
            Counter::Family(family) => family.process_ids(),
        }
    }

    /// What the group holds, by the way that this run allows.
    pub(super) fn group_memory(&self) -> anyhow::Result<GroupMemory> {
        match &self.counter {
            Counter::Group(group) if self.raw => Ok(group.memory_of_processes()),
            Counter::Group(group) => group.memory(),
            Counter::Family(family) => Ok(family.memory()),
        }
    }
}

impl Session for GroupSession {
    fn command(&self, program: &[OsString]) -> Command {
        let mut command = match &self.counter {
            Counter::Group(group) => group.command(program),
            Counter::Family(_) => Family::command(program),
        };
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    fn set_limit(&mut self, bytes: u64) -> anyhow::Result<()> {
        self.limited.as_ref().map_or(Ok(()), |group| group.set_limit(bytes))
    }

    fn memory(&self) -> anyhow::Result<Memory> {
        let group = self.group_memory()?;
        let resident_bytes = match self.counted {
            Counted::Swappable => group.swappable_bytes(),
            Counted::SwappableAndFiles => group.swappable_bytes() + group.file_list_bytes,
        };
        let compressed_bytes = self.compressed.as_ref().map_or(Ok(0), |read| read())?;
        Ok(sum(resident_bytes, compressed_bytes, 0))
    }

    fn cpu_seconds(&self) -> f64 {
        let program = match &self.counter {
            Counter::Group(group) => group.cpu_seconds(),
            Counter::Family(family) => family.cpu_seconds(),
        };
        program + self.reclaimer.as_ref().map_or(0.0, Reclaimer::cpu_seconds)
    }

    fn remark(&self) -> Option<String> {
        self.remark.clone()
    }

    fn kills(&self) -> u64 {
        match &self.counter {
            Counter::Group(group) => group.kill_count(),
            // Nobody counts them: such a program ends by a signal.
            Counter::Family(_) => 0,
        }
    }
}

impl Drop for GroupSession {
    /// The reclaimer may be at work against the program for seconds: it ends when the program does.
    fn drop(&mut self) {
        match &self.counter {
            Counter::Group(group) => group.kill(),
            Counter::Family(family) => family.kill(),
        }
    }
}

/// All of it, with the sum.
pub(super) fn sum(resident_bytes: u64, compressed_bytes: u64, own_bytes: u64) -> Memory {
    let sum_bytes = resident_bytes + compressed_bytes + own_bytes;
    Memory { resident_bytes, compressed_bytes, own_bytes, sum_bytes }
}
