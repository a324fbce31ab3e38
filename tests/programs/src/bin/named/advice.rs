//! Advice about memory of a pool, and of a process with a budget.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};

use uswap::Advice;

use crate::{Told, advise, check, filled, must, verify};

/// How many pages of memory are in RAM.
pub fn present(memory: &[u64]) -> usize {
    const PRESENT: u64 = 1 << 63;
    let file = File::open("/proc/self/pagemap").expect("/proc is mounted");
    let pages = size_of_val(memory) / 4096;
    let mut words = vec![0; pages * 8];
    let at = memory.as_ptr() as u64 / 4096 * 8;
    file.read_exact_at(&mut words, at).expect("the map of this process can be read");
    words
        .chunks_exact(8)
        .filter(|word| u64::from_le_bytes((*word).try_into().expect("it is 8 bytes")) & PRESENT != 0)
        .count()
}

fn pages(memory: &[u64]) -> usize {
    size_of_val(memory) / 4096
}

/// What is sent away is gone from RAM at once, though there is room, and as it was when it is used again.
pub fn pageout(told: &Told) {
    let pool = told.pool();
    let mut map = filled(&pool, told.ram_bytes / 8 / 2, 1);
    check(present(&map) > pages(&map) * 9 / 10, format_args!("{} pages fit", present(&map)));
    let quarter = map.len() / 4;
    must(map.advise_range(Advice::PageOut, ..quarter));
    check(present(&map[..quarter]) < pages(&map) / 40, format_args!("{} stay", present(&map[..quarter])));
    let others = present(&map[quarter..]);
    check(others > pages(&map) * 2 / 3, format_args!("of the others {others} stay"));
    verify(&map, 1);
    advise(&mut map, Advice::PageOut);
    check(present(&map) < pages(&map) / 10, format_args!("{} of {} stay", present(&map), pages(&map)));
    must(map.advise_range(Advice::WillNeed, quarter..quarter * 2));
    let brought = present(&map[quarter..quarter * 2]);
    check(brought > pages(&map) / 5, format_args!("{brought} were brought"));
    verify(&map, 1);
    must(map.advise_range(Advice::Dead, ..quarter));
    check(map[..quarter].iter().all(|value| *value == 0), format_args!("the dead are zeros"));
    map[..quarter].iter_mut().enumerate().for_each(|(index, value)| *value = crate::known(1, index));
    verify(&map, 1);
}

/// Of two tables the one goes that is cold, when a third comes.
pub fn cold(told: &Told) {
    let pool = told.pool();
    let count = told.ram_bytes / 8 / 4;
    let (mut first, second) = (filled(&pool, count, 1), filled(&pool, count, 2));
    check(present(&first) + present(&second) > pages(&first) * 9 / 5, format_args!("both fit"));
    advise(&mut first, Advice::Cold);
    let third = filled(&pool, count * 2, 3);
    let (gone, stays) = (present(&first), present(&second));
    check(gone < stays, format_args!("of the cold one {gone} pages are in RAM, of the other {stays}"));
    for (map, seed) in [(&first, 1), (&second, 2), (&third, 3)] {
        verify(map, seed);
    }
}

/// What is pinned stays, whatever comes, until it is not any more.
pub fn pin(told: &Told) {
    let pool = told.pool();
    let mut kept = filled(&pool, told.ram_bytes / 8 / 4, 1);
    advise(&mut kept, Advice::PageOut);
    advise(&mut kept, Advice::Pin);
    check(present(&kept) == pages(&kept), format_args!("only {} were brought", present(&kept)));
    let others = filled(&pool, told.bytes / 8, 2);
    verify(&others, 2);
    advise(&mut kept, Advice::PageOut);
    check(present(&kept) == pages(&kept), format_args!("only {} stayed", present(&kept)));
    advise(&mut kept, Advice::Unpin);
    advise(&mut kept, Advice::PageOut);
    check(present(&kept) < pages(&kept) / 10, format_args!("{} stay that may go", present(&kept)));
    verify(&kept, 1);
    verify(&others, 2);
}

/// Threads use a table while others advise about it.
pub fn advised(told: &Told) {
    let pool = told.pool();
    let map = filled(&pool, told.bytes / 8, 9);
    let until = Instant::now() + Duration::from_secs(told.seconds);
    let (start, count) = (map.as_ptr() as usize, map.len());
    std::thread::scope(|scope| {
        for number in 0..2 {
            scope.spawn(move || {
                let advice = [Advice::Cold, Advice::PageOut, Advice::WillNeed, Advice::Pin, Advice::Unpin];
                for round in number.. {
                    if Instant::now() >= until {
                        break;
                    }
                    let part = count / 64;
                    let at = round * 7919 % 63 * part;
                    // SAFETY:
                    // 1. The memory is of the table, which lives longer; this advice changes nothing of it, and what
                    //    the slice is given to neither reads nor writes it.
                    let memory = unsafe { std::slice::from_raw_parts_mut((start as *mut u64).add(at), part) };
                    let advice = advice[round % advice.len()];
                    must(uswap::advise(memory, advice));
                    if advice == Advice::Pin {
                        must(uswap::advise(memory, Advice::Unpin));
                    }
                }
            });
        }
        scope.spawn(|| {
            while Instant::now() < until {
                verify(&map, 9);
            }
        });
    });
    verify(&map, 9);
}
