//! Modes about fork, exec, credentials and death.

use crate::support::{Case, Filled, fail, in_child, must, wait, wait_good};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;
use std::time::Duration;
use uswap_test_programs::random::Random;

/// Eight generations, each of which fills memory, forks the next and verifies what all before it have left.
pub fn deep(case: &Case) {
    let generations = 8;
    let each = (case.bytes / generations) & !4095;
    let mut inherited = [None; 8];
    descend(case, each, 0, &mut inherited);
    // And by exec: eight programs deep, each with memory of its own alive.
    exec_deep(case, each);
}

fn descend(case: &Case, each: usize, generation: usize, inherited: &mut [Option<Filled>; 8]) {
    if generation == inherited.len() {
        return;
    }
    inherited[generation] = Some(Filled::new(each, case.seed, generation as u32 + 1));
    let mut copy = *inherited;
    let pid = in_child(move || {
        for filled in copy.iter().flatten() {
            filled.verify("descendant");
        }
        // A page of each is changed: the parents must not see it.
        for filled in copy.iter_mut().flatten() {
            uswap_test_programs::memory::write_word(filled.page(filled.pages / 2), 0x0BAD);
            filled.pages /= 2;
        }
        descend(case, each, generation + 1, &mut copy);
    });
    wait_good(pid, "a descendant");
    for filled in inherited.iter().flatten() {
        filled.verify("ancestor, after its descendants ended");
    }
}

fn exec_deep(case: &Case, each: usize) {
    let filled = Filled::new(each, case.seed, 100 + case.depth as u32);
    if case.depth < 7 {
        let status = itself("deep_family", case, case.depth + 1).status();
        let good = status.as_ref().is_ok_and(std::process::ExitStatus::success);
        if !good {
            fail!("program at depth {} ended with {status:?}", case.depth + 1);
        }
    }
    filled.verify("program, after those below it ended");
}

fn itself(mode: &str, case: &Case, depth: u64) -> Command {
    let program = std::env::current_exe().unwrap_or_else(|error| fail!("own path: {error}"));
    let mut command = Command::new(program);
    command.arg(mode).args(["--bytes", &case.bytes.to_string(), "--seed", &case.seed.to_string()]);
    command.args(["--depth", &depth.to_string()]).stdout(std::process::Stdio::null());
    command
}

/// Replaces itself by exec twelve times, with full memory each time, and from a child with a full parent.
pub fn exec_itself(case: &Case) {
    let filled = Filled::new(case.bytes, case.seed, case.depth as u32 + 1);
    filled.verify_steps("before exec", 3);
    if case.depth < 12 {
        let error = itself("exec_itself", case, case.depth + 1).stdout(std::process::Stdio::inherit()).exec();
        fail!("exec: {error}");
    }
}

/// Children that fork, exec and fill memory are killed at random moments; the parent's memory stays right.
pub fn killed_at_any_time(case: &Case) {
    let half = (case.bytes / 2) & !4095;
    let filled = Filled::new(half, case.seed, 1);
    let mut random = Random::new(case.seed);
    for round in 0..30u32 {
        let mut program = None;
        let pid = if round % 2 == 0 {
            in_child(|| {
                loop {
                    filled.verify_steps("child that is about to be killed", 7);
                    let own = Filled::new(half / 4, case.seed, 50);
                    own.verify("own memory of a child that is about to be killed");
                    let _ = uswap_test_programs::memory::unmap(own.address, own.pages * 4096);
                }
            })
        } else {
            let started =
                itself("exec_itself", case, 0).spawn().unwrap_or_else(|error| fail!("spawn: {error}"));
            let pid = started.id() as i32;
            program = Some(started);
            pid
        };
        std::thread::sleep(Duration::from_micros(random.below(60_000)));
        // SAFETY:
        // 1. The child has not been waited for, so the number names it.
        must(unsafe { libc::kill(pid, libc::SIGKILL) }, "kill");
        let signal = match program {
            Some(mut program) => {
                program.wait().unwrap_or_else(|error| fail!("wait: {error}")).signal().unwrap_or(0)
            }
            None => libc::WTERMSIG(wait(pid)),
        };
        if signal != libc::SIGKILL {
            fail!("a child that was killed ended by signal {signal}");
        }
        filled.verify_steps("parent of a killed child", 5);
    }
    filled.verify("parent, at the end");
}

/// Becomes nobody after its memory was evicted, and then uses more.
pub fn drop_privileges(case: &Case) {
    let filled = Filled::new(case.bytes, case.seed, 1);
    let watcher = std::thread::spawn(move || filled.verify("thread, while privileges are dropped"));
    // SAFETY:
    // 1. Both calls have no precondition in memory; glibc applies them to all threads.
    unsafe {
        must(libc::setgid(65534), "setgid (the mode needs root)");
        must(libc::setuid(65534), "setuid (the mode needs root)");
    }
    watcher.join().unwrap_or_else(|_| fail!("the thread panicked"));
    filled.verify("as nobody");
    let more = Filled::new(case.bytes / 2, case.seed, 2);
    filled.verify("as nobody, again");
    more.verify("more memory, as nobody");
    wait_good(in_child(|| filled.verify_steps("child of nobody", 5)), "child of nobody");
}
