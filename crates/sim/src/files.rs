//! Swap files that come and go while programs run.
//!
//! What must hold: a process reads a file only if it has it open; a file takes writes only when all have; and no swap
//! word names a place in a file that is gone.

use crate::disk::Disk;
use crate::seam::SimSupervisor;
use crate::world::{Emptying, World};
use std::rc::Rc;
use uswap_core::budget::Signal;
use uswap_core::files::FileState;
use uswap_core::mm::HaveOpen;
use uswap_core::swap_word::Content;
use uswap_engine::writeback::Shrinker;
use uswap_engine::writeback::drain::{Drain, Drained};
use uswap_units::limits::SWAP_FILES_MAX;
use uswap_units::{FileId, PAGE_BYTES, SwapId};

/// A process follows so soon, or is said not to answer.
const PATIENCE_NS: u64 = 60_000_000;

/// Lets files come and go.
pub async fn change<'a>(world: Rc<World<'a>>) {
    for _ in 0..world.options.file_changes {
        world.sleep_up_to(20_000_000).await;
        if world.stopping.get() {
            return;
        }
        let in_use: Vec<FileId> = world.segment.slots().files().in_use().map(|file| file.id).collect();
        if world.below(3) == 0 || in_use.is_empty() {
            add(&world).await;
        } else {
            drain(&world, in_use[world.below(in_use.len() as u64) as usize]).await;
        }
    }
}

async fn add(world: &World<'_>) {
    let slots = world.segment.slots();
    let file = world.options.new_file(&mut world.prng.borrow_mut());
    if slots.files().all().count() == SWAP_FILES_MAX || slots.largest_to_add() < file.spec.slots {
        return;
    }
    world.disks.borrow_mut().push(Disk::new(file.spec.slots, file.faults));
    let id = slots.add_file_to_open(file.spec).expect("there is room for it");
    world.note(format_args!("{id:?} comes"));
    world.raise(Signal::Pressure);
    let until = world.executor.now_ns() + PATIENCE_NS;
    let opened = loop {
        match world.segment.mms().have_open(id) {
            HaveOpen::All => break FileState::InUse,
            HaveOpen::Refused(_) => break FileState::Gone,
            HaveOpen::NotYet(_) if world.executor.now_ns() > until || world.stopping.get() => {
                break FileState::Gone;
            }
            HaveOpen::NotYet(_) => world.sleep_up_to(200_000).await,
        }
    };
    world.note(format_args!("{id:?}: {opened:?}"));
    world.count(if opened == FileState::InUse { "files added" } else { "files that not all could open" }, 1);
    assert!(slots.files().change_state(id, FileState::Opening, opened));
}

async fn drain(world: &World<'_>, file: FileId) {
    let files = world.segment.slots().files();
    if !files.change_state(file, FileState::InUse, FileState::Draining) {
        return;
    }
    world.note(format_args!("{file:?} is drained"));
    *world.emptying.borrow_mut() = Emptying::Of(Box::new(Drain::of(file)));
    world.raise(Signal::Shrink);
    let drained = loop {
        if let Emptying::Done(drained) = *world.emptying.borrow() {
            break drained;
        }
        if world.stopping.get() {
            return;
        }
        world.sleep_up_to(500_000).await;
    };
    *world.emptying.borrow_mut() = Emptying::Nothing;
    world.note(format_args!("{file:?}: {drained:?}"));
    if drained != Drained::All {
        assert!(files.change_state(file, FileState::Draining, FileState::InUse));
        return world.count("files that could not be emptied", 1);
    }
    world.count("files emptied", 1);
    assert!(files.change_state(file, FileState::Draining, FileState::Gone));
    no_word_names(world, file);
    world.disks.borrow_mut()[file.index()].forget();
    world.raise(Signal::Pressure);
}

fn no_word_names(world: &World<'_>, file: FileId) {
    let (table, files) = (world.segment.swap_table(), world.segment.slots().files());
    for id in (1..table.entry_count()).map(SwapId::new) {
        if let Content::Slot { offset, .. } = table.load(id).content()
            && files.of_slot(offset.slot()).is_none_or(|of| of.id == file)
        {
            world.fail(format!("{id:?} names a place in {file:?}, which is gone"));
        }
    }
}

/// A batch of the file that is being emptied; false if there is none.
pub async fn empty(world: &World<'_>, shrinker: &mut Shrinker, buffer: &mut [u8]) -> bool {
    let taken = world.emptying.replace(Emptying::Nothing);
    let Emptying::Of(mut of) = taken else {
        *world.emptying.borrow_mut() = taken;
        return false;
    };
    let bytes_max = PAGE_BYTES * (1 + world.below(64) as usize);
    let supervisor = SimSupervisor { world };
    let before = of.moved;
    let drained = shrinker.drain_batch(world.segment, &supervisor, &mut buffer[..bytes_max], &mut of).await;
    world.note(format_args!("a batch of {:?}: {drained:?}, {} moved", of.file(), of.moved));
    world.count("pages moved to other files", of.moved - before);
    *world.emptying.borrow_mut() =
        if drained == Drained::Some { Emptying::Of(of) } else { Emptying::Done(drained) };
    true
}
