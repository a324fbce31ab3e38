//! uswap itself: `uswap run` around the program.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::Context as _;
use serde::Deserialize;
use uswap_os::process::StatmFile;

use super::group_session::{GroupSession, sum};
use super::{Counting, Session, Setting};
use crate::results::Memory;
use crate::system::undo::Scope;

/// Unit of the blocks that `stat` counts.
const BLOCK_BYTES: u64 = 512;

/// uswap limits by itself; the group only counts.
pub(super) struct UswapSession {
    inside: GroupSession,
    executable: PathBuf,
    budget_bytes: u64,
    counting: Counting,
    swap_dir: PathBuf,
    /// What `--json` writes.
    report: PathBuf,
    /// Process of the supervisor; 0 is not found yet.
    supervisor: AtomicU32,
    /// The file in /proc of its memory for the pool and the tables, once that is found.
    segment: OnceLock<PathBuf>,
}

/// What we read of the report.
#[derive(Deserialize)]
struct Report {
    faults: Vec<Fault>,
}

#[derive(Deserialize)]
struct Fault {
    count: u64,
}

impl UswapSession {
    pub(super) fn make(scope: Scope, setting: &Setting) -> anyhow::Result<Self> {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let executable = fs::canonicalize(&setting.uswap)
            .with_context(|| format!("uswap is not at '{}': build or install it", setting.uswap.display()))?;
        let report = format!("uswap-{}.json", MADE.fetch_add(1, Ordering::Relaxed));
        Ok(Self {
            inside: GroupSession::free(scope, setting.counting)?,
            executable,
            budget_bytes: setting.budget_bytes,
            counting: setting.counting,
            swap_dir: setting.swap_dir.clone(),
            report: setting.work_dir.join(report),
            supervisor: AtomicU32::new(0),
            segment: OnceLock::new(),
        })
    }

    /// Blocks of the pool and the tables; 0 before they are there and after.
    fn segment_bytes(&self) -> u64 {
        if self.segment.get().is_none()
            && let Some(found) = find_segment(self.supervisor.load(Ordering::Relaxed))
        {
            // Another look may have been faster: the path is the same.
            let _ = self.segment.set(found);
        }
        let status = self.segment.get().and_then(|path| fs::metadata(path).ok());
        status.map_or(0, |status| status.blocks() * BLOCK_BYTES)
    }

    /// Anonymous memory of the supervisor; 0 before it runs and after.
    fn supervisor_bytes(&self) -> u64 {
        let known = self.supervisor.load(Ordering::Relaxed);
        if known != 0 {
            return anonymous_bytes(known).unwrap_or(0);
        }
        // Its child is still uswap for a moment, but has a higher number.
        let is_supervisor =
            |id: &u32| fs::read_link(format!("/proc/{id}/exe")).is_ok_and(|path| path == self.executable);
        let Some(found) = self.inside.process_ids().into_iter().filter(is_supervisor).min() else {
            return 0;
        };
        self.supervisor.store(found, Ordering::Relaxed);
        anonymous_bytes(found).unwrap_or(0)
    }
}

/// What the link of an open file in /proc begins with, if the file is the shared memory of a run.
const SEGMENT_LINK: &str = "/memfd:uswap-segment";

/// The descriptor of that memory.
fn find_segment(supervisor: u32) -> Option<PathBuf> {
    let open = fs::read_dir(format!("/proc/{supervisor}/fd")).ok()?;
    let is_segment = |path: &PathBuf| {
        fs::read_link(path).is_ok_and(|link| link.to_string_lossy().starts_with(SEGMENT_LINK))
    };
    open.flatten().map(|entry| entry.path()).find(is_segment)
}

fn anonymous_bytes(process_id: u32) -> Option<u64> {
    let statm = StatmFile::open(Some(process_id)).ok()?.read().ok()?;
    Some(statm.anonymous_bytes())
}

impl Session for UswapSession {
    fn command(&self, program: &[OsString]) -> Command {
        let mut words: Vec<OsString> = vec![self.executable.clone().into(), "run".into()];
        words.extend(["--ram".into(), self.budget_bytes.to_string().into()]);
        words.extend(["--swap".into(), self.swap_dir.clone().into()]);
        words.extend(["--json".into(), self.report.clone().into(), "-q".into(), "--".into()]);
        words.extend_from_slice(program);
        self.inside.command(&words)
    }

    fn set_limit(&mut self, _bytes: u64) -> anyhow::Result<()> {
        Ok(())
    }

    /// The pool and the tables are one segment of shared memory, so shared memory of the program itself would be
    /// counted with them. The supervisor's memory is taken from the group's, where it is too: the sum is what the group
    /// holds.
    fn memory(&self) -> anyhow::Result<Memory> {
        let group = self.inside.group_memory()?;
        let own_bytes = self.supervisor_bytes().min(group.anonymous_bytes);
        let segment_bytes = match self.counting {
            Counting::Group => group.shmem_bytes,
            Counting::Processes => self.segment_bytes(),
        };
        Ok(sum(group.anonymous_bytes - own_bytes, segment_bytes, own_bytes))
    }

    fn cpu_seconds(&self) -> f64 {
        self.inside.cpu_seconds()
    }

    fn kills(&self) -> u64 {
        self.inside.kills()
    }

    /// Known only after the end: the report is written then.
    fn faults(&self) -> Option<u64> {
        parse_faults(&fs::read(&self.report).ok()?)
    }
}

fn parse_faults(report: &[u8]) -> Option<u64> {
    let report: Report = serde_json::from_slice(report).ok()?;
    Some(report.faults.iter().map(|fault| fault.count).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_all_kinds_are_added() {
        let report =
            br#"{"ram_bytes": 1, "faults": [{"name": "pool", "count": 3}, {"name": "file", "count": 4}]}"#;
        assert_eq!(parse_faults(report), Some(7));
        assert_eq!(parse_faults(b"{"), None);
    }
}
