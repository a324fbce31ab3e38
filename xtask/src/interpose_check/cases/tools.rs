//! A shell, a compiler, a data base, sort: programs that start, map and read in the common ways.

use crate::interpose_check::case::Case;

const BASH: &str = "trap 'echo usr1' USR1; kill -USR1 $$; a=(); for i in $(seq 20000); do a+=(\"word $i\"); done; \
    echo ${#a[@]} ${a[19999]}; s=$(head -c 3000000 /dev/zero | tr '\\0' x); echo ${#s}; \
    for i in 1 2 3 4 5; do echo \"${a[@]}\" | md5sum | cat; done; (exit 7); echo $?; \
    sleep 0.2 & wait $!; read x <<< text; echo $x; while read -r w; do n=$((n + ${#w})); done < <(seq 5000); \
    echo $n; coproc cat; echo there >&${COPROC[1]}; read -r y <&${COPROC[0]}; echo $y; ulimit -n";

/// Many functions, so that the compiler has something to keep.
const GCC_SOURCE: &str = "for i in $(seq 400); do echo \"int f$i(int *a, int n) { int s = $i; \
    for (int k = 0; k < n; k++) { s += a[k] * $i; if (s % 7 == 3) a[k] = s; else s ^= a[(k * 5 + $i) % n]; \
    } return s; }\"; \
    done > big.c; echo 'int main(void) { int a[9] = {1, 2, 3}; return f3(a, 9) & 63; }' >> big.c";

const SQLITE: &str = "sqlite3 $1 \"pragma cache_size=-100000; create table t(a integer primary key, b text, c \
    integer); with recursive n(x) as (select 1 union all select x+1 from n where x<300000) \
    insert into t select x, hex(x*7919)||'-padding-'||x, (x*7919)%100003 from n; create index i on t(c); \
    select count(*), sum(c), max(b) from t; select sum(length(a.b||b.b)) from t a join t b on a.c=b.a where a.a%3=0; \
    pragma integrity_check;\"";

pub fn cases() -> Vec<Case> {
    let sort = "seq 300000 | sort -R --random-source=/bin/sh > in; sort -n -S 20M --parallel=2 -T . in | md5sum; \
                md5sum in; gzip -k in; zcat in.gz | cmp - in; echo $?; xz -1 -T2 -c in | xz -d | cmp - in; echo $?; \
                tar cf - in | tar xOf - | md5sum";
    let perl = "perl -e '$SIG{ALRM} = sub { print \"alarm\\n\" }; alarm 1; sleep 3; print `echo sub`; my %h; \
                $h{$_} = \"value $_\" x 9 for 1..60000; my $s = 0; $s += length $h{$_} for keys %h; print \"$s\\n\"; \
                for (1..5) { my $p = fork(); if (!$p) { exit(length($h{$_}) % 50) } waitpid($p, 0); \
                print $? >> 8, \"\\n\" }'";
    vec![
        Case::new("bash", BASH).short(),
        Case::new("perl", perl).program("perl").short(),
        Case::new("sort", sort).program("xz"),
        Case::new("sqlite-file", &format!("set -- db; {SQLITE}; md5sum db")).program("sqlite3").short(),
        Case::new("sqlite-memory", &format!("set -- :memory:; {SQLITE}")).program("sqlite3").short(),
        Case::new(
            "gcc",
            "gcc -O2 -c $PREPARED/big.c -o big.o && md5sum big.o && gcc big.o -o big && ./big; echo $?",
        )
        .program("gcc")
        .prepare(GCC_SOURCE),
        Case::new("make", "cp $PREPARED/* .; make -s -j2 && ./program; echo $?")
            .program("gcc")
            .program("make")
            .prepare(
                "for i in 1 2 3 4 5 6; do echo \"int f$i(int x) { return x * $i; }\" > f$i.c; done; \
             echo 'int f1(int), f6(int); int main(void) { return f1(2) + f6(3); }' > main.c; \
             printf 'program: main.o f1.o f2.o f3.o f4.o f5.o f6.o\\n\\tgcc -o $@ $^\\n' > Makefile",
            ),
    ]
}
