//! What one seed runs: sizes, which operations and which faults. Each seed leaves some of them out altogether (swarm
//! testing), since a bug may need that something else does not happen.

use clap::ValueEnum;
use uswap_core::files::{FileAccess, FileKind, FileSpec, slots_of_all};
use uswap_core::segment::Geometry;
use uswap_units::Prng;

/// What the program threads may do beside reading and writing, as weights.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Weights {
    /// System calls that read or write memory.
    pub call: u64,
    /// Map memory, often where some was unmapped a moment ago.
    pub map: u64,
    /// Unmap whole or part.
    pub unmap: u64,
    /// Map over what is there.
    pub map_over: u64,
    /// Move a mapping, or change its length.
    pub remap: u64,
    /// MADV_DONTNEED.
    pub drop: u64,
    /// MADV_COLD and MADV_PAGEOUT.
    pub advise: u64,
    /// mprotect.
    pub protect: u64,
    /// mlock and munlock.
    pub lock: u64,
    /// What is rare: pages that the kernel touches at any time, MADV_DONTFORK, ranges that are left alone, coming home.
    pub special: u64,
    /// Fork.
    pub fork: u64,
    /// Go through all memory in order.
    pub round: u64,
    /// End the process, or execute another program.
    pub exit: u64,
}

/// Faults of the disk, each in so many of 1000 calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskFaults {
    /// A read gives an error.
    pub read_error: u64,
    /// A read gives a wrong bit, once.
    pub read_flip: u64,
    /// A write leaves a wrong bit for ever.
    pub write_flip: u64,
    /// A write is said to be done, and old bytes stay.
    pub write_lost: u64,
    /// Nothing may be written.
    pub forbidden: u64,
    /// A write gives an error.
    pub write_error: u64,
    /// A write has no room.
    pub full: u64,
    /// A call takes 100 times as long.
    pub slow: u64,
}

impl DiskFaults {
    /// All of them, in each call.
    pub const ALL: DiskFaults = DiskFaults {
        read_error: 1000,
        read_flip: 1000,
        write_flip: 1000,
        write_lost: 1000,
        forbidden: 1000,
        write_error: 1000,
        full: 1000,
        slow: 1000,
    };

    /// No fault more often than `most` has it.
    pub fn at_most(self, most: DiskFaults) -> DiskFaults {
        DiskFaults {
            read_error: self.read_error.min(most.read_error),
            read_flip: self.read_flip.min(most.read_flip),
            write_flip: self.write_flip.min(most.write_flip),
            write_lost: self.write_lost.min(most.write_lost),
            forbidden: self.forbidden.min(most.forbidden),
            write_error: self.write_error.min(most.write_error),
            full: self.full.min(most.full),
            slow: self.slow.min(most.slow),
        }
    }
}

/// One swap file and its disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileOptions {
    /// What the supervisor is told of it.
    pub spec: FileSpec,
    /// What goes wrong.
    pub faults: DiskFaults,
}

/// Swap files of a seed at most.
pub const FILES_MAX: usize = 3;

/// Swap files that come while a seed runs, at most.
pub const FILES_ADDED_MAX: usize = 6;
/// Buffers for what is read ahead, at most.
pub const READAHEAD_MAX: u32 = 3;

/// A forked child mostly begins within this time.
pub const CHILD_DELAY_NS: u64 = 50_000;

/// Slots of one of them at most.
pub const FILE_SLOTS_MAX: u64 = 8 * 41;

/// What programs mostly do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Mix {
    /// A little of everything.
    All,
    /// Threads that mostly map, unmap, move, drop, lock and protect.
    Mappings,
    /// As all, and swap files come and go.
    Files,
    /// Threads that mostly go round in more memory than there is.
    Rounds,
    /// Threads whose memory is mostly touched by the kernel, in system calls.
    Calls,
    /// Processes that write to what they have read, fork, and end.
    Forks,
    /// A little of everything, slowly, for so many simulated hours; new processes are started for those that end.
    #[value(skip)]
    Soak {
        /// How long.
        hours: u64,
    },
}

/// How a run goes on for hours.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Soak {
    /// Made-up time at which threads end.
    pub until_ns: u64,
    /// A thread thinks up to so long between two operations.
    pub think_ns: u64,
    /// Whoever waits for something to do sleeps so many times longer than in a short run.
    pub calm: u64,
}

/// Everything about the run of one seed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// Sizes of the shared tables.
    pub geometry: Geometry,
    /// RAM budget in pages.
    pub ram_pages: u64,
    /// Pages that come along with one that is touched, at most.
    pub readahead_pages: u64,
    /// Bytes that the pool may hold.
    pub pool_bytes: u64,
    /// Threads of a process that evict.
    pub evictors: u64,
    /// Processes at the start.
    pub processes: usize,
    /// Processes at once, children included.
    pub processes_max: usize,
    /// Program threads of a process.
    pub threads: usize,
    /// Operations of each thread.
    pub operations: u64,
    /// Pages where programs map memory.
    pub zone_pages: u64,
    /// So many of 1000 new mappings come where the kernel finds room, from the top down; the others where the program
    /// says.
    pub top_down: u64,
    /// Of 100 reads and writes, how many are writes.
    pub writes_percent: u64,
    /// Other operations.
    pub weights: Weights,
    /// The swap files.
    pub files: [Option<FileOptions>; FILES_MAX],
    /// How often a swap file is to come or go.
    pub file_changes: u64,
    /// Faults of a file that comes, at most.
    pub added_faults_max: DiskFaults,
    /// Processes killed from outside.
    pub kills: u64,
    /// The kernel does not do all that it is asked for in so many of 1000 calls.
    pub refusals: u64,
    /// A forked child takes so long at most until it begins.
    pub child_delay_max_ns: u64,
    /// So long a child may take after the death of its parent until it is dead too for the supervisor.
    pub unclaimed_max_ns: u64,
    /// Slowest task: chosen in one of so many turns.
    pub slowness: u64,
    /// A run of hours, whose threads do not count their operations.
    pub soak: Option<Soak>,
}

/// Further files: each has a disk of its own, and one of them may take nothing at all.
fn more_files(first: FileOptions, prng: &mut Prng) -> [Option<FileOptions>; FILES_MAX] {
    let kinds = [FileKind::SolidState, FileKind::Rotational];
    let count = if prng.chance(1, 2) { 1 } else { 2 + prng.below(2) as usize };
    core::array::from_fn(|index| {
        if index >= count {
            return None;
        }
        let priority = if prng.chance(1, 2) { 5 } else { -1 - index as i16 };
        let kind = kinds[prng.below(2) as usize];
        if index == 0 {
            return Some(FileOptions { spec: FileSpec { priority, kind, ..first.spec }, ..first });
        }
        let mut rarely = |of_1000: u64| if prng.chance(1, 5) { 1 + prng.below(of_1000) } else { 0 };
        let faults = DiskFaults {
            read_error: rarely(200),
            write_error: rarely(1000),
            full: rarely(1000),
            slow: rarely(100),
            ..DiskFaults::default()
        };
        let slots = 8 + prng.below(FILE_SLOTS_MAX - 8);
        Some(FileOptions { spec: FileSpec { slots, priority, kind, ..first.spec }, faults })
    })
}

impl Options {
    /// The swap files.
    pub fn files(&self) -> impl Iterator<Item = FileOptions> {
        self.files.into_iter().flatten()
    }

    /// So many times longer than in a short run do tasks sleep that wait for something to do.
    pub fn calm(&self) -> u64 {
        self.soak.map_or(1, |soak| soak.calm)
    }

    /// The options of a seed.
    pub fn of_seed(prng: &mut Prng, mix: Mix) -> Options {
        let all = Options::all(prng);
        match mix {
            Mix::All => all,
            Mix::Mappings => all.mostly_mappings(prng),
            Mix::Files => all.with_changing_files(prng),
            Mix::Rounds => all.that_go_round(prng),
            Mix::Calls => all.mostly_calls(prng),
            Mix::Forks => all.that_fork(prng),
            Mix::Soak { hours } => all.for_hours(hours),
        }
    }

    /// Two processes at least, which end now and then and are killed every other minute.
    fn for_hours(self, hours: u64) -> Options {
        let until_ns = hours * 3_600_000_000_000;
        Options {
            weights: Weights { fork: 1, exit: 2, special: 0, ..self.weights },
            threads: self.threads.min(3),
            processes: self.processes.max(2),
            kills: hours * 30,
            geometry: Geometry { mms: 12, tables: 96, ..self.geometry },
            soak: Some(Soak { until_ns, think_ns: 2_000_000_000, calm: 2000 }),
            ..self
        }
    }

    fn with_changing_files(self, prng: &mut Prng) -> Options {
        let sizes = self.files().map(|file| file.spec.slots).chain([FILE_SLOTS_MAX; FILES_ADDED_MAX]);
        let geometry = Geometry { slots: slots_of_all(sizes), ..self.geometry };
        let file_changes = 4 + prng.below(30);
        Options { geometry, file_changes, added_faults_max: DiskFaults::ALL, ..self }
    }

    /// Little but reads and writes in order, so that much comes along.
    fn that_go_round(self, prng: &mut Prng) -> Options {
        let weights = Weights {
            map: 2 + prng.below(6),
            round: 10 + prng.below(100),
            unmap: self.weights.unmap / 4,
            map_over: self.weights.map_over / 4,
            ..self.weights
        };
        Options {
            readahead_pages: 4 << prng.below(4),
            weights,
            geometry: Geometry { entries: 2048, ..self.geometry },
            threads: 1 + prng.below(2) as usize,
            operations: 40 + prng.below(60),
            processes: 1 + prng.below(2) as usize,
            processes_max: 3,
            ..self
        }
    }

    /// A pool with room, which keeps copies, and children that soon make room for others.
    fn that_fork(self, prng: &mut Prng) -> Options {
        let zspages = 24 + prng.below(8) as u32;
        Options {
            weights: Weights {
                map: 3,
                fork: 2 + prng.below(4),
                exit: 4 + prng.below(8),
                unmap: 0,
                map_over: 0,
                ..self.weights
            },
            geometry: Geometry { mms: 12, tables: 96, entries: 2048, zspages, ..self.geometry },
            pool_bytes: u64::from(zspages) * 32 * 1024,
            threads: 1 + prng.below(2) as usize,
            // Children do as much, and fork too.
            operations: 60 + prng.below(90),
            kills: 0,
            ram_pages: 140 + prng.below(100),
            ..self
        }
    }

    /// Two threads at least, and the kernel does most of the reading and writing.
    fn mostly_calls(self, prng: &mut Prng) -> Options {
        let mut sometimes = |weight: u64| if prng.chance(2, 3) { 1 + prng.below(weight) } else { 0 };
        let weights = Weights {
            call: 100 + sometimes(200),
            special: sometimes(12),
            drop: sometimes(4),
            fork: sometimes(2),
            exit: 0,
            ..self.weights
        };
        let threads = 2 + sometimes(2) as usize;
        Options { weights, threads, processes: 1, processes_max: 3, kills: 0, ..self }
    }

    /// A file that comes while the seed runs.
    pub fn new_file(&self, prng: &mut Prng) -> FileOptions {
        let mut rarely = |of_1000: u64| if prng.chance(1, 6) { 1 + prng.below(of_1000) } else { 0 };
        let faults = DiskFaults {
            read_error: rarely(200),
            read_flip: rarely(200),
            write_error: rarely(500),
            full: rarely(500),
            slow: rarely(100),
            ..DiskFaults::default()
        };
        let kind = if prng.chance(1, 2) { FileKind::SolidState } else { FileKind::Rotational };
        let (slots, priority) = (8 + prng.below(FILE_SLOTS_MAX - 8), prng.below(8) as i16 - 4);
        let spec = FileSpec { slots, priority, kind, descriptor: 3, access: FileAccess::Buffered };
        FileOptions { spec, faults: faults.at_most(self.added_faults_max) }
    }

    fn mostly_mappings(self, prng: &mut Prng) -> Options {
        let mut sometimes = |weight: u64| if prng.chance(2, 3) { 1 + prng.below(weight) } else { 0 };
        let weights = Weights {
            call: sometimes(20),
            map: 20 + sometimes(30),
            unmap: sometimes(50),
            map_over: sometimes(20),
            remap: 10 + sometimes(60),
            drop: sometimes(30),
            advise: sometimes(10),
            protect: sometimes(20),
            lock: sometimes(20),
            special: sometimes(20),
            fork: sometimes(3),
            round: 0,
            exit: 0,
        };
        Options {
            weights,
            threads: 2 + sometimes(4) as usize,
            processes: 1,
            operations: 100 + sometimes(150),
            kills: 0,
            ..self
        }
    }

    fn all(prng: &mut Prng) -> Options {
        let mut sometimes = |weight: u64| if prng.chance(2, 3) { 1 + prng.below(weight) } else { 0 };
        let weights = Weights {
            call: sometimes(40),
            map: 4 + sometimes(6),
            unmap: sometimes(6),
            map_over: sometimes(4),
            remap: sometimes(6),
            drop: sometimes(8),
            advise: sometimes(4),
            protect: sometimes(4),
            lock: sometimes(4),
            special: sometimes(3),
            fork: sometimes(3),
            round: 0,
            exit: sometimes(2),
        };
        let kills = sometimes(2);
        let mut rarely = |of_1000: u64| if prng.chance(1, 4) { 1 + prng.below(of_1000) } else { 0 };
        let faults = DiskFaults {
            read_error: rarely(300),
            read_flip: rarely(300),
            write_flip: rarely(60),
            write_lost: rarely(60),
            forbidden: rarely(500),
            write_error: rarely(300),
            full: rarely(200),
            slow: rarely(100),
        };
        let refusals = rarely(60);
        let slowness = if prng.chance(1, 3) { 30 } else { 1 };
        let is_crowded = prng.chance(1, 40);
        let mut geometry = Geometry {
            mms: if prng.chance(1, 6) { 3 } else { 12 },
            tables: if prng.chance(1, 6) { 14 + prng.below(6) as u32 } else { 96 },
            entries: 512 * (1 + prng.below(4) as u32),
            zspages: 6 + prng.below(26) as u32,
            slots: 8 * (2 + prng.below(40)),
            readahead: 0,
        };
        let spec = FileSpec {
            slots: geometry.slots,
            priority: -1,
            kind: FileKind::SolidState,
            descriptor: 3,
            access: FileAccess::Buffered,
        };
        let files = more_files(FileOptions { spec, faults }, prng);
        geometry.slots = slots_of_all(files.iter().flatten().map(|file| file.spec.slots));
        let zone_pages = [128, 256, 448][prng.below(3) as usize];
        geometry.readahead = prng.below(u64::from(READAHEAD_MAX) + 1) as u32;
        Options {
            geometry,
            ram_pages: 32 + prng.below(zone_pages),
            readahead_pages: 4 << prng.below(4),
            pool_bytes: (1 + prng.below(u64::from(geometry.zspages))) * 32 * 1024,
            evictors: 1 + prng.below(2),
            processes: 1 + prng.below(3) as usize,
            processes_max: 5,
            threads: if is_crowded { 40 } else { 1 + prng.below(3) as usize },
            operations: if is_crowded { 10 } else { 60 + prng.below(200) },
            zone_pages,
            top_down: if prng.chance(1, 2) { 300 + prng.below(701) } else { 0 },
            writes_percent: 20 + prng.below(60),
            weights,
            files,
            file_changes: 0,
            added_faults_max: DiskFaults::default(),
            kills,
            refusals,
            child_delay_max_ns: if prng.chance(1, 6) { 8_000_000 } else { CHILD_DELAY_NS },
            unclaimed_max_ns: 3_000_000,
            slowness,
            soak: None,
        }
    }
}
