//! Replaces instructions while other threads may run them.
//!
//! A processor that fetches an instruction while it is written must see the old one or the new one. A store of
//! eight aligned bytes is seen at once (AMD's manual says so for modified code; other makers' processors do so,
//! and JIT compilers have relied on it for decades). What does not fit into eight aligned bytes goes by steps: first
//! its first two bytes become a `syscall`, which dispatch takes for the whole site; then the tail; then the
//! head. `membarrier` between the steps makes every running thread forget what it has fetched.

use core::sync::atomic::{AtomicUsize, Ordering};

use uswap_os::sys::{self, abi};

use super::memory::{self, Process};
use super::trampoline;
use crate::sites::{JUMP_BYTES, Memory, SYSCALL_BYTES};

const WORD_BYTES: usize = 8;
const SYSCALL: [u8; SYSCALL_BYTES] = [0x0F, 0x05];
const SHORT_JUMP: u8 = 0xEB;

/// The first byte of `mov $imm,%eax`.
const MOVE_TO_EAX: u8 = 0xB8;
/// Sites that were ever patched by steps.
const INTERIM_MAX: usize = 64;

/// Behind the `syscall` that stood for a site while it was patched, and the site's trampoline. They stay: a
/// thread may have run that `syscall` just before it went, and its signal comes later.
static INTERIM: [[AtomicUsize; 2]; INTERIM_MAX] = [const { [const { AtomicUsize::new(0) }; 2] }; INTERIM_MAX];
static INTERIM_COUNT: AtomicUsize = AtomicUsize::new(0);

/// Registers for `membarrier`. While there is one thread: later it takes milliseconds.
pub(super) fn prepare() {
    const REGISTER: u32 = abi::membarrier_cmd::MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED_SYNC_CORE as u32;
    membarrier(REGISTER);
}

/// The trampoline of the site for which the `syscall` that ends at `end` stands, if there is one.
#[inline]
pub(crate) fn interim(end: usize) -> Option<usize> {
    // Acquire pairs with the release in `by_steps`.
    let count = INTERIM_COUNT.load(Ordering::Acquire);
    let found = INTERIM[..count].iter().find(|entry| entry[0].load(Ordering::Relaxed) == end)?;
    Some(found[1].load(Ordering::Relaxed))
}

/// The instruction at `at` becomes a jump to `target`.
pub(super) fn ahead(memory: &Process, at: usize, target: usize, site_end: usize, is_alone: bool) -> bool {
    let Some(jump) = trampoline::jump(at, target) else { return false };
    if is_alone {
        return memory.write(at, &jump);
    }
    if at % WORD_BYTES + JUMP_BYTES <= WORD_BYTES {
        return replace_at_once(memory, at, &jump) && synchronize();
    }
    let is_directly_ahead = at + JUMP_BYTES + SYSCALL_BYTES == site_end;
    is_directly_ahead && by_steps(memory, at, target, &jump)
}

/// Padding that nobody runs becomes a jump to `target`.
pub(super) fn pad(memory: &Process, pad: usize, target: usize) -> bool {
    trampoline::jump(pad, target).is_some_and(|jump| memory.write(pad, &jump))
}

/// The `syscall` at `site` becomes a short jump to `pad`, which is written already.
pub(super) fn short(memory: &Process, site: usize, pad: usize, is_alone: bool) -> bool {
    let distance = pad as i64 - (site + SYSCALL_BYTES) as i64;
    let Ok(distance) = i8::try_from(distance) else { return false };
    let jump = [SHORT_JUMP, distance as u8];
    if is_alone {
        return memory.write(site, &jump);
    }
    // Every thread has to see the padding before it can see the jump.
    synchronize()
        && site % WORD_BYTES + SYSCALL_BYTES <= WORD_BYTES
        && replace_at_once(memory, site, &jump)
        && synchronize()
}

/// `mov $nr,%eax` across a boundary of eight bytes, with its `syscall` behind it. Nothing between them needs
/// `rcx` and `r11`, which the interim `syscall` destroys; dispatch sends the thread to the trampoline, where
/// the copy of the `mov` is the first instruction.
fn by_steps(memory: &Process, at: usize, target: usize, jump: &[u8; JUMP_BYTES]) -> bool {
    let mut old = [0; JUMP_BYTES];
    let is_known = memory.read(at, &mut old) == JUMP_BYTES && old[0] == MOVE_TO_EAX;
    let index = INTERIM_COUNT.load(Ordering::Relaxed);
    if !is_known || at % WORD_BYTES + SYSCALL_BYTES > WORD_BYTES || index == INTERIM_MAX {
        return false;
    }
    INTERIM[index][0].store(at + SYSCALL_BYTES, Ordering::Relaxed);
    INTERIM[index][1].store(target, Ordering::Relaxed);
    INTERIM_COUNT.store(index + 1, Ordering::Release);
    if !replace_at_once(memory, at, &SYSCALL) {
        return false;
    }
    let (head, tail) = jump.split_at(SYSCALL_BYTES);
    // From here on the site works whatever fails: as a `syscall` that is sent to the trampoline.
    synchronize()
        && memory.write(at + SYSCALL_BYTES, tail)
        && synchronize()
        && replace_at_once(memory, at, head)
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
