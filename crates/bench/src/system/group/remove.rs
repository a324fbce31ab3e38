//! Ends what is in a cgroup and removes its directory.

use std::fs;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::process::{Pid, Signal, kill_process};

/// A killed process may have to free gigabytes first, and a group on a slow disk waits for it.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Between two tries.
const PAUSE: Duration = Duration::from_millis(5);

/// Processes in the group `dir`. None if it is gone.
pub(super) fn process_ids(dir: &Path) -> Vec<u32> {
    let text = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
    // 0 stands for a process of a foreign pid namespace.
    text.lines().filter_map(|line| line.parse().ok()).filter(|id| *id != 0).collect()
}

/// Kills all that are in it now.
pub(super) fn kill_all(dir: &Path) {
    for id in process_ids(dir) {
        if let Some(id) = i32::try_from(id).ok().and_then(Pid::from_raw) {
            // It may have ended just now.
            let _ = kill_process(id, Signal::KILL);
        }
    }
}

/// Kills until nobody is left, then removes. Already gone is well.
///
/// # Errors
/// If somebody is left after all.
pub(super) fn remove(dir: &Path) -> anyhow::Result<()> {
    let start = Instant::now();
    loop {
        match fs::remove_dir(dir) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && start.elapsed() < WAIT_MAX => {}
            result => {
                return result.with_context(|| format!("the cgroup '{}' cannot be removed", dir.display()));
            }
        }
        kill_all(dir);
        thread::sleep(PAUSE);
    }
}
