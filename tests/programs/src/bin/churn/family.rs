//! Operations with other processes: children and grandchildren that verify and write, exec, spawn, SIGKILL.
//!
//! What must hold: a child allocates nothing and uses the snapshot, not the live table.

use crate::table::{Origin, RECORDS, Record, Table, Word, expected, verify};
use crate::worker::{Common, Worker, verify_common};
use std::time::{Duration, Instant};
use uswap_test_programs::PAGE_BYTES;
use uswap_test_programs::memory;
use uswap_test_programs::message::{end_process, errno};
use uswap_test_programs::pattern::Page;
use uswap_test_programs::random::{Random, mix};

/// Pages that a child and a grandchild write each.
const WRITES: usize = 24;
/// Pages that a child verifies in one round.
const SAMPLE: usize = 96;

/// A child that has not been waited for.
pub struct Child {
    pid: i32,
    kill_at: Option<Instant>,
}

/// Starts a process of some kind.
pub fn fork_something(worker: &mut Worker) {
    reap(worker);
    match worker.random.below(8) {
        0 | 1 => {
            let pid = fork_child(worker, Plan::VerifyAndWrite);
            worker.child = Some(Child { pid, kill_at: None });
            reap(worker);
        }
        2 | 3 => {
            // The child works while the parent's thread goes on.
            let pid = fork_child(worker, Plan::VerifyAndWrite);
            worker.child = Some(Child { pid, kill_at: None });
        }
        4 => {
            let pid = fork_child(worker, Plan::VerifyForEver);
            let patience = Duration::from_micros(worker.random.below(20_000));
            worker.child = Some(Child { pid, kill_at: Some(Instant::now() + patience) });
        }
        5 => {
            let pid = fork_child(worker, Plan::Exec);
            worker.child = Some(Child { pid, kill_at: None });
            reap(worker);
        }
        _ => spawn(worker),
    }
}

/// Waits for the child of this thread, if there is one; its status must be what was planned.
pub fn reap(worker: &mut Worker) {
    let Some(child) = worker.child.take() else { return };
    if let Some(kill_at) = child.kill_at {
        std::thread::sleep(kill_at.saturating_duration_since(Instant::now()));
        // SAFETY:
        // 1. The child has not been waited for, so its number still names it.
        unsafe { libc::kill(child.pid, libc::SIGKILL) };
    }
    let status = wait(child.pid);
    let killed = libc::WIFSIGNALED(status) && libc::WTERMSIG(status) == libc::SIGKILL;
    let good = if child.kill_at.is_some() { killed } else { status == 0 };
    if !good {
        worker.fail("a child ended with wait status", status.into());
    }
}

fn wait(pid: i32) -> i32 {
    let mut status = 0;
    loop {
        // SAFETY:
        // 1. `status` is a live local.
        let answer = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        if answer == pid {
            return status;
        }
        if errno() != libc::EINTR {
            end_process(1, format_args!("FAIL waitpid {pid}: errno {}", errno()));
        }
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Plan {
    VerifyAndWrite,
    VerifyForEver,
    Exec,
}

fn fork_child(worker: &mut Worker, plan: Plan) -> i32 {
    worker.snapshot.take_snapshot(worker.table);
    worker.snapshot.running = worker.table.running;
    let seed = worker.random.next_number();
    // Asked here: a child whose parent was killed at once would be told the number of another one.
    let parent = std::process::id();
    // SAFETY:
    // 1. The child below calls only functions that neither allocate nor take locks, and ends with `_exit` or exec.
    let pid = unsafe { libc::fork() };
    match pid {
        0 => run_child(&Kin { table: worker.snapshot, common: worker.common, parent }, plan, seed),
        -1 => worker.fail("fork failed, errno", errno().into()),
        _ => pid,
    }
}

/// What a child knows of its family's memory.
struct Kin<'a> {
    table: &'a Table,
    common: &'a Common,
    /// The process that forked it.
    parent: u32,
}

/// A page that a child has written: where, and with which number.
type Written = [(usize, u32); WRITES];

fn run_child(kin: &Kin<'_>, plan: Plan, seed: u64) -> ! {
    let mut random = Random::new(seed);
    match plan {
        Plan::VerifyForEver => {
            // Until its parent kills it; when the parent was killed itself, nobody else would.
            loop {
                verify_sample(kin, &mut random, &[], "child");
                // SAFETY:
                // 1. getppid takes nothing and cannot fail.
                if unsafe { libc::getppid() } as u32 != kin.parent {
                    end_quietly();
                }
            }
        }
        Plan::Exec => {
            verify_sample(kin, &mut random, &[], "child before exec");
            let arguments = [c"/bin/true".as_ptr(), core::ptr::null()];
            // SAFETY:
            // 1. The path ends in NUL and the array of arguments ends in null.
            unsafe { libc::execv(arguments[0], arguments.as_ptr()) };
            end_process(1, format_args!("FAIL exec of /bin/true: errno {}", errno()));
        }
        Plan::VerifyAndWrite => {
            verify_sample(kin, &mut random, &[], "child");
            let mut own = [(0, 0); WRITES];
            write_some(kin, &mut random, &mut own, writer_of_generation(kin, 1));
            let mut grandchild = 0;
            if random.one_in(2) {
                // SAFETY:
                // 1. As in `fork_child`; this process has a single thread.
                grandchild = unsafe { libc::fork() };
                if grandchild == 0 {
                    run_grandchild(kin, seed, &own);
                }
            }
            verify_sample(kin, &mut random, &own, "child after writing");
            verify_own(kin, &own, writer_of_generation(kin, 1), "child, own pages");
            if grandchild < 0 || (grandchild > 0 && wait(grandchild) != 0) {
                end_process(1, format_args!("FAIL a grandchild of thread {} failed", kin.table.thread));
            }
            verify_own(kin, &own, writer_of_generation(kin, 1), "child, own pages, at the end");
            end_quietly()
        }
    }
}

fn run_grandchild(kin: &Kin<'_>, seed: u64, parents: &Written) -> ! {
    let mut random = Random::new(mix(seed));
    verify_own(kin, parents, writer_of_generation(kin, 1), "grandchild, pages of its parent");
    verify_sample(kin, &mut random, parents, "grandchild");
    let mut own = [(0, 0); WRITES];
    write_some(kin, &mut random, &mut own, writer_of_generation(kin, 2));
    verify_own(kin, &own, writer_of_generation(kin, 2), "grandchild, own pages");
    end_quietly()
}

fn end_quietly() -> ! {
    // SAFETY:
    // 1. `_exit` has no precondition.
    unsafe { libc::_exit(0) }
}

fn writer_of_generation(kin: &Kin<'_>, generation: u32) -> u32 {
    kin.table.thread | (generation << 8)
}

fn any_page(kin: &Kin<'_>, random: &mut Random) -> Option<(Record, Word, usize)> {
    let start = random.index(RECORDS);
    let index = (0..RECORDS)
        .map(|step| (start + step) % RECORDS)
        .find(|&index| kin.table.records[index].origin != Origin::Nothing)?;
    let record = kin.table.records[index];
    let page = random.index(record.pages as usize);
    Some((record, kin.table.word(index, page), page))
}

/// Verifies pages of all ranges and the pages that all threads read; leaves out those in `changed`.
fn verify_sample(kin: &Kin<'_>, random: &mut Random, changed: &[(usize, u32)], who: &str) {
    for _ in 0..SAMPLE {
        let Some((record, word, page)) = any_page(kin, random) else { return };
        let address = record.page_address(page);
        if !changed.iter().any(|&(other, _)| other == address) {
            verify(kin.table, who, kin.table.thread, address, word);
        }
    }
    verify_common(kin.table, kin.common, random.index(kin.common.pages), who);
}

/// Writes up to `WRITES` pages, each once, and notes them.
fn write_some(kin: &Kin<'_>, random: &mut Random, notes: &mut Written, writer: u32) {
    let mut content: Page = [0; PAGE_BYTES];
    for position in 0..WRITES {
        let Some((record, word, page)) = any_page(kin, random) else { return };
        let address = record.page_address(page);
        let taken = notes[..position].iter().any(|&(other, _)| other == address);
        if word.writable() && !taken {
            let number = position as u32 + 1 + (random.next_number() as u32 & 0xFFFF00);
            expected(kin.table.seed, writer, Word::written(number), &mut content);
            memory::copy_page_in(address, &content);
            notes[position] = (address, number);
        }
    }
}

fn verify_own(kin: &Kin<'_>, notes: &Written, writer: u32, who: &str) {
    for &(address, number) in notes.iter().filter(|(address, _)| *address != 0) {
        verify(kin.table, who, writer, address, Word::written(number));
    }
}

/// posix_spawn shares the memory with its parent until it execs.
fn spawn(worker: &mut Worker) {
    let mut pid = 0;
    let arguments = [c"/bin/true".as_ptr().cast_mut(), core::ptr::null_mut()];
    let environment: [*mut libc::c_char; 1] = [core::ptr::null_mut()];
    // SAFETY:
    // 1. The path ends in NUL, both arrays end in null and outlive the call; no attributes are given.
    let answer = unsafe {
        libc::posix_spawn(
            &raw mut pid,
            arguments[0],
            core::ptr::null(),
            core::ptr::null(),
            arguments.as_ptr(),
            environment.as_ptr(),
        )
    };
    if answer != 0 {
        worker.fail("posix_spawn failed, errno", answer.into());
    }
    worker.child = Some(Child { pid, kill_at: None });
    reap(worker);
}
