//! Calls that the kernel refuses, whole or in part, and what they must not drop; and calls that change what memory is
//! in ways of their own. The program says the same with uswap as without.

use std::path::PathBuf;
use std::time::Duration;
use uswap_tests::{Run, Scratch, compile, needs, turn, uswap_binary};

const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 10240, PAGEOUT = 21, GUARD_INSTALL = 102, GUARD_REMOVE = 103 };
static char *block;

static char *map(long bytes) {
    return mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}
static long wrong(long from, long to) {
    long count = 0;
    for (long page = from; page < to; page++) count += block[page * PAGE + 5] != (char)(page % 251 + 1);
    return count;
}
static void fill(void) {
    for (long page = 0; page < PAGES; page++) memset(block + page * PAGE, page % 251 + 1, PAGE);
    madvise(block, PAGES * (long)PAGE, PAGEOUT);
}
static const char *error(long answer) { return answer < 0 ? strerrorname_np(errno) : "done"; }

static void advice_that_is_refused(void) {
    const int advices[] = {MADV_DONTNEED, MADV_FREE, GUARD_INSTALL};
    for (int one = 0; one < 3; one++) {
        printf("%s ", error(madvise(block + 1, PAGE, advices[one])));
        printf("%s ", error(madvise(block + 100 * PAGE, (size_t)-1, advices[one])));
        printf("%ld wrong\n", wrong(0, PAGES));
    }
}

static void file_pages_that_are_freed(const char *path) {
    int file = open(path, O_RDWR);
    char *copy = mmap(0, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    memset(copy, 7, 16 * PAGE);
    printf("%s ", error(madvise(copy, 16 * PAGE, MADV_FREE)));
    printf("%d %d\n", copy[0], copy[16 * PAGE - 1]);
}

static void mapping_that_fails(void) {
    char *place = (char *)(((unsigned long)block + (8 << 20)) & ~((2ul << 20) - 1));
    long first = (place - block) / PAGE;
    char *huge = mmap(place, 2 << 20, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_HUGETLB, -1, 0);
    printf("%s ", huge == MAP_FAILED ? "fails" : "maps");
    if (huge != MAP_FAILED) munmap(huge, 2 << 20);
    char *there = mmap(place, 2 << 20, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    long zeros = 0;
    for (long page = 0; there != MAP_FAILED && page < 512; page++) zeros += there[page * PAGE + 5] == 0;
    printf("%s %ld ", there == MAP_FAILED ? "is there" : "was a gap", zeros);
    long wrong_there = there == MAP_FAILED ? wrong(first, first + 512) : 0;
    printf("%ld wrong\n", wrong(0, first) + wrong(first + 512, PAGES) + wrong_there);
}

static sigjmp_buf back;
static void jump(int signal) { siglongjmp(back, signal); }
static int touches(char *page) {
    int signal = sigsetjmp(back, 1);
    if (signal) return signal;
    *(volatile char *)page = 1;
    return 0;
}

static void guards(void) {
    struct sigaction action = { .sa_handler = jump };
    sigaction(SIGSEGV, &action, 0);
    int pipes[2];
    if (pipe(pipes) || write(pipes[1], "x", 1) != 1) exit(9);
    if (madvise(block + 300 * PAGE, 4 * PAGE, GUARD_INSTALL)) { printf("%s\n", error(-1)); return; }
    for (long page = 200; page < 300; page++) block[page * PAGE + 5]++;
    for (long page = 303 + 100; page > 303; page--) block[page * PAGE + 5]++;
    int signals = 0;
    for (long page = 300; page < 304; page++) signals += touches(block + page * PAGE) == SIGSEGV;
    printf("%d signals ", signals);
    printf("%s ", error(read(pipes[0], block + 301 * PAGE, 1)));
    printf("%s ", error(madvise(block + 300 * PAGE, 4 * PAGE, GUARD_REMOVE)));
    for (long page = 300; page < 304; page++) printf("%d", block[page * PAGE + 5]);
    memset(block + 300 * PAGE, 9, 4 * PAGE);
    madvise(block, PAGES * (long)PAGE, PAGEOUT);
    for (long page = 300; page < 304; page++) printf("%d", block[page * PAGE + 5]);
    printf(" %s\n", error(read(pipes[0], block + 301 * PAGE, 1)));
}

enum { ROOM = 256, GUARDED = 100, GUARDS = 4 };

/* The page is alone in a mapping of a file. */
static void map_file(char *place) {
    int file = open("/proc/self/exe", O_RDONLY);
    if (mmap(place, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, file, 0) != place) exit(8);
    close(file);
}
/* Pages of which the first `written` were written, but for one of a file: what they have is seen, and all are used. */
static long wrong_around(char *place, long file, long written) {
    long count = 0;
    for (long page = 0; page < ROOM; page++) {
        if (page == file) continue;
        count += place[page * PAGE + 5] != (char)(page < written ? page + 1 : 0);
        place[page * PAGE + 5] = page + 1;
    }
    return count;
}

static void wipe_over_a_file(void) {
    char *place = map(ROOM * PAGE);
    map_file(place + GUARDED * PAGE);
    for (long page = 0; page < 50; page++) place[page * PAGE + 5] = page + 1;
    madvise(place, ROOM * PAGE, PAGEOUT);
    printf("%s ", error(madvise(place, ROOM * PAGE, MADV_WIPEONFORK)));
    printf("%ld wrong\n", wrong_around(place, GUARDED, 50));
}

static void move_with_a_file(void) {
    char *place = map(ROOM * PAGE), *target = mmap(0, ROOM * PAGE, 0, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    map_file(place + GUARDED * PAGE);
    for (long page = 0; page < 50; page++) place[page * PAGE + 5] = page + 1;
    madvise(place, ROOM * PAGE, PAGEOUT);
    char *there = mremap(place, ROOM * PAGE, ROOM * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, target);
    printf("%s ", there == target ? "moves" : error(-1));
    if (there == MAP_FAILED) there = place;
    printf("%ld ", wrong_around(there, GUARDED, 50));
    madvise(there, ROOM * PAGE, PAGEOUT);
    printf("%ld wrong\n", wrong_around(there, GUARDED, ROOM));
}

/* Guards are there that were there before memory was managed, and when it has changed its rights or its place. */
static void show_guards(char *place, int from, int with) {
    int signals = 0, pipes[2];
    if (pipe(pipes) || write(pipes[1], "x", 1) != 1) exit(9);
    for (long page = from; page < GUARDED; page++) place[page * PAGE + 5] = with;
    for (long page = GUARDED; page < GUARDED + GUARDS; page++) signals += touches(place + page * PAGE) == SIGSEGV;
    printf("%d signals ", signals);
    printf("%s ", error(read(pipes[0], place + (GUARDED + 1) * PAGE, 1)));
    close(pipes[0]), close(pipes[1]);
    long wrong = 0;
    for (long page = from; page < GUARDED; page++) wrong += place[page * PAGE + 5] != with;
    madvise(place, ROOM * PAGE, PAGEOUT);
    printf("%ld wrong\n", wrong);
}

static void early_guards(void) {
    struct sigaction action = { .sa_handler = jump };
    sigaction(SIGSEGV, &action, 0);
    char *place = map(ROOM * PAGE);
    madvise(place + GUARDED * PAGE, GUARDS * PAGE, GUARD_INSTALL);
    memset(place, 1, 10 * PAGE);
    fill();
    show_guards(place, 10, 2);
    mprotect(place, ROOM * PAGE, PROT_READ);
    mprotect(place, ROOM * PAGE, PROT_READ | PROT_WRITE);
    madvise(place + 10 * PAGE, (GUARDED - 10) * PAGE, MADV_DONTNEED);
    show_guards(place, 10, 3);
    char *there = mremap(place, ROOM * PAGE, 2 * ROOM * PAGE, MREMAP_MAYMOVE);
    madvise(there + 10 * PAGE, (GUARDED - 10) * PAGE, MADV_DONTNEED);
    show_guards(there, 10, 4);
    char *target = mmap(0, 2 * ROOM * PAGE, 0, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    there = mremap(there, 2 * ROOM * PAGE, 2 * ROOM * PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, target);
    madvise(there + 10 * PAGE, (GUARDED - 10) * PAGE, MADV_DONTNEED);
    show_guards(there, 10, 5);
    printf("%s", error(madvise(there + GUARDED * PAGE, GUARDS * PAGE, GUARD_REMOVE)));
    for (long page = GUARDED; page < GUARDED + GUARDS; page++) printf(" %d", there[page * PAGE + 5]);
    printf("\n");
}

/* The same in memory that could not be managed then. */
static void guards_in_closed_memory(void) {
    struct sigaction action = { .sa_handler = jump };
    sigaction(SIGSEGV, &action, 0);
    char *closed = map(ROOM * PAGE);
    madvise(closed + GUARDED * PAGE, GUARDS * PAGE, GUARD_INSTALL);
    mprotect(closed, ROOM * PAGE, PROT_NONE);
    fill();
    mprotect(closed, ROOM * PAGE, PROT_READ | PROT_WRITE);
    show_guards(closed, 10, 6);
}

/* Memory with a key that denies it to whoever evicts it; where the processor has no keys, with none. */
static void keys(void) {
    struct sigaction action = { .sa_handler = jump };
    sigaction(SIGSEGV, &action, 0);
    int key = pkey_alloc(0, 0);
    char *marked = map(ROOM * PAGE);
    for (long page = 0; page < ROOM; page++) memset(marked + page * PAGE, page + 1, PAGE);
    printf("%s ", error(pkey_mprotect(marked, ROOM * PAGE, PROT_READ | PROT_WRITE, key)));
    if (key >= 0) pkey_set(key, PKEY_DISABLE_ACCESS);
    madvise(marked, ROOM * PAGE, PAGEOUT);
    fill();
    if (key >= 0) printf("denied: %d ", touches(marked + 3 * PAGE) == SIGSEGV), pkey_set(key, 0);
    long wrong = 0;
    for (long page = 0; page < ROOM; page++) wrong += marked[page * PAGE + 9] != (char)(page + 1);
    printf("%ld wrong ", wrong);
    printf("%s ", error(pkey_mprotect(marked, ROOM * PAGE, PROT_NONE, key)));
    printf("%d ", touches(marked + 5 * PAGE) == SIGSEGV);
    // The handler began with what a new thread may use, and did not return.
    if (key >= 0) pkey_set(key, 0);
    printf("%s ", error(pkey_mprotect(marked, ROOM * PAGE, PROT_READ | PROT_WRITE, key)));
    printf("%s ", error(pkey_mprotect(marked, ROOM * PAGE, PROT_READ | PROT_WRITE, 14)));
    madvise(marked, ROOM * PAGE, PAGEOUT);
    for (long page = 0; page < ROOM; page++) wrong += marked[page * PAGE + 9] != (char)(page + 1);
    printf("%ld wrong\n", wrong);
}

/* A child protects memory of its parent, with a userfaultfd of that. */
static void protected_from_outside(void) {
    int uffd = syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1);
    struct uffdio_api api = { .api = UFFD_API };
    if (ioctl(uffd, UFFDIO_API, &api)) exit(8);
    for (long page = 0; page < 10; page++) block[page * PAGE + 5]++;
    if (fork() == 0) {
        struct uffdio_writeprotect protects = { .range = { (unsigned long)block, 10 * PAGE }, .mode = 1 };
        ioctl(uffd, UFFDIO_WRITEPROTECT, &protects);
        _exit(0);
    }
    wait(0);
    for (long page = 0; page < 10; page++) block[page * PAGE + 5]--;
    printf("%ld wrong\n", wrong(0, PAGES));
}

static volatile int code;
static void note(int signal, siginfo_t *info, void *context) { (void)signal; (void)context; code = info->si_code; }

static void memory_error(void) {
    struct sigaction action = { .sa_sigaction = note, .sa_flags = SA_SIGINFO };
    sigaction(SIGBUS, &action, 0);
    siginfo_t info = { .si_signo = SIGBUS, .si_code = BUS_MCEERR_AR };
    info.si_addr = block;
    printf("%s ", error(syscall(SYS_rt_tgsigqueueinfo, getpid(), getpid(), SIGBUS, &info)));
    printf("code %d\n", code);
}

/* Mappings that the kernel joins to one of more than 32 GiB. */
static void fork_of_much_address_space(void) {
    enum { MAPPINGS = 17 };
    char *all[MAPPINGS];
    for (int one = 0; one < MAPPINGS; one++) {
        all[one] = map(2l << 30);
        for (long page = 0; page < 512; page++) memset(all[one] + page * PAGE, page % 251 + 1, PAGE);
    }
    for (int one = 0; one < MAPPINGS; one++) madvise(all[one], 512 * PAGE, PAGEOUT);
    fflush(stdout);
    if (fork() == 0) {
        long wrong = 0;
        for (int one = 0; one < MAPPINGS; one++)
            for (long page = 0; page < 512; page++) wrong += all[one][page * PAGE + 9] != (char)(page % 251 + 1);
        printf("%ld wrong in a child\n", wrong);
        exit(0);
    }
    wait(0);
}

static void growth(void) {
    char *small = map(PAGE);
    mprotect(small, PAGE, PROT_READ | PROT_WRITE);
    small[0] = 3;
    fill();
    char *large = mremap(small, PAGE, PAGES * (long)PAGE, MREMAP_MAYMOVE);
    if (large == MAP_FAILED) { printf("%s\n", error(-1)); return; }
    for (long page = 1; page < PAGES; page++) memset(large + page * PAGE, page % 251 + 1, PAGE);
    long wrong = large[0] != 3;
    for (long page = 1; page < PAGES; page++) wrong += large[page * PAGE + 5] != (char)(page % 251 + 1);
    large = mremap(large, PAGES * (long)PAGE, 2 * PAGES * (long)PAGE, MREMAP_MAYMOVE);
    printf("%ld wrong, grows: %d\n", wrong, large != MAP_FAILED);
}

static void *nothing(void *unused) { return unused; }
static int returns(void *unused) { (void)unused; return 5; }

/* Children that end by the call that ends a thread, while threads begin; and copies of other kinds than fork makes. */
static void children(void) {
    static char stack[1 << 16] __attribute__((aligned(64)));
    struct sigaction action = { .sa_sigaction = note, .sa_flags = SA_SIGINFO | SA_ONSTACK };
    stack_t alternate = { .ss_sp = malloc(1 << 16), .ss_size = 1 << 16 };
    int right = 0, status;
    sigaltstack(&alternate, 0);
    sigaction(SIGUSR1, &action, 0);
    for (int turn = 0; turn < 200; turn++) {
        pthread_t thread;
        pid_t child = vfork();
        if (child == 0) syscall(SYS_exit, 3);
        waitpid(child, &status, 0);
        right += WEXITSTATUS(status) == 3;
        child = clone(returns, stack + sizeof stack, CLONE_VM | CLONE_VFORK | SIGCHLD, 0);
        waitpid(child, &status, 0);
        right += WEXITSTATUS(status) == 5;
        pthread_create(&thread, 0, nothing, 0);
        raise(SIGUSR1);
        pthread_join(thread, 0);
        stack_t now;
        sigaltstack(0, &now);
        right += now.ss_sp == alternate.ss_sp;
    }
    printf("%d of 600 right, ", right);
    fflush(stdout);
    const long kinds[] = {CLONE_FILES | SIGCHLD, CLONE_VFORK | SIGCHLD};
    for (int one = 0; one < 2; one++) {
        pid_t child = syscall(SYS_clone, kinds[one], 0, 0, 0, 0);
        if (child == 0) _exit(wrong(0, PAGES) != 0);
        waitpid(child, &status, 0);
        printf("%d %ld ", status, wrong(0, PAGES));
        fflush(stdout);
    }
    printf("wrong\n");
}

static void *sleeps(void *unused) {
    for (long page = 0;; page = (page + 1) % PAGES)
        if (block[page * PAGE + 5] != (char)(page % 251 + 1)) abort();
    return unused;
}

/* Each thread makes the call, and leaves the run. */
static void privileges(void) {
    pthread_t thread;
    for (int one = 0; one < 8; one++) pthread_create(&thread, 0, sleeps, 0);
    usleep(200000);
    printf("%s ", error(setresuid(65534, 65534, 65534)));
    usleep(200000);
    printf("%ld wrong\n", wrong(0, PAGES));
    fflush(stdout);
    _exit(0);
}

int main(int count, char **words) {
    const char *is = words[1];
    block = map(PAGES * (long)PAGE);
    // A range that is empty is none, before memory is managed and when it is.
    if (!strcmp(is, "wipe")) printf("%s ", error(madvise(0, 0, MADV_WIPEONFORK)));
    if (strcmp(is, "growth") && strcmp(is, "early") && strcmp(is, "closed") && strcmp(is, "keys")) fill();
    if (!strcmp(is, "advice")) advice_that_is_refused();
    if (!strcmp(is, "file")) file_pages_that_are_freed(words[count - 1]);
    if (!strcmp(is, "mapping")) mapping_that_fails();
    if (!strcmp(is, "guards")) guards();
    if (!strcmp(is, "wipe")) printf("%s ", error(madvise(0, 0, MADV_WIPEONFORK))), wipe_over_a_file();
    if (!strcmp(is, "move")) move_with_a_file();
    if (!strcmp(is, "early")) early_guards();
    if (!strcmp(is, "closed")) guards_in_closed_memory();
    if (!strcmp(is, "keys")) keys();
    if (!strcmp(is, "outside")) protected_from_outside();
    if (!strcmp(is, "error")) memory_error();
    if (!strcmp(is, "fork")) fork_of_much_address_space();
    if (!strcmp(is, "growth")) growth();
    if (!strcmp(is, "children")) children();
    if (!strcmp(is, "privileges")) privileges();
    return 0;
}
"#;

fn program_with_content(scratch: &Scratch) -> PathBuf {
    std::fs::write(scratch.file("content"), [b'c'; 16 * 4096]).expect("the scratch directory is writable");
    compile(scratch, PROGRAM)
}

/// What it prints with uswap is what it prints without.
fn compare(way: &str, ram_mib: u64) {
    let _turn = turn();
    if !needs(&["gcc"]) || uswap_binary().is_none() {
        return;
    }
    let scratch = Scratch::new();
    let program = program_with_content(&scratch);
    let run = || Run::plain(&program).arg(way).arg(scratch.file("content")).timeout(Duration::from_secs(120));
    let alone = run().finish();
    alone.must_succeed();
    let outcome = run().uswap(ram_mib, &[]).finish();
    outcome.must_succeed();
    assert_eq!(outcome.stdout, alone.stdout, "{}", outcome.stderr);
    assert!(way != "wipe" || !outcome.stderr.contains("stays in RAM"), "{}", outcome.stderr);
    if way == "growth" {
        outcome.must_hold_budget_mostly(ram_mib);
    }
}

#[test]
fn advice_that_the_kernel_refuses_drops_nothing() {
    compare("advice", 24);
}

#[test]
fn pages_of_a_file_that_are_freed_stay() {
    compare("file", 24);
}

#[test]
fn a_mapping_that_fails_in_the_place_of_another_leaves_what_the_kernel_leaves() {
    compare("mapping", 24);
}

#[test]
fn guards_are_met_by_the_program_and_by_calls() {
    compare("guards", 24);
}

#[test]
fn guards_stay_that_were_there_before_and_where_memory_moves() {
    compare("early", 24);
}

#[test]
fn guards_stay_in_memory_that_was_closed() {
    compare("closed", 24);
}

#[test]
fn what_children_get_as_zeros_is_used_on_where_a_file_lies_in_it() {
    compare("wipe", 24);
}

#[test]
fn memory_is_moved_together_with_a_file() {
    compare("move", 24);
}

#[test]
fn memory_with_a_protection_key_is_evicted_and_right() {
    compare("keys", 24);
}

#[test]
fn memory_that_another_process_protects_can_be_written() {
    compare("outside", 24);
}

#[test]
fn a_memory_error_is_the_programs() {
    compare("error", 24);
}

#[test]
fn a_child_has_what_was_evicted_of_joined_mappings_of_any_length() {
    compare("fork", 256);
}

#[test]
fn children_of_all_kinds_end_and_leave_their_parent_what_it_had() {
    compare("children", 24);
}

#[test]
fn all_threads_of_a_program_may_leave_the_run_at_once() {
    compare("privileges", 24);
}

#[test]
fn a_small_mapping_that_grows_is_managed() {
    compare("growth", 24);
}
