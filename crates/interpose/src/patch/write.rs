//! Replaces instructions while other threads may run them.
//!
//! A processor that fetches an instruction while it is written must see the old one or the new one. A store of
//! eight aligned bytes is seen at once (AMD's manual says so for modified code; other makers' processors do so,
//! and JIT compilers have relied on it for decades). What does not fit into eight aligned bytes goes by steps, as
//! kernels change their own text: first its first byte becomes an instruction that only a kernel may run, and whose
//! SIGSEGV sends a thread to the trampoline; then the tail; then the first byte. `membarrier` between the steps makes
//! every running thread forget what it has fetched.
//!
//! Must hold: a thread that runs the site meets the old instruction, the interim one or the new one, at every moment,
//! and each leads to one call. What cannot be finished is left as something that works. Called by [`crate::patch`], and
//! by [`crate::delivery`] for a thread that met an interim instruction.

use core::sync::atomic::{AtomicUsize, Ordering};

use uswap_os::sys::{self, abi};

use super::memory::{self, Process, Threads};
use super::trampoline;
use crate::sites::{Memory, SYSCALL_BYTES};

const WORD_BYTES: usize = 8;
const SHORT_JUMP: u8 = 0xEB;
/// One byte, and not for programs.
const HLT: u8 = 0xF4;

/// Sites that were ever patched by steps.
const INTERIM_MAX: usize = 512;

/// Where an instruction was replaced by steps, and where a thread goes on that met the interim one. They stay: a thread
/// may have met it just before it went, and its signal comes later.
static INTERIM: [[AtomicUsize; 2]; INTERIM_MAX] = [const { [const { AtomicUsize::new(0) }; 2] }; INTERIM_MAX];
static INTERIM_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Registers for `membarrier`. While there is one thread: later it takes milliseconds.
pub(super) fn prepare() {
    const REGISTER: u32 = abi::membarrier_cmd::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE as u32;
    membarrier(REGISTER);
}

/// Where a thread goes on that has met an interim instruction at `place`.
#[cold]
pub(crate) fn interim(place: usize) -> Option<usize> {
    // Acquire pairs with the release in `by_steps`.
    let count = INTERIM_COUNT.load(Ordering::Acquire);
    // The newest: another library may lie there by now.
    let found = INTERIM[..count].iter().rev().find(|entry| entry[0].load(Ordering::Relaxed) == place)?;
    Some(found[1].load(Ordering::Relaxed))
}

/// The instruction at `at` becomes a jump to `target`.
pub(super) fn ahead(memory: &Process, at: usize, target: usize) -> bool {
    let Some(jump) = trampoline::jump(at, target) else { return false };
    match memory.threads() {
        Threads::This => memory.write(at, &jump),
        Threads::Others => replace(memory, at, &jump, target),
    }
}

/// Padding that nobody runs becomes a jump to `target`.
pub(super) fn pad(memory: &Process, pad: usize, target: usize) -> bool {
    trampoline::jump(pad, target).is_some_and(|jump| memory.write(pad, &jump))
}

/// The `syscall` at `site` becomes a short jump to `pad`, which is written already.
pub(super) fn short(memory: &Process, site: usize, pad: usize) -> bool {
    let distance = pad as i64 - (site + SYSCALL_BYTES) as i64;
    let Ok(distance) = i8::try_from(distance) else { return false };
    let jump = [SHORT_JUMP, distance as u8];
    if memory.threads() == Threads::This {
        return memory.write(site, &jump);
    }
    // Every thread has to see the padding before it can see the jump.
    synchronize() && replace(memory, site, &jump, pad)
}

/// The instruction at `at`, which is at least as long, becomes a jump to `target`.
fn replace(memory: &Process, at: usize, jump: &[u8], target: usize) -> bool {
    match at % WORD_BYTES + jump.len() <= WORD_BYTES {
        true => replace_at_once(memory, at, jump) && synchronize(),
        false => by_steps(memory, at, jump, target),
    }
}

fn by_steps(memory: &Process, at: usize, jump: &[u8], target: usize) -> bool {
    let index = INTERIM_COUNT.load(Ordering::Relaxed);
    if index == INTERIM_MAX {
        return false;
    }
    INTERIM[index][0].store(at, Ordering::Relaxed);
    INTERIM[index][1].store(target, Ordering::Relaxed);
    // Release pairs with the Acquire of `interim`.
    INTERIM_COUNT.store(index + 1, Ordering::Release);
    if !replace_at_once(memory, at, &[HLT]) {
        return false;
    }
    let (first, tail) = jump.split_at(1);
    // From here on the site works whatever fails: as an instruction whose signal is sent to the trampoline.
    synchronize()
        && memory.write(at + first.len(), tail)
        && synchronize()
        && replace_at_once(memory, at, first)
        && synchronize()
}

/// Replaces bytes inside of eight aligned ones.
fn replace_at_once(memory: &Process, at: usize, bytes: &[u8]) -> bool {
    let start = at - at % WORD_BYTES;
    let mut word = [0; WORD_BYTES];
    if memory.read(start, &mut word) < WORD_BYTES {
        return false;
    }
    word[at - start..at - start + bytes.len()].copy_from_slice(bytes);
    memory::store_at_once(start, u64::from_le_bytes(word))
}

/// Every thread of the process that runs forgets what it has fetched.
fn synchronize() -> bool {
    const SYNCHRONIZE: u32 = abi::membarrier_cmd::MEMBARRIER_CMD_PRIVATE_EXPEDITED_SYNC_CORE as u32;
    membarrier(SYNCHRONIZE)
}

fn membarrier(command: u32) -> bool {
    // SAFETY:
    // 1. The call takes numbers.
    unsafe { sys::syscall3(abi::__NR_membarrier, command as usize, 0, 0) }.is_ok()
}
