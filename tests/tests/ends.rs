//! How a process ends with its last thread: when it does and with which status is as without uswap, though there is a
//! thread of uswap in it.

use std::path::{Path, PathBuf};
use std::time::Duration;
use uswap_tests::{Outcome, Run, Scratch, needs, turn, uswap_binary};

/// Fills more than the budget, and then ends in the way that it is told.
const ENDS: &str = r#"
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LOAD = 0x20, IS = 0x15, ANSWER = 6, ALLOW = 0x7fff0000, EPERM_ = 0x50001, KILL_ALL = 1 << 31 };
static const int KILL_THREAD = 0;
static volatile int is_behind_first, killed_thread;

static void set(struct sock_filter *code, int count, int flags) {
    struct sock_fprog program = {count, code};
    prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) != 0) exit(90);
}
static void answer(int number, unsigned what) {
    struct sock_filter code[] = {{LOAD, 0, 0, 0}, {IS, 0, 1, number}, {ANSWER, 0, 0, what}, {ANSWER, 0, 0, ALLOW}};
    set(code, 4, 0);
}
static void be_killed(void) {
    answer(SYS_mkdir, KILL_THREAD);
    syscall(SYS_mkdir, "/nowhere", 0);
}
/* Waits until a thread has ended. The first one of a process is kept as a zombie. */
static void wait_for(int thread) {
    for (int turn = 0; turn < 6000; turn++, usleep(10000)) {
        char name[64], text[64] = "";
        sprintf(name, "/proc/self/task/%d/stat", thread);
        int file = open(name, O_RDONLY);
        if (file < 0) return;
        int is_read = read(file, text, sizeof text - 1) > 0;
        close(file);
        if (!is_read || strstr(text, ") Z") || strstr(text, ") X")) return;
    }
}
static void *killed(void *unused) {
    if (is_behind_first) wait_for(getpid());
    killed_thread = syscall(SYS_gettid);
    be_killed();
    return unused;
}
static void *ends(void *unused) {
    wait_for(getpid());
    syscall(SYS_exit, 6);
    return unused;
}

enum { CHAINS = 3, LINKS = 2000 };
static int chains = CHAINS, links;
static pthread_attr_t detached;
/* Each thread makes the next one, and ends at once. */
static void *link_of_chain(void *left) {
    pthread_t next;
    __atomic_add_fetch(&links, 1, __ATOMIC_RELAXED);
    if (left && pthread_create(&next, &detached, link_of_chain, (char *)left - 1) == 0) return 0;
    if (__atomic_sub_fetch(&chains, 1, __ATOMIC_ACQ_REL) == 0) {
        printf("%d links\n", links);
        fflush(stdout);
    }
    return 0;
}

int main(int count, char **words) {
    pthread_t thread;
    int is(const char *name) { return strcmp(words[1], name) == 0; }
    if (is("inherited") && count == 2) {
        answer(SYS_mkdir, KILL_THREAD);
        execl("/proc/self/exe", words[0], words[1], "again", NULL);
    }
    char *block = malloc(40 << 20);
    for (long at = 0; at < 40 << 20; at++) block[at] = at % 4096 < 512 ? rand() : 0;
    if (is("only")) be_killed();
    if (is("inherited")) syscall(SYS_mkdir, "/nowhere", 0);
    if (is("second")) {
        is_behind_first = 1;
        pthread_create(&thread, 0, killed, 0);
        pthread_exit(0);
    }
    if (is("first")) {
        pthread_create(&thread, 0, killed, 0);
        while (!killed_thread) usleep(10000);
        wait_for(killed_thread);
        syscall(SYS_exit, 5);
    }
    if (is("strict")) {
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT);
        write(1, "strict\n", 7);
        syscall(SYS_exit, 7);
    }
    if (is("exit_group_kills")) {
        answer(SYS_exit_group, KILL_ALL);
        syscall(SYS_exit, 8);
    }
    if (is("exit_group_fails")) {
        answer(SYS_exit_group, EPERM_);
        syscall(SYS_exit, 9);
    }
    if (is("all_threads")) {
        struct sock_filter code[] = {{LOAD, 0, 0, 0}, {IS, 3, 0, SYS_write}, {IS, 2, 0, SYS_clock_nanosleep},
            {IS, 1, 0, SYS_rt_sigreturn}, {IS, 0, 1, SYS_exit_group}, {ANSWER, 0, 0, ALLOW},
            {ANSWER, 0, 0, KILL_ALL}};
        set(code, 7, SECCOMP_FILTER_FLAG_TSYNC);
        usleep(1500000);
        write(1, "filtered\n", 9);
        _exit(10);
    }
    if (is("chains")) {
        pthread_attr_init(&detached);
        pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
        for (int chain = 0; chain < CHAINS; chain++)
            pthread_create(&thread, &detached, link_of_chain, (void *)(long)(LINKS - 1));
        pthread_exit(0);
    }
    if (is("begins")) {
        int early = 0;
        for (int turn = 0; turn < 40; turn++) {
            int status;
            if (fork() == 0) {
                pthread_create(&thread, 0, ends, 0);
                syscall(SYS_exit, 3);
            }
            wait(&status);
            early += WEXITSTATUS(status) != 6;
        }
        printf("%d of 40 ended ahead of a thread\n", early);
    }
    return 0;
}
"#;

fn built(scratch: &Scratch) -> PathBuf {
    let (source, program) = (scratch.file("ends.c"), scratch.file("ends"));
    std::fs::write(&source, ENDS).expect("the scratch directory is writable");
    Run::plain("gcc").args(["-O1", "-pthread", "-o"]).arg(&program).arg(&source).finish().must_succeed();
    program
}

/// A run that hangs is ended, and fails.
fn finish(run: Run, scratch: &Path) -> Outcome {
    run.directory(scratch).timeout(Duration::from_secs(120)).finish()
}

/// It ends in each of these ways as it does alone.
fn compare(ways: &[&str]) {
    let _turn = turn();
    let Some(binary) = uswap_binary() else { return };
    if !needs(&["gcc"]) {
        return;
    }
    let scratch = Scratch::new();
    let program = built(&scratch);
    let swap = scratch.path().display().to_string();
    for way in ways {
        let alone = finish(Run::plain(&program).arg(way), scratch.path());
        let words = ["run", "--ram", "16M", "--swap", &swap, "--"];
        let outcome = finish(Run::plain(&binary).args(words).arg(&program).arg(way), scratch.path());
        let of = |outcome: &Outcome| (outcome.code, outcome.signal, outcome.stdout.clone());
        assert_eq!(of(&outcome), of(&alone), "{way}: {}", outcome.stderr);
        assert_ne!(alone.code, Some(90), "{way}: the kernel takes no filter");
    }
}

#[test]
fn a_process_ends_whose_last_thread_is_killed_by_a_filter() {
    compare(&["only", "second", "first"]);
}

#[test]
fn a_process_ends_whose_last_thread_is_killed_by_an_inherited_filter() {
    compare(&["inherited"]);
}

#[test]
fn a_process_ends_that_may_not_make_the_call_that_ends_processes() {
    compare(&["strict", "exit_group_kills", "exit_group_fails"]);
}

#[test]
fn a_filter_for_all_threads_meets_no_call_of_uswap() {
    compare(&["all_threads"]);
}

#[test]
fn a_process_does_not_end_while_a_thread_begins() {
    compare(&["begins", "chains"]);
}
