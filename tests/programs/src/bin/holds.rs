//! holds: one kind of memory, held for a while. For tests of how much is counted, and under what name.
//!
//! `holds KIND [--bytes 60M] [--processes 4] [--milliseconds 600]`. The kinds are in [`KINDS`]. Each process that
//! holds something verifies it before it ends. The program prints OK and ends with status 0, or prints what went
//! wrong and ends with status 1.

use std::ffi::CString;
use std::time::Duration;

use uswap_test_programs::arguments::Arguments;
use uswap_test_programs::memory;
use uswap_test_programs::message::{end_process, errno};
use uswap_test_programs::pattern::Key;
use uswap_test_programs::{PAGE_BYTES, random::Random};

macro_rules! fail {
    ($($argument:tt)*) => {
        end_process(1, format_args!("FAIL {}", format_args!($($argument)*)))
    };
}

struct Case {
    bytes: usize,
    processes: usize,
    time: Duration,
}

type Kind = fn(&Case);

const KINDS: [(&str, Kind); 13] = [
    ("private", private),
    ("shared_anonymous", |case| shared(case, map_anonymous(case.bytes))),
    ("memfd", |case| shared(case, map_file(&memfd(), case.bytes))),
    ("memfd_mapped_twice", mapped_twice),
    ("dev_shm", |case| shared(case, map_file(&dev_shm(), case.bytes))),
    ("system_v", |case| shared(case, map_system_v(case.bytes))),
    ("children_read", |case| family(case, 0)),
    ("children_write", |case| family(case, 2)),
    ("short_children", short_children),
    ("executable", executable),
    ("main_stack", main_stack),
    ("locked", locked),
    ("written_file", written_file),
];

fn main() {
    let mut words = std::env::args().skip(1);
    let name = words.next().unwrap_or_default();
    let Some((_, run)) = KINDS.iter().find(|(known, _)| *known == name) else {
        eprintln!("unknown kind {name:?}; there are {:?}", KINDS.map(|(name, _)| name));
        std::process::exit(2);
    };
    let arguments = Arguments::read(words, &["bytes", "processes", "milliseconds"]);
    run(&Case {
        bytes: arguments.bytes("bytes", "60M"),
        processes: arguments.number("processes", 4) as usize,
        time: Duration::from_millis(arguments.number("milliseconds", 600)),
    });
    println!("OK");
}

/// A range with known content.
#[derive(Clone, Copy)]
struct Range {
    address: usize,
    pages: usize,
    writer: u32,
}

impl Range {
    fn filled(address: usize, bytes: usize) -> Range {
        let range = Range { address, pages: bytes / PAGE_BYTES, writer: 1 };
        range.fill(1);
        range
    }

    fn key(self, index: usize) -> Key {
        Key { seed: 7, writer: self.writer, number: index as u32 }
    }

    fn fill(self, step: usize) {
        let mut page = [0; PAGE_BYTES];
        for index in (0..self.pages).step_by(step) {
            self.key(index).fill(&mut page);
            memory::copy_page_in(self.address + index * PAGE_BYTES, &page);
        }
    }

    fn verify(self, step: usize, who: &str) {
        let (mut found, mut wanted) = ([0; PAGE_BYTES], [0; PAGE_BYTES]);
        for index in (0..self.pages).step_by(step) {
            memory::copy_page_out(self.address + index * PAGE_BYTES, &mut found);
            self.key(index).fill(&mut wanted);
            if found != wanted {
                fail!("{who}: page {index} of {} is wrong", self.pages);
            }
        }
    }
}

fn or_fail<Value>(result: Result<Value, i32>, what: &str) -> Value {
    result.unwrap_or_else(|error| fail!("{what}: errno {error}"))
}

fn map_private(bytes: usize) -> usize {
    or_fail(memory::map_private(bytes, 0), "mmap")
}

fn map_anonymous(bytes: usize) -> usize {
    or_fail(memory::map_shared(bytes), "mmap")
}

fn memfd() -> i32 {
    // SAFETY:
    // 1. The name is a constant string.
    let descriptor = unsafe { libc::memfd_create(c"holds".as_ptr(), 0) };
    if descriptor < 0 { fail!("memfd_create: errno {}", errno()) } else { descriptor }
}

/// A file of the directory for shared memory that has no name any more.
fn dev_shm() -> i32 {
    unlinked(&format!("/dev/shm/uswap-holds-{}", std::process::id()))
}

fn unlinked(path: &str) -> i32 {
    let path = CString::new(path).expect("it has no zero byte");
    // SAFETY:
    // 1. The path is a string that lives through both calls.
    let descriptor = unsafe { libc::open(path.as_ptr(), libc::O_RDWR | libc::O_CREAT | libc::O_EXCL, 0o600) };
    if descriptor < 0 {
        fail!("{path:?}: errno {}", errno());
    }
    // SAFETY:
    // 1. As above.
    or_fail(memory::check(unsafe { libc::unlink(path.as_ptr()) }), "unlink");
    descriptor
}

fn map_file(descriptor: &i32, bytes: usize) -> usize {
    map_descriptor(*descriptor, bytes, libc::MAP_SHARED)
}

fn map_descriptor(descriptor: i32, bytes: usize, flags: i32) -> usize {
    // SAFETY:
    // 1. The descriptor is ours.
    or_fail(memory::check(unsafe { libc::ftruncate(descriptor, bytes as i64) }), "ftruncate");
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY:
    // 1. A new mapping replaces nothing.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), bytes, protection, flags, descriptor, 0) };
    if address == libc::MAP_FAILED { fail!("mmap: errno {}", errno()) } else { address as usize }
}

fn map_system_v(bytes: usize) -> usize {
    // SAFETY:
    // 1. All arguments are numbers.
    let id = unsafe { libc::shmget(libc::IPC_PRIVATE, bytes, libc::IPC_CREAT | 0o600) };
    if id < 0 {
        fail!("shmget: errno {}", errno());
    }
    // SAFETY:
    // 1. The kernel chooses a free place.
    let address = unsafe { libc::shmat(id, std::ptr::null(), 0) };
    // SAFETY:
    // 1. It goes when nobody has it attached any more; the structure is not used for this command.
    unsafe { libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut()) };
    if address as isize == -1 { fail!("shmat: errno {}", errno()) } else { address as usize }
}

/// Runs `work` in children; waits for all.
fn in_children(count: usize, work: impl Fn(usize)) {
    let mut pids = Vec::with_capacity(count);
    for number in 0..count {
        // SAFETY:
        // 1. There is one thread, so the child may do what it likes.
        match unsafe { libc::fork() } {
            -1 => fail!("fork: errno {}", errno()),
            0 => {
                work(number);
                // SAFETY:
                // 1. `_exit` has no precondition.
                unsafe { libc::_exit(0) }
            }
            pid => pids.push(pid),
        }
    }
    for pid in pids {
        let mut status = 0;
        // SAFETY:
        // 1. `status` is a live local.
        if unsafe { libc::waitpid(pid, &raw mut status, 0) } != pid || status != 0 {
            fail!("a child ended with {status:#x}");
        }
    }
}

fn private(case: &Case) {
    let range = Range::filled(map_private(case.bytes), case.bytes);
    std::thread::sleep(case.time);
    range.verify(1, "private memory");
}

/// All processes map it, and all touch all of it.
fn shared(case: &Case, address: usize) {
    let range = Range::filled(address, case.bytes);
    in_children(case.processes - 1, |_| {
        range.verify(1, "child");
        std::thread::sleep(case.time);
    });
    range.verify(1, "parent");
}

fn mapped_twice(case: &Case) {
    let descriptor = memfd();
    let range = Range::filled(map_file(&descriptor, case.bytes), case.bytes);
    let again = Range { address: map_file(&descriptor, case.bytes), ..range };
    again.verify(1, "the other mapping");
    std::thread::sleep(case.time);
    range.verify(1, "the first mapping");
}

/// Children verify what they inherit and write each `step`-th page of it, none if that is 0.
fn family(case: &Case, step: usize) {
    let range = Range::filled(map_private(case.bytes), case.bytes);
    in_children(case.processes - 1, |number| {
        range.verify(1, "child");
        let own = Range { writer: number as u32 + 2, ..range };
        if step > 0 {
            own.fill(step);
        }
        std::thread::sleep(case.time);
        if step > 0 {
            own.verify(step, "child, what it wrote");
        } else {
            range.verify(1, "child, again");
        }
    });
    range.verify(1, "parent");
}

/// One child after the other reads some of what it inherits, and the parent all of it meanwhile.
fn short_children(case: &Case) {
    let range = Range::filled(map_private(case.bytes), case.bytes);
    let mut random = Random::new(3);
    for _ in 0..case.processes {
        in_children(1, |_| range.verify(10, "child"));
        let index = random.index(range.pages);
        let part = Range { address: range.address, pages: index.max(1), writer: 1 };
        part.verify(1, "parent");
    }
}

fn executable(case: &Case) {
    let protection = libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC;
    let address = memory::map(0, case.bytes, protection, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let range = Range::filled(or_fail(address, "mmap"), case.bytes);
    std::thread::sleep(case.time);
    range.verify(1, "executable memory");
}

/// As deep as the bytes go; the limit of the stack must allow for it (`ulimit -s`).
fn main_stack(case: &Case) {
    descend(case.bytes / STACK_FRAME_BYTES, case.time);
}

const STACK_FRAME_BYTES: usize = 16 * 1024;

#[inline(never)]
fn descend(depth: usize, time: Duration) {
    let mut words = [0_u64; STACK_FRAME_BYTES / 8];
    words.iter_mut().enumerate().for_each(|(index, word)| *word = (depth * 7919 + index) as u64);
    let words = std::hint::black_box(&mut words);
    if depth == 0 {
        std::thread::sleep(time);
    } else {
        descend(depth - 1, time);
    }
    if words.iter().enumerate().any(|(index, &word)| word != (depth * 7919 + index) as u64) {
        fail!("a frame of the stack is wrong, {depth} above the deepest");
    }
}

fn locked(case: &Case) {
    let range = Range::filled(map_private(case.bytes), case.bytes);
    // SAFETY:
    // 1. The range is mapped.
    let locked = unsafe { libc::mlock(range.address as *const libc::c_void, case.bytes) };
    or_fail(memory::check(locked), "mlock");
    std::thread::sleep(case.time);
    range.verify(1, "locked memory");
}

/// A file is mapped private, and all of it written: the pages are anonymous, but stay where they are.
fn written_file(case: &Case) {
    let descriptor = unlinked(&format!("/var/tmp/uswap-holds-{}", std::process::id()));
    let range = Range::filled(map_descriptor(descriptor, case.bytes, libc::MAP_PRIVATE), case.bytes);
    std::thread::sleep(case.time);
    range.verify(1, "private pages of a file");
}
