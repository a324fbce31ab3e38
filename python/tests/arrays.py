"""What the programs of the tests of arrays begin with."""

from __future__ import annotations

ARRAYS = """
    import os
    import numpy as np
    import uswap

    MIB = 1 << 20
    # Items of a row of one MiB.
    ROW = MIB // 4

    def row(number):
        "Content that compresses somewhat, and is known from its number."
        return np.random.default_rng(number).integers(0, 1 << 12, ROW, "u4")

    def fill(table):
        for number in range(len(table)):
            table[number] = row(number)

    def is_right(table):
        return all((table[number] == row(number)).all() for number in range(len(table)))

    def vm_rss_bytes():
        [line] = [line for line in open("/proc/self/status") if line.startswith("VmRSS:")]
        return int(line.split()[1]) << 10

    def present(array):
        "How much of an array is in RAM, from 0 to 1: bit 63 of the words of its pages."
        first, count = array.ctypes.data // 4096, -(-array.nbytes // 4096)
        with open("/proc/self/pagemap", "rb") as pages:
            pages.seek(first * 8)
            words = np.frombuffer(pages.read(count * 8), "u8")
        assert len(words) == count
        return float((words >> np.uint64(63)).mean())

    def handler(array=None):
        "The name of what array memory comes from: of an array, or of new ones."
        core = np.core if np.__version__.startswith("1.") else np._core
        return core.multiarray.get_handler_name(*([] if array is None else [array]))
"""
