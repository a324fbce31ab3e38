//! A memory cgroup around a run: what the kernel itself counts for it. Called by the tests of counting.
//!
//! What must hold: the group is gone when it is dropped. It sets no limit. A machine without a memory controller, or
//! where none may be made, has no group: the test is skipped.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::run::{Outcome, Run};

const PERIOD: Duration = Duration::from_millis(10);

/// Puts itself into a group, then becomes the program.
const ENTER: &str = "echo $$ > \"$0/cgroup.procs\" && exec \"$@\"";

static MADE: AtomicU64 = AtomicU64::new(0);

/// A group, and the thread that reads it.
#[derive(Debug)]
pub struct MemoryGroup {
    directory: PathBuf,
    stop: Arc<AtomicBool>,
    peak_bytes: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl MemoryGroup {
    /// Makes one, of either version; `None` where that is not possible.
    pub fn new() -> Option<MemoryGroup> {
        let name = format!("uswap-tests-{}-{}", std::process::id(), MADE.fetch_add(1, Relaxed));
        let roots = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup"];
        let directory = roots.iter().map(|root| Path::new(root).join(&name)).find(|directory| {
            let made = fs::create_dir(directory).is_ok();
            // Of version 2 the controller may be off in the root; a plain directory is no group at all.
            let counts = made && directory.join("memory.stat").exists();
            if made && !counts {
                let _ = fs::remove_dir(directory);
            }
            counts
        })?;
        let (stop, peak_bytes) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let thread = std::thread::spawn({
            let (stop, peak_bytes) = (Arc::clone(&stop), Arc::clone(&peak_bytes));
            let statistics = directory.join("memory.stat");
            move || {
                while !stop.load(Relaxed) {
                    let text = fs::read_to_string(&statistics).unwrap_or_default();
                    peak_bytes.fetch_max(anonymous_and_shared_bytes(&text), Relaxed);
                    std::thread::sleep(PERIOD);
                }
            }
        });
        Some(MemoryGroup { directory, stop, peak_bytes, thread: Some(thread) })
    }

    /// Runs `run` in it, to its end.
    pub fn finish(&self, run: &Run) -> Outcome {
        let words = run.command_words();
        Run::plain("/bin/sh").args(["-c", ENTER]).arg(&self.directory).args(words).finish()
    }

    /// The most anonymous and shared memory that it was seen to hold.
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes.load(Relaxed)
    }
}

impl Drop for MemoryGroup {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            // A panic of it was printed.
            let _ = thread.join();
        }
        // Who has just ended is in it for a moment.
        for _ in 0..100 {
            if fs::remove_dir(&self.directory).is_ok() {
                return;
            }
            std::thread::sleep(PERIOD);
        }
    }
}

/// Of `memory.stat`, of version 1 (with all groups below) or 2.
fn anonymous_and_shared_bytes(text: &str) -> u64 {
    let number = |names: [&str; 2]| -> u64 {
        let line = |name: &str| {
            let mut lines = text.lines().filter_map(|line| line.split_once(' '));
            lines.find(|&(known, _)| known == name).and_then(|(_, number)| number.parse().ok())
        };
        names.iter().find_map(|name| line(name)).unwrap_or(0)
    };
    number(["total_rss", "anon"]) + number(["total_shmem", "shmem"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_versions_are_read() {
        assert_eq!(anonymous_and_shared_bytes("anon 100\nfile 50\nshmem 20\n"), 120);
        assert_eq!(anonymous_and_shared_bytes("rss 1\nshmem 1\ntotal_rss 100\ntotal_shmem 20\n"), 120);
        assert_eq!(anonymous_and_shared_bytes(""), 0);
    }
}
