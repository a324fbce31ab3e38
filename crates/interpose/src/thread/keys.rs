//! The table by which a thread finds its slot: a key of the thread, and the number of the slot.
//!
//! Must hold: a key stands in it only while its thread has a slot, and nobody puts it in or takes it out while that
//! thread looks for it. Called by [`crate::thread`], which maps it behind the slots.

use core::sync::atomic::{AtomicUsize, Ordering};

use super::{SLOTS, Slot, THREADS_MAX, slot_at};

/// Entries of the table of keys: at most half are ever in use. 16 bytes each: 1 MiB of addresses.
const KEYS: usize = 2 * THREADS_MAX;
/// A key whose thread has gone: another may take the entry.
pub(super) const KEY_GONE: usize = usize::MAX;

/// Bytes of the table.
pub(super) const KEYS_BYTES: usize = KEYS * size_of::<KeyEntry>();

#[repr(C)]
struct KeyEntry {
    key: AtomicUsize,
    slot: AtomicUsize,
}

/// A key that no thread pointer can be: those are even.
pub(super) fn key_of_id(thread_id: u32) -> usize {
    thread_id as usize * 2 + 1
}

#[inline]
fn key_entry(index: usize) -> &'static KeyEntry {
    let keys = SLOTS.load(Ordering::Relaxed) + THREADS_MAX * size_of::<Slot>();
    // SAFETY:
    // 1. `super::prepare` has mapped `KEYS` entries of zeros behind the slots, and the index is cut to them.
    // 2. They are never unmapped, and both words are atomic.
    unsafe { &*(keys as *const KeyEntry).add(index % KEYS) }
}

#[inline]
fn start_of(key: usize) -> usize {
    key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 44
}

/// Only the thread that has the key looks for it, so nobody puts it in or takes it out meanwhile.
#[inline]
pub(super) fn find(key: usize) -> Option<&'static Slot> {
    let start = start_of(key);
    for step in 0..KEYS {
        let entry = key_entry(start + step);
        let found = entry.key.load(Ordering::Relaxed);
        if found == key {
            return Some(slot_at(entry.slot.load(Ordering::Relaxed)));
        }
        if found == 0 {
            return None;
        }
    }
    None
}

pub(super) fn insert(key: usize, slot: &'static Slot) {
    let start = start_of(key);
    for step in 0..KEYS {
        let entry = key_entry(start + step);
        let found = entry.key.load(Ordering::Relaxed);
        if (found == 0 || found == KEY_GONE)
            && entry.key.compare_exchange(found, key, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            // Nobody but this thread looks for the key: the order of the two stores is nobody's business.
            entry.slot.store(slot.index(), Ordering::Relaxed);
            return;
        }
    }
}

pub(super) fn remove(key: usize) {
    let start = start_of(key);
    for step in 0..KEYS {
        let entry = key_entry(start + step);
        let found = entry.key.load(Ordering::Relaxed);
        if found == key {
            entry.key.store(KEY_GONE, Ordering::Relaxed);
            return;
        }
        if found == 0 {
            return;
        }
    }
}
