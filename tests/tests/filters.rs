//! Filters of system calls (seccomp) that a program has set, and what it executes then inherits.

use uswap_tests::{Outcome, Run, needs, turn, uswap_binary};

const PYTHON: &str = "/usr/bin/python3";
const RAM_MIB: u64 = 24;

/// Sets a filter that answers so for calls of that number, if they have this first argument.
const SETS_FILTER: &str = "
import ctypes, struct
libc = ctypes.CDLL(None)
def op(code, jt, jf, k): return struct.pack('HBBI', code, jt, jf, k)
def set_filter(number, answer, first=None):
    ends = op(6, 0, 0, answer) + op(6, 0, 0, 0x7fff0000)
    if first is not None: ends = op(0x20, 0, 0, 16) + op(0x15, 0, 1, first) + ends
    code = op(0x20, 0, 0, 0) + op(0x15, 0, len(ends) // 8 - 1, number) + ends
    filter = ctypes.create_string_buffer(code)
    program = struct.pack('HxxxxxxP', len(code) // 8, ctypes.addressof(filter))
    assert libc.prctl(38, 1, 0, 0, 0) == 0
    assert libc.prctl(22, 2, program, 0, 0) == 0
";

/// Then executes what fills 60 MiB, and starts a program.
const EXECUTES: &str = "
import os, sys
set_filter(int(sys.argv[1]), int(sys.argv[2], 16))
os.execv(sys.executable, [sys.executable, '-c', '''
import hashlib, subprocess
parts = [hashlib.sha256(b'%d' % n).digest() * 1024 for n in range(1920)]
print(hashlib.sha256(b''.join(hashlib.sha256(p).digest() for p in parts)).hexdigest(), flush=True)
print(subprocess.run(['/bin/echo', 'a child'], stdout=subprocess.PIPE).stdout)
'''])
";

const KILL: &str = "80000000";
const KILL_THREAD: &str = "0";
const TRAP: &str = "30000";
const EPERM: &str = "50001";

const USERFAULTFD: &str = "323";
const MEMBARRIER: &str = "324";
const MKDIR: &str = "83";

/// What is said with such a filter is what is said without uswap. None: not here.
fn run(number: &str, answer: &str) -> Option<Outcome> {
    let _turn = turn();
    let binary = uswap_binary()?;
    if !needs(&["python3"]) {
        return None;
    }
    let program = [SETS_FILTER, EXECUTES].concat();
    let words = [PYTHON, "-c", &program, number, answer];
    let alone = Run::plain(words[0]).args(&words[1..]).finish();
    alone.must_succeed();
    let ram = format!("{RAM_MIB}M");
    let outcome = Run::plain(binary).args(["run", "--ram", &ram, "--"]).args(words).finish();
    outcome.must_succeed();
    assert_eq!(outcome.stdout, alone.stdout);
    Some(outcome)
}

#[test]
fn filters_that_would_end_a_managed_program_leave_it_unmanaged() {
    for (number, answer) in [(USERFAULTFD, KILL), (MEMBARRIER, TRAP)] {
        let Some(outcome) = run(number, answer) else { return };
        assert!(outcome.stderr.contains("it has inherited a filter of system calls"), "{}", outcome.stderr);
    }
}

#[test]
fn filters_that_forbid_the_call_leave_the_device_as_a_way_in() {
    let Some(outcome) = run(USERFAULTFD, EPERM) else { return };
    // Whoever may open the device has another way in.
    let device = std::fs::OpenOptions::new().read(true).write(true).open("/dev/userfaultfd");
    let is_left_alone = outcome.stderr.contains("it is left alone: no userfaultfd");
    assert_eq!(is_left_alone, device.is_err(), "{}", outcome.stderr);
    assert!(is_left_alone || outcome.stderr.contains(" compressed"), "{}", outcome.stderr);
}

#[test]
fn filters_of_other_calls_are_no_reason_to_leave_what_is_executed_alone() {
    let Some(outcome) = run(MKDIR, KILL) else { return };
    assert!(!outcome.stderr.contains("left alone"), "{}", outcome.stderr);
    assert!(outcome.stderr.contains(" compressed"), "{}", outcome.stderr);
}

/// A sandbox as that of sshd: no more open files, then a filter that ends who calls ioctl. Then it touches new memory.
const SANDBOX: &str = "
import mmap, os, resource, signal, sys
kept = [bytes([i % 251]) * 4096 for i in range(12000)]
fresh = mmap.mmap(-1, 1 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
resource.setrlimit(resource.RLIMIT_NOFILE, (1, 1))
if sys.argv[1] == 'no writing':
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
set_filter(16, 0x80000000)
for at in range(0, 1 << 20, 4096): fresh[at] = 1
code = 0 if (sum(row[0] for row in kept), sum(fresh[at] for at in range(0, 1 << 20, 4096))) == (1495128, 256) else 3
os._exit(code)
";

/// In the sandbox, with what else is forbidden there. None: not here.
fn run_sandbox(forbids: &str) -> Option<Outcome> {
    let _turn = turn();
    let binary = uswap_binary()?;
    if !needs(&["python3"]) {
        return None;
    }
    let ram = format!("{RAM_MIB}M");
    let program = [SETS_FILTER, SANDBOX].concat();
    let words = ["run", "--ram", &ram, "--", PYTHON, "-c", &program, forbids];
    let outcome = Run::plain(binary).args(words).finish();
    outcome.must_succeed();
    assert!(outcome.stderr.contains(" compressed"), "{}", outcome.stderr);
    Some(outcome)
}

#[test]
fn filters_of_a_program_that_may_open_no_more_files_see_no_call_of_uswap() {
    let Some(outcome) = run_sandbox("nothing else") else { return };
    assert!(outcome.stderr.contains("its memory came home"), "{}", outcome.stderr);
}

/// Standard error of the run is a file: what uswap would say there is beyond the limit of the program.
#[test]
fn filters_and_a_program_that_may_write_to_no_file_is_not_ended_by_a_message() {
    let Some(outcome) = run_sandbox("no writing") else { return };
    assert!(!outcome.stderr.contains("its memory came home"), "{}", outcome.stderr);
}

/// Starts uswap under a filter. None: not here.
fn under_filter(number: &str, first: &str, answer: &str, words: &[&str]) -> Option<Outcome> {
    let _turn = turn();
    let binary = uswap_binary()?.display().to_string();
    if !needs(&["python3"]) {
        return None;
    }
    let set = format!(
        "set_filter({number}, 0x{answer}, {first})\nimport os, sys\nos.execv(sys.argv[1], sys.argv[1:])"
    );
    let program = [SETS_FILTER, &set].concat();
    let run = Run::plain(PYTHON).args(["-c", &program, &binary]).args(words);
    Some(run.timeout(std::time::Duration::from_secs(120)).finish())
}

const ANY: &str = "None";
const RUN: [&str; 6] = ["run", "--ram", "24M", "--", "/bin/echo", "started"];
const UNMANAGED: [&str; 7] = ["run", "--ram", "24M", "--unmanaged-ok", "--", "/bin/echo", "started"];

/// Number, first argument and name of calls that uswap cannot do without: of the command, of the agent, of both.
const NEEDED: [(&str, &str, &str); 5] = [
    ("319", ANY, "memfd_create"),
    (MEMBARRIER, ANY, "membarrier"),
    (USERFAULTFD, ANY, "userfaultfd"),
    ("157", "59", "prctl(PR_SET_SYSCALL_USER_DISPATCH)"),
    ("72", ANY, "fcntl"),
];

#[test]
fn filters_that_would_end_uswap_are_named_before_the_program_starts() {
    for (number, first, name) in NEEDED {
        for answer in [KILL, KILL_THREAD, TRAP] {
            let Some(outcome) = under_filter(number, first, answer, &RUN) else { return };
            assert_eq!(
                (outcome.code, outcome.stdout.as_str()),
                (Some(125), ""),
                "{name}: {}",
                outcome.stderr
            );
            assert!(outcome.stderr.contains(&format!("ends a process for {name}. ")), "{}", outcome.stderr);
            assert!(outcome.stderr.contains("--unmanaged-ok"), "{}", outcome.stderr);
        }
    }
}

#[test]
fn filters_that_would_end_uswap_let_a_program_run_without_a_budget_if_that_is_wanted() {
    let Some(outcome) = under_filter(MEMBARRIER, ANY, KILL, &UNMANAGED) else { return };
    assert_eq!(outcome.must_succeed().stdout, "started\n");
    assert!(outcome.stderr.contains("run without a budget: "), "{}", outcome.stderr);
}

#[test]
fn filters_that_end_a_process_for_what_uswap_can_do_without_cost_that() {
    for (number, name) in [("440", "process_madvise"), ("425", "io_uring")] {
        let fills = "b = [bytes([i % 251]) * 4096 for i in range(12000)]; print(sum(r[0] for r in b))";
        let words = ["run", "--ram", "24M", "--", PYTHON, "-c", fills];
        let Some(outcome) = under_filter(number, ANY, KILL, &words) else { return };
        assert_eq!(outcome.must_succeed().stdout, "1495128\n");
        let said = format!("ends a process for {name}: the run goes without");
        assert!(outcome.stderr.contains(&said), "{}", outcome.stderr);
        assert!(outcome.stderr.contains(" compressed"), "{}", outcome.stderr);
    }
}

#[test]
fn filters_are_told_by_doctor() {
    let needed = NEEDED.map(|(number, first, name)| (number, first, name, "missing", Some(1)));
    let spared = [("440", ANY, "process_madvise", "limited", Some(0)), ("83", ANY, "", "works", Some(0))];
    for (number, first, name, verdict, code) in needed.into_iter().chain(spared) {
        let Some(outcome) = under_filter(number, first, KILL, &["doctor"]) else { return };
        let line = outcome.stdout.lines().find(|line| line.contains("call filter")).unwrap_or_default();
        assert!(line.starts_with(verdict) && line.ends_with(name), "{name}: {}", outcome.stdout);
        assert_eq!(outcome.code, code, "{name}: {}", outcome.stdout);
    }
}
