//! Modes about threads.

use crate::support::{Case, Filled, fail};
use core::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Barrier};

/// A thousand short threads under memory pressure, up to 25 at once, each with memory of its own.
pub fn thousand(case: &Case) {
    let filled = Filled::new(case.bytes, case.seed, 1);
    let done = Arc::new(AtomicUsize::new(0));
    for round in 0..40usize {
        let threads: Vec<_> = (0..25usize)
            .map(|number| {
                let done = Arc::clone(&done);
                std::thread::spawn(move || {
                    let own = Filled::new(256 << 10, case_seed(round, number), 7);
                    let mut on_stack = [0u8; 40_000];
                    on_stack.fill(number as u8);
                    let first = (round * 25 + number) * filled.pages / 1000;
                    let mut found = [0; 4096];
                    for index in first..(first + 32).min(filled.pages) {
                        uswap_test_programs::memory::copy_page_out(filled.page(index), &mut found);
                        filled.compare("short thread", index, &found);
                    }
                    own.verify("own memory of a short thread");
                    if std::hint::black_box(&on_stack).iter().any(|&byte| byte != number as u8) {
                        fail!("the stack of a short thread is wrong");
                    }
                    let _ = uswap_test_programs::memory::unmap(own.address, own.pages * 4096);
                    done.fetch_add(1, SeqCst);
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap_or_else(|_| fail!("a thread panicked"));
        }
    }
    if done.load(SeqCst) != 1000 {
        fail!("{} threads of 1000 came to their end", done.load(SeqCst));
    }
    filled.verify("after a thousand threads");
}

fn case_seed(round: usize, number: usize) -> u64 {
    (round * 1000 + number) as u64
}

/// Eight threads touch the same cold pages at the same moment, in the same order.
pub fn share_pages(case: &Case) {
    let filled = Filled::new(case.bytes, case.seed, 1);
    let barrier = Arc::new(Barrier::new(8));
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let barrier = Arc::clone(&barrier);
            std::thread::spawn(move || {
                let mut found = [0; 4096];
                for index in (0..filled.pages).step_by(16) {
                    barrier.wait();
                    uswap_test_programs::memory::copy_page_out(filled.page(index), &mut found);
                    filled.compare("one of eight threads", index, &found);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap_or_else(|_| fail!("a thread panicked"));
    }
    filled.verify("after eight threads");
}
