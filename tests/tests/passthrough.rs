//! Exit code, signals, standard streams and the terminal of the program pass through untouched.

use rustix::process::Signal;
use std::time::{Duration, Instant};
use uswap_tests::process::Process;
use uswap_tests::{Run, Running, Scratch, content, needs, program, skip, turn, uswap_binary};

fn shell(script: &str) -> Run {
    Run::plain("/bin/sh").args(["-c", script]).uswap(128, &[]).timeout(Duration::from_secs(120))
}

/// A process ended by a signal, seen through a launcher, is code 128 + number; or the launcher ends the same way.
fn ended_by(code: Option<i32>, signal: Option<i32>, number: i32) -> bool {
    code == Some(128 + number) || signal == Some(number)
}

#[test]
fn passthrough_exit_code() {
    let _turn = turn();
    for code in [0, 1, 37, 255] {
        assert_eq!(shell(&format!("exit {code}")).finish().code, Some(code));
    }
}

#[test]
fn passthrough_death_by_signal() {
    let _turn = turn();
    for (name, number) in [("TERM", 15), ("KILL", 9), ("SEGV", 11)] {
        let outcome = shell(&format!("kill -{name} $$")).finish();
        assert!(
            ended_by(outcome.code, outcome.signal, number),
            "{name}: {:?} {:?}",
            outcome.code,
            outcome.signal
        );
    }
}

#[test]
fn passthrough_standard_streams() {
    let _turn = turn();
    let scratch = Scratch::new();
    let lines = scratch.file("lines");
    content::write_lines(&lines, 3 << 20, 5).expect("the disk has room");
    let outcome = shell("cat; echo to stderr >&2").input(&lines).finish();
    outcome.must_succeed();
    assert!(outcome.stdout == std::fs::read_to_string(&lines).expect("it was written"), "the output differs");
    assert!(outcome.stderr.contains("to stderr"), "{}", outcome.stderr);
}

/// A file as standard error has one position for each time it was opened: what the engines say must not lie over what
/// the program said.
#[test]
fn passthrough_messages_leave_each_other_alone() {
    let _turn = turn();
    if !rustix::process::geteuid().is_root() {
        skip("dropping privileges needs root");
        return;
    }
    let script =
        format!("echo of the program >&2; exec {} drop_privileges --bytes 64M", program("evil").display());
    let outcome = Run::plain("/bin/sh").args(["-c", &script]).uswap(32, &["-v"]).finish();
    outcome.must_succeed();
    for wanted in ["uswap: program ", "of the program", "changed its credentials", "over the budget for"] {
        assert!(outcome.stderr.contains(wanted), "{wanted:?} is missing in: {}", outcome.stderr);
    }
}

#[test]
fn passthrough_environment_and_directory() {
    let _turn = turn();
    let scratch = Scratch::new();
    let outcome =
        shell("pwd; echo $USWAP_TEST_WORD").directory(scratch.path()).env("USWAP_TEST_WORD", "kept").finish();
    assert_eq!(outcome.stdout, format!("{}\nkept\n", scratch.path().display()));
}

fn wait_for_output(running: &mut Running, wanted: &str) {
    let started = Instant::now();
    while !running.output_so_far().contains(wanted) {
        assert!(!running.ended() && started.elapsed() < Duration::from_secs(120), "{wanted:?} does not come");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn passthrough_signals_reach_the_program() {
    let _turn = turn();
    // A shell cannot trap what it was started with ignored, as SIGINT is in background jobs.
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).map(str::trim).unwrap_or("0");
    let ignored = u64::from_str_radix(ignored, 16).expect("hexadecimal");
    for (name, signal) in
        [("TERM", Signal::TERM), ("INT", Signal::INT), ("HUP", Signal::HUP), ("USR1", Signal::USR1)]
    {
        if ignored >> (signal.as_raw() - 1) & 1 == 1 {
            skip(&format!("SIG{name} is ignored where this test was started"));
            continue;
        }
        let script =
            format!("trap 'echo got {name}; exit 7' {name}; echo ready; while :; do sleep 0.05; done");
        let mut running = shell(&script).start();
        wait_for_output(&mut running, "ready");
        let started = Process::now(running.pid()).expect("it runs");
        started.signal(signal);
        let outcome = running.finish();
        assert_eq!(outcome.code, Some(7), "{name}: {}", outcome.stderr);
        assert!(outcome.stdout.contains(&format!("got {name}")), "{name}: {}", outcome.stdout);
    }
}

/// Leaves an orphan behind that sends signals to its new parent, if that is the parent of the program.
const ORPHAN: &str = "
import os, signal, time
supervisor, middle = os.getppid(), os.fork()
if middle == 0:
    own = os.getpid()
    if os.fork() == 0:
        while os.getppid() == own: time.sleep(0.01)
        if os.getppid() == supervisor:
            for number in (signal.SIGALRM, signal.SIGTERM, signal.SIGINT): os.kill(supervisor, number)
            os.write(1, b'sent, ')
    os._exit(0)
os.waitpid(middle, 0)
time.sleep(1)
os.write(1, b'and it goes on')
";

/// The parent of an orphan is init, which takes no such signals.
#[test]
fn passthrough_signals_of_orphans_are_not_for_the_program() {
    let _turn = turn();
    if uswap_binary().is_none() {
        skip("without uswap its orphans go to init");
        return;
    }
    if !needs(&["python3"]) {
        return;
    }
    let outcome = Run::plain("python3").args(["-c", ORPHAN]).uswap(128, &[]).finish();
    outcome.must_succeed();
    assert_eq!(outcome.stdout, "sent, and it goes on");
}

#[test]
fn passthrough_terminal() {
    let _turn = turn();
    if !needs(&["script", "tty"]) {
        return;
    }
    let inner = "tty; test -t 0 && test -t 1 && test -t 2 && echo all three";
    let prefix =
        uswap_binary().map_or(String::new(), |binary| format!("{} run --ram 128M -- ", binary.display()));
    let outcome = Run::plain("script")
        .args(["-qec", &format!("{prefix}/bin/sh -c '{inner}'"), "/dev/null"])
        .timeout(Duration::from_secs(120))
        .finish();
    outcome.must_succeed();
    assert!(
        outcome.stdout.contains("/dev/pts/") && outcome.stdout.contains("all three"),
        "{}",
        outcome.stdout
    );
}

/// Writes a block that is evicted to a pipe that is full, and is interrupted by a timer while the block is brought.
const INTERRUPTED_WRITES: &str = "
import os, signal, time
class Interrupted(Exception): pass
def on_alarm(*_): raise Interrupted
signal.signal(signal.SIGALRM, on_alarm)
block, others = bytearray(range(256)) * (4096 * 4), bytearray(24 << 20)
lost = 0
for round in range(24):
    output, input = os.pipe()
    told, teller = os.pipe()
    os.set_blocking(told, False)
    os.set_blocking(input, False)
    try:
        while True: os.write(input, bytes(4096))
    except BlockingIOError: pass
    os.set_blocking(input, True)
    reader = os.fork()
    if reader == 0:
        time.sleep(4)
        os.write(teller, b'lost')
        while True: os.read(output, 65536)
    for at in range(0, len(others), 4096): others[at] = round
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005 + round * 0.0001)
        os.write(input, block)
    except Interrupted: pass
    os.kill(reader, signal.SIGKILL)
    os.waitpid(reader, 0)
    try: lost += os.read(told, 4) == b'lost'
    except BlockingIOError: pass
    for file in (output, input, told, teller): os.close(file)
print(lost)
";

/// Even without uswap one may be lost: the timer runs out before the call has begun.
#[test]
fn passthrough_signals_interrupt_a_call_whose_buffer_is_evicted() {
    let _turn = turn();
    if !needs(&["python3"]) {
        return;
    }
    let outcome = Run::plain("python3").args(["-c", INTERRUPTED_WRITES]).uswap(16, &[]).finish();
    outcome.must_succeed();
    let lost: u32 = outcome.stdout.trim().parse().expect("a number");
    assert!(lost <= 2, "{lost} of 24 alarms did not interrupt the write");
}
