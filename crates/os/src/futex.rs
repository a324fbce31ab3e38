//! Waiting on a word until another thread changes it.
//!
//! Called by [`crate::gate`], [`crate::memory`] and [`crate::thread`], by `host` for the queues of page words, by
//! `interpose` while it takes threads in, and by the supervisor. Must hold: a wake-up may come for no reason, so
//! callers look at the word again.

use core::sync::atomic::{AtomicU32, AtomicU64};

use crate::fd::Timeout;
use crate::sys::{self, Errno, Result, abi};

/// Who can be on the other side of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// Threads of this process only: cheaper.
    Private,
    /// Any process that maps the word.
    Shared,
}

/// Why a wait came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WaitOutcome {
    /// Woken, or interrupted: look again.
    Woken,
    /// The word had another value already.
    Changed,
    /// The time is over.
    TimedOut,
}

/// All waiters, whatever set they wait in.
pub const SET_ANY: u32 = u32::MAX;

/// Waits while `word` is `expected`, at most `timeout`.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Timeout, scope: Scope) -> WaitOutcome {
    wait_address(word.as_ptr() as usize, expected, timeout, scope, SET_ANY)
}

/// Wakes up to `count` waiters of `word`; answers how many.
pub fn wake(word: &AtomicU32, count: u32, scope: Scope) -> usize {
    wake_address(word.as_ptr() as usize, count, scope, SET_ANY)
}

/// [`wait`] that is woken only by a wake with a common bit in `set`.
pub fn wait_set(word: &AtomicU32, expected: u32, timeout: Timeout, scope: Scope, set: u32) -> WaitOutcome {
    wait_address(word.as_ptr() as usize, expected, timeout, scope, set)
}

/// [`wake`] of waiters with a common bit in `set` only.
pub fn wake_set(word: &AtomicU32, count: u32, scope: Scope, set: u32) -> usize {
    wake_address(word.as_ptr() as usize, count, scope, set)
}

/// [`wait`] on the low half of a 64-bit word: waits while the low 32 bits are `expected`.
pub fn wait_low(word: &AtomicU64, expected: u32, timeout: Timeout, scope: Scope) -> WaitOutcome {
    wait_address(low_half(word), expected, timeout, scope, SET_ANY)
}

/// [`wake`] of waiters of [`wait_low`].
pub fn wake_low(word: &AtomicU64, count: u32, scope: Scope) -> usize {
    wake_address(low_half(word), count, scope, SET_ANY)
}

/// The machine is little endian: the low half lies at the word's own address.
fn low_half(word: &AtomicU64) -> usize {
    const { assert!(cfg!(target_endian = "little")) };
    word.as_ptr() as usize
}

/// Has the kernel write a word of this process as it is (FUTEX_WAKE_OP with an *or* of nothing), which makes its page
/// present and writable. EFAULT, and no signal, where that is not possible. A thread that waits on the word may be
/// woken for no reason.
pub(crate) fn write_unchanged(address: usize) -> Result<()> {
    static NOBODY_WAITS: AtomicU32 = AtomicU32::new(0);
    // The operation in bits 28 to 30, the comparison in 24 to 27; both operands are 0.
    const OR: usize = 2 << 28;
    const LESS: usize = 2 << 24;
    let operation = operation(abi::FUTEX_WAKE_OP, Scope::Private);
    // SAFETY:
    // 1. The kernel reads and writes four bytes at `address` in one step, and the value is the same.
    // 2. The other word is a static.
    unsafe {
        sys::syscall6(
            abi::__NR_futex,
            NOBODY_WAITS.as_ptr() as usize,
            operation,
            0,
            0,
            address & !3,
            OR | LESS,
        )
    }
    .map(drop)
}

fn operation(base: u32, scope: Scope) -> usize {
    let private = match scope {
        Scope::Private => abi::FUTEX_PRIVATE_FLAG,
        Scope::Shared => 0,
    };
    (base | private) as usize
}

fn wait_address(address: usize, expected: u32, timeout: Timeout, scope: Scope, set: u32) -> WaitOutcome {
    // FUTEX_WAIT_BITSET takes the end of the wait on the monotonic clock.
    let mut end = abi::__kernel_timespec { tv_sec: 0, tv_nsec: 0 };
    let end_address = match timeout {
        Timeout::Forever => 0,
        Timeout::Never => &raw mut end as usize,
        Timeout::Nanoseconds(nanoseconds) => {
            end = sys::timespec(crate::clock::now_ns().saturating_add(nanoseconds));
            &raw mut end as usize
        }
    };
    let operation = operation(abi::FUTEX_WAIT_BITSET, scope);
    // SAFETY:
    // 1. `address` is the address of a live atomic word (the public functions take a reference); the kernel only reads
    //    it.
    // 2. `end_address` is null or the address of `end`, which lives until the call returns.
    let answer = unsafe {
        sys::syscall6(abi::__NR_futex, address, operation, expected as usize, end_address, 0, set as usize)
    };
    match answer {
        Err(Errno::EAGAIN) => WaitOutcome::Changed,
        Err(Errno::ETIMEDOUT) => WaitOutcome::TimedOut,
        _ => WaitOutcome::Woken,
    }
}

fn wake_address(address: usize, count: u32, scope: Scope, set: u32) -> usize {
    let operation = operation(abi::FUTEX_WAKE_BITSET, scope);
    let count = count.min(i32::MAX as u32) as usize;
    // SAFETY:
    // 1. The call uses the address only as a name; nothing is read or written there.
    unsafe { sys::syscall6(abi::__NR_futex, address, operation, count, 0, 0, set as usize) }.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::Ordering;

    #[test]
    fn a_wait_ends_by_time_by_value_or_by_a_wake() {
        let word = AtomicU32::new(1);
        assert_eq!(wait(&word, 0, Timeout::Forever, Scope::Private), WaitOutcome::Changed);
        assert_eq!(wait(&word, 1, Timeout::Nanoseconds(1_000_000), Scope::Shared), WaitOutcome::TimedOut);
        assert_eq!(wait(&word, 1, Timeout::Never, Scope::Private), WaitOutcome::TimedOut);
        let wide = AtomicU64::new(0xdead_0000_0007);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while wide.load(Ordering::Acquire) as u32 == 7 {
                    wait_low(&wide, 7, Timeout::Forever, Scope::Shared);
                }
            });
            while wake_low(&wide, 1, Scope::Shared) == 0 {
                std::thread::yield_now();
            }
            wide.store(8, Ordering::Release);
            wake_low(&wide, u32::MAX, Scope::Shared);
        });
        assert_eq!(wait_low(&wide, 7, Timeout::Forever, Scope::Shared), WaitOutcome::Changed);
    }

    #[test]
    fn a_word_that_is_written_unchanged_is_present_and_as_it_was() {
        use crate::memory::{Access, Mapping, protect};
        let page = crate::PAGE_BYTES;
        let area = Mapping::anonymous(3 * page, page, Access::ReadWrite).expect("there is room");
        crate::memory::no_huge_pages(area.start(), area.bytes()).expect("it is mapped");
        // SAFETY:
        // 1. The mapping is this test's, and no reference into it exists.
        unsafe {
            area.as_ptr().write(77);
            protect(area.start() + 2 * page, page, Access::Read).expect("it is mapped");
        }
        let pages = crate::pagemap::Pagemap::open().expect("/proc is mounted");
        assert_eq!(pages.present(area.start(), 3).map(|bits| bits[0]), Ok(0b001));
        for index in 0..2 {
            assert_eq!(write_unchanged(area.start() + index * page), Ok(()));
        }
        assert_eq!(pages.present(area.start(), 3).map(|bits| bits[0]), Ok(0b011));
        // SAFETY:
        // 1. The mapping is this test's, its first page may be read, and no reference into it exists.
        assert_eq!(unsafe { area.as_ptr().read() }, 77);
        assert_eq!(write_unchanged(area.start() + 2 * page), Err(Errno::EFAULT));
    }
}
