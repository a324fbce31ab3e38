//! What things cost a CPU, in simulated time. Estimates for a machine of about 2015, the same in every column.

/// Looking at a page on a list: its flags, and whether it was used.
pub const LOOK_AT_PAGE_NS: u64 = 200;
/// Unmapping and freeing a page.
pub const FREE_PAGE_NS: u64 = 500;
/// Looking at a frame for something to move.
pub const LOOK_AT_FRAME_NS: u64 = 30;
/// Looking at a frame for room.
pub const LOOK_FOR_ROOM_NS: u64 = 15;
/// Moving a page: locks, unmapping, copying 4 KiB, mapping.
pub const MOVE_NS: u64 = 2500;
/// A request that gets its frames at once is part of the work of a job; one that does not costs this much more.
pub const SLOW_PATH_NS: u64 = 2000;
/// Zeroing 2 MiB.
pub const HUGE_NS: u64 = 150_000;
/// Sleeping and being woken.
pub const WAKE_NS: u64 = 3000;
/// A CPU is given to somebody for so long at most.
pub const QUANTUM_NS: u64 = 1_000_000;
