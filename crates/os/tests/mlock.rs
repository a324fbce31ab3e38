//! Locked memory against the real kernel: what stays unlocked whatever the process asks for.
//!
//! One test, since what it asks for holds for the whole process. Run with `cargo test -p uswap-os
//! --test mlock`.
//!
//! Every `unsafe` block here touches only the mappings that its own test made, through raw
//! pointers, in states that the test sets up before: that is the SAFETY argument of all of them,
//! which item 1 repeats in short.

use uswap_os::PAGE_BYTES;
use uswap_os::memory::{self, Access, Mapping};
use uswap_os::mlock::{self, Presence};
use uswap_os::pagemap::Pagemap;

const PAGES: usize = 4096;

fn present_pages(mapping: &Mapping) -> u32 {
    let pagemap = Pagemap::open().unwrap();
    let blocks = (mapping.start()..mapping.end()).step_by(64 * PAGE_BYTES);
    blocks.map(|start| pagemap.held(start, 64).unwrap()[0].count_ones()).sum()
}

#[test]
fn mappings_of_the_engine_are_not_locked_and_not_filled_whatever_the_process_locks() {
    let new = |access| Mapping::anonymous(PAGES * PAGE_BYTES, 2 << 20, access).unwrap();
    memory::keep_unlocked_page().unwrap();
    if mlock::lock_all(mlock::CURRENT | mlock::FUTURE).is_err() {
        println!("SKIP: this user may not lock memory");
        return;
    }
    let before = mlock::locked_bytes(None).unwrap();
    assert!(before >= 1 << 20, "the process itself is locked");
    // The test's own stack and heap grow, and are locked.
    let grown = || mlock::locked_bytes(None).unwrap().saturating_sub(before) as usize / PAGE_BYTES;
    let mapping = new(Access::ReadWrite);
    assert!(grown() < PAGES / 2);
    assert_eq!(present_pages(&mapping), 0);
    assert_eq!(mapping.start() % (2 << 20), 0);
    // SAFETY: 1. its own mapping.
    unsafe { mapping.as_ptr().add(5 * PAGE_BYTES).write_volatile(7) };
    let no_access = new(Access::None);
    assert!(grown() < PAGES / 2);

    // All of it again, with what is there; then unlocked. The page that mappings are copies of is
    // locked too.
    mlock::lock_all(mlock::CURRENT | mlock::ON_FAULT).unwrap();
    assert!(grown() >= 2 * PAGES);
    assert_eq!(present_pages(&mapping), 1, "pages are locked when they are touched");
    // SAFETY: 1. its own mapping.
    unsafe { memory::drop_pages(mapping.start(), mapping.bytes()) }.unwrap();
    assert_eq!(present_pages(&mapping), 0, "locked pages are dropped like any others");
    for own in [&mapping, &no_access] {
        mlock::unlock(own.start(), own.bytes()).unwrap();
    }
    let after_all_was_locked = new(Access::ReadWrite);
    assert!(grown() < PAGES / 2);

    mlock::lock(mapping.start(), mapping.bytes(), Presence::Now).unwrap();
    assert_eq!(present_pages(&mapping), PAGES as u32);
    mlock::unlock_all().unwrap();
    assert_eq!(mlock::locked_bytes(None), Ok(0));
    drop(after_all_was_locked);
}
