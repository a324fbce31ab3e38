//! System calls of the simulated program in which the kernel reads or writes its memory: the ranges are published as
//! hazards and made ready, and from then on until the call has ended the kernel may meet nothing that is missing or
//! protected.

use crate::engine::{FaultOutcome, Touch};
use crate::memory::{Found, Rights};
use crate::places::some_mapping;
use crate::process::{Phase, Process};
use crate::seam::Space;
use crate::world::World;
use uswap_units::{PageId, PageRange};

/// Rounds in which a page that was made ready is looked at again, as in `interpose`.
const ROUNDS_MAX: u32 = 16;

/// One call.
pub async fn system_call<'a>(world: &World<'a>, process: &Process<'a>) {
    touch_kept(world, process);
    let Some(range) = some_mapping(world, process, 8) else { return };
    let rights = process.kernel.memory.borrow().pages[&range.start().number()].rights;
    let touch = match rights {
        Rights::Read => Touch::Read,
        // The program may be wrong: then the call gets EFAULT, and nothing else happens.
        Rights::Nothing | Rights::Write => Touch::that(world.below(2) == 0),
    };
    let has_poison =
        process.oracle.expected.borrow().range(range.numbers()).any(|(_, expected)| expected.poisoned);
    if has_poison || process.oracle.is_changing(range) {
        return;
    }
    world.count(
        match (rights, touch) {
            (Rights::Nothing, _) => "system calls of what may not be touched",
            (_, Touch::Write) => "system calls that write",
            (_, Touch::Read) => "system calls that read",
        },
        1,
    );
    process.oracle.begin_use(range);
    let own = world.executor.current();
    process.kernel.hazards.borrow_mut().push((own, range));
    world.executor.step().await;
    let is_ready = make_ready(world, process, range, touch).await;
    if is_ready && rights != Rights::Nothing {
        for page in range.each() {
            world.executor.step().await;
            kernel_touches(world, process, page, touch);
        }
        if world.below(8) == 0 {
            // It waits for somebody else in between.
            world.sleep_up_to(2_000_000).await;
            kernel_touches(world, process, range.start(), touch);
        }
    }
    process.kernel.hazards.borrow_mut().retain(|(task, _)| *task != own);
    process.oracle.end_use(range);
}

/// Each page of a range is ready. False: one cannot be read, and the call gets EFAULT.
async fn make_ready<'a>(world: &World<'a>, process: &Process<'a>, range: PageRange, touch: Touch) -> bool {
    let Some(space) = process.managed_space() else { return true };
    for page in range.each() {
        if !bring_ready(world, process, &space, page, touch).await {
            return false;
        }
    }
    true
}
async fn bring_ready<'a>(
    world: &World<'a>,
    process: &Process<'a>,
    space: &Space<'a>,
    page: PageId,
    touch: Touch,
) -> bool {
    for _ in 0..ROUNDS_MAX {
        if space.is_ready(page, touch) {
            return true;
        }
        if process.fault_in(world, space, page, touch).await == FaultOutcome::Lost {
            process.oracle.poison(world, page);
            return false;
        }
        world.executor.step().await;
    }
    // Everything came home meanwhile.
    process.phase.get() == Phase::Home || space.is_ready(page, touch)
}

/// The kernel, in a call.
fn kernel_touches(world: &World<'_>, process: &Process<'_>, page: PageId, touch: Touch) {
    let found = process.kernel.memory.borrow_mut().touch(page, touch);
    match found {
        Found::Present(content) => {
            process.oracle.verify(world, page, &content);
            if touch == Touch::Write {
                let version = world.next_version();
                process.write_now(world, page, version);
            }
        }
        Found::Fault | Found::Forbidden | Found::Unmapped => {
            world.fail(format!("EFAULT: the kernel cannot touch {page:?} of process {}", process.number));
        }
    }
}

/// The kernel, at any time: the frame of a signal on a stack.
fn touch_kept(world: &World<'_>, process: &Process<'_>) {
    let kept = process.kept.borrow();
    if kept.is_empty() {
        return;
    }
    let page = kept[world.below(kept.len() as u64) as usize];
    drop(kept);
    let is_claimed = process.oracle.is_claimed(PageRange::of_pages(page, 1));
    let is_writable = process
        .kernel
        .memory
        .borrow()
        .pages
        .get(&page.number())
        .is_some_and(|mapped| mapped.rights == Rights::Write);
    if is_writable && !is_claimed {
        kernel_touches(world, process, page, Touch::Write);
    }
}
