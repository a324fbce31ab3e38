//! Memory that is to be there at once: `MAP_POPULATE`, `MADV_POPULATE_READ`, `MADV_POPULATE_WRITE`.
//!
//! A new mapping is filled as far as there is room, and the rest of it comes when it is touched, through our faults:
//! the kernel would fill all of it, in one call that nobody can slow down, however small the budget is. `mmap` promises
//! no more (mmap(2): it does not fail if the mapping cannot be populated).
//!
//! Must hold: a new mapping is filled before it is registered, since the kernel could not fill it then, and no further
//! than there is room. Called by [`crate::mappings`].

use crate::process::{Phase, Process, Space};
use crate::syscalls::{
    MAP_ANONYMOUS, MAP_GROWSDOWN, MAP_HUGETLB, MAP_LOCKED, MAP_NONBLOCK, MAP_POPULATE, MAP_PRIVATE,
    MAP_STACK, PROT_WRITE, is_error, make,
};
use uswap_engine::world::Touch;
use uswap_interpose::Call;
use uswap_interpose::buffers::Residency;
use uswap_os::memory;
use uswap_os::sys::{Errno, abi};
use uswap_units::{PAGE_BYTES, PageRange};

/// A part that is populated is tried so often at least, since a page of it may be back already when it is looked at;
/// and so often at most.
const POPULATE_ROUNDS_MIN: u32 = 3;
const POPULATE_ROUNDS_MAX: u32 = 64;

/// A new mapping is filled in parts of so much: between two, others are seen to fill theirs. A huge page.
const FILL_BYTES: usize = 2 << 20;

/// The call as it is made, and how many bytes of its mapping are to be filled then. What must be there whatever that
/// costs (locked memory), and what is no private anonymous memory that may be written, is left to the kernel.
pub(crate) fn without_populate(call: &Call) -> (Call, usize) {
    const WANTED: usize = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
    const OTHERS: usize = MAP_LOCKED | MAP_HUGETLB | MAP_STACK | MAP_GROWSDOWN | MAP_NONBLOCK;
    let [_, bytes, protection, flags, ..] = call.arguments;
    let is_ours = call.number as u32 == abi::__NR_mmap
        && flags & (WANTED | OTHERS) == WANTED
        && protection & PROT_WRITE != 0;
    let mut call = *call;
    if !is_ours {
        return (call, 0);
    }
    call.arguments[3] &= !MAP_POPULATE;
    (call, bytes)
}

/// By how much an advice may let the memory grow that was mapped long ago.
pub(crate) fn bytes_to_populate(call: &Call) -> usize {
    let [_, bytes, advice, ..] = call.arguments;
    let is_populate = call.number as u32 == abi::__NR_madvise && advice as u32 == abi::MADV_POPULATE_WRITE;
    if is_populate { bytes } else { 0 }
}

impl Process {
    /// Fills a mapping that was made, from its start, while there is room; `answer` is what the kernel said. It is not
    /// registered yet.
    pub(crate) fn fill_if_room(&self, answer: isize, bytes: usize) {
        if is_error(answer) || bytes == 0 {
            return;
        }
        let (start, end) = (answer as usize, (answer as usize).saturating_add(bytes));
        let part_end = |at: usize| (at + 1).next_multiple_of(FILL_BYTES).min(end);
        let mut at = start;
        while at < end {
            let bytes = part_end(at) - at;
            if !self.has_room_for(bytes) || memory::populate_write(at, bytes).is_err() {
                return;
            }
            if let Some(space) = self.space() {
                space.note_resident(bytes.div_ceil(PAGE_BYTES) as u32);
            }
            at += bytes;
        }
    }

    /// Whether so much may come without anything having to go. A process without a place in the run is small.
    fn has_room_for(&self, bytes: usize) -> bool {
        self.space().is_none_or(|space| {
            let marks = space.watermarks();
            let level = if self.phase() == Phase::Active { marks.low } else { marks.register };
            space.segment().budget().used().bytes().saturating_add(bytes as u64) <= level.bytes()
        })
    }

    /// The kernel answers EFAULT at a page that is evicted or protected. It goes in parts that fit into the budget, and
    /// a part in which an evictor was faster is made again.
    pub(crate) fn populate(
        &self,
        space: &'static Space,
        call: &Call,
        range: PageRange,
        touch: Touch,
    ) -> isize {
        let [start, bytes, ..] = call.arguments;
        if range.start() >= range.end()
            || !start.is_multiple_of(PAGE_BYTES)
            || start.checked_add(bytes).is_none()
        {
            return make(call);
        }
        let part_pages = self.part_bytes() / PAGE_BYTES as u64;
        let mut at = range.start();
        loop {
            let end = at.plus(part_pages).min(range.end());
            let part = PageRange::new(at, end);
            let mut call = *call;
            let addresses = part.addresses();
            [call.arguments[0], call.arguments[1]] = [addresses.start, addresses.len()];
            let mut round = 0;
            let answer = loop {
                self.fault_in_range(part, touch);
                let answer = make(&call);
                let is_ours = || part.each().any(|page| !space.is_ready(page, touch));
                round += 1;
                let is_fault = answer == Errno::EFAULT.as_answer();
                if !is_fault || round == POPULATE_ROUNDS_MAX || (round > POPULATE_ROUNDS_MIN && !is_ours()) {
                    break answer;
                }
            };
            if answer != 0 || end == range.end() {
                return answer;
            }
            at = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mmap(protection: u32, flags: usize) -> Call {
        let arguments = [0, 1 << 20, protection as usize, flags, usize::MAX, 0];
        Call { number: abi::__NR_mmap as usize, arguments }
    }

    #[test]
    fn only_private_memory_that_may_be_written_is_filled_by_us() {
        const FILLED: usize = MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE;
        let written = abi::PROT_READ | abi::PROT_WRITE;
        let (call, bytes) = without_populate(&mmap(written, FILLED));
        assert_eq!((call.arguments[3], bytes), (MAP_PRIVATE | MAP_ANONYMOUS, 1 << 20));
        let shared = MAP_ANONYMOUS | MAP_POPULATE | abi::MAP_SHARED as usize;
        for (protection, flags) in [
            (abi::PROT_READ, FILLED),
            (written, MAP_PRIVATE | MAP_ANONYMOUS),
            (written, FILLED | MAP_LOCKED),
            (written, FILLED | MAP_HUGETLB),
            (written, FILLED | MAP_NONBLOCK),
            (written, MAP_PRIVATE | MAP_POPULATE),
            (written, shared),
        ] {
            let (call, bytes) = without_populate(&mmap(protection, flags));
            assert_eq!((call.arguments[3], bytes), (flags, 0));
        }
    }
}
