//! What holds memory that cannot be reclaimed: by kinds, with sizes and what to try, for the warnings of a run that is
//! over its budget.
//!
//! It is found out from `/proc/PID/smaps` and `status`, which is dear: [`Look`] does it when a fault was served over
//! the budget or the run stays over it, and then again while about as much is used or more, at most once a second, for
//! [`LOOK_MAX`] and one process more. Called by the monitor; [`crate::account`] writes the last answer
//! into the report.

use std::cmp::Reverse;
use std::fs;
use std::time::{Duration, Instant};

use crate::counting::texts::{is_head, kilobytes};
use crate::human;

/// How often it is looked, at most.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// So long one look lasts at most, but for the process that it is at.
const LOOK_MAX: Duration = Duration::from_millis(20);
/// A run that is over its budget for so long is looked at, whether a fault found that out or not.
const OVER_FOR: Duration = Duration::from_millis(100);
/// Less than this part of the budget is not worth a word.
const NAMED_PART: u64 = 64;

/// A kind of memory that stays where it is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    Locked,
    Pinned,
    Shared,
    Unmanaged,
    MainStack,
    Executable,
    WrittenFile,
    NotYetManaged,
    OwnTables,
    /// The kernel's: it is in no process, and does not count.
    PageTables,
}

const KINDS: [Kind; 10] = [
    Kind::Locked,
    Kind::Pinned,
    Kind::Shared,
    Kind::Unmanaged,
    Kind::MainStack,
    Kind::Executable,
    Kind::WrittenFile,
    Kind::NotYetManaged,
    Kind::OwnTables,
    Kind::PageTables,
];

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Locked => "locked memory",
            Kind::Pinned => "pinned memory",
            Kind::Shared => "shared memory",
            Kind::Unmanaged => "processes that are not managed",
            Kind::MainStack => "stacks of main threads",
            Kind::Executable => "executable memory",
            Kind::WrittenFile => "private pages of files that were written",
            Kind::NotYetManaged => "memory that is not under management yet",
            Kind::OwnTables => "tables of uswap",
            Kind::PageTables => "page tables of the kernel (they do not count)",
        }
    }

    fn advice(self) -> &'static str {
        match self {
            Kind::Locked => {
                "let the program lock less (an option of its own, or ulimit -l), or give more --ram"
            }
            Kind::Pinned => "let it register fewer buffers (io_uring, RDMA, devices), or give more --ram",
            Kind::Shared => {
                "make it smaller (shared_buffers of PostgreSQL, -Xmx with ZGC, files in /dev/shm), or give more --ram"
            }
            Kind::Unmanaged => {
                "see below why they are not: a program is managed if it is dynamically linked and keeps its \
                 environment; else give more --ram"
            }
            Kind::MainStack => "recurse less deeply, or give more --ram",
            Kind::Executable => {
                "limit what is compiled at run time (an option of the program), or give more --ram"
            }
            Kind::WrittenFile => {
                "let it read such files, or map them shared, instead of writing to private mappings"
            }
            Kind::NotYetManaged => "give more --ram: it came faster than it could be taken under management",
            Kind::OwnTables | Kind::PageTables => {
                "use memory more densely (they grow with the 2 MiB parts that are touched), or give more --ram"
            }
        }
    }
}

/// How much of each kind there is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Holders {
    bytes: [u64; KINDS.len()],
    /// The largest process that is not managed, and how many there are.
    unmanaged: Option<(u64, String)>,
    unmanaged_count: u64,
    ram_bytes: u64,
}

impl Holders {
    pub fn new(ram_bytes: u64) -> Holders {
        Holders { ram_bytes, ..Holders::default() }
    }

    pub fn add(&mut self, kind: Kind, bytes: u64) {
        self.bytes[kind as usize] += bytes;
    }

    /// Memory of a process without an engine.
    pub fn add_unmanaged(&mut self, name: String, bytes: u64) {
        self.add(Kind::Unmanaged, bytes);
        self.unmanaged_count += 1;
        if self.unmanaged.as_ref().is_none_or(|(largest, _)| bytes > *largest) {
            self.unmanaged = Some((bytes, name));
        }
    }

    /// What of a managed process its texts in /proc say.
    pub fn add_managed(&mut self, smaps: &str, status: &str) {
        let mut mapping: Option<Mapping<'_>> = None;
        for line in smaps.lines() {
            if is_head(line) {
                mapping = Mapping::of(line);
            } else if let (Some(mapping), Some(rest)) = (&mut mapping, line.strip_prefix("Anonymous:")) {
                let kilobytes: u64 = rest.trim().trim_end_matches(" kB").parse().unwrap_or(0);
                mapping.bytes = kilobytes * 1024;
            } else if let (Some(mapping), Some(flags)) = (&mapping, line.strip_prefix("VmFlags:"))
                && let Some(kind) = mapping.kind(flags)
            {
                self.add(kind, mapping.bytes);
            }
        }
        let bytes = |name| kilobytes(status, name).unwrap_or(0) * 1024;
        self.add(Kind::Pinned, bytes("VmPin:"));
        self.add(Kind::PageTables, bytes("VmPTE:"));
    }

    /// All that counts and will not be moved.
    pub fn total_bytes(&self) -> u64 {
        let passes = [Kind::PageTables, Kind::NotYetManaged].map(|kind| self.bytes[kind as usize]);
        self.bytes.iter().sum::<u64>() - passes.iter().sum::<u64>()
    }

    /// The kinds, the largest first, with sizes, and what to try for the first; `None` if there is nothing to name.
    pub fn text(&self) -> Option<String> {
        let mut kinds: Vec<Kind> = KINDS
            .into_iter()
            .filter(|&kind| self.bytes[kind as usize] > self.ram_bytes / NAMED_PART)
            .collect();
        kinds.sort_by_key(|&kind| Reverse(self.bytes[kind as usize]));
        let first = *kinds.first()?;
        let words: Vec<String> = kinds.into_iter().map(|kind| self.one(kind)).collect();
        Some(format!("{}; {}", words.join(", "), first.advice()))
    }

    fn one(&self, kind: Kind) -> String {
        let size = human::bytes(self.bytes[kind as usize]);
        match (&self.unmanaged, kind) {
            (Some((_, name)), Kind::Unmanaged) if self.unmanaged_count == 1 => {
                format!("a process that is not managed ({name}) {size}")
            }
            (Some((_, name)), Kind::Unmanaged) => {
                format!("{} {size} ({name} and {} more)", kind.name(), self.unmanaged_count - 1)
            }
            _ => format!("{} {size}", kind.name()),
        }
    }
}

/// A private mapping.
struct Mapping<'a> {
    is_executable: bool,
    has_file: bool,
    name: &'a str,
    /// Its anonymous pages.
    bytes: u64,
}

impl<'a> Mapping<'a> {
    fn of(line: &'a str) -> Option<Mapping<'a>> {
        let mut words = line.splitn(6, ' ').skip(1);
        let permissions = words.next()?;
        let inode = words.nth(2)?;
        let name = words.next().unwrap_or("").trim_start();
        let is_executable = permissions.contains('x');
        permissions.ends_with('p').then_some(Mapping {
            is_executable,
            has_file: inode != "0",
            name,
            bytes: 0,
        })
    }

    /// Why its pages stay; `None` if they need not.
    fn kind(&self, flags: &str) -> Option<Kind> {
        let has = |flag: &str| flags.split(' ').any(|word| word == flag);
        if has("lo") {
            return Some(Kind::Locked);
        }
        // It is registered with the rest, but passed over.
        if self.is_executable && !self.has_file {
            return Some(Kind::Executable);
        }
        // Registered with a userfaultfd.
        if ["um", "uw", "ui"].into_iter().any(has) {
            return None;
        }
        Some(if self.name == "[stack]" {
            Kind::MainStack
        } else if self.has_file {
            Kind::WrittenFile
        } else if has("dd") {
            // uswap keeps its own out of dumps.
            Kind::OwnTables
        } else {
            Kind::NotYetManaged
        })
    }
}

/// What a look needs to know of the run.
pub struct Situation<'a> {
    pub ram_bytes: u64,
    pub used_bytes: u64,
    pub shared_bytes: u64,
    /// What uswap has outside of the processes, but for the pool.
    pub engine_bytes: u64,
    /// Faults served over the budget so far.
    pub forced_over: u64,
    pub managed: &'a [u32],
    /// With the bytes of each.
    pub unmanaged: &'a [(u32, u64)],
}

/// When it was looked, and at what.
#[derive(Default)]
pub struct Look {
    looked: Option<(Instant, u64)>,
    over_since: Option<Instant>,
    forced_over: u64,
}

impl Look {
    /// Looks if it is time; the answer is what holds memory now.
    pub fn follow(&mut self, situation: &Situation<'_>) -> Option<Holders> {
        if situation.used_bytes <= situation.ram_bytes {
            self.over_since = None;
        } else {
            self.over_since.get_or_insert_with(Instant::now);
        }
        let forced = situation.forced_over > core::mem::replace(&mut self.forced_over, situation.forced_over);
        let lasts = self.over_since.is_some_and(|since| since.elapsed() >= OVER_FOR);
        let is_new = self.looked.is_none_or(|(when, used_bytes)| {
            when.elapsed() >= LOOK_EVERY && situation.used_bytes >= used_bytes - used_bytes / 16
        });
        if !is_new || !(forced || lasts) {
            return None;
        }
        let holders = look(situation);
        self.looked = Some((Instant::now(), situation.used_bytes));
        Some(holders)
    }
}

fn look(situation: &Situation<'_>) -> Holders {
    let began = Instant::now();
    let mut holders = Holders::new(situation.ram_bytes);
    holders.add(Kind::Shared, situation.shared_bytes);
    holders.add(Kind::OwnTables, situation.engine_bytes);
    for &(pid, bytes) in situation.unmanaged {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        holders.add_unmanaged(name.trim_end().to_owned(), bytes);
    }
    for pid in situation.managed {
        if began.elapsed() > LOOK_MAX {
            break;
        }
        let text = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let (smaps, status) = (text("smaps"), text("status"));
        holders.add_managed(&String::from_utf8_lossy(&smaps), &String::from_utf8_lossy(&status));
    }
    holders
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn mapping(head: &str, mebibytes: u64, flags: &str) -> String {
        format!(
            "{head}\nSize: 999 kB\nRss:  {0} kB\nAnonymous:     {0} kB\nLocked: 0 kB\nVmFlags: {flags} \n",
            mebibytes * 1024
        )
    }

    #[test]
    fn each_mapping_is_of_the_kind_that_keeps_it_where_it_is() {
        let smaps = [
            mapping("7f10-7f20 rw-p 00000000 00:00 0", 50, "rd wr mr mw me um ac"),
            mapping("7f20-7f30 rw-p 00000000 00:00 0", 4, "rd wr mr mw me uw nr"),
            mapping("7f30-7f40 rw-p 00000000 00:00 0", 7, "rd wr mr mw me lo ac"),
            mapping("7f40-7f50 rwxp 00000000 00:00 0", 6, "rd wr ex mr mw me um"),
            mapping("7f50-7f60 rw-p 00000000 fe:01 77        /a file (deleted)", 5, "rd wr mr mw me"),
            mapping("7f60-7f70 rw-s 00000000 00:01 78        /memfd:x (deleted)", 99, "rd wr sh"),
            mapping("7f70-7f80 rw-p 00000000 00:00 0", 2, "rd wr mr mw me dd"),
            mapping("7f80-7f90 rw-p 00000000 00:00 0", 1, "rd wr mr mw me"),
            mapping("7ff0-7fff rw-p 00000000 00:00 0                   [stack]", 8, "rd wr gd ac"),
        ]
        .concat();
        let mut holders = Holders::new(64 * MIB);
        holders.add_managed(&smaps, "Name:\tx\nVmPin:\t    1024 kB\nVmPTE:\t  3072 kB\n");
        let found = KINDS.map(|kind| holders.bytes[kind as usize] / MIB);
        assert_eq!(found, [7, 1, 0, 0, 8, 6, 5, 1, 2, 3]);
        assert_eq!(holders.total_bytes(), 29 * MIB, "page tables do not count, and what is new may be moved");
        let text = holders.text().expect("there is something to name");
        assert!(text.starts_with("stacks of main threads 8 MiB, locked memory 7 MiB, executable"), "{text}");
        assert!(text.ends_with(Kind::MainStack.advice()), "{text}");
        assert!(!text.contains("not under management yet"), "a 64th of the budget is not named: {text}");
    }

    #[test]
    fn processes_that_are_not_managed_are_named() {
        let mut holders = Holders::new(64 * MIB);
        assert_eq!(holders.text(), None);
        holders.add_unmanaged("python3".to_owned(), 20 * MIB);
        let text = holders.text().expect("there is something to name");
        assert!(text.starts_with("a process that is not managed (python3) 20 MiB; "), "{text}");
        holders.add_unmanaged("sh".to_owned(), MIB);
        let text = holders.text().expect("there is something to name");
        assert!(text.starts_with("processes that are not managed 21 MiB (python3 and 1 more); "), "{text}");
    }

    #[test]
    fn it_is_looked_once_and_not_again_for_less_or_too_soon() {
        let mut look = Look::default();
        let mut situation = Situation {
            ram_bytes: 64 * MIB,
            used_bytes: 60 * MIB,
            shared_bytes: 0,
            engine_bytes: 0,
            forced_over: 0,
            managed: &[],
            unmanaged: &[],
        };
        assert_eq!(look.follow(&situation), None);
        situation = Situation { used_bytes: 70 * MIB, shared_bytes: 50 * MIB, forced_over: 1, ..situation };
        let holders = look.follow(&situation).expect("a fault was served over the budget");
        assert_eq!(holders.total_bytes(), 50 * MIB);
        situation = Situation { used_bytes: 80 * MIB, forced_over: 2, ..situation };
        assert_eq!(look.follow(&situation), None, "that is too soon");
        look.looked = Instant::now().checked_sub(LOOK_EVERY).map(|when| (when, 90 * MIB));
        situation.forced_over = 3;
        assert_eq!(look.follow(&situation), None, "there was more at the last look");
        look.looked = Instant::now().checked_sub(LOOK_EVERY).map(|when| (when, 79 * MIB));
        situation.forced_over = 4;
        assert!(look.follow(&situation).is_some());
    }

    #[test]
    fn a_run_that_stays_over_its_budget_is_looked_at_without_a_fault() {
        let mut look = Look::default();
        let situation = Situation {
            ram_bytes: 64 * MIB,
            used_bytes: 70 * MIB,
            shared_bytes: 70 * MIB,
            engine_bytes: 0,
            forced_over: 0,
            managed: &[],
            unmanaged: &[],
        };
        assert_eq!(look.follow(&situation), None);
        look.over_since = Instant::now().checked_sub(OVER_FOR);
        assert!(look.follow(&situation).is_some());
    }
}
