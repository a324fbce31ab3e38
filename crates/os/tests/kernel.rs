//! Threads, files, mappings and processes, shown on the running kernel.

mod common;

use std::ffi::CString;
use std::io::Read;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use common::{End, Pages, alone, fork, wait_for};
use uswap_os::fd::{Event, Fd, Timeout};
use uswap_os::file::{AllowTmpfs, Caching, IoCause, IoError, SwapFile, SwapFileError, WriteSlice};
use uswap_os::maps::{Kind, Maps, MapsSource, Vma};
use uswap_os::memory::{self, Access, AlignedBuf, Mapping};
use uswap_os::message::write_without_signal;
use uswap_os::pagemap::{PageQuery, Pagemap};
use uswap_os::pidfd::Pidfd;
use uswap_os::ring::{Operation, Ring};
use uswap_os::sys::{self, abi};
use uswap_os::thread::{BlockedSignals, Files, StackArea, pending_signals, spawn, take_signal};
use uswap_os::{Errno, process};

fn directory() -> CString {
    CString::new(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

// ---------------------------------------------------------------- threads

static SEEN_MASK: AtomicU64 = AtomicU64::new(0);
static SEEN_FILES: AtomicUsize = AtomicUsize::new(usize::MAX);
static SEEN_ARGUMENT: AtomicUsize = AtomicUsize::new(0);
static SEEN_POINTER: AtomicUsize = AtomicUsize::new(0);
static GO_ON: AtomicU32 = AtomicU32::new(0);

extern "C" fn look_around(argument: usize) {
    uswap_os::thread::set_name(c"uswap-test");
    SEEN_ARGUMENT.store(argument, Ordering::Relaxed);
    let mut mask = 0u64;
    // SAFETY:
    // 1. rt_sigprocmask that sets nothing writes the mask of 8 bytes.
    let _ = unsafe { uswap_os::sys::syscall6(14, 0, 0, &raw mut mask as usize, 8, 0, 0) };
    SEEN_MASK.store(mask, Ordering::Relaxed);
    let pointer: usize;
    // SAFETY:
    // 1. The thread pointer's own address lies at its first word.
    unsafe { core::arch::asm!("mov {}, fs:[0]", out(reg) pointer) };
    SEEN_POINTER.store(pointer, Ordering::Relaxed);
    // Number 3 is the first free one in an empty table only if 0, 1 and 2 are taken: here all are free.
    let open = (0..1024).filter(|number| {
        let fd = Fd::from_raw(*number);
        let open = fd.status().is_ok();
        let _ = fd.into_raw();
        open
    });
    SEEN_FILES.store(open.count(), Ordering::Release);
    while GO_ON.load(Ordering::Acquire) == 0 {
        uswap_os::futex::wait(&GO_ON, 0, Timeout::Forever, uswap_os::futex::Scope::Private);
    }
}

#[test]
fn a_raw_thread_blocks_all_signals_and_keeps_nothing_open() {
    static AREA: StackArea = StackArea::new(64 * 1024);
    let _alone = alone();
    let (mut reader, writer) = std::io::pipe().unwrap();
    let thread_id = spawn(&AREA, look_around, 4711, Files::Own).unwrap();
    assert_eq!(spawn(&AREA, look_around, 0, Files::Own), Err(Errno::EBUSY));
    while SEEN_FILES.load(Ordering::Acquire) == usize::MAX {
        std::thread::yield_now();
    }
    assert_eq!(SEEN_FILES.load(Ordering::Relaxed), 0);
    assert_eq!(SEEN_ARGUMENT.load(Ordering::Relaxed), 4711);
    let (start, bytes) = AREA.range().unwrap();
    assert!((start..start + bytes).contains(&SEEN_POINTER.load(Ordering::Relaxed)));
    // SIGKILL and SIGSTOP cannot be blocked; 32 and 33 can.
    let cannot = (1 << (9 - 1)) | (1 << (19 - 1));
    assert_eq!(SEEN_MASK.load(Ordering::Relaxed), !cannot);
    // The thread lives, yet the pipe has no writer left once ours is closed.
    drop(writer);
    assert_eq!(reader.read_to_end(&mut Vec::new()).unwrap(), 0);
    assert_eq!(AREA.thread_id(), Some(thread_id));
    let mut found = false;
    process::for_each_thread(None, |id| found |= id == thread_id).unwrap();
    assert!(found);
    assert_eq!(process::robust_list(thread_id), Ok(0));
    let name = std::fs::read_to_string(format!("/proc/self/task/{thread_id}/comm")).unwrap();
    assert_eq!(name, "uswap-test\n");
    GO_ON.store(1, Ordering::Release);
    uswap_os::futex::wake(&GO_ON, 1, uswap_os::futex::Scope::Private);
    assert!(AREA.join(Timeout::Nanoseconds(5_000_000_000)));
    assert_eq!(AREA.thread_id(), None);
}

#[test]
fn the_parent_of_a_raw_thread_keeps_its_signal_mask_and_areas_are_used_again() {
    static AREA: StackArea = StackArea::new(0);
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn add(argument: usize) {
        COUNT.fetch_add(argument, Ordering::Relaxed);
    }
    let _alone = alone();
    let mask = || std::fs::read_to_string("/proc/thread-self/status").unwrap();
    let line = |text: &str| text.lines().find(|line| line.starts_with("SigBlk")).unwrap().to_owned();
    let before = line(&mask());
    for _ in 0..100 {
        spawn(&AREA, add, 3, Files::Shared).unwrap();
        assert!(AREA.join(Timeout::Forever));
    }
    assert_eq!(COUNT.load(Ordering::Relaxed), 300);
    assert_eq!(line(&mask()), before);
}

// ---------------------------------------------------------------- mappings

fn parsed(maps: &Maps, buffer_bytes: usize) -> Vec<Vma> {
    let mut buffer = vec![0; buffer_bytes];
    maps.iter(&mut buffer).map(|vma| vma.unwrap()).collect()
}

#[test]
fn both_readers_of_the_mappings_agree() {
    let _alone = alone();
    // A neighbour of every sort; a file whose name is longer than the small buffer below.
    let path = format!("{}/{}", env!("CARGO_TARGET_TMPDIR"), "n".repeat(250));
    std::fs::write(&path, [0; 8192]).unwrap();
    let file = Fd::open(&CString::new(path.as_str()).unwrap(), 0, 0).unwrap();
    let long = memory::map_shared_bytes(&file, 0, 8192, Access::Read).unwrap();
    std::fs::remove_file(&path).unwrap();
    let own = Mapping::anonymous(3 * 4096, 4096, Access::Read).unwrap();
    // The test's own buffers may grow the heap between two readings: read until two of one kind agree.
    for _ in 0..50 {
        let query = Maps::open().unwrap();
        let (source, text) = (query.source(), Maps::open().unwrap().as_text());
        let first = parsed(&text, 64 * 1024);
        let by_query = parsed(&query, 0);
        let by_text = parsed(&text, 4096);
        let by_small = parsed(&text, 256);
        let last = parsed(&text, 64 * 1024);
        if first != last {
            continue;
        }
        if source == MapsSource::Text {
            println!("SKIP: no PROCMAP_QUERY");
        } else {
            // The query does not know the page of the kernel above all mappings.
            let low = |list: &[Vma]| -> Vec<Vma> {
                list.iter().filter(|vma| (vma.start as isize) > 0).copied().collect()
            };
            assert_eq!(low(&by_query), low(&first));
        }
        assert_eq!(by_text, first);
        assert_eq!(by_small, first);
        let of = |start: usize| first.iter().find(|vma| (vma.start..vma.end).contains(&start)).unwrap();
        let found = of(own.start());
        assert!(found.anonymous && found.readable && !found.writable && found.kind == Kind::Plain);
        assert!(of(long).shared && of(long).kind == Kind::Named && !of(long).anonymous);
        assert!(first.iter().any(|vma| vma.kind == Kind::Heap && vma.writable));
        assert!(first.iter().any(|vma| vma.kind == Kind::Stack));
        assert!(first.iter().any(|vma| vma.kind == Kind::Special));
        return;
    }
    panic!("the mappings never stood still");
}

#[test]
fn a_mapping_is_found_by_its_address_by_both_readers() {
    let _alone = alone();
    let own = Pages::new(5);
    // SAFETY:
    // 1. No reference into the pages exists.
    unsafe { memory::unmap(own.page(2), 4096) }.unwrap();
    for maps in [Maps::open().unwrap(), Maps::open().unwrap().as_text()] {
        let source = maps.source();
        let found = |address: usize| maps.covering_or_next(address).unwrap().map(|vma| (vma.start, vma.end));
        let (first, second) = ((own.page(0), own.page(2)), (own.page(3), own.page(5)));
        assert_eq!(found(own.page(0)), Some(first), "{source:?}");
        assert_eq!(found(own.page(2) - 1), Some(first), "{source:?}");
        assert_eq!(found(own.page(2)), Some(second), "{source:?}");
        let mut seen = Vec::new();
        maps.for_each_in(own.page(1)..own.page(4), |vma| {
            seen.push((vma.start, vma.end));
            std::ops::ControlFlow::Continue(())
        });
        assert_eq!(seen, [first, second], "{source:?}");
        maps.for_each_in(own.page(2)..own.page(3), |vma| panic!("{source:?}: {vma:?} is not in the hole"));
        let mut count = 0;
        maps.for_each_in(0..usize::MAX, |_| {
            count += 1;
            std::ops::ControlFlow::Break(())
        });
        assert_eq!(count, 1, "{source:?}");
    }
}

#[test]
fn present_pages_are_told_from_missing_ones_by_both_readers() {
    let _alone = alone();
    let area = Pages::new(512);
    // Every shape: alternating, runs, more than 64 regions.
    let wanted =
        |page: usize| page.is_multiple_of(2) && page < 300 || (400..470).contains(&page) || page == 511;
    for page in (0..512).filter(|page| wanted(*page)) {
        area.fill(page, 1);
    }
    let pagemap = Pagemap::open().unwrap();
    for count in [512, 511, 470, 64, 1, 0] {
        let mut expected = [0u64; 8];
        for page in (0..count).filter(|page| wanted(*page)) {
            expected[page / 64] |= 1 << (page % 64);
        }
        assert_eq!(pagemap.present(area.start(), count).unwrap(), expected, "{count} pages");
        assert_eq!(pagemap.held(area.start(), count).unwrap(), expected, "{count} pages");
        for what in [PageQuery::Present, PageQuery::Held] {
            assert_eq!(pagemap.look_by_read(area.start(), count, what).unwrap(), expected, "{count} pages");
            match pagemap.look_by_scan(area.start(), count, what) {
                Err(Errno::ENOTTY) => println!("SKIP: no PAGEMAP_SCAN"),
                answer => assert_eq!(answer.unwrap(), expected, "{count} pages"),
            }
        }
    }
    assert_eq!(pagemap.present(area.start(), 513), Err(Errno::EINVAL));
}

#[test]
fn pages_that_are_guarded_are_found() {
    const MADV_GUARD_INSTALL: usize = 102;
    let _alone = alone();
    let (area, pagemap) = (Pages::new(256), Pagemap::open().unwrap());
    area.fill(7, 1);
    let (first, second) = (area.page(5)..area.page(9), area.page(200)..area.page(201));
    for range in [&first, &second] {
        // SAFETY:
        // 1. The pages are of a mapping of the test, which touches none of them from here on.
        let guarded =
            unsafe { sys::syscall3(abi::__NR_madvise, range.start, range.len(), MADV_GUARD_INSTALL) };
        if guarded == Err(Errno::EINVAL) {
            println!("SKIP: no MADV_GUARD_INSTALL");
            return;
        }
        assert_eq!(guarded, Ok(0));
    }
    let mut found = Vec::new();
    match pagemap.for_each_guard(area.page(0)..area.page(256), |start, end| found.push(start..end)) {
        Err(Errno::EINVAL | Errno::ENOTTY) => println!("SKIP: no PAGEMAP_SCAN that knows guards"),
        answer => assert_eq!((answer, found), (Ok(()), vec![first, second])),
    }
}

#[test]
fn the_page_of_zeros_is_told_from_memory_by_both_readers() {
    let _alone = alone();
    let (area, pagemap) = (Pages::new(64), Pagemap::open().unwrap());
    let is_written = |page: usize| page.is_multiple_of(3) && page < 40;
    for page in 0..50 {
        assert_eq!(area.get(page), 0);
        if is_written(page) {
            area.fill(page, u8::from(page > 20));
        }
    }
    let expected = (0..50).filter(|&page| !is_written(page)).fold(0, |bits, page| bits | 1 << page);
    assert_eq!(pagemap.zero_pages(area.start(), 64).unwrap()[0], expected);
    assert_eq!(pagemap.look_by_read(area.start(), 64, PageQuery::ZeroPage).unwrap()[0], expected);
}

/// While the kernel moves pages together in RAM, as it does for huge pages, each of them is not present for a moment.
/// It is there all the while.
#[test]
fn a_page_that_the_kernel_moves_in_ram_is_held_all_the_while() {
    let _alone = alone();
    let Ok(compaction) = std::fs::OpenOptions::new().write(true).open("/proc/sys/vm/compact_memory") else {
        println!("SKIP: only root may have memory compacted");
        return;
    };
    const PAGES: usize = 64 * 512;
    let (area, pagemap) = (Pages::new(PAGES), Pagemap::open().unwrap());
    (0..PAGES).for_each(|page| area.fill(page, 1));
    let (began, ended) = (Instant::now(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                use std::io::Write as _;
                (&compaction).write_all(b"1").unwrap();
            }
        });
        let mut not_present = 0;
        while began.elapsed() < Duration::from_millis(700) {
            for start in (0..PAGES).step_by(512).map(|page| area.page(page)) {
                for what in [PageQuery::Held, PageQuery::Present] {
                    let bits =
                        [pagemap.look_by_read(start, 512, what), pagemap.look_by_scan(start, 512, what)];
                    for bits in bits.into_iter().flatten() {
                        let missing = bits.iter().map(|word| word.count_zeros()).sum::<u32>();
                        if what == PageQuery::Held && missing > 0 {
                            ended.store(true, Ordering::Relaxed);
                            panic!("{missing} pages are said to be nowhere");
                        }
                        not_present += missing;
                    }
                }
            }
        }
        ended.store(true, Ordering::Relaxed);
        println!("{not_present} times a page was held and not present");
    });
}

#[test]
fn a_mapping_is_aligned_and_a_segment_is_shared_with_a_child() {
    let _alone = alone();
    let mapping = Mapping::anonymous(3 * 4096, 2 << 20, Access::None).unwrap();
    assert!(mapping.start().is_multiple_of(2 << 20));
    assert_eq!(mapping.bytes(), 3 * 4096);
    let file = memory::memfd_create(c"segment", 1 << 20).unwrap();
    let words = memory::map_shared_words(&file, 1 << 20, Access::ReadWrite).unwrap();
    assert_eq!(words.len(), (1 << 20) / 8);
    let child = fork(|| {
        words[100_000].store(99, Ordering::Release);
        0
    });
    assert_eq!(wait_for(child), End::Exit(0));
    assert_eq!(words[100_000].load(Ordering::Acquire), 99);
    // A punched hole gives memory back, and reads zeros in the mapping.
    let before = file.status().unwrap().bytes_allocated;
    file.punch_hole(0, 1 << 20).unwrap();
    // Before the look below: reading a hole of a memfd through a mapping fills it again.
    assert!(file.status().unwrap().bytes_allocated < before);
    assert_eq!(words[100_000].load(Ordering::Acquire), 0);
    assert!(memory::map_shared_words(&file, 2 << 20, Access::ReadWrite).is_err());
}

// ---------------------------------------------------------------- files

fn pattern(index: usize, buffer: &mut [u8]) {
    for (at, byte) in buffer.iter_mut().enumerate() {
        *byte = (index * 131 + at * 7 + (at >> 8)) as u8;
    }
}

#[test]
fn what_was_written_by_the_ring_and_by_plain_calls_is_read() {
    const SLICES: usize = 300;
    let file = SwapFile::create(&directory(), AllowTmpfs::No).unwrap();
    let mut ring = match Ring::new(32) {
        Ok(ring) => Some(ring),
        Err(error) => {
            println!("SKIP of the ring: {error}");
            None
        }
    };
    let mut content = AlignedBuf::new(SLICES * 8192).unwrap();
    for (index, slice) in content.chunks_mut(8192).enumerate() {
        pattern(index, slice);
    }
    let offset = |index: usize| (index * 3 * 4096) as u64;
    let slices = content.chunks(8192).enumerate();
    let slices: Vec<_> = slices.map(|(index, bytes)| WriteSlice { offset: offset(index), bytes }).collect();
    for by_ring in [true, false] {
        file.fd().truncate(0).unwrap();
        file.write_batch(if by_ring { ring.as_mut() } else { None }, &slices).unwrap();
        let mut back = AlignedBuf::new(SLICES * 8192).unwrap();
        for (index, bytes) in back.chunks_mut(8192).enumerate() {
            file.read_at(bytes, offset(index)).unwrap();
        }
        assert!(back[..] == content[..]);
        if let Some(ring) = &ring {
            assert_eq!(ring.in_flight(), 0);
        }
    }
    // Blocks are given back.
    let before = file.fd().status().unwrap().bytes_allocated;
    file.punch_hole(0, 100 * 4096).unwrap();
    assert!(file.fd().status().unwrap().bytes_allocated < before);
    assert!(file.free_bytes().unwrap() > 0);
}

#[test]
fn a_short_file_is_an_error_and_so_is_one_that_cannot_be_written() {
    let file = SwapFile::create(&directory(), AllowTmpfs::No).unwrap();
    let mut content = AlignedBuf::new(3 * 4096).unwrap();
    pattern(5, &mut content);
    file.write_at(&content, 0).unwrap();
    let mut back = AlignedBuf::new(2 * 4096).unwrap();
    for offset in [2 * 4096, 1 << 30] {
        assert_eq!(file.read_at(&mut back, offset).unwrap_err().cause, IoCause::EndOfFile);
    }
    let other = Fd::open(c"/proc/self/exe", 0, 0).unwrap();
    let other = SwapFile::from_fd(other, Caching::Buffered);
    let mut ring = Ring::new(8).ok();
    for with_ring in [false, true] {
        let ring = if with_ring { ring.as_mut() } else { None };
        let error = other.write_batch(ring, &[WriteSlice { offset: 0, bytes: &content }]).unwrap_err();
        assert_eq!((error.operation, error.cause), (Operation::Write, IoCause::Errno(Errno::EBADF)));
    }
}

#[test]
fn a_full_file_is_an_error_that_says_so() {
    let _alone = alone();
    // RLIMIT_FSIZE stands for a full disk: a child with a limit of 8 KiB writes 12 KiB (EFBIG instead of ENOSPC).
    let path = directory();
    let child = fork(|| {
        let limit = [8192u64; 2];
        let ignore = [1u64, 0, 0, 0];
        // SAFETY:
        // 1. SIGXFSZ is ignored and the limit is set, in the child only; both structures have the kernel's layout.
        unsafe {
            let _ = uswap_os::sys::syscall6(13, 25, ignore.as_ptr() as usize, 0, 8, 0, 0);
            let _ = uswap_os::sys::syscall3(160, 1, limit.as_ptr() as usize, 0);
        }
        let Ok(file) = SwapFile::create(&path, AllowTmpfs::No) else { return 1 };
        let Ok(content) = AlignedBuf::new(3 * 4096) else { return 2 };
        let mut ring = Ring::new(4).ok();
        for with_ring in [false, true] {
            let ring = if with_ring { ring.as_mut() } else { None };
            match file.write_batch(ring, &[WriteSlice { offset: 0, bytes: &content }]) {
                Err(IoError { offset: 8192, cause: IoCause::Errno(Errno::EFBIG), .. }) => {}
                _ => return 3 + with_ring as u8,
            }
        }
        0
    });
    assert_eq!(wait_for(child), End::Exit(0));
}

#[test]
fn a_message_raises_no_signal_and_takes_none_away() {
    const SIGPIPE: usize = 13;
    let _alone = alone();
    let child = fork(|| {
        let default = [0u64; 4];
        let none = [0u64; 2];
        let (reader, writer) = uswap_os::fd::pipe().unwrap();
        drop(reader);
        let Ok(file) = Fd::open(c"/tmp", abi::O_TMPFILE | abi::O_WRONLY, 0o600) else { return 1 };
        // SAFETY:
        // 1. SIGPIPE and SIGXFSZ are the default and the limit of file sizes is set, in the child only; both structures
        //    have the kernel's layout.
        unsafe {
            let _ = sys::syscall6(abi::__NR_rt_sigaction, SIGPIPE, default.as_ptr() as usize, 0, 8, 0, 0);
            let _ = sys::syscall3(abi::__NR_setrlimit, abi::RLIMIT_FSIZE as usize, none.as_ptr() as usize, 0);
        }
        if write_without_signal(writer.raw(), b"to nobody") != Err(Errno::EPIPE) {
            return 2;
        }
        if write_without_signal(file.raw(), b"beyond the limit") != Err(Errno::EFBIG) {
            return 3;
        }
        let Ok(_blocked) = BlockedSignals::block_all() else { return 4 };
        if pending_signals() != 0 {
            return 5;
        }
        let own = process::process_id();
        let _ = uswap_os::thread::send_signal(own, uswap_os::thread::thread_id(), SIGPIPE as u32);
        if write_without_signal(writer.raw(), b"to nobody") != Err(Errno::EPIPE) {
            return 6;
        }
        let is_left = pending_signals() == 1 << (SIGPIPE - 1);
        take_signal(SIGPIPE as u32);
        u8::from(!is_left) * 7
    });
    assert_eq!(wait_for(child), End::Exit(0));
}

#[test]
fn a_swap_file_has_no_name_and_refuses_memory() {
    let file = SwapFile::create(&directory(), AllowTmpfs::No).unwrap();
    let status = file.fd().status().unwrap();
    assert_eq!((status.link_count, status.mode & 0o777, status.bytes), (0, 0o600, 0));
    let mut page = AlignedBuf::new(4096).unwrap();
    page.fill(0x33);
    file.write_at(&page, 4096).unwrap();
    let path = process::descriptor_path(process::process_id(), file.fd().raw());
    let again = Fd::open(path.as_c_str(), SwapFile::flags(file.caching()), 0).unwrap();
    let again = SwapFile::from_fd(again, file.caching());
    page.fill(0);
    again.read_at(&mut page, 4096).unwrap();
    assert!(page.iter().all(|byte| *byte == 0x33));
    assert_eq!(
        SwapFile::create(c"/nowhere", AllowTmpfs::No).unwrap_err(),
        SwapFileError::Directory(Errno::ENOENT)
    );
    assert!(matches!(
        SwapFile::create(c"/proc", AllowTmpfs::No),
        Err(SwapFileError::NoTmpfile(_) | SwapFileError::Create(_))
    ));
    if uswap_os::file::FileSystem::of_path(c"/dev/shm").is_ok_and(|system| system.is_in_memory()) {
        assert_eq!(SwapFile::create(c"/dev/shm", AllowTmpfs::No).unwrap_err(), SwapFileError::InMemory);
        SwapFile::create(c"/dev/shm", AllowTmpfs::Yes).unwrap();
    } else {
        println!("SKIP: no tmpfs at /dev/shm");
    }
}

// ---------------------------------------------------------------- processes

#[test]
fn a_child_is_seen_alive_stopped_and_gone() {
    let _alone = alone();
    let child = fork(|| {
        loop {
            uswap_os::clock::sleep_ns(1_000_000_000);
        }
    });
    assert!(process::is_alive(child));
    let mut found = false;
    process::for_each_child(process::process_id(), |id| found |= id == child).unwrap();
    assert!(found);
    let stat = process::stat(child).unwrap();
    assert_eq!(stat.parent, process::process_id());
    assert!(matches!(stat.state, b'S' | b'R' | b'D'));
    let pidfd = Pidfd::open(child).unwrap();
    assert!(!pidfd.has_ended());
    assert_eq!(pidfd.while_it_lives(|pid| pid), Some(child));
    pidfd.signal(9).unwrap();
    let mut entries = [uswap_os::fd::PollEntry::readable(pidfd.fd())];
    assert_eq!(uswap_os::fd::poll(&mut entries, Timeout::Forever), Ok(1));
    assert_eq!((pidfd.has_ended(), pidfd.while_it_lives(|pid| pid)), (true, None));
    assert_eq!(process::stat(child).unwrap().state, b'Z');
    assert_eq!(wait_for(child), End::Signal(9));
    assert!(!process::is_alive(child));
    assert_eq!(pidfd.signal(9), Err(Errno::ESRCH));
    assert!(process::stat(child).is_err());
}

#[test]
fn statm_counts_anonymous_pages() {
    let _alone = alone();
    // In a child, which has one thread: the other tests of this program allocate, too.
    let child = fork(|| {
        let Ok(statm) = process::StatmFile::open(None) else { return 1 };
        let Ok(before) = statm.read() else { return 2 };
        let area = Pages::new(2048);
        if memory::populate_write(area.start(), area.bytes()).is_err() {
            return 3;
        }
        let Ok(after) = statm.read() else { return 4 };
        // The kernel keeps up to some dozens of pages a CPU uncounted.
        let grown = after.anonymous_pages() as i64 - before.anonymous_pages() as i64;
        if !(1800..2300).contains(&grown) {
            return 5;
        }
        let sane = after.resident_pages >= after.shared_pages && after.total_pages > after.resident_pages;
        if sane { 0 } else { 6 }
    });
    assert_eq!(wait_for(child), End::Exit(0));
    let name = process::command_name(process::process_id()).unwrap();
    assert_eq!(name.as_bytes(), std::fs::read("/proc/self/comm").unwrap().trim_ascii_end());
}

#[test]
fn the_peer_of_a_socket_is_known() {
    use std::os::fd::AsRawFd as _;
    use std::os::unix::fs::MetadataExt as _;
    let (one, _other) = std::os::unix::net::UnixStream::pair().expect("the kernel has sockets");
    let peer = process::peer_of(one.as_raw_fd()).expect("it has a peer");
    let own = (std::process::id(), std::fs::metadata("/proc/self").expect("there is /proc").uid());
    assert_eq!((peer.pid, peer.uid), own);
    let file = std::fs::File::open("/dev/null").expect("there is one");
    assert_eq!(process::peer_of(file.as_raw_fd()).map(|_| ()), Err(Errno::ENOTSOCK));
}

#[test]
fn what_is_behind_a_number_is_replaced_in_one_step() {
    let file = Fd::open(c"/proc/self/exe", 0, 0).expect("this program is there");
    let unreadable = Event::new().expect("there are event counters");
    unreadable.fd().replace(file.raw()).expect("both are open");
    let mut buffer = [0; 8];
    assert!(file.pread(&mut buffer, 0).is_err(), "the file is still there");
    unreadable.raise();
    assert_eq!(file.read(&mut buffer), Ok(8), "it is the counter");
}

#[test]
fn threads_are_counted_as_they_come_and_go() {
    static COUNTED: StackArea = StackArea::new(64 * 1024);
    extern "C" fn wait_for_word(word: usize) {
        // SAFETY:
        // 1. It is the address of `STOP`.
        let stop = unsafe { &*(word as *const AtomicU32) };
        while stop.load(Ordering::Acquire) == 0 {
            uswap_os::thread::yield_now();
        }
    }
    static STOP: AtomicU32 = AtomicU32::new(0);
    let _alone = alone();
    let child = fork(|| {
        let alone = process::count_threads();
        let begun = spawn(&COUNTED, wait_for_word, &raw const STOP as usize, Files::Shared);
        let two = process::count_threads();
        STOP.store(1, Ordering::Release);
        let is_joined = COUNTED.join(Timeout::Forever);
        u8::from(alone == Ok(1) && begun.is_ok() && two == Ok(2) && is_joined)
    });
    assert_eq!(wait_for(child), End::Exit(1));
}
