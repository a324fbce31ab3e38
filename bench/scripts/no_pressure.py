#!/usr/bin/env python3
"""What programs pay that have all the memory they want: beside themselves without uswap, by turns.

    python3 bench/scripts/no_pressure.py [--uswap target/release/uswap] [--rounds 9] [--ram 4G] [NAME ...]

Prints for each name the median alone and under `uswap run`, and the median of the ratios of each round with its
quartiles; above 1: uswap takes longer. The names:

    python     100 starts of Python
    make       make -j2 of 120 small C files
    configure  a configure script of 60 questions (needs autoconf)
    true       500 starts of `true` by a shell
    forks      1,000 forks of a shell
    redis      redis-benchmark of 300,000 GET and SET, with its server in the same run (needs redis)
    sort       sort of three million lines, 2 s and more in one process
    sqlite     1,500,000 rows put in and asked for, 2 s and more in one process (needs sqlite3)

All but redis are processor time of the whole tree, uswap's own included, since the clock depends on what else runs;
redis is the time for a request. Wall time is printed beside it.
"""

import argparse
import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

CHECKS = ("stdio stdlib string strings inttypes stdint unistd fcntl signal poll pthread dirent dlfcn elf errno "
          "fenv float getopt glob grp iconv langinfo libgen limits locale math memory netdb pwd regex").split()
FUNCTIONS = ("fork vfork mmap munmap madvise poll select epoll_create kqueue getline strlcpy reallocarray memfd_create "
             "pipe2 dup3 accept4 getrandom arc4random qsort_r posix_spawn fallocate ftruncate openat readlinkat "
             "clock_gettime nanosleep sigaction sigaltstack setrlimit getrusage sched_getaffinity").split()


def shell(script):
    return ["sh", "-c", script]


def python(_):
    return shell("for i in $(seq 100); do python3 -c pass; done")


def make(work):
    for number in range(120):
        with open(f"{work}/f{number}.c", "w") as file:
            file.write(f"#include <stdio.h>\nint f{number}(int a) {{ printf(\"%d\", a); return a * {number}; }}\n")
    with open(f"{work}/Makefile", "w") as file:
        objects = " ".join(f"f{number}.o" for number in range(120))
        file.write(f"all: {objects}\n%.o: %.c\n\t$(CC) -O1 -c $< -o $@\nclean:\n\trm -f *.o\n")
    return shell(f"cd {work} && make -s clean && make -s -j2")


def configure(work):
    with open(f"{work}/configure.ac", "w") as file:
        file.write("AC_INIT([asked],[1])\nAC_PROG_CC\n")
        file.write("".join(f"AC_CHECK_HEADERS([{header}.h])\n" for header in CHECKS))
        file.write("".join(f"AC_CHECK_FUNCS([{function}])\n" for function in FUNCTIONS))
        file.write("AC_OUTPUT\n")
    subprocess.run(["autoconf"], cwd=work, check=True)
    return shell(f"cd {work} && ./configure >/dev/null")


def true(_):
    return shell("for i in $(seq 500); do /bin/true; done")


def forks(_):
    return shell("for i in $(seq 1000); do (:); done")


def redis(work):
    return shell(f"redis-server --port 0 --unixsocket {work}/s --save '' --appendonly no >/dev/null & "
                 f"while [ ! -S {work}/s ]; do sleep 0.02; done; "
                 f"redis-benchmark -s {work}/s -n 300000 -t get,set --csv; kill $!; wait; rm -f {work}/s")


def sort(work):
    with open(f"{work}/lines", "w") as file:
        state = 1
        for _ in range(3_000_000):
            state = state * 6364136223846793005 + 1442695040888963407 & 0xFFFFFFFFFFFFFFFF
            file.write(f"{state:x} {state >> 7:o}\n")
    return shell(f"LC_ALL=C.UTF-8 sort --parallel=1 -S 256M {work}/lines -k2 -o {work}/sorted")


def sqlite(_):
    rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500000)"
    return ["sqlite3", ":memory:", f"CREATE TABLE t(a, b); {rows} INSERT INTO t SELECT i, hex(i * 7919) FROM n;"
            "CREATE INDEX x ON t(b); SELECT count(*), sum(a) FROM t WHERE b IN (SELECT hex(a * 7919) FROM t);"]


PROGRAMS = {"python": python, "make": make, "configure": configure, "true": true, "forks": forks, "redis": redis,
            "sort": sort, "sqlite": sqlite}
NEEDS = {"configure": "autoconf", "redis": "redis-benchmark", "sqlite": "sqlite3"}


def measure(command, is_redis):
    """Seconds of processor time, or of a request; seconds of wall time."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wall = time.monotonic() - start
    if done.returncode != 0:
        sys.exit(f"{command} ended with {done.returncode}: {done.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if is_redis:
        rates = [float(line.split('"')[3]) for line in done.stdout.splitlines() if line[1:4] in ("GET", "SET")]
        return statistics.mean(1 / rate for rate in rates), wall
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def main():
    parser = argparse.ArgumentParser(description="What programs pay that have all the memory they want.")
    parser.add_argument("--uswap", default="target/release/uswap")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--ram", default="4G")
    parser.add_argument("names", nargs="*", choices=[[], *PROGRAMS])
    options = parser.parse_args()
    run = [os.path.abspath(options.uswap), "run", "--ram", options.ram, "-q", "--"]
    print(f"{'':10} {'alone':>10} {'uswap':>10} {'ratio':>7} {'quartiles':>15} {'ratio of wall time':>19}")
    for name in options.names or PROGRAMS:
        needed = NEEDS.get(name)
        if needed and not shutil.which(needed):
            print(f"{name:10} left out: there is no {needed}")
            continue
        with tempfile.TemporaryDirectory() as work:
            command = PROGRAMS[name](work)
            ways = [command, run + command]
            seen = [[], []]
            for turn in range(2 * options.rounds):
                # Alone and under uswap, then the other way round.
                way = (turn + turn // 2) % 2
                seen[way].append(measure(ways[way], name == "redis"))
        medians = [statistics.median(cpu for cpu, _ in way) for way in seen]
        ratios = sorted(with_uswap / alone for (alone, _), (with_uswap, _) in zip(*seen))
        walls = statistics.median(with_uswap / alone for (_, alone), (_, with_uswap) in zip(*seen))
        low, _, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        unit, scale = ("us", 1e6) if name == "redis" else ("s", 1)
        print(f"{name:10} {medians[0] * scale:8.2f} {unit:1} {medians[1] * scale:8.2f} {unit:1} "
              f"{statistics.median(ratios):7.3f} {low:7.3f} {high:7.3f} {walls:19.3f}", flush=True)


if __name__ == "__main__":
    main()
