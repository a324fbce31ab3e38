//! `--cpus one`, and what `auto` does while wake-ups are what a program waits for: all threads on one processor, and no
//! program notices.

use rustix::process::Signal;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use uswap_tests::process::Process;
use uswap_tests::{Run, Running, Scratch, needs, program, skip, turn, uswap_binary};

/// The processors that a thread may run on, as the kernel says: `0-3,7`.
fn allowed(pid: i32, thread: i32) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/task/{thread}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    Some(line.trim().to_owned())
}

fn own() -> String {
    let pid = std::process::id().cast_signed();
    allowed(pid, pid).expect("the kernel says where this process may run")
}

fn cannot_be_shown() -> bool {
    let one = !own().contains(['-', ',']);
    if one {
        skip("placement: this machine has one processor");
    }
    one || uswap_binary().is_none()
}

fn threads(process: &Process) -> Vec<i32> {
    let directory = std::fs::read_dir(format!("/proc/{}/task", process.pid));
    let names = directory.into_iter().flatten().flatten().map(|entry| PathBuf::from(entry.file_name()));
    names.filter_map(|name| name.to_str()?.parse().ok()).collect()
}

/// All threads of these processes may run exactly there.
fn all_are(processes: &[Process], right: impl Fn(&str) -> bool) -> bool {
    processes
        .iter()
        .flat_map(|process| threads(process).into_iter().map(|thread| (process.pid, thread)))
        .all(|(pid, thread)| allowed(pid, thread).is_none_or(|list| right(&list)))
}

fn wait_until(what: &str, running: &mut Running, mut reached: impl FnMut(&Running) -> bool) {
    let started = Instant::now();
    while !reached(running) {
        assert!(!running.ended() && started.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until it is on one processor, then looks whether it can tell; places itself at last.
const CURIOUS: &str = r#"
import os, subprocess, sys, threading, time
everywhere = set(map(int, sys.argv[1].split(",")))
def kernel_says(thread="self"):
    lines = open(f"/proc/{thread}/status").read().splitlines()
    return next(line.split()[1] for line in lines if line.startswith("Cpus_allowed_list:"))
started = time.monotonic()
while not kernel_says().isdigit():
    assert time.monotonic() - started < 10, "it was not placed"
    time.sleep(0.02)
def look():
    assert os.sched_getaffinity(0) == everywhere, os.sched_getaffinity(0)
look()
thread = threading.Thread(target=look); thread.start(); thread.join()
assert int(subprocess.check_output(["nproc"])) == len(everywhere)
assert kernel_says().isdigit()
stays = threading.Event()
other = threading.Thread(target=stays.wait); other.start()
one = {max(everywhere)}
os.sched_setaffinity(0, one)
for _ in range(5):
    assert os.sched_getaffinity(0) == one and kernel_says() == str(max(one))
    theirs = subprocess.check_output(["nproc"], preexec_fn=lambda: os.sched_setaffinity(0, everywhere))
    assert int(theirs) == len(everywhere)
    assert not kernel_says(f"self/task/{other.native_id}").isdigit(), "another thread was not let go"
    time.sleep(0.1)
stays.set()
print("OK")
"#;

#[test]
fn placement_is_not_seen_and_ends_when_a_program_places_itself() {
    let _turn = turn();
    if cannot_be_shown() || !needs(&["python3"]) {
        return;
    }
    let outcome = Run::plain("python3")
        .args(["-c", CURIOUS, &own_numbers()])
        .uswap(64, &["--faults", "message", "--cpus", "one"])
        .finish();
    outcome.must_succeed();
    assert_eq!(outcome.stdout, "OK\n");
}

/// The own processors one by one: `0,1`.
fn own_numbers() -> String {
    members(&own()).iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

fn members(list: &str) -> Vec<u32> {
    let number = |text: &str| text.parse::<u32>().expect("a processor has a number");
    let range = |part: &str| match part.split_once('-') {
        Some((first, last)) => number(first)..=number(last),
        None => number(part)..=number(part),
    };
    list.split(',').flat_map(range).collect()
}

#[test]
fn placement_holds_for_the_whole_tree_and_ends_with_the_supervisor() {
    let _turn = turn();
    if cannot_be_shown() {
        return;
    }
    let touch = program("touch");
    let script =
        format!("{0} --bytes 10M --seconds 60 & {0} --bytes 10M --seconds 60 & wait", touch.display());
    let mut running = Run::plain("/bin/sh")
        .args(["-c", &script])
        .uswap(64, &["--faults", "message", "--cpus", "one"])
        .start();
    let is_one = |list: &str| !list.contains(['-', ',']);
    wait_until("the whole tree is on one processor", &mut running, |running| {
        running.samples().last_bytes > 20 << 20
            && running.processes().len() == 4
            && all_are(&running.processes(), is_one)
    });
    // The supervisor dies before it can let go.
    let tree = running.processes();
    let (supervisor, rest): (Vec<_>, Vec<_>) = tree.into_iter().partition(|one| one.pid == running.pid());
    supervisor[0].signal(Signal::KILL);
    let (started, everywhere) = (Instant::now(), own());
    assert!(rest.iter().all(Process::alive), "all fits into the budget: nothing is missing, and they go on");
    while !all_are(&rest, |list| list == everywhere) {
        let in_time = started.elapsed() < Duration::from_secs(10);
        if !in_time {
            rest.iter().for_each(|process| process.signal(Signal::KILL));
        }
        assert!(in_time, "the threads of the program may still run on one processor only");
        std::thread::sleep(Duration::from_millis(50));
    }
    rest.iter().for_each(|process| process.signal(Signal::KILL));
    let _killed = running.finish();
}

/// Ends the supervisor, waits until it is let go, and places itself on the very processor where it was held.
const ORPHAN: &str = r#"
import os, sys, time
everywhere = set(map(int, sys.argv[1].split(",")))
def kernel_says():
    lines = open("/proc/self/status").read().splitlines()
    return next(line.split()[1] for line in lines if line.startswith("Cpus_allowed_list:"))
def wait_until(what, reached):
    started = time.monotonic()
    while not reached():
        assert time.monotonic() - started < 10, what
        time.sleep(0.02)
wait_until("it was not placed", lambda: kernel_says().isdigit())
here = kernel_says()
os.kill(os.getppid(), 9)
wait_until("it was not let go", lambda: not kernel_says().isdigit())
assert os.sched_getaffinity(0) == everywhere
os.sched_setaffinity(0, {int(here)})
for _ in range(5):
    assert kernel_says() == here, "it was moved from where it had placed itself"
    assert os.sched_getaffinity(0) == {int(here)}
    time.sleep(0.2)
with open(sys.argv[2], "w") as result:
    result.write("OK")
"#;

#[test]
fn placement_by_the_program_stays_when_the_supervisor_is_gone() {
    let _turn = turn();
    if cannot_be_shown() || !needs(&["python3"]) {
        return;
    }
    let directory = Scratch::new();
    let result = directory.file("result");
    let mut running = Run::plain("python3")
        .args(["-c", ORPHAN, &own_numbers(), &result.display().to_string()])
        .uswap(64, &["--faults", "message", "--cpus", "one"])
        .start();
    let mut program = Vec::new();
    wait_until("the program has started", &mut running, |running| {
        program = running.processes().into_iter().filter(|one| one.pid != running.pid()).collect();
        !program.is_empty()
    });
    let started = Instant::now();
    while program.iter().any(Process::alive) && started.elapsed() < Duration::from_secs(30) {
        std::thread::sleep(Duration::from_millis(50));
    }
    let outcome = running.finish();
    assert_eq!(std::fs::read_to_string(&result).ok().as_deref(), Some("OK"), "{}", outcome.stderr);
}
