//! The disks of the made-up world, one for each swap file, with the faults of each.

use crate::engine::FileError;
use crate::options::DiskFaults;
use crate::world::World;
use std::ops::Range;
use uswap_core::files::FileRecord;
use uswap_units::{PAGE_BYTES, SlotId, SwapOffset};

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

    /// What was wrong in `range` is no more; parts of what was lost beside it stay.
    fn now_right(&mut self, range: Range<usize>) {
        let rests = core::mem::take(&mut self.broken)
            .into_iter()
            .flat_map(|part| [part.start..part.end.min(range.start), part.start.max(range.end)..part.end]);
        self.broken = rests.filter(|rest| !rest.is_empty()).collect();
    }
}

const EIO: i32 = 5;

impl World<'_> {
    async fn disk_delay(&self, faults: DiskFaults) {
        let slow = if self.chance(faults.slow) { 100 } else { 1 };
        self.executor.sleep((5_000 + self.below(60_000)) * slow).await;
    }

    /// The file of a byte that a swap word names, the place in it, and what may go wrong there. Something that belongs
    /// to no file, or to two, is a failure.
    fn locate(&self, offset: SwapOffset, bytes: u64) -> Option<(FileRecord, usize, DiskFaults)> {
        let files = self.segment.slots().files();
        let place = files.locate(offset);
        let end = offset.plus(bytes).slot();
        let Some((file, start)) = place.filter(|(file, _)| end <= file.slots().end) else {
            self.fail(format!("{bytes} bytes at {offset:?} are not in one file"));
            return None;
        };
        let faults = self.disks.borrow()[usize::from(file.id.0)].faults;
        Some((file, start.bytes() as usize, faults))
    }

    /// Reads; the bytes are those at the end of the wait.
    pub async fn read_file(&self, offset: SwapOffset, out: &mut [u8]) -> Result<(), FileError> {
        let Some((file, start, faults)) = self.locate(offset, out.len() as u64) else {
            return Err(FileError::Short);
        };
        self.disk_delay(faults).await;
        self.note(format_args!("read {} bytes of {:?} at {start}", out.len(), file.id));
        let mut disks = self.disks.borrow_mut();
        let disk = &mut disks[usize::from(file.id.0)];
        let range = start..start + out.len();
        out.copy_from_slice(&disk.bytes[range.clone()]);
        let mut bad = disk.broken.iter().any(|part| part.start < range.end && range.start < part.end);
        let error = self.chance(faults.read_error);
        if self.chance(faults.read_flip) {
            let at = self.below(out.len() as u64) as usize;
            out[at] ^= 1 << self.below(8);
            bad = true;
            self.count("disk: wrong bits in a read", 1);
        }
        disk.bad_reads += u64::from(bad || error);
        if error {
            self.count("disk: read errors", 1);
            return Err(if self.below(4) == 0 { FileError::Short } else { FileError::Io(EIO) });
        }
        Ok(())
    }

    /// The blocks of a range go back to the file system: it reads zeros from then on.
    pub fn punch_file(&self, bytes: Range<SwapOffset>) {
        self.note(format_args!("a hole in the file at {bytes:?}"));
        self.count("disk: holes", 1);
        let slots = bytes.start.slot()..bytes.end.slot();
        if SlotId::each(slots).any(|slot| self.segment.slots().count(slot) != 0) {
            self.fail(format!("something lives in {bytes:?} of the file, and its blocks are given back"));
        }
        let Some((file, start, _)) = self.locate(bytes.start, bytes.end.since(bytes.start)) else { return };
        let range = start..start + bytes.end.since(bytes.start) as usize;
        let mut disks = self.disks.borrow_mut();
        let disk = &mut disks[usize::from(file.id.0)];
        disk.bytes[range.clone()].fill(0);
        disk.now_right(range);
    }

    /// Writes; a failed write leaves garbage in part of the range.
    pub async fn write_file(&self, offset: SwapOffset, buffer: &[u8]) -> Result<(), FileError> {
        let Some((file, start, faults)) = self.locate(offset, buffer.len() as u64) else {
            return Err(FileError::Short);
        };
        self.disk_delay(faults).await;
        self.note(format_args!("write {} bytes of {:?} at {start}", buffer.len(), file.id));
        let fails = self.chance(faults.write_error);
        let full = self.chance(faults.full);
        let length = if fails || full { self.below(buffer.len() as u64 + 1) as usize } else { buffer.len() };
        let lost = self.chance(faults.write_lost);
        {
            let mut disks = self.disks.borrow_mut();
            let disk = &mut disks[usize::from(file.id.0)];
            if lost {
                disk.broken.push(start..start + length);
                self.count("disk: writes that were lost", 1);
            } else {
                disk.bytes[start..start + length].copy_from_slice(&buffer[..length]);
                disk.now_right(start..start + length);
                if length > 0 && self.chance(faults.write_flip) {
                    let at = start + self.below(length as u64) as usize;
                    disk.bytes[at] ^= 1 << self.below(8);
                    disk.broken.push(at..at + 1);
                    self.count("disk: wrong bits for ever", 1);
                }
            }
        }
        self.executor.sleep(self.below(20_000)).await;
        match (fails, full) {
            (true, _) => {
                self.count("disk: write errors", 1);
                Err(if self.below(3) == 0 { FileError::Short } else { FileError::Io(EIO) })
            }
            (_, true) => {
                self.count("disk: full", 1);
                Err(FileError::Full)
            }
            _ => Ok(()),
        }
    }
}
