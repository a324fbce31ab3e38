//! Options of a run that its processes must know, as `USWAP_RUN` has them: one number.
//!
//! ```text
//! 63..32    31..8      2              1         0
//! without   join_kib   regions_only   verbose   keep_after_setuid
//! ```

/// What the processes of a run are told.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RunOptions {
    /// A process that changes its credentials stays.
    pub keep_after_setuid: bool,
    /// A process says why it is left alone; else the supervisor says so, once for all of its kind.
    pub verbose: bool,
    /// Only memory that a process names is managed, and what it executes goes its own way.
    pub regions_only: bool,
    /// So many KiB, below 2^24, a process has when it takes a place in the run; 0: it takes one when it starts.
    pub join_kib: u32,
    /// What the processes go without (`uswap_os::without`).
    pub without: u32,
}

const KEEP_AFTER_SETUID: u64 = 1;
const VERBOSE: u64 = 2;
const REGIONS_ONLY: u64 = 4;
const JOIN_KIB_SHIFT: u32 = 8;
const JOIN_KIB_MAX: u32 = (1 << 24) - 1;
const WITHOUT_SHIFT: u32 = 32;

impl RunOptions {
    /// The number.
    pub const fn bits(self) -> u64 {
        assert!(self.join_kib <= JOIN_KIB_MAX);
        let flags = if self.keep_after_setuid { KEEP_AFTER_SETUID } else { 0 }
            | if self.verbose { VERBOSE } else { 0 }
            | if self.regions_only { REGIONS_ONLY } else { 0 };
        flags | (self.join_kib as u64) << JOIN_KIB_SHIFT | (self.without as u64) << WITHOUT_SHIFT
    }

    /// From the number.
    pub const fn from_bits(bits: u64) -> RunOptions {
        RunOptions {
            keep_after_setuid: bits & KEEP_AFTER_SETUID != 0,
            verbose: bits & VERBOSE != 0,
            regions_only: bits & REGIONS_ONLY != 0,
            join_kib: (bits >> JOIN_KIB_SHIFT) as u32 & JOIN_KIB_MAX,
            without: (bits >> WITHOUT_SHIFT) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_what_was_told_each_by_itself() {
        let all = RunOptions {
            keep_after_setuid: true,
            verbose: true,
            regions_only: true,
            join_kib: JOIN_KIB_MAX,
            without: u32::MAX,
        };
        let none = RunOptions::default();
        for options in [
            none,
            all,
            RunOptions { keep_after_setuid: true, ..none },
            RunOptions { verbose: true, ..none },
            RunOptions { regions_only: true, ..none },
            RunOptions { join_kib: 4096, ..none },
            RunOptions { without: 1, ..none },
        ] {
            assert_eq!(RunOptions::from_bits(options.bits()), options);
        }
        assert_eq!(none.bits(), 0);
    }
}
