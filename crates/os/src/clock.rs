//! Time: the counter of the CPU and the monotonic clock of the kernel, without the vDSO that libc would use.
//!
//! Counts of [`ticks`] are cheap (about 20 ns) and go to [`TickRate`] to become nanoseconds; [`now_ns`] is a real system call.

use core::mem::MaybeUninit;

use crate::fd::Timeout;
use crate::sys::{self, Errno, abi};

/// The time stamp counter of this CPU.
///
/// On machines of this century it runs at a constant rate and is the same on all CPUs; not ordered against loads and stores around it.
#[inline]
pub fn ticks() -> u64 {
    // SAFETY:
    // 1. Every x86_64 CPU has the instruction; it touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Nanoseconds of the monotonic clock, by a system call.
pub fn now_ns() -> u64 {
    read_clock(abi::CLOCK_MONOTONIC)
}

/// Nanoseconds of processor time that the calling thread has used.
pub fn thread_cpu_ns() -> u64 {
    read_clock(abi::CLOCK_THREAD_CPUTIME_ID)
}

/// Nanoseconds of processor time that all threads of the process have used.
pub fn process_cpu_ns() -> u64 {
    read_clock(abi::CLOCK_PROCESS_CPUTIME_ID)
}

fn read_clock(clock: u32) -> u64 {
    let mut time = MaybeUninit::<abi::__kernel_timespec>::zeroed();
    // SAFETY:
    // 1. The kernel writes one timespec of two 64-bit numbers. A failure (there is none for these clocks) leaves zeros.
    // 2. Zeros are a valid value, so the value is initialised either way.
    let time = unsafe {
        let _ = sys::syscall3(abi::__NR_clock_gettime, clock as usize, time.as_mut_ptr() as usize, 0);
        time.assume_init()
    };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Sleeps that long, also across signals.
pub fn sleep_ns(nanoseconds: u64) {
    let end = now_ns().saturating_add(nanoseconds);
    loop {
        let left = end.saturating_sub(now_ns());
        if left == 0 {
            return;
        }
        match crate::fd::poll(&mut [], Timeout::Nanoseconds(left)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}

pub(crate) fn timespec(nanoseconds: u64) -> abi::__kernel_timespec {
    abi::__kernel_timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as i64,
        tv_nsec: (nanoseconds % 1_000_000_000) as i64,
    }
}

/// Nanoseconds a tick, as `multiplier / 2^32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TickRate {
    multiplier: u64,
}

/// A pair of readings of both clocks, taken close together.
#[derive(Debug, Clone, Copy)]
pub struct TickMark {
    ticks: u64,
    ns: u64,
}

impl TickMark {
    /// Reads both clocks: of three tries, the one with the shortest time between its two readings of the counter.
    pub fn now() -> TickMark {
        let mut best: Option<(u64, TickMark)> = None;
        for _ in 0..3 {
            let before = ticks();
            let ns = now_ns();
            let width = ticks().wrapping_sub(before);
            if best.is_none_or(|(width_best, _)| width < width_best) {
                best = Some((width, TickMark { ticks: before.wrapping_add(width / 2), ns }));
            }
        }
        best.map_or(TickMark { ticks: 0, ns: 0 }, |(_, mark)| mark)
    }

    /// The rate between this mark and a later one; better the longer between them. `None` when no time has passed.
    pub fn rate_until(self, later: TickMark) -> Option<TickRate> {
        let ticks = later.ticks.wrapping_sub(self.ticks);
        let ns = later.ns.checked_sub(self.ns)?;
        if ticks == 0 || ns == 0 {
            return None;
        }
        let multiplier = ((ns as u128) << 32) / ticks as u128;
        Some(TickRate { multiplier: multiplier.clamp(1, u64::MAX as u128) as u64 })
    }
}

impl TickRate {
    /// Measures the rate over about `ns` nanoseconds of sleep; a tick counts as 1 ns on a machine whose clocks stand still.
    pub fn calibrate(ns: u64) -> TickRate {
        let start = TickMark::now();
        sleep_ns(ns);
        start.rate_until(TickMark::now()).unwrap_or(TickRate { multiplier: 1 << 32 })
    }

    /// A rate stored by [`TickRate::multiplier`], for a process that shares it.
    pub const fn from_multiplier(multiplier: u64) -> TickRate {
        TickRate { multiplier }
    }

    /// Nanoseconds of 2^32 ticks.
    pub const fn multiplier(self) -> u64 {
        self.multiplier
    }

    /// Ticks as nanoseconds.
    #[inline]
    pub const fn to_ns(self, ticks: u64) -> u64 {
        ((ticks as u128 * self.multiplier as u128) >> 32) as u64
    }

    /// Nanoseconds as ticks.
    pub const fn to_ticks(self, ns: u64) -> u64 {
        (((ns as u128) << 32) / self.multiplier as u128) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_nanoseconds_within_two_percent() {
        let rate = TickRate::calibrate(20_000_000);
        let (start, start_ns) = (ticks(), now_ns());
        sleep_ns(30_000_000);
        let (measured, real) = (rate.to_ns(ticks() - start), now_ns() - start_ns);
        assert!(real >= 30_000_000);
        assert!(measured.abs_diff(real) < real / 50, "{measured} against {real}");
        assert!(rate.to_ns(rate.to_ticks(1_000_000)).abs_diff(1_000_000) < 10);
    }
}
