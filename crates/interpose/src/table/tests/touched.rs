//! The real kernel touches what the table says, and nothing else.
//!
//! Each case puts every structure of one call into a region of its own. The call is made in a child once as it is,
//! and once for each region with that region inaccessible, and then read-only: it answers EFAULT, or less, exactly
//! if the table says that the kernel touches, or writes, the region. All of it also as a user without privileges.

use super::support::{EFAULT, call, in_child, make, ranges_in};
use super::touched_cases::{Case, cases};
use crate::table::row;
use std::format;
use std::string::String;
use std::vec::Vec;

/// Regions of a case, a mapping each.
pub struct Arena {
    base: u64,
    used: u64,
}

const REGIONS_MAX: u64 = 12;
const REGION_BYTES: u64 = 1 << 17;

impl Arena {
    fn new() -> Arena {
        let protection = (libc::PROT_READ | libc::PROT_WRITE) as u64;
        let flags = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
        let bytes = REGIONS_MAX * REGION_BYTES;
        let base = make(libc::SYS_mmap, [0, bytes, protection, flags, u64::MAX, 0]);
        assert!(base > 0, "no memory for a case");
        Arena { base: base as u64, used: 0 }
    }

    /// A region of zeros.
    pub fn room(&mut self) -> u64 {
        assert!(self.used < REGIONS_MAX, "a case has {REGIONS_MAX} regions");
        self.used += 1;
        self.region(self.used - 1)
    }

    /// A region that begins with these bytes.
    pub fn put(&mut self, bytes: &[u8]) -> u64 {
        let start = self.room();
        for (index, byte) in bytes.iter().enumerate() {
            // SAFETY:
            // 1. `start` is a region of this arena, which is longer than what any case puts there.
            unsafe { ((start + index as u64) as *mut u8).write(*byte) };
        }
        start
    }

    pub fn text(&mut self, text: &str) -> u64 {
        self.put(text.as_bytes())
    }

    pub fn words(&mut self, words: &[u64]) -> u64 {
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
        self.put(&bytes)
    }

    /// 32 bits each.
    pub fn halves(&mut self, halves: &[u32]) -> u64 {
        let bytes: Vec<u8> = halves.iter().flat_map(|half| half.to_ne_bytes()).collect();
        self.put(&bytes)
    }

    fn region(&self, index: u64) -> u64 {
        self.base + index * REGION_BYTES
    }

    fn protect(&self, index: u64, protection: i32) {
        let answer = make(libc::SYS_mprotect, [self.region(index), REGION_BYTES, protection as u64]);
        assert_eq!(answer, 0);
    }
}

/// What one child saw.
#[derive(Clone, Copy, Debug)]
struct Seen {
    answer: i64,
    regions: u64,
    is_touched: bool,
    is_written: bool,
}

/// Makes the call of a case in a child, with one region protected.
fn try_case(case: &Case, is_nobody: bool, protected: Option<(u64, i32)>) -> Option<Seen> {
    let word = in_child(|| {
        // Queues and sets of semaphores outlive a process; this way they end with it.
        let _ = private_queues();
        if is_nobody {
            make(libc::SYS_setresuid, [NOBODY, NOBODY, NOBODY]);
        }
        let mut arena = Arena::new();
        let (number, arguments) = (case.prepare)(&mut arena);
        let (mut is_touched, mut is_written) = (false, false);
        if let Some((region, protection)) = protected {
            let (start, end) = (arena.region(region), arena.region(region + 1));
            for range in ranges_in(&call(number, arguments)) {
                let is_there = range.start < end && range.end() > start;
                is_touched |= is_there;
                is_written |= is_there && range.access.writes();
            }
            arena.protect(region, protection);
        }
        let answer = super::support::raw(number, arguments).clamp(-4095, i64::from(i32::MAX));
        (answer as i32 as u32 as i64)
            | (arena.used as i64) << 32
            | i64::from(is_touched) << 40
            | i64::from(is_written) << 41
            | 1 << 42
    })?;
    (word >> 42 == 1).then_some(Seen {
        answer: i64::from(word as i32),
        regions: word as u64 >> 32 & 0xff,
        is_touched: word >> 40 & 1 == 1,
        is_written: word >> 41 & 1 == 1,
    })
}

const NOBODY: u64 = 65534;

/// What is wrong with a case, if anything; and how many calls were compared.
fn judge(case: &Case, is_nobody: bool) -> (Vec<String>, usize) {
    let mut wrong = Vec::new();
    let Some(plain) = try_case(case, is_nobody, None) else {
        return (std::vec![format!("{}: the child was killed", case.name)], 0);
    };
    if plain.answer == EFAULT {
        return (std::vec![format!("{}: EFAULT though all is there", case.name)], 0);
    }
    let unsupported = [libc::ENOSYS, libc::EBADF, libc::EPERM, libc::EACCES, libc::EOPNOTSUPP]
        .map(|error| -i64::from(error));
    if unsupported.contains(&plain.answer) {
        return (wrong, 0);
    }
    let mut compared = 0;
    for region in 0..plain.regions {
        for protection in [libc::PROT_NONE, libc::PROT_READ] {
            let Some(seen) = try_case(case, is_nobody, Some((region, protection))) else {
                wrong.push(format!("{}: killed with region {region} protected", case.name));
                continue;
            };
            let is_lax = protection == libc::PROT_READ && case.lax.contains(&region);
            if case.quiet.contains(&region) || is_lax {
                continue;
            }
            let is_short = seen.answer >= 0 && seen.answer < plain.answer && case.row_is_short;
            let is_fault = seen.answer == EFAULT || is_short;
            let expected = if protection == libc::PROT_NONE { seen.is_touched } else { seen.is_written };
            compared += 1;
            if is_fault != expected {
                let way = if protection == libc::PROT_NONE { "inaccessible" } else { "read-only" };
                let answer = seen.answer;
                wrong.push(format!(
                    "{}: region {region} {way}: answers {answer} ({} at first), table says touched {}, written {}",
                    case.name, plain.answer, seen.is_touched, seen.is_written
                ));
            }
        }
    }
    (wrong, compared)
}

/// System V objects of this process alone.
pub fn private_queues() -> i64 {
    let alone = make(libc::SYS_unshare, [libc::CLONE_NEWIPC as u64]);
    if alone == 0 { 0 } else { make(libc::SYS_unshare, [(libc::CLONE_NEWUSER | libc::CLONE_NEWIPC) as u64]) }
}

const SYSTEM_V: [i64; 10] = [
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_msgget,
    libc::SYS_shmctl,
    libc::SYS_shmget,
    libc::SYS_semctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
];

fn judge_all(is_nobody: bool) -> usize {
    let (mut wrong, mut compared, mut left_out) = (Vec::new(), 0, Vec::new());
    let has_private_queues = in_child(private_queues) == Some(0);
    for mut case in cases() {
        let number = case.number();
        if !has_private_queues && SYSTEM_V.contains(&number) {
            left_out.push(case.name);
            continue;
        }
        case.row_is_short =
            row(number as usize).unwrap_or_else(|| panic!("{}: no row of {number}", case.name)).is_short();
        let (found, count) = judge(&case, is_nobody);
        wrong.extend(found);
        compared += count;
        if count == 0 {
            left_out.push(case.name);
        }
    }
    std::eprintln!("{compared} calls compared; this kernel or user has not: {left_out:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    compared
}

#[test]
fn the_kernel_touches_what_the_table_says() {
    let compared = judge_all(false);
    assert!(compared > 300, "only {compared} calls were compared");
}

#[test]
fn the_kernel_touches_what_the_table_says_for_nobody() {
    let compared = judge_all(true);
    assert!(compared > 300, "only {compared} calls were compared");
}

/// The number of a case's call, learnt in a child, because preparing it has effects.
impl Case {
    fn number(&self) -> i64 {
        let prepared = in_child(|| {
            let _ = private_queues();
            (self.prepare)(&mut Arena::new()).0
        });
        prepared.unwrap_or_else(|| panic!("{}: cannot be prepared", self.name))
    }
}
