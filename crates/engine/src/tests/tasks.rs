//! What goes on at the same time: each task does some operations and ends; evictors and shrinkers end with the last of
//! them.

use super::machine::{MAPPED, Machine, PAGES};
use crate::evict::Evictor;
use crate::fault::FaultOutcome;
use crate::pool::release::release_content;
use crate::space::AddressSpace;
use crate::workspace::Workspace;
use crate::world::{Backing, Touch};
use core::cell::Cell;
use core::future::{Future, poll_fn};
use core::pin::Pin;
use core::task::{Context, Poll, Waker};
use std::boxed::Box;
use std::vec::Vec;
use uswap_core::page_word::Afterwards;
use uswap_units::{PageRange, SwapId};

type Space<'a> = AddressSpace<'a, Machine>;

/// How many tasks of each kind there are.
#[derive(Clone, Copy)]
pub struct Mix {
    pub threads: u32,
    pub kernel_calls: u32,
    pub mappers: u32,
    pub evictors: u32,
    pub shrinkers: u32,
}

impl Mix {
    pub const NOTHING: Mix = Mix { threads: 0, kernel_calls: 0, mappers: 0, evictors: 0, shrinkers: 0 };
}

const OPERATIONS: u32 = 40;
/// More polls than any seed takes.
const POLLS_MAX: u32 = 4_000_000;

/// Runs a mix to its end.
pub fn run(space: &Space<'_>, mix: Mix) {
    run_beside(space, mix, async {});
}

/// The same, with one more task.
pub fn run_beside<'s>(space: &'s Space<'_>, mix: Mix, other: impl Future<Output = ()> + 's) {
    let mut tasks: Vec<Pin<Box<dyn Future<Output = ()> + 's>>> = Vec::new();
    space.world().tasks_left.set(mix.threads + mix.kernel_calls + mix.mappers);
    tasks.push(Box::pin(other));
    for _ in 0..mix.threads {
        tasks.push(Box::pin(thread(space)));
    }
    for _ in 0..mix.kernel_calls {
        let mut hazards = space.world().hazards.borrow_mut();
        hazards.push(None);
        tasks.push(Box::pin(kernel_calls(space, hazards.len() - 1)));
    }
    for _ in 0..mix.mappers {
        tasks.push(Box::pin(mapper(space)));
    }
    for index in 0..mix.evictors {
        tasks.push(Box::pin(evictor(space, index)));
    }
    for _ in 0..mix.shrinkers {
        tasks.push(Box::pin(shrinker(space)));
    }
    let mut context = Context::from_waker(Waker::noop());
    let mut polls = 0;
    while !tasks.is_empty() {
        let index = space.world().below(tasks.len() as u64) as usize;
        if tasks[index].as_mut().poll(&mut context).is_ready() {
            drop(tasks.swap_remove(index));
        }
        let some = space.world().below(PAGES as u64) as usize;
        (0..8).for_each(|number| space.world().check_protection(space, (some + number * 23) % PAGES));
        polls += 1;
        assert!(polls < POLLS_MAX, "a task waits for ever");
    }
}

/// Polls a task as far as it gets while nobody else does anything. True if it has ended.
fn advance(task: &mut Pin<Box<dyn Future<Output = ()> + '_>>) -> bool {
    let mut context = Context::from_waker(Waker::noop());
    (0..200).any(|_| task.as_mut().poll(&mut context).is_ready())
}

/// Polls a task to its end, which waits for nobody.
pub fn complete<'a>(task: impl Future<Output = ()> + 'a) {
    let mut task: Pin<Box<dyn Future<Output = ()> + 'a>> = Box::pin(task);
    while !advance(&mut task) {}
}

/// Evicts two pages around one that is missing. A thread touches that one when the evictor has gone so many steps, and
/// writes it when it has gone so many. Whether both came before the evictor's end.
pub fn evict_around(space: &Space<'_>, first: Touch, touch_at: u32, write_at: u32) -> (bool, bool) {
    let machine = space.world();
    machine.in_lockstep.set(true);
    let (mut evictor, mut workspace) = (Box::new(Evictor::new(0)), Box::new(Workspace::new()));
    for index in 0..3 {
        complete(write(space, index, &mut workspace));
    }
    while (0..MAPPED).any(|index| machine.cell(index).content.is_some()) {
        complete(async { while space.evict(&mut evictor, 40).await.pages > 0 {} });
    }
    for index in [0, 2] {
        complete(write(space, index, &mut workspace));
    }
    let step_now = Cell::new(0);
    let until = |step: u32| {
        let step_now = &step_now;
        poll_fn(move |_| if step_now.get() < step { Poll::Pending } else { Poll::Ready(()) })
    };
    let (was_touched, was_written) = (Cell::new(false), Cell::new(false));
    let mut thread: Pin<Box<dyn Future<Output = ()> + '_>> = Box::pin(async {
        until(touch_at).await;
        match first {
            Touch::Read => read(space, 1, &mut workspace).await,
            Touch::Write => write(space, 1, &mut workspace).await,
        }
        was_touched.set(true);
        until(write_at).await;
        write(space, 1, &mut workspace).await;
        was_written.set(true);
    });
    let mut has_ended = false;
    let mut evicting = Box::pin(space.evict(&mut evictor, 40));
    let mut context = Context::from_waker(Waker::noop());
    let seen = loop {
        has_ended = has_ended || advance(&mut thread);
        (0..3).for_each(|index| machine.check_protection(space, index));
        let seen = (was_touched.get(), was_written.get());
        if evicting.as_mut().poll(&mut context).is_ready() {
            break seen;
        }
        step_now.set(step_now.get() + 1);
    };
    drop(evicting);
    step_now.set(u32::MAX);
    while !has_ended {
        has_ended = advance(&mut thread);
    }
    drop(thread);
    space.disown_zspages(&evictor);
    seen
}

/// Writes pages and evicts them, with a look after each step; how many went.
pub fn evict_written(space: &Space<'_>, evictor: &mut Evictor, mut look: impl FnMut()) -> u64 {
    let machine = space.world();
    machine.in_lockstep.set(true);
    let mut workspace = Box::new(Workspace::new());
    (0..40).for_each(|index| complete(write(space, index, &mut workspace)));
    let went = Cell::new(0);
    let mut evicting: Pin<Box<dyn Future<Output = ()> + '_>> =
        Box::pin(async { went.set(space.evict(evictor, 40).await.pages) });
    let mut context = Context::from_waker(Waker::noop());
    while evicting.as_mut().poll(&mut context).is_pending() {
        look();
    }
    drop(evicting);
    space.disown_zspages(evictor);
    went.get()
}

fn end(space: &Space<'_>) {
    let left = &space.world().tasks_left;
    left.set(left.get() - 1);
}

async fn fault(space: &Space<'_>, index: usize, touch: Touch, workspace: &mut Workspace) {
    space.world().note_fault();
    let fault = space.fault(space.world().page(index), touch, workspace).await;
    let mapped = space.world().cell(index).mapped;
    assert!(
        !mapped || matches!(fault, FaultOutcome::Served(_)),
        "a fault of a mapped page is served: {fault:?}"
    );
}

/// A thread reads and writes.
async fn thread(space: &Space<'_>) {
    let mut workspace = Box::new(Workspace::new());
    let machine = space.world();
    let (mut index, mut steps_down, mut writes) = (0, 0, 0);
    for _ in 0..OPERATIONS {
        // Often the page of before, read and then written, or the next one, or pages downwards: then some come back
        // together. Some walk about and write all that they come to.
        index = match machine.below(6) {
            _ if steps_down > 0 => (index + PAGES - 1) % PAGES,
            0 | 1 => index,
            2 | 3 => (index + 1) % PAGES,
            _ => machine.below(PAGES as u64) as usize,
        };
        steps_down = if steps_down > 0 { steps_down - 1 } else { machine.below(32).saturating_sub(24) };
        writes = if writes > 0 { writes - 1 } else { machine.below(32).saturating_sub(24) };
        if writes == 0 && machine.below(2) == 0 {
            read(space, index, &mut workspace).await;
        } else {
            write(space, index, &mut workspace).await;
        }
        machine.step().await;
    }
    end(space);
}

pub async fn read(space: &Space<'_>, index: usize, workspace: &mut Workspace) {
    while space.world().cell(index).mapped {
        let cell = space.world().cell(index);
        match cell.content {
            Some(value) => return assert_eq!(value, cell.oracle, "page {index}"),
            None => fault(space, index, Touch::Read, workspace).await,
        }
        space.world().step().await;
    }
}

pub async fn write(space: &Space<'_>, index: usize, workspace: &mut Workspace) {
    let value = space.world().below(1 << 40);
    // What is one word again and again stands for less than 2^32.
    let value = if value.is_multiple_of(4) { value & 0xFFFF_FFFC } else { value };
    while space.world().cell(index).mapped {
        let is_written = space.world().change(index, |cell| {
            let may = cell.content.is_some() && !cell.protected;
            if may {
                (cell.content, cell.oracle) = (Some(value), value);
            }
            may
        });
        if is_written {
            return;
        }
        fault(space, index, Touch::Write, workspace).await;
        space.world().step().await;
    }
}

/// A thread lets the kernel read and write ranges, in calls that take their time.
async fn kernel_calls(space: &Space<'_>, own: usize) {
    let mut workspace = Box::new(Workspace::new());
    let machine = space.world();
    let mut start = 0;
    for _ in 0..OPERATIONS / 2 {
        if machine.below(3) > 0 {
            start = machine.below(MAPPED as u64 - 3) as usize;
        }
        let indices = start..start + 1 + machine.below(3) as usize;
        let touch = Touch::that(machine.below(2) == 0);
        let range = PageRange::of_pages(machine.page(start), indices.len() as u64);
        // Mappings are not changed under a call: see `mapper`.
        machine.hazards.borrow_mut()[own] = Some(range);
        machine.step().await;
        for index in indices.clone() {
            while machine.cell(index).mapped && !space.is_ready(machine.page(index), touch) {
                fault(space, index, touch, &mut workspace).await;
                machine.step().await;
            }
        }
        for index in indices {
            machine.step().await;
            let value = 4 * machine.below(1 << 30) + 1;
            machine.change(index, |cell| {
                if !cell.mapped {
                    return;
                }
                assert!(cell.content.is_some(), "EFAULT: the kernel finds page {index} missing");
                assert_eq!(cell.content, Some(cell.oracle));
                if touch == Touch::Write {
                    assert!(!cell.protected, "EFAULT: the kernel finds page {index} protected");
                    (cell.content, cell.oracle) = (Some(value), value);
                }
            });
        }
        machine.hazards.borrow_mut()[own] = None;
        machine.step().await;
    }
    end(space);
}

/// A thread drops, unmaps, maps and moves.
async fn mapper(space: &Space<'_>) {
    let machine = space.world();
    for _ in 0..OPERATIONS / 2 {
        let count = 1 + machine.below(12) as usize;
        let start = machine.below((PAGES - count) as u64) as usize;
        let target = machine.below((PAGES - count) as u64) as usize;
        let (from, to) = (start..start + count, target..target + count);
        let range_of = |start: usize| PageRange::of_pages(machine.page(start), count as u64);
        let kind = machine.below(4);
        // No word of a range that is moved, or mapped anew, is being worked on.
        let ranges = if kind == 0 { [range_of(start); 2] } else { [range_of(start), range_of(target)] };
        loop {
            machine.lock_exclusive().await;
            let locked = ranges.iter().find_map(|range| space.first_locked(*range)).filter(|_| kind > 0);
            let Some(page) = locked else { break };
            machine.unlock_exclusive();
            space.wait_unlocked(page).await;
            machine.step().await;
        }
        let is_busy = |indices: core::ops::Range<usize>| {
            let named = |index: usize| {
                let page = machine.page(index);
                machine.hazards.borrow().iter().flatten().any(|range| range.contains(page))
            };
            indices.clone().any(named)
        };
        if !is_busy(from.clone()) && !is_busy(to.clone()) {
            change_mapping(space, kind, from, to);
        }
        machine.unlock_exclusive();
        machine.step().await;
    }
    end(space);
}

fn change_mapping(space: &Space<'_>, kind: u64, from: core::ops::Range<usize>, to: core::ops::Range<usize>) {
    let machine = space.world();
    let all_mapped = |indices: &core::ops::Range<usize>, mapped: bool| {
        indices.clone().all(|index| machine.cell(index).mapped == mapped)
    };
    let range = PageRange::of_pages(machine.page(from.start), from.len() as u64);
    let clear = |index: usize, mapped: bool| {
        machine.change(index, |cell| {
            (cell.mapped, cell.content, cell.protected, cell.oracle) = (mapped, None, false, 0);
        });
    };
    match kind {
        // madvise(MADV_DONTNEED)
        0 if all_mapped(&from, true) => {
            from.for_each(|index| clear(index, true));
            space.drop_words(range, Afterwards::StillManaged);
        }
        1 if all_mapped(&from, true) => {
            from.for_each(|index| clear(index, false));
            space.drop_words(range, Afterwards::Unmanaged);
        }
        2 if all_mapped(&from, false) => {
            from.for_each(|index| clear(index, true));
            space.adopt(range).expect("there is room");
        }
        // mremap: the kernel forgets protection.
        3 if all_mapped(&from, true) && all_mapped(&to, false) => {
            let target = machine.page(to.start);
            for (old, new) in from.zip(to) {
                let cell = machine.cell(old);
                clear(old, false);
                machine.change(new, |moved| (*moved = cell, moved.protected = false).1);
            }
            space.carry(range, target).expect("there is room");
        }
        _ => (),
    }
}

async fn evictor(space: &Space<'_>, index: u32) {
    let mut evictor = Box::new(Evictor::new(index));
    while space.world().tasks_left.get() > 0 {
        let pages_max = 1 + space.world().below(40) as u32;
        let evicted = space.evict(&mut evictor, pages_max).await;
        assert!(evicted.pages <= evicted.looked);
        assert!(!evicted.no_room, "there is room for all pages");
        if space.world().below(4) == 0 {
            space.disown_zspages(&evictor);
        }
        for _ in 0..space.world().below(20) {
            space.world().step().await;
        }
    }
    space.disown_zspages(&evictor);
}

/// Gives up copies that nobody depends on.
async fn shrinker(space: &Space<'_>) {
    let table = space.segment().swap_table();
    while space.world().tasks_left.get() > 0 {
        for id in (1..table.touched_entries()).map(SwapId::new) {
            if space.world().below(20) == 0
                && let Some(content) = table.discard_retained(id)
            {
                release_content(space.segment(), space.world(), content);
            }
        }
        for _ in 0..10 {
            space.world().step().await;
        }
    }
}
