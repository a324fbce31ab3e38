//! Every maximum, with its reason and the sum.

/// Managed processes of one run at once. A record is 256 bytes: 8192 * 256 B = 2 MiB of the segment, in memory as far
/// as it was used.
pub const MM_MAX: u32 = 8192;

/// Bytes of one write-back batch. One write of 512 KiB is sequential for any disk; two in flight need 1 MiB of the
/// supervisor.
pub const WRITEBACK_BATCH_BYTES: usize = 512 * 1024;

/// Blobs of one write-back batch: the smallest blob takes 64 bytes of the file, but a batch of many tiny ones ends
/// earlier.
pub const WRITEBACK_BATCH_BLOBS_MAX: usize = 1024;

/// Times that a read of the only copy of a page is tried before the page is given up.
pub const READ_ATTEMPTS_MAX: u32 = 3;

/// Times that a fault may wait for reclaim before it is served over budget: 50 * 2 ms = 0.1 s.
/// A program must go on even if nothing can be reclaimed.
pub const THROTTLE_ROUNDS_MAX: u32 = 50;

/// Timeout of a wait for room: a lost signal costs this much, not for ever.
pub const ROOM_WAIT_NS: u64 = 2_000_000;

/// So long a fault waits for one write to the swap file: a slow file slows the program, one that hangs does not stop
/// it.
pub const WRITE_PATIENCE_NS: u64 = 5_000_000_000;

/// So long after a write a fault waits for the next one.
pub const ROOM_PATIENCE_NS: u64 = 100_000_000;

/// Pages that one fault brings in at most: 32 * 8 us is what a thread may wait for its own page, less than a direct
/// reclaim of the kernel takes.
pub const RUN_PAGES_MAX: usize = 32;

/// Bytes of one read of the swap file: what a run takes when its pages compress 2 to 1 and were written together.
pub const FILE_BUFFER_BYTES: usize = 64 * 1024;

/// Swap files of one run. Each is a descriptor in every process of the run: 16 are few beside the 1,024 that a process
/// may have.
pub const SWAP_FILES_MAX: usize = 16;

/// Buffers for what is read from the swap files before a fault needs it: two for each of eight streams, 1 MiB.
pub const READAHEAD_BUFFERS_MAX: u32 = 16;
