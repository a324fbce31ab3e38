//! Modes about ranges that need care: special advice, locks, sharing, sparse use, another userfaultfd.

use std::time::{Duration, Instant};

use crate::support::{Case, Filled, fail, in_child, must, verify_zero, wait_good};
use uswap_test_programs::PAGE_BYTES;
use uswap_test_programs::memory;
use uswap_test_programs::message::errno;
use uswap_test_programs::random::Random;

/// Pages of a huge page.
const BLOCK_PAGES: usize = 512;

/// A quarter of memory is wiped in children; the parent keeps it, and the child's zeros stay its own.
pub fn wipe_on_fork(case: &Case) {
    // Such memory stays in RAM (docs/SEMANTICS.md): a small part of the budget.
    let wiped = Filled::new(case.bytes / 32, case.seed, 1);
    memory::advise(wiped.address, wiped.pages * PAGE_BYTES, libc::MADV_WIPEONFORK)
        .unwrap_or_else(|error| fail!("MADV_WIPEONFORK: errno {error}"));
    let kept = Filled::new(case.bytes / 4 * 3, case.seed, 2);
    // Memory is short now: this is managed before it is marked, and marked before it is touched.
    let late = Filled::marked(case.bytes / 32, case.seed, 3, libc::MADV_WIPEONFORK);
    for _ in 0..3 {
        kept.verify("memory that is kept, while what is wiped is not used");
        let pid = in_child(|| {
            verify_zero(late.address, late.pages, "child, memory that was marked before it was touched");
            kept.verify("child, memory that is kept");
            verify_zero(wiped.address, wiped.pages, "child, memory that is wiped");
            wiped.fill();
            kept.verify_steps("child, memory that is kept, again", 3);
            wiped.verify("child, its own content of wiped memory");
        });
        wiped.verify("parent, memory that its child finds wiped");
        wait_good(pid, "the child");
        kept.verify("parent, memory that is kept");
        wiped.verify("parent, memory that its child found wiped");
        late.verify("parent, memory that was marked before it was touched");
    }
}

/// Memory that is larger than the budget is populated, for reading and for writing.
pub fn populated(case: &Case) {
    let filled = Filled::new(case.bytes, case.seed, 1);
    for advice in [libc::MADV_POPULATE_READ, libc::MADV_POPULATE_WRITE] {
        memory::advise(filled.address, filled.pages * PAGE_BYTES, advice)
            .unwrap_or_else(|error| fail!("advice {advice}: errno {error}"));
        filled.verify("what was populated");
    }
}

/// Memory in huge pages, of which some are changed in part: a hole, a piece that moves elsewhere, a piece that is
/// protected for a while. Children see it as their parent does.
pub fn huge_pages(case: &Case) {
    // A part that fits in memory has huge pages of the kernel's; what is mapped when memory is short is filled page by
    // page.
    let parts =
        [1, 2, 3, 4].map(|part| Filled::marked(case.bytes / 16, case.seed, part, libc::MADV_HUGEPAGE));
    let filled = Filled::marked(case.bytes / 2, case.seed, 5, libc::MADV_HUGEPAGE);
    // Memory is short by now: what was stored as one comes back as one to who reads in order.
    for _ in 0..2 {
        filled.verify("what was filled later, in order");
    }
    for _ in 0..2 {
        parts.iter().for_each(|part| part.verify("what was huge from the start"));
        filled.verify_steps("what was filled later", 7);
    }
    for part in parts {
        change_in_part(case, &part);
    }
    parts.iter().for_each(|part| part.verify("at the end"));
    filled.verify("what was filled later, at the end");
}

/// Huge pages whose first page the parent writes to, or drops, while a child has them too. When the child is gone they
/// are written to, and left alone: they are as cold as anything while more is used than fits, and few of them may be
/// present then (`--present-max`, in percent of them).
pub fn huge_pages_after_fork(case: &Case) {
    let huge = huge_at_fork(case);
    let child = Sharer::start(&huge);
    change_first_pages(&huge);
    child.end();
    huge.fill();
    let more = Filled::new(case.bytes / 10 * 7, case.seed, 2);
    for round in 0..2 {
        use_here_and_there(&more, case.seed + round);
    }
    must_have_left(case, &huge);
    huge.verify("what was huge before the fork");
    more.verify("at the end");
}

/// The same while the child lives on: what both have stays as it was for each.
pub fn huge_pages_child_lives(case: &Case) {
    let huge = huge_at_fork(case);
    let child = Sharer::start(&huge);
    change_first_pages(&huge);
    let more = Filled::new(case.bytes / 10 * 7, case.seed, 2);
    let mut found = [0; PAGE_BYTES];
    for index in (0..huge.pages).filter(|&index| !is_first_page(&huge, index)) {
        memory::copy_page_out(huge.page(index), &mut found);
        huge.compare("what a child has too", index, &found);
    }
    // Now a part of each is the parent's own.
    let own = Filled { address: huge.page(huge.pages / 2), pages: huge.pages / 2, writer: 3, ..huge };
    own.fill();
    use_here_and_there(&more, case.seed);
    own.verify("what a child had too until it was written to");
    child.end();
    own.verify("the parent's own, when the child is gone");
    more.verify("at the end");
}

/// Memory in huge pages. It fits in the budget twice, since a child's is counted too: the kernel gives them, and none
/// leaves before the child has ended. Fails if there are few, and somebody wants to know what became of them.
fn huge_at_fork(case: &Case) -> Filled {
    let huge = Filled::marked(case.bytes / 10 * 3, case.seed, 1, libc::MADV_HUGEPAGE);
    let (bytes, given) = (huge.pages * PAGE_BYTES, memory::huge_bytes());
    if case.present_max < 100 && given < bytes / 10 * 9 {
        fail!(
            "{} of {} MiB are in huge pages before the fork: this run shows nothing. \
             Use a larger budget, or more free memory (/proc/sys/vm/compact_memory)",
            given >> 20,
            bytes >> 20
        );
    }
    huge
}

/// Verifies pages in no order, as many as there are: of what is used in order, what was just gone past would leave
/// first.
fn use_here_and_there(filled: &Filled, seed: u64) {
    let mut random = Random::new(seed);
    let mut found = [0; PAGE_BYTES];
    for _ in 0..filled.pages {
        let index = random.index(filled.pages);
        memory::copy_page_out(filled.page(index), &mut found);
        filled.compare("what came after the fork, here and there", index, &found);
    }
}

/// Fails if more of memory that was not used for long is present than may be.
fn must_have_left(case: &Case, cold: &Filled) {
    let present = memory::present_pages(cold.address, cold.pages)
        .unwrap_or_else(|error| fail!("/proc/self/pagemap: errno {error}"));
    if present * 100 > cold.pages * case.present_max {
        fail!(
            "{present} of {} pages that were huge at a fork are present after other memory was used again and again: \
             more than {} %. \
             Nobody uses them, so the rest has to do with less. See whether MOVE finds them busy (docs/adr/0021, \"One \
             more fact\")",
            cold.pages,
            case.present_max
        );
    }
}

fn is_first_page(huge: &Filled, index: usize) -> bool {
    (huge.page(index) / PAGE_BYTES).is_multiple_of(BLOCK_PAGES)
}

/// Drops the first page of each second huge page, and writes to that of the others.
fn change_first_pages(huge: &Filled) {
    for index in (0..huge.pages).filter(|&index| is_first_page(huge, index)) {
        let page = huge.page(index);
        if (page / PAGE_BYTES / BLOCK_PAGES).is_multiple_of(2) {
            memory::advise(page, PAGE_BYTES, libc::MADV_DONTNEED)
                .unwrap_or_else(|error| fail!("MADV_DONTNEED: errno {error}"));
            verify_zero(page, 1, "the first page of a huge page, dropped");
        } else {
            memory::copy_page_in(page, &[1; PAGE_BYTES]);
        }
    }
}

/// A child that has the memory of its parent as it was at the fork, and looks at it when it is told to end.
struct Sharer {
    pid: i32,
    pipe: [i32; 2],
}

impl Sharer {
    fn start(shared: &Filled) -> Sharer {
        let mut pipe = [0; 2];
        // SAFETY:
        // 1. `pipe` has room for two descriptors.
        must(unsafe { libc::pipe(pipe.as_mut_ptr()) }, "pipe");
        let pid = in_child(|| {
            let mut byte = 0_u8;
            // SAFETY:
            // 1. The descriptor is this child's own copy.
            // 2. `read` writes at most one byte, to a variable of ours. It ends when the parent closes its end.
            unsafe {
                libc::close(pipe[1]);
                libc::read(pipe[0], (&raw mut byte).cast(), 1);
            }
            shared.verify_steps("child, what its parent had at the fork", 61);
            let mut found = [0; PAGE_BYTES];
            for index in (0..shared.pages).filter(|&index| is_first_page(shared, index)) {
                memory::copy_page_out(shared.page(index), &mut found);
                shared.compare("child, the first page of a huge page", index, &found);
            }
        });
        Sharer { pid, pipe }
    }

    fn end(self) {
        // SAFETY:
        // 1. The descriptors are ours, and nobody uses them afterwards.
        unsafe {
            libc::close(self.pipe[1]);
            libc::close(self.pipe[0]);
        }
        wait_good(self.pid, "the child");
    }
}

fn change_in_part(case: &Case, filled: &Filled) {
    // The first block that lies in it as a whole, and how many there are.
    let first = (filled.address / PAGE_BYTES).next_multiple_of(BLOCK_PAGES) - filled.address / PAGE_BYTES;
    let blocks = (filled.pages - first) / BLOCK_PAGES;
    let mut random = Random::new(case.seed);
    let verify = |index: usize, when: &str| {
        let mut page = [0; PAGE_BYTES];
        memory::copy_page_out(filled.page(index), &mut page);
        if page != filled.content(index) {
            fail!("{when}: page {index} of {} is wrong", filled.pages);
        }
    };
    for round in 0..4 {
        filled.verify("all in order");
        for _ in 0..2000 {
            verify(random.below(filled.pages as u64) as usize, "here and there");
        }
        for _ in 0..8 {
            let block = first + BLOCK_PAGES * random.below(blocks as u64) as usize;
            let (at, pages) = (block + 100, 64);
            let (address, bytes) = (filled.page(at), pages * PAGE_BYTES);
            verify(block, "before a part is changed");
            match round {
                0 => {
                    memory::advise(address, bytes, libc::MADV_DONTNEED)
                        .unwrap_or_else(|error| fail!("MADV_DONTNEED: errno {error}"));
                    verify_zero(address, pages, "a hole in a huge page");
                }
                1 => {
                    let aside =
                        memory::map_private(bytes, 0).unwrap_or_else(|error| fail!("mmap: errno {error}"));
                    let moves = libc::MREMAP_MAYMOVE | libc::MREMAP_FIXED;
                    for (from, to) in [(address, aside), (aside, address)] {
                        memory::remap(from, bytes, bytes, moves, to)
                            .unwrap_or_else(|error| fail!("mremap: errno {error}"));
                    }
                }
                2 => {
                    for protection in [libc::PROT_READ, libc::PROT_READ | libc::PROT_WRITE] {
                        memory::protect(address, bytes, protection)
                            .unwrap_or_else(|error| fail!("mprotect: errno {error}"));
                        verify(block, "while a part is protected");
                    }
                }
                _ => {
                    let pid = in_child(|| {
                        for index in at..at + pages {
                            verify(index, "in a child");
                        }
                    });
                    wait_good(pid, "the child");
                }
            }
            for index in at..at + pages {
                memory::copy_page_in(filled.page(index), &filled.content(index));
            }
        }
    }
    filled.verify("at the end");
}

/// A quarter of memory does not exist in children.
pub fn dont_fork(case: &Case) {
    let hidden = Filled::new(case.bytes / 32, case.seed, 1);
    memory::advise(hidden.address, hidden.pages * PAGE_BYTES, libc::MADV_DONTFORK)
        .unwrap_or_else(|error| fail!("MADV_DONTFORK: errno {error}"));
    let kept = Filled::new(case.bytes / 4 * 3, case.seed, 2);
    for _ in 0..3 {
        let pid = in_child(|| {
            // The address is free here: a new mapping may be put there, and starts with zeros.
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
            let bytes = hidden.pages * PAGE_BYTES;
            let there = memory::map(hidden.address, bytes, libc::PROT_READ | libc::PROT_WRITE, flags);
            if there != Ok(hidden.address) {
                fail!("the range is not free in the child: {there:?}");
            }
            verify_zero(hidden.address, hidden.pages, "child, new memory where the parent hides its own");
            hidden.fill();
            kept.verify("child, memory that is kept");
            hidden.verify("child, what it wrote there");
        });
        wait_good(pid, "the child");
        hidden.verify("parent, hidden memory");
        kept.verify("parent, memory that is kept");
    }
}

/// What was said of a range ends with its mapping: a new one at the same place is memory like any other.
pub fn excluded_place_again(case: &Case) {
    let address = memory::map_private(case.bytes, 0).unwrap_or_else(|error| fail!("mmap: errno {error}"));
    memory::advise(address, case.bytes, libc::MADV_DONTFORK)
        .unwrap_or_else(|error| fail!("MADV_DONTFORK: errno {error}"));
    memory::unmap(address, case.bytes).unwrap_or_else(|error| fail!("munmap: errno {error}"));
    let filled = Filled::near(address, case.bytes, case.seed, 1);
    if filled.address != address {
        fail!("the kernel gave {:#x}, not {address:#x} again", filled.address);
    }
    filled.verify("where excluded memory was");
    filled.verify("where excluded memory was, again");
}

/// Mappings of which a small part is read-only for a while: afterwards each is one mapping again, and mremap over all
/// of it works.
pub fn split_mapping(case: &Case) {
    const BYTES: usize = 1 << 20;
    let kept = Filled::new(case.bytes / 4 * 3, case.seed, 1);
    for round in 0..12 {
        let address = memory::map_private(BYTES, 0).unwrap_or_else(|error| fail!("mmap: errno {error}"));
        let part = address + 4 * PAGE_BYTES * (1 + round);
        let protect = |protection| {
            memory::protect(part, 4 * PAGE_BYTES, protection)
                .unwrap_or_else(|error| fail!("mprotect: errno {error}"));
        };
        memory::write_word(address, 1);
        memory::write_word(part, 2);
        memory::write_word(address + BYTES - PAGE_BYTES, 3);
        protect(libc::PROT_READ);
        // Memory is short here: this is when mappings are taken under management.
        kept.verify_steps("while a mapping is in three parts", 3);
        protect(libc::PROT_READ | libc::PROT_WRITE);
        let moved = memory::remap(address, BYTES, 2 * BYTES, libc::MREMAP_MAYMOVE, 0)
            .unwrap_or_else(|error| fail!("mremap of what was in three parts: errno {error}"));
        let words = [moved, moved + part - address, moved + BYTES - PAGE_BYTES].map(memory::read_word);
        if words != [1, 2, 3] {
            fail!("after mremap there is {words:?}");
        }
        memory::unmap(moved, 2 * BYTES).unwrap_or_else(|error| fail!("munmap: errno {error}"));
    }
    kept.verify("at the end");
}

/// A mapping goes and a larger one comes at the same place, while the program's memory is looked through: mremap must
/// find one mapping there.
pub fn mapped_again(case: &Case) {
    const LARGE: usize = 2 << 20;
    let kept = Filled::new(case.bytes, case.seed, 1);
    let started = Instant::now();
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| kept.verify("beside a thread that maps"));
        let mut random = Random::new(case.seed);
        let mut rounds = 0;
        while !reader.is_finished() || started.elapsed() < Duration::from_secs(3) {
            rounds += 1;
            let place = memory::map_private(LARGE, 0).unwrap_or_else(|error| fail!("mmap: errno {error}"));
            memory::unmap(place, LARGE).unwrap_or_else(|error| fail!("munmap: errno {error}"));
            let small = (1 + random.index(128)) * 2 * PAGE_BYTES;
            // Another thread may have taken the place meanwhile: then there is nothing to see.
            for bytes in [small, LARGE] {
                if memory::map(place, bytes, libc::PROT_READ | libc::PROT_WRITE, flags) != Ok(place) {
                    continue;
                }
                memory::write_word(place, rounds);
                memory::write_word(place + bytes - PAGE_BYTES, rounds);
                let target = memory::remap(place, bytes, 2 * bytes, libc::MREMAP_MAYMOVE, 0)
                    .unwrap_or_else(|error| fail!("mremap of {bytes} bytes: errno {error}, round {rounds}"));
                let words = [target, target + bytes - PAGE_BYTES, target + bytes].map(memory::read_word);
                if words != [rounds, rounds, 0] {
                    fail!("after mremap there is {words:?}, not {rounds}");
                }
                memory::unmap(target, 2 * bytes).unwrap_or_else(|error| fail!("munmap: errno {error}"));
            }
        }
    });
    kept.verify("at the end");
}

/// Memory that was only read moves to another place, and is written there, from its end on: what the kernel protected
/// at the old place must not be protected for ever at the new one.
pub fn moved_mapping(case: &Case) {
    let mut kept = Filled::new(case.bytes, case.seed, 1);
    let bytes = kept.pages * PAGE_BYTES;
    let behind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    for round in 1..=3 {
        kept.verify("before it moves");
        // It cannot grow where it is.
        let edge = kept.address + bytes;
        let _something_is_there = memory::map(edge, PAGE_BYTES, libc::PROT_NONE, behind);
        let target = memory::remap(kept.address, bytes, bytes + PAGE_BYTES, libc::MREMAP_MAYMOVE, 0)
            .unwrap_or_else(|error| fail!("mremap of {bytes} bytes: errno {error}, round {round}"));
        if target == kept.address {
            fail!("it has grown where it was, round {round}");
        }
        memory::unmap(target + bytes, PAGE_BYTES).unwrap_or_else(|error| fail!("munmap: errno {error}"));
        kept.address = target;
        for index in (0..kept.pages).rev() {
            memory::copy_page_in(kept.page(index), &kept.content(index));
        }
    }
    kept.verify("at the end");
}

/// After a quiet time in which memory is full, half the budget more is mapped, and touched at once by four threads.
pub fn large_and_fast(case: &Case) {
    let kept = Filled::new(case.bytes / 2, case.seed, 1);
    let bytes = case.bytes / 8;
    for round in 1..=8 {
        kept.verify_steps("before memory is mapped", 16);
        std::thread::sleep(Duration::from_millis(300));
        let address = memory::map_private(bytes, 0).unwrap_or_else(|error| fail!("mmap: errno {error}"));
        std::thread::scope(|scope| {
            for start in (address..address + bytes).step_by(bytes / 4) {
                scope.spawn(move || {
                    for page in (start..start + bytes / 4).step_by(PAGE_BYTES) {
                        memory::write_word(page, page as u64 ^ round);
                    }
                });
            }
        });
        for page in (address..address + bytes).step_by(PAGE_BYTES) {
            if memory::read_word(page) != page as u64 ^ round {
                fail!("{page:#x} does not hold what was written in round {round}");
            }
        }
        memory::unmap(address, bytes).unwrap_or_else(|error| fail!("munmap: errno {error}"));
    }
    kept.verify("at the end");
}

/// A part is locked: it must stay in memory, while the rest is used up and down.
pub fn lock_part(case: &Case) {
    let filled = Filled::new(case.bytes, case.seed, 1);
    let locked_pages = (case.bytes / 16 / PAGE_BYTES).min(2048);
    let first = filled.pages / 2;
    // SAFETY:
    // 1. The range is mapped and stays so.
    must(unsafe { libc::mlock(filled.page(first) as *const _, locked_pages * PAGE_BYTES) }, "mlock");
    for _ in 0..3 {
        filled.verify("with a locked part");
        let mut present = vec![0u8; locked_pages];
        let bytes = locked_pages * PAGE_BYTES;
        // SAFETY:
        // 1. `present` has one byte for each page of the mapped range.
        must(unsafe { libc::mincore(filled.page(first) as *mut _, bytes, present.as_mut_ptr()) }, "mincore");
        let missing = present.iter().filter(|&&byte| byte & 1 == 0).count();
        if missing > 0 {
            fail!("{missing} of {locked_pages} locked pages are not in memory");
        }
    }
    // SAFETY:
    // 1. As above.
    must(unsafe { libc::munlock(filled.page(first) as *const _, locked_pages * PAGE_BYTES) }, "munlock");
    filled.verify("after unlocking");
}

/// `struct uffdio_api` and friends, as far as they are needed here.
mod userfault {
    #[repr(C)]
    pub struct Api {
        pub api: u64,
        pub features: u64,
        pub ioctls: u64,
    }
    #[repr(C)]
    pub struct Register {
        pub start: u64,
        pub length: u64,
        pub mode: u64,
        pub ioctls: u64,
    }
    #[repr(C)]
    pub struct Copy {
        pub target: u64,
        pub source: u64,
        pub length: u64,
        pub mode: u64,
        pub copied: i64,
    }
    pub const OPEN: libc::c_ulong = 0xAA00;
    pub const API: libc::c_ulong = 0xC018_AA3F;
    pub const REGISTER: libc::c_ulong = 0xC020_AA00;
    pub const COPY: libc::c_ulong = 0xC028_AA03;
}

/// The program has a userfaultfd of its own and serves the faults of one range itself.
pub fn own_userfaultfd(case: &Case) {
    let filled = Filled::new(case.bytes, case.seed, 1);
    // SAFETY:
    // 1. The path ends in NUL.
    let device = unsafe { libc::open(c"/dev/userfaultfd".as_ptr(), libc::O_RDWR | libc::O_CLOEXEC) };
    // SAFETY:
    // 1. Both calls make a new descriptor and touch no memory.
    let descriptor = unsafe {
        if device >= 0 {
            libc::ioctl(device, userfault::OPEN, libc::O_CLOEXEC)
        } else {
            libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) as i32
        }
    };
    if descriptor < 0 {
        fail!("no userfaultfd for the program itself: errno {}", errno());
    }
    let pages = 512;
    let served = Filled { address: 0, pages, seed: case.seed, writer: 9 };
    let address =
        memory::map_private(pages * PAGE_BYTES, 0).unwrap_or_else(|error| fail!("mmap: errno {error}"));
    let served = Filled { address, ..served };
    let mut api = userfault::Api { api: 0xAA, features: 0, ioctls: 0 };
    let mut register = userfault::Register {
        start: address as u64,
        length: (pages * PAGE_BYTES) as u64,
        mode: 1,
        ioctls: 0,
    };
    // SAFETY:
    // 1. The structures have the layout that the requests ask for and live through the calls.
    // 2. The range was just mapped, nothing has touched it, and `serve` fills it.
    unsafe {
        must(libc::ioctl(descriptor, userfault::API, &raw mut api), "UFFDIO_API");
        must(libc::ioctl(descriptor, userfault::REGISTER, &raw mut register), "UFFDIO_REGISTER");
    }
    std::thread::spawn(move || serve(descriptor, served));
    for round in 0..2 {
        served.verify_steps("pages that the program serves itself", 3 - round);
        filled.verify("other memory of a program with a userfaultfd");
    }
    served.verify("pages that the program serves itself, at the end");
}

fn serve(descriptor: i32, served: Filled) {
    loop {
        let mut message = [0u64; 4];
        // SAFETY:
        // 1. `message` has the 32 bytes of a message.
        let bytes = unsafe { libc::read(descriptor, message.as_mut_ptr().cast(), 32) };
        if bytes != 32 {
            fail!("read of a userfaultfd: {bytes}, errno {}", errno());
        }
        // A message: event in the first byte (0x12 is a fault), the address in the third word.
        let index = (message[2] as usize - served.address) / PAGE_BYTES;
        if message[0] as u8 != 0x12 || index >= served.pages {
            fail!("message {:#x} at {:#x} is not a fault in the served range", message[0], message[2]);
        }
        let content = served.content(index);
        let mut copy = userfault::Copy {
            target: served.page(index) as u64,
            source: content.as_ptr() as u64,
            length: PAGE_BYTES as u64,
            mode: 0,
            copied: 0,
        };
        // SAFETY:
        // 1. `copy` and `content` live through the call, and the target is a missing page of the served range.
        must(unsafe { libc::ioctl(descriptor, userfault::COPY, &raw mut copy) }, "UFFDIO_COPY");
    }
}

/// Shared anonymous memory is written by a child and read by its parent, beside private memory under pressure.
pub fn shared_anonymous(case: &Case) {
    let filled = Filled::new(case.bytes, case.seed, 1);
    let bytes = (case.bytes / 16) & !4095;
    let address = memory::map_shared(bytes).unwrap_or_else(|error| fail!("mmap: errno {error}"));
    let shared = Filled { address, pages: bytes / PAGE_BYTES, seed: case.seed, writer: 2 };
    let changed = Filled { writer: 3, ..shared };
    shared.fill();
    let pid = in_child(|| {
        shared.verify("child, shared memory");
        filled.verify_steps("child, private memory", 3);
        changed.fill();
    });
    wait_good(pid, "the child");
    changed.verify("parent, what its child wrote into shared memory");
    filled.verify("parent, private memory");
}

/// A mapping a hundred times as large as what is used of it, touched at random.
pub fn sparse(case: &Case) {
    let bytes = case.bytes * 100;
    let address =
        memory::map_private(bytes, libc::MAP_NORESERVE).unwrap_or_else(|error| fail!("mmap: errno {error}"));
    let all = Filled { address, pages: bytes / PAGE_BYTES, seed: case.seed, writer: 1 };
    let touched = case.bytes / PAGE_BYTES;
    let mut random = Random::new(case.seed);
    for _ in 0..touched {
        let index = random.index(all.pages);
        memory::copy_page_in(all.page(index), &all.content(index));
    }
    for round in 0..2 {
        let mut random = Random::new(case.seed);
        let mut found = [0; PAGE_BYTES];
        for _ in 0..touched {
            let index = random.index(all.pages);
            memory::copy_page_out(all.page(index), &mut found);
            all.compare(if round == 0 { "sparse memory" } else { "sparse memory, again" }, index, &found);
        }
    }
    let mut found = [0; PAGE_BYTES];
    let mut zeros = 0;
    for _ in 0..1000 {
        let index = random.index(all.pages);
        memory::copy_page_out(all.page(index), &mut found);
        if found.iter().all(|&byte| byte == 0) {
            zeros += 1;
        } else {
            all.compare("a page that may be untouched", index, &found);
        }
    }
    if zeros < 900 {
        fail!("only {zeros} of 1000 pages of a sparse mapping are untouched");
    }
}

/// Single pages here and there of memory that asks for huge pages.
pub fn sparse_in_huge_pages(case: &Case) {
    const TOUCHES: usize = 30_000;
    let address = memory::map_private(case.bytes, 0).unwrap_or_else(|error| fail!("mmap: errno {error}"));
    memory::advise(address, case.bytes, libc::MADV_HUGEPAGE)
        .unwrap_or_else(|error| fail!("MADV_HUGEPAGE: errno {error}"));
    let all = Filled { address, pages: case.bytes / PAGE_BYTES, seed: case.seed, writer: 1 };
    let mut found = [0; PAGE_BYTES];
    for round in 0..2 {
        let mut random = Random::new(case.seed);
        for _ in 0..TOUCHES {
            let index = random.index(all.pages);
            if round == 0 {
                memory::copy_page_in(all.page(index), &all.content(index));
            } else {
                memory::copy_page_out(all.page(index), &mut found);
                all.compare("a page here and there", index, &found);
            }
        }
    }
}

/// The brk heap in small blocks, and a deep stack: memory that no one asked mmap for.
pub fn heap_and_stack(case: &Case) {
    let blocks = case.bytes / 2 / 1024;
    let mut heap: Vec<Vec<u64>> = (0..blocks).map(|block| vec![block as u64 ^ case.seed; 122]).collect();
    // Half of the memory goes to a thread with a stack that large.
    let stack_bytes = case.bytes / 2;
    let frames = stack_bytes / (20 << 10);
    let deep = std::thread::Builder::new()
        .stack_size(stack_bytes + (16 << 20))
        .spawn(move || recurse(frames as u64))
        .unwrap_or_else(|error| fail!("thread: {error}"));
    let sum = deep.join().unwrap_or_else(|_| fail!("the deep thread panicked"));
    if sum != (0..=frames as u64).sum::<u64>() {
        fail!("the deep stack gave a wrong sum {sum}");
    }
    for (block, words) in heap.iter_mut().enumerate() {
        if words.iter().any(|&word| word != block as u64 ^ case.seed) {
            fail!("block {block} of the heap is wrong");
        }
        if block % 3 == 0 {
            *words = vec![block as u64 ^ case.seed; 250];
        }
    }
    for (block, words) in heap.iter().enumerate() {
        if words.iter().any(|&word| word != block as u64 ^ case.seed) {
            fail!("block {block} of the heap is wrong after growing");
        }
    }
}

/// Uses 16 KiB of stack a call and reads it on the way back.
#[inline(never)]
fn recurse(depth: u64) -> u64 {
    let mut room = [depth; 2048];
    std::hint::black_box(&mut room);
    let below = if depth == 0 { 0 } else { recurse(depth - 1) };
    std::hint::black_box(&mut room);
    if room.iter().any(|&word| word != depth) {
        fail!("the stack at depth {depth} is wrong");
    }
    below + depth
}
