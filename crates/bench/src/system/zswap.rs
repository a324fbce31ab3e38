//! How large zswap's pool is.
//!
//! What must hold: if debugfs has to be mounted for that, it is unmounted again.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::Context as _;

use super::reread::Reread;
use super::tool;
use super::undo::{Scope, Step};

const DEBUGFS: &str = "/sys/kernel/debug";

/// Where its size is read.
pub enum ZswapPool {
    /// /proc/meminfo: since Linux 5.19, and nothing has to be mounted for it.
    MemoryInfo(Reread),
    /// pool_total_size in debugfs.
    Debug(Reread),
}

impl ZswapPool {
    /// Finds it. Both places say the same number.
    ///
    /// # Errors
    /// If this kernel says it nowhere.
    pub fn find(scope: &mut Scope) -> anyhow::Result<Self> {
        let memory_info = Reread::open("/proc/meminfo")?;
        if parse_memory_info(&memory_info.text()?).is_some() {
            return Ok(Self::MemoryInfo(memory_info));
        }
        mount_debugfs(scope)?;
        let file = Reread::open(Path::new(DEBUGFS).join("zswap/pool_total_size"))
            .context("this kernel does not say how large the pool of zswap is")?;
        Ok(Self::Debug(file))
    }

    /// RAM of the whole pool. We are its only user: the machine swaps to nothing else.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn bytes(&self) -> anyhow::Result<u64> {
        match self {
            Self::MemoryInfo(file) => {
                parse_memory_info(&file.text()?).context("/proc/meminfo has no line 'Zswap:' any more")
            }
            Self::Debug(file) => file.number(),
        }
    }
}

fn parse_memory_info(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("Zswap:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? << 10)
}

fn mount_debugfs(scope: &mut Scope) -> anyhow::Result<()> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    if mounts.lines().any(|line| line.split(' ').nth(1) == Some(DEBUGFS)) {
        return Ok(());
    }
    scope.change(|| {
        tool::run(Command::new("mount").args(["-t", "debugfs", "debugfs", DEBUGFS]))?;
        let step = Step::new(format!("umount {DEBUGFS}"), || tool::run(Command::new("umount").arg(DEBUGFS)));
        Ok(((), step))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_found_among_the_others() {
        let text = "MemTotal:       24732132 kB\nZswap:              12 kB\nZswapped:            40 kB\n";
        assert_eq!(parse_memory_info(text), Some(12 << 10));
        assert_eq!(parse_memory_info("Zswapped: 40 kB\n"), None);
    }
}
