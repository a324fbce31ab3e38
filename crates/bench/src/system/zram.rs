//! A zram device of our own.
//!
//! What must hold: it is a new device, never one that was there; it is reset and removed when its scope ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::reread::Reread;
use super::undo::{Scope, Step};

const CONTROL: &str = "/sys/class/zram-control";

/// The node of a new device appears a moment later, and a device may be held by whoever looks at new devices.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(20);

/// A device.
pub struct Zram {
    device: PathBuf,
    statistics: Reread,
}

impl Zram {
    /// Whether this kernel can make them.
    pub fn is_possible() -> bool {
        Path::new(CONTROL).join("hot_add").exists()
    }

    /// Makes one of `bytes`.
    ///
    /// # Errors
    /// If this kernel has no zram, or not this algorithm.
    pub fn make(scope: &mut Scope, algorithm: &str, bytes: u64) -> anyhow::Result<Self> {
        anyhow::ensure!(Self::is_possible(), "this kernel has no zram now: `modprobe zram` may load it");
        let number: u32 = scope.change(|| {
            let number =
                fs::read_to_string(Path::new(CONTROL).join("hot_add")).context("zram gives no device")?;
            let number = number.trim().parse().context("zram gives no number")?;
            let mend =
                format!("echo 1 > /sys/block/zram{number}/reset; echo {number} > {CONTROL}/hot_remove");
            Ok((number, Step::new(mend, move || remove(number))))
        })?;
        let dir = PathBuf::from(format!("/sys/block/zram{number}"));
        let has = fs::read_to_string(dir.join("comp_algorithm")).unwrap_or_default();
        fs::write(dir.join("comp_algorithm"), algorithm)
            .with_context(|| format!("zram has no {algorithm} here, but {}", has.trim()))?;
        fs::write(dir.join("disksize"), bytes.to_string())
            .with_context(|| format!("zram does not take a size of {bytes}"))?;
        let device = PathBuf::from(format!("/dev/zram{number}"));
        let start = Instant::now();
        while !device.exists() {
            anyhow::ensure!(
                start.elapsed() < WAIT_MAX,
                "'{}' does not appear: is /dev mounted?",
                device.display()
            );
            thread::sleep(PAUSE);
        }
        Ok(Self { statistics: Reread::open(dir.join("mm_stat"))?, device })
    }

    /// The block device.
    pub fn device(&self) -> &Path {
        &self.device
    }

    /// RAM that it takes.
    ///
    /// # Errors
    /// If it is gone.
    pub fn used_bytes(&self) -> anyhow::Result<u64> {
        let text = self.statistics.text()?;
        parse_used(&text)
            .with_context(|| format!("'{}' is '{}'", self.statistics.path().display(), text.trim()))
    }
}

/// mm_stat is: original compressed used limit ...; used is what the allocator holds for the compressed pages.
fn parse_used(mm_stat: &str) -> Option<u64> {
    mm_stat.split_whitespace().nth(2)?.parse().ok()
}

fn remove(number: u32) -> anyhow::Result<()> {
    let reset = PathBuf::from(format!("/sys/block/zram{number}/reset"));
    let start = Instant::now();
    let removed = || {
        fs::write(&reset, "1")?;
        fs::write(Path::new(CONTROL).join("hot_remove"), number.to_string())
    };
    while let Err(error) = removed() {
        if start.elapsed() > WAIT_MAX {
            return Err(error).with_context(|| format!("/dev/zram{number} cannot be removed"));
        }
        thread::sleep(PAUSE);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_device_takes_is_the_third_number() {
        let text = "81956864 40859651 80486400        0 80510976        0        0        0        0\n";
        assert_eq!(parse_used(text), Some(80_486_400));
        assert_eq!(parse_used("1 2"), None);
    }
}
