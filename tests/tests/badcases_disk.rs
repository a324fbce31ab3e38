//! The swap file's disk fails mid-run: it is full, it does not write, or its data is changed under us. No wrong byte
//! ever reaches the program, nothing hangs, and a message says what happened.
//!
//! The failing disk is an ext4 file system on a loop device: its backing file is cut to make reads and writes fail.

use rustix::process::Signal;
use std::fs::OpenOptions;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use uswap_tests::process::Process;
use uswap_tests::touched::{BUDGET_MIB, checksum, right_checksum, touch};
use uswap_tests::{
    Outcome, Run, Running, Scratch, SmallDisk, needs_uswap, program, report, shared_turn, skip, turn,
    uswap_binary,
};

/// A control group in which one disk is slow; removed when dropped.
struct SlowGroup {
    path: PathBuf,
    /// The files that say how slow, of this version of control groups.
    limits: &'static [&'static str],
    device: String,
}

/// What the disk of a group does in a second, at most.
#[derive(Clone, Copy)]
enum Slow {
    /// So many bytes are written.
    Bytes(u64),
    /// So many reads and so many writes are served. 0: as many as it can.
    Operations(u64),
}

impl SlowGroup {
    const FIRST: &[&str] = &[
        "blkio.throttle.write_bps_device",
        "blkio.throttle.read_iops_device",
        "blkio.throttle.write_iops_device",
    ];
    const SECOND: &[&str] = &["io.max"];

    fn new(disk: &SmallDisk, how: Slow) -> Option<Self> {
        let device = std::fs::metadata(&disk.mounted).expect("it is mounted").dev();
        let device = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
        for (root, limits) in [("/sys/fs/cgroup/blkio", Self::FIRST), ("/sys/fs/cgroup", Self::SECOND)] {
            // The device is its own.
            let path = Path::new(root).join(format!("uswap-slow-disk-{}", device.replace(':', "-")));
            let group = Self { path, limits, device: device.clone() };
            let made = Path::new(root).join("cgroup.procs").exists()
                && std::fs::create_dir(&group.path).is_ok()
                && group.limit(how);
            if made {
                return Some(group);
            }
        }
        skip("no control group may limit a disk here");
        None
    }

    /// From now on. False: that cannot be set.
    fn limit(&self, how: Slow) -> bool {
        let (first, second) = match how {
            Slow::Bytes(bytes) => ([Some(bytes), None, None], format!("wbps={bytes}")),
            Slow::Operations(0) => ([None, Some(0), Some(0)], "riops=max wiops=max".to_owned()),
            Slow::Operations(count) => {
                ([None, Some(count), Some(count)], format!("riops={count} wiops={count}"))
            }
        };
        let values = match self.limits {
            [_] => vec![Some(second)],
            _ => first.map(|value| value.map(|value| value.to_string())).to_vec(),
        };
        let set = |(file, value): (&&str, Option<String>)| {
            value.is_none_or(|value| {
                std::fs::write(self.path.join(file), format!("{} {value}", self.device)).is_ok()
            })
        };
        self.limits.iter().zip(values).all(set)
    }

    fn take_in(&self, pid: i32) {
        std::fs::write(self.path.join("cgroup.procs"), pid.to_string()).expect("the group is ours");
    }
}

impl Drop for SlowGroup {
    fn drop(&mut self) {
        // A process that still dies holds it; and it may never have been made.
        for _ in 0..100 {
            if !self.path.exists() || std::fs::remove_dir(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

fn start(swap: &Path, options: &[&str]) -> Running {
    start_with(&swap.to_string_lossy(), options)
}

fn start_with(swap: &str, options: &[&str]) -> Running {
    let mut all = vec!["--swap", swap];
    all.extend(options);
    touch().uswap(BUDGET_MIB, &all).start()
}

/// The program has printed the right checksum, or none at all and then a message says why.
#[track_caller]
fn never_wrong(name: &str, outcome: &Outcome, right: &str) {
    let printed = checksum(outcome);
    report(&format!("{name}: code {:?}, signal {:?}, checksum {printed:?}", outcome.code, outcome.signal));
    match printed {
        Some(printed) => assert_eq!(printed, right, "wrong bytes reached the program: {}", outcome.stderr),
        None => {
            assert!(outcome.code != Some(0), "no checksum, but code 0");
            assert!(
                outcome.stderr.contains("uswap"),
                "the program died and nothing says why: {}",
                outcome.stderr
            );
        }
    }
}

#[test]
fn badcases_disk_full_and_told_to_grow() {
    let _turn = shared_turn();
    if !needs_uswap() {
        return;
    }
    let Some(disk) = SmallDisk::new(48) else { return };
    let right = right_checksum();
    let outcome = start(&disk.mounted, &["--on-full", "grow"]).finish();
    never_wrong("disk_full_grow", &outcome, right);
    assert_eq!(outcome.code, Some(0), "told to grow, but it ended: {}", outcome.stderr);
    assert!(outcome.stderr.to_lowercase().contains("full"), "no warning: {}", outcome.stderr);
}

#[test]
fn badcases_disk_full_and_told_to_kill() {
    let _turn = shared_turn();
    if !needs_uswap() {
        return;
    }
    let Some(disk) = SmallDisk::new(48) else { return };
    let right = right_checksum();
    let outcome = start(&disk.mounted, &["--on-full", "kill"]).finish();
    never_wrong("disk_full_kill", &outcome, right);
    assert!(outcome.code != Some(0), "200M of random bytes cannot fit in 50M and 48M");
    assert!(outcome.stderr.to_lowercase().contains("full"), "no message: {}", outcome.stderr);
}

/// The disk fills up under the run: its processes are stopped, and go on when there is room again.
#[test]
fn badcases_disk_full_and_told_to_stop() {
    let _turn = shared_turn();
    if !needs_uswap() {
        return;
    }
    let Some(disk) = SmallDisk::new(400) else { return };
    let right = right_checksum();
    let filler = disk.mounted.join("filler");
    std::fs::write(&filler, vec![0x55; 340 << 20]).expect("the small disk has room");
    let mut running = start_with(&format!("{}:350M", disk.mounted.to_string_lossy()), &["--on-full", "stop"]);
    let stopped = |running: &Running| {
        let all = running.processes();
        !all.is_empty() && all.iter().all(|process| process.state() == Some('T'))
    };
    for _ in 0..6000 {
        if stopped(&running) || running.ended() {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    if running.ended() {
        let outcome = running.finish();
        panic!("it ended, and was not stopped: {:?} {:?} {}", outcome.code, outcome.signal, outcome.stderr);
    }
    assert!(stopped(&running), "not stopped; alive: {:?}", running.processes());
    std::fs::remove_file(&filler).expect("the filler is ours");
    Process::now(running.pid()).expect("it is stopped").signal(Signal::CONT);
    let outcome = running.finish();
    assert_eq!(outcome.code, Some(0), "continued with room, but it did not end well: {}", outcome.stderr);
    assert!(outcome.stderr.contains("--on-full stop"), "no message: {}", outcome.stderr);
    never_wrong("disk_full_stop", &outcome, right);
}

/// The file system keeps as much free as the user said, and the program is told that it goes over its budget.
#[test]
fn badcases_room_that_shall_stay_free_stays_free() {
    const MIN_FREE: u64 = 120 << 20;
    let _turn = shared_turn();
    if !needs_uswap() {
        return;
    }
    let Some(disk) = SmallDisk::new(200) else { return };
    let free = || {
        let space = rustix::fs::statvfs(&disk.mounted).expect("it is mounted");
        space.f_bavail * space.f_frsize
    };
    let (right, at_start) = (right_checksum(), free());
    let mut running = start(&disk.mounted, &["--swap-min-free", "120M"]);
    let mut least = at_start;
    while !running.ended() {
        least = least.min(free());
        std::thread::sleep(Duration::from_millis(2));
    }
    let outcome = running.finish();
    never_wrong("min_free", &outcome, right);
    assert_eq!(outcome.code, Some(0), "told to grow, but it ended: {}", outcome.stderr);
    assert!(outcome.stderr.contains("--swap-min-free"), "no warning: {}", outcome.stderr);
    report(&format!("min_free: {} MiB at the start, {} at least", at_start >> 20, least >> 20));
    assert!(least >= MIN_FREE, "only {least} bytes stayed free");
    assert!(least < at_start - (20 << 20), "the file was not used: {least} of {at_start} bytes");
}

/// The swap file takes no more of the disk than the user gave it.
#[test]
fn badcases_the_file_is_no_larger_than_told() {
    const BYTES_MAX: u64 = 48 << 20;
    let _turn = shared_turn();
    if !needs_uswap() {
        return;
    }
    let scratch = Scratch::new();
    let right = right_checksum();
    let mut running = start_with(&format!("{}:48M", scratch.path().display()), &[]);
    let path = running.waits_for_swap_file(scratch.path(), BYTES_MAX / 2).expect("the file is used");
    let (mut largest, mut end) = (0, 0);
    while !running.ended() {
        // It goes with the run.
        if let Ok(status) = std::fs::metadata(&path) {
            (largest, end) = (largest.max(status.blocks() * 512), end.max(status.len()));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let outcome = running.finish();
    never_wrong("size", &outcome, right);
    assert_eq!(outcome.code, Some(0), "told to grow, but it ended: {}", outcome.stderr);
    assert!(outcome.stderr.contains("the swap file is full"), "no warning: {}", outcome.stderr);
    assert!(end <= BYTES_MAX, "the file has {end} bytes");
    // A file of five parts or more has a block more, or a few, in which ext4 keeps where they lie.
    assert!(largest <= BYTES_MAX + (64 << 10), "the file took {largest} bytes");
    assert!(largest > BYTES_MAX / 4 * 3, "the file took only {largest} bytes");
}

/// No more is written than a day may have.
#[test]
fn badcases_what_may_be_written_in_a_day_is_written() {
    const LIMIT: u64 = 40 << 20;
    let _turn = shared_turn();
    if !needs_uswap() {
        return;
    }
    let scratch = Scratch::new();
    let (right, json) = (right_checksum(), scratch.file("report"));
    let json_option = json.to_string_lossy().into_owned();
    let outcome = start(scratch.path(), &["--swap-write-limit", "40M/day", "--json", &json_option]).finish();
    never_wrong("write_limit", &outcome, right);
    assert_eq!(outcome.code, Some(0), "told to grow, but it ended: {}", outcome.stderr);
    assert!(outcome.stderr.contains("--swap-write-limit"), "no warning: {}", outcome.stderr);
    let record: serde_json::Value =
        serde_json::from_slice(&std::fs::read(json).expect("it was asked for")).expect("it is JSON");
    // They do not compress: each takes a page and a little of the file.
    let written = record["pages_written"].as_u64().expect("it is a number") * 4096;
    report(&format!("write_limit: {} MiB written", written >> 20));
    assert!(written <= LIMIT, "{written} bytes were written");
    assert!(written > LIMIT / 4 * 3, "only {written} bytes were written");
}

/// The disk takes 10 MB a second, the program makes memory a hundred times faster: it waits for the disk, and the
/// budget holds.
#[test]
fn badcases_disk_is_slow() {
    const BYTES_PER_SECOND: u64 = 10 << 20;
    let _turn = turn();
    if !needs_uswap() {
        return;
    }
    let Some(disk) = SmallDisk::new(400) else { return };
    let Some(slow) = SlowGroup::new(&disk, Slow::Bytes(BYTES_PER_SECOND)) else { return };
    let words = ["--bytes", "100M", "--content", "random", "--access", "read", "--count", "1000"];
    let running = Run::plain(program("touch"))
        .args(words)
        .args(["--seconds", "1000"])
        .uswap(BUDGET_MIB, &["--swap", &disk.mounted.to_string_lossy()])
        .start();
    slow.take_in(running.pid());
    let outcome = running.finish();
    // What was touched before it was under management waits for the disk too.
    outcome.must_succeed().must_hold_budget_mostly(BUDGET_MIB);
    let seconds = outcome.elapsed.as_secs_f64();
    report(&format!("disk_slow: {seconds:.1} s, peak {} MiB", outcome.samples.peak_bytes >> 20));
    // More than half of the pages do not fit.
    let written = (100 - BUDGET_MIB) << 20;
    assert!(seconds > written as f64 / BYTES_PER_SECOND as f64 / 2.0, "the disk was not slow: {seconds} s");
}

/// For five seconds the disk serves one read and one write a second, each of which waits for a second or more. Nothing
/// is wrong and nothing hangs: the program goes on when the disk does.
#[test]
fn badcases_disk_answers_once_a_second() {
    let _turn = shared_turn();
    if uswap_binary().is_none() {
        return skip("this case is about uswap itself; the simulator has slow disks too");
    }
    let Some(disk) = SmallDisk::new(600) else { return };
    let Some(slow) = SlowGroup::new(&disk, Slow::Operations(0)) else { return };
    let right = right_checksum();
    let mut running = start(&disk.mounted, &[]);
    slow.take_in(running.pid());
    let seen = running.waits_for_swap_file(&disk.mounted, 30 << 20).is_some();
    assert!(slow.limit(Slow::Operations(1)), "the group was made with such a limit");
    std::thread::sleep(Duration::from_secs(5));
    assert!(!running.ended(), "it cannot have read all it needs in five reads");
    assert!(slow.limit(Slow::Operations(0)), "it could be set before");
    let outcome = running.finish();
    assert!(seen, "the swap file was not used: {}", outcome.stderr);
    never_wrong("disk_answers_once_a_second", &outcome, right);
    assert_eq!(outcome.code, Some(0), "nothing failed: {}", outcome.stderr);
}

/// Someone else cuts the swap file short: what was behind the end is gone, and the program is told so. What is written
/// later has its place again.
#[test]
fn badcases_swap_file_is_cut_short_mid_run() {
    let _turn = shared_turn();
    if !needs_uswap() {
        return;
    }
    let scratch = Scratch::new();
    let right = right_checksum();
    let mut running = start(scratch.path(), &[]);
    let path = running.waits_for_swap_file(scratch.path(), 60 << 20);
    let file = path.and_then(|path| OpenOptions::new().write(true).open(path).ok());
    let is_cut = file.is_some_and(|file| file.set_len(1 << 20).is_ok());
    let outcome = running.finish();
    assert!(is_cut, "the swap file was not used: {}", outcome.stderr);
    never_wrong("swap_file_cut_short", &outcome, right);
    assert!(outcome.code != Some(0), "most of the file was gone and all was read, but nothing was noticed");
    assert!(outcome.stderr.contains("swap file"), "the message says what failed: {}", outcome.stderr);
}

/// Records change places, as when a disk writes to the wrong one: each opens only where it belongs.
#[test]
fn badcases_parts_of_the_swap_file_change_places() {
    let _turn = shared_turn();
    if !needs_uswap() {
        return;
    }
    let scratch = Scratch::new();
    let right = right_checksum();
    let mut running = start(scratch.path(), &[]);
    let path = running.waits_for_swap_file(scratch.path(), 30 << 20);
    let file = path.and_then(|path| OpenOptions::new().read(true).write(true).open(path).ok());
    let mut part = vec![0; 28 << 20];
    let is_moved = file.is_some_and(|file| {
        file.read_exact_at(&mut part, 0).is_ok() && file.write_all_at(&part, 4096).is_ok()
    });
    let outcome = running.finish();
    assert!(is_moved, "the swap file was not used: {}", outcome.stderr);
    never_wrong("parts_change_places", &outcome, right);
    assert!(outcome.code != Some(0), "7,000 pages lay elsewhere and all was read, but nothing was noticed");
}

/// From some moment on every read and write of the disk fails.
#[test]
fn badcases_disk_fails_mid_run() {
    let _turn = shared_turn();
    if uswap_binary().is_none() {
        return skip("this case is about uswap itself; the simulator covers write errors in detail");
    }
    let Some(disk) = SmallDisk::new(600) else { return };
    let right = right_checksum();
    let mut running = start(&disk.mounted, &[]);
    let seen = running.waits_for_swap_file(&disk.mounted, 30 << 20).is_some();
    disk.fail();
    let outcome = running.finish();
    assert!(seen, "the swap file was not used: {}", outcome.stderr);
    never_wrong("disk_fails", &outcome, right);
}

/// Bytes in the swap file are changed by someone else: each changed blob is found by its checksum.
#[test]
fn badcases_data_flipped_mid_run() {
    let _turn = shared_turn();
    if !needs_uswap() {
        return;
    }
    let scratch = Scratch::new();
    let right = right_checksum();
    let mut running = start(scratch.path(), &[]);
    let path = running.waits_for_swap_file(scratch.path(), 30 << 20);
    let mut flipped = 0u32;
    if let Some(file) = path.and_then(|path| OpenOptions::new().read(true).write(true).open(path).ok()) {
        let bytes = file.metadata().map(|status| status.len()).unwrap_or(0);
        let mut byte = [0];
        for offset in (100..bytes).step_by(4096) {
            if file.read_at(&mut byte, offset).is_ok_and(|count| count == 1) {
                flipped += u32::from(file.write_at(&[byte[0] ^ 0x10], offset).is_ok());
            }
        }
    }
    let outcome = running.finish();
    assert!(flipped > 1000, "only {flipped} bytes were changed: {}", outcome.stderr);
    never_wrong("data_flipped", &outcome, right);
    assert!(
        outcome.code != Some(0),
        "{flipped} blobs were changed and all was read, but nothing was noticed"
    );
}

#[test]
fn badcases_a_disk_that_is_full_at_the_start_is_told_of() {
    let Some(uswap) = uswap_binary() else { return };
    let Some(disk) = SmallDisk::new(16) else { return };
    let filler = std::fs::File::create(disk.mounted.join("filler")).expect("it is mounted, and ours");
    let block = [1; 1 << 16];
    while std::io::Write::write(&mut &filler, &block).is_ok_and(|written| written > 0) {}
    let output = std::process::Command::new(uswap)
        .args(["run", "--ram", "64M", "--swap"])
        .arg(&disk.mounted)
        .args(["--", "echo", "started"])
        .output()
        .expect("uswap can be started");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("there is no place for a swap file"), "{told}");
    assert!(!told.contains("panicked"), "{told}");
    assert_eq!((output.status.success(), output.stdout.as_slice()), (false, &b""[..]), "{told}");
}
