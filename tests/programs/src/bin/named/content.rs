//! What is in memory that was taken from a pool.

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::process::Command;
use std::time::{Duration, Instant};

use allocator_api2::alloc::{Allocator as _, Layout};
use allocator_api2::vec::Vec;
use uswap::Map;
use uswap_test_programs::message::end_process;

use crate::{Told, check, filled, known, must, verify};

/// Private memory of this process that is in RAM.
pub fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("/proc is mounted");
    let pages: std::vec::Vec<usize> = text.split(' ').map_while(|word| word.parse().ok()).collect();
    (pages[1] - pages[2]) * 4096
}

/// In order, at random, and back; the rest of the process is not managed.
pub fn table(told: &Told) {
    let outside = std::vec![1_u64; 1 << 20];
    let pool = told.pool();
    let mut map = filled(&pool, told.bytes / 8, 1);
    verify(&map, 1);
    let mut at = 1_usize;
    for _ in 0..20_000 {
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let index = (at >> 16) % map.len();
        check(map[index] == known(1, index), format_args!("value {index}"));
        map[index] = known(1, index);
    }
    verify(&map, 1);
    check(resident_bytes() < told.ram_bytes + (4 << 20), format_args!("{} bytes in RAM", resident_bytes()));
    let stats = must(pool.stats());
    let registered = stats.counters.get("registered_pages").copied().unwrap_or(0) as usize;
    check(registered == told.bytes / 4096, format_args!("{registered} pages were managed"));
    check(stats.ram_bytes as usize == told.ram_bytes, format_args!("{stats:?}"));
    check(outside.iter().sum::<u64>() == 1 << 20, format_args!("what is outside"));
}

/// The kernel reads and writes it, whether it is in RAM or not.
pub fn calls(told: &Told) {
    let pool = told.pool();
    let map = filled(&pool, told.bytes / 8, 2);
    let path = std::env::temp_dir().join(format!("uswap-named-{}", std::process::id()));
    let opened = File::options().read(true).write(true).create_new(true).open(&path);
    let mut file = opened.expect("the temporary directory is writable");
    let _open_still = std::fs::remove_file(&path);
    file.write_all(bytes(&map)).expect("the file is written");
    file.rewind().expect("it goes back");
    let mut other = must(pool.map::<u64>(map.len()));
    file.read_exact(bytes_mut(&mut other)).expect("the file is read");
    verify(&other, 2);
    verify(&map, 2);
}

fn bytes(map: &[u64]) -> &[u8] {
    // SAFETY:
    // 1. Plain values are bytes, of the same memory.
    unsafe { std::slice::from_raw_parts(map.as_ptr().cast(), size_of_val(map)) }
}

fn bytes_mut(map: &mut [u64]) -> &mut [u8] {
    // SAFETY:
    // 1. As above, and any bytes are values.
    unsafe { std::slice::from_raw_parts_mut(map.as_mut_ptr().cast(), size_of_val(map)) }
}

/// Each has a table of its own, and makes and gives back others.
pub fn threads(told: &Told) {
    const THREADS: usize = 6;
    let pool = told.pool();
    let until = Instant::now() + Duration::from_secs(told.seconds);
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let pool = &pool;
            scope.spawn(move || {
                let count = told.bytes / 8 / THREADS;
                let map = filled(pool, count, number as u64);
                while Instant::now() < until {
                    let short = filled(pool, count / 8, 77);
                    verify(&short, 77);
                    verify(&map, number as u64);
                }
            });
        }
    });
}

/// A vector in the pool grows from a small block to many mappings, and shrinks.
pub fn grows(told: &Told) {
    let pool = told.pool();
    let mut values = Vec::new_in(&pool);
    for index in 0..told.bytes / 8 {
        values.push(known(3, index));
    }
    verify(&values, 3);
    values.truncate(told.bytes / 32);
    values.shrink_to_fit();
    verify(&values, 3);
    values.truncate(100);
    values.shrink_to_fit();
    verify(&values, 3);
    let zeros = allocator_api2::vec![in &pool; 0_u64; 1 << 18];
    check(zeros.iter().all(|value| *value == 0), format_args!("zeros"));
}

/// A child has what its parent had when it was forked. What it executes is none of the run.
pub fn children(told: &Told) {
    let pool = told.pool();
    let mut map = filled(&pool, told.bytes / 8, 4);
    // SAFETY:
    // 1. This process has one thread of its own.
    let child = unsafe { libc::fork() };
    if child == 0 {
        verify(&map, 4);
        map.iter_mut().enumerate().for_each(|(index, value)| *value = known(5, index));
        verify(&map, 5);
        let own: Map<u64> = filled(&pool, told.bytes / 32, 6);
        verify(&own, 6);
        // SAFETY:
        // 1. Nothing of this process needs its end.
        unsafe { libc::_exit(0) }
    }
    map.iter_mut().enumerate().for_each(|(index, value)| *value = known(7, index));
    let mut status = 0;
    // SAFETY:
    // 1. The word lives until the call returns.
    let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
    check(waited == child && status == 0, format_args!("the child ended with {status:#x}"));
    verify(&map, 7);
    let output = Command::new("/bin/sh").args(["-c", "echo \"$USWAP_RUN$LD_PRELOAD\""]).output();
    let said = output.unwrap_or_else(|error| end_process(1, format_args!("FAIL {error}"))).stdout;
    check(said == b"\n", format_args!("it is invited: {}", String::from_utf8_lossy(&said)));
}

fn layout(bytes: usize) -> Layout {
    Layout::from_size_align(bytes, 8).expect("it is not too large")
}

/// More address space than RAM and swap file, of which little is used; and more than can be.
pub fn sparse(told: &Told) {
    const STEP: usize = 1 << 30;
    let pool = told.pool();
    let mut map = must(pool.map_anon(40 << 30));
    for start in (0..map.len()).step_by(STEP) {
        map[start + 5] = (start / STEP) as u8 + 1;
    }
    for start in (0..map.len()).step_by(STEP) {
        check(map[start + 5] == (start / STEP) as u8 + 1, format_args!("byte {start}"));
        check(map[start + STEP / 2] == 0, format_args!("what lies between is not zero"));
    }
    let error = pool.map_anon(200 << 30).err().map(|error| error.to_string()).unwrap_or_default();
    check(error.contains("128 GiB"), format_args!("too much is refused: {error}"));
    // Nor may anything grow into it, whose content is as it was.
    let (small, large) = (layout(1 << 20), layout(100 << 30));
    let block = pool.allocate(small).expect("there is room for it").cast::<u8>();
    // SAFETY:
    // 1. The block is of this layout, and its last byte is in it.
    unsafe {
        block.add(small.size() - 1).write(77);
        check(pool.grow(block, small, large).is_err(), format_args!("it grows to 100 GiB"));
        check(block.add(small.size() - 1).read() == 77, format_args!("the block is another"));
        pool.deallocate(block, small);
    }
    let used = must(pool.stats()).used_bytes;
    check(used < 160 << 20, format_args!("{used} bytes are used"));
    drop(map);
    let again = filled(&pool, told.bytes / 8, 8);
    verify(&again, 8);
}
