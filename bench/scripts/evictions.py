#!/usr/bin/env python3
"""What it costs to evict a page, and to write one that is clean: processor time of the thread that does it.

    python3 bench/scripts/evictions.py [--uswap target/release/uswap] [--rounds 9] [--mib 64]

A program that has all the memory it wants asks for its pages to go (MADV_PAGEOUT), so that the calling thread evicts
them, in batches as kswapd does. The rows:

    stored    a page that was written: protected, compressed, dropped
    clean     a page that was read since: protected, dropped; its copy is good
    written   the first write of a page that is clean and present: the fault, the signal, and the way back

Each once alone, and once beside a thread of the same program on another processor, which has to be told of each batch
that goes. Medians of the rounds in microseconds a page; in brackets the quartiles.
"""

import argparse
import hashlib
import mmap
import os
import statistics
import subprocess
import sys
import threading
import time

PAGE = 4096
MADV_PAGEOUT = 21


def resident_pages():
    """Private ones: the pool is shared memory."""
    with open("/proc/self/statm") as file:
        _, resident, shared, *_ = file.read().split()
        return int(resident) - int(shared)


def measured(rounds, mib):
    """Prints the times of each row, a line each: run in the program that is managed."""
    pages = mib * 1024 * 1024 // PAGE
    block = mmap.mmap(-1, pages * PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    view = memoryview(block)
    noise, text = os.urandom(1024), b"so much of a page is text, and the rest is noise " * 80

    def fill(number):
        for page in range(pages):
            head = (number * pages + page).to_bytes(8, "little") + noise
            block[page * PAGE:(page + 1) * PAGE] = (head + text)[:PAGE]

    def per_page(act):
        began = time.thread_time_ns()
        act()
        return (time.thread_time_ns() - began) / pages

    def go():
        block.madvise(MADV_PAGEOUT)

    def must_be_gone(resident_before):
        gone = (resident_before - resident_pages()) / pages
        assert gone > 0.9, f"only {gone:.2f} of the pages went: the times would say nothing"

    for number in range(rounds):
        fill(number)
        resident = resident_pages()
        row = {"stored": per_page(go)}
        must_be_gone(resident)
        assert len(bytes(view[::PAGE])) == pages
        resident = resident_pages()
        row["clean"] = per_page(go)
        must_be_gone(resident)
        assert len(bytes(view[::PAGE])) == pages

        def write():
            view[8::PAGE] = bytes(pages)

        row["written"] = per_page(write)
        print(" ".join(f"{name}={ns:.0f}" for name, ns in row.items()), flush=True)


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


def rows_of(options, kind):
    command = [options.uswap, "run", "-q", "--ram", f"{options.mib * 8}M", "--", sys.executable, __file__,
               "--rounds", str(options.rounds), "--mib", str(options.mib), "--measure", kind]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [{name: float(ns) for name, ns in (part.split("=") for part in line.split())}
            for line in said.splitlines()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--uswap", default="target/release/uswap")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--mib", type=int, default=64)
    parser.add_argument("--measure", choices=("alone", "beside"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure == "alone":
        return measured(options.rounds, options.mib)
    if options.measure == "beside":
        return beside(lambda: measured(options.rounds, options.mib))
    kinds = {kind: rows_of(options, kind) for kind in ("alone", "beside")}
    print(f"{'us a page':10}{'alone':>22}{'beside a thread':>22}")
    for name in ("stored", "clean", "written"):
        cells = []
        for rows in kinds.values():
            quarters = statistics.quantiles([row[name] / 1000 for row in rows], n=4)
            cells.append(f"{quarters[1]:.2f} ({quarters[0]:.2f}, {quarters[2]:.2f})")
        print(f"{name:10}{cells[0]:>22}{cells[1]:>22}")
    return None


if __name__ == "__main__":
    main()
