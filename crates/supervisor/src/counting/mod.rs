//! How much memory the processes of the run have: private pages of forked relatives once ([`family`]), shared memory
//! once ([`shared_memory`]).
//!
//! Each look reads one cheap line of each process. Dearer things are paid from an [`Allowance`] each: walks over page
//! tables take at most 4 % of a processor, reads of faults, of maps, and of the sizes of shared files 1 % each. One
//! look walks for [`WALK_NS`] and one process at most.
//!
//! Called by [`crate::monitor`], in the thread of the monitor.

mod allowance;
mod family;
pub mod peak;
mod shared_memory;
pub mod texts;

use std::collections::HashMap;
use std::path::Path;

use uswap_os::clock::now_ns;
use uswap_os::process::{self, Statm, StatmFile};

use allowance::Allowance;
use family::{Count, Family, Now};
use peak::Certainty;
use shared_memory::{Allowances, SharedMemory};
use texts::{Facts, Image};

/// How often faults and images of processes with relatives are read.
const FACTS_NS: u64 = 10_000_000;
/// Those of processes without relatives: they may have executed another program, and fork then.
const LONELY_FACTS_NS: u64 = 200_000_000;

/// A family is counted when it may be off by this part of all anonymous memory of the run.
const DOUBT_PART: u64 = 64;
/// Less is never worth a walk: 1 MiB.
const DOUBT_PAGES_MIN: u64 = 256;

/// How long a walk goes on in one look.
const WALK_NS: u64 = 3_000_000;

/// How often a walk goes on with those who were forked meanwhile.
const WALK_ROUNDS_MAX: u32 = 4;

/// One part in so many of a processor.
const WALK_PART: u64 = 25;
const FACTS_PART: u64 = 100;

/// Who may have pages in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Key {
    Image(Image),
    /// The kernel does not tell of it.
    Alone(u32),
}

/// A process of the run.
struct Known {
    statm: StatmFile,
    start_ticks: u64,
    /// Its memory is that of another process: a child that vfork made.
    borrows: bool,
    key: Key,
    facts_ns: u64,
}

/// A count of a family, one process after the other.
struct Walk {
    key: Key,
    to_visit: Vec<u32>,
    /// All that were ever in `to_visit`.
    named: Vec<u32>,
    done: Vec<Count>,
    rounds: u32,
}

/// What was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sizes {
    /// Private anonymous pages, each once.
    pub anonymous_pages: u64,
    /// How sure that is; in pages.
    pub certainty: Certainty,
    /// Shared memory.
    pub shared_bytes: u64,
}

/// See the module.
pub struct Counting {
    processes: HashMap<u32, Known>,
    families: HashMap<Key, Family>,
    walk_allowance: Allowance,
    facts_allowance: Allowance,
    shared_allowances: Allowances,
    walk: Option<Walk>,
    /// What the walk that goes on has found so far, see [`Family::true_part_of`].
    sampled: Option<u64>,
    shared_memory: SharedMemory,
}

impl Counting {
    /// `segment`: a path of the run's segment, which is counted elsewhere.
    pub fn new(segment: &Path) -> Counting {
        Counting {
            processes: HashMap::new(),
            families: HashMap::new(),
            walk_allowance: Allowance::new(WALK_PART),
            facts_allowance: Allowance::new(FACTS_PART),
            shared_allowances: Allowances::default(),
            walk: None,
            sampled: None,
            shared_memory: SharedMemory::new(segment),
        }
    }

    /// Looks at these processes; others are not of the run any more.
    pub fn look(&mut self, pids: &[u32]) -> Sizes {
        let now_ns = now_ns();
        self.walk_allowance.earn(now_ns);
        self.facts_allowance.earn(now_ns);
        self.shared_allowances.earn(now_ns);
        let mut sizes: Vec<(u32, Statm)> = Vec::with_capacity(pids.len());
        for &pid in pids {
            sizes.extend(self.statm_of(pid, now_ns).map(|statm| (pid, statm)));
        }
        sizes.sort_unstable_by_key(|&(pid, _)| pid);
        sizes.dedup_by_key(|&mut (pid, _)| pid);
        self.forget_others(&sizes);
        for &(pid, statm) in &sizes {
            if let Some(family) = self.processes.get(&pid).and_then(|known| self.families.get_mut(&known.key))
            {
                family.set_anonymous(pid, statm.anonymous_pages());
            }
        }
        // What is read from now on is younger than these sizes: who ends meanwhile has no memory and no relatives.
        self.follow_facts(now_ns);
        let certainty = self.walk_on();
        let shared_bytes = self.shared_memory.bytes(&sizes, now_ns, &mut self.shared_allowances);
        Sizes { anonymous_pages: self.anonymous_pages(), certainty, shared_bytes }
    }

    fn anonymous_pages(&self) -> u64 {
        self.families.values().map(Family::pages).sum()
    }

    /// Resident anonymous pages of a process, and how many of them are counted elsewhere.
    pub fn pages_of(&self, pid: u32) -> Option<(u64, u64)> {
        let family = self.families.get(&self.processes.get(&pid)?.key)?;
        Some((family.anonymous_pages(pid), family.shared_pages(pid)))
    }

    fn statm_of(&mut self, pid: u32, now_ns: u64) -> Option<Statm> {
        if let Some(statm) = self.processes.get(&pid).and_then(|known| known.statm.read().ok()) {
            return Some(statm);
        }
        self.forget(pid);
        let file = StatmFile::open(Some(pid)).ok()?;
        let statm = file.read().ok()?;
        self.meet(pid, file, statm, now_ns);
        Some(statm)
    }

    /// Whether a process has not ended since the last look.
    fn has_memory(&self, pid: u32) -> bool {
        let sizes = self.processes.get(&pid).and_then(|known| known.statm.read().ok());
        sizes.is_some_and(|sizes| sizes.total_pages > 0)
    }

    /// A process that was not there at the last look.
    fn meet(&mut self, pid: u32, statm: StatmFile, sizes: Statm, now_ns: u64) {
        let Some(facts) = self.facts_allowance.pay(|| texts::facts(pid)) else { return };
        let key = key_of(pid, &facts);
        let known = Known {
            statm,
            start_ticks: facts.start_ticks,
            borrows: borrows_memory(pid, &facts),
            key,
            facts_ns: now_ns,
        };
        // What its parent has now is what they share, if the parent has not executed another program since it was
        // looked at.
        let alone = self.families.get(&key).filter(|family| family.size() == 1);
        let mut relatives: Vec<u32> = alone.iter().flat_map(|family| family.members()).collect();
        relatives.push(facts.parent);
        for relative in relatives {
            self.follow_one(relative, now_ns);
        }
        if !known.borrows {
            let now = Now { anonymous: sizes.anonymous_pages(), faults: facts.faults };
            self.families.entry(known.key).or_default().join(pid, facts.parent, now);
        }
        self.processes.insert(pid, known);
    }

    fn leave(&mut self, pid: u32, key: Key) {
        if let Some(family) = self.families.get_mut(&key) {
            family.leave(pid);
            if family.size() == 0 {
                self.families.remove(&key);
            }
        }
    }

    fn forget(&mut self, pid: u32) {
        if let Some(known) = self.processes.remove(&pid) {
            self.leave(pid, known.key);
        }
    }

    fn forget_others(&mut self, sizes: &[(u32, Statm)]) {
        let is_there = |pid: &u32| sizes.binary_search_by_key(pid, |&(pid, _)| pid).is_ok();
        let gone: Vec<u32> = self.processes.keys().copied().filter(|pid| !is_there(pid)).collect();
        gone.into_iter().for_each(|pid| self.forget(pid));
    }

    /// Reads faults and images of those for whom it is time.
    fn follow_facts(&mut self, now_ns: u64) {
        let mut due: Vec<(u64, u32)> = Vec::new();
        for (&pid, known) in &self.processes {
            let relatives = self.families.get(&known.key).map_or(0, Family::size);
            let every_ns = if relatives > 1 || known.borrows { FACTS_NS } else { LONELY_FACTS_NS };
            if now_ns.saturating_sub(known.facts_ns) >= every_ns {
                due.push((known.facts_ns, pid));
            }
        }
        due.sort_unstable();
        for (_, pid) in due {
            if !self.facts_allowance.has_some() {
                return;
            }
            self.follow_one(pid, now_ns);
        }
    }

    fn follow_one(&mut self, pid: u32, now_ns: u64) {
        if !self.processes.contains_key(&pid) {
            return;
        }
        let facts = self.facts_allowance.pay(|| texts::facts(pid));
        let Some(known) = self.processes.get_mut(&pid) else { return };
        known.facts_ns = now_ns;
        let Some(facts) = facts.filter(|facts| facts.start_ticks == known.start_ticks) else { return };
        let Ok(statm) = known.statm.read() else { return };
        let anonymous = statm.anonymous_pages();
        let (before, key) = (known.key, key_of(pid, &facts));
        let borrowed = core::mem::replace(&mut known.borrows, false);
        known.borrows = borrowed && borrows_memory(pid, &facts);
        known.key = key;
        if borrowed == known.borrows && before == key {
            if let Some(family) = self.families.get_mut(&key) {
                family.set_anonymous(pid, anonymous);
                family.set_faults(pid, facts.faults);
            }
            return;
        }
        let joins = !known.borrows;
        self.leave(pid, before);
        if joins {
            let now = Now { anonymous, faults: facts.faults };
            self.families.entry(key).or_default().join(pid, facts.parent, now);
        }
    }

    /// The run ends. What part of what was told was true, as far as was counted since the last count that is whole.
    pub fn finish(&self) -> Option<u64> {
        self.sampled
    }

    /// Counts on, or begins to, where it is most needed.
    fn walk_on(&mut self) -> Certainty {
        let limit = (self.anonymous_pages() / DOUBT_PART).max(DOUBT_PAGES_MIN);
        let doubts = self.families.iter().map(|(&key, family)| (family.doubt(), key));
        let most = doubts.max_by_key(|&(doubt, _)| doubt).filter(|&(doubt, _)| doubt > limit);
        let certainty = match most {
            Some(_) => Certainty::Doubtful { told: self.families.values().map(Family::told_pages).sum() },
            None => Certainty::Sure,
        };
        if self.walk.is_none() {
            self.walk = most.and_then(|(_, key)| {
                let to_visit: Vec<u32> = self.families.get(&key)?.members().collect();
                Some(Walk { key, named: to_visit.clone(), to_visit, done: Vec::new(), rounds: 1 })
            });
        }
        if !self.walk_allowance.has_some() {
            return certainty;
        }
        let Some(mut walk) = self.walk.take() else { return certainty };
        let members: Vec<u32> =
            self.families.get(&walk.key).map_or_else(Vec::new, |family| family.members().collect());
        let began_ns = now_ns();
        while now_ns().saturating_sub(began_ns) < WALK_NS {
            let Some(pid) = walk.to_visit.pop() else { break };
            let count = self.walk_allowance.pay(|| Some((texts::facts(pid)?.faults, texts::rollup(pid)?)));
            let relatives = members.iter().filter(|pid| self.has_memory(**pid)).count() as u64;
            walk.done.extend(count.map(|(faults, pages)| Count { pid, faults, pages, relatives }));
        }
        if walk.to_visit.is_empty() && walk.rounds < WALK_ROUNDS_MAX {
            // Who came meanwhile has a part of what the others were counted for.
            walk.rounds += 1;
            walk.to_visit.extend(members.iter().filter(|pid| !walk.named.contains(pid)));
            walk.named.extend(&walk.to_visit);
        }
        let Some(family) = self.families.get_mut(&walk.key) else { return certainty };
        self.sampled = family.true_part_of(&walk.done).or(self.sampled);
        if !walk.to_visit.is_empty() {
            self.walk = Some(walk);
            return certainty;
        }
        walk.done.retain(|count| members.contains(&count.pid));
        // Most may have ended before all were counted.
        let found = family.set_counted(&walk.done).or(self.sampled.take());
        self.sampled = None;
        Certainty::Counted { true_part: found.unwrap_or(1024) }
    }
}

fn key_of(pid: u32, facts: &Facts) -> Key {
    if facts.image.is_known() { Key::Image(facts.image) } else { Key::Alone(pid) }
}

/// Whether its memory is its parent's, and counted there. Where the kernel does not compare, it has its own.
fn borrows_memory(pid: u32, facts: &Facts) -> bool {
    process::have_same_memory(pid, facts.parent).unwrap_or(false)
}
