//! How the swap files are read, written and punched, with what may go wrong on the way.

use crate::engine::FileError;
use crate::options::DiskFaults;
use crate::world::World;
use std::ops::Range;
use uswap_core::files::{FileRecord, FileState};
use uswap_units::{SlotId, SwapOffset};

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
        let faults = self.disks.borrow()[file.id.index()].faults;
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
        let disk = &mut disks[file.id.index()];
        let range = start..start + out.len();
        let mut bad = disk.read(range, out);
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
        let disk = &mut disks[file.id.index()];
        disk.punch(range);
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
            let disk = &mut disks[file.id.index()];
            if lost {
                disk.lose(start..start + length);
                self.count("disk: writes that were lost", 1);
            } else {
                disk.write(start, &buffer[..length]);
                if length > 0 && self.chance(faults.write_flip) {
                    let at = start + self.below(length as u64) as usize;
                    disk.flip(at, self.below(8) as u32);
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

    /// Whether there is something to read, for a process that has these files open, a bit each, or for the
    /// supervisor, which has all.
    pub fn is_to_be_read(&self, offset: SwapOffset, open: Option<u64>) -> Result<(), FileError> {
        let Some((file, _)) = self.segment.slots().files().locate(offset) else { return Ok(()) };
        let is_open = open.is_none_or(|open| open & 1 << file.id.number() != 0);
        match (file.state, is_open) {
            // Who reads what was moved meanwhile has it open or not.
            (FileState::Gone, true) if self.below(2) == 0 => Ok(()),
            (FileState::Gone, _) => Err(FileError::Short),
            (_, true) => Ok(()),
            (_, false) => {
                self.fail(format!("somebody reads {:?}, and has not opened it", file.id));
                Err(FileError::Short)
            }
        }
    }
}
