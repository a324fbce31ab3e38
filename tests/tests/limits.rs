//! Limits of a program (`ulimit`) that calls of uswap in its process meet too.

use std::os::unix::fs::MetadataExt;

use uswap_tests::{Outcome, Run, needs, skip, turn, uswap_binary};

const RAM_MIB: u64 = 24;

/// Fills twice its budget, and forks when `limits` says so: each child reads all of it.
const FORKS: &str = "
import os, resource, sys
kept = [bytes([i % 251]) * 4096 for i in range(12000)]
def fork():
    pid = os.fork()
    if pid == 0:
        os._exit(0 if sum(row[0] for row in kept) == 1495128 else 3)
    status = os.waitpid(pid, 0)[1]
    if status != 0: sys.exit('a child ended with %d' % status)
    return 1
";

/// Under uswap, as a user of whom nothing else runs if there is the right to become one. None: not here.
fn run(limits: &str) -> Option<Outcome> {
    let _turn = turn();
    let binary = uswap_binary()?;
    if !needs(&["python3", "setpriv"]) {
        return None;
    }
    let binary = binary.to_str().expect("its path is text").to_owned();
    let (ram, program) = (format!("{RAM_MIB}M"), [FORKS, limits].concat());
    let wrapper = ["setpriv", "--reuid=64321", "--regid=65534", "--clear-groups"].map(str::to_owned);
    let words = [&binary, "run", "--ram", &ram, "--swap", "/tmp", "--", "python3", "-c", &program];
    let words = words.map(str::to_owned);
    let may_run =
        || Run::plain(&wrapper[0]).args(&wrapper[1..]).args(["test", "-x", &binary]).finish().code == Some(0);
    if is_root() && !may_run() {
        skip("the other user may not go where uswap is");
        return None;
    }
    let line = if is_root() { [&wrapper[..], &words[..]].concat() } else { words.to_vec() };
    let outcome = Run::plain(&line[0]).args(&line[1..]).finish();
    outcome.must_succeed();
    assert!(outcome.stderr.contains(" compressed"), "{}", outcome.stderr);
    Some(outcome)
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0)
}

/// A child needs a userfaultfd of its own, and more.
#[test]
fn limits_of_open_files_do_not_end_a_forked_child() {
    for free in [0, 2] {
        let limits =
            format!("resource.setrlimit(resource.RLIMIT_NOFILE, (3 + {free}, 3 + {free})); print(fork())");
        let Some(outcome) = run(&limits) else { return };
        assert_eq!(outcome.stdout, "1\n");
        assert!(outcome.stderr.contains("it may open no more files"), "{}", outcome.stderr);
    }
}

#[test]
fn limits_of_open_files_that_leave_room_leave_memory_managed() {
    let limits = "resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40)); print(fork())";
    let Some(outcome) = run(limits) else { return };
    assert_eq!(outcome.stdout, "1\n");
    assert!(!outcome.stderr.contains("its memory came home"), "{}", outcome.stderr);
}

/// The threads of all processes of a user count. One more is allowed, then two, and so on: some of the children have
/// room for their first thread, and for no other.
const FEW_THREADS: &str = "
def threads(process):
    try: return len(os.listdir('/proc/%s/task' % process)) if os.stat('/proc/' + process).st_uid == os.getuid() else 0
    except OSError: return 0
count, forked = sum(threads(name) for name in os.listdir('/proc') if name.isdigit()), 0
for more in range(1, 6):
    resource.setrlimit(resource.RLIMIT_NPROC, (count + more, resource.getrlimit(resource.RLIMIT_NPROC)[1]))
    try: forked += fork()
    except BlockingIOError: pass
print(forked > 0)
";

#[test]
fn limits_of_processes_do_not_end_a_forked_child() {
    let Some(outcome) = run(FEW_THREADS) else { return };
    // Where others of the user come and go, there may have been room for all or for none.
    if is_root() {
        assert_eq!(outcome.stdout, "True\n");
        assert!(outcome.stderr.contains("the thread that evicts cannot be started"), "{}", outcome.stderr);
    }
}
