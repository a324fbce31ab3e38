//! Short races of real threads. Each ends with a count: everything that was taken is given back exactly once.
#![expect(clippy::disallowed_types, reason = "a race takes a while, and decides nothing")]

use super::slots::with_file;
use super::{SMALL, pool::content_of, with_segment};
use crate::files::FileKind;
use crate::pool::{FreeCell, Pool, ZspageOwner};
use crate::segment::{Geometry, Segment};
use crate::swap_table::{LoadKind, Put, WritebackEnd};
use crate::swap_word::Content;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::thread;
use std::time::{Duration, Instant};
use std::vec;
use std::vec::Vec;
use uswap_sync::Ordering;
use uswap_units::{BlobId, MmId, Prng, SwapId};

const RACE: Duration = Duration::from_millis(700);
const MEDIUM: Geometry = Geometry { zspages: 12, slots: 512, ..SMALL };

fn free(pool: &Pool<'_>, blob: BlobId) {
    if let FreeCell::ReleaseMemory(zspage) = pool.free(blob) {
        pool.released(zspage);
    }
}

struct Stored {
    blob: BlobId,
    seed: u64,
    length: usize,
}

fn verify_and_free(pool: &Pool<'_>, stored: Stored) {
    let mut out = vec![0; stored.length];
    assert!(pool.read(stored.blob, stored.length, &mut out));
    assert!(out == content_of(stored.seed, stored.length), "{:?} was overwritten", stored.blob);
    free(pool, stored.blob);
}

/// Owners store, everyone frees what others stored, and one owner dies again and again with cells reserved.
#[test]
fn pool_cells_survive_owners_freers_and_a_reaper() {
    with_segment(MEDIUM, |segment| {
        let pool = segment.pool();
        let (shared, end) = (Mutex::new(Vec::<Stored>::new()), Instant::now() + RACE);
        let stores = AtomicU32::new(0);
        thread::scope(|scope| {
            for mm in 0..4_u16 {
                let (shared, stores) = (&shared, &stores);
                scope.spawn(move || {
                    let (mut prng, mut owner) = (Prng::new(u64::from(mm)), ZspageOwner::new());
                    while Instant::now() < end {
                        let length_max = if prng.chance(1, 2) { 4096 } else { 90 };
                        let length = 1 + prng.below(length_max) as usize;
                        if let Some(cell) = pool.reserve(MmId::new(mm), &mut owner, length) {
                            let seed = prng.next_u64();
                            pool.write(&cell, SwapId::new(seed as u32), &content_of(seed, length));
                            shared.lock().expect("no panic").push(Stored { blob: cell.blob(), seed, length });
                            stores.fetch_add(1, Ordering::Relaxed);
                        }
                        let taken = {
                            let mut shared = shared.lock().expect("no panic");
                            let wanted = if shared.len() > 60 { 3 } else { u64::from(prng.chance(1, 2)) };
                            (0..wanted)
                                .filter_map(|_| {
                                    let pick = prng.below(shared.len().max(1) as u64) as usize;
                                    (pick < shared.len()).then(|| shared.swap_remove(pick))
                                })
                                .collect::<Vec<_>>()
                        };
                        taken.into_iter().for_each(|stored| verify_and_free(&pool, stored));
                        if mm == 3 && prng.chance(1, 20) {
                            let _dies_with_it = pool.reserve(MmId::new(mm), &mut owner, length);
                            pool.reap(MmId::new(mm), |_| {});
                            owner = ZspageOwner::new();
                        }
                    }
                });
            }
        });
        assert!(stores.load(Ordering::Relaxed) > 100, "the race took place");
        shared.into_inner().expect("no panic").into_iter().for_each(|stored| verify_and_free(&pool, stored));
        (0..4).for_each(|mm| pool.reap(MmId::new(mm), |_| {}));
        assert_eq!((pool.used_cells(), pool.resident_bytes()), (0, 0));
    });
}

/// Gives back what a word named.
fn release(segment: &Segment<'_>, content: Content) {
    match content {
        Content::Blob { blob, .. } => free(&segment.pool(), blob),
        Content::Slot { offset, length } => segment.slots().remove_blob(offset, u64::from(length)),
        _ => {}
    }
}

fn put(segment: &Segment<'_>, id: SwapId) {
    if let Put::Freed(content) = segment.swap_table().put(id) {
        release(segment, content);
    }
}

fn store(segment: &Segment<'_>, mm: MmId, zspages: &mut ZspageOwner, seed: u64) -> Option<SwapId> {
    let (table, pool) = (segment.swap_table(), segment.pool());
    let id = segment.acting_as(mm).swap_table().reserve()?;
    let length = 1 + (seed % 4096) as usize;
    let Some(cell) = pool.reserve(mm, zspages, length) else {
        table.cancel(id);
        return None;
    };
    pool.write(&cell, id, &content_of(seed, length));
    table.set_hash(id, u128::from(seed) << 64 | u128::from(!seed));
    table.publish(id, Content::Blob { blob: cell.blob(), length: length as u32 });
    Some(id)
}

/// Reads an entry that the caller refers to; a blob whose name still stands after the copy must be whole.
fn load_and_check(segment: &Segment<'_>, id: SwapId) {
    let (table, pool) = (segment.swap_table(), segment.pool());
    let hash = table.hash(id);
    let seed = (hash >> 64) as u64;
    assert_eq!(seed, !(hash as u64), "the hash of an entry with a reference stands still");
    let before = table.load(id).content();
    if let Content::Blob { blob, length } = before {
        let mut out = vec![0; length as usize];
        let read = pool.read(blob, length as usize, &mut out);
        if table.load(id).content() == before {
            assert!(read);
            assert!(out == content_of(seed, length as usize), "{id:?} reads wrong");
        }
    }
    table.note_loaded(id, LoadKind::Alone);
}

/// The supervisor: takes blobs to slots, some fail.
fn write_back_until(segment: &Segment<'_>, end: Instant) -> u32 {
    let (table, map) = (segment.swap_table(), segment.slots());
    let file = map.files().all().next().expect("the test added it");
    let (mut prng, mut moved) = (Prng::new(99), 0);
    for id in (1..table.entry_count()).cycle().map(SwapId::new) {
        if Instant::now() > end {
            break;
        }
        let seen = table.load(id);
        let Content::Blob { length, .. } = seen.content() else { continue };
        if seen.count() == 0 || seen.is_writeback() || !table.begin_writeback(id, seen) {
            continue;
        }
        let bytes = u64::from(length).next_multiple_of(64);
        let run = if prng.chance(1, 8) { None } else { map.take_run(&file, 1, 1) };
        let Some(run) = run else {
            if let Some(content) = table.abort_writeback(id) {
                release(segment, content);
            }
            continue;
        };
        map.add_blob(run.start(), bytes);
        let slot = Content::Slot { offset: run.start(), length: bytes as u32 };
        match table.finish_writeback(id, slot) {
            WritebackEnd::Moved => moved += 1,
            WritebackEnd::Orphaned => release(segment, slot),
        }
        release(segment, seen.content());
        map.end_run(run);
    }
    moved
}

/// Processes store, share, load, discard and put while the supervisor writes back.
#[test]
fn entries_release_cells_and_slots_exactly_once() {
    with_file(MEDIUM, FileKind::SolidState, |segment, _| {
        // One element for each reference.
        let (references, end) = (Mutex::new(Vec::<SwapId>::new()), Instant::now() + RACE);
        let (stores, discards, moved) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        let wrote = AtomicBool::new(false);
        thread::scope(|scope| {
            scope.spawn(|| {
                moved.store(write_back_until(&segment, end), Ordering::Relaxed);
                wrote.store(true, Ordering::Relaxed);
            });
            for mm in 0..3_u16 {
                let (references, stores, discards) = (&references, &stores, &discards);
                scope.spawn(move || {
                    let table = segment.swap_table();
                    let (mut prng, mut zspages) = (Prng::new(u64::from(mm)), ZspageOwner::new());
                    while Instant::now() < end {
                        if let Some(id) = store(&segment, MmId::new(mm), &mut zspages, prng.next_u64()) {
                            stores.fetch_add(1, Ordering::Relaxed);
                            references.lock().expect("no panic").push(id);
                        }
                        for _ in 0..4 {
                            // A reference in hand: nobody else uses it meanwhile.
                            let mut all = references.lock().expect("no panic");
                            let pick = prng.below(all.len().max(1) as u64) as usize;
                            if pick >= all.len() {
                                break;
                            }
                            let (id, many) = (all.swap_remove(pick), all.len() > 80);
                            drop(all);
                            let mut keep = vec![id];
                            match prng.below(5) {
                                0 if !many => {
                                    table.share(id);
                                    keep.push(id);
                                }
                                1 => {
                                    load_and_check(&segment, id);
                                    // As the shrinker does, for any entry.
                                    let any = SwapId::new(
                                        1 + prng.below(u64::from(table.entry_count()) - 1) as u32,
                                    );
                                    for id in [id, any] {
                                        if let Some(content) = table.discard_retained(id) {
                                            discards.fetch_add(1, Ordering::Relaxed);
                                            release(&segment, content);
                                        }
                                    }
                                }
                                2 => {
                                    if table.rely_on(id) {
                                        let content = table.load(id).content();
                                        assert!(!matches!(content, Content::Discarded | Content::Free));
                                    }
                                }
                                3 => {
                                    put(&segment, id);
                                    keep.clear();
                                }
                                _ => {
                                    keep.clear();
                                    let more = references.lock().expect("no panic").pop();
                                    let ids = [Some(id), more].into_iter().flatten();
                                    table.put_each(ids, |content| release(&segment, content));
                                }
                            }
                            references.lock().expect("no panic").append(&mut keep);
                        }
                    }
                });
            }
        });
        assert!(wrote.into_inner());
        for (count, name) in [(&stores, "stores"), (&discards, "discards"), (&moved, "write-backs")] {
            assert!(count.load(Ordering::Relaxed) > 0, "the race had {name}");
        }
        references.into_inner().expect("no panic").into_iter().for_each(|id| put(&segment, id));
        (0..3).for_each(|mm| {
            segment.swap_table().reap(MmId::new(mm));
            segment.pool().reap(MmId::new(mm), |_| {});
        });
        assert_eq!(segment.swap_table().used_count(), 0);
        assert_eq!((segment.pool().used_cells(), segment.pool().resident_bytes()), (0, 0));
        assert_eq!(segment.slots().used(), 0);
    });
}
