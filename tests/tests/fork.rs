//! Children of a swapped parent see all its data, and so do theirs; either may write.

use std::path::PathBuf;
use std::time::{Duration, Instant};
use uswap_tests::redis::{Client, server};
use uswap_tests::{
    MIB, Run, Scratch, compile, full_size, needs, needs_uswap, program, report, scaled_mib_by, shared_turn,
    steering, turn,
};

const PYTHON: &str = r#"
import os, sys
count = int(sys.argv[1])
def value(number): return ("%d:" % (number * 2654435761 % 1000003)) * 60
rows = [value(number) for number in range(count)]
def check(who, step):
    for number in range(0, count, step):
        if rows[number] != value(number): print(who, number); os._exit(1)
def child(generation):
    if generation == 4: return
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        check("child %d" % generation, 3)
        for number in range(generation, count, 50): rows[number] = rows[number] + "changed"
        for number in range(generation, count, 50): rows[number] = value(number)
        child(generation + 1)
        check("child %d at the end" % generation, 7)
        os._exit(0)
    check("parent %d" % generation, 11)
    if os.waitpid(pid, 0)[1] != 0: print("a child failed"); os._exit(1)
for round in range(3): child(0)
check("first", 1)
print("OK")
"#;

#[test]
fn fork_four_generations_of_python() {
    let _turn = shared_turn();
    if !needs(&["python3"]) {
        return;
    }
    // About 500 bytes a value; python's reference counts write into pages that are only read otherwise.
    let count = scaled_mib_by(400, 10) * MIB / 500;
    let ram_mib = scaled_mib_by(200, 10);
    let run = Run::plain("/usr/bin/python3").args(["-c", PYTHON, &count.to_string()]);
    let outcome = run.uswap(ram_mib, &[]).finish();
    outcome.must_succeed();
    assert_eq!(outcome.stdout, "OK\n");
}

/// redis saves from a forked child while the parent goes on changing values: the file must hold the moment of the fork.
#[test]
fn fork_redis_saves_the_moment_of_the_fork() {
    let _turn = shared_turn();
    if !needs(&["redis-server"]) {
        return;
    }
    let count = scaled_mib_by(400, 10) * MIB / 1000;
    let scratch = Scratch::new();
    let mut running = server(scratch.path()).uswap(scaled_mib_by(200, 10), &[]).start();
    let mut client = Client::connect(scratch.path(), &mut running);
    client.fill(0..count, 1);
    assert_eq!(client.one("BGSAVE"), "+Background saving started");
    client.fill(0..count / 4, 2);
    let started = Instant::now();
    while !client.one("INFO persistence").contains("rdb_bgsave_in_progress:0") {
        assert!(started.elapsed() < Duration::from_secs(600), "BGSAVE does not end");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(client.one("INFO persistence").contains("rdb_last_bgsave_status:ok"), "BGSAVE failed");
    client.verify(count, |number| if number < count / 4 { 2 } else { 1 });
    client.last("SHUTDOWN NOSAVE");
    running.finish().must_succeed();
    // A plain server reads what the child has saved.
    let mut plain = server(scratch.path()).start();
    let mut client = Client::connect(scratch.path(), &mut plain);
    while client.one("PING") != "+PONG" {
        std::thread::sleep(Duration::from_millis(100));
    }
    client.verify(count, |_| 1);
    client.last("SHUTDOWN NOSAVE");
    plain.finish().must_succeed();
}

/// Threads fork while others map, unmap and write: each child finds what its thread had, whatever was under way.
/// Several at once, because what is wrong shows when threads wait for a processor.
#[test]
fn fork_by_six_threads_while_they_map() {
    let _turn = shared_turn();
    // What is left: mappings, and processes of all kinds.
    const WITHOUT: &str = "write,stamp,read,verify_all_of_one,read_shared_by_threads,unmap_part,remap_resize,\
                           remap_move,remap_leave_old,dontneed,free,protect,unprotect,malloc,realloc,\
                           pipe,file,direct_file,futex";
    let seconds = if full_size() { "60" } else { "6" };
    let one = |seed: u64| {
        let words = ["--threads", "6", "--seconds", seconds, "--bytes", "30M", "--seed", &seed.to_string()];
        Run::plain(program("churn")).args(words).env("CHURN_WITHOUT", WITHOUT).uswap(20, &[]).start()
    };
    let running: Vec<_> = (0..4).map(one).collect();
    for run in running {
        run.finish().must_succeed();
    }
}

/// In a pid namespace of its own a process has other numbers for itself than the supervisor has for it: taken by its
/// own, it would seem to be dead, and what it has would be given to others.
#[test]
fn fork_into_a_pid_namespace_stays_managed() {
    let _turn = turn();
    if !needs(&["unshare"]) {
        return;
    }
    let churn = program("churn");
    let one = |seed: u32| {
        let words = "--threads 3 --seconds 8 --bytes 60M";
        format!("unshare --pid --fork {} {words} --seed {seed} & ", churn.display())
    };
    // Several, so that they would be given what is another's. All, not one after the other by number: bash forgets the
    // number of a job that ends before it is waited for ("wait: %3: no such job", without uswap too).
    let script = (0..3).map(one).collect::<String>() + "wait";
    let outcome = Run::plain("/bin/sh").args(["-c", &script]).uswap(80, &[]).finish();
    if outcome.stderr.contains("Operation not permitted") {
        uswap_tests::skip("a pid namespace needs rights");
        return;
    }
    outcome.must_succeed();
    assert_eq!(
        outcome.stdout.matches("churn OK").count(),
        3,
        "of three churns; they said:\n{}",
        outcome.stderr
    );
    assert!(!outcome.stderr.contains("left alone"), "{}", outcome.stderr);
    outcome.must_hold_budget_mostly(80);
}

/// Runs that may be needed until nothing was moved out: on a busy machine the next program may fill its memory before
/// the supervisor has looked what the last one has left. What counts twice does so in each run.
const RUNS_MAX: u32 = 3;

/// A shell forks and executes: what is one process, one after the other with two records of it, has its memory once.
/// Counted twice it would be over the budget, and be moved out.
#[test]
fn fork_and_exec_count_memory_once() {
    let _turn = shared_turn();
    if !needs(&["python3"]) {
        return;
    }
    let one = "python3 -c 'import time; x = bytearray(b\"ab\") * 30000000; time.sleep(0.2)'; ";
    let mut seen = Vec::new();
    for _ in 0..RUNS_MAX {
        let outcome = Run::plain("/bin/sh").args(["-c", &one.repeat(20)]).uswap(100, &[]).finish();
        outcome.must_succeed();
        let moved = [" compressed", " same-filled", " incompressible"];
        if !moved.iter().any(|what| outcome.stderr.contains(what)) {
            return;
        }
        report(&format!("fork_and_exec: something was moved out:\n{}", outcome.stderr));
        seen.push(outcome.stderr);
    }
    panic!("60 MiB fit in 100, in no run of {RUNS_MAX}:\n{}", seen.join("\n"));
}

/// `chain`: each child forks and ends, so that the last has many ancestors. `actions`: children are forked while other
/// threads change what is to be done at a signal; each must have what was in force before a change or behind it. Or the
/// children close a number, and open it again. Or they are killed at once, and the parent frees what they had, too.
const FORKS: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 40 << 8 };
static char *block;

static long *word(long page) { return (long *)(block + page * PAGE) + page % 512; }

static int chain(long generations) {
    int ends[2];
    if (pipe(ends)) return 1;
    pid_t first = getpid();
    long wrong = 0;
    for (long one = 1; one <= generations; one++) {
        pid_t child = fork();
        if (child < 0) return perror("fork"), 1;
        if (child > 0 && getpid() != first) _exit(0);
        if (child > 0) {
            close(ends[1]);
            if (read(ends[0], &wrong, sizeof wrong) != sizeof wrong) return 1;
            printf("%ld generations, %ld pages wrong\n", generations, wrong);
            return wrong != 0;
        }
        *word(one) += one;
        *word(one - 1) += one;
    }
    for (long page = 0; page < PAGES; page++) {
        long is = page > generations ? page : page == 0 ? 1 : page == generations ? 2 * page : 3 * page + 1;
        wrong += *word(page) != is;
    }
    return write(ends[1], &wrong, sizeof wrong) != sizeof wrong;
}

static volatile sig_atomic_t runs;
static void runs_once(int signal) { (void)signal; runs++; }

static void set(int is_ignored) {
    struct sigaction action = { .sa_handler = runs_once, .sa_flags = SA_ONSTACK | SA_RESTART };
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGUSR2);
    if (is_ignored) {
        memset(&action, 0, sizeof action);
        action.sa_handler = SIG_IGN;
        sigaddset(&action.sa_mask, SIGWINCH);
    }
    sigaction(SIGUSR1, &action, 0);
}

static void *change(void *unused) {
    for (int turn = 0;; turn++) set(turn & 1);
    return unused;
}

static int looks_right(void) {
    struct sigaction now;
    sigaction(SIGUSR1, 0, &now);
    int is_ignored = now.sa_handler == SIG_IGN;
    int is_whole = is_ignored
        ? sigismember(&now.sa_mask, SIGWINCH) && !sigismember(&now.sa_mask, SIGUSR2)
        : now.sa_handler == runs_once && sigismember(&now.sa_mask, SIGUSR2) && now.sa_flags & SA_ONSTACK;
    runs = 0;
    raise(SIGUSR1);
    return is_whole && runs == !is_ignored;
}

static int actions(long forks) {
    pthread_t thread;
    long wrong = 0;
    set(1);
    for (int one = 0; one < 2; one++) pthread_create(&thread, 0, change, 0);
    for (long one = 0; one < forks; one++) {
        int status;
        pid_t child = fork();
        if (child == 0) _exit(!looks_right());
        waitpid(child, &status, 0);
        wrong += status != 0;
    }
    printf("%ld forks, %ld wrong\n", forks, wrong);
    return wrong != 0;
}

static int numbers(long forks) {
    int ends[2];
    long wrong = 0;
    if (pipe(ends)) return 1;
    for (long one = 0; one < forks; one++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            int is_right = 1;
            for (int turn = 0; turn < 20000; turn++) {
                close(0);
                is_right &= dup(ends[0]) == 0;
            }
            _exit(!is_right);
        }
        waitpid(child, &status, 0);
        wrong += status != 0;
    }
    printf("%ld forks, %ld wrong\n", forks, wrong);
    return wrong != 0;
}

static int killed(long forks, const char *until) {
    enum { ROWS = 48 << 8 };
    unsigned long seed = 1;
    char *rows = mmap(0, ROWS * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (rows == MAP_FAILED) return 1;
    for (long row = 0; row < ROWS; row++)
        for (int part = 0; part < PAGE / 2; part += sizeof seed) {
            seed = seed * 6364136223846793005 + 1442695040888963407;
            memcpy(rows + row * PAGE + part, &seed, sizeof seed);
        }
    for (long one = 0; one < forks; one++) {
        pid_t child = fork();
        if (child == 0) for (;;) pause();
        kill(child, SIGKILL);
        waitpid(child, 0, 0);
    }
    munmap(rows, ROWS * PAGE);
    puts("freed");
    fflush(stdout);
    while (access(until, F_OK) != 0) usleep(10000);
    return 0;
}

int main(int count, char **words) {
    (void)count;
    block = malloc(PAGES * PAGE);
    for (long page = 0; page < PAGES; page++) *word(page) = page;
    long times = atol(words[2]);
    if (strcmp(words[1], "chain") == 0) return chain(times);
    if (strcmp(words[1], "killed") == 0) return killed(times, words[3]);
    return strcmp(words[1], "numbers") == 0 ? numbers(times) : actions(times);
}
"#;

/// The program that forks; None: there is no compiler.
fn forks(scratch: &Scratch) -> Option<PathBuf> {
    if !needs(&["gcc"]) {
        return None;
    }
    let (source, forks) = (scratch.file("forks.c"), scratch.file("forks"));
    std::fs::write(&source, FORKS).expect("the scratch directory is writable");
    Run::plain("gcc").args(["-O1", "-pthread", "-o"]).arg(&forks).arg(&source).finish().must_succeed();
    Some(forks)
}

fn run_forks(way: &str, times: u32) {
    let _turn = shared_turn();
    let scratch = Scratch::new();
    let Some(forks) = forks(&scratch) else { return };
    let outcome = Run::plain(&forks).args([way, &times.to_string()]).uswap(24, &[]).finish();
    outcome.must_succeed();
    assert!(outcome.stdout.contains(", 0 "), "{}", outcome.stdout);
}

/// A child that is killed before it takes its memory over keeps nothing of it for ever.
#[test]
fn fork_gives_up_what_killed_children_had() {
    let _turn = shared_turn();
    let scratch = Scratch::new();
    let Some(forks) = forks(&scratch) else { return };
    let end = scratch.file("end");
    let times = if full_size() { "2000" } else { "50" };
    let mut running = Run::plain(&forks).args(["killed", times]).arg(&end).uswap(24, &[]).start();
    while running.output_so_far() != "freed\n" && !running.ended() {
        std::thread::sleep(Duration::from_millis(20));
    }
    // What the program still has compresses to next to nothing; what it has freed took 24 MiB.
    for name in ["pool_bytes", "swap_file_bytes"] {
        steering::wait_until(&mut running, name, |bytes| bytes < 8 * MIB);
    }
    std::fs::write(end, "").expect("the scratch directory is writable");
    running.finish().must_succeed();
}

/// What is ours in a child is opened before its code runs: that counts on which number is the lowest free one.
#[test]
fn fork_leaves_the_child_its_low_numbers() {
    run_forks("numbers", if full_size() { 5000 } else { 200 });
}

/// What a child takes for itself while its parent's is still there must not grow with its ancestors.
#[test]
fn fork_a_thousand_generations() {
    run_forks("chain", if full_size() { 5000 } else { 1200 });
}

#[test]
fn fork_while_actions_of_signals_change() {
    run_forks("actions", if full_size() { 20_000 } else { 1000 });
}

/// Forks with wide registers in use, by an instruction of its own: no function of the C library ends their use.
const WIDE_REGISTERS: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 24576 };

__attribute__((target("avx"))) static long fork_in_use(const unsigned long *before, unsigned long *after) {
    long answer = SYS_fork;
    __asm__ volatile(
        "vmovups (%[before]), %%ymm2\n vmovups (%[before]), %%ymm14\n"
        "syscall\n"
        "vmovups %%ymm2, (%[after])\n vmovups %%ymm14, 32(%[after])\n vzeroupper\n"
        : "+a"(answer) : [before] "r"(before), [after] "r"(after) : "rcx", "r11", "memory", "xmm2", "xmm14");
    return answer;
}

int main(void) {
    if (!__builtin_cpu_supports("avx")) return puts("0 wrong") < 0;
    char *block = mmap(0, PAGES * (long)PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (block == MAP_FAILED) return 3;
    for (long page = 0; page < PAGES; page++) memset(block + page * PAGE, page % 251, PAGE);
    unsigned long before[4] = {1, 2, 3, 4}, after[8];
    int wrong = 0;
    for (int round = 0; round < 8; round++) {
        memset(after, 0, sizeof after);
        long child = fork_in_use(before, after);
        int is_wrong = memcmp(before, after, 32) || memcmp(before, after + 4, 32), status;
        if (!child) _exit(is_wrong);
        waitpid(child, &status, 0);
        wrong += is_wrong + (status != 0);
    }
    printf("%d wrong\n", wrong);
    return 0;
}
"#;

#[test]
fn fork_leaves_the_child_its_wide_registers() {
    let _turn = shared_turn();
    if !needs_uswap() {
        return;
    }
    if !needs(&["gcc"]) {
        return;
    }
    let scratch = Scratch::new();
    let run = Run::plain(compile(&scratch, WIDE_REGISTERS)).timeout(std::time::Duration::from_secs(120));
    let outcome = run.uswap(24, &[]).finish();
    outcome.must_succeed();
    assert_eq!(outcome.stdout, "0 wrong\n");
}
