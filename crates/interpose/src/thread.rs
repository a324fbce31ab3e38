//! What is kept for each thread of the process: its [`Slot`].
//!
//! A thread finds its slot by its thread pointer (`fs`), which the C library and Go give each thread
//! a value of its own; threads that share one are told apart by their id. No thread-local storage: this
//! library is loaded into programs whose libc may not know the thread at all.
//!
//! What must hold: a slot belongs to one living thread; its key is in the table as long. Slots and the
//! alternate stacks with them are never unmapped, so that who scans all slots needs no lock.
//!
//! Called by [`mod@crate::install`], [`crate::birth`] and [`crate::attach`], which give slots out, by [`crate::serve`],
//! [`crate::dispatch`], [`crate::signals`] and others for their own thread, and by `host`, which looks through all of
//! them.
//!
//! Memory order: `prepare` stores `SLOTS` with Release; it pairs with the Acquire of who does not know yet whether
//! there are slots (`is_prepared`, `for_each_mapping`, `prepare`). `reserve` raises `USED_MAX` with Release, behind the
//! taken slot, for the Acquire of `slots` and `slots_used_max`. It takes a slot with Acquire, which pairs with the
//! store of `end`, a Release on this processor, or of `begin_for`: the former thread is done with it. Who sees a slot
//! taken may still read words of that thread, until `begin_for` has reset them.

mod keys;
mod stacks;

use core::arch::asm;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use uswap_os::memory::{self, Access, Mapping};
use uswap_os::sys::{Errno, Result};
use uswap_os::{PAGE_BYTES, process};

use crate::kernel::{self, Stack};
use keys::{KEY_GONE, KEYS_BYTES, find, insert, key_of_id, remove};
pub use stacks::ALTERNATE_STACK_BYTES;
pub(crate) use stacks::{CALL_STACK_BYTES, CALL_STACKS};
use stacks::{StackAddress, map_alternate_stack, map_call_stacks, open_alternate_stack, open_call_stacks};

/// Threads of one process at a time. A slot is 256 bytes, touched when first used: 8 MiB of addresses.
pub const THREADS_MAX: usize = 32 * 1024;
/// Bytes at the end of a call stack: where to go on, the program's stack pointer, the address of the word that
/// is cleared to give the stack back. A multiple of 16 with the words above them unused.
pub const ELSEWHERE_BYTES: usize = 32;
/// Words in a slot that belong to the [`Interposer`](crate::Interposer).
pub const USER_WORDS: usize = 8;

/// Values of `Slot::state`.
pub(crate) const FREE: u32 = 0;
const USED: u32 = 1;

/// In the flags of the program's alternate stack: a handler runs, and the program wanted no other one to find the stack
/// until it returns (SS_AUTODISARM). The kernel's flags are below.
const DISARMED: usize = 1 << 32;

/// What is kept for one thread.
#[derive(Debug, Default)]
#[repr(C, align(256))]
pub struct Slot {
    /// `FREE` or `USED`. First: the last thing a thread does is to clear it, in assembly.
    state: AtomicU32,
    thread_id: AtomicU32,
    key: AtomicUsize,
    /// More threads than one have this slot's key: then the key is the thread id.
    is_key_shared: AtomicU32,
    /// Signals of ours that the program thinks it has blocked.
    pub(crate) shown_blocked: AtomicUsize,
    /// The program's alternate stack as it asked for it: start, bytes, flags, which may hold [`DISARMED`].
    pub(crate) program_stack: [AtomicUsize; 3],
    /// Signals of ours that a child which shares this slot has set to the default, and to be ignored.
    pub(crate) child_default: AtomicUsize,
    pub(crate) child_ignored: AtomicUsize,
    alternate_stack: StackAddress,
    robust_list: AtomicUsize,
    clear_child_tid: AtomicUsize,
    rseq: AtomicUsize,
    /// The stack that the thread was given: its lowest byte that is known to belong to it, and its end.
    own_stack: [AtomicUsize; 2],
    /// Start of the call stacks, 0 before they are needed; which are in use.
    call_stacks: StackAddress,
    call_stacks_used: [AtomicU32; CALL_STACKS],
    /// Not 0: the thread may only read, write, return from a handler, and end (strict mode of seccomp).
    is_strict: AtomicU32,
    /// See `cancellation`.
    pub(crate) is_cancelled: AtomicU32,
    /// Children that share the memory and this slot, one in the other: a thread waits in `vfork` for each.
    children: AtomicU32,
    /// Whose calls are not dispatched any more, of the thread itself (bit 0) and those children.
    undispatched: AtomicU32,
    /// Words for the interposer, zero in a new slot.
    pub user: [AtomicUsize; USER_WORDS],
}

const _: () = assert!(size_of::<Slot>() == 256);

/// First slot, and the table of keys behind the slots. Written once.
static SLOTS: AtomicUsize = AtomicUsize::new(0);
/// Slots that were ever used are below it.
static USED_MAX: AtomicUsize = AtomicUsize::new(0);
/// Whether the processor may be asked for `fs` directly.
static HAS_RDFSBASE: AtomicU32 = AtomicU32::new(0);

impl Slot {
    /// Number of the slot, below [`THREADS_MAX`]: for tables of the interposer's own.
    #[inline]
    pub fn index(&self) -> usize {
        (self as *const Slot as usize - SLOTS.load(Ordering::Relaxed)) / size_of::<Slot>()
    }

    /// The kernel's id of the thread.
    pub fn thread_id(&self) -> u32 {
        self.thread_id.load(Ordering::Relaxed)
    }

    /// First byte of the stack on which our signal handlers run; [`ALTERNATE_STACK_BYTES`] long.
    pub fn alternate_stack(&self) -> usize {
        self.alternate_stack.get()
    }

    /// The alternate stack that the program asked for: first byte and length.
    pub fn program_stack(&self) -> Option<(usize, usize)> {
        let [start, bytes, flags] = &self.program_stack;
        let is_off = flags.load(Ordering::Relaxed) & kernel::SS_DISABLE != 0;
        (!is_off).then(|| (start.load(Ordering::Relaxed), bytes.load(Ordering::Relaxed)))
    }

    /// The alternate stack of the program as it has it now, which is none while it is disarmed.
    pub(crate) fn stack_in_force(&self) -> Stack {
        let [start, bytes, flags] = self.program_stack.each_ref().map(|word| word.load(Ordering::Relaxed));
        if flags & DISARMED != 0 {
            return Stack { flags: kernel::SS_DISABLE as u32, ..Stack::default() };
        }
        Stack { start, flags: flags as u32, padding: 0, bytes }
    }

    /// A handler of the program begins, with all signals blocked.
    pub(crate) fn disarm_stack(&self) {
        let flags = &self.program_stack[2];
        if flags.load(Ordering::Relaxed) & kernel::SS_AUTODISARM as usize != 0 {
            flags.fetch_or(DISARMED, Ordering::Relaxed);
        }
    }

    /// Head of the list of robust mutexes that the kernel walks when the thread ends; 0: none was set
    /// since the thread is known.
    pub fn robust_list(&self) -> usize {
        self.robust_list.load(Ordering::Relaxed)
    }

    /// The word that the kernel clears when the thread ends; 0: not known.
    pub fn clear_child_tid(&self) -> usize {
        self.clear_child_tid.load(Ordering::Relaxed)
    }

    /// The area of restartable sequences that the kernel writes; 0: none was set since the thread is known.
    pub fn rseq(&self) -> usize {
        self.rseq.load(Ordering::Relaxed)
    }

    pub(crate) fn note_robust_list(&self, head: usize) {
        self.robust_list.store(head, Ordering::Relaxed);
    }

    pub(crate) fn note_clear_child_tid(&self, word: usize) {
        self.clear_child_tid.store(word, Ordering::Relaxed);
    }

    pub(crate) fn note_rseq(&self, area: usize) {
        self.rseq.store(area, Ordering::Relaxed);
    }

    pub(crate) fn note_strict(&self, is_strict: bool) {
        self.is_strict.store(is_strict.into(), Ordering::Relaxed);
    }

    pub(crate) fn is_strict(&self) -> bool {
        self.is_strict.load(Ordering::Relaxed) != 0
    }

    /// Behind the last byte of the stack that the thread was given, as far as it is known; else 0.
    pub fn stack_end(&self) -> usize {
        self.own_stack[1].load(Ordering::Relaxed)
    }

    /// The stack that the thread was given, as far as it is known: first byte, and behind the last.
    pub fn own_stack(&self) -> Option<(usize, usize)> {
        let [start, end] = self.own_stack.each_ref().map(|word| word.load(Ordering::Relaxed));
        (end > start).then_some((start, end))
    }

    /// Its thread pointer, behind which libraries keep what is the thread's. None: it has one with others, or none.
    pub fn thread_pointer(&self) -> Option<usize> {
        let key = self.key.load(Ordering::Relaxed);
        (key & 1 == 0 && key != 0 && key != KEY_GONE).then_some(key)
    }

    /// Notes the stack that the thread was given.
    pub(crate) fn note_own_stack(&self, start: usize, end: usize) {
        self.own_stack[0].store(start, Ordering::Relaxed);
        self.own_stack[1].store(end, Ordering::Relaxed);
    }

    /// Is it on the stack that the thread was given, as far as that is known?
    pub(crate) fn is_on_own_stack(&self, stack_pointer: usize) -> bool {
        let [start, end] = &self.own_stack;
        (start.load(Ordering::Relaxed)..=end.load(Ordering::Relaxed)).contains(&stack_pointer)
    }

    /// Is it on a stack with room, the thread's own or one of the call stacks? A coroutine or a goroutine is
    /// not: its stack may have a few hundred bytes.
    pub(crate) fn has_room_at(&self, stack_pointer: usize) -> bool {
        let calls = self.call_stacks.get();
        self.is_on_own_stack(stack_pointer)
            || (calls != 0 && stack_pointer.wrapping_sub(calls) < CALL_STACKS * CALL_STACK_BYTES)
    }

    /// The program's stack pointer for a thread that is at `stack_pointer`: the same, or, on a call stack, that of
    /// the call which runs there.
    pub(crate) fn program_stack_pointer(&self, stack_pointer: usize) -> usize {
        let calls = self.call_stacks.get();
        let offset = stack_pointer.wrapping_sub(calls);
        if calls == 0 || offset >= CALL_STACKS * CALL_STACK_BYTES {
            return stack_pointer;
        }
        let end = calls + (offset / CALL_STACK_BYTES + 1) * CALL_STACK_BYTES;
        // SAFETY:
        // 1. The thread is on this call stack, so `dispatch` has written the words at its end.
        unsafe { *((end - ELSEWHERE_BYTES) as *const usize).add(1) }
    }

    /// Takes a call stack: its end, and the word that gives it back when it is cleared. `None`: all are in use,
    /// or there is no memory.
    pub(crate) fn take_call_stack(&self) -> Option<(usize, &'static AtomicU32)> {
        let start = self.call_stacks.ready(map_call_stacks, open_call_stacks).ok()?;
        let slot = slot_at(self.index());
        let is_taken = |word: &AtomicU32| {
            word.compare_exchange(FREE, USED, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        };
        let index = slot.call_stacks_used.iter().position(is_taken)?;
        Some((start + (index + 1) * CALL_STACK_BYTES, &slot.call_stacks_used[index]))
    }

    /// A child or a thread begins. A child that shares the memory, and has no slot of its own, is in this one while the
    /// thread waits for it.
    pub(crate) fn lend_to_child(&self) {
        self.children.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether whoever asks is such a child: the thread itself waits.
    pub(crate) fn is_lent(&self) -> bool {
        self.children.load(Ordering::Relaxed) != 0
    }

    /// The child that shared this slot has gone its own way.
    pub(crate) fn forget_child(&self) {
        self.children.fetch_sub(1, Ordering::Relaxed);
        self.undispatched.fetch_and(self.own_bit() | (self.own_bit() - 1), Ordering::Relaxed);
        self.forget_signals_of_child();
    }

    /// That of whoever asks, in `undispatched`.
    fn own_bit(&self) -> u32 {
        1 << self.children.load(Ordering::Relaxed).min(u32::BITS - 1)
    }

    /// The calls of whoever asks are seen only where they are patched from now on, until it executes a program.
    pub(crate) fn note_undispatched(&self) {
        self.undispatched.fetch_or(self.own_bit(), Ordering::Relaxed);
    }

    /// Whether that is so.
    pub(crate) fn is_undispatched(&self) -> bool {
        self.undispatched.load(Ordering::Relaxed) & self.own_bit() != 0
    }

    fn forget_signals_of_child(&self) {
        self.child_default.store(0, Ordering::Relaxed);
        self.child_ignored.store(0, Ordering::Relaxed);
    }

    fn reset(&self) {
        self.forget_signals_of_child();
        self.children.store(0, Ordering::Relaxed);
        self.undispatched.store(0, Ordering::Relaxed);
        for used in &self.call_stacks_used {
            used.store(FREE, Ordering::Relaxed);
        }
        self.is_key_shared.store(0, Ordering::Relaxed);
        self.is_strict.store(0, Ordering::Relaxed);
        self.is_cancelled.store(0, Ordering::Relaxed);
        self.shown_blocked.store(0, Ordering::Relaxed);
        for word in self.program_stack.iter().chain(&self.user).chain(&self.own_stack) {
            word.store(0, Ordering::Relaxed);
        }
        self.program_stack[2].store(kernel::SS_DISABLE, Ordering::Relaxed);
        self.robust_list.store(0, Ordering::Relaxed);
        self.clear_child_tid.store(0, Ordering::Relaxed);
        self.rseq.store(0, Ordering::Relaxed);
    }
}

/// Maps slots and keys. Once, before anything else here.
pub(crate) fn prepare() -> Result<()> {
    if SLOTS.load(Ordering::Acquire) != 0 {
        return Ok(());
    }
    let slots_bytes = THREADS_MAX * size_of::<Slot>();
    let bytes = slots_bytes + KEYS_BYTES;
    let mapping = Mapping::anonymous(bytes, PAGE_BYTES, Access::ReadWrite)?;
    let _ = memory::no_huge_pages(mapping.start(), mapping.bytes());
    // Bit 1 of AT_HWCAP2: the kernel lets programs read `fs` and `gs`.
    HAS_RDFSBASE
        .store((process::auxiliary(kernel::AT_HWCAP2).unwrap_or(0) >> 1 & 1) as u32, Ordering::Relaxed);
    SLOTS.store(mapping.leak(), Ordering::Release);
    Ok(())
}

/// All slots in use, in no order, while others come and go.
pub fn slots() -> impl Iterator<Item = &'static Slot> {
    let used_max = USED_MAX.load(Ordering::Acquire);
    (0..used_max).map(slot_at).filter(|slot| slot.state.load(Ordering::Acquire) == USED)
}

/// Whether an alternate stack of ours begins there, whichever thread has it, or had it.
pub(crate) fn is_alternate_stack(start: usize) -> bool {
    let used_max = USED_MAX.load(Ordering::Acquire);
    start != 0 && (0..used_max).any(|index| slot_at(index).alternate_stack() == start)
}

/// Calls `visit` with start and bytes of each mapping that was made for threads, and stays.
pub fn for_each_mapping(visit: &mut impl FnMut(usize, usize)) {
    let start = SLOTS.load(Ordering::Acquire);
    if start == 0 {
        return;
    }
    visit(start, THREADS_MAX * size_of::<Slot>() + KEYS_BYTES);
    for index in 0..USED_MAX.load(Ordering::Acquire) {
        let stack = slot_at(index).alternate_stack();
        if stack != 0 {
            visit(stack - PAGE_BYTES, ALTERNATE_STACK_BYTES + PAGE_BYTES);
        }
        let calls = slot_at(index).call_stacks.get();
        if calls != 0 {
            visit(calls, CALL_STACKS * CALL_STACK_BYTES);
        }
    }
}

/// Is this the only thread that is known?
pub(crate) fn is_only_thread() -> bool {
    slots().nth(1).is_none()
}

/// Whether there is a place for slots. Without one [`current`] must not be asked for.
pub(crate) fn is_prepared() -> bool {
    SLOTS.load(Ordering::Acquire) != 0
}

/// Slots that were ever in use have a smaller [`Slot::index`].
pub fn slots_used_max() -> usize {
    USED_MAX.load(Ordering::Acquire)
}

/// The slot of this thread. A thread that was not known gets one.
#[inline]
pub fn current() -> &'static Slot {
    let key = thread_pointer();
    match find(key) {
        Some(slot) if slot.is_key_shared.load(Ordering::Relaxed) == 0 => slot,
        found => current_slow(key, found.is_some()),
    }
}

#[cold]
fn current_slow(key: usize, is_shared: bool) -> &'static Slot {
    let key = if is_shared || key == 0 { key_of_id(kernel::thread_id()) } else { key };
    match find(key) {
        Some(slot) => slot,
        None => begin_with_key(key).expect("fewer threads than slots, and memory for one more stack"),
    }
}

/// Gives this thread a slot: a new thread, the first one, or one whose key just changed.
pub(crate) fn begin() -> Result<&'static Slot> {
    let key = thread_pointer();
    let is_taken = key == 0 || find(key).is_some();
    begin_with_key(if is_taken { key_of_id(kernel::thread_id()) } else { key })
}

/// Gives a slot to another thread, which stands still and has none.
pub(crate) fn begin_other(thread_id: u32, thread_pointer: usize) -> Result<&'static Slot> {
    let is_taken = thread_pointer == 0 || find(thread_pointer).is_some();
    begin_for(thread_id, if is_taken { key_of_id(thread_id) } else { thread_pointer })
}

/// From now on more threads than this one have its thread pointer: the next look goes by ids.
pub(crate) fn share_key() {
    let slot = current();
    if slot.is_key_shared.swap(1, Ordering::Relaxed) == 0 && slot.key.load(Ordering::Relaxed) & 1 == 0 {
        // The entry with the thread pointer stays, as the sign that ids are to be looked at.
        insert(key_of_id(kernel::thread_id()), slot);
    }
}

/// The pointer of this thread, whose slot it is, has changed to `key`.
pub(crate) fn change_key(slot: &'static Slot, key: usize) {
    remove(slot.key.load(Ordering::Relaxed));
    slot.key.store(key, Ordering::Relaxed);
    insert(key, slot);
}

/// In the only thread of a forked child: every other slot is free, and this thread has a new id.
pub(crate) fn keep_only_this(slot: &'static Slot) {
    for index in 0..USED_MAX.load(Ordering::Relaxed) {
        let other = slot_at(index);
        if !core::ptr::eq(other, slot) && other.state.load(Ordering::Relaxed) == USED {
            remove(other.key.load(Ordering::Relaxed));
            other.state.store(FREE, Ordering::Relaxed);
        }
    }
    let thread_id = kernel::thread_id();
    slot.thread_id.store(thread_id, Ordering::Relaxed);
    slot.children.store(0, Ordering::Relaxed);
    slot.undispatched.store(0, Ordering::Relaxed);
    // The thread pointer may be another too (clone with CLONE_SETTLS). It is the only thread: nobody shares it.
    remove(slot.key.load(Ordering::Relaxed));
    let pointer = thread_pointer();
    let key = if pointer == 0 { key_of_id(thread_id) } else { pointer };
    slot.is_key_shared.store(0, Ordering::Relaxed);
    slot.key.store(key, Ordering::Relaxed);
    remove(key);
    insert(key, slot);
}

/// Takes the slot's key away and ends the thread; the slot is free when the last instruction is reached.
///
/// # Safety
/// All signals are blocked, and nothing of this thread is needed any more.
pub(crate) unsafe fn end(slot: &'static Slot, status: usize) -> ! {
    remove(slot.key.load(Ordering::Relaxed));
    // SAFETY:
    // 1. The thread may be on the alternate stack of the slot: no stack is used after the store, since
    //    no signal can arrive (the caller's promise).
    // 2. `exit` ends this thread only and does not return.
    unsafe {
        asm!("mov dword ptr [{state}], 0", "syscall", "ud2",
            state = in(reg) slot.state.as_ptr(), in("rax") kernel::nr::EXIT, in("rdi") status,
            options(noreturn, nostack));
    }
}

/// The thread pointer, `fs`.
#[inline]
pub(crate) fn thread_pointer() -> usize {
    if HAS_RDFSBASE.load(Ordering::Relaxed) == 0 {
        return kernel::thread_pointer();
    }
    let value: usize;
    // SAFETY:
    // 1. The kernel has allowed the instruction: AT_HWCAP2 says so.
    unsafe { asm!("rdfsbase {}", out(reg) value, options(nomem, nostack, preserves_flags)) };
    value
}

fn begin_with_key(key: usize) -> Result<&'static Slot> {
    begin_for(kernel::thread_id(), key)
}

fn begin_for(thread_id: u32, key: usize) -> Result<&'static Slot> {
    let slot = reserve()?;
    slot.reset();
    slot.thread_id.store(thread_id, Ordering::Relaxed);
    slot.key.store(key, Ordering::Relaxed);
    if let Err(errno) = slot.alternate_stack.ready(map_alternate_stack, open_alternate_stack) {
        // Release, as the store of `end`.
        slot.state.store(FREE, Ordering::Release);
        return Err(errno);
    }
    insert(key, slot);
    Ok(slot)
}

fn reserve() -> Result<&'static Slot> {
    for index in 0..THREADS_MAX {
        let slot = slot_at(index);
        if slot.state.compare_exchange(FREE, USED, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            // Release pairs with the acquire in `slots`.
            USED_MAX.fetch_max(index + 1, Ordering::AcqRel);
            return Ok(slot);
        }
    }
    Err(Errno::EAGAIN)
}

#[inline]
fn slot_at(index: usize) -> &'static Slot {
    let slots = SLOTS.load(Ordering::Relaxed) as *const Slot;
    // SAFETY:
    // 1. `prepare` has mapped `THREADS_MAX` slots of zeros, which are valid slots, and `index` is smaller.
    // 2. They are never unmapped, and all of a slot is atomic.
    unsafe { &*slots.add(index) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn each_thread_has_a_slot_of_its_own_and_finds_it_again() {
        prepare().expect("memory for slots");
        let threads: Vec<_> = (0..8)
            .map(|_| {
                std::thread::spawn(|| {
                    let slot = current();
                    assert_eq!(slot.thread_id(), kernel::thread_id());
                    assert!(slot.alternate_stack() != 0);
                    for _ in 0..100 {
                        assert!(core::ptr::eq(slot, current()));
                        std::thread::yield_now();
                    }
                    slot.index()
                })
            })
            .collect();
        let mut indexes: Vec<usize> = threads.into_iter().map(|t| t.join().expect("it ends")).collect();
        indexes.sort_unstable();
        // These threads end without the boundary, so their slots stay taken; a later thread with the thread
        // pointer of one that is gone finds that one's slot.
        assert!(indexes.iter().all(|index| *index < slots_used_max()));
        assert!(slots().count() >= 1);
    }
}
