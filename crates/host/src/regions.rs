//! Memory that the program names: to be managed, where nothing else is ([`Managed::Regions`]), or to stay in RAM.
//!
//! Must hold: nobody uses a mapping before `manage` has returned; and a range is noted as kept before its pages are
//! brought, so that whoever activates meanwhile pins it. Called by `agent`, for programs that name memory by a library.

use crate::address_space::pages;
use crate::own_stack::on_own_stack;
use crate::process::{Managed, Phase, Process};
use core::fmt;
use uswap_core::page_word::Afterwards;
use uswap_interpose::thread;
use uswap_os::memory;

/// Why memory is not managed, or not kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotNamed {
    /// The process is part of no run, or its memory came home for good.
    NotManaged,
    /// The tables of the run have no room for it, or it is no private anonymous mapping.
    NoRoom,
    /// There is no room to note more ranges.
    TooMany,
}

impl fmt::Display for NotNamed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotNamed::NotManaged => "this process is not managed, or is not any more: the messages of the run say why",
            NotNamed::NoRoom => {
                "the page tables of the run, which has them for 128 GiB, are full: map less, or unmap what is not used"
            }
            NotNamed::TooMany => "it keeps too many ranges in RAM (some 250): keep fewer and larger ones",
        })
    }
}

impl Process {
    /// Manages a private anonymous mapping of the program that nobody uses yet. Where all is managed it is among that.
    pub fn manage(&self, start: usize, bytes: usize) -> Result<(), NotNamed> {
        let range = pages(start, bytes);
        if self.phase() == Phase::Outside {
            return Err(NotNamed::NotManaged);
        }
        if self.terms().managed == Managed::All {
            return Ok(());
        }
        on_own_stack(thread::current(), || {
            let space = self.space().ok_or(NotNamed::NotManaged)?;
            self.own().activate(space);
            let _alone = self.alone_with(space, &[range]);
            if self.phase() != Phase::Active {
                return Err(NotNamed::NotManaged);
            }
            // As `leave_unmerged`: the program may have let the kernel merge it before.
            let addresses = range.addresses();
            let _there_is_nothing_to_undo = memory::unmerge(addresses.start, addresses.len());
            if self.take(space, range) {
                return Ok(());
            }
            // Tables that were made for a part of it.
            space.drop_words(range, Afterwards::Unmanaged);
            Err(NotNamed::NoRoom)
        })
    }

    /// A range is brought, may be written without a fault, and stays in RAM: a device may use it.
    pub fn pin_region(&self, start: usize, bytes: usize) -> Result<(), NotNamed> {
        let range = pages(start, bytes);
        match self.phase() {
            Phase::Outside => return Err(NotNamed::NotManaged),
            // It has no thread of ours yet. What arms it meanwhile is seen below.
            Phase::Small => _ = self.pinned.add(range).ok_or(NotNamed::TooMany)?,
            _ => (),
        }
        if self.phase() != Phase::Small {
            on_own_stack(thread::current(), || {
                {
                    // Who activates meanwhile has seen it, or is done now.
                    let _alone = self.gate.exclusive();
                    self.pinned.add(range).ok_or(NotNamed::TooMany)?;
                }
                if self.phase() == Phase::Active {
                    self.pin_range(range);
                }
                Ok(())
            })?;
        }
        // What the kernel has of it, too. It may be mapped for reading only.
        let addresses = range.addresses();
        let _what_may_be_written = memory::populate_write(addresses.start, addresses.len());
        Ok(())
    }

    /// What [`pin_region`](Self::pin_region) keeps of a range may be evicted again.
    pub fn unpin_region(&self, start: usize, bytes: usize) {
        let range = pages(start, bytes);
        if matches!(self.phase(), Phase::Outside | Phase::Small) {
            return self.pinned.subtract(range);
        }
        on_own_stack(thread::current(), || {
            let _alone = self.gate.exclusive();
            if let Some(space) = self.space() {
                for pinned in self.pinned.iter() {
                    let part = pinned.intersection(range);
                    if !part.is_empty() {
                        space.unpin(part);
                    }
                }
            }
            self.pinned.subtract(range);
        });
    }
}
