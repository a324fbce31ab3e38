#!/usr/bin/env python3
"""What it costs to evict a page, and to touch one that is not as it was left.

    python3 bench/scripts/costs.py [--uswap target/release/uswap] [--rounds 9] [--mib 64]

A program that has all the memory it wants asks for its pages to go (MADV_PAGEOUT), so that the calling thread evicts
them, in batches as kswapd does. The rows:

    stored       a page that was written: protected, compressed, dropped
    clean        a page that was read since: protected, dropped; its copy is good
    written      the first write of a page that is clean and present: the fault, the signal, and the way back
    compressed   a touch of a page that is compressed, where no neighbour was touched
    same-filled  the same of a page that repeats one word

The first three are processor time, and the cost of all pages by their number. The others are medians of single touches
by the clock, in a random order. Each once alone, and once beside a thread of the same program on another processor,
which has to be told of each batch that goes. Medians of the rounds in microseconds a page; in brackets the quartiles.
"""

import argparse
import functools
import hashlib
import mmap
import os
import random
import statistics
import subprocess
import sys
import threading
import time

PAGE = 4096
# Pages between two that are touched one by one.
APART = 32
MADV_PAGEOUT = 21


def resident_pages():
    """Private ones: the pool is shared memory."""
    with open("/proc/self/statm") as file:
        _, resident, shared, *_ = file.read().split()
        return int(resident) - int(shared)


class Pages:
    """Memory of the program that is managed."""

    def __init__(self, mib):
        self.count = mib * 1024 * 1024 // PAGE
        self.block = mmap.mmap(-1, self.count * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.view = memoryview(self.block)
        noise, text = os.urandom(1024), b"so much of a page is text, and the rest is noise " * 80
        self.rest = noise + text

    def fill(self, number):
        """With pages that are all different and can be compressed."""
        for page in range(self.count):
            head = (number * self.count + page).to_bytes(8, "little")
            self.block[page * PAGE:(page + 1) * PAGE] = (head + self.rest)[:PAGE]

    def fill_with_words(self, number):
        """With pages that repeat one word."""
        for page in range(self.count):
            word = (number * self.count + page + 1).to_bytes(4, "little")
            self.block[page * PAGE:(page + 1) * PAGE] = word * (PAGE // 4)

    def go(self):
        self.block.madvise(MADV_PAGEOUT)

    def go_and_be_gone(self):
        """Answers the processor time of each page."""
        before = resident_pages()
        took = self.per_page(self.go)
        gone = (before - resident_pages()) / self.count
        assert gone > 0.9, f"only {gone:.2f} of the pages went: the times would say nothing"
        return took

    def per_page(self, act):
        began = time.thread_time_ns()
        act()
        return (time.thread_time_ns() - began) / self.count

    def read(self):
        assert len(bytes(self.view[::PAGE])) == self.count

    def write(self):
        self.view[8::PAGE] = bytes(self.count)

    def touch(self):
        """The median of single touches, by the clock."""
        before = resident_pages()
        chosen = random.sample(range(0, self.count, APART), self.count // APART)
        times = []
        for page in chosen:
            at = page * PAGE
            began = time.perf_counter_ns()
            self.view[at]
            times.append(time.perf_counter_ns() - began)
        brought = resident_pages() - before
        assert brought < len(chosen) * 1.5, f"{brought} pages came by {len(chosen)} touches: neighbours came along"
        return statistics.median(times)


def evictions(pages, number):
    pages.fill(number)
    row = {"stored": pages.go_and_be_gone()}
    pages.read()
    row["clean"] = pages.go_and_be_gone()
    pages.read()
    row["written"] = pages.per_page(pages.write)
    return row


def touches(pages, number):
    row = {}
    for name, fill in (("compressed", pages.fill), ("same-filled", pages.fill_with_words)):
        fill(number)
        pages.go_and_be_gone()
        row[name] = pages.touch()
    return row


PARTS = {"evictions": evictions, "touches": touches}


def measured(part, rounds, mib):
    """Prints the times of each row, a line each: run in the program that is managed."""
    pages = Pages(mib)
    for number in range(rounds):
        print(" ".join(f"{name}={ns:.0f}" for name, ns in PARTS[part](pages, number).items()), flush=True)


def beside(work):
    """Runs `work` while another thread of the program computes."""
    ends = threading.Event()

    def compute():
        data = bytes(1 << 22)
        while not ends.is_set():
            hashlib.sha256(data)  # Without the lock of the interpreter.

    thread = threading.Thread(target=compute)
    thread.start()
    try:
        work()
    finally:
        ends.set()
        thread.join()


def rows_of(options, part, kind):
    command = [options.uswap, "run", "-q", "--ram", f"{options.mib * 8}M", "--", sys.executable, __file__,
               "--rounds", str(options.rounds), "--mib", str(options.mib), "--measure", part, "--kind", kind]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [{name: float(ns) for name, ns in (part.split("=") for part in line.split())}
            for line in said.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--uswap", default="target/release/uswap")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--measure", choices=PARTS, help=argparse.SUPPRESS)
    parser.add_argument("--kind", choices=("alone", "beside"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        work = functools.partial(measured, options.measure, options.rounds, options.mib)
        return work() if options.kind == "alone" else beside(work)
    print(f"{'us a page':12}{'alone':>22}{'beside a thread':>22}")
    for part in PARTS:
        alone, with_thread = (rows_of(options, part, kind) for kind in ("alone", "beside"))
        for name in alone[0]:
            cells = []
            for rows in (alone, with_thread):
                quarters = statistics.quantiles([row[name] / 1000 for row in rows], n=4)
                cells.append(f"{quarters[1]:.2f} ({quarters[0]:.2f}, {quarters[2]:.2f})")
            print(f"{name:12}{cells[0]:>22}{cells[1]:>22}")
    return None


if __name__ == "__main__":
    main()
