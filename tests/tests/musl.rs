//! Programs of another C library than glibc: musl's loader hands nothing to constructors, its posix_spawn gives the
//! child a few KiB of its parent's stack, and its threads unmap the stack that they are on.

use std::path::Path;
use uswap_tests::{Run, Scratch, needs, turn, uswap_binary};

const RAM_MIB: u64 = 24;

/// Fills 64 MiB with two threads, forks, starts programs, and ends threads in both ways.
const PROGRAM: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PAGES = 16384 };
static char *block;
static volatile int ended;

static int content(long page) { return (int)(page * 7 + page / 256) & 255; }
static long wrong(void) {
    long count = 0;
    for (long page = 0; page < PAGES; page++)
        for (int at = 0; at < 4096; at += 1000) count += (block[page * 4096 + at] & 255) != content(page);
    return count;
}
static void *fill(void *half) {
    for (long page = (long)half; page < PAGES; page += 2) memset(block + page * 4096, content(page), 4096);
    return 0;
}
static void *end(void *unused) {
    __sync_fetch_and_add(&ended, 1);
    return unused;
}

int main(int count, char **words) {
    if (count > 1) {
        printf("executed with %s\n", words[1]);
        return 0;
    }
    pthread_t thread;
    block = malloc(PAGES * 4096L);
    pthread_create(&thread, 0, fill, (void *)1);
    fill(0);
    pthread_join(thread, 0);
    printf("wrong: %ld\n", wrong());
    for (int number = 0; number < 40; number++) {
        pthread_create(&thread, 0, end, 0);
        if (number % 2) pthread_detach(thread); else pthread_join(thread, 0);
    }
    while (ended < 40) usleep(1000);
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) _exit(wrong() != 0);
    int status;
    waitpid(child, &status, 0);
    printf("child: %d\n", status);
    for (int number = 0; number < 5; number++) {
        char line[64] = "";
        FILE *pipe = popen("echo started", "r");
        fgets(line, sizeof line, pipe);
        printf("%d %s", pclose(pipe), line);
    }
    printf("wrong: %ld\n", wrong());
    fflush(stdout);
    execl(words[0], words[0], "one word", (char *)0);
    return 9;
}
"#;

/// How many pages were compressed, as the report says; 0: it does not.
fn compressed(report: &str) -> u64 {
    let line = report.lines().find(|line| line.contains(" compressed")).unwrap_or_default();
    let word = line.split_whitespace().find(|word| word.starts_with(|first: char| first.is_ascii_digit()));
    word.and_then(|word| word.replace(',', "").parse().ok()).unwrap_or(0)
}

#[test]
fn musl_programs_are_managed() {
    let _turn = turn();
    if !needs(&["musl-gcc"]) {
        return;
    }
    let Some(binary) = uswap_binary() else { return };
    let scratch = Scratch::new();
    let (source, program) = (scratch.file("program.c"), scratch.file("program"));
    std::fs::write(&source, PROGRAM).expect("the scratch directory is writable");
    Run::plain("musl-gcc").args(["-O1", "-o"]).arg(&program).arg(&source).finish().must_succeed();
    let is_of_musl =
        std::fs::read(&program).is_ok_and(|bytes| bytes.windows(7).any(|part| part == b"ld-musl"));
    assert!(is_of_musl && Path::new("/lib/ld-musl-x86_64.so.1").exists(), "it is no program of musl's");
    let alone = Run::plain(&program).finish();
    alone.must_succeed();
    let ram = format!("{RAM_MIB}M");
    let outcome = Run::plain(binary).args(["run", "--ram", &ram, "--"]).arg(&program).finish();
    outcome.must_succeed();
    assert_eq!(outcome.stdout, alone.stdout);
    assert!(compressed(&outcome.stderr) > 4000, "{}", outcome.stderr);
}
