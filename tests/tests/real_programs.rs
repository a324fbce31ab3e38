//! The program's own threads bring its pages back, for whoever runs the tests and, if that is root, for a user without
//! any privilege. What a program says is compared with what it says alone. Budgets are looked at where nothing forks.

use std::path::Path;
use uswap_tests::{Outcome, Run, Scratch, content, needs, program, report, scaled_mib, turn, uswap_binary};

/// Who runs uswap and the program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum User {
    /// Whoever runs the tests.
    Own,
    Nobody,
}

/// Root can be somebody else, too.
fn users() -> Vec<User> {
    match rustix::process::geteuid().is_root() {
        true => vec![User::Own, User::Nobody],
        false => vec![User::Own],
    }
}

/// One of them without any privilege.
fn ordinary_user() -> User {
    users()[users().len() - 1]
}

/// A place that every user may search and write.
fn open_to_all(scratch: &Scratch) {
    use std::os::unix::fs::PermissionsExt;
    let everybody = std::fs::Permissions::from_mode(0o777);
    std::fs::set_permissions(scratch.path(), everybody).expect("the scratch directory is ours");
}

fn words_of(user: User) -> Vec<String> {
    match user {
        User::Own => Vec::new(),
        User::Nobody => {
            let words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
            words.map(str::to_string).to_vec()
        }
    }
}

/// Runs the words of a program within a budget, as that user, with the swap file in `scratch`.
fn run_as(user: User, ram_mib: u64, scratch: &Path, words: &[&str]) -> Option<Outcome> {
    let binary = uswap_binary()?.display().to_string();
    let mut all = words_of(user);
    let ram = format!("{ram_mib}M");
    let swap = scratch.display().to_string();
    all.extend([binary.as_str(), "run", "--ram", &ram, "--swap", &swap, "--"].map(str::to_string));
    all.extend(words.iter().map(ToString::to_string));
    Some(Run::plain(&all[0]).args(&all[1..]).directory(scratch).finish())
}

/// What a program says within a budget that does not hold its memory is what it says alone.
fn compare(name: &str, ram_mib: u64, scratch: &Scratch, words: &[&str]) {
    open_to_all(scratch);
    let alone = Run::plain(words[0]).args(&words[1..]).directory(scratch.path()).finish();
    alone.must_succeed();
    assert!(!alone.stdout.is_empty(), "it says nothing that could be compared");
    for user in users() {
        let Some(outcome) = run_as(user, ram_mib, scratch.path(), words) else { return };
        outcome.must_succeed();
        assert_eq!(outcome.stdout, alone.stdout, "{name} as {user:?}");
        assert!(evicted(&outcome) > 1000, "{name} as {user:?} was not short of memory:\n{}", outcome.stderr);
        report(&format!("{name} as {user:?}: {:?}, alone {:?}", outcome.elapsed, alone.elapsed));
    }
}

/// Pages that went, by the report: those that were compressed and those that had a copy.
fn evicted(outcome: &Outcome) -> u64 {
    let line = outcome.stderr.lines().find(|line| line.trim_start().starts_with("pages")).unwrap_or_default();
    let number = |what: &str| {
        let before = line.split(what).next().filter(|before| before.len() < line.len())?;
        let digits = before.trim_end().rsplit(' ').next()?.replace(',', "");
        digits.parse::<u64>().ok()
    };
    number("compressed").unwrap_or(0) + number("unchanged").unwrap_or(0)
}

fn can_run() -> bool {
    needs(&["setpriv"])
}

const PYTHON: &str = "
import hashlib
rows = {i: str(i) * 3 for i in range(160000)}
digest = hashlib.sha256()
for turn in range(3):
    for i in range(0, 160000):
        digest.update(rows[i * 7919 % 160000].encode())
print(digest.hexdigest())
";

#[test]
fn python_reads_what_it_wrote() {
    let _turn = turn();
    if can_run() && needs(&["python3"]) {
        compare("python", 24, &Scratch::new(), &["/usr/bin/python3", "-c", PYTHON]);
    }
}

/// faulthandler gives the interpreter an alternate stack, in memory like any other.
const SIGNALS: &str = "
import faulthandler, hashlib, signal
faulthandler.enable()
came = [0]
def on_alarm(*_): came[0] += 1
signal.signal(signal.SIGALRM, on_alarm)
signal.setitimer(signal.ITIMER_REAL, 0.02, 0.02)
rows = {i: str(i) * 3 for i in range(160000)}
digest = hashlib.sha256()
for turn in range(2):
    for i in range(160000):
        digest.update(rows[i * 7919 % 160000].encode())
signal.setitimer(signal.ITIMER_REAL, 0)
print(digest.hexdigest(), came[0] > 0)
";

#[test]
fn signals_come_on_an_alternate_stack() {
    let _turn = turn();
    if can_run() && needs(&["python3"]) {
        compare("signals", 20, &Scratch::new(), &["/usr/bin/python3", "-c", SIGNALS]);
    }
}

/// A sandbox like that of sshd: no ioctl, no return from a handler.
const SANDBOX: &str = "
import ctypes, hashlib, os, struct
rows = {i: str(i) * 3 for i in range(100000)}
def op(code, jt, jf, k): return struct.pack('HBBI', code, jt, jf, k)
allowed = [0, 1, 3, 5, 8, 9, 10, 11, 12, 13, 14, 25, 28, 39, 60, 72, 186, 202, 231, 262]
code = op(0x20, 0, 0, 0)
for number in allowed: code += op(0x15, 0, 1, number) + op(6, 0, 0, 0x7fff0000)
code += op(6, 0, 0, 0x80000000)
filter = ctypes.create_string_buffer(code)
program = struct.pack('HxxxxxxP', len(code) // 8, ctypes.addressof(filter))
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, program, 0, 0) == 0
digest = hashlib.sha256()
for turn in range(2):
    for i in range(100000): digest.update(rows[i * 7919 % 100000].encode())
print(digest.hexdigest())
";

#[test]
fn a_sandbox_keeps_its_memory() {
    let _turn = turn();
    if can_run() && needs(&["python3"]) {
        compare("sandbox", 12, &Scratch::new(), &["/usr/bin/python3", "-c", SANDBOX]);
    }
}

#[test]
fn sort_with_threads_is_right() {
    let _turn = turn();
    if !can_run() {
        return;
    }
    let scratch = Scratch::new();
    let (lines, ram_mib) = (scratch.file("lines"), scaled_mib(192));
    content::write_lines(&lines, (ram_mib << 20) * 3 / 2, 5).expect("there is room for the lines");
    let script = format!("sort -S {}M --parallel=2 -T . lines | md5sum", ram_mib * 5 / 4);
    compare("sort", ram_mib, &scratch, &["sh", "-c", &script]);
}

const SQL: &str = "pragma cache_size=-100000; pragma temp_store=memory;
create table t(a integer primary key, b text, c integer);
with recursive n(x) as (select 1 union all select x+1 from n where x<150000)
insert into t select x, hex(x*7919)||'-padding-'||x, (x*7919)%100003 from n;
create index i on t(c);
select count(*), sum(c), max(b) from t;
select sum(length(a.b||b.b)) from t a join t b on a.c=b.a where a.a%3=0;";

#[test]
fn sqlite_in_memory_is_right() {
    let _turn = turn();
    if can_run() && needs(&["sqlite3"]) {
        compare("sqlite", 12, &Scratch::new(), &["sqlite3", ":memory:", SQL]);
    }
}

/// Three forks that overlap, threads, a mapping that moves and one that is dropped, and the whole of it through a file.
const FORKS: &str = "
import hashlib, mmap, os, random, threading
random.seed(5)
blobs = [bytes(random.getrandbits(8) for _ in range(64)) * 512 for _ in range(1200)]
want = hashlib.sha256(b''.join(blobs)).hexdigest()
def digest():
    digest = hashlib.sha256()
    for blob in blobs: digest.update(blob)
    return digest.hexdigest()
children = []
for turn in range(3):
    child = os.fork()
    if child == 0:
        right = digest() == want
        more = [os.urandom(4096) for _ in range(2000)]
        os._exit(0 if right and digest() == want else 1)
    children.append(child)
    assert digest() == want
for child in children: assert os.waitpid(child, 0)[1] == 0
parts = [None] * 4
def part(i):
    digest = hashlib.sha256()
    for j in range(i, len(blobs), 4): digest.update(blobs[j])
    parts[i] = digest.hexdigest()
threads = [threading.Thread(target=part, args=(i,)) for i in range(4)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(hashlib.sha256(''.join(parts).encode()).hexdigest())
size = 24 << 20
area = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
for at in range(0, size, 4096): area[at:at + 8] = at.to_bytes(8, 'little')
area.resize(size * 2)
assert all(area[at:at + 8] == at.to_bytes(8, 'little') for at in range(0, size, 4096))
assert area[size:size + 8] == bytes(8)
area.madvise(mmap.MADV_DONTNEED, 0, 16 * 4096)
assert area[0:8] == bytes(8) and area[16 * 4096:16 * 4096 + 8] == (16 * 4096).to_bytes(8, 'little')
name = 'blobs-%d' % os.getpid()
open(name, 'wb').write(b''.join(blobs))
assert hashlib.sha256(open(name, 'rb').read()).hexdigest() == want
os.unlink(name)
print(digest() == want)
";

#[test]
fn forks_threads_and_moves_keep_their_content() {
    let _turn = turn();
    if can_run() && needs(&["python3"]) {
        compare("forks", 32, &Scratch::new(), &["/usr/bin/python3", "-c", FORKS]);
    }
}

/// All that a daemon closes, and one more; none of them can be asked about.
const CLOSES: &str = "
import os
rows = [str(i) * 9 for i in range(300000)]
os.closerange(3, 1 << 20)
seen = []
for number in range(3, 70000):
    try: seen.append(os.fstat(number).st_mode)
    except OSError: pass
    try: os.close(number)
    except OSError: pass
print(seen, sum(len(row) for row in rows), rows[1], rows[-1])
";

#[test]
fn descriptors_of_uswap_are_not_closed_by_the_program() {
    let _turn = turn();
    if can_run() && needs(&["python3"]) {
        compare("closes", 16, &Scratch::new(), &["/usr/bin/python3", "-c", CLOSES]);
    }
}

/// The first thread ends by itself, and a second one later: the process ends with it, and its parent learns so.
const LAST_THREAD: &str = "
import ctypes, os, threading, time
rows = [str(i) * 9 for i in range(200000)]
libc = ctypes.CDLL(None)
def end_later():
    time.sleep(0.3)
    print(sum(len(row) for row in rows), flush=True)
    libc.syscall(60, 5)
for has_two in (False, True):
    child = os.fork()
    if child == 0:
        if has_two: threading.Thread(target=end_later).start()
        libc.syscall(60, 3)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
libc.syscall(60, 0)
";

#[test]
fn the_process_ends_with_its_last_thread() {
    let _turn = turn();
    if can_run() && needs(&["python3"]) {
        compare("last_thread", 16, &Scratch::new(), &["/usr/bin/python3", "-c", LAST_THREAD]);
    }
}

/// Each line is executed with an environment that names no run, or preloads something else.
const OTHER_ENVIRONMENTS: &str = "
import os, subprocess, sys
if len(sys.argv) > 1:
    rows = [str(i) * 9 for i in range(200000)]
    print(sys.argv[1], sum(len(row) for row in rows), flush=True)
    sys.exit()
libm = '/lib/x86_64-linux-gnu/libm.so.6'
for name, environment in [('empty', {}), ('own', {'LD_PRELOAD': libm}), ('both', {'A': 'b', 'LD_PRELOAD': libm})]:
    subprocess.run([sys.executable, '-c', os.environ['SOURCE'], name], env=environment, check=True)
child = os.fork()
if child == 0: os.execve(sys.executable, [sys.executable, '-c', os.environ['SOURCE'], 'executed'], {})
print(os.waitpid(child, 0)[1], flush=True)
";

#[test]
fn a_program_is_managed_whatever_environment_it_is_given() {
    let _turn = turn();
    if !can_run() || !needs(&["python3"]) {
        return;
    }
    let (scratch, binary) = (Scratch::new(), uswap_binary());
    open_to_all(&scratch);
    let Some(binary) = binary else { return };
    for user in users() {
        let mut words = words_of(user);
        let source = format!("SOURCE={OTHER_ENVIRONMENTS}");
        let swap = scratch.path().display().to_string();
        let run = [&binary.display().to_string(), "run", "--ram", "16M", "--swap", &swap];
        words.extend(["env", &source].iter().chain(&run).map(ToString::to_string));
        words.extend(["--", "/usr/bin/python3", "-c", OTHER_ENVIRONMENTS].map(str::to_string));
        let outcome = Run::plain(&words[0]).args(&words[1..]).directory(scratch.path()).finish();
        outcome.must_succeed();
        let lines = ["empty", "own", "both", "executed"].map(|name| format!("{name} 9800010\n"));
        assert_eq!(outcome.stdout, format!("{}0\n", lines.concat()), "{user:?}");
        assert!(
            !outcome.stderr.contains("left alone"),
            "as {user:?} somebody is left alone:\n{}",
            outcome.stderr
        );
    }
}

/// `madvise` that ends at a locked page has dropped what lies in front of it.
const DROPS_A_PART: &str = "
import ctypes, hashlib, mmap
libc = ctypes.CDLL(None, use_errno=True)
pages, locked = 512, 300
block = mmap.mmap(-1, pages * 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
start = ctypes.addressof(ctypes.c_char.from_buffer(block))
def fill():
    for page in range(pages): block[page * 4096:page * 4096 + 8] = b'page %3d' % page
def pressure(): return len([str(i) * 9 for i in range(200000)])
at = lambda page: ctypes.c_void_p(start + page * 4096)
fill(); pressure()
print(libc.mlock(at(locked), ctypes.c_size_t(4096)))
for round in range(2):
    fill(); pressure()
    print(libc.madvise(at(0), ctypes.c_size_t(pages * 4096), mmap.MADV_DONTNEED), ctypes.get_errno())
    pressure()
    print(hashlib.sha256(block[:]).hexdigest(), sum(block[page * 4096] != 0 for page in range(pages)))
print(libc.munlock(at(locked), ctypes.c_size_t(4096)), pressure())
";

#[test]
fn memory_that_is_dropped_in_part_is_right() {
    let _turn = turn();
    if can_run() && needs(&["python3"]) {
        compare("drops_a_part", 16, &Scratch::new(), &["/usr/bin/python3", "-c", DROPS_A_PART]);
    }
}

/// Threads and userfaultfds of a small process, and of what it executes when that has grown.
const GROWS: &str = "
seen='set -- /proc/$PPID/task/*; echo $# $(ls -l /proc/$PPID/fd | grep -c userfaultfd)'
sh -c \"$seen\"
exec /usr/bin/python3 -c \"
import subprocess, sys
block = bytearray(64 << 20)
subprocess.run(['sh', '-c', sys.argv[1]])
\" \"$seen\"
";

#[test]
fn small_processes_have_no_thread_and_no_file_of_uswap() {
    let _turn = turn();
    if !can_run() || !needs(&["python3"]) {
        return;
    }
    let scratch = Scratch::new();
    open_to_all(&scratch);
    let words = ["sh", "-c", GROWS];
    let Some(outcome) = run_as(User::Own, 1024, scratch.path(), &words) else { return };
    outcome.must_succeed();
    assert_eq!(outcome.stdout, "1 0\n2 1\n");
}

/// A small process grows in a child that shares its memory.
const GROWS_IN_VFORK: &str = r#"
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 16384 };

int main(void) {
    static char *volatile block;
    pid_t child = vfork();
    if (child == 0) {
        block = mmap(0, PAGES * 4096L, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (long page = 0; page < PAGES; page += 64) *(long *)(block + page * 4096) = page;
        _exit(block == MAP_FAILED);
    }
    int status;
    waitpid(child, &status, 0);
    long wrong = 0;
    for (int round = 0; round < 3; round++) {
        char *more = mmap(0, PAGES * 4096L, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        for (long page = 0; page < PAGES; page++) *(long *)(more + page * 4096) = page + round;
        for (long page = 0; page < PAGES; page += 64) wrong += *(long *)(block + page * 4096) != page;
        for (long page = 0; page < PAGES; page++) wrong += *(long *)(more + page * 4096) != page + round;
        munmap(more, PAGES * 4096L);
    }
    printf("%d %ld\n", status, wrong);
    return 0;
}
"#;

#[test]
fn what_a_child_maps_that_shares_the_memory_is_right() {
    let _turn = turn();
    if !can_run() || !needs(&["gcc"]) {
        return;
    }
    let scratch = Scratch::new();
    let (source, program) = (scratch.file("grows.c"), scratch.file("grows"));
    std::fs::write(&source, GROWS_IN_VFORK).expect("the scratch directory is writable");
    let gcc = Run::plain("gcc").args(["-O1", "-o"]).arg(&program).arg(&source).finish();
    gcc.must_succeed();
    compare("grows_in_vfork", 24, &scratch, &[&program.display().to_string()]);
}

/// Stops all threads of its parent, whose memory it shares, as leak checkers do, and maps, unmaps and reads then.
const STOPS_ALL_THREADS: &str = r#"
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 10000, THREADS_MAX = 16 };
static long *block, sum;

static int stop_all_threads(void *unused) {
    (void)unused;
    int threads[THREADS_MAX], count = 0;
    char path[64];
    sprintf(path, "/proc/%d/task", getppid());
    DIR *tasks = opendir(path);
    for (struct dirent *entry; (entry = readdir(tasks)) != 0 && count < THREADS_MAX;) {
        int thread = atoi(entry->d_name);
        if (thread == 0 || ptrace(PTRACE_ATTACH, thread, 0, 0) != 0) continue;
        // As a leak checker does: what stops the thread before its SIGSTOP is for the thread.
        int status;
        while (waitpid(thread, &status, __WALL) == thread && WIFSTOPPED(status) && WSTOPSIG(status) != SIGSTOP) {
            ptrace(PTRACE_CONT, thread, 0, WSTOPSIG(status));
        }
        threads[count++] = thread;
    }
    closedir(tasks);
    for (int turn = 0; turn < 20; turn++) {
        munmap(mmap(0, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1 << 20);
    }
    for (long page = 0; page < PAGES; page++) sum += block[page * 512];
    for (int i = 0; i < count; i++) ptrace(PTRACE_DETACH, threads[i], 0, 0);
    return count == 0;
}

static void *write_on(void *others) {
    for (long turn = 0;; turn++) ((long *)others)[turn % PAGES * 512] = turn;
    return 0;
}

int main(void) {
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    pthread_t thread;
    pthread_create(&thread, 0, write_on, malloc(PAGES * 4096L));
    block = mmap(0, PAGES * 4096L, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *stack = malloc(1 << 18);
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_UNTRACED, failed = 0;
    for (int round = 0; round < 10 && failed == 0; round++) {
        for (long page = 0; page < PAGES; page++) block[page * 512] = page + round;
        int status = -1, child = clone(stop_all_threads, stack + (1 << 18), flags, 0);
        waitpid(child, &status, __WALL);
        failed += status != 0;
    }
    printf("%d %ld\n", failed, sum);
    return failed;
}
"#;

#[test]
fn a_child_that_stops_all_threads_does_not_wait_for_them() {
    let _turn = turn();
    if !can_run() || !needs(&["gcc"]) {
        return;
    }
    let scratch = Scratch::new();
    let (source, program) = (scratch.file("stops.c"), scratch.file("stops"));
    std::fs::write(&source, STOPS_ALL_THREADS).expect("the scratch directory is writable");
    let gcc = Run::plain("gcc").args(["-O1", "-o"]).arg(&program).arg(&source).finish();
    gcc.must_succeed();
    compare("stops_all_threads", 24, &scratch, &[&program.display().to_string()]);
}

/// A library that is preloaded after uswap begins a thread before it.
const EARLY_THREAD: &str = r#"
#include <pthread.h>
#include <unistd.h>

static void *wait_and_speak(void *unused) {
    (void)unused;
    while (access("ended", F_OK) != 0) usleep(10000);
    usleep(200000);
    write(1, "the early thread goes on\n", 25);
    _exit(0);
}

__attribute__((constructor)) static void begin(void) {
    pthread_t thread;
    pthread_create(&thread, 0, wait_and_speak, 0);
}
"#;

const ENDS_BEFORE_EARLY_THREAD: &str = "
import ctypes, os, time
rows = [str(i) * 9 for i in range(200000)]
print(sum(len(row) for row in rows), flush=True)
time.sleep(1)
open('ended', 'w').close()
ctypes.CDLL(None).syscall(60, 3)
";

#[test]
fn a_program_with_a_thread_that_began_before_uswap_is_left_alone() {
    let _turn = turn();
    if !can_run() || !needs(&["python3", "gcc"]) {
        return;
    }
    let scratch = Scratch::new();
    open_to_all(&scratch);
    let (source, library) = (scratch.file("early.c"), scratch.file("libearly.so"));
    std::fs::write(&source, EARLY_THREAD).expect("the scratch directory is writable");
    let gcc = Run::plain("gcc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).finish();
    gcc.must_succeed();
    let preload = format!("LD_PRELOAD={}", library.display());
    let words = ["env", &preload, "/usr/bin/python3", "-c", ENDS_BEFORE_EARLY_THREAD];
    for user in users() {
        let ended = scratch.file("ended");
        if ended.exists() {
            std::fs::remove_file(&ended).expect("the scratch directory is writable");
        }
        let Some(outcome) = run_as(user, 16, scratch.path(), &words) else { return };
        outcome.must_succeed();
        assert_eq!(outcome.stdout, "9800010\nthe early thread goes on\n", "{user:?}");
        assert!(outcome.stderr.contains("starts a thread before uswap"), "{user:?}: {}", outcome.stderr);
    }
}

/// Root becomes nobody, and reads all that it had; so does its child.
const SETUID: &str = "
import os
rows = [str(i) * 5 for i in range(200000)]
os.setgid(65534); os.setuid(65534)
more = [str(i) * 5 for i in range(200000)]
child = os.fork()
if child == 0: os._exit(0 if rows == more else 1)
print(rows == more, os.waitpid(child, 0)[1])
";

#[test]
fn dropped_privileges_leave_the_run() {
    let _turn = turn();
    if !can_run() || !needs(&["python3"]) {
        return;
    }
    let scratch = Scratch::new();
    let Some(outcome) = run_as(User::Own, 24, scratch.path(), &["/usr/bin/python3", "-c", SETUID]) else {
        return;
    };
    outcome.must_succeed();
    assert_eq!(outcome.stdout.trim(), "True 0");
    assert!(outcome.stderr.contains("its memory came home"), "{}", outcome.stderr);
}

#[test]
fn churn_finds_no_wrong_byte() {
    let _turn = turn();
    if !can_run() {
        return;
    }
    let (scratch, churn) = (Scratch::new(), program("churn").display().to_string());
    open_to_all(&scratch);
    let bytes = format!("{}M", scaled_mib(600));
    let directory = scratch.path().display().to_string();
    for (user, seed) in users().into_iter().zip(["3", "4"]) {
        let words = [
            churn.as_str(),
            "--threads",
            "4",
            "--seconds",
            "5",
            "--bytes",
            &bytes,
            "--seed",
            seed,
            "--dir",
            &directory,
        ];
        let Some(outcome) = run_as(user, scaled_mib(200), scratch.path(), &words) else { return };
        outcome.must_succeed();
        assert!(outcome.stdout.starts_with("churn OK"), "{}", outcome.stdout);
        assert!(evicted(&outcome) > 1000, "it was not short of memory:\n{}", outcome.stderr);
    }
}

/// Signal stacks of threads that begin look like memory of the program: one that is taken under management kills its
/// thread. Of the runs of this program, one in 25 met it.
#[test]
fn threads_begin_while_memory_is_taken() {
    let _turn = turn();
    if !can_run() {
        return;
    }
    let (scratch, churn) = (Scratch::new(), program("churn").display().to_string());
    open_to_all(&scratch);
    let directory = scratch.path().display().to_string();
    for seed in 0..80 {
        let seed = seed.to_string();
        let sizes = ["--threads", "4", "--seconds", "0", "--bytes", "150M"];
        let words = [&[churn.as_str()], &sizes[..], &["--seed", &seed, "--dir", &directory]].concat();
        let Some(outcome) = run_as(ordinary_user(), 50, scratch.path(), &words) else { return };
        outcome.must_succeed();
    }
}

/// As V8 does it with each piece of its heap: reserved, given rights, and kept from children.
const NOT_FOR_CHILDREN: &str = "
import ctypes, hashlib, mmap, os
libc = ctypes.CDLL(None, use_errno=True)
libc.mmap.restype = ctypes.c_void_p
pieces, size = 1500, 64 << 10
at = []
for number in range(pieces):
    flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000
    place = libc.mmap(None, ctypes.c_size_t(size), 0, flags, -1, ctypes.c_long(0))
    assert libc.mprotect(ctypes.c_void_p(place), ctypes.c_size_t(size), 3) == 0
    assert libc.madvise(ctypes.c_void_p(place), ctypes.c_size_t(size), mmap.MADV_DONTFORK) == 0
    ctypes.memset(place, number % 251 + 1, size)
    ctypes.memmove(place, str(number).encode(), len(str(number)))
    at.append(place)
child = os.fork()
if child == 0: os._exit(3)
digest = hashlib.sha256()
for round in range(2):
    for place in at: digest.update(ctypes.string_at(place, size))
# Linux before 6.13 knows this for no process.
vector = (ctypes.c_size_t * 2)(at[0], size)
if libc.syscall(440, -10001, vector, ctypes.c_size_t(1), 4, 0) != size:
    assert libc.madvise(ctypes.c_void_p(at[0]), ctypes.c_size_t(size), mmap.MADV_DONTNEED) == 0
print(digest.hexdigest(), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), any(ctypes.string_at(at[0], size)))
";

#[test]
fn memory_that_children_do_not_get_is_managed() {
    let _turn = turn();
    if !can_run() || !needs(&["python3"]) {
        return;
    }
    let words = ["/usr/bin/python3", "-c", NOT_FOR_CHILDREN];
    compare("not_for_children", 32, &Scratch::new(), &words);
    let outcome = Run::plain(words[0]).args(&words[1..]).uswap(32, &[]).finish();
    outcome.must_succeed();
    outcome.must_hold_budget_mostly(32);
}

#[test]
fn budget_holds_while_nothing_forks() {
    let _turn = turn();
    if !needs(&["python3"]) {
        return;
    }
    let run = Run::plain("/usr/bin/python3").args(["-c", PYTHON]).uswap(24, &[]);
    let outcome = run.finish();
    outcome.must_succeed();
    outcome.must_hold_budget_mostly(24);
}
