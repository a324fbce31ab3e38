#!/usr/bin/env python3
"""An array that is larger than RAM: in a pool of uswap, as numpy.memmap, and in the chunks of Dask.

    sudo python3 bench/scripts/arrays.py [--ram 256M] [--times 8] [--rounds 3] [--dir /var/tmp]

Each runs in a memory cgroup of its own of so much RAM, without swap: the pool's budget is what is left of that beside
uswap, and the pages of a mapped file count there, too. Files are filled before their process enters its group, and none
of their pages is in RAM then: in a cgroup of version 1 a writer waits for the disk at each step. The array is filled
with numbers that compress (small integers of 32 bits), then read as a whole twice, then at random: single numbers, one
in each of as many pages; and single numbers are changed. The contestants go by turns; each pass is the median of the
rounds. The sums must be the same. Above 1: so many times as fast as numpy.memmap.

It needs numpy and the package uswap in the Python that runs it; without dask that column is left out. UMap, which
serves a file by userfaultfd, is no package of Debian's and is not run.
"""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

RIVALS = ("memmap", "uswap", "dask")
PASSES = ("read", "again", "random", "change")
PART = 1 << 20  # Numbers that are worked on at a time.
RANDOM = 20_000
GROUPS = "/sys/fs/cgroup"


class Group:
    """A memory cgroup, of either version."""

    def __init__(self, limit):
        is_old = os.path.isdir(f"{GROUPS}/memory")
        self.path = f"{GROUPS}/{'memory/' if is_old else ''}uswap-arrays-{os.getpid()}"
        os.mkdir(self.path)
        files = {"memory.limit_in_bytes" if is_old else "memory.max": limit, "memory.swap.max": 0}
        for name, value in files.items():
            if os.path.exists(f"{self.path}/{name}"):
                with open(f"{self.path}/{name}", "w") as file:
                    file.write(str(value))

    def remove(self):
        # Who has ended is still counted for a moment.
        for _ in range(100):
            try:
                return os.rmdir(self.path)
            except OSError:
                time.sleep(0.05)
        return None


def parse_bytes(text):
    units = {"K": 10, "M": 20, "G": 30}
    return int(text[:-1]) << units[text[-1].upper()] if text[-1].upper() in units else int(text)


def numbers(np, start):
    """A part of the array: small whole numbers that are the same each time."""
    at = np.arange(start, start + PART, dtype=np.uint64)
    return ((at * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(58)).astype(np.int32)


def enter(group):
    """Makes the calling process one of a group."""
    with open(f"{group}/cgroup.procs", "w") as file:
        file.write(str(os.getpid()))


def send_to_disk(path):
    """No page of a file is in RAM any more."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def fill(np, array, count):
    for start in range(0, count, PART):
        array[start:start + PART] = numbers(np, start)


def passes(np, array, count):
    """The time of each pass over something like an array, and what it found."""
    seen = {}

    def timed(name, work):
        start = time.perf_counter()
        found = work()
        seen[name] = (time.perf_counter() - start, int(found))

    def read():
        return sum(int(array[start:start + PART].sum(dtype=np.int64)) for start in range(0, count, PART))

    # One number in each page, as far as there are so many.
    chosen = np.random.default_rng(1).permutation(count // 1024)[:RANDOM] * 1024 + 7

    def at_random():
        return sum(int(array[index]) for index in chosen)

    def change():
        for index in chosen[::-1]:
            array[index] += 1
        return 0

    for name, work in zip(PASSES, (read, read, at_random, change)):
        timed(name, work)
    return seen


def memmap(np, count, options):
    with tempfile.NamedTemporaryFile(dir=options.dir) as file:
        array = np.memmap(file.name, dtype=np.int32, mode="w+", shape=count)
        fill(np, array, count)
        array.flush()
        del array
        send_to_disk(file.name)
        enter(options.group)
        return passes(np, np.memmap(file.name, dtype=np.int32, mode="r+", shape=count), count)


def uswap(np, count, options):
    import uswap as library

    enter(options.group)
    library.pool(options.budget, options.dir)
    array = library.empty(count, np.int32)
    fill(np, array, count)
    return passes(np, array, count)


def dask(np, count, options):
    """Chunks in files, one a part; it has no random change."""
    import dask.array

    seen = {}
    with tempfile.TemporaryDirectory(dir=options.dir) as work:
        for part in range(0, count, PART):
            np.save(f"{work}/{part // PART}.npy", numbers(np, part))
            send_to_disk(f"{work}/{part // PART}.npy")
        enter(options.group)
        parts = [dask.array.from_delayed(dask.delayed(np.load)(f"{work}/{index}.npy"), (PART,), np.int32)
                 for index in range(count // PART)]
        array = dask.array.concatenate(parts)
        for name in ("read", "again"):
            start = time.perf_counter()
            found = int(array.sum(dtype=np.int64).compute(scheduler="single-threaded"))
            seen[name] = (time.perf_counter() - start, found)
        return seen


def child(rival, options):
    import numpy as np

    count = int(options.ram * options.times) // 4 // PART * PART
    found = {"memmap": memmap, "uswap": uswap, "dask": dask}[rival](np, count, options)
    print(json.dumps(found))


def measure(rival, options):
    group = Group(options.ram)
    words = [sys.executable, os.path.abspath(__file__), "--child", rival, "--ram", str(options.ram), "--times",
             str(options.times), "--dir", options.dir, "--budget", options.budget, "--group", group.path]
    try:
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True)
    finally:
        group.remove()
    if done.returncode != 0:
        sys.exit(f"{rival} ended with {done.returncode}")
    return json.loads(done.stdout)


def main():
    parser = argparse.ArgumentParser(description="An array that is larger than RAM.")
    parser.add_argument("--ram", type=parse_bytes, default="256M")
    parser.add_argument("--times", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--dir", default="/var/tmp")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--budget", help=argparse.SUPPRESS)
    parser.add_argument("--group", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options.child, options)
    if os.geteuid() != 0:
        sys.exit("arrays.py makes memory cgroups, which needs root")
    # What the kernel counts beside: tables of the process, the supervisor, the first pages of programs.
    options.budget = str(options.ram * 7 // 8)
    rivals = [rival for rival in RIVALS if rival != "dask" or importlib.util.find_spec("dask")]
    seen = {rival: [] for rival in rivals}
    for turn in range(options.rounds):
        for rival in rivals[turn % len(rivals):] + rivals[:turn % len(rivals)]:
            seen[rival].append(measure(rival, options))
    sums = {(name, run[name][1]) for runs in seen.values() for run in runs for name in run}
    if len(sums) != len({name for name, _ in sums}):
        sys.exit(f"the sums differ: {sorted(sums)}")
    print(f"{int(options.ram * options.times) >> 20} MiB in {options.ram >> 20} MiB of RAM, seconds"
          f" (and times as fast as memmap)")
    print(f"{'':8}" + "".join(f"{name:>18}" for name in PASSES))
    medians = {rival: {name: statistics.median(run[name][0] for run in seen[rival]) for name in seen[rival][0]}
               for rival in rivals}
    for rival in rivals:
        cells = [f"{medians[rival][name]:10.2f} ({medians['memmap'][name] / medians[rival][name]:5.2f})"
                 if name in medians[rival] else f"{'-':>18}" for name in PASSES]
        print(f"{rival:8}" + "".join(cells))
    return None


if __name__ == "__main__":
    main()
