//! Handlers of faults that fault themselves, in a program whose calls are seen.

use uswap_tests::{Run, Scratch, compile, needs, turn, uswap_binary};

const RAM_MIB: u64 = 24;

/// Each case is a child, which writes a letter for each handler that is started. What lies below the alternate stack is
/// shared with the parent.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STACK = 65536, LEVELS = 5, JUMPS = 1000 };

static char *below;
static volatile char *nowhere = (char *)64;
static volatile int levels;
static sigjmp_buf place;

static void fault_again(int signal) {
    if (write(1, "h", 1) != 1) _exit(9);
    *nowhere = 1;
}

/// Of so many levels the last one ends the process.
static void fault_some_levels(int signal) {
    if (write(1, "h", 1) != 1 || ++levels == LEVELS) _exit(0);
    *nowhere = 1;
}

/// Endlessly, and quietly.
static void fault_for_ever(int signal) { *nowhere = 1; }

static void jump(int signal) { siglongjmp(place, 1); }

/// It faults on purpose, once for each signal.
static void fault_in_passing(int signal) {
    if (!sigsetjmp(place, 1)) *nowhere = 1;
    if (write(1, "p", 1) != 1) _exit(9);
}

static void handle(void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    if (sigaction(SIGSEGV, &action, 0)) _exit(9);
}

static void block(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGSEGV);
    sigprocmask(SIG_BLOCK, &set, 0);
}

static void run(int which) {
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    stack_t stack = {.ss_sp = below + STACK, .ss_size = STACK};
    if (sigaltstack(&stack, 0)) _exit(9);
    switch (which) {
    case 0: handle(fault_again, 0); break;
    case 1: handle(fault_again, SA_ONSTACK); break;
    case 2: handle(fault_some_levels, SA_NODEFER); break;
    case 3: handle(fault_some_levels, SA_NODEFER | SA_ONSTACK); break;
    case 4: handle(fault_for_ever, SA_NODEFER | SA_ONSTACK); break;
    case 5: handle(fault_again, 0), block(); break;
    case 6:
    case 7:
        handle(jump, which == 6 ? 0 : SA_ONSTACK);
        for (int jumps = 0; jumps < JUMPS; jumps++)
            if (!sigsetjmp(place, 1)) *nowhere = 1;
        _exit(0);
    case 8: {
        // What was blocked with all others comes while the call that opens them is under way, or that waits.
        sigset_t all, none;
        sigfillset(&all);
        sigemptyset(&none);
        signal(SIGUSR1, fault_in_passing);
        handle(jump, 0);
        for (int round = 0; round < 2; round++) {
            sigprocmask(SIG_SETMASK, &all, 0);
            kill(getpid(), SIGUSR1);
            round ? (void)sigsuspend(&none) : (void)sigprocmask(SIG_SETMASK, &none, 0);
        }
        block();
        _exit(0);
    }
    }
    *nowhere = 1;
    _exit(8);
}

static void *sleep_for_ever(void *nothing) {
    for (;;) pause();
    return nothing;
}

int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, 0, sleep_for_ever, 0)) return 3;
    below = mmap(0, 2 * STACK, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int which = 0; which < 9; which++) {
        memset(below, 0xA5, STACK);
        pid_t child = fork();
        if (!child) run(which);
        int status, wrong = 0;
        waitpid(child, &status, 0);
        for (int at = 0; at < STACK; at++) wrong += below[at] != (char)0xA5;
        printf(" %d: signal %d, %d wrong\n", which, WTERMSIG(status), wrong);
        fflush(stdout);
    }
    return 0;
}
"#;

#[test]
fn handlers_that_fault_end_as_ever() {
    let _turn = turn();
    if !needs(&["gcc"]) || uswap_binary().is_none() {
        return;
    }
    let scratch = Scratch::new();
    let program = compile(&scratch, PROGRAM);
    let alone = Run::plain(&program).finish();
    alone.must_succeed();
    assert_eq!(
        alone.stdout,
        "h 0: signal 11, 0 wrong\nh 1: signal 11, 0 wrong\nhhhhh 2: signal 0, 0 wrong\nhhhhh 3: signal 0, 0 wrong\n \
         4: signal 11, 0 wrong\n 5: signal 11, 0 wrong\n 6: signal 0, 0 wrong\n 7: signal 0, 0 wrong\npp \
         8: signal 0, 0 wrong\n"
    );
    let run = Run::plain(&program).timeout(std::time::Duration::from_secs(60));
    let interposed = run.uswap(RAM_MIB, &[]).finish();
    interposed.must_succeed();
    assert_eq!(interposed.stdout, alone.stdout);
}
