//! Programs built with AddressSanitizer and ThreadSanitizer, which have shadows of terabytes and see each access.

use crate::interpose_check::case::Case;

/// What it prints last is what the sanitizer finds: nothing, or what was planted.
const SOURCE: &str = "cat > t.c << 'END'
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static long total; static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *work(void *number) {
    long s = 0;
    for (int turn = 0; turn < 40; turn++) {
        long n = 50000 + (long)number * 1000; char *p = malloc(n); memset(p, turn, n);
        for (long i = 0; i < n; i += 64) s += p[i];
        free(p); getppid();
    }
    pthread_mutex_lock(&lock); total += s; pthread_mutex_unlock(&lock); return 0;
}
int main(int count, char **words) {
    char **kept = malloc(3000 * sizeof *kept); long s = 0;
    for (int i = 0; i < 3000; i++) { kept[i] = malloc(4000); memset(kept[i], i, 4000); }
    pthread_t t[4]; for (long i = 0; i < 4; i++) pthread_create(&t[i], 0, work, (void *)i);
    for (int i = 0; i < 4; i++) pthread_join(t[i], 0);
    for (int i = 0; i < 3000; i++) s += kept[i][i];
    printf(\"%ld %ld\\n\", total, s); fflush(stdout);
    pid_t p = fork(); if (p == 0) _exit(kept[77][5]); int status; waitpid(p, &status, 0);
    printf(\"%d\\n\", WEXITSTATUS(status));
    fflush(stdout);
    if (count > 1) { free(kept[5]); return kept[5][3]; }
    for (int i = 0; i < 3000; i++) free(kept[i]);
    free(kept); return 0;
}
END
gcc -g -O1 -fsanitize=address -o asan t.c -lpthread && gcc -g -O1 -fsanitize=thread -o tsan t.c -lpthread";

pub fn cases() -> Vec<Case> {
    // The runtime of AddressSanitizer wants to be the first library, unless it is told not to.
    let asan = "export ASAN_OPTIONS=verify_asan_link_order=0; $PREPARED/asan; echo $?; \
                $PREPARED/asan planted 2>&1 | grep -a -o 'heap-use-after-free' | sort | uniq -c";
    let tsan = "$PREPARED/tsan; echo $?";
    vec![
        Case::new("asan", asan).program("gcc").prepare(SOURCE),
        Case::new("tsan", tsan).program("gcc").prepare(SOURCE),
    ]
}
