"""Advice about memory has its effect, and wrong advice is named."""

from __future__ import annotations

from typing import Any

import pytest
from arrays import ARRAYS
from conftest import Python

import uswap

np = pytest.importorskip("numpy")

# A process that never came near its budget is left alone, and no advice but "pageout" moves a page of it: it is made
# larger than its budget here, and what makes it so is given back.
LARGE = 'uswap.full(256 << 20, 7, "u1")'
BUDGETS = {
    "pool": ('uswap.pool("192M")', None),
    "limit": (f'uswap.limit("192M"); {LARGE}', None),
    "run": (LARGE, "192M"),
}
# Memory is short: pages are written in no order, as often as it takes. One that goes through its memory in order evicts
# what it has just gone past.
PRESSURE = """
    more = uswap.empty((192 * 256, ROW // 256), "u4")
    def press(is_enough):
        rng = np.random.default_rng(11)
        for _ in range(64):
            for page in rng.permutation(len(more))[:4096]:
                more[page] = rng.integers(0, 1 << 12, ROW // 256, "u4")
            if is_enough():
                return
        raise AssertionError("nothing was evicted")
"""


@pytest.mark.parametrize("kind", BUDGETS)
def test_pageout_takes_memory_away_and_keeps_content(python: Python, kind: str) -> None:
    line, within = BUDGETS[kind]
    python(
        ARRAYS
        + f"""
    {line}
    table = uswap.zeros((64, ROW), "u4")
    table[:] = np.arange(64)[:, None]
    full = vm_rss_bytes()
    assert present(table) > 0.9, present(table)
    uswap.advise(table[:32], "pageout")
    assert present(table[:32]) < 0.1, present(table[:32])
    assert present(table[32:]) > 0.9, present(table[32:])
    assert vm_rss_bytes() < full - 24 * MIB, (full / MIB, vm_rss_bytes() / MIB)
    uswap.advise(table[:32], "willneed")
    assert present(table[:32]) > 0.9, present(table[:32])
    uswap.advise(table, "pageout")
    assert (table == np.arange(64)[:, None]).all()
    """,
        within=within,
    )


@pytest.mark.parametrize("kind", BUDGETS)
def test_dead_makes_zeros_of_whole_pages(python: Python, kind: str) -> None:
    line, within = BUDGETS[kind]
    python(
        ARRAYS
        + f"""
    {line}
    array = uswap.full(16 * MIB, 7, "u1")
    uswap.advise(array[8 * MIB :], "pageout")
    uswap.advise(array[5000 : 12 * MIB + 100], "dead")
    assert (array[:8192] == 7).all() and (array[12 * MIB :] == 7).all()
    assert not array[8192 : 12 * MIB].any()
    array[:] = 9
    assert array.sum() == 9 * array.size
    """,
        within=within,
    )


@pytest.mark.parametrize("kind", BUDGETS)
def test_pinned_memory_stays_while_other_goes(python: Python, kind: str) -> None:
    line, within = BUDGETS[kind]
    python(
        ARRAYS
        + f"""
    {line}
    pinned, free = uswap.empty((24, ROW), "u4"), uswap.empty((24, ROW), "u4")
    fill(pinned)
    fill(free)
    uswap.advise(pinned[12:], "pageout")
    uswap.advise(pinned, "pin")
    assert present(pinned) == 1
    uswap.advise(pinned, "pageout")
    assert present(pinned) == 1, present(pinned)
    {PRESSURE}
    press(lambda: present(free) < 0.5)
    assert present(pinned) == 1, present(pinned)
    assert is_right(pinned) and is_right(free)
    uswap.advise(pinned, "unpin")
    uswap.advise(pinned, "pageout")
    assert present(pinned) < 0.1, present(pinned)
    assert is_right(pinned)
    """,
        within=within,
    )


def test_pins_go_with_their_arrays(python: Python) -> None:
    python(
        ARRAYS
        + """
    uswap.pool("96M")
    for number in range(600):
        array = uswap.full(MIB // 8, number, "u8")
        uswap.advise(array, "pin")
        assert array.sum() == number * array.size
    """
    )


def test_cold_memory_goes_first(python: Python) -> None:
    python(
        ARRAYS
        + """
    uswap.pool("192M")
    warm, cold = uswap.empty((32, ROW), "u4"), uswap.empty((32, ROW), "u4")
    fill(cold)
    fill(warm)
    uswap.advise(cold, "cold")
    """
        + PRESSURE
        + """
    press(lambda: present(warm) + present(cold) < 1.6)
    assert present(cold) < present(warm), (present(cold), present(warm))
    assert is_right(cold) and is_right(warm)
    """
    )


def test_whatever_has_a_buffer_is_advised(python: Python) -> None:
    python(
        ARRAYS
        + """
    import array, mmap
    uswap.limit("192M")
    content = bytearray(b"abcdefgh" * MIB)
    uswap.advise(content, "pageout")
    uswap.advise(memoryview(content)[MIB:], "cold")
    assert content == b"abcdefgh" * MIB
    content += b"its buffer is let go"
    numbers = array.array("q", range(MIB))
    uswap.advise(numbers, "pageout")
    assert numbers == array.array("q", range(MIB))
    with mmap.mmap(-1, 8 * MIB, flags=mmap.MAP_PRIVATE) as mapping:
        mapping[:] = b"x" * len(mapping)
        uswap.advise(mapping, "dead")
        assert mapping[:] == bytes(8 * MIB)
    for kind in (uswap.zeros(MIB, "M8[s]"), uswap.zeros((512, 1024), order="F"), uswap.zeros(MIB, "u4, f8")):
        uswap.advise(kind, "pageout")
        assert present(kind) < 0.1
    for nothing in (bytearray(), uswap.zeros(0), uswap.zeros(MIB)[5:5]):
        for advice in ("cold", "pageout", "willneed", "dead", "pin", "unpin"):
            uswap.advise(nothing, advice)
    """
    )


def read_only() -> Any:
    array = np.zeros(10)
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    ("memory", "advice", "error", "said"),
    [
        (np.zeros(10), "frozen", ValueError, "'frozen' is no advice: give 'cold', 'pageout'"),
        (np.zeros(10), 4, TypeError, "advice is of type int"),
        (read_only(), "cold", ValueError, "read-only"),
        (b"bytes", "cold", ValueError, "read-only"),
        (np.zeros((10, 10))[:, 1], "cold", ValueError, "not contiguous"),
        (memoryview(bytearray(10))[::2], "cold", ValueError, "not contiguous"),
        (np.zeros(10, object), "dead", ValueError, "references to Python objects"),
        ([1, 2, 3], "cold", TypeError, "of type list, which has no buffer"),
        ("text", "cold", TypeError, "of type str, which has no buffer"),
        (np.zeros(10), "pin", uswap.NotLimitedError, "has not asked for a budget"),
        (bytearray(10), "unpin", uswap.NotLimitedError, "has not asked for a budget"),
    ],
)
def test_wrong_advice_is_named(memory: Any, advice: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        uswap.advise(memory, advice)


def test_without_a_budget_the_kernel_hears_it() -> None:
    array = np.full(1 << 20, 7, "u1")
    uswap.advise(array, "cold")
    uswap.advise(array, "willneed")
    assert array.sum() == 7 << 20
    uswap.advise(array, "dead")
    assert array.sum() < 7 * 8192


def test_locked_memory_cannot_go(python: Python) -> None:
    done = python(
        ARRAYS
        + """
    import ctypes
    uswap.pool("96M")
    array = np.full(4 << 12, 7, "u1")
    assert ctypes.CDLL(None).mlock(ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes)) == 0
    try:
        uswap.advise(array, "pageout")
    except uswap.NotManagedError as error:
        print(error)
    """
    )
    assert "the kernel says of this memory" in done.stdout
