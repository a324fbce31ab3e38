//! Measures every 10 ms how much memory a run uses, from outside.
//!
//! Used memory = anonymous memory of all processes of the tree, the supervisor included, plus the blocks of the run's
//! memfd. Memory that fork left shared is counted once: first the cheap sum is taken (statm, shared pages counted in
//! each process, so never too small); only when that is above the budget, the exact one (`Pss_Anon`). An exact walk
//! that takes more than 5 ms is too slow to be a sample of one moment and disturbs the run: it is used, noted, and the
//! next ten are not made, unless more than a tenth of all samples would be unknown. A sample that is then neither
//! proven to be inside the budget nor exact is counted as unknown, not as good.
//!
//! A walk reads one process after the other. What one gives back and another takes meanwhile would count twice. So a
//! sum above 105 % is only believed after a second walk: of the two, each process counts with the smaller size.

use crate::process::{Process, Tree};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PERIOD: Duration = Duration::from_millis(10);
const SLOW_WALK: Duration = Duration::from_millis(5);
const PAGE_BYTES: u64 = 4096;

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Samples taken.
    pub count: u64,
    /// Samples above 105 % of the budget.
    pub over: u64,
    /// Samples whose cheap sum was above the budget and whose exact sum was not taken.
    pub unknown: u64,
    /// Exact walks that took more than 5 ms.
    pub slow_walks: u64,
    /// The largest sum, in bytes. Where only cheap sums were needed it may be too large, never too small.
    pub peak_bytes: u64,
    /// Blocks of the memfd at the peak, in bytes.
    pub peak_segment_bytes: u64,
    /// The last sum, in bytes.
    pub last_bytes: u64,
    /// Most processes alive at once.
    pub processes_max: usize,
}

/// A thread that samples until it is stopped.
#[derive(Debug)]
pub struct Sampler {
    stop: Arc<AtomicBool>,
    samples: Arc<Mutex<Samples>>,
    tree: Arc<Mutex<Tree>>,
    thread: Option<JoinHandle<()>>,
}

impl Sampler {
    /// Starts to sample the tree below `root`; `budget_bytes` is the budget, or a size above all for plain runs.
    pub fn start(root: i32, budget_bytes: u64) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let samples = Arc::new(Mutex::new(Samples::default()));
        let tree = Arc::new(Mutex::new(Tree::of(root)));
        let thread = std::thread::spawn({
            let (stop, samples, tree) = (Arc::clone(&stop), Arc::clone(&samples), Arc::clone(&tree));
            move || watch(&stop, &samples, &tree, root, budget_bytes)
        });
        Self { stop, samples, tree, thread: Some(thread) }
    }

    /// What was seen so far.
    pub fn samples(&self) -> Samples {
        self.samples.lock().expect("the sampler does not panic").clone()
    }

    /// The processes alive now.
    pub fn processes(&self) -> Vec<Process> {
        self.tree.lock().expect("the sampler does not panic").look()
    }

    /// Kills all processes of the tree.
    pub fn kill_all(&self) {
        self.tree.lock().expect("the sampler does not panic").kill();
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of the sampler has already been printed.
            let _ = thread.join();
        }
    }
}

fn watch(stop: &AtomicBool, samples: &Mutex<Samples>, tree: &Mutex<Tree>, root: i32, budget_bytes: u64) {
    // A plain run has no budget, which is the largest number.
    let limit_bytes = (budget_bytes / 100).saturating_mul(105);
    let mut segments: Vec<PathBuf> = Vec::new();
    let mut round = 0u64;
    let mut walks_to_leave_out = 0u32;
    while !stop.load(Relaxed) {
        let started = Instant::now();
        let processes = tree.lock().expect("tests do not panic with the tree locked").look();
        if round.is_multiple_of(50) || (segments.is_empty() && round < 200) {
            segments = find_segments(root, &processes);
        }
        round += 1;
        let segment_bytes = bytes_of_segments(&segments);
        let cheap: u64 = processes.iter().map(|process| anonymous_bytes(process.pid)).sum();
        let mut total = cheap + segment_bytes;
        let (mut known, mut slow) = (true, false);
        if total > budget_bytes && processes.len() > 1 {
            if walks_to_leave_out > 0 && few_are_unknown(samples) {
                walks_to_leave_out -= 1;
                known = false;
            } else {
                walks_to_leave_out = 0;
                let walk = Instant::now();
                let exact = exact_sizes(&processes);
                slow = walk.elapsed() > SLOW_WALK;
                total = exact.iter().sum::<u64>() + segment_bytes;
                if total > limit_bytes {
                    let again = exact_sizes(&processes);
                    let smaller = exact.iter().zip(&again).map(|(first, second)| first.min(second));
                    total = smaller.sum::<u64>() + segment_bytes.min(bytes_of_segments(&segments));
                }
                if slow {
                    walks_to_leave_out = 10;
                }
            }
        }
        let mut seen = samples.lock().expect("tests do not panic with the samples locked");
        seen.count += 1;
        seen.slow_walks += u64::from(slow);
        seen.unknown += u64::from(!known);
        seen.processes_max = seen.processes_max.max(processes.len());
        if known {
            seen.last_bytes = total;
            seen.over += u64::from(total > limit_bytes);
            if total > seen.peak_bytes {
                seen.peak_bytes = total;
                seen.peak_segment_bytes = segment_bytes;
            }
        }
        drop(seen);
        std::thread::sleep(PERIOD.saturating_sub(started.elapsed()));
    }
}

/// Whether one more may be unknown: then it is at most one of ten. On a slow machine each walk is slow.
fn few_are_unknown(samples: &Mutex<Samples>) -> bool {
    let seen = samples.lock().expect("tests do not panic with the samples locked");
    (seen.unknown + 1) * 10 <= seen.count
}

/// Resident anonymous memory: resident pages less those of files and shared memory.
fn anonymous_bytes(pid: i32) -> u64 {
    let Ok(statm) = fs::read_to_string(format!("/proc/{pid}/statm")) else { return 0 };
    let mut words = statm.split(' ').skip(1).map(|word| word.parse::<u64>().unwrap_or(0));
    let (resident, shared) = (words.next().unwrap_or(0), words.next().unwrap_or(0));
    resident.saturating_sub(shared) * PAGE_BYTES
}

fn exact_sizes(processes: &[Process]) -> Vec<u64> {
    processes.iter().map(|process| exact_bytes(process.pid)).collect()
}

/// Anonymous memory where a page shared by n processes counts 1/n in each.
fn exact_bytes(pid: i32) -> u64 {
    let Ok(rollup) = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) else { return 0 };
    let line = rollup.lines().find_map(|line| line.strip_prefix("Pss_Anon:"));
    line.and_then(|rest| rest.trim().trim_end_matches("kB").trim().parse::<u64>().ok()).unwrap_or(0) * 1024
}

/// Descriptors of the run's memfd: the supervisor's if it has one, else the first one found.
fn find_segments(root: i32, processes: &[Process]) -> Vec<PathBuf> {
    let pids = std::iter::once(root).chain(processes.iter().map(|process| process.pid));
    for pid in pids {
        let found = segments_of(pid);
        if !found.is_empty() {
            return found;
        }
    }
    Vec::new()
}

fn segments_of(pid: i32) -> Vec<PathBuf> {
    let Ok(descriptors) = fs::read_dir(format!("/proc/{pid}/fd")) else { return Vec::new() };
    let mut inodes = Vec::new();
    descriptors
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            fs::read_link(path).is_ok_and(|link| link.to_string_lossy().starts_with("/memfd:uswap"))
        })
        .filter(|path| {
            let inode = fs::metadata(path).map(|status| status.ino()).unwrap_or(0);
            let fresh = !inodes.contains(&inode);
            inodes.push(inode);
            fresh
        })
        .collect()
}

fn bytes_of_segments(segments: &[PathBuf]) -> u64 {
    segments.iter().filter_map(|path| fs::metadata(path).ok()).map(|status| status.blocks() * 512).sum()
}
