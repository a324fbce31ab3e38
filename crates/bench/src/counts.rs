//! What the kernel counts for the whole machine: processor time, disk bytes, major faults.
//!
//! What must hold: differences of two readings are of the same things; devices that live in RAM (zram, ram, loop) are
//! not disks.

use std::fs;
use std::path::Path;

/// One reading.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Counts {
    /// Processor seconds that were not idle.
    pub busy_s: f64,
    /// Bytes read from disks.
    pub read_bytes: u64,
    /// Bytes written to disks.
    pub written_bytes: u64,
    /// Major faults.
    pub major_faults: u64,
}

/// `/proc/diskstats` counts in sectors of this size, whatever the disk has.
const SECTOR_BYTES: u64 = 512;

impl Counts {
    /// Reads them. What cannot be read is 0.
    pub fn now() -> Counts {
        let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let (read, written) = disk_sectors(&text("/proc/diskstats"), |name| {
            // Partitions are counted in their disk.
            Path::new("/sys/block").join(name).exists()
        });
        Counts {
            busy_s: busy_ticks(&text("/proc/stat")) as f64 / rustix::param::clock_ticks_per_second() as f64,
            read_bytes: read * SECTOR_BYTES,
            written_bytes: written * SECTOR_BYTES,
            major_faults: major_faults(&text("/proc/vmstat")),
        }
    }

    /// What came since an earlier reading.
    pub fn since(self, earlier: Counts) -> Counts {
        Counts {
            busy_s: (self.busy_s - earlier.busy_s).max(0.0),
            read_bytes: self.read_bytes.saturating_sub(earlier.read_bytes),
            written_bytes: self.written_bytes.saturating_sub(earlier.written_bytes),
            major_faults: self.major_faults.saturating_sub(earlier.major_faults),
        }
    }
}

/// First line: `cpu user nice system idle iowait irq softirq steal guest guest_nice`. Guest time is in user time;
/// stolen time is somebody else's.
fn busy_ticks(stat: &str) -> u64 {
    let Some(line) = stat.lines().find(|line| line.starts_with("cpu ")) else { return 0 };
    let fields: Vec<u64> = line.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
    [0, 1, 2, 5, 6].iter().filter_map(|&index| fields.get(index)).sum()
}

/// Sectors read and written: fields 6 and 10 of each line.
fn disk_sectors(diskstats: &str, is_whole_disk: impl Fn(&str) -> bool) -> (u64, u64) {
    let mut sums = (0, 0);
    for line in diskstats.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (Some(name), Some(read), Some(written)) = (fields.get(2), fields.get(5), fields.get(9)) else {
            continue;
        };
        let in_ram = ["zram", "ram", "loop", "dm-", "md"].iter().any(|kind| name.starts_with(kind));
        if !in_ram && is_whole_disk(name) {
            sums.0 += read.parse::<u64>().unwrap_or(0);
            sums.1 += written.parse::<u64>().unwrap_or(0);
        }
    }
    sums
}

fn major_faults(vmstat: &str) -> u64 {
    let line = vmstat.lines().find_map(|line| line.strip_prefix("pgmajfault "));
    line.and_then(|number| number.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_time_leaves_out_idle_waiting_stolen_and_guests() {
        assert_eq!(busy_ticks("cpu  1 2 4 1000 2000 8 16 4000 8000 9000\ncpu0 7 7 7 7\n"), 31);
        assert_eq!(busy_ticks(""), 0);
    }

    #[test]
    fn disks_are_counted_once_and_memory_is_no_disk() {
        let text = "\
 254 0 vda 10 0 100 5 20 0 200 7 0 1 1
 254 1 vda1 10 0 100 5 20 0 200 7 0 1 1
 253 0 zram0 10 0 1000 5 20 0 2000 7 0 1 1
   7 0 loop0 10 0 1000 5 20 0 2000 7 0 1 1
   8 0 sdb 1 0 3 5 2 0 4 7 0 1 1
broken line
";
        assert_eq!(disk_sectors(text, |name| !name.ends_with('1')), (103, 204));
    }

    #[test]
    fn faults_are_found_and_counts_only_grow() {
        assert_eq!(major_faults("pgfault 5\npgmajfault 17\n"), 17);
        let (early, late) = (Counts { read_bytes: 5, ..Counts::default() }, Counts::default());
        assert_eq!(late.since(early), Counts::default());
        let now = Counts::now();
        assert!(now.busy_s > 0.0, "this machine has been on for a while");
    }
}
