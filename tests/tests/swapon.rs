//! Swap files that come and go while a program runs that checks all its memory.

use rustix::process::Signal;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};
use uswap_tests::process::Process;
use uswap_tests::touched::{BUDGET_MIB, must_be_right, touch};
use uswap_tests::{
    MIB, Run, Running, Scratch, SmallDisk, compile, full_size, needs, needs_uswap, program, report,
    shared_turn, uswap_binary,
};

/// Each round brings two files, and a run may have 16.
const ROUNDS_MAX: u32 = 7;

/// Seconds in which files come and go, and in which the program runs.
fn seconds() -> (u64, u64) {
    if full_size() { (30, 45) } else { (9, 13) }
}

/// `uswap WORDS...`.
fn uswap(words: &[&str]) -> Command {
    let mut command = Command::new(uswap_binary().expect("it was looked for"));
    command.args(words);
    command
}

fn swapon(pid: i32, place: &str) -> Output {
    uswap(&["swapon", &pid.to_string(), place]).output().expect("it starts")
}

fn swapoff(pid: i32, directory: &Path) -> Output {
    uswap(&["swapoff", &pid.to_string(), &directory.to_string_lossy()]).output().expect("it starts")
}

#[track_caller]
fn must_succeed(what: &str, output: &Output) -> String {
    assert!(output.status.success(), "{what}: {output:?}");
    let said = String::from_utf8_lossy(&output.stdout).trim_end().to_owned();
    report(&format!("{what}: {said}"));
    said
}

#[track_caller]
fn must_fail(output: &Output, why: &str) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains(why), "{output:?}");
}

fn directory(scratch: &Scratch, name: &str) -> std::path::PathBuf {
    let path = scratch.file(name);
    std::fs::create_dir(&path).expect("the scratch directory is writable");
    path
}

fn place(directory: &Path, rest: &str) -> String {
    format!("{}:{rest}", directory.to_string_lossy())
}

/// `churn` knows what each page must hold; it forks, moves and drops memory all the time.
fn churn(seconds: u64) -> Run {
    let seconds = seconds.to_string();
    Run::plain(program("churn"))
        .args(["--threads", "4", "--bytes", "200M", "--seed", "7", "--seconds", &seconds])
        .timeout(Duration::from_secs(240))
}

#[test]
fn swapon_and_swapoff_under_load_lose_nothing() {
    let _turn = shared_turn();
    if !needs_uswap() {
        return;
    }
    // Room for all of the file: while half of its slots are free, its blocks may still be those of parts that are not
    // empty.
    let Some(disk) = SmallDisk::new(480) else { return };
    let scratch = Scratch::new();
    let other = directory(&scratch, "other");
    let (changing_seconds, churn_seconds) = seconds();
    let mut running = churn(churn_seconds)
        .uswap(BUDGET_MIB, &["--swap", &place(&disk.mounted, "400M"), "--allow-tmpfs", "--on-full", "kill"])
        .start();
    let pid = running.pid();
    let started = Instant::now();
    let mut rounds = 0;
    while started.elapsed() < Duration::from_secs(changing_seconds) && rounds < ROUNDS_MAX {
        if running.waits_for_swap_file(&disk.mounted, 8 * MIB).is_none() {
            break;
        }
        must_succeed("swapon", &swapon(pid, &place(&other, "400M:5")));
        must_succeed("swapoff", &swapoff(pid, &disk.mounted));
        disk.unmount();
        let again =
            Command::new("mount").args(["-o", "loop"]).arg(disk.image_path()).arg(&disk.mounted).output();
        assert!(again.as_ref().is_ok_and(|again| again.status.success()), "{again:?}");
        must_succeed("swapon", &swapon(pid, &place(&disk.mounted, "400M:9")));
        if running.waits_for_swap_file(&other, 8 * MIB).is_none() {
            break;
        }
        must_succeed("swapoff", &swapoff(pid, &other));
        rounds += 1;
    }
    let outcome = running.finish();
    outcome.must_succeed();
    assert!(rounds > 0, "the files never changed");
    must_fail(&swapoff(pid, &other), "has the run ended?");
}

#[test]
fn swapoff_without_room_leaves_the_file_in_use() {
    let _turn = shared_turn();
    if !needs_uswap() {
        return;
    }
    let scratch = Scratch::new();
    let (first, other) = (directory(&scratch, "first"), directory(&scratch, "other"));
    let mut running = touch().uswap(BUDGET_MIB, &["--swap", &place(&first, "400M"), "--allow-tmpfs"]).start();
    let pid = running.pid();
    assert!(running.waits_for_swap_file(&first, 100 * MIB).is_some(), "it was not used");
    must_fail(&swapoff(pid, &first), "Add one with 'uswap swapon' first");
    must_succeed("swapon", &swapon(pid, &place(&other, "16M")));
    must_fail(&swapoff(pid, &first), "stays in use, and nothing is lost");
    must_fail(&swapoff(pid, scratch.path()), &format!("'{}', '{}'", first.display(), other.display()));
    must_fail(&swapon(pid, &place(&other, "20G")), "this run can get");
    let outcome = running.finish();
    must_be_right(&outcome);
}

/// Waits until uswap has said something.
fn waits_for_message(running: &mut Running, text: &str) -> bool {
    for _ in 0..6000 {
        if running.messages_so_far().contains(text) {
            return true;
        }
        if running.ended() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    false
}

#[test]
fn swapon_brings_a_run_that_is_full_back_to_its_budget() {
    let _turn = shared_turn();
    if !needs_uswap() {
        return;
    }
    let scratch = Scratch::new();
    let (first, other) = (directory(&scratch, "first"), directory(&scratch, "other"));
    let mut running = touch().uswap(BUDGET_MIB, &["--swap", &place(&first, "64M"), "--allow-tmpfs"]).start();
    assert!(waits_for_message(&mut running, "over the budget from here on"), "64M took 200M of random bytes");
    must_succeed("swapon", &swapon(running.pid(), &place(&other, "400M")));
    assert!(running.waits_for_swap_file(&other, 50 * MIB).is_some(), "nothing went there");
    must_be_right(&running.finish());
}

#[test]
fn swapon_lets_a_run_go_on_that_was_stopped_because_it_was_full() {
    let _turn = shared_turn();
    if !needs_uswap() {
        return;
    }
    let scratch = Scratch::new();
    let (first, other) = (directory(&scratch, "first"), directory(&scratch, "other"));
    let mut running = touch()
        .uswap(BUDGET_MIB, &["--swap", &place(&first, "64M"), "--allow-tmpfs", "--on-full", "stop"])
        .start();
    let pid = running.pid();
    assert!(waits_for_message(&mut running, "the processes of the run are stopped"), "it was not stopped");
    // It is heard when the run is continued.
    let asking = std::thread::spawn(move || swapon(pid, &place(&other, "400M")));
    // It is full still and stops again if the command comes later than that.
    let began = Instant::now();
    let mut is_answered = false;
    while !is_answered {
        assert!(began.elapsed() < Duration::from_mins(2), "nobody answers");
        std::thread::sleep(Duration::from_millis(500));
        is_answered = asking.is_finished();
        Process::now(pid).expect("it runs").signal(Signal::CONT);
    }
    must_succeed("swapon", &asking.join().expect("it does not panic"));
    must_be_right(&running.finish());
}

/// Forbids itself nothing, but that cannot be seen from outside; what it executes inherits the filter.
const SANDBOX: &str = r#"
import ctypes, os, sys
class Filter(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint16), ("jt", ctypes.c_uint8), ("jf", ctypes.c_uint8), ("k", ctypes.c_uint32)]
class Program(ctypes.Structure):
    _fields_ = [("len", ctypes.c_uint16), ("filter", ctypes.POINTER(Filter))]
allow = (Filter * 1)(Filter(6, 0, 0, 0x7fff0000))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Program(1, allow)), 0, 0) == 0
text = """
import os, sys, time
block = bytearray(8 << 20)
print('ready', flush=True)
while not os.path.exists(sys.argv[1]): time.sleep(0.02)
print('ended')
"""
os.execv("/usr/bin/python3", ["python3", "-c", text, sys.argv[1]])
"#;

#[test]
fn swapon_refuses_processes_that_may_not_open_files() {
    let _turn = shared_turn();
    if !needs_uswap() {
        return;
    }
    if !needs(&["python3"]) {
        return;
    }
    let scratch = Scratch::new();
    let (first, other) = (directory(&scratch, "first"), directory(&scratch, "other"));
    let end = scratch.file("end");
    let mut running = Run::plain("/usr/bin/python3")
        .args(["-c", SANDBOX])
        .arg(&end)
        .uswap(BUDGET_MIB, &["--swap", &place(&first, "64M"), "--allow-tmpfs"])
        .start();
    while !running.output_so_far().contains("ready") && !running.ended() {
        std::thread::sleep(Duration::from_millis(10));
    }
    must_fail(&swapon(running.pid(), &place(&other, "64M")), "seccomp");
    std::fs::write(end, "").expect("the scratch directory is writable");
    let outcome = running.finish();
    assert!(outcome.must_succeed().stdout.ends_with("ended\n"), "{}", outcome.stdout);
}

/// Forks when most of its memory is stored, and holds the child where it has looked at the swap files and does not run
/// yet: at its first UFFDIO_REGISTER. It goes on when the file that is named is there.
const HELD_CHILD: &str = r#"
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, WORDS = PAGE / 8, PAGES = 30720, CALL = SIGTRAP | 0x80 };
static const unsigned long REGISTER = 0xc020aa00;

static unsigned long word(long page, int at) { return (page * WORDS + at) * 0x9e3779b97f4a7c15; }

static long wrong(unsigned long *block) {
    long count = 0;
    for (long page = 0; page < PAGES; page++)
        for (int at = 0; at < WORDS; at++) count += block[page * WORDS + at] != word(page, at);
    return count;
}

static int fill_and_fork(void) {
    unsigned long *block = mmap(0, PAGES * (long)PAGE, 3, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return 3;
    for (long page = 0; page < PAGES; page++)
        for (int at = 0; at < WORDS; at++) block[page * WORDS + at] = word(page, at);
    int child = fork(), status;
    if (!child) _exit(wrong(block) != 0);
    waitpid(child, &status, 0);
    return status || wrong(block) ? 4 : 0;
}

/// Lets it go on until it stops so.
static int wait_for(int pid, int request, int is_fork) {
    for (int status; waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status);) {
        int signal = WSTOPSIG(status), event = status >> 16;
        if (is_fork && event == PTRACE_EVENT_FORK) return 1;
        struct user_regs_struct registers;
        if (!is_fork && signal == CALL && !ptrace(PTRACE_GETREGS, pid, 0, &registers)
            && registers.orig_rax == SYS_ioctl && registers.rsi == REGISTER) return 1;
        ptrace(request, pid, 0, event || signal == CALL ? 0 : signal);
    }
    return 0;
}

int main(int count, char **words) {
    int ends[2];
    char byte;
    if (count < 2 || pipe(ends)) return 2;
    int parent = fork(), status;
    if (!parent) _exit(read(ends[0], &byte, 1) == 1 ? fill_and_fork() : 5);
    long child, options = PTRACE_O_TRACEFORK | PTRACE_O_TRACESYSGOOD;
    if (ptrace(PTRACE_SEIZE, parent, 0, options) || write(ends[1], "x", 1) != 1) return 6;
    if (!wait_for(parent, PTRACE_CONT, 1) || ptrace(PTRACE_GETEVENTMSG, parent, 0, &child)) return 7;
    ptrace(PTRACE_DETACH, parent, 0, 0);
    if (!wait_for(child, PTRACE_SYSCALL, 0)) return 8;
    puts("held");
    fflush(stdout);
    while (access(words[1], F_OK)) usleep(10000);
    ptrace(PTRACE_DETACH, child, 0, 0);
    if (waitpid(parent, &status, 0) != parent || status) return 9;
    puts("right");
    return 0;
}
"#;

/// A child that had looked at the files, and was not asked about new ones yet, once met pages in a file that it had not
/// open: those were lost, for its relatives too.
#[test]
fn swapon_waits_for_a_child_that_is_just_forked() {
    let _turn = shared_turn();
    if !needs_uswap() {
        return;
    }
    if !needs(&["gcc"]) {
        return;
    }
    let scratch = Scratch::new();
    let (held_child, go) = (compile(&scratch, HELD_CHILD), scratch.file("go"));
    let (first, other) = (directory(&scratch, "first"), directory(&scratch, "other"));
    let run = Run::plain(&held_child).arg(&go).timeout(Duration::from_secs(240));
    let mut running = run.uswap(BUDGET_MIB, &["--swap", &place(&first, "400M"), "--allow-tmpfs"]).start();
    while !running.output_so_far().contains("held") {
        assert!(!running.ended(), "{}", running.messages_so_far());
        std::thread::sleep(Duration::from_millis(10));
    }
    must_fail(&swapon(running.pid(), &place(&other, "400M")), "does not answer");
    std::fs::write(&go, "").expect("the scratch directory is writable");
    let outcome = running.finish();
    outcome.must_succeed();
    assert_eq!(outcome.stdout, "held\nright\n");
}
