//! What uswap relies on of userfaultfd, shown on the running kernel.

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::{End, Pages, alone, fork, get, open, wait_for};
use uswap_os::fd::{PollEntry, Timeout, poll};
use uswap_os::pagemap::{Pagemap, What};
use uswap_os::sys::{self, abi};
use uswap_os::uffd::{Features, Holes, Message, Mode, Stop, Uffd, UffdError, UffdMsg, UffdSource, Wake};
use uswap_os::{Errno, PAGE_BYTES, memory};

fn move_pages(
    uffd: &Uffd,
    target: usize,
    source: usize,
    pages: usize,
    holes: Holes,
) -> uswap_os::uffd::Progress {
    // SAFETY:
    // 1. The tests move pages of their own mappings, into which no reference exists.
    unsafe { uffd.move_pages(target, source, pages * PAGE_BYTES, holes) }
}

/// The next message, waiting up to five seconds.
fn next_message(uffd: &Uffd) -> Message {
    let mut messages = [UffdMsg::EMPTY; 1];
    poll(&mut [PollEntry::readable(uffd.fd())], Timeout::Nanoseconds(5_000_000_000)).unwrap();
    assert_eq!(uffd.read(&mut messages), Ok(1), "no message came");
    messages[0].decode(uffd.features())
}

#[test]
fn copy_fills_a_missing_page_once() {
    let _alone = alone();
    let Some(uffd) = open(Features::NONE) else { return };
    assert!(matches!(uffd.source(), UffdSource::Device | UffdSource::SystemCall));
    let area = Pages::new(4);
    uffd.register(area.start(), area.bytes(), Mode::Missing).unwrap();
    assert!(uffd.copy_page(area.page(1), &[7; PAGE_BYTES], Wake::Now).is_done());
    assert_eq!(uffd.copy_page(area.page(1), &[8; PAGE_BYTES], Wake::Now).stop, Some(Stop::AlreadyMapped));
    assert!(uffd.zeropage(area.page(2), PAGE_BYTES, Wake::Now).is_done());
    assert_eq!((area.get(1), area.get(2)), (7, 0));
    // Over several pages: it stops where a page is, and says so.
    let progress = uffd.zeropage(area.page(0), 2 * PAGE_BYTES, Wake::Now);
    assert_eq!((progress.bytes_done, progress.stop), (PAGE_BYTES, Some(Stop::AlreadyMapped)));
    let other = Pages::new(1);
    assert_eq!(uffd.copy_page(other.start(), &[1; PAGE_BYTES], Wake::Now).stop, Some(Stop::NoSource));
    assert_eq!(uffd.copy_page(area.start() + 1, &[1; PAGE_BYTES], Wake::Now).stop, Some(Stop::Refused));
    assert_eq!(
        Uffd::open(Features::NONE).unwrap().register(area.start(), PAGE_BYTES, Mode::Missing),
        Err(Errno::EBUSY)
    );
    uffd.unregister(area.start(), area.bytes()).unwrap();
}

#[test]
fn what_is_registered_can_be_asked_without_a_change() {
    let _alone = alone();
    let Some(uffd) = open(Features::NONE) else { return };
    let (area, other) = (Pages::new(4), Pages::new(1));
    let unreadable = memory::Mapping::anonymous(PAGE_BYTES, PAGE_BYTES, memory::Access::None).unwrap();
    uffd.register(area.start(), area.bytes(), Mode::Missing).unwrap();
    assert!(uffd.copy_page(area.page(1), &[7; PAGE_BYTES], Wake::Now).is_done());
    for (page, registered) in
        [(area.page(0), true), (area.page(1), true), (other.start(), false), (16 << 12, false)]
    {
        assert_eq!(uffd.is_registered(page, unreadable.start()), registered);
    }
    assert_eq!(area.get(1), 7);
    // Nothing was put where nothing is.
    assert!(uffd.copy_page(area.page(0), &[8; PAGE_BYTES], Wake::Now).is_done());
    assert_eq!(area.get(0), 8);
    uffd.unregister(area.start(), area.bytes()).unwrap();
}

#[test]
fn an_open_userfaultfd_is_found() {
    let _alone = alone();
    let Some(uffd) = open(Features::NONE) else { return };
    assert_eq!(uswap_os::process::has_userfaultfd(), Ok(true));
    drop(uffd);
    assert_eq!(uswap_os::process::has_userfaultfd(), Ok(false));
}

#[test]
fn a_fault_waits_for_its_page_and_reads_it() {
    let _alone = alone();
    let Some(uffd) = open(Features::THREAD_ID) else { return };
    let area = Pages::new(2);
    uffd.register(area.start(), area.bytes(), Mode::Missing).unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| (uswap_os::thread::thread_id(), get(area.page(1) + 100)));
        let Message::Fault { address, write, write_protected, thread_id } = next_message(&uffd) else {
            panic!()
        };
        assert_eq!((address, write, write_protected), (area.page(1), false, false));
        assert_eq!(uffd.read(&mut [UffdMsg::EMPTY; 4]), Ok(0));
        // Not woken yet: the page is there, the thread sleeps.
        assert!(uffd.copy_page(address, &[9; PAGE_BYTES], Wake::Later).is_done());
        std::thread::sleep(Duration::from_millis(20));
        assert!(!reader.is_finished());
        uffd.wake(address, PAGE_BYTES).unwrap();
        let (reader_id, value) = reader.join().unwrap();
        assert_eq!((thread_id, value), (Some(reader_id), 9));
    });
}

#[test]
fn move_takes_pages_out_and_brings_them_back() {
    let _alone = alone();
    let Some(app) = open(Features::EVENTS.and(Features::MOVE)) else { return };
    let Some(trash_uffd) = open(Features::MOVE) else { return };
    let (area, arena, trash) = (Pages::new(64), Pages::new(64), Pages::new(64));
    for page in (0..64).filter(|page| page % 3 != 0) {
        area.fill(page, page as u8);
    }
    app.register(area.start(), area.bytes(), Mode::Missing).unwrap();
    app.register(arena.start(), arena.bytes(), Mode::WriteProtect).unwrap();
    trash_uffd.register(trash.start(), trash.bytes(), Mode::WriteProtect).unwrap();
    // A hole stops it; allowed, it counts as moved.
    assert_eq!(move_pages(&app, arena.start(), area.start(), 64, Holes::Refuse).stop, Some(Stop::NoSource));
    assert!(move_pages(&app, arena.start(), area.start(), 64, Holes::Allow).is_done());
    let pagemap = Pagemap::open().unwrap();
    let expected = (0..64u64).filter(|page| page % 3 != 0).fold(0, |bits, page| bits | 1 << page);
    assert_eq!(pagemap.present(arena.start(), 64).unwrap()[0], expected);
    assert_eq!(pagemap.present(area.start(), 64).unwrap()[0], 0);
    // Dead frames leave through the other descriptor: no event of the first one.
    assert!(move_pages(&trash_uffd, trash.start(), arena.start(), 16, Holes::Allow).is_done());
    // SAFETY:
    // 1. The trash is of this test and its content is given up.
    unsafe { memory::drop_pages(trash.start(), trash.bytes()) }.unwrap();
    assert_eq!(app.read(&mut [UffdMsg::EMPTY; 4]), Ok(0));
    // Back.
    assert!(move_pages(&app, area.page(17), arena.page(17), 1, Holes::Refuse).is_done());
    assert_eq!(area.get(17), 17);
    // A page that is there stops a batch behind those before it: 19 moves, 20 is there.
    assert!(app.copy_page(area.page(20), &[1; PAGE_BYTES], Wake::Now).is_done());
    let progress = move_pages(&app, area.page(19), arena.page(19), 4, Holes::Allow);
    assert_eq!((progress.bytes_done, progress.stop), (PAGE_BYTES, Some(Stop::AlreadyMapped)));
    // The destination must be registered with the descriptor that moves.
    assert!(!move_pages(&trash_uffd, area.page(50), arena.page(50), 1, Holes::Refuse).is_done());
    for uffd_and_area in [(&app, &area), (&app, &arena), (&trash_uffd, &trash)] {
        uffd_and_area.0.unregister(uffd_and_area.1.start(), uffd_and_area.1.bytes()).unwrap();
    }
}

/// A place that is not empty, but not present either: a mark, as a page that the kernel swapped has one, or one that it
/// just moves in RAM.
#[test]
fn what_is_held_and_not_present_takes_the_place_of_what_is_moved() {
    let _alone = alone();
    let Some(app) = open(Features::EVENTS.and(Features::MOVE).and(Features::POISON)) else { return };
    let (area, arena) = (Pages::new(8), Pages::new(8));
    (0..6).for_each(|page| area.fill(page, 10 + page as u8));
    app.register(area.start(), area.bytes(), Mode::Missing).unwrap();
    app.register(arena.start(), arena.bytes(), Mode::Missing).unwrap();
    assert!(app.poison(arena.page(2), PAGE_BYTES).is_done());
    let pagemap = Pagemap::open().unwrap();
    assert_eq!(pagemap.present(arena.start(), 8).unwrap()[0], 0);
    assert_eq!(pagemap.held(arena.start(), 8).unwrap()[0], 1 << 2);
    for (what, bits) in [(What::Present, 0), (What::Held, 1 << 2)] {
        assert_eq!(pagemap.look_by_read(arena.start(), 8, what).unwrap()[0], bits);
    }
    let progress = move_pages(&app, arena.start(), area.start(), 4, Holes::Allow);
    assert_eq!((progress.bytes_done, progress.stop), (2 * PAGE_BYTES, Some(Stop::AlreadyMapped)));
    assert_eq!(pagemap.held(arena.start(), 8).unwrap()[0], 0b111);
    assert_eq!((area.get(2), area.get(3)), (12, 13));
    // The same for a page that is there.
    let progress = move_pages(&app, arena.page(1), area.page(3), 1, Holes::Allow);
    assert_eq!((progress.bytes_done, progress.stop), (0, Some(Stop::AlreadyMapped)));
    assert_eq!((arena.get(1), area.get(3)), (11, 13));
    // And for a hole.
    let progress = move_pages(&app, arena.page(1), area.page(7), 1, Holes::Allow);
    println!("a hole onto what is there: {progress:?}");
    assert_eq!(arena.get(1), 11);
    for area in [&area, &arena] {
        app.unregister(area.start(), area.bytes()).unwrap();
    }
}

#[test]
fn after_a_fork_pages_are_busy_until_populated() {
    let _alone = alone();
    let Some(uffd) = open(Features::MOVE) else { return };
    let (area, arena) = (Pages::new(2), Pages::new(2));
    area.fill(0, 5);
    area.fill(1, 6);
    uffd.register(arena.start(), arena.bytes(), Mode::WriteProtect).unwrap();
    assert_eq!(wait_for(fork(|| 0)), End::Exit(0));
    assert_eq!(move_pages(&uffd, arena.start(), area.start(), 2, Holes::Refuse).stop, Some(Stop::Busy));
    memory::populate_write(area.start(), area.bytes()).unwrap();
    assert!(move_pages(&uffd, arena.start(), area.start(), 2, Holes::Refuse).is_done());
    assert_eq!((arena.get(0), arena.get(1)), (5, 6));
    uffd.unregister(arena.start(), arena.bytes()).unwrap();
}

#[test]
fn while_an_event_is_unread_every_change_answers_retry() {
    let _alone = alone();
    let Some(uffd) = open(Features::EVENTS) else { return };
    let (area, arena) = (Pages::new(8), Pages::new(8));
    for page in 0..4 {
        area.fill(page, 40 + page as u8);
    }
    uffd.register(area.start(), area.bytes(), Mode::Missing).unwrap();
    uffd.register(arena.start(), arena.bytes(), Mode::WriteProtect).unwrap();
    assert_eq!(uffd.no_event_pending(arena.start()), Ok(true));
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // SAFETY:
            // 1. The page is of this test and its content is given up.
            unsafe { memory::drop_pages(area.page(2), PAGE_BYTES) }.unwrap();
            over.store(true, Ordering::Release);
        });
        poll(&mut [PollEntry::readable(uffd.fd())], Timeout::Forever).unwrap();
        assert_eq!(uffd.no_event_pending(arena.start()), Ok(false));
        assert_eq!(uffd.copy_page(area.page(5), &[1; PAGE_BYTES], Wake::Now).stop, Some(Stop::Retry));
        assert_eq!(uffd.zeropage(area.page(5), PAGE_BYTES, Wake::Now).stop, Some(Stop::Retry));
        let progress = move_pages(&uffd, arena.start(), area.start(), 2, Holes::Refuse);
        assert_eq!((progress.bytes_done, progress.stop), (0, Some(Stop::Retry)));
        // The event comes before the page is dropped: what is there can still be moved out.
        assert!(!over.load(Ordering::Acquire));
        assert_eq!(area.get(2), 42);
        assert_eq!(next_message(&uffd), Message::Remove { start: area.page(2), end: area.page(3) });
    });
    assert_eq!(uffd.no_event_pending(arena.start()), Ok(true));
    assert!(move_pages(&uffd, arena.start(), area.start(), 2, Holes::Refuse).is_done());
    uffd.unregister(area.start(), area.bytes()).unwrap();
    uffd.unregister(arena.start(), arena.bytes()).unwrap();
}

#[test]
fn remap_and_unmap_are_told() {
    let _alone = alone();
    let Some(uffd) = open(Features::EVENTS) else { return };
    let area = memory::Mapping::anonymous(8 * PAGE_BYTES, PAGE_BYTES, memory::Access::ReadWrite).unwrap();
    let place = memory::Mapping::anonymous(8 * PAGE_BYTES, PAGE_BYTES, memory::Access::None).unwrap();
    uffd.register(area.start(), area.bytes(), Mode::Missing).unwrap();
    let (from, to) = (area.leak(), place.leak());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            use uswap_os::sys::{abi, syscall6};
            let flags = (abi::MREMAP_MAYMOVE | abi::MREMAP_FIXED) as usize;
            // SAFETY:
            // 1. Both ranges are of this test, leaked, and without references.
            let answer =
                unsafe { syscall6(abi::__NR_mremap, from, 8 * PAGE_BYTES, 8 * PAGE_BYTES, flags, to, 0) };
            assert_eq!(answer, Ok(to));
            // SAFETY:
            // 1. As above.
            unsafe { memory::unmap(to + 2 * PAGE_BYTES, 3 * PAGE_BYTES) }.unwrap();
        });
        assert_eq!(next_message(&uffd), Message::Remap { from, to, bytes: 8 * PAGE_BYTES });
        // Some kernels tell of the old place too, as unmapped.
        let mut message = next_message(&uffd);
        if message == (Message::Unmap { start: from, end: from + 8 * PAGE_BYTES }) {
            message = next_message(&uffd);
        }
        assert_eq!(message, Message::Unmap { start: to + 2 * PAGE_BYTES, end: to + 5 * PAGE_BYTES });
    });
    uffd.unregister(to, 2 * PAGE_BYTES).unwrap();
    uffd.unregister(to + 5 * PAGE_BYTES, 3 * PAGE_BYTES).unwrap();
}

#[test]
fn a_child_rings_the_doorbell_and_takes_over() {
    let _alone = alone();
    let Some(uffd) = open(Features::EVENTS) else { return };
    let (area, bell) = (Pages::new(4), Pages::new(1));
    area.fill(0, 50);
    uffd.register(area.start(), area.bytes(), Mode::Missing).unwrap();
    uffd.register(bell.start(), bell.bytes(), Mode::Missing).unwrap();
    let child = std::thread::scope(|scope| {
        let server = scope.spawn(|| {
            let Message::Fork { fd } = next_message(&uffd) else { panic!("no fork event") };
            let child = Uffd::from_fd(fd, uffd.features());
            // The child reads page 1 before it rings.
            let Message::Fault { address, .. } = next_message(&child) else { panic!() };
            assert_eq!(address, area.page(1));
            assert!(child.copy_page(address, &[51; PAGE_BYTES], Wake::Now).is_done());
            let Message::Fault { address, .. } = next_message(&child) else { panic!() };
            assert_eq!(address, bell.start());
            assert!(child.copy_page(address, &[77; PAGE_BYTES], Wake::Now).is_done());
            // Closing unregisters the child's ranges: it can register them with its own.
            drop(child);
        });
        let child = fork(|| {
            if area.get(0) != 50 || area.get(1) != 51 || bell.get(0) != 77 {
                return 1;
            }
            let Ok(own) = Uffd::open(Features::NONE) else { return 2 };
            // The parent closes its descriptor right after the bell: until then the ranges are its.
            let mut tries = 0;
            while own.register(area.start(), area.bytes(), Mode::Missing) == Err(Errno::EBUSY) {
                tries += 1;
                if tries > 1000 {
                    return 3;
                }
                uswap_os::clock::sleep_ns(1_000_000);
            }
            if !own.copy_page(area.page(2), &[52; PAGE_BYTES], Wake::Now).is_done() {
                return 4;
            }
            if area.get(2) != 52 || area.get(1) != 51 { 5 } else { 0 }
        });
        server.join().unwrap();
        child
    });
    assert_eq!(wait_for(child), End::Exit(0));
    uffd.unregister(area.start(), area.bytes()).unwrap();
    uffd.unregister(bell.start(), bell.bytes()).unwrap();
}

#[test]
fn poison_is_sigbus_for_code_and_efault_for_the_kernel() {
    let _alone = alone();
    let Some(_) = open(Features::POISON) else { return };
    let child = fork(|| {
        // SAFETY:
        // 1. In the child: SIGBUS gets its default action back (all-zero sigaction), so that it ends the child.
        unsafe {
            let zeros = [0u64; 4];
            let _ = uswap_os::sys::syscall6(13, 7, zeros.as_ptr() as usize, 0, 8, 0, 0);
        }
        let Ok(uffd) = Uffd::open(Features::POISON) else { return 1 };
        let Ok(area) = memory::Mapping::anonymous(2 * PAGE_BYTES, PAGE_BYTES, memory::Access::ReadWrite)
        else {
            return 2;
        };
        if uffd.register(area.start(), area.bytes(), Mode::Missing).is_err() {
            return 3;
        }
        if !uffd.poison(area.start(), PAGE_BYTES).is_done() {
            return 4;
        }
        let Ok((_reader, writer)) = uswap_os::fd::pipe() else { return 5 };
        // SAFETY:
        // 1. The kernel reads a byte or answers EFAULT.
        let answer = unsafe { uswap_os::sys::syscall3(1, writer.raw() as usize, area.start(), 1) };
        if answer != Err(Errno::EFAULT) {
            return 6;
        }
        get(area.start())
    });
    assert_eq!(wait_for(child), End::Signal(7));
}

#[test]
fn without_the_capability_only_the_fork_event_is_refused() {
    let _alone = alone();
    let Some(_) = open(Features::EVENTS) else { return };
    if Uffd::open(Features::NONE).map(|uffd| uffd.source()) != Ok(UffdSource::Device) {
        println!("SKIP: the device cannot be opened");
        return;
    }
    let child = fork(|| {
        // Version 3 of the capability structures, this process, and three empty sets of 64 bits.
        let (header, empty) = ([0x2008_0522u32, 0], [0u32; 6]);
        // SAFETY:
        // 1. capset reads both structures, which have the kernel's layout; it changes the child only.
        let dropped =
            unsafe { uswap_os::sys::syscall3(126, header.as_ptr() as usize, empty.as_ptr() as usize, 0) };
        if dropped.is_err() {
            return 1;
        }
        match Uffd::open(Features::EVENTS) {
            Err(UffdError::Features { errno: Errno::EPERM, .. }) => {}
            _ => return 2,
        }
        if Uffd::open(Features::EVENTS.without(Features::EVENT_FORK)).is_err() {
            return 3;
        }
        let probe = uswap_os::probe::Probe::run(None);
        // What the device gives needs no capability; the system call does.
        if probe.event_fork != Err(Errno::EPERM) || probe.cap_sys_ptrace || probe.move_pages != Ok(()) {
            return 4;
        }
        if probe.kernel_mode_faults == Ok(()) && probe.system_call == Err(Errno::EPERM) { 0 } else { 5 }
    });
    let end = wait_for(child);
    if std::fs::read_to_string("/proc/sys/vm/unprivileged_userfaultfd").is_ok_and(|text| text.trim() == "1") {
        println!("SKIP of the last answer: unprivileged use is allowed");
        assert!(matches!(end, End::Exit(0 | 5)));
    } else {
        assert_eq!(end, End::Exit(0));
    }
}

#[test]
fn closing_the_last_descriptor_makes_missing_pages_zeros() {
    let _alone = alone();
    let Some(uffd) = open(Features::NONE) else { return };
    let area = Pages::new(1);
    uffd.register(area.start(), area.bytes(), Mode::Missing).unwrap();
    drop(uffd);
    assert_eq!(area.get(0), 0);
}

#[test]
fn this_kernel_passes_its_own_probe() {
    let _alone = alone();
    let probe = uswap_os::probe::Probe::run(Some(c"/tmp"));
    println!("{probe:#?}");
    if probe.uffd.is_err() {
        println!("SKIP: {:?}", probe.uffd);
        return;
    }
    assert_eq!((probe.move_pages, probe.poison, probe.memfd), (Ok(()), Ok(()), Ok(())));
    assert_eq!(probe.kernel_mode_faults, Ok(()));
    assert!(probe.memory_bytes > 0 && probe.cpu_count > 0 && !probe.kernel_release.as_bytes().is_empty());
}

/// Whether the kernel itself may write a page: it answers EFAULT where a thread of the program would get a SIGBUS.
fn kernel_may_write(page: usize) -> bool {
    let (reader, writer) = uswap_os::fd::pipe().unwrap();
    assert_eq!(writer.write(b"x"), Ok(1));
    // SAFETY:
    // 1. The kernel writes one byte of a mapping of the test, into which no reference exists, or answers EFAULT.
    let answer = unsafe { sys::syscall3(abi::__NR_read, reader.raw() as usize, page, 1) };
    assert!(matches!(answer, Ok(1) | Err(Errno::EFAULT)), "{answer:?}");
    answer.is_ok()
}

/// Kernels before 6.4 or so refuse such a range as a whole.
#[test]
fn neighbouring_mappings_are_write_protected_with_one_call_of_ours() {
    let _alone = alone();
    let uffd = Uffd::open_in_thread().expect("Linux 5.11, and no filter");
    let area = Pages::new(9);
    (0..9).for_each(|page| area.fill(page, 7));
    // Another kind of mapping from the fourth page on, and nothing in the place of the eighth.
    memory::no_dump(area.page(3), 6 * PAGE_BYTES).unwrap();
    uffd.register(area.start(), area.bytes(), Mode::MissingAndProtected).unwrap();
    uffd.unregister(area.page(7), PAGE_BYTES).unwrap();
    assert!(uffd.write_protect(area.page(1), 5 * PAGE_BYTES).is_done());
    let writable: Vec<bool> = (0..7).map(|page| kernel_may_write(area.page(page))).collect();
    assert_eq!(writable, [true, false, false, false, false, false, true]);
    // Where nothing is registered it ends.
    let progress = uffd.write_protect(area.page(5), 4 * PAGE_BYTES);
    assert_eq!(progress.stop, Some(Stop::NoSource));
    assert!(progress.bytes_done <= 2 * PAGE_BYTES, "{progress:?}");
    assert!(uffd.write_unprotect(area.start(), 7 * PAGE_BYTES).is_done());
    assert!((0..9).all(|page| kernel_may_write(area.page(page))));
}

/// The kernel refuses to fill such a range as a whole.
#[test]
fn a_range_over_neighbouring_mappings_is_filled_in_part() {
    let _alone = alone();
    let uffd = Uffd::open_in_thread().expect("Linux 5.11, and no filter");
    let area = Pages::new(24);
    // Mappings of three pages.
    (0..24).step_by(6).for_each(|page| memory::no_dump(area.page(page), 3 * PAGE_BYTES).unwrap());
    uffd.register(area.start(), area.bytes(), Mode::MissingAndProtected).unwrap();
    let contents = [[7; PAGE_BYTES]; 8];
    let filled = [
        uffd.copy_pages(area.page(0), &contents, Wake::Later),
        uffd.copy_pages_protected(area.page(8), &contents),
        uffd.zeropage(area.page(16), 8 * PAGE_BYTES, Wake::Later),
    ];
    for (progress, first) in filled.into_iter().zip([0, 8, 16]) {
        assert!(progress.is_done());
        let pages = progress.bytes_done / PAGE_BYTES;
        assert!((1..=3).contains(&pages) && progress.bytes_done % PAGE_BYTES == 0, "{progress:?}");
        let present = Pagemap::open().unwrap().present(area.page(first), 8).unwrap()[0];
        assert_eq!(present, (1 << pages) - 1, "from page {first} on");
    }
}

/// Kernels before 6.14 or so carry the protection along; it is taken away as any other.
#[test]
fn a_page_that_was_protected_and_moved_can_be_made_writable() {
    let _alone = alone();
    let uffd = Uffd::open_in_thread().expect("Linux 5.11, and no filter");
    let (area, other) = (Pages::new(2), Pages::new(4));
    area.fill(0, 7);
    uffd.register(area.start(), area.bytes(), Mode::MissingAndProtected).unwrap();
    assert!(uffd.write_protect(area.start(), area.bytes()).is_done());
    assert!(!kernel_may_write(area.page(0)));
    let flags = (abi::MREMAP_MAYMOVE | abi::MREMAP_FIXED) as usize;
    // SAFETY:
    // 1. Both places are mappings of this test, into which no reference exists.
    let moved = unsafe {
        let arguments = [area.start(), area.bytes(), area.bytes(), flags, other.page(1), 0];
        let [start, bytes, new_bytes, flags, target, rest] = arguments;
        sys::syscall6(abi::__NR_mremap, start, bytes, new_bytes, flags, target, rest)
    };
    assert_eq!(moved, Ok(other.page(1)));
    uffd.register(other.page(1), area.bytes(), Mode::MissingAndProtected).unwrap();
    if !kernel_may_write(other.page(1)) {
        println!("this kernel carries the protection along");
    }
    assert!(uffd.write_unprotect(other.page(1), area.bytes()).is_done());
    assert!(kernel_may_write(other.page(1)));
    assert!(!kernel_may_write(other.page(2)), "what was missing has to come to us");
}
