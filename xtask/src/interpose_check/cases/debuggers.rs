//! Programs under strace and gdb, which have to let pass the signals by which calls and faults are seen.
//!
//! What strace writes down is not compared: it sees each dispatched call twice, as the signal and as the call. Of gdb
//! two things are not compared, which `docs/SEMANTICS.md` names: it sees the thread of uswap, so that the program has
//! more than one, and it cannot read pages that are evicted (here the text that an argument points to).

use crate::interpose_check::case::Case;

const SOURCE: &str = "cat > t.c << 'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static long sum(const unsigned char *p, long n) { long s = 0; for (long i = 0; i < n; i++) s += p[i]; return s; }
int main(void) {
    long n = 20 << 20;
    unsigned char *p = malloc(n);
    for (long i = 0; i < n; i++) p[i] = i / 4096 + i;
    for (int turn = 0; turn < 3; turn++) { printf(\"%ld\\n\", sum(p, n)); fflush(stdout); getppid(); }
    return 3;
}
END
gcc -g -O1 -fno-inline -o t t.c";

pub fn cases() -> Vec<Case> {
    let let_pass = "-ex 'handle SIGSYS SIGBUS nostop noprint pass' -ex 'set startup-with-shell off'";
    let gdb = format!(
        "timeout -k 1 100 gdb -q -batch -nx {let_pass} -ex 'break sum' -ex run -ex 'bt' -ex 'print n' \
        -ex 'finish' -ex 'delete' \
         -ex 'continue' -ex 'info program' $PREPARED/t 2> /dev/null | sed 's/0x[0-9a-f]*/ADDRESS/g; \
         s/process [0-9]*/process N/; /debuginfod/d; /libthread_db/d; /Using host/d; \
         s/^Thread 1 .* hit Breakpoint/Breakpoint/; /^\\[New Thread/d; /^\\[Thread/d; /^\\[New process/d; \
         s/p@entry=ADDRESS [^,]*,/p@entry=TEXT,/'"
    );
    let strace = "strace -f -o log -e trace=getppid,write,execve $PREPARED/t; echo $?; \
                  strace -f -o log2 bash -c 'for i in 1 2 3; do echo $i | cat; done; exit 4'; echo $?";
    vec![
        Case::new("strace", strace).program("strace").program("gcc").prepare(SOURCE),
        Case::new("gdb", &gdb).program("gdb").program("gcc").prepare(SOURCE),
    ]
}
