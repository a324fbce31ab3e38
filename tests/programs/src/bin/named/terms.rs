//! Who may have a pool, and with which budget.

use uswap::{Advice, Error, Limit, Pool};

use crate::{Told, advice, check, filled, must, verify};

#[track_caller]
fn must_fail<T>(answer: Result<T, Error>, says: &str) {
    match answer {
        Ok(_) => check(false, format_args!("there is an answer, and not '{says}'")),
        Err(error) => check(error.to_string().contains(says), format_args!("'{error}' and not '{says}'")),
    }
}

/// A process has one budget, which the first pool sets.
pub fn terms(told: &Told) {
    let nothing = || Pool::builder().build();
    must_fail(nothing(), "a pool needs a budget");
    must_fail(uswap::stats(), "has not asked for a budget");
    must_fail(Pool::builder().ram("7 apples").build(), "7 apples");
    must_fail(told.builder().dir("/no/such/directory").build(), "/no/such/directory");
    must_fail(told.builder().command("/no/such/command").build(), "/no/such/command");
    let mut outside = vec![1_u64; 1 << 16];
    must_fail(uswap::advise(&mut outside, Advice::Pin), "has not asked for a budget");
    let map = filled(&told.pool(), told.bytes / 8, 1);
    for again in [must(nothing()), told.pool()] {
        let other = filled(&again, told.bytes / 32, 2);
        verify(&other, 2);
    }
    must_fail(Pool::builder().ram("1G").build(), "has a budget already");
    must_fail(uswap::limit(&told.ram), "has a budget already");
    check(uswap::is_limited(), format_args!("it is not limited"));
    must(uswap::release());
    verify(&map, 1);
    must_fail(nothing(), "had a budget before");
    must_fail(uswap::release(), "has not asked for a budget");
}

/// What is sent away goes, though memory was never short.
pub fn roomy(told: &Told) {
    let mut old: Vec<u64> = (0..told.ram_bytes / 32).map(|index| crate::known(1, index)).collect();
    must(Limit::new(&told.ram).hold());
    must(uswap::advise(&mut old, Advice::PageOut));
    let (stays, pages) = (advice::present(&old), size_of_val(&old[..]) / 4096);
    check(stays < pages / 4, format_args!("{stays} of {pages} pages stay"));
    verify(&old, 1);
}

/// Where everything has a budget a pool is part of that, and memory that is not of it, too.
pub fn limited(told: &Told) {
    let mut old: Vec<u64> = (0..told.bytes / 16).map(|index| crate::known(1, index)).collect();
    must(Limit::new(&told.ram).hold());
    must_fail(told.builder().build(), "has a budget already");
    let pool = must(Pool::builder().build());
    let map = filled(&pool, told.bytes / 16, 2);
    must(uswap::advise(&mut old, Advice::PageOut));
    verify(&old, 1);
    verify(&map, 2);
    let resident = crate::content::resident_bytes();
    check(resident < told.ram_bytes + (4 << 20), format_args!("{resident} bytes in RAM"));
}

/// The same in a process that was started in a run.
pub fn in_a_run(told: &Told) {
    must_fail(told.builder().build(), "was started inside of a run");
    let pool = must(Pool::builder().build());
    // Nothing of the process is seen yet.
    let mut early = vec![7_u64; 1 << 14];
    must(uswap::advise(&mut early, Advice::Pin));
    let mut map = filled(&pool, told.bytes / 8, 3);
    must(uswap::advise(&mut early, Advice::PageOut));
    let kept = advice::present(&early);
    check(kept > size_of_val(&early[..]) / 4096 - 2, format_args!("only {kept} pages stayed"));
    must(uswap::advise(&mut early, Advice::Unpin));
    must(map.advise_range(Advice::Pin, ..1000));
    must(map.advise_range(Advice::Cold, 1000..));
    verify(&map, 3);
    must(map.advise_range(Advice::Unpin, ..1000));
    check(must(pool.stats()).ram_bytes as usize == told.ram_bytes, format_args!("another budget"));
    check(!uswap::is_limited(), format_args!("it has asked for nothing"));
}
