//! What the kernel writes of threads when it likes: frames of signals on stacks that are memory as any other, control
//! blocks, and areas of restartable sequences.

use std::time::Duration;
use uswap_tests::{Run, Scratch, compile_by, needs, turn, uswap_binary};

const RAM_MIB: u64 = 24;

/// Threads wait in a call on stacks that are not marked as such, while all other memory goes round several times. Then
/// they get a signal, whose handler runs where they stand, or what they wait for. Some were there when memory was taken
/// under management, others begin later. Their control blocks lie far above their stack pointers.
const WAITS: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_PAGEOUT
#define MADV_PAGEOUT 21
#endif

enum { PAGE = 4096, STACK = 512 << 10, USED = 40000, KINDS = 8, THREADS = 2 * KINDS, PAGES = 24576, ROUNDS = 3 };

static __thread char local[100000];
static pthread_t threads[THREADS];
static sem_t doors[THREADS];
static volatile int ready, signals;
static char *block, *stacks[THREADS];

static void *map(long bytes) {
    return mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void handle(int signal) {
    volatile char used[3000];
    for (unsigned at = 0; at < sizeof used; at++) used[at] = signal;
    __sync_fetch_and_add(&signals, 1);
}

static void *wait_at_door(void *word) {
    long number = (long)word, wrong = 0;
    volatile char used[USED];
    for (int at = 0; at < USED; at++) used[at] = number + at;
    for (unsigned at = 0; at < sizeof local; at++) local[at] = number + at;
    __sync_fetch_and_add(&ready, 1);
    while (sem_wait(&doors[number]) && errno == EINTR);
    for (int at = 0; at < USED; at++) wrong += used[at] != (char)(number + at);
    for (unsigned at = 0; at < sizeof local; at++) wrong += local[at] != (char)(number + at);
    return (void *)wrong;
}

/// Of each kind one: on a stack of the program's, or on one that the library maps; with signals, and without.
static int begin(int first) {
    for (int number = first; number < first + KINDS; number++) {
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        stacks[number] = number % 2 ? map(STACK) : 0;
        if (stacks[number]) pthread_attr_setstack(&attributes, stacks[number], STACK);
        else pthread_attr_setstacksize(&attributes, STACK);
        if (sem_init(&doors[number], 0, 0)) return 3;
        if (pthread_create(&threads[number], &attributes, wait_at_door, (void *)(long)number)) return 4;
    }
    while (ready < first + KINDS) usleep(1000);
    return 0;
}

static void go_round(int rounds) {
    for (int round = 0; round < rounds; round++)
        for (long page = 0; page < PAGES; page++) memset(block + page * PAGE, page + round, PAGE);
    for (int number = 0; number < THREADS; number++)
        if (stacks[number]) madvise(stacks[number], STACK, MADV_PAGEOUT);
}

int main(void) {
    struct sigaction action = {.sa_handler = handle};
    sigaction(SIGUSR1, &action, 0);
    // It has grown, and is seen from here on.
    memset(map(4 << 20), 1, 4 << 20);
    if (begin(0)) return 3;
    block = map(PAGES * (long)PAGE);
    go_round(ROUNDS);
    if (begin(KINDS)) return 4;
    go_round(ROUNDS);
    for (int first = 0; first < 2 * KINDS; first += KINDS)
        for (int number = first + 2; number < first + KINDS; number++) pthread_kill(threads[number], SIGUSR1);
    while (signals < 2 * KINDS - 4) usleep(1000);
    go_round(ROUNDS);
    long wrong = 0;
    for (int number = 0; number < THREADS; number++) {
        void *answer;
        if (sem_post(&doors[number]) || pthread_join(threads[number], &answer)) return 5;
        wrong += (long)answer;
    }
    for (long page = 0; page < PAGES; page++) wrong += block[page * PAGE + 7] != (char)(page + ROUNDS - 1);
    printf("%ld wrong, %d signals\n", wrong, signals);
    return 0;
}
"#;

/// Coroutines on new memory, which make no system calls of their own: each goes far beyond what was ever touched of its
/// stack, to the end of a page, and waits there for signals.
const COROUTINES: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>

enum { PAGE = 4096, STACK = 256 << 10, PAGES = 24576, SIGNALS = 3000, EACH = 3 };

static ucontext_t home, coroutine;
static volatile int signals, ends;
static volatile long wrong;
static char *block;

static void handle(int signal) {
    volatile char used[2000];
    for (unsigned at = 0; at < sizeof used; at++) used[at] = signal;
    signals++;
}

/// Its frame ends some bytes above a page that nobody has touched.
static __attribute__((noinline)) void go_deep(char content) {
    volatile char used[3 * PAGE - 500];
    used[0] = content;
    for (unsigned at = 1; at < sizeof used; at++) used[at] = content;
    for (int first = signals; signals < first + EACH;);
    for (unsigned at = 0; at < sizeof used; at++) wrong += used[at] != content;
}

static void run(void) {
    go_deep(signals);
}

static void *go_round(void *unused) {
    for (int round = 0; !ends; round++)
        for (long page = 0; page < PAGES && !ends; page++) memset(block + page * PAGE, page + round, PAGE);
    return unused;
}

static void *map(long bytes) {
    return mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

int main(void) {
    pthread_t thread;
    sigset_t alarms;
    sigemptyset(&alarms);
    sigaddset(&alarms, SIGALRM);
    block = map(PAGES * (long)PAGE);
    for (long page = 0; page < PAGES; page++) memset(block + page * PAGE, page, PAGE);
    pthread_sigmask(SIG_BLOCK, &alarms, 0);
    pthread_create(&thread, 0, go_round, 0);
    struct sigaction action = {.sa_handler = handle, .sa_flags = SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    struct itimerval every = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &every, 0);
    int count = 0;
    for (; signals < SIGNALS; count++) {
        char *stack = map(STACK);
        // The frame of a signal that comes at the top has room.
        stack[STACK - PAGE - 1] = 1;
        getcontext(&coroutine);
        sigdelset(&coroutine.uc_sigmask, SIGALRM);
        coroutine.uc_stack.ss_sp = stack;
        coroutine.uc_stack.ss_size = STACK;
        coroutine.uc_link = &home;
        makecontext(&coroutine, run, 0);
        swapcontext(&home, &coroutine);
        munmap(stack, STACK);
    }
    ends = 1;
    pthread_join(thread, 0);
    printf("%ld wrong, enough: %d\n", wrong, count > 100);
    return 0;
}
"#;

/// The area of the first thread is where glibc 2.41 has it, below much thread-local storage: the program says so in the
/// words of glibc, which it has in the place of the library's.
const BELOW_LOCAL_STORAGE: &str = r#"
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 24576, ROUNDS = 3, BYTES = 32, SIGNATURE = 0x53053053, APART = 200000 };

__thread char above[APART];
__thread unsigned area[8] __attribute__((aligned(32)));
__thread char below[APART];
asm(".pushsection .data.rel.ro, \"aw\"; .balign 8; .globl __rseq_offset, __rseq_size;"
    ".type __rseq_offset, @object; .size __rseq_offset, 8; __rseq_offset: .quad area@tpoff;"
    ".type __rseq_size, @object; .size __rseq_size, 4; __rseq_size: .long 32; .popsection");
extern const long __rseq_offset;

int main(void) {
    char *pointer = __builtin_thread_pointer();
    if ((char *)area != pointer + __rseq_offset || (char *)area > pointer - APART / 2) return 3;
    memset(above, 1, APART);
    memset(below, 2, APART);
    if (syscall(SYS_rseq, area, BYTES, 0, SIGNATURE)) return perror("rseq"), 4;
    char *block = mmap(0, PAGES * (long)PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (int round = 0; round < ROUNDS; round++)
        for (long page = 0; page < PAGES; page++) {
            memset(block + page * PAGE, page + round, PAGE);
            if (page % 256 == 0) usleep(100);
        }
    long wrong = 0;
    for (long page = 0; page < PAGES; page++) wrong += block[page * PAGE + 7] != (char)(page + ROUNDS - 1);
    for (int at = 0; at < APART; at++) wrong += above[at] != 1 || below[at] != 2;
    printf("%ld wrong, on a processor: %d\n", wrong, area[1] < 65536);
    return 0;
}
"#;

/// Areas in mappings of their own: of a thread that was there when memory was taken under management, and of one that
/// began later.
const IN_MAPPINGS: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 24576, ROUNDS = 3, AREA = 1 << 20, BYTES = 32, SIGNATURE = 0x53053053 };

static char *block;
static volatile int ready, ends;

static char *map(long bytes) {
    return mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void *sleep_and_wake(void *unused) {
    char *mapping = map(AREA);
    memset(mapping, 1, AREA);
    unsigned *area = (unsigned *)(mapping + AREA / 2);
    memset(area, 0, BYTES);
    if (syscall(SYS_rseq, area, BYTES, 0, SIGNATURE)) return perror("rseq"), (void *)1;
    ready++;
    while (!ends) usleep(100000);
    return (void *)(long)(area[1] >= 65536);
}

static void go_round(void) {
    for (int round = 0; round < ROUNDS; round++)
        for (long page = 0; page < PAGES; page++) memset(block + page * PAGE, page + round, PAGE);
}

int main(void) {
    pthread_t threads[2];
    memset(map(4 << 20), 1, 4 << 20);
    for (int number = 0; number < 2; number++) {
        pthread_create(&threads[number], 0, sleep_and_wake, 0);
        while (ready <= number) usleep(1000);
        if (!block) block = map(PAGES * (long)PAGE);
        go_round();
    }
    ends = 1;
    long wrong = 0;
    for (int number = 0; number < 2; number++) {
        void *answer;
        pthread_join(threads[number], &answer);
        wrong += (long)answer;
    }
    for (long page = 0; page < PAGES; page++) wrong += block[page * PAGE + 7] != (char)(page + ROUNDS - 1);
    printf("%ld wrong\n", wrong);
    return 0;
}
"#;

/// Runs a program that `compiler` makes of `text`, if this machine has it.
fn must_print(compiler: &str, text: &str, variables: Option<(&str, &str)>, expected: &str) {
    let _turn = turn();
    if !needs(&[compiler]) || uswap_binary().is_none() {
        return;
    }
    let scratch = Scratch::new();
    let run = Run::plain(compile_by(compiler, &scratch, text)).timeout(Duration::from_secs(240));
    let run = variables.into_iter().fold(run, |run, (name, value)| run.env(name, value));
    let outcome = run.uswap(RAM_MIB, &["--swap", "/var/tmp:1G"]).finish();
    outcome.must_succeed();
    assert_eq!(outcome.stdout, expected, "{}", outcome.stderr);
    assert!(outcome.stderr.contains(" compressed"), "nothing was evicted: {}", outcome.stderr);
}

#[test]
fn threads_wait_on_any_stack_with_glibc() {
    must_print("gcc", WAITS, None, "0 wrong, 12 signals\n");
}

#[test]
fn threads_wait_on_any_stack_with_musl() {
    must_print("musl-gcc", WAITS, None, "0 wrong, 12 signals\n");
}

#[test]
fn signals_come_on_stacks_of_coroutines() {
    must_print("gcc", COROUTINES, None, "0 wrong, enough: 1\n");
}

/// The program has areas of its own then, and glibc none.
const WITHOUT_RSEQ: Option<(&str, &str)> = Some(("GLIBC_TUNABLES", "glibc.pthread.rseq=0"));

#[test]
fn an_rseq_area_below_thread_local_storage_stays() {
    must_print("gcc", BELOW_LOCAL_STORAGE, WITHOUT_RSEQ, "0 wrong, on a processor: 1\n");
}

#[test]
fn rseq_areas_in_mappings_stay() {
    must_print("gcc", IN_MAPPINGS, WITHOUT_RSEQ, "0 wrong\n");
}
