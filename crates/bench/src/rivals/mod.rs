//! One way to swap: set up, limited, watched, torn down.
//!
//! What must hold: a [`Session`] leaves the machine as it was, however it ends; the same memory is counted for all.

mod group_session;
mod mapped_file;
mod names;
mod reclaimer;
mod swap_file;
mod template;
mod uswap;
mod zram;

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use self::group_session::GroupSession;
pub use self::mapped_file::BACKING;
use crate::results::Memory;
use crate::system::settings;
use crate::system::undo::Undo;

/// A rival, as named on the command line and in results.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Rival {
    /// No limit: what the work costs without any swapping.
    None,
    /// Swap on a zram device under a memory cgroup.
    Zram {
        /// `lz4` or `lzo-rle`.
        algorithm: &'static str,
        /// With a small reclaimer beside it, since a memory cgroup has no kswapd.
        background: bool,
    },
    /// zswap (lz4) before a swap file, page-cluster 0.
    Zswap {
        /// The shrinker writes cold pages back.
        shrinker: bool,
    },
    /// A swap file alone.
    SwapFile,
    /// The workload maps a file instead of anonymous memory; only our own workloads can.
    MappedFile,
    /// uswap.
    Uswap,
    /// Any other engine: a command in which `{program}` and `{budget}` are replaced.
    Template {
        /// Its name in the tables.
        name: String,
        /// The words of the command.
        words: Vec<String>,
    },
}

/// How memory and processor time of a program are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Counting {
    /// By a memory cgroup.
    Group,
    /// By its processes, where no cgroup can be made: only rivals that need no limit of the kernel can run so.
    Processes,
}

/// What every rival needs to know.
#[derive(Clone, Debug)]
pub struct Setting {
    /// True RAM.
    pub budget_bytes: u64,
    /// Largest memory that the workload uses; swap devices are twice as large.
    pub data_bytes: u64,
    /// Where swap files are made.
    pub swap_dir: PathBuf,
    /// The uswap command.
    pub uswap: PathBuf,
    /// A directory of this bench, removed at its end.
    pub work_dir: PathBuf,
    /// How a program is counted.
    pub counting: Counting,
    /// Read the group's statistics every 20 ms, so that this kernel does not kill programs by stale ones; off in the
    /// raw runs that count those kills.
    pub keep_statistics_fresh: bool,
}

/// A rival that is set up for one run. Dropping it tears everything down.
pub trait Session: Send {
    /// The command that runs `program` in it. The process group and standard streams are the caller's business.
    fn command(&self, program: &[OsString]) -> Command;
    /// Limit of the memory cgroup; changes nothing for a rival whose [`Rival::first_limit`] is none.
    fn set_limit(&mut self, bytes: u64) -> anyhow::Result<()>;
    /// RAM that is used now, whole tree and compressed pages. Cheap enough for every 10 ms.
    fn memory(&self) -> anyhow::Result<Memory>;
    /// Processor seconds of all processes that ran in it so far.
    fn cpu_seconds(&self) -> f64;
    /// Processes that the kernel has killed in it for want of memory.
    fn kills(&self) -> u64;
    /// Faults that it served beyond the kernel's major faults; None: those are all.
    fn faults(&self) -> Option<u64> {
        None
    }
    /// What a reader must know of how it was set up on this machine, beyond the title; a sentence without its full
    /// stop.
    fn remark(&self) -> Option<String> {
        None
    }
}

/// Sets a rival up for one run. Whatever is changed is in `undo`, and undone when the session is dropped. A rival with
/// a limit starts at the budget.
///
/// # Errors
/// If it is one of the kernel's and the machine is not fit for figures (see [`settings::check_machine`]), or the
/// machine lacks what this rival needs.
pub fn prepare(rival: &Rival, setting: &Setting, undo: &Undo) -> anyhow::Result<Box<dyn Session>> {
    if rival.is_of_the_kernel() {
        settings::check_machine()?;
    }
    let scope = undo.scope();
    Ok(match rival {
        Rival::None => Box::new(GroupSession::free(scope, setting.counting)?),
        Rival::Zram { algorithm, background } => {
            Box::new(zram::session(scope, setting, algorithm, *background)?)
        }
        Rival::Zswap { shrinker } => Box::new(swap_file::zswap_session(scope, setting, *shrinker)?),
        Rival::SwapFile => Box::new(swap_file::plain_session(scope, setting)?),
        Rival::MappedFile => Box::new(mapped_file::session(scope, setting)?),
        Rival::Uswap => Box::new(uswap::UswapSession::make(scope, setting)?),
        Rival::Template { words, .. } => Box::new(template::TemplateSession::make(scope, setting, words)?),
    })
}
