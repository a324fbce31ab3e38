//! Reads of swap files that go on while their thread does something else: a ring, and buffers of its own.
//!
//! Must hold: nobody gets a buffer while a read into it is under way. Called by the supervisor's storer, one thread.
//! Where the system has no ring, each read is done before the call that adds it returns.

use core::ops::Range;

use super::SwapFile;
use crate::memory::AlignedBuf;
use crate::ring::{DEPTH_MAX, Operation, Request, Ring};

/// How far the reads into a buffer are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reading {
    /// At least one has not ended.
    UnderWay,
    /// All have ended, each with all its bytes.
    Ended,
    /// All have ended, and one of them failed: what is in the buffer is not known.
    Failed,
}

/// Several reads into one piece of memory.
#[derive(Debug)]
struct Buffer {
    /// Made when it is first needed.
    memory: Option<AlignedBuf>,
    under_way: u32,
    failed: bool,
}

/// Buffers of one size, and the reads into them.
#[derive(Debug)]
pub struct BackgroundReads<const BUFFERS: usize> {
    // Dropped before the memory: that waits for what is in flight.
    ring: Option<Ring>,
    buffers: [Buffer; BUFFERS],
    buffer_bytes: usize,
}

impl<const BUFFERS: usize> BackgroundReads<BUFFERS> {
    /// With buffers of so many bytes, a multiple of 4096. They take memory as far as they are read into.
    pub fn new(buffer_bytes: usize) -> BackgroundReads<BUFFERS> {
        BackgroundReads {
            ring: Ring::new(DEPTH_MAX).ok(),
            buffers: [const { Buffer { memory: None, under_way: 0, failed: false } }; BUFFERS],
            buffer_bytes,
        }
    }

    /// Begins anew with a buffer into which nobody reads. False: there is no memory for it.
    #[must_use]
    pub fn clear(&mut self, number: usize) -> bool {
        let buffer = &mut self.buffers[number];
        assert!(buffer.under_way == 0);
        buffer.failed = false;
        if buffer.memory.is_none() {
            buffer.memory = AlignedBuf::new(self.buffer_bytes).ok();
        }
        buffer.memory.is_some()
    }

    /// Adds a read from `offset` of a file into a place of a buffer that was cleared; it begins with
    /// [`BackgroundReads::submit`]. False: too many reads are under way.
    #[must_use]
    pub fn add(&mut self, number: usize, place: Range<usize>, file: &SwapFile, offset: u64) -> bool {
        let buffer = &mut self.buffers[number];
        let memory = buffer.memory.as_mut().expect("it was cleared, which makes its memory");
        let bytes = &mut memory[place];
        let Some(ring) = &mut self.ring else {
            buffer.failed |= file.read_at(bytes, offset).is_err();
            return true;
        };
        let request = Request {
            operation: Operation::Read,
            descriptor: file.fd().raw(),
            buffer: bytes.as_mut_ptr(),
            bytes: bytes.len() as u32,
            offset,
            user_data: (number as u64) << 32 | bytes.len() as u64,
        };
        // SAFETY:
        // 1. The place lies inside the buffer's memory, which is unmapped only when nothing is under way into it:
        //    `rest` looks, and the ring is dropped first and waits.
        // 2. `under_way` counts the read until its completion has been popped. Until then nobody gets a reference to
        //    the memory: `clear` refuses, so nothing is added once `submit` was called, and `content` refuses.
        let pushed = unsafe { ring.push(request) };
        buffer.under_way += u32::from(pushed);
        pushed
    }

    /// Begins all that was added to a buffer.
    pub fn submit(&mut self, number: usize) {
        let Some(ring) = &mut self.ring else { return };
        if ring.submit_and_wait(0).is_err() {
            let buffer = &mut self.buffers[number];
            buffer.under_way -= ring.forget_queued();
            buffer.failed = true;
        }
    }

    /// Takes what has ended.
    fn collect(&mut self) {
        let Some(ring) = &mut self.ring else { return };
        while let Some(completion) = ring.pop() {
            let buffer = &mut self.buffers[(completion.user_data >> 32) as usize];
            buffer.under_way -= 1;
            buffer.failed |= completion.result != Ok(completion.user_data as u32);
        }
    }

    /// How far the reads into a buffer are.
    pub fn state(&mut self, number: usize) -> Reading {
        self.collect();
        match self.buffers[number] {
            Buffer { under_way: 0, failed: false, .. } => Reading::Ended,
            Buffer { under_way: 0, failed: true, .. } => Reading::Failed,
            _ => Reading::UnderWay,
        }
    }

    /// What is in a buffer into which nobody reads.
    pub fn content(&self, number: usize) -> &[u8] {
        let buffer = &self.buffers[number];
        assert!(buffer.under_way == 0);
        buffer.memory.as_deref().unwrap_or(&[])
    }

    /// Waits until one read ends, if any is under way.
    pub fn wait(&mut self) {
        let any = self.buffers.iter().any(|buffer| buffer.under_way > 0);
        if let Some(ring) = self.ring.as_mut().filter(|_| any)
            && ring.submit_and_wait(1).is_err()
        {
            crate::thread::yield_now();
        }
        self.collect();
    }

    /// Gives the memory of those buffers back into which nobody reads.
    pub fn rest(&mut self) {
        self.collect();
        for buffer in self.buffers.iter_mut().filter(|buffer| buffer.under_way == 0) {
            buffer.memory = None;
        }
    }
}
