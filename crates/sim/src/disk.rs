//! The disks of the simulated world, one for each swap file, with the faults of each.

use crate::options::DiskFaults;
use std::ops::Range;
use uswap_units::PAGE_BYTES;

/// Content of one file, and how often it lied.
pub struct Disk {
    /// What goes wrong.
    pub faults: DiskFaults,
    bytes: Vec<u8>,
    /// Reads that gave an error or wrong bytes.
    pub bad_reads: u64,
    /// Parts that are not what was written: a wrong bit, or old bytes.
    broken: Vec<Range<usize>>,
}

impl Disk {
    /// A file of `slots` slots.
    pub fn new(slots: u64, faults: DiskFaults) -> Disk {
        Disk { faults, bytes: vec![0xAA; slots as usize * PAGE_BYTES], bad_reads: 0, broken: Vec::new() }
    }

    /// The file is gone: who still reads it reads something else.
    pub fn forget(&mut self) {
        self.bytes.fill(0x55);
        self.broken.clear();
    }

    /// Reads a range. Whether something in it is not what was written.
    pub fn read(&self, range: Range<usize>, out: &mut [u8]) -> bool {
        out.copy_from_slice(&self.bytes[range.clone()]);
        self.broken.iter().any(|part| part.start < range.end && range.start < part.end)
    }
    /// Writes at `start`.
    pub fn write(&mut self, start: usize, bytes: &[u8]) {
        let range = start..start + bytes.len();
        self.bytes[range.clone()].copy_from_slice(bytes);
        self.now_right(range);
    }
    /// A range is written, and the old bytes stay.
    pub fn lose(&mut self, range: Range<usize>) {
        self.broken.push(range);
    }
    /// One bit of a byte is wrong from now on.
    pub fn flip(&mut self, at: usize, bit: u32) {
        self.bytes[at] ^= 1 << bit;
        self.broken.push(at..at + 1);
    }
    /// A range reads as zeros from now on.
    pub fn punch(&mut self, range: Range<usize>) {
        self.bytes[range.clone()].fill(0);
        self.now_right(range);
    }

    /// What was wrong in `range` is no more; parts of what was lost beside it stay.
    fn now_right(&mut self, range: Range<usize>) {
        let rests = core::mem::take(&mut self.broken)
            .into_iter()
            .flat_map(|part| [part.start..part.end.min(range.start), part.start.max(range.end)..part.end]);
        self.broken = rests.filter(|rest| !rest.is_empty()).collect();
    }
}
