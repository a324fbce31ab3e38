//! What the calls of one process work with: files of every kind, memory of every kind.

use crate::evictor::{self, COUNTS, KEPT, KEPT_END, Keeper, PAGE, PAGES, THREADS};
use crate::kernel::{make, raw};
use std::sync::atomic::Ordering;
use uswap_interpose::Call;
use uswap_interpose::buffers::{Boundary, HazardTable, StackPoint, register_asymmetric_fence};
use uswap_units::Prng;

/// Memory that nobody keeps: some that can be written, some that can be read, some that can be neither; then nothing.
pub const FOREIGN: u64 = 0x2200_0000_0000;
pub const FOREIGN_READ_ONLY: u64 = FOREIGN + 4 * PAGE;
pub const FOREIGN_CLOSED: u64 = FOREIGN + 6 * PAGE;
pub const FOREIGN_END: u64 = FOREIGN + 8 * PAGE;
/// Structures that are always there.
pub const SAFE: u64 = 0x2300_0000_0000;

/// Somewhere on the stack of the caller.
pub fn stack_point() -> StackPoint {
    let here = 0_u64;
    StackPoint { pointer: (&raw const here) as u64, stack: 0 }
}

/// One process.
pub struct World {
    pub prng: Prng,
    pub files: Files,
    /// Where the next structure goes.
    pub structure_bytes: u64,
    is_evicted: bool,
    /// Its calls go through the boundary.
    is_careful: bool,
    hazards: &'static HazardTable<'static>,
}

/// Descriptors, the same numbers in both processes.
pub struct Files {
    pub file: u64,
    pub pipe: [u64; 2],
    pub streams: [u64; 2],
    pub datagrams: [u64; 2],
    pub packets: [u64; 2],
    pub events: u64,
    pub signals: u64,
    pub timer: u64,
    pub epoll: u64,
    pub listener: u64,
    pub queue: u64,
    /// The highest descriptor of these.
    pub last: u64,
}

fn pair(number: i64, given: [u64; 3]) -> [u64; 2] {
    let mut ends = [0_i32; 2];
    let to = (&raw mut ends) as u64;
    let answer = if number == libc::SYS_pipe2 {
        raw(number, [to, given[0]])
    } else {
        raw(number, [given[0], given[1], given[2], to])
    };
    assert_eq!(answer, 0);
    ends.map(|end| end as u64)
}

fn sockets(kind: i32) -> [u64; 2] {
    pair(libc::SYS_socketpair, [libc::AF_UNIX as u64, (kind | libc::SOCK_NONBLOCK) as u64, 0])
}

fn opened(answer: i64) -> u64 {
    assert!(answer >= 0, "a file that the test needs: {answer}");
    answer as u64
}

impl Files {
    fn new() -> Files {
        let blocked = [1_u64 << (libc::SIGUSR1 - 1)];
        raw(libc::SYS_rt_sigprocmask, [0, blocked.as_ptr() as u64, 0, 8]);
        let listener = opened(raw(
            libc::SYS_socket,
            [libc::AF_UNIX as u64, (libc::SOCK_STREAM | libc::SOCK_NONBLOCK) as u64, 0],
        ));
        // A name is chosen by the kernel: five digits.
        assert_eq!(raw(libc::SYS_bind, [listener, [libc::AF_UNIX as u16].as_ptr() as u64, 2]), 0);
        raw(libc::SYS_listen, [listener, 8]);
        Files {
            file: opened(raw(libc::SYS_memfd_create, [c"differential".as_ptr() as u64, 0])),
            pipe: pair(libc::SYS_pipe2, [libc::O_NONBLOCK as u64, 0, 0]),
            streams: sockets(libc::SOCK_STREAM),
            datagrams: sockets(libc::SOCK_DGRAM),
            packets: sockets(libc::SOCK_SEQPACKET),
            events: opened(raw(libc::SYS_eventfd2, [0, libc::EFD_NONBLOCK as u64])),
            signals: opened(raw(
                libc::SYS_signalfd4,
                [u64::MAX, blocked.as_ptr() as u64, 8, libc::SFD_NONBLOCK as u64],
            )),
            timer: opened(raw(libc::SYS_timerfd_create, [1, libc::TFD_NONBLOCK as u64])),
            epoll: opened(raw(libc::SYS_epoll_create1, [0])),
            listener,
            last: 0,
            queue: private_queue(),
        }
    }
}

/// A queue of System V that ends with this process, or the number of none.
fn private_queue() -> u64 {
    let is_alone = raw(libc::SYS_unshare, [libc::CLONE_NEWIPC as u64]) == 0
        || raw(libc::SYS_unshare, [(libc::CLONE_NEWUSER | libc::CLONE_NEWIPC) as u64]) == 0;
    if is_alone { raw(libc::SYS_msgget, [libc::IPC_PRIVATE as u64, 0o600]) as u64 } else { u64::MAX >> 33 }
}

impl World {
    /// A process that is `plain`, `evicted`, or evicted and `careless`.
    pub fn new(role: &str, seed: u64) -> World {
        let is_evicted = role != "plain";
        evictor::map(KEPT);
        evictor::map(SAFE);
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE) as u64;
        assert_eq!(raw(libc::SYS_mmap, [FOREIGN, 8 * PAGE, 3, flags, u64::MAX, 0]) as u64, FOREIGN);
        for (index, start) in (KEPT..KEPT_END).chain(FOREIGN..FOREIGN_CLOSED).step_by(8).enumerate() {
            // SAFETY:
            // 1. Both stretches were just mapped.
            unsafe { (start as *mut u64).write((index as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)) };
        }
        raw(libc::SYS_mprotect, [FOREIGN_READ_ONLY, 2 * PAGE, libc::PROT_READ as u64]);
        raw(libc::SYS_mprotect, [FOREIGN_CLOSED, 2 * PAGE, libc::PROT_NONE as u64]);
        let mut files = Files::new();
        // The next free number is where later ones begin.
        files.last = opened(raw(libc::SYS_eventfd2, [0, 0])) - 1;
        raw(libc::SYS_close, [files.last + 1]);
        let hazards: &'static HazardTable<'static> =
            Box::leak(Box::new(HazardTable::map(THREADS).expect("memory for some slots")));
        if is_evicted {
            register_asymmetric_fence();
            evictor::begin();
            crate::watch::tell_when_asked(hazards);
            std::thread::spawn(move || evictor::run(hazards, seed));
        }
        World {
            prng: Prng::new(seed),
            files,
            structure_bytes: 0,
            is_evicted,
            is_careful: matches!(role, "evicted" | "waits" | "threads"),
            hazards,
        }
    }

    /// Makes a call of the program.
    pub fn call(&mut self, call: &Call) -> isize {
        // Both processes draw; one evicts. Part of what the call needs is gone when it is made.
        let indexes: Vec<usize> = (0..3).map(|_| self.prng.below(PAGES) as usize).collect();
        let protects = self.prng.chance(1, 4);
        if !self.is_evicted {
            return make(call);
        }
        evictor::evict(self.hazards, &indexes, protects);
        if !self.is_careful {
            return make(call);
        }
        let answer = self.boundary().call(call, stack_point(), &mut make);
        assert_eq!(self.hazards.slot(0).counts(), (0, 0), "{call:x?} has ended, and its frame with it");
        answer
    }

    pub fn boundary(&self) -> Boundary<'static, Keeper> {
        self.boundary_of(0)
    }

    /// The boundary of another thread.
    pub fn boundary_of(&self, thread: usize) -> Boundary<'static, Keeper> {
        Boundary::new(&Keeper, self.hazards.slot(thread))
    }

    /// A word of kept memory.
    pub fn word(&self, address: u64) -> u64 {
        assert!((KEPT..KEPT_END - 8).contains(&address));
        // SAFETY:
        // 1. It lies in kept memory; an evicted page is brought by the handler.
        unsafe { (address as *const u64).read_unaligned() }
    }

    /// Closes what earlier calls opened: descriptors that arrived, connections.
    pub fn close_others(&self) {
        (self.files.last + 1..self.files.last + 9).for_each(|file| {
            raw(libc::SYS_close, [file]);
        });
    }

    /// Clears what the kernel may have written and differs between two processes, where it can be written.
    pub fn clear(&self, start: u64, bytes: u64) {
        for (from, to) in [(KEPT, KEPT_END), (FOREIGN, FOREIGN_READ_ONLY)] {
            for address in start.max(from)..start.saturating_add(bytes).min(to) {
                // SAFETY:
                // 1. The stretch is mapped and can be written; an evicted page is brought by the handler.
                unsafe { (address as *mut u8).write_volatile(0) };
            }
        }
    }

    /// Evicts the pages of a range right before it is used.
    pub fn evict_at(&self, start: u64, bytes: u64) {
        if self.is_evicted && (KEPT..KEPT_END).contains(&start) {
            let last = (start + bytes.max(1) - 1).min(KEPT_END - 1);
            let indexes: Vec<usize> =
                ((start - KEPT) / PAGE..=(last - KEPT) / PAGE).map(|index| index as usize).collect();
            evictor::evict(self.hazards, &indexes, false);
        }
    }

    /// A sum of the bytes of a range that can be read.
    pub fn sum(&self, start: u64, bytes: u64) -> u64 {
        let mut sum = 0xcbf2_9ce4_8422_2325_u64;
        for (from, to) in [(KEPT, KEPT_END), (FOREIGN, FOREIGN_CLOSED), (SAFE, SAFE + PAGES * PAGE)] {
            let (from, to) = (start.max(from), start.saturating_add(bytes).min(to));
            for address in from..to.max(from) {
                // SAFETY:
                // 1. The stretch is mapped and can be read; an evicted page is brought by the handler.
                let byte = unsafe { (address as *const u8).read_volatile() };
                sum = (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
            }
        }
        sum
    }

    pub fn sum_of_all(&self) -> u64 {
        self.sum(KEPT, PAGES * PAGE) ^ self.sum(FOREIGN, FOREIGN_END - FOREIGN).rotate_left(1)
    }

    /// How much was evicted: a run in which nothing was has shown nothing.
    pub fn report(&self) {
        if self.is_careful {
            let counts = COUNTS.each_ref().map(|count| count.load(Ordering::Relaxed));
            let [evicted, protected, in_use, by_fault, by_boundary] = counts;
            eprintln!(
                "evicted {evicted}, protected {protected}, found in use {in_use}, brought by a fault {by_fault}, \
                 by the boundary {by_boundary}"
            );
            assert!(evicted > 0 && protected > 0 && by_fault > 0 && by_boundary > 0, "{counts:?}");
            let (frames, ranges) = self.hazards.slot(0).counts();
            assert_eq!((frames, ranges), (0, 0), "no call is under way");
        }
    }
}
