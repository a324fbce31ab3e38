//! System calls of the made-up program that change its mappings, step by step as the kernel does them. What it does
//! under the lock of the mappings (count the change, unmap, move) is one step; the event comes some time later, and the
//! change is counted down by the same thread some time after it was read.
//!
//! Must hold: MADV_DONTNEED has dropped its pages well below 1 s of virtual time after its event was read
//! ([`DROP_DELAY_MAX_NS`] plus the turns of one task), since the engine holds the chunks for 1 s only.

use crate::content::page_of;
use crate::memory::MappedPage;
use crate::places::{part_of_one_mapping, placed, some_mapping, some_range};
use crate::process::Process;
use crate::program::{Expected, WAIT_MAX_NS, ZONE_START, claim, unclaim};
use crate::world::World;
use std::collections::BTreeMap;
use std::rc::Rc;
use uswap_engine::event::Event;
use uswap_engine::platform::Message;
use uswap_units::{BLOCK_PAGES, PageId, PageRange};

/// Virtual time that MADV_DONTNEED sleeps between the reading of its event and the dropping, at most.
pub const DROP_DELAY_MAX_NS: u64 = 200_000;
/// The same of a call that the engine follows to its end: it may take longer.
const FOLLOWED_DELAY_MAX_NS: u64 = 5_000_000;
/// Virtual time for which a thread is stopped between its change and its event, at most.
const STOPPED_MAX_NS: u64 = 150_000_000;
/// And what must never be reached, for the engine's assumption: half of the time that it holds chunks.
const DROP_LATE_NS: u64 = 500_000_000;

/// Queues an event and blocks until it was read.
async fn event(world: &World<'_>, process: &Process<'_>, message: Message) {
    let ticket = process.memory.borrow_mut().queue_event(message, world.executor.current());
    world.note(format_args!("queued {message:?}"));
    process.wake_handlers(world);
    let until = world.executor.now_ns() + WAIT_MAX_NS;
    while !process.memory.borrow().was_read(ticket) {
        world.executor.park("its event to be read", Some(until)).await;
        if world.executor.now_ns() >= until {
            return world.fail(format!("{message:?} of process {} is not read for ever", process.number));
        }
    }
    // Only now: the kernel lets the thread that changed the mappings count its change down, not the one that reads.
    process.memory.borrow_mut().changing -= 1;
}

fn begin_change(process: &Process<'_>) {
    process.memory.borrow_mut().changing += 1;
}

fn is_mapped(process: &Process<'_>, range: PageRange) -> bool {
    process.memory.borrow().pages.range(range.start.0..range.end.0).next().is_some()
}
fn has_registered(process: &Process<'_>, range: PageRange) -> bool {
    process.memory.borrow().pages.range(range.start.0..range.end.0).any(|(_, page)| page.registered)
}

fn map_zeros(process: &Process<'_>, range: PageRange) {
    let mapping = process.memory.borrow_mut().next_mapping();
    let first = MappedPage { mapping, home: range.start.0, writable: true, ..MappedPage::default() };
    map_as(process, range, &first);
}
/// Maps zeros; the first page is like this one, and the others are its neighbours.
fn map_as(process: &Process<'_>, range: PageRange, first: &MappedPage) {
    for page in range.start.0..range.end.0 {
        process.memory.borrow_mut().pages.insert(page, first.empty_neighbour(page - range.start.0));
        process.expected.borrow_mut().insert(page, Expected::zeros());
    }
}
fn unmap_now(process: &Process<'_>, range: PageRange) {
    process.memory.borrow_mut().pages.retain(|&page, _| !range.contains(PageId(page)));
    process.expected.borrow_mut().retain(|&page, _| !range.contains(PageId(page)));
}

/// mmap at a free place; small zones make it a place that was used a moment ago.
pub async fn map(world: &World<'_>, process: &Process<'_>) {
    let range = placed(world, process, some_range(world, 96));
    if is_mapped(process, range) {
        return;
    }
    world.note(format_args!("mmap {range:?}"));
    world.count("mmap", 1);
    map_zeros(process, range);
    world.executor.step().await;
}

/// munmap and mmap of the same range, if nobody uses it; some time for others to look at it.
pub async fn map_anew(world: &World<'_>, process: &Process<'_>, range: PageRange) {
    unmap_range(world, process, range).await;
    if is_mapped(process, range) {
        return;
    }
    world.note(format_args!("mmap {range:?}"));
    map_zeros(process, range);
    world.sleep_up_to(6_000_000).await;
}

/// The first page of a block that may be mapped as a whole.
pub fn some_block(world: &World<'_>) -> Option<PageId> {
    let first = ZONE_START.next_multiple_of(BLOCK_PAGES);
    let blocks = (ZONE_START + world.options.zone_pages - first) / BLOCK_PAGES;
    (blocks > 0).then(|| PageId(first + world.below(blocks.max(1)) * BLOCK_PAGES))
}

/// mmap of a block that is free, and a first touch that the kernel answers with a huge page. Some of its pages are
/// written at once.
pub async fn map_huge(world: &World<'_>, process: &Process<'_>) {
    let Some(start) = some_block(world) else { return };
    let range = PageRange { start, end: start.plus(BLOCK_PAGES) };
    // Long lives of what is there, and now and then a new one.
    if world.below(3) == 0 {
        unmap_range(world, process, range).await;
    }
    if is_mapped(process, range) {
        return;
    }
    world.note(format_args!("mmap and huge page {range:?}"));
    world.count("huge pages", 1);
    map_zeros(process, range);
    if world.below(3) == 0 {
        // Touched later, page by page.
        world.executor.step().await;
        return;
    }
    process.memory.borrow_mut().make_huge(start);
    for _ in 0..world.below(64) {
        let (page, version) = (start.plus(world.below(BLOCK_PAGES)), world.next_version());
        process.memory.borrow_mut().write(page, page_of(version));
        if let Some(expected) = process.expected.borrow_mut().get_mut(&page.0) {
            expected.legal = vec![version];
        }
        world.note(format_args!("write {page:?} = {version}"));
    }
    world.executor.step().await;
}

/// munmap of a part of what is there, holes included.
pub async fn unmap(world: &World<'_>, process: &Process<'_>) {
    unmap_range(world, process, some_range(world, 64)).await;
}

async fn unmap_range(world: &World<'_>, process: &Process<'_>, range: PageRange) {
    if !is_mapped(process, range) || !claim(process, range) {
        return;
    }
    world.note(format_args!("munmap {range:?}"));
    world.count("munmap", 1);
    let registered = has_registered(process, range);
    if registered {
        begin_change(process);
    }
    unmap_now(process, range);
    unclaim(process, range);
    if registered {
        world.executor.step().await;
        event(world, process, Message::Event(Event::Unmap(range))).await;
    }
}

/// mmap with MAP_FIXED over what is there.
pub async fn map_over(world: &World<'_>, process: &Process<'_>) {
    let range = some_range(world, 48);
    if !is_mapped(process, range) || !claim(process, range) {
        return;
    }
    world.note(format_args!("mmap over {range:?}"));
    world.count("mmap over", 1);
    let registered = has_registered(process, range);
    if registered {
        begin_change(process);
    }
    unmap_now(process, range);
    map_zeros(process, range);
    if registered {
        world.executor.step().await;
        event(world, process, Message::Event(Event::Unmap(range))).await;
    }
    // No other thread of a sound program uses the new mapping before the call returns. What was unmapped is free for
    // all at once.
    unclaim(process, range);
}

/// mremap: makes a mapping longer at its place, or moves it to another one, perhaps one that is mapped, perhaps longer,
/// perhaps with MREMAP_DONTUNMAP.
pub async fn remap(world: &World<'_>, process: &Process<'_>) {
    let Some(from) = some_mapping(world, process, 64) else { return };
    let from = part_of_one_mapping(process, from);
    if world.below(8) == 0 {
        return grow_in_place(world, process, from);
    }
    let to = some_range(world, 1).start;
    let stays = world.below(4) == 0;
    let grow = if !stays && world.below(3) == 0 { world.below(16) } else { 0 };
    let target = placed(world, process, PageRange { start: to, end: to.plus(from.pages() + grow) });
    let to = target.start;
    let overlap = target.start.0 < from.end.0 && from.start.0 < target.end.0;
    let over = is_mapped(process, target);
    // libc's mremap with MREMAP_DONTUNMAP, and its fork, wait for each other.
    let waits = stays && !process.unborn.borrow().is_empty();
    if overlap || waits || (over && world.below(3) > 0) || !claim(process, from) {
        return;
    }
    if !claim(process, target) {
        return unclaim(process, from);
    }
    world.note(format_args!("mremap {from:?} to {target:?}, the old place stays: {stays}"));
    world.count(if stays { "mremap dontunmap" } else { "mremap" }, 1);
    let early = has_registered(process, target);
    let registered = has_registered(process, from);
    let moved = if stays { 1 } else { 2 };
    process.memory.borrow_mut().changing += u32::from(early) + moved * u32::from(registered);
    unmap_now(process, target);
    let emptied = emptied(process, from);
    move_pages(process, from, target);
    if stays {
        process.moves_that_stay.set(process.moves_that_stay.get() + 1);
        emptied.iter().for_each(|(page, like)| map_as(process, *page, like));
    } else {
        unclaim(process, from);
    }
    world.executor.step().await;
    if early {
        event(world, process, Message::Event(Event::Unmap(target))).await;
    }
    if world.below(16) == 0 {
        // Others have its processor.
        world.sleep_up_to(STOPPED_MAX_NS).await;
    }
    if registered {
        event(
            world,
            process,
            Message::Event(Event::Remap { from: from.start, to, pages: from.pages(), added: grow, stays }),
        )
        .await;
    }
    if registered && !stays {
        event(world, process, Message::Event(Event::Unmap(from))).await;
    }
    // What stays mapped is not used by another thread of a sound program before the call returns; an unmapped place is
    // free for all at once.
    if stays {
        unclaim(process, from);
        process.moves_that_stay.set(process.moves_that_stay.get() - 1);
    }
    unclaim(process, target);
}

/// The engine still has words of what was there: the event that takes them away is unread, or waits. Nobody tells it of
/// a mapping that grows into such a place where it is, so that content may be lost if that is moved on, as
/// docs/SEMANTICS.md says ("Two threads that change the same addresses in one moment").
fn is_thought_used(process: &Process<'_>, range: PageRange) -> bool {
    let engine = process.engine.borrow();
    let is_managed = |page| engine.as_ref().is_some_and(|engine| engine.is_managed(PageId(page)));
    (range.start.0..range.end.0).any(is_managed)
}

/// The mapping becomes longer where nothing is behind it. No event tells of that, and the new part is registered as the
/// rest is.
fn grow_in_place(world: &World<'_>, process: &Process<'_>, mapping: PageRange) {
    let zone_end = ZONE_START + world.options.zone_pages;
    let new =
        PageRange { start: mapping.end, end: PageId((mapping.end.0 + 1 + world.below(32)).min(zone_end)) };
    if new.start.0 >= new.end.0 || is_mapped(process, new) || is_thought_used(process, new) {
        return;
    }
    world.note(format_args!("mremap {mapping:?}: {new:?} is added"));
    world.count("mremap in place", 1);
    let like =
        process.memory.borrow().pages.get(&(mapping.end.0 - 1)).expect("what is mapped has pages").clone();
    map_as(process, new, &MappedPage { writable: true, ..like.empty_neighbour(1) });
}

/// What MREMAP_DONTUNMAP leaves: the mapping as it was, also where it is the middle of a larger one (seen of Linux
/// 6.18: it is not cut), but empty.
fn emptied(process: &Process<'_>, range: PageRange) -> Vec<(PageRange, MappedPage)> {
    let memory = process.memory.borrow();
    let emptied = |(&page, mapped): (&u64, &MappedPage)| {
        (PageRange { start: PageId(page), end: PageId(page + 1) }, mapped.empty_neighbour(0))
    };
    memory.pages.range(range.start.0..range.end.0).map(emptied).collect()
}

fn move_pages(process: &Process<'_>, from: PageRange, target: PageRange) {
    let (mut memory, mut expected) = (process.memory.borrow_mut(), process.expected.borrow_mut());
    let mut last = MappedPage::default();
    for index in 0..from.pages() {
        let page = memory.pages.remove(&(from.start.0 + index)).expect("nobody unmaps a claimed range");
        last = page.empty_neighbour(0);
        memory.pages.insert(target.start.0 + index, page);
        let what = expected.remove(&(from.start.0 + index)).expect("what is mapped is expected");
        expected.insert(target.start.0 + index, what);
    }
    for (page, distance) in (target.start.0 + from.pages()..target.end.0).zip(1..) {
        memory.pages.insert(page, last.empty_neighbour(distance));
        expected.insert(page, Expected::zeros());
    }
}

/// MADV_DONTNEED: the event is read first, and the pages are dropped some time later.
pub async fn drop_pages(world: &World<'_>, process: &Process<'_>) {
    let Some(range) = some_mapping(world, process, 64) else { return };
    // Others may go on reading and writing there, but the mapping stays until the call returns.
    if !claim(process, range) {
        return;
    }
    unclaim(process, range);
    // Through the hook, or by a way that nobody sees.
    let followed = world.below(2) == 0;
    world.note(format_args!("madvise dontneed {range:?}, followed: {followed}"));
    world.count("madvise dontneed", 1);
    if followed {
        process.dropping.borrow_mut().push(range);
    }
    let each = |change: fn(&mut Expected)| {
        let mut expected = process.expected.borrow_mut();
        expected.range_mut(range.start.0..range.end.0).for_each(|(_, expected)| change(expected));
    };
    each(Expected::begin_drop);
    // A child whose fork has not returned yet may have the pages from before or after this call.
    for child in process.unborn.borrow().iter() {
        let mut expected = child.expected.borrow_mut();
        expected.range_mut(range.start.0..range.end.0).for_each(|(_, expected)| expected.legal.push(0));
    }
    if has_registered(process, range) {
        begin_change(process);
        event(world, process, Message::Event(Event::Remove(range))).await;
        let read_at_ns = world.executor.now_ns();
        world.sleep_up_to(if followed { FOLLOWED_DELAY_MAX_NS } else { DROP_DELAY_MAX_NS }).await;
        if !followed && world.executor.now_ns() - read_at_ns > DROP_LATE_NS {
            world.fail(format!("this world dropped {range:?} too late for the engine"));
        }
    }
    for (_, page) in process.memory.borrow_mut().pages.range_mut(range.start.0..range.end.0) {
        (page.content, page.poisoned, page.shared, page.pinned) = (None, false, false, false);
    }
    world.note(format_args!("dropped {range:?}"));
    if followed {
        let mut dropping = process.dropping.borrow_mut();
        let place = dropping.iter().position(|&other| other == range).expect("it was put there above");
        dropping.swap_remove(place);
    }
    each(Expected::end_drop);
}

/// fork: the child has what was there in one instant, and starts when the event was read.
pub async fn fork<'a>(world: &Rc<World<'a>>, process: &Rc<Process<'a>>) {
    if world.alive().len() >= world.options.processes_max || process.moves_that_stay.get() > 0 {
        return;
    }
    begin_change(process);
    // The supervisor, or a debugger, may be reading the frames.
    let somebody_reads = world.below(2) == 0;
    let memory = process.memory.borrow_mut().fork(somebody_reads);
    let expected: BTreeMap<u64, Expected> = process
        .expected
        .borrow()
        .iter()
        .map(|(&page, what)| {
            (page, Expected { legal: what.legal.clone(), poisoned: what.poisoned, ..Expected::default() })
        })
        .collect();
    let child = Process::add(world, memory, expected);
    world.note(format_args!("fork: process {}", child.number));
    process.unborn.borrow_mut().push(child.clone());
    world.executor.step().await;
    event(world, process, Message::Fork(child.number as i32)).await;
    process.unborn.borrow_mut().retain(|other| other.number != child.number);
}

/// mprotect: read-only, or writable again.
pub fn protect(world: &World<'_>, process: &Process<'_>) {
    let range = some_range(world, 32);
    let writable = world.below(2) == 0;
    if !claim(process, range) {
        return;
    }
    unclaim(process, range);
    world.note(format_args!("mprotect {range:?} writable {writable}"));
    world.count("mprotect", 1);
    for (_, page) in process.memory.borrow_mut().pages.range_mut(range.start.0..range.end.0) {
        page.writable = writable;
    }
}

/// A device pins present pages, or lets them go.
pub fn pin(world: &World<'_>, process: &Process<'_>) {
    let range = some_range(world, 8);
    let pinned = world.below(2) == 0;
    world.note(format_args!("pin {range:?} {pinned}"));
    world.count("pin, unpin", 1);
    for (_, page) in process.memory.borrow_mut().pages.range_mut(range.start.0..range.end.0) {
        // Pinning makes a page exclusive, as a write does.
        let present = page.content.is_some();
        (page.pinned, page.shared) = (pinned && present, page.shared && !(pinned && present));
    }
}
