//! A budget of RAM for the process that asks for it.
//!
//! ```no_run
//! # fn main() -> Result<(), uswap::Error> {
//! uswap::limit("4G")?; // from here on this process and its children stay within 4 GiB
//! let table = vec![0_u64; 2 << 30]; // 16 GiB
//! # drop(table);
//! # Ok(())
//! # }
//! ```
//!
//! Cold pages of the process are compressed into a pool, and the coldest are written, compressed and encrypted, to a
//! swap file. No privilege is needed, and no kernel swap. `uswap run --ram 4G -- PROGRAM` does the same from outside.
//!
//! [`limit()`] may be called at any time, also when many threads run: they stand still for some milliseconds, and no
//! call of theirs ends in another way for it. What is mapped privately and is not of a file is managed from then on;
//! not the stacks of threads. What the process starts belongs to the run: what it forks, and what it executes. Children
//! that run already count towards the budget, and cannot be reclaimed.
//!
//! # Memory by name
//! A [`Pool`] manages nothing but what is taken from it: arrays that may be larger than RAM, in a process that stays as
//! it is. Its budget is that of the whole process, and only its memory is evicted for it.
//!
//! ```no_run
//! # fn main() -> Result<(), uswap::Error> {
//! let pool = uswap::Pool::builder().ram("2G").dir("/scratch").build()?;
//! let mut table = pool.map::<f64>(2 << 30)?; // 16 GiB of zeros
//! table[12345] = 0.5;
//! table.advise_range(uswap::Advice::Cold, 0..1 << 30)?;
//! # Ok(())
//! # }
//! ```
//!
//! # What is needed
//! Linux 5.11 or newer on x86-64, userfaultfd for programs (since 5.11 anybody has it, but in containers with Docker's
//! own profile of system calls), and the command `uswap` with its agent: in `PATH`, where `USWAP_COMMAND` says, or
//! where [`Limit::command`] does. `uswap doctor` says what is missing.
//!
//! # What must hold
//! A call that fails leaves the process as it was: its memory is not managed.

mod advice;
mod agent;
mod allocator;
pub mod blocks;
mod command;
mod conversation;
mod error;
mod limit;
mod map;
mod pool;
mod state;
mod stats;

pub use advice::{Advice, advise, advise_raw};
pub use error::Error;
pub use limit::{Limit, is_limited, limit, release, stats};
pub use map::Map;
pub use pool::{Pool, PoolBuilder};
pub use stats::Stats;
