//! Threads that are cancelled while they wait (`pthread_cancel`), with C libraries whose handler looks where a thread
//! stands, and with one whose handler does not.

use uswap_tests::{Run, Scratch, needs, turn, uswap_binary};

const CANCELS: &str = r#"
#define _GNU_SOURCE
#include <pthread.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PAGES = 16384 };
static int ends[2], cleaned;
static char *block;

static void clean(void *way) { cleaned++; (void)way; }

/* Waits in one of some ways. */
static void *waits(void *way) {
    struct pollfd file = {ends[0], POLLIN, 0};
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t never = PTHREAD_COND_INITIALIZER;
    pthread_cleanup_push(clean, way);
    switch ((long)way) {
    case 0: read(ends[0], block + 8000L * 4096, 100); break;
    case 1: poll(&file, 1, -1); break;
    case 2: sleep(1000); break;
    case 3: pthread_mutex_lock(&mutex); pthread_cond_wait(&never, &mutex); break;
    case 4: read(ends[0], block, 8000L * 4096); break;
    }
    pthread_cleanup_pop(0);
    return 0;
}

/* Makes calls all the time. */
static void *calls(void *unused) {
    char byte;
    for (;;) { write(ends[1], "x", 1); read(ends[0], &byte, 1); }
    return unused;
}

int main(void) {
    block = malloc(PAGES * 4096L);
    for (long page = 0; page < PAGES; page++) memset(block + page * 4096, page * 7 & 127, 4096);
    pipe(ends);
    for (int round = 0; round < 100; round++) {
        pthread_t thread;
        void *answer;
        pthread_create(&thread, 0, waits, (void *)(long)(round % 5));
        usleep(round % 20 * 200);
        pthread_cancel(thread);
        pthread_join(thread, &answer);
        if (answer != PTHREAD_CANCELED) { printf("round %d was not cancelled\n", round); return 1; }
    }
    for (int round = 0; round < 200; round++) {
        pthread_t thread;
        void *answer;
        pthread_create(&thread, 0, calls, 0);
        usleep(100 + round * 7);
        pthread_cancel(thread);
        pthread_join(thread, &answer);
        close(ends[0]); close(ends[1]);
        pipe(ends);
    }
    printf("all were cancelled, %d cleaned up\n", cleaned);
    return 0;
}
"#;

const LOOKS: &str = r#"
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/* As glibc cancels threads from 2.41 on: its handler asks for calls to be restarted, and looks where the thread is. */
enum { PAGES = 16384, CANCEL = 32 };
long call_of_thread(long number, long first, void *second, long third, volatile int *asked);
extern char call_begins[], call_ends[];
__asm__(
    ".globl call_of_thread, call_begins, call_ends\n"
    "call_of_thread: mov %rdi, %rax\n mov %rsi, %rdi\n mov %rdx, %rsi\n mov %rcx, %rdx\n"
    "call_begins: cmpl $0, (%r8)\n jne not_made\n syscall\n call_ends: ret\n"
    "not_made: mov $-4, %rax\n ret\n"
    "return_from_handler: mov $15, %eax\n syscall\n");
void return_from_handler(void);

static __thread sigjmp_buf out;
static __thread volatile int asked;
static volatile int thread_id;
static char *block;
static int ends[2], registers_differ;

static void on_cancel(int signal, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    char *place = (char *)registers[REG_RIP];
    (void)signal, (void)info;
    asked = 1;
    if (place >= call_begins && place < call_ends) {
        registers_differ += registers[REG_RDI] != ends[0] || registers[REG_R8] != (long)&asked;
        siglongjmp(out, 1);
    }
}

static void *waits(void *bytes) {
    thread_id = syscall(SYS_gettid);
    if (sigsetjmp(out, 1) != 0) return (void *)1;
    long answer = call_of_thread(SYS_read, ends[0], block, (long)bytes, &asked);
    return (void *)(answer == -EINTR && asked ? 2L : 3L);
}

int main(void) {
    struct { void *handler; unsigned long flags; void *restorer; unsigned long mask; } action = {
        (void *)on_cancel, SA_SIGINFO | SA_RESTART | 0x04000000, (void *)return_from_handler, 0};
    block = malloc(PAGES * 4096L);
    for (long page = 0; page < PAGES; page++) memset(block + page * 4096, page * 7 & 127, 4096);
    pipe(ends);
    if (syscall(SYS_rt_sigaction, CANCEL, &action, 0, 8) != 0) return 9;
    int wrong = 0, jumped = 0;
    /* On a busy machine few threads may wait by the time that they are asked. */
    for (long round = 0; round < 200 || (jumped <= 50 && round < 5000); round++) {
        pthread_t thread;
        void *answer;
        thread_id = 0;
        pthread_create(&thread, 0, waits, (void *)(round % 2 ? 100 : 8000L * 4096));
        while (thread_id == 0) ;
        usleep(round % 50 * 100);
        syscall(SYS_tgkill, getpid(), thread_id, CANCEL);
        pthread_join(thread, &answer);
        wrong += answer == (void *)3;
        jumped += answer == (void *)1;
    }
    printf("%d wrong, registers differ %d times, ", wrong, registers_differ);
    puts(jumped > 50 ? "most jumped" : "few jumped");
    return wrong;
}
"#;

/// The program does the same alone and in a budget.
fn compare(compiler: &str, text: &str) {
    let _turn = turn();
    if !needs(&[compiler]) {
        return;
    }
    let Some(binary) = uswap_binary() else { return };
    let scratch = Scratch::new();
    let (source, program) = (scratch.file("program.c"), scratch.file("program"));
    std::fs::write(&source, text).expect("the scratch directory is writable");
    let compiled = Run::plain(compiler).args(["-O1", "-pthread", "-o"]).arg(&program).arg(&source).finish();
    compiled.must_succeed();
    let alone = Run::plain(&program).finish();
    alone.must_succeed();
    let outcome = Run::plain(binary).args(["run", "--ram", "24M", "--"]).arg(&program).finish();
    outcome.must_succeed();
    assert_eq!(outcome.stdout, alone.stdout);
    assert!(outcome.stderr.contains(" compressed"), "it was short of memory: {}", outcome.stderr);
}

#[test]
fn cancel_threads_of_glibc() {
    compare("gcc", CANCELS);
}

#[test]
fn cancel_threads_of_musl() {
    compare("musl-gcc", CANCELS);
}

#[test]
fn cancel_by_a_handler_that_looks_where_the_thread_stands() {
    compare("gcc", LOOKS);
}
