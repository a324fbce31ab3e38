//! Two sides that stand still: what each of their threads does is told, and they are ended.

use crate::evictor::{COUNTS, WORDS, last_fault};
use std::fmt::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;
use uswap_interpose::buffers::HazardTable;

/// So long no call of two sides ends only if one of them waits for ever: a call takes some microseconds.
const STILL: Duration = Duration::from_secs(180);

/// Looks at `done` until `is_over` ends. If it stands still, the sides are ended after their threads are told.
pub fn watch(sides: [u32; 2], done: &AtomicU64, is_over: &Receiver<()>) {
    let mut seen = 0;
    while is_over.recv_timeout(STILL) == Err(RecvTimeoutError::Timeout) {
        let now = done.load(Ordering::Relaxed);
        if now != seen {
            seen = now;
            continue;
        }
        for (side, role) in sides.iter().zip(["plain", "evicted"]) {
            eprintln!("no call has ended for {STILL:?} after {now}; the {role} side:\n{}", threads(*side));
        }
        // The other side has no handler for it.
        crate::kernel::raw(libc::SYS_kill, [sides[1].into(), libc::SIGQUIT as u64]);
        std::thread::sleep(Duration::from_secs(1));
        for side in sides {
            crate::kernel::raw(libc::SYS_kill, [side.into(), libc::SIGKILL as u64]);
        }
    }
}

/// What the kernel tells of the threads of a process.
fn threads(process: u32) -> String {
    let mut text = String::new();
    let tasks = std::fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    for task in tasks {
        for name in ["comm", "wchan", "syscall", "stack", "status"] {
            let content = std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
            let is_told = |line: &&str| {
                name != "status" || ["State", "Sig", "voluntary"].iter().any(|start| line.starts_with(start))
            };
            for line in content.lines().filter(is_told) {
                let _ = writeln!(text, "  {name}: {line}");
            }
        }
    }
    text
}

static HAZARDS: OnceLock<&'static HazardTable<'static>> = OnceLock::new();

/// In a side that evicts: at SIGQUIT the state of its pages is told.
pub fn tell_when_asked(hazards: &'static HazardTable<'static>) {
    extern "C" fn tell(_: i32) {
        let words: Vec<u32> = WORDS.iter().map(|word| word.load(Ordering::Relaxed)).collect();
        let counts: Vec<u64> = COUNTS.iter().map(|count| count.load(Ordering::Relaxed)).collect();
        eprintln!("page words {words:?}, counts {counts:?}");
        eprintln!("{}", HAZARDS.get().map_or("no calls".into(), |hazards| last_fault(hazards)));
    }
    HAZARDS.get_or_init(|| hazards);
    // SAFETY:
    // 1. The handler runs only in a process that stands still and is about to be killed. It allocates and prints: if
    //    the thread that it interrupts holds a lock for that, nothing is told.
    unsafe { libc::signal(libc::SIGQUIT, tell as *const () as usize) };
}
