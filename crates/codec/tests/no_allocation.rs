//! Nothing in this crate allocates: it runs where an allocation could fault into itself.
//!
//! A test binary of its own, because it has an allocator of its own.

mod pages;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::sync::Mutex;

use uswap_codec::{
    COMPRESSED_BYTES_MAX, Compressed, Effort, PAGE_BYTES, Scratch, compress, decompress, fill, hash,
    same_filled,
};

struct Counting;

thread_local! {
    /// What this thread allocated: the harness has threads of its own.
    static ALLOCATION_COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY:
// 1. `GlobalAlloc` demands the behaviour of an allocator: each call goes to `System` with the arguments unchanged.
// 2. The counter is a constant in the thread's own storage, without a destructor: counting neither allocates nor
//    panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATION_COUNT.set(ALLOCATION_COUNT.get() + 1);
        // SAFETY:
        // 1. `layout` has a size above zero: our caller promises it to us.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY:
        // 1. `pointer` came from `System.alloc` with this `layout`: `alloc` above is the only source.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A scratch that needs no start-up code at all.
static SCRATCH: Mutex<Scratch> = Mutex::new(Scratch::new());

#[test]
fn storing_and_loading_pages_allocates_nothing() {
    let mut scratch = SCRATCH.lock().expect("no other test holds it");
    let mut out = [0; COMPRESSED_BYTES_MAX];
    let mut back = [0; PAGE_BYTES];
    let mut compressed_count = 0;

    black_box(Box::new(1_u8));
    let before = ALLOCATION_COUNT.get();
    assert!(before > 0, "the counter counts");
    for seed in 1..=600 {
        let page = pages::page(seed as usize, seed);
        let effort = if seed % 2 == 0 { Effort::Quick } else { Effort::Dense };
        black_box(hash(&page));
        if let Some(value) = same_filled(&page) {
            fill(&mut back, value);
        } else if let Compressed::Bytes(length) = compress(&page, &mut out, effort, &mut scratch) {
            decompress(&out[..length], &mut back, &mut scratch).expect("it was just compressed");
            compressed_count += 1;
        } else {
            continue;
        }
        assert!(back == page);
    }
    for seed in 1..=600 {
        let _ = black_box(decompress(&pages::page(0, seed), &mut back, &mut scratch));
    }
    black_box(Scratch::new());
    let after = ALLOCATION_COUNT.get();

    assert!(compressed_count > 300, "{compressed_count} of 600 pages compressed");
    assert_eq!(after - before, 0);
}
