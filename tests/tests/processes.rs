//! Who is a process of the run, and who is not: namespaces, numbers that are used again, processes without an engine.

use std::process::Command;
use std::time::{Duration, Instant};
use uswap_tests::{Outcome, Run, Scratch, needs, report, shared_turn, skip, turn, uswap_binary};

const PYTHON: &str = "/usr/bin/python3";

/// 100 MiB of which no two pages are alike, three times, and what was read back from them.
const FILL: &str = r#"
import hashlib
for turn in range(3):
    parts = None
    parts = [hashlib.sha256(b'%d' % n).digest() * 1024 for n in range(3200)]
    print(hashlib.sha256(b''.join(hashlib.sha256(p).digest() for p in parts)).hexdigest())
"#;

/// 100 MiB, held for a second.
const HOLD: &str = "import time; b = bytearray(100 << 20); time.sleep(1)";

const RAM_MIB: u64 = 48;

/// In namespaces of its own, with a `/proc` of its own, a program is managed: its budget holds, and its bytes are
/// right.
fn is_managed_inside(wrapper: &[&str], options: &[&str]) {
    let right = Run::plain(PYTHON).args(["-c", FILL]).finish();
    right.must_succeed();
    let words = wrapper[1..].iter().chain(&[PYTHON, "-c", FILL]);
    let outcome = Run::plain(wrapper[0]).args(words).uswap(RAM_MIB, options).finish();
    outcome.must_succeed().must_hold_budget_mostly(RAM_MIB);
    assert_eq!(outcome.stdout, right.stdout);
    if uswap_binary().is_some() {
        assert!(!outcome.stderr.contains("python3 (pid"), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("compressed"), "{}", outcome.stderr);
    }
}

fn may(words: &[&str]) -> bool {
    let can = Command::new(words[0]).args(&words[1..]).arg("true").output();
    let can = can.is_ok_and(|output| output.status.success());
    if !can {
        skip(&format!("{words:?} is not possible here"));
    }
    can
}

#[test]
fn processes_in_a_pid_namespace_with_its_own_proc_are_managed() {
    let _turn = turn();
    let wrapper = ["unshare", "--pid", "--fork", "--mount-proc"];
    if needs(&["unshare", "python3"]) && may(&wrapper) {
        is_managed_inside(&wrapper, &[]);
    }
}

#[test]
fn processes_of_firejail_are_managed_and_it_ends() {
    let _turn = turn();
    let wrapper = ["firejail", "--quiet", "--noprofile"];
    if !needs(&["firejail", "python3"]) || !may(&wrapper) {
        return;
    }
    for _ in 0..5 {
        let end = Run::plain(wrapper[0]).args(&wrapper[1..]).arg("true").uswap(RAM_MIB, &[]);
        end.timeout(Duration::from_secs(60)).finish().must_succeed();
    }
    is_managed_inside(&wrapper, &[]);
}

#[test]
fn processes_of_another_user_stay_managed_if_that_is_wanted() {
    let _turn = turn();
    let wrapper = ["setpriv", "--reuid=65534", "--clear-groups"];
    if needs(&["setpriv", "python3"]) && may(&wrapper) {
        is_managed_inside(&wrapper, &["--keep-after-setuid"]);
    }
}

/// In a pid namespace of its own, so that numbers can be chosen: a managed child is killed while the supervisor cannot
/// look, and a stranger gets its number, with a thread that has the number of the child's kswapd.
const REUSE: &str = r#"
import json, os, signal, subprocess, sys, time
uswap, python, swap = sys.argv[1:]
def choose(number):
    with open("/proc/sys/kernel/ns_last_pid", "w") as last: last.write(str(number - 1))
program = """
import os, sys
pid = os.fork()
if pid == 0:
    import time
    while True: time.sleep(1)
print(pid, flush=True)
sys.stdin.readline()
os.kill(pid, 9); os.waitpid(pid, 0)
print("dead", flush=True)
sys.stdin.readline()
"""
stranger_program = """
import sys, threading, time
with open("/proc/sys/kernel/ns_last_pid", "w") as last: last.write(str(int(sys.argv[1]) - 1))
thread = threading.Thread(target=time.sleep, args=(1000,), daemon=True)
thread.start()
print(thread.native_id, flush=True)
time.sleep(1000)
"""
pipe = subprocess.PIPE
run = subprocess.Popen([uswap, "run", "--ram", "256M", "--swap", swap, "--", python, "-c", program],
                       stdin=pipe, stdout=pipe, text=True)
child = int(run.stdout.readline())
def listed():
    answer = subprocess.run([uswap, "stat", "--json", str(run.pid)], capture_output=True, text=True)
    return [process["pid"] for process in json.loads(answer.stdout)["processes"]] if answer.returncode == 0 else []
while child not in listed(): time.sleep(0.02)
def names():
    tasks = f"/proc/{child}/task"
    return {int(t): open(f"{tasks}/{t}/comm").read().strip() for t in os.listdir(tasks)}
kswapd = next(thread for thread, name in names().items() if name == "uswap-kswapd")
run.send_signal(signal.SIGSTOP)
run.stdin.write("\n"); run.stdin.flush()
if run.stdout.readline() != "dead\n": sys.exit("the child was not killed")
choose(child)
stranger = subprocess.Popen([python, "-c", stranger_program, str(kswapd)], stdout=pipe, text=True)
thread = int(stranger.stdout.readline())
if (stranger.pid, thread) != (child, kswapd):
    stranger.kill(); run.kill()
    sys.exit(f"SKIP numbers {stranger.pid} {thread} instead of {child} {kswapd}")
run.send_signal(signal.SIGCONT)
late = time.monotonic() + 60
again = listed()
while child in again and time.monotonic() < late:
    time.sleep(0.02)
    again = listed()
run.stdin.write("\n"); run.stdin.flush()
try: code = run.wait(60)
except subprocess.TimeoutExpired: code = "waits for a stranger"; run.kill()
alive = stranger.poll() is None
stranger.kill()
print("code", code, "stranger alive", alive, "stranger listed", child in again)
"#;

#[test]
fn processes_that_get_a_number_again_are_left_in_peace() {
    let _turn = turn();
    let Some(uswap) = uswap_binary() else { return skip("this case is about uswap itself") };
    let wrapper = ["unshare", "--pid", "--fork", "--mount-proc"];
    if !needs(&["unshare", "python3"]) || !may(&wrapper) {
        return;
    }
    let scratch = Scratch::new();
    for _ in 0..5 {
        let words = wrapper[1..].iter().chain(&[PYTHON, "-c", REUSE]);
        let run = Run::plain(wrapper[0]).args(words).arg(&uswap).arg(PYTHON).arg(scratch.path());
        let outcome = run.timeout(Duration::from_secs(240)).finish();
        if outcome.stderr.contains("SKIP numbers") {
            // Somebody else in the namespace was faster.
            continue;
        }
        outcome.must_succeed();
        assert_eq!(outcome.stdout, "code 0 stranger alive True stranger listed False\n");
        return;
    }
    skip("no number could be chosen here");
}

/// Runs 100 MiB below `wrapper`, without an engine, until uswap has said so; then to its end.
#[track_caller]
fn is_named_at_once(wrapper: &[&str], options: &[&str], why: &str) -> Outcome {
    let words = wrapper[1..].iter().chain(&[PYTHON, "-c", HOLD]);
    let mut running = Run::plain(wrapper[0]).args(words).uswap(RAM_MIB, options).start();
    while !running.messages_so_far().contains("is not managed") {
        assert!(!running.ended(), "it was not named: {}", running.messages_so_far());
        std::thread::sleep(Duration::from_millis(5));
    }
    let outcome = running.finish();
    outcome.must_succeed();
    is_in_the_report(&outcome, "python3", why);
    outcome
}

#[track_caller]
fn is_in_the_report(outcome: &Outcome, name: &str, why: &str) {
    let said = &outcome.stderr;
    assert!(said.lines().any(|line| line.contains("is not managed") && line.contains(why)), "{said}");
    let line = said.lines().find(|line| line.contains("left alone, peak") && line.contains(name));
    assert!(line.is_some_and(|line| line.contains(why)), "{said}");
    assert!(!said.contains("fitted into its budget"), "{said}");
}

/// Named at once, in the report, and with the memory that it takes: the run says that it was over its budget.
#[track_caller]
fn is_named(wrapper: &[&str], options: &[&str], why: &str) {
    let _turn = shared_turn();
    if uswap_binary().is_some() && needs(&["python3", wrapper[0]]) && may(wrapper) {
        let outcome = is_named_at_once(wrapper, options, why);
        assert!(outcome.stderr.contains("over the budget for"), "{}", outcome.stderr);
    }
}

#[test]
fn processes_that_changed_their_user_are_named() {
    is_named(&["setpriv", "--reuid=65534", "--clear-groups"], &[], "runs as user 65534");
}

#[test]
fn processes_with_little_address_space_are_named() {
    is_named(&["prlimit", "--as=400000000"], &[], "address space is limited to");
}

#[test]
fn processes_that_are_static_and_live_for_a_tenth_of_a_second_are_named() {
    let _turn = shared_turn();
    if uswap_binary().is_none() || !needs(&["busybox", "timeout", "sh"]) {
        return;
    }
    let script = "timeout -s KILL 0.1 busybox dd if=/dev/zero of=/dev/null bs=30M count=1000000; true";
    // On a busy machine a tenth of a second may be over before it has begun.
    const RUNS_MAX: u32 = 5;
    for run in 1.. {
        let outcome = Run::plain("sh").args(["-c", script]).uswap(RAM_MIB, &[]).finish();
        outcome.must_succeed();
        report(&format!("processes: busybox, run {run}:\n{}", outcome.stderr));
        if outcome.stderr.contains("is not managed") || run == RUNS_MAX {
            return is_in_the_report(&outcome, "busybox", "statically linked");
        }
    }
}

#[test]
fn processes_without_an_engine_are_not_named_when_it_shall_be_quiet() {
    let _turn = shared_turn();
    if uswap_binary().is_none() || !needs(&["python3", "prlimit"]) {
        return;
    }
    let run = Run::plain("prlimit").args(["--as=400000000", PYTHON, "-c", HOLD]).uswap(RAM_MIB, &["-q"]);
    let outcome = run.finish();
    outcome.must_succeed();
    assert!(!outcome.stderr.contains("is not managed:"), "{}", outcome.stderr);
}

#[test]
fn processes_of_a_run_in_a_run_are_those_of_the_outer_one() {
    let _turn = turn();
    let Some(uswap) = uswap_binary() else { return };
    if !needs(&["python3"]) {
        return;
    }
    let right = Run::plain(PYTHON).args(["-c", FILL]).finish();
    let inner = ["run", "--ram", "200M", "--", PYTHON, "-c", FILL];
    let started = Instant::now();
    let outcome = Run::plain(&uswap).args(inner).uswap(RAM_MIB, &[]).finish();
    outcome.must_succeed().must_hold_budget_mostly(RAM_MIB);
    assert_eq!(outcome.stdout, right.stdout, "after {:?}", started.elapsed());
    assert!(outcome.stderr.contains("joins that run and its budget"), "{}", outcome.stderr);
    assert_eq!(outcome.stderr.matches("uswap: budget").count(), 1, "{}", outcome.stderr);
    // The exit code passes through both.
    let inner = ["run", "--ram", "64M", "-q", "--", "sh", "-c", "exit 7"];
    let outcome = Run::plain(&uswap).args(inner).uswap(RAM_MIB, &["-q"]).finish();
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(7), ""));
}
