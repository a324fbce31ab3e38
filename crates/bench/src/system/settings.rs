//! Settings of the kernel that belong to a rival, and what the machine must be like for figures to mean anything.
//!
//! What must hold: a changed setting is in the list of what must be undone, with its old value.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::undo::{Scope, Step};

/// A value in /proc/sys or /sys.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum KernelSetting {
    /// Pages that are read at once from swap, as a power of 2.
    PageCluster,
    /// Whether pages on their way to swap are compressed in RAM first.
    ZswapEnabled,
    /// By what.
    ZswapCompressor,
    /// Whether cold pages are written back before the pool is full.
    ZswapShrinker,
    /// Largest part of the RAM of the machine that the pool may take.
    ZswapMaxPoolPercent,
    /// Transparent huge pages: `always`, `madvise`, `never`.
    HugePages,
}

impl KernelSetting {
    /// All of them.
    pub const ALL: [Self; 6] = [
        Self::PageCluster,
        Self::ZswapEnabled,
        Self::ZswapCompressor,
        Self::ZswapShrinker,
        Self::ZswapMaxPoolPercent,
        Self::HugePages,
    ];

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::PageCluster => "vm.page-cluster",
            Self::ZswapEnabled => "zswap.enabled",
            Self::ZswapCompressor => "zswap.compressor",
            Self::ZswapShrinker => "zswap.shrinker_enabled",
            Self::ZswapMaxPoolPercent => "zswap.max_pool_percent",
            Self::HugePages => "transparent_hugepage",
        }
    }

    /// Its file.
    pub fn path(self) -> &'static Path {
        Path::new(match self {
            Self::PageCluster => "/proc/sys/vm/page-cluster",
            Self::ZswapEnabled => "/sys/module/zswap/parameters/enabled",
            Self::ZswapCompressor => "/sys/module/zswap/parameters/compressor",
            Self::ZswapShrinker => "/sys/module/zswap/parameters/shrinker_enabled",
            Self::ZswapMaxPoolPercent => "/sys/module/zswap/parameters/max_pool_percent",
            Self::HugePages => "/sys/kernel/mm/transparent_hugepage/enabled",
        })
    }

    /// Its value now; None if this kernel does not have it.
    pub fn read(self) -> Option<String> {
        Some(current(&fs::read_to_string(self.path()).ok()?).to_owned())
    }

    /// Sets it until `scope` ends.
    ///
    /// # Errors
    /// If this kernel does not have it, or not this value.
    pub fn set(self, scope: &mut Scope, value: &str) -> anyhow::Result<()> {
        set(scope, self.path().to_owned(), value)
    }

    /// As [`Self::set`]; a kernel that does not have it has nothing to switch off.
    ///
    /// # Errors
    /// If it is there and refuses the value.
    pub fn set_if_there(self, scope: &mut Scope, value: &str) -> anyhow::Result<()> {
        if self.path().exists() { self.set(scope, value) } else { Ok(()) }
    }
}

fn set(scope: &mut Scope, path: PathBuf, value: &str) -> anyhow::Result<()> {
    let text = fs::read_to_string(&path).with_context(|| {
        format!("'{}' cannot be read: this kernel lacks what the rival needs", path.display())
    })?;
    let old = current(&text).to_owned();
    if old == value {
        return Ok(());
    }
    scope.change(|| {
        fs::write(&path, value)
            .with_context(|| format!("'{}' is '{old}' and does not take '{value}'", path.display()))?;
        let mend = format!("echo {old} > {}", path.display());
        let undo =
            move || fs::write(&path, &old).with_context(|| format!("'{}' stays changed", path.display()));
        Ok(((), Step::new(mend, undo)))
    })
}

/// Of a list of choices the one in brackets; else the whole.
fn current(text: &str) -> &str {
    let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    chosen.map_or(text.trim(), |(chosen, _)| chosen)
}

/// Refuses where the bench cannot work or would measure something else.
///
/// # Errors
/// Without root, or if the machine swaps already.
pub fn check_machine() -> anyhow::Result<()> {
    anyhow::ensure!(
        rustix::process::geteuid().is_root(),
        "uswap bench makes cgroups and swap devices, which only root may do: please run it with sudo"
    );
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    refuse_swap(&swaps)
}

fn refuse_swap(swaps: &str) -> anyhow::Result<()> {
    let names: Vec<&str> = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    anyhow::ensure!(
        names.is_empty(),
        "this machine already swaps to {}, so every rival would use that too and the figures would mean nothing: \
         please switch it off for the time of the bench (swapoff {})",
        names.join(" and "),
        names.join(" ")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::undo::Undo;

    #[test]
    fn the_choice_in_brackets_is_the_value() {
        assert_eq!(current("always [madvise] never\n"), "madvise");
        assert_eq!(current("lzo\n"), "lzo");
    }

    #[test]
    fn a_machine_that_swaps_is_refused_with_the_way_out() {
        let head = "Filename\t\t\tType\t\tSize\t\tUsed\t\tPriority\n";
        refuse_swap(head).unwrap();
        refuse_swap("").unwrap();
        let error = refuse_swap(&format!("{head}/dev/sda2 partition\t8\t0\t-2\n/swapfile file\t8\t0\t-3\n"));
        let error = error.unwrap_err().to_string();
        assert!(error.contains("swapoff /dev/sda2 /swapfile"), "{error}");
    }

    #[test]
    fn a_setting_has_its_old_value_again_after_the_scope() {
        let path = std::env::temp_dir().join(format!("uswap-bench-setting-{}", std::process::id()));
        fs::write(&path, "lzo [lz4] zstd\n").unwrap();
        let undo = Undo::new();
        let mut scope = undo.scope();
        set(&mut scope, path.clone(), "lz4").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "lzo [lz4] zstd\n", "what is right is left alone");
        set(&mut scope, path.clone(), "zstd").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "zstd");
        drop(scope);
        assert_eq!(fs::read_to_string(&path).unwrap(), "lz4");
        fs::remove_file(&path).unwrap();
        assert!(set(&mut undo.scope(), path, "lz4").is_err());
    }
}
