//! What machine this is, and how noisy.

use std::fs;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::results::Machine;
use crate::statistics::spread;

/// Looks at the machine; swap files will be in `swap_dir`.
pub fn look(swap_dir: &Path) -> Machine {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let value = |text: &str, key: &str| {
        let line = text.lines().find(|line| line.starts_with(key));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
    };
    let kilobytes = value(&text("/proc/meminfo"), "MemTotal");
    let kilobytes = kilobytes.and_then(|value| value.trim_end_matches(" kB").parse::<u64>().ok());
    Machine {
        kernel: text("/proc/sys/kernel/osrelease").trim().to_owned(),
        cpu: value(&text("/proc/cpuinfo"), "model name").unwrap_or_else(|| "unknown".to_owned()),
        cpus: std::thread::available_parallelism().map_or(1, |count| count.get() as u32),
        ram_bytes: kilobytes.unwrap_or(0) * 1024,
        swap_place: file_system(&text("/proc/self/mountinfo"), swap_dir),
        date: date(SystemTime::now()),
        uswap_version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: option_env!("USWAP_COMMIT").map(str::to_owned),
        noise: noise(),
        settings: Default::default(),
    }
}

/// File system of a directory, from the mount with the longest path that holds it.
fn file_system(mountinfo: &str, directory: &Path) -> String {
    let mounts = mountinfo.lines().filter_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let point = left.split(' ').nth(4)?;
        let kind = right.split(' ').next()?;
        directory.starts_with(point).then_some((point.len(), kind))
    });
    mounts.max_by_key(|(length, _)| *length).map_or("unknown", |(_, kind)| kind).to_owned()
}

/// Year, month and day (UTC), as in 2026-11-22.
fn date(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let (year, month, day) = uswap_units::civil_date(seconds);
    format!("{year:04}-{month:02}-{day:02}")
}

/// Spread of the time of one fixed computation: how much two equal runs differ here for no reason of theirs.
fn noise() -> f64 {
    let times: Vec<f64> = (0..31).map(|_| fixed_work().as_secs_f64()).collect();
    spread(&times).unwrap_or(0.0)
}

/// About 10 ms.
fn fixed_work() -> Duration {
    let started = Instant::now();
    let mut value = 1_u64;
    for step in 0..5_000_000_u64 {
        value = black_box(value.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step));
    }
    black_box(value);
    started.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_of_known_days() {
        let day = |seconds| date(UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(day(0), "1970-01-01");
        assert_eq!(day(951_782_400), "2000-02-29");
        assert_eq!(day(951_868_800), "2000-03-01");
        assert_eq!(day(1_795_305_600), "2026-11-22");
        assert_eq!(day(1_798_761_599), "2026-12-31");
    }

    #[test]
    fn the_mount_that_holds_a_directory_is_the_longest() {
        let mountinfo = "\
20 1 8:1 / / rw - ext4 /dev/a rw
21 20 0:5 / /var rw shared:1 - xfs /dev/b rw
22 20 0:6 / /var/tmpfiles rw - tmpfs none rw
";
        let kind = |path: &str| file_system(mountinfo, Path::new(path));
        assert_eq!((kind("/var/tmp").as_str(), kind("/home").as_str()), ("xfs", "ext4"));
        assert_eq!(file_system("", Path::new("/var")), "unknown");
    }

    #[test]
    fn this_machine_is_described() {
        let machine = look(Path::new("/var/tmp"));
        assert!(machine.kernel.contains('.') && machine.ram_bytes > 1 << 20 && machine.cpus > 0);
        assert!(machine.noise >= 0.0 && machine.noise.is_finite());
    }
}
