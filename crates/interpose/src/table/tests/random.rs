//! Any arguments over any memory: a walk ends, and names only ranges that are in the address space.

use super::support::call;
use crate::table::{ADDRESS_END, Memory, Unreadable, for_each_range, rows};
use std::vec::Vec;
use uswap_units::Prng;
use uswap_units::seeds::try_seeds;

/// Memory whose bytes follow from their address, where some pages are evicted and some are none.
struct Noise(u64);

impl Memory for Noise {
    fn read(&self, start: u64, into: &mut [u8]) -> Result<(), Unreadable> {
        assert!(start.checked_add(into.len() as u64).is_some_and(|end| end <= ADDRESS_END), "{start:#x}");
        let mut prng = Prng::new(start ^ self.0);
        match prng.below(24) {
            0 => return Err(Unreadable::Evicted),
            1 => return Err(Unreadable::Bad),
            _ => {}
        }
        let is_small = prng.chance(1, 2);
        for word in into.chunks_mut(8) {
            let value = if is_small { prng.below(5000) } else { prng.next_u64() >> prng.below(64) };
            word.copy_from_slice(&value.to_ne_bytes()[..word.len()]);
        }
        Ok(())
    }
}

fn run(seed: u64) {
    let (mut prng, memory) = (Prng::new(seed), Noise(seed));
    for row in rows() {
        let mut arguments = [0; 6];
        for argument in &mut arguments {
            *argument = match prng.below(4) {
                0 => prng.below(40),
                1 => prng.next_u64(),
                2 => u64::MAX - prng.below(5000),
                _ => prng.next_u64() >> 18,
            };
        }
        let call = call(i64::from(row.number()), arguments);
        let mut count = 0_u64;
        let _ = for_each_range(row, &call, &memory, &mut |range| {
            count += 1;
            assert!(range.start > 0 && range.bytes > 0, "{}: {range:?}, seed {seed}", row.name());
            let is_inside = range.start.checked_add(range.bytes).is_some_and(|end| end <= ADDRESS_END);
            assert!(is_inside, "{}: {range:?}, seed {seed}", row.name());
        });
        assert!(count < 1 << 21, "{}: {count} ranges, seed {seed}", row.name());
    }
}

#[test]
fn a_walk_of_anything_ends_inside_the_address_space() {
    try_seeds(300, run);
}

/// Every command of the calls that go by one.
#[test]
fn a_walk_of_every_command_ends() {
    let commands: Vec<u64> =
        (0..0x300).chain([0x8912, 0x8946, 0x8b01, 0xc020_660b, 0xc018_9436, 0x2285]).collect();
    let mut named = 0;
    for number in [
        libc::SYS_ioctl,
        libc::SYS_fcntl,
        libc::SYS_prctl,
        libc::SYS_futex,
        libc::SYS_bpf,
        libc::SYS_keyctl,
        libc::SYS_ptrace,
        libc::SYS_semctl,
        libc::SYS_io_uring_register,
        libc::SYS_quotactl,
    ] {
        for command in &commands {
            let call = call(number, [*command, *command, 0x1000, 0x2000, 0x3000, 0x4000]);
            let row = crate::table::row(call.number).expect("a row");
            let _ = for_each_range(row, &call, &Noise(7), &mut |_| named += 1);
        }
    }
    assert!(named > 500, "{named} ranges");
}
