//! What one seed runs: sizes, which operations and which faults. Each seed leaves some of them out altogether (swarm
//! testing), since a bug may need that something else does not happen.

use uswap_core::files::{FileAccess, FileKind, FileSpec, slots_of_all};
use uswap_core::segment::Geometry;
use uswap_engine::{EngineOptions, HugePages};
use uswap_units::{BLOCK_PAGES, Prng};

/// What the program threads may do beside reading and writing, as weights.
#[derive(Clone, Copy, Debug, Default)]
pub struct Weights {
    /// Map memory, often where some was unmapped a moment ago.
    pub map: u64,
    /// Map a block and touch all of it at once, as one huge page.
    pub map_huge: u64,
    /// Go through new memory in order, from before the begin of a block.
    pub sweep: u64,
    /// Go through all memory in order.
    pub round: u64,
    /// Unmap whole or part.
    pub unmap: u64,
    /// Map over what is there.
    pub map_over: u64,
    /// Move a mapping.
    pub remap: u64,
    /// MADV_DONTNEED.
    pub drop: u64,
    /// Fork.
    pub fork: u64,
    /// Protect against writing, and back.
    pub protect: u64,
    /// Pin and unpin.
    pub pin: u64,
    /// End the process.
    pub exit: u64,
}

/// Faults of the disk, each in so many of 1000 calls.
#[derive(Clone, Copy, Debug, Default)]
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

/// One swap file and its disk.
#[derive(Clone, Copy, Debug)]
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

/// Slots of one of them at most.
pub const FILE_SLOTS_MAX: u64 = 8 * 41;

/// What programs mostly do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mix {
    /// A little of everything.
    All,
    /// One process whose threads, and those of its children, mostly map, unmap, move and fork: many events at once, and
    /// nothing else goes wrong.
    Mappings,
    /// As all, and swap files come and go.
    Files,
    /// Processes whose threads mostly go round in more memory than there is.
    Rounds,
    /// The same in huge pages, which leave and come back as one.
    Huge,
    /// Processes that write to what they have read, and fork: what stored pages named before is given back while tables
    /// are copied.
    Forks,
    /// A little of everything, slowly, for so many made-up hours; new processes are started for those that end.
    Soak {
        /// How long.
        hours: u64,
    },
}

/// How a run goes on for hours.
#[derive(Clone, Copy, Debug)]
pub struct Soak {
    /// Made-up time at which threads end.
    pub until_ns: u64,
    /// A thread thinks up to so long between two operations.
    pub think_ns: u64,
    /// The supervisor and who waits for signals sleep so many times longer than in a short run.
    pub calm: u64,
}

/// Everything about the run of one seed.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Sizes of the shared tables.
    pub geometry: Geometry,
    /// RAM budget in pages.
    pub ram_pages: u64,
    /// Bytes that the pool may hold.
    pub pool_bytes: u64,
    /// Of each engine.
    pub engine: EngineOptions,
    /// Handlers of each process.
    pub handlers: u64,
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
    /// Processes killed from outside.
    pub kills: u64,
    /// A page is found busy for no reason in so many of 1000 moves.
    pub busy: u64,
    /// Somebody has just looked at an empty frame before so many of 1000 moves: the kernel has put zeros there.
    pub looks: u64,
    /// So many of 1000 moves do not count what they have moved.
    pub uncounted: u64,
    /// The supervisor takes store jobs.
    pub storer: bool,
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

    /// The options of a seed.
    pub fn of_seed(prng: &mut Prng, mix: Mix) -> Options {
        let all = Options::all(prng);
        let options = match mix {
            Mix::All => all,
            Mix::Mappings => all.mostly_mappings(prng),
            Mix::Files => all.with_changing_files(prng),
            Mix::Rounds => all.that_go_round(prng),
            Mix::Huge => all.in_huge_pages(prng),
            Mix::Forks => all.that_fork(prng),
            Mix::Soak { hours } => all.for_hours(hours),
        };
        // Of a sequence of its own: what else a seed does is as before the kernel placed anything.
        let mut own = prng.clone();
        let top_down = if own.chance(1, 2) { 300 + own.below(701) } else { 0 };
        Options { top_down, ..options }
    }

    /// Two processes at least, which end now and then and are killed every other minute.
    fn for_hours(self, hours: u64) -> Options {
        let until_ns = hours * 3_600_000_000_000;
        Options {
            weights: Weights { fork: 1, exit: 2, ..self.weights },
            threads: self.threads.min(3),
            processes: self.processes.max(2),
            kills: hours * 30,
            geometry: Geometry { mms: 12, tables: 96, ..self.geometry },
            soak: Some(Soak { until_ns, think_ns: 2_000_000_000, calm: 2000 }),
            ..self
        }
    }
    /// So many times longer than in a short run do tasks sleep that wait for something to do.
    pub fn calm(&self) -> u64 {
        self.soak.map_or(1, |soak| soak.calm)
    }

    fn with_changing_files(self, prng: &mut Prng) -> Options {
        let sizes = self.files().map(|file| file.spec.slots).chain([FILE_SLOTS_MAX; FILES_ADDED_MAX]);
        let geometry = Geometry { slots: slots_of_all(sizes), ..self.geometry };
        Options { geometry, file_changes: 4 + prng.below(30), ..self }
    }

    /// Enough memory that some of what was gone past is staged before the program comes there again.
    fn that_go_round(self, prng: &mut Prng) -> Options {
        let zone_pages = 64 + BLOCK_PAGES * (2 + prng.below(2));
        let arena_chunks = 6 + prng.below(12) as u32;
        Options {
            zone_pages,
            ram_pages: 300 + prng.below(zone_pages),
            weights: Weights { map: 2 + prng.below(6), round: 10 + prng.below(100), ..self.weights },
            engine: EngineOptions { arena_chunks, run_pages: 4 << prng.below(4), ..self.engine },
            geometry: Geometry { entries: 2048, ..self.geometry },
            threads: 1 + prng.below(2) as usize,
            operations: 40 + prng.below(60),
            processes: 1 + prng.below(2) as usize,
            processes_max: 3,
            ..self
        }
    }

    /// Three or four blocks, of which some fit in memory at a time.
    fn in_huge_pages(self, prng: &mut Prng) -> Options {
        let blocks = 3 + prng.below(2);
        let ram_pages = BLOCK_PAGES * blocks / 2 + prng.below(BLOCK_PAGES * blocks / 2);
        let arena_chunks = 16 + prng.below(24) as u32;
        let huge_room_pages = 2 * prng.below(BLOCK_PAGES) as u32;
        Options {
            zone_pages: 64 + BLOCK_PAGES * blocks,
            ram_pages,
            // Single touches leave no huge page whole for long.
            weights: Weights {
                map: 1,
                map_huge: 60 + prng.below(200),
                round: 300 + prng.below(1000),
                ..self.weights
            },
            engine: EngineOptions { arena_chunks, huge_room_pages, ..self.engine },
            geometry: Geometry { entries: 2048, ..self.geometry },
            threads: 1 + prng.below(2) as usize,
            operations: 20 + prng.below(40),
            processes: 1,
            processes_max: 2,
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
            operations: 150 + prng.below(150),
            kills: 0,
            ram_pages: 140 + prng.below(100),
            ..self
        }
    }

    /// A file that comes while the seed runs.
    pub fn new_file(prng: &mut Prng) -> FileOptions {
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
        FileOptions { spec, faults }
    }

    fn mostly_mappings(self, prng: &mut Prng) -> Options {
        let mut sometimes = |weight: u64| if prng.chance(2, 3) { 1 + prng.below(weight) } else { 0 };
        let weights = Weights {
            map: 20 + sometimes(30),
            map_huge: 0,
            sweep: 0,
            round: 0,
            unmap: sometimes(60),
            map_over: sometimes(20),
            remap: 10 + sometimes(80),
            drop: sometimes(10),
            fork: sometimes(3),
            protect: sometimes(4),
            pin: sometimes(3),
            exit: 0,
        };
        Options {
            weights,
            threads: 2 + sometimes(5) as usize,
            processes: 1,
            operations: 200 + sometimes(200),
            kills: 0,
            files: self
                .files
                .map(|file| file.map(|file| FileOptions { faults: DiskFaults::default(), ..file })),
            busy: 0,
            looks: 0,
            uncounted: 0,
            ..self
        }
    }

    fn all(prng: &mut Prng) -> Options {
        let mut sometimes = |weight: u64| if prng.chance(2, 3) { 1 + prng.below(weight) } else { 0 };
        let weights = Weights {
            map: 4 + sometimes(6),
            map_huge: 0,
            sweep: 0,
            round: 0,
            unmap: sometimes(8),
            map_over: sometimes(4),
            remap: sometimes(6),
            drop: sometimes(8),
            fork: sometimes(3),
            protect: sometimes(4),
            pin: sometimes(4),
            exit: sometimes(1),
        };
        let kills = sometimes(2);
        let mut rarely = |of_1000: u64| if prng.chance(1, 4) { 1 + prng.below(of_1000) } else { 0 };
        let mut faults = DiskFaults {
            read_error: rarely(300),
            read_flip: rarely(300),
            write_flip: rarely(60),
            write_lost: 0,
            forbidden: 0,
            write_error: rarely(300),
            full: rarely(200),
            slow: rarely(100),
        };
        let busy = rarely(100);
        let slowness = if prng.chance(1, 3) { 30 } else { 1 };
        let crowd = prng.chance(1, 40);
        let mut geometry = Geometry {
            mms: if prng.chance(1, 6) { 3 } else { 12 },
            tables: if prng.chance(1, 6) { 16 } else { 96 },
            entries: 512 * (1 + prng.below(4) as u32),
            zspages: 6 + prng.below(26) as u32,
            slots: 8 * (2 + prng.below(40)),
        };
        // Of a sequence of its own: what else a seed does is as before there were looks.
        let mut own = prng.clone();
        let looks = if own.chance(1, 4) { 1 + own.below(30) } else { 0 };
        let uncounted = if own.chance(1, 4) { 1 + own.below(60) } else { 0 };
        if own.chance(1, 6) {
            faults.write_lost = 1 + own.below(60);
        }
        if own.chance(1, 6) {
            faults.forbidden = 1 + own.below(500);
        }
        let spec = FileSpec {
            slots: geometry.slots,
            priority: -1,
            kind: FileKind::SolidState,
            descriptor: 3,
            access: FileAccess::Buffered,
        };
        let files = more_files(FileOptions { spec, faults }, &mut own);
        geometry.slots = slots_of_all(files.iter().flatten().map(|file| file.spec.slots));
        let zone_pages = [192, 320, 448][prng.below(3) as usize];
        let options = Options {
            geometry,
            // Four staged chunks are the least: a budget below 256 pages can never be met.
            ram_pages: if prng.chance(1, 12) { 128 } else { 200 + prng.below(zone_pages) },
            pool_bytes: (1 + prng.below(u64::from(geometry.zspages))) * 32 * 1024,
            engine: EngineOptions {
                arena_chunks: 4 + prng.below(5) as u32,
                run_pages: 4 << prng.below(4),
                part_pages: 1 + prng.below(6) as u32,
                huge_pages: HugePages::StayWhole,
                huge_room_pages: 1024,
            },
            handlers: 1 + prng.below(3),
            processes: 1 + prng.below(3) as usize,
            processes_max: 5,
            threads: if crowd { 72 } else { 1 + prng.below(3) as usize },
            operations: if crowd { 12 } else { 300 + prng.below(600) },
            zone_pages,
            top_down: 0,
            writes_percent: 20 + prng.below(60),
            weights,
            files,
            file_changes: 0,
            kills,
            busy,
            looks,
            uncounted,
            storer: prng.chance(2, 3),
            slowness,
            soak: None,
        };
        if own.chance(1, 5) { options.with_huge_pages(&mut own) } else { options }
    }

    /// Room for two or three blocks, in the program and in the arena.
    fn with_huge_pages(self, prng: &mut Prng) -> Options {
        let zone_pages = 64 + BLOCK_PAGES * (2 + prng.below(2));
        let weights =
            Weights { map: 2, map_huge: 4 + prng.below(20), sweep: 2 + prng.below(12), ..self.weights };
        // Budgets here never have as much room as a real one.
        let huge_room_pages = if prng.chance(2, 3) { 0 } else { 512 };
        let arena_chunks = 8 + prng.below(20) as u32;
        let engine = EngineOptions { arena_chunks, huge_room_pages, ..self.engine };
        let entries = if prng.chance(1, 6) { 1024 } else { 2048 };
        let geometry = Geometry { entries, ..self.geometry };
        let ram_pages = if prng.chance(1, 8) { 256 } else { 500 + prng.below(zone_pages) };
        Options {
            zone_pages,
            weights,
            engine,
            geometry,
            ram_pages,
            threads: self.threads.min(3),
            operations: self.operations.min(400),
            processes_max: 3,
            ..self
        }
    }
}
