//! What uswap relies on of userfaultfd, shown on the running kernel. The descriptor is the one that anybody may have.

mod common;

use common::{End, Pages, alone, fork, wait_for};
use uswap_os::pagemap::Pagemap;
use uswap_os::sys::{self, abi};
use uswap_os::uffd::{Mode, Stop, Uffd};
use uswap_os::{Errno, Fd, PAGE_BYTES, memory};

fn opened() -> Uffd {
    Uffd::open().expect("Linux 5.11, and no filter")
}

#[test]
fn a_missing_page_is_filled_once() {
    let _alone = alone();
    let uffd = opened();
    let area = Pages::new(4);
    uffd.register(area.start(), area.bytes(), Mode::Missing).unwrap();
    assert!(uffd.copy_pages(area.page(1), &[[7; PAGE_BYTES]]).is_done());
    assert_eq!(uffd.copy_pages(area.page(1), &[[8; PAGE_BYTES]]).stop, Some(Stop::AlreadyMapped));
    assert!(uffd.zeropage(area.page(2), PAGE_BYTES).is_done());
    assert_eq!((area.get(1), area.get(2)), (7, 0));
    // Over several pages: it stops where a page is, and says so.
    let progress = uffd.zeropage(area.page(0), 2 * PAGE_BYTES);
    assert_eq!((progress.bytes_done, progress.stop), (PAGE_BYTES, Some(Stop::AlreadyMapped)));
    let other = Pages::new(1);
    assert_eq!(uffd.copy_pages(other.start(), &[[1; PAGE_BYTES]]).stop, Some(Stop::Refused));
    assert_eq!(uffd.copy_pages(area.start() + 1, &[[1; PAGE_BYTES]]).stop, Some(Stop::Refused));
    assert_eq!(opened().register(area.start(), PAGE_BYTES, Mode::Missing), Err(Errno::EBUSY));
    uffd.unregister(area.start(), area.bytes()).unwrap();
}

#[test]
fn a_system_call_that_meets_a_missing_page_fails() {
    let _alone = alone();
    let uffd = opened();
    let area = Pages::new(2);
    uffd.register(area.start(), area.bytes(), Mode::Missing).unwrap();
    assert!(uffd.copy_pages(area.page(0), &[[7; PAGE_BYTES]]).is_done());
    assert_eq!([0, 1].map(|page| kernel_may_write(area.page(page))), [true, false]);
}

/// So the child has to register and protect anew before code of the program runs in it.
#[test]
fn a_forked_child_has_neither_registration_nor_protection() {
    let _alone = alone();
    let uffd = opened();
    let area = Pages::new(2);
    area.fill(0, 7);
    uffd.register(area.start(), area.bytes(), Mode::MissingAndProtected).unwrap();
    assert!(uffd.write_protect(area.start(), area.bytes()).is_done());
    let child = fork(|| {
        let may_write = [0, 1].map(|page| kernel_may_write(area.page(page)));
        if may_write == [true, true] { 0 } else { 1 }
    });
    assert_eq!(wait_for(child), End::Exit(0));
    assert_eq!([0, 1].map(|page| kernel_may_write(area.page(page))), [false, false]);
}

/// So a range that may have other mappings in it is taken back mapping by mapping.
#[test]
fn a_range_with_a_file_in_it_is_taken_back_whole_or_not_at_all() {
    let _alone = alone();
    let uffd = opened();
    let area = Pages::new(8);
    uffd.register(area.start(), area.bytes(), Mode::Missing).unwrap();
    map_file(area.page(4));
    assert_eq!(uffd.unregister(area.start(), area.bytes()), Err(Errno::EINVAL));
    assert!(uffd.copy_pages(area.page(0), &[[7; PAGE_BYTES]]).is_done());
    uffd.unregister(area.start(), 4 * PAGE_BYTES).unwrap();
    uffd.unregister(area.page(5), 3 * PAGE_BYTES).unwrap();
    assert_eq!((area.get(0), area.get(1), area.get(7)), (7, 0, 0));
}

/// In the place of a page.
fn map_file(page: usize) {
    let file = Fd::open(c"/proc/self/exe", abi::O_RDONLY, 0).unwrap();
    let flags = (abi::MAP_PRIVATE | abi::MAP_FIXED) as usize;
    // SAFETY:
    // 1. The page is one of a mapping of the test, into which no reference exists.
    let mapped = unsafe {
        sys::syscall6(
            abi::__NR_mmap,
            page,
            PAGE_BYTES,
            abi::PROT_READ as usize,
            flags,
            file.raw() as usize,
            0,
        )
    };
    assert_eq!(mapped, Ok(page));
}

#[test]
fn a_protected_page_is_told_from_others() {
    let _alone = alone();
    let (uffd, pagemap) = (opened(), Pagemap::open().unwrap());
    let area = Pages::new(3);
    area.fill(0, 1);
    area.fill(1, 1);
    uffd.register(area.start(), area.bytes(), Mode::MissingAndProtected).unwrap();
    assert!(uffd.write_protect(area.page(1), PAGE_BYTES).is_done());
    let looks = [0, 1, 2].map(|page| pagemap.look_at(area.page(page)).unwrap());
    assert_eq!(looks.map(|look| look.is_held), [true, true, false]);
    assert_eq!(looks.map(|look| look.is_protected), [false, true, false]);
}

#[test]
fn closing_the_last_descriptor_makes_missing_pages_zeros() {
    let _alone = alone();
    let uffd = opened();
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
    assert_eq!((probe.uffd, probe.memfd), (Ok(()), Ok(())));
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
    let uffd = opened();
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
    assert_eq!(progress.stop, Some(Stop::Refused));
    assert!(progress.bytes_done <= 2 * PAGE_BYTES, "{progress:?}");
    assert!(uffd.write_unprotect(area.start(), 7 * PAGE_BYTES).is_done());
    assert!((0..9).all(|page| kernel_may_write(area.page(page))));
}

/// The kernel refuses to fill such a range as a whole.
#[test]
fn a_range_over_neighbouring_mappings_is_filled_in_part() {
    let _alone = alone();
    let uffd = opened();
    let area = Pages::new(24);
    // Mappings of three pages.
    (0..24).step_by(6).for_each(|page| memory::no_dump(area.page(page), 3 * PAGE_BYTES).unwrap());
    uffd.register(area.start(), area.bytes(), Mode::MissingAndProtected).unwrap();
    let contents = [[7; PAGE_BYTES]; 8];
    let filled = [
        uffd.copy_pages(area.page(0), &contents),
        uffd.copy_pages_protected(area.page(8), &contents),
        uffd.zeropage(area.page(16), 8 * PAGE_BYTES),
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
    let uffd = opened();
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
