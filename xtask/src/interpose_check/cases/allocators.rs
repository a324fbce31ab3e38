//! Programs with another allocator preloaded than libc's.

use crate::interpose_check::case::Case;

const LIBRARIES: [(&str, &str); 3] = [
    ("jemalloc", "/usr/lib/x86_64-linux-gnu/libjemalloc.so.2"),
    ("mimalloc", "/usr/lib/x86_64-linux-gnu/libmimalloc.so.2"),
    ("tcmalloc", "/usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.so.4"),
];

const PROGRAMS: &str = "/usr/bin/python3 -c 'import hashlib, os, threading
rows = {i: str(i) * 5 for i in range(60000)}
def work(n):
    d = hashlib.sha256()
    for turn in range(2):
        for i in range(60000): d.update(rows[i * (7919 + n) % 60000].encode())
    out[n] = d.hexdigest()
out = {}
threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
[t.start() for t in threads]; [t.join() for t in threads]
print(sorted(out.items()))
for n in range(3):
    p = os.fork()
    if p == 0: os._exit(len(rows[59999]) + n)
    print(os.waitpid(p, 0)[1] >> 8)
'; seq 200000 | sort -R --random-source=/bin/sh | sort -n -S 30M --parallel=2 | md5sum; \
perl -e 'my @a; push @a, \"x\" x ($_ % 900) for 1..40000; my $s = 0; $s += length for @a; print \"$s\\n\"'";

pub fn cases() -> Vec<Case> {
    let case = |(name, library): &(&str, &'static str)| {
        // Ahead of what is preloaded already.
        let script = format!("export LD_PRELOAD={library}${{LD_PRELOAD:+:$LD_PRELOAD}}; {PROGRAMS}");
        Case::new(name, &script).file(library).program("/usr/bin/python3").program("perl")
    };
    LIBRARIES.iter().map(case).collect()
}
