//! A program and all that it started, found through `/proc`: for a user who may make no cgroup.
//!
//! What must hold: whoever loses its parent becomes a child of this process, so it is found and ended all the same.
//! This process has no other children as long as a family lives.

use std::ffi::OsString;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, getpid, kill_process, set_child_subreaper, waitid,
};
use uswap_os::process::{self, StatmFile};

use super::group::GroupMemory;
use super::group::cpu::CpuClock;
use super::undo::{Scope, Step};

/// A killed process may have to free gigabytes first.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(5);

/// All processes below this one.
pub struct Family {
    cpu: CpuClock,
}

impl Family {
    /// Nobody is in it yet. `scope` ends those who will be.
    ///
    /// # Errors
    /// If the kernel does not list the children of a process.
    pub fn make(scope: &mut Scope) -> anyhow::Result<Self> {
        process::for_each_child(process::process_id(), |_| ())
            .map_err(|errno| anyhow::anyhow!("{errno}"))
            .context("/proc does not list the children of a process, and no cgroup can be made")?;
        set_child_subreaper(Some(getpid())).context("orphans cannot be kept")?;
        let cpu = CpuClock::of([]);
        scope.change(|| {
            Ok((
                Self { cpu },
                Step::new(format!("pkill -9 -P {}", process::process_id()), || end_all(WAIT_MAX)),
            ))
        })
    }

    /// A command that runs `program`: as it is.
    pub fn command(program: &[OsString]) -> Command {
        let mut words = program.iter();
        let mut command = Command::new(words.next().map_or("".as_ref(), OsString::as_os_str));
        command.args(words);
        command
    }

    /// Anonymous memory now. A page that several processes share after a fork counts for each.
    pub fn memory(&self) -> GroupMemory {
        let statm = |id: u32| StatmFile::open(Some(id)).and_then(|file| file.read()).ok();
        // One that has ended has no memory.
        let bytes = descendants().into_iter().filter_map(statm).map(|statm| statm.anonymous_bytes());
        GroupMemory { anonymous_bytes: bytes.sum(), ..GroupMemory::default() }
    }

    /// Processor seconds of all that ran in it; 0 if they cannot be read.
    pub fn cpu_seconds(&self) -> f64 {
        self.cpu.seconds(descendants).unwrap_or(0.0)
    }

    /// Kills all that are in it now; they may take a moment to be gone.
    pub fn kill(&self) {
        kill_all();
    }

    /// Those in it now.
    pub fn process_ids(&self) -> Vec<u32> {
        descendants()
    }
}

/// Children, and theirs, whether they live or have ended.
fn descendants() -> Vec<u32> {
    let mut found = Vec::new();
    let mut parents = vec![process::process_id()];
    while let Some(parent) = parents.pop() {
        // One that has ended has no children.
        let _ = process::for_each_child(parent, |child| {
            found.push(child);
            parents.push(child);
        });
    }
    found
}

fn kill_all() {
    for id in descendants().into_iter().filter_map(pid_of) {
        // It may have ended just now.
        let _ = kill_process(id, Signal::KILL);
    }
}

fn pid_of(id: u32) -> Option<Pid> {
    i32::try_from(id).ok().and_then(Pid::from_raw)
}

/// Kills and waits until nobody is left.
fn end_all(wait_max: Duration) -> anyhow::Result<()> {
    let start = Instant::now();
    loop {
        let left = descendants();
        if left.is_empty() {
            return Ok(());
        }
        anyhow::ensure!(start.elapsed() < wait_max, "processes {left:?} do not end");
        kill_all();
        for id in left.into_iter().filter_map(pid_of) {
            // Only children can be waited for: the others become some when their parents have ended.
            let _ = waitid(WaitId::Pid(id), WaitIdOptions::EXITED | WaitIdOptions::NOHANG);
        }
        thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::system::undo::Undo;
    use std::io::{BufRead as _, BufReader, Read as _};
    use std::process::Stdio;

    /// In a process of its own: here all children of the process are the family's.
    #[test]
    fn a_family_is_counted_and_ends_with_its_orphans() {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["system::family::tests::child_with_a_family", "--exact", "--ignored", "--nocapture"])
            .output()
            .unwrap();
        let text =
            [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        assert!(output.status.success() && text.contains("all are gone"), "{text}");
    }

    /// Not a test: the process that the test above starts.
    #[test]
    #[ignore = "the child of another test"]
    fn child_with_a_family() {
        let undo = Undo::new();
        let mut scope = undo.scope();
        let family = Family::make(&mut scope).unwrap();
        // The orphan has left the session. It is a whole process only when its line comes: amid its execve it has
        // next to no memory. Then it waits for an input that never comes.
        let script = "exec 3<&0; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; \
            (setsid sh -c 'echo here; read line' <&3 &)";
        let words = ["/bin/sh", "-c", script].map(OsString::from);
        let mut child = Family::command(&words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        // Kept: `wait` would close it.
        let _input = child.stdin.take().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        assert!(child.wait().unwrap().success());
        let mut line = String::new();
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "here\n");
        let ids = family.process_ids();
        assert_eq!(ids.len(), 1, "the orphan is in the family");
        assert!(family.memory().anonymous_bytes > 4096);
        assert!(family.cpu_seconds() > 0.0);
        drop(scope);
        assert!(family.process_ids().is_empty());
        assert!(!process::is_alive(ids[0]));
        // The pipe is closed when its last holder is gone.
        output.read_to_end(&mut Vec::new()).unwrap();
        println!("all are gone");
    }
}
