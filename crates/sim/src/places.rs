//! Which places a simulated program names in its calls, and where its kernel puts what is to come anywhere.

use crate::process::Process;
use crate::world::World;
use uswap_units::{PageId, PageRange};

/// First page of the zone where programs map memory: not at a block border.
pub const ZONE_START: u64 = 0x7_F3C0;

/// A range of the zone.
pub fn some_range(world: &World<'_>, pages_max: u64) -> PageRange {
    let zone = world.options.zone_pages;
    let start = ZONE_START + world.below(zone);
    let pages = 1 + world.below(pages_max);
    PageRange::new(PageId::new(start), PageId::new((start + pages).min(ZONE_START + zone)))
}

/// A part of one mapping, of at most so many pages.
pub fn some_mapping(world: &World<'_>, process: &Process<'_>, pages_max: u64) -> Option<PageRange> {
    let wanted = some_range(world, pages_max);
    let memory = process.kernel.memory.borrow();
    let (&start, first) = memory.pages.range(wanted.start().number()..).next()?;
    let alike = memory.pages.range(start..start + wanted.pages()).zip(start..);
    let pages =
        alike.take_while(|((page, mapped), at)| **page == *at && mapped.flags() == first.flags()).count();
    Some(PageRange::of_pages(PageId::new(start), pages as u64))
}

/// Where a new mapping comes to be: at the place that the program names, or where the kernel finds one. That is where a
/// gap ends, and so often where another mapping ended before.
pub fn placed(world: &World<'_>, process: &Process<'_>, named: PageRange) -> PageRange {
    if !world.chance(world.options.top_down) {
        return named;
    }
    // Of all gaps the highest, or a lower one, as if those above were not there.
    let below = if world.below(2) == 0 { u64::MAX } else { named.end().number() };
    gap_for(world, process, below, named.pages()).unwrap_or(named)
}

/// The upper end of the highest gap of the zone that begins below a page and has room for so many.
pub fn gap_for(world: &World<'_>, process: &Process<'_>, below: u64, pages: u64) -> Option<PageRange> {
    let memory = process.kernel.memory.borrow();
    let mapped = memory.pages.range(ZONE_START..).map(|(&page, _)| page);
    let (mut start, mut highest) = (ZONE_START, None);
    for end in mapped.chain([ZONE_START + world.options.zone_pages]) {
        if start < below && start + pages <= end {
            highest = Some(PageRange::new(PageId::new(end - pages), PageId::new(end)));
        }
        start = end + 1;
    }
    highest
}
