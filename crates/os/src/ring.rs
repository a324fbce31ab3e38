//! A small io_uring: reads and writes of one file, several in flight, one thread.
//!
//! What must hold: a buffer named in a request stays where it is, untouched, until its completion has been popped.
//! [`crate::file`] keeps that for its callers by waiting for all it has sent. Where the kernel or a container forbids
//! io_uring, [`Ring::new`] says so and pread/pwrite do the work.
//!
//! Called by [`crate::file`] and [`crate::probe`], and by the supervisor.

use core::sync::atomic::{AtomicU32, Ordering};

use linux_raw_sys::io_uring as uring;

use crate::fd::Fd;
use crate::sys::{self, Errno, Result, abi};
use crate::without::{KernelFeature, is_switched_off};

/// Most requests in flight.
pub const DEPTH_MAX: u32 = 64;

const SQE_BYTES: usize = size_of::<uring::io_uring_sqe>();
const CQE_BYTES: usize = 16;

/// A finished request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completion {
    /// What was given with the request.
    pub user_data: u64,
    /// Bytes done, which may be fewer than asked for, or why none.
    pub result: Result<u32>,
}

/// What a request does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// From the file into the buffer.
    Read,
    /// From the buffer into the file.
    Write,
}

/// One request.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// Which way.
    pub operation: Operation,
    /// Descriptor number of the file.
    pub descriptor: i32,
    /// First byte of the buffer.
    pub buffer: *mut u8,
    /// Length in bytes.
    pub bytes: u32,
    /// Where in the file.
    pub offset: u64,
    /// Given back with the completion.
    pub user_data: u64,
}

/// A shared mapping of the ring's descriptor, unmapped when dropped.
#[derive(Debug)]
struct Window {
    start: usize,
    bytes: usize,
}

impl Window {
    fn map(fd: &Fd, bytes: usize, offset: u32) -> Result<Window> {
        let start =
            crate::memory::map_shared_bytes(fd, offset as u64, bytes, crate::memory::Access::ReadWrite)?;
        // A forked child must not find the parent's ring in its memory.
        let _ = crate::memory::no_fork(start, bytes);
        Ok(Window { start, bytes })
    }

    fn word(&self, offset: u32) -> &AtomicU32 {
        debug_assert!(offset as usize + 4 <= self.bytes);
        // SAFETY:
        // 1. The kernel gave the offset: it lies inside the window and is aligned to 4. The window lives as long as
        //    `self`.
        // 2. The kernel changes the word while we look; atomics allow that.
        unsafe { AtomicU32::from_ptr((self.start + offset as usize) as *mut u32) }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY:
        // 1. The window is ours and `self` was the only way to it.
        let _ = unsafe { crate::memory::unmap(self.start, self.bytes) };
    }
}

/// A ring for one thread of one process.
///
/// A forked child must neither use nor drop its copy (`core::mem::forget` it): the windows are not mapped there.
#[derive(Debug)]
pub struct Ring {
    fd: Fd,
    rings: Window,
    entries: Window,
    parameters: Offsets,
    /// Pushed and not yet submitted.
    queued: u32,
    /// Submitted and not yet popped.
    in_flight: u32,
}

#[derive(Debug)]
struct Offsets {
    depth: u32,
    sq_tail: u32,
    sq_mask: u32,
    sq_array: u32,
    cq_head: u32,
    cq_tail: u32,
    cq_mask: u32,
    cq_entries: u32,
}

impl Ring {
    /// A ring for up to `depth` requests in flight (1..=[`DEPTH_MAX`]). ENOSYS or EPERM where it is not allowed,
    /// EOPNOTSUPP on kernels before 5.6.
    pub fn new(depth: u32) -> Result<Ring> {
        if is_switched_off(KernelFeature::IoUring) {
            return Err(Errno::ENOSYS);
        }
        if depth == 0 || depth > DEPTH_MAX {
            return Err(Errno::EINVAL);
        }
        // SAFETY:
        // 1. All fields are integers: zeros are a valid value.
        let mut parameters: uring::io_uring_params = unsafe { core::mem::zeroed() };
        // SAFETY:
        // 1. The kernel reads and writes one structure of this layout.
        let number = unsafe {
            sys::syscall3(abi::__NR_io_uring_setup, depth as usize, &raw mut parameters as usize, 0)
        }?;
        let fd = Fd::from_raw(number as i32);
        // RW_CUR_POS came with the kernel that also brought the plain READ and WRITE requests (5.6).
        let needed = uring::IORING_FEAT_SINGLE_MMAP | uring::IORING_FEAT_RW_CUR_POS;
        if parameters.features & needed != needed {
            return Err(Errno::EOPNOTSUPP);
        }
        let (sq, cq) = (&parameters.sq_off, &parameters.cq_off);
        let sq_bytes = sq.array as usize + parameters.sq_entries as usize * 4;
        let cq_bytes = cq.cqes as usize + parameters.cq_entries as usize * CQE_BYTES;
        let rings = Window::map(&fd, sq_bytes.max(cq_bytes), uring::IORING_OFF_SQ_RING)?;
        let entries = Window::map(&fd, parameters.sq_entries as usize * SQE_BYTES, uring::IORING_OFF_SQES)?;
        let offsets = Offsets {
            depth: parameters.sq_entries,
            sq_tail: sq.tail,
            sq_mask: rings.word(sq.ring_mask).load(Ordering::Relaxed),
            sq_array: sq.array,
            cq_head: cq.head,
            cq_tail: cq.tail,
            cq_mask: rings.word(cq.ring_mask).load(Ordering::Relaxed),
            cq_entries: cq.cqes,
        };
        Ok(Ring { fd, rings, entries, parameters: offsets, queued: 0, in_flight: 0 })
    }

    /// Requests that may be in flight at once.
    pub fn depth(&self) -> u32 {
        self.parameters.depth
    }

    /// Requests pushed and not yet popped.
    pub fn in_flight(&self) -> u32 {
        self.queued + self.in_flight
    }

    /// Queues a request; `false` when the ring is full.
    ///
    /// # Safety
    /// The buffer is valid for the operation, and nobody else uses it, until its completion has been popped.
    pub unsafe fn push(&mut self, request: Request) -> bool {
        if self.in_flight() >= self.parameters.depth {
            return false;
        }
        let tail_word = self.rings.word(self.parameters.sq_tail);
        // Relaxed: only this thread writes the tail.
        let tail = tail_word.load(Ordering::Relaxed);
        let index = tail & self.parameters.sq_mask;
        let opcode = match request.operation {
            Operation::Read => uring::io_uring_op::IORING_OP_READ as u8,
            Operation::Write => uring::io_uring_op::IORING_OP_WRITE as u8,
        };
        // SAFETY:
        // 1. All fields are integers: zeros are a valid value.
        let mut entry: uring::io_uring_sqe = unsafe { core::mem::zeroed() };
        entry.opcode = opcode;
        entry.fd = request.descriptor;
        entry.__bindgen_anon_1.off = request.offset;
        entry.__bindgen_anon_2.addr = request.buffer as u64;
        entry.len = request.bytes;
        entry.user_data = request.user_data;
        let place = (self.entries.start + index as usize * SQE_BYTES) as *mut uring::io_uring_sqe;
        // SAFETY:
        // 1. `index` is below the number of entries by the mask, so the place lies in the window, aligned to 64.
        // 2. Fewer than `depth` requests are out, so the kernel has consumed what was there.
        unsafe { place.write(entry) };
        self.rings.word(self.parameters.sq_array + index * 4).store(index, Ordering::Relaxed);
        // Release pairs with the kernel's acquire: the entry is seen with the tail.
        tail_word.store(tail.wrapping_add(1), Ordering::Release);
        self.queued += 1;
        true
    }

    /// Submits what is queued and waits until `wanted` completions are there (fewer when fewer are in flight).
    pub fn submit_and_wait(&mut self, wanted: u32) -> Result<()> {
        loop {
            let wanted_now = wanted.min(self.in_flight());
            if self.queued == 0 && self.ready() >= wanted_now {
                return Ok(());
            }
            // SAFETY:
            // 1. No signal mask is given, the other arguments are numbers.
            // 2. What the queued requests do to memory was promised at `push`.
            let answer = unsafe {
                sys::syscall4(
                    abi::__NR_io_uring_enter,
                    self.fd.raw() as usize,
                    self.queued as usize,
                    wanted_now as usize,
                    uring::IORING_ENTER_GETEVENTS as usize,
                )
            };
            match answer {
                Ok(submitted) => {
                    let submitted = (submitted as u32).min(self.queued);
                    if submitted == 0 && self.queued > 0 && self.ready() == 0 {
                        return Err(Errno::EAGAIN);
                    }
                    self.queued -= submitted;
                    self.in_flight += submitted;
                }
                Err(Errno::EINTR) => {}
                // No memory for a request now: once something has finished, there may be.
                Err(Errno::EAGAIN | Errno::EBUSY) if self.in_flight > 0 => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Takes a finished request.
    pub fn pop(&mut self) -> Option<Completion> {
        if self.ready() == 0 {
            return None;
        }
        let head_word = self.rings.word(self.parameters.cq_head);
        // Relaxed: only this thread writes the head.
        let head = head_word.load(Ordering::Relaxed);
        let index = (head & self.parameters.cq_mask) as usize;
        let place = self.rings.start + self.parameters.cq_entries as usize + index * CQE_BYTES;
        // SAFETY:
        // 1. `index` is below the number of completions by the mask, so the place lies in the window, aligned to 8.
        // 2. The tail is beyond the head (read with acquire in `ready`): the kernel has written it and leaves it until
        //    the head moves.
        let (user_data, result) =
            unsafe { ((place as *const u64).read(), ((place + 8) as *const i32).read()) };
        // Release pairs with the kernel's acquire: it writes there again only after we have read.
        head_word.store(head.wrapping_add(1), Ordering::Release);
        self.in_flight = self.in_flight.saturating_sub(1);
        let result =
            if result < 0 { Err(Errno::from_number(result.unsigned_abs())) } else { Ok(result as u32) };
        Some(Completion { user_data, result })
    }

    /// Takes back what was pushed and not accepted by the kernel; answers how many requests. Their buffers are free
    /// again.
    pub fn forget_queued(&mut self) -> u32 {
        let queued = core::mem::take(&mut self.queued);
        let tail = self.rings.word(self.parameters.sq_tail);
        // The kernel reads the tail only inside `submit_and_wait`, which is not running. Release as in `push`, though
        // there is nothing new to be seen.
        tail.store(tail.load(Ordering::Relaxed).wrapping_sub(queued), Ordering::Release);
        queued
    }

    /// Completions that wait to be popped.
    fn ready(&self) -> u32 {
        // Acquire pairs with the kernel's release: completions up to the tail are written.
        let tail = self.rings.word(self.parameters.cq_tail).load(Ordering::Acquire);
        tail.wrapping_sub(self.rings.word(self.parameters.cq_head).load(Ordering::Relaxed))
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // The kernel may still write into buffers of requests in flight: wait for them.
        self.forget_queued();
        while self.in_flight > 0 {
            if self.pop().is_none() && self.submit_and_wait(1).is_err() {
                break;
            }
        }
    }
}
