//! Modes about fork, exec, credentials and death.

use crate::signals;
use crate::support::{Case, Filled, fail, in_child, must, wait, wait_good};
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;
use std::time::Duration;
use uswap_test_programs::random::Random;
use uswap_test_programs::{PAGE_BYTES, memory};

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

/// The command that runs a mode of this program.
pub fn itself(mode: &str, case: &Case, depth: u64) -> Command {
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

/// `mov eax, 37`, which is alarm, `syscall`, `ret`.
const CALL: u64 = u64::from_le_bytes([0xB8, 37, 0, 0, 0, 0x0F, 0x05, 0xC3]);
static WRITTEN_CALL: AtomicUsize = AtomicUsize::new(0);

extern "C" fn call(_: i32, _: *mut libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY:
    // 1. There is the code of `CALL`, which changes registers that a function may change.
    let no_alarm_after: extern "C" fn(u64) -> i32 =
        unsafe { core::mem::transmute(WRITTEN_CALL.load(Relaxed)) };
    no_alarm_after(0);
}

/// From now on a signal comes each millisecond, whose handler makes a call on a small stack of its own at `stack`,
/// by the code at `code`.
fn calls_in_handlers(stack: usize, code: usize) {
    WRITTEN_CALL.store(code, Relaxed);
    signals::set_alternate_stack(stack, 2 * PAGE_BYTES);
    signals::install(libc::SIGRTMIN(), call, libc::SA_RESTART | libc::SA_ONSTACK);
    signals::start_timer(libc::SIGRTMIN());
}

/// Programs that begin in a run that is short of memory unmap some, and nothing comes there while they go on.
pub fn holes_stay_free(case: &Case) {
    const PROGRAMS: u64 = 10;
    const ROUNDS: usize = 2000;
    const HOLES: usize = 10;
    if case.depth == 0 {
        let filled = Filled::new(case.bytes, case.seed, 1);
        for number in 1..=PROGRAMS {
            let status = itself("holes_stay_free", case, number).status();
            if !status.as_ref().is_ok_and(std::process::ExitStatus::success) {
                fail!("program {number} ended with {status:?}");
            }
        }
        filled.verify("after programs with holes");
        return;
    }
    let map = |pages: usize| {
        memory::map_private(pages * PAGE_BYTES, 0).unwrap_or_else(|error| fail!("mmap: errno {error}"))
    };
    let kept = map(ROUNDS);
    // A page, a hole of one page, a page, a hole of two, and so on.
    let all = map((2 << HOLES) + HOLES);
    let holes: [(usize, usize); HOLES] =
        core::array::from_fn(|hole| (all + ((1 << hole) + hole) * PAGE_BYTES, 1 << hole));
    let stack = map(2);
    let (access, flags) =
        (libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    let code = memory::map(0, PAGE_BYTES, access, flags).unwrap_or_else(|error| fail!("mmap: errno {error}"));
    memory::write_word(code, CALL);
    // The kernel takes the highest place that is free: all that are higher are filled.
    while map(256) > all {}
    for (address, pages) in holes {
        memory::unmap(address, pages * PAGE_BYTES).unwrap_or_else(|error| fail!("munmap: errno {error}"));
    }
    calls_in_handlers(stack, code);
    for round in 0..ROUNDS {
        // It grows until it joins, at some moment.
        memory::write_word(kept + round * PAGE_BYTES, round as u64);
        for (address, pages) in holes.into_iter().filter(|_| round % 40 == 0) {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
            let mapped = memory::map(address, pages * PAGE_BYTES, libc::PROT_READ, flags);
            if mapped != Ok(address) {
                fail!("{pages} pages at {address:#x} were unmapped, and something is there: {mapped:x?}");
            }
            memory::unmap(address, pages * PAGE_BYTES).unwrap_or_else(|error| fail!("munmap: errno {error}"));
        }
    }
}
