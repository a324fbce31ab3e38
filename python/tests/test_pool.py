"""Pools: where new arrays go, and what is said when they cannot."""

from __future__ import annotations

import pytest
from arrays import ARRAYS
from conftest import Python

import uswap

pytest.importorskip("numpy")


def test_pools_are_nested_and_entered_again(python: Python) -> None:
    python(
        ARRAYS
        + """
    assert handler() == "default_allocator"
    memory = uswap.pool("96M")
    assert handler() == "default_allocator"
    with memory as entered:
        assert entered is memory and handler() == "uswap"
        with memory, uswap.pool(), uswap.pool("96M"):
            assert handler() == "uswap"
            table = np.full((64, ROW), 7, "u4")
        assert handler() == "uswap"
    assert handler() == "default_allocator"
    try:
        with memory:
            assert uswap.zeros(MIB)[0] == 0 and handler() == "uswap"
            1 / 0
    except ZeroDivisionError:
        assert handler() == "default_allocator"
    del memory, entered
    assert table.sum() == 7 * table.size
    table.resize((96, ROW), refcheck=False)
    assert table.sum() == 7 * 64 * ROW and handler(table) == "uswap"
    """
    )


def test_a_pool_belongs_to_a_task(python: Python) -> None:
    python(
        ARRAYS
        + """
    import asyncio

    memory = uswap.pool("96M")
    steps = []

    async def inside(name, gate, other):
        with memory:
            other.set()
            await gate.wait()
            steps.append((name, handler()))
        steps.append((name, handler()))

    async def outside():
        first, second = asyncio.Event(), asyncio.Event()
        # The first enters before the second, and leaves before it.
        one = asyncio.create_task(inside("one", first, second))
        await second.wait()
        entered, leave = asyncio.Event(), asyncio.Event()
        two = asyncio.create_task(inside("two", leave, entered))
        await entered.wait()
        steps.append(("outside", handler()))
        first.set()
        await one
        leave.set()
        await two
        with memory:
            steps.append(("child", await asyncio.create_task(ask())))

    async def ask():
        return handler()

    asyncio.run(outside())
    assert steps == [
        ("outside", "default_allocator"),
        ("one", "uswap"),
        ("one", "default_allocator"),
        ("two", "uswap"),
        ("two", "default_allocator"),
        ("child", "uswap"),
    ], steps
    """
    )


def test_only_what_is_taken_from_a_pool_is_managed(python: Python) -> None:
    python(
        ARRAYS
        + """
    uswap.pool("128M")
    outside = np.full(24 * MIB, 7, "u1")
    table = uswap.empty((256, ROW), "u4")
    fill(table)
    assert present(outside) == 1
    assert present(table) < 0.6
    uswap.advise(outside, "pageout")
    assert outside.sum() == 7 * outside.size
    """
    )


def test_options_are_heard_and_are_the_same_the_second_time(python: Python) -> None:
    done = python(
        ARRAYS
        + """
    import pathlib
    pathlib.Path("swap").mkdir()
    options = dict(pool=0.25, on_full="kill")
    uswap.pool("96M", ["swap", "/var/tmp:1G:5"], **options)
    uswap.pool("96M", ["swap", pathlib.Path("/var/tmp:1G:5")], **options)
    uswap.pool()
    assert uswap.is_limited()
    assert uswap.stats().pool_bytes_max <= 24 * MIB
    for wrong in (
        lambda: uswap.pool("97M", ["swap", "/var/tmp:1G:5"], **options),
        lambda: uswap.pool("96M"),
        lambda: uswap.pool(on_full="kill"),
        lambda: uswap.limit("96M"),
    ):
        try:
            wrong()
        except uswap.AlreadyLimitedError as error:
            print(error)
    """
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 4, lines
    assert all("has a budget already" in line for line in lines)
    assert ["uswap.pool() without options shares it" in line for line in lines] == [True, True, True, False]


def test_a_process_with_a_budget_shares_it(python: Python) -> None:
    text = (
        ARRAYS
        + """
    import sys
    if sys.argv[1] == "limit":
        uswap.limit("96M")
    memory = uswap.pool()
    assert memory.stats().ram_bytes == 96 * MIB
    try:
        uswap.pool("96M")
    except uswap.AlreadyLimitedError as error:
        print(error)
    with memory:
        assert handler(np.full(MIB, 7)) == "uswap"
    """
    )
    assert "has a budget already" in python(text, "limit").stdout
    assert "inside of a run" in python(text, "run", within="96M").stdout


def test_arrays_outlive_the_budget(python: Python) -> None:
    python(
        ARRAYS
        + """
    memory = uswap.pool("96M")
    table = uswap.empty((160, ROW), "u4")
    fill(table)
    with memory:
        uswap.release()
        assert not uswap.is_limited()
        assert is_right(table)
        assert present(table) == 1
        # numpy goes on, in ordinary memory.
        table.resize((200, ROW), refcheck=False)
        assert is_right(table[:160]) and not table[160:].any()
        later = np.full(4 * MIB, 7, "u1")
        later.resize(8 * MIB, refcheck=False)
        assert later.sum() == 7 * 4 * MIB
    del table
    assert vm_rss_bytes() < 96 * MIB
    for ask in (lambda: uswap.zeros(MIB), uswap.pool, lambda: uswap.pool("96M")):
        try:
            ask()
        except uswap.ReleasedError:
            continue
        raise AssertionError("there was a budget")
    try:
        memory.stats()
    except uswap.NotLimitedError:
        pass
    """
    )


def test_without_a_budget_it_is_said_what_to_do(python: Python) -> None:
    done = python(
        ARRAYS
        + """
    for ask in (
        uswap.pool,
        lambda: uswap.pool(dir="/var/tmp"),
        lambda: uswap.empty(MIB),
        lambda: uswap.zeros(MIB),
        lambda: uswap.full(MIB, 7),
    ):
        try:
            ask()
        except uswap.NotLimitedError as error:
            print(error)
    assert handler() == "default_allocator"
    uswap.pool("96M")
    assert uswap.zeros(MIB).sum() == 0
    """
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 5, lines
    for word in ("uswap.pool('2G')", "uswap.limit('2G')", "uswap run --ram 2G"):
        assert all(word in line for line in lines), lines


def test_numpy_is_imported_when_an_array_is_made(python: Python) -> None:
    done = python(
        """
    import sys, uswap
    memory = uswap.pool("64M")
    memory.stats()
    uswap.advise(bytearray(1 << 20), "cold")
    assert "numpy" not in sys.modules
    sys.modules["numpy"] = None
    for ask in (lambda: uswap.zeros(5), lambda: memory.__enter__()):
        try:
            ask()
        except ImportError as error:
            print(error)
    del sys.modules["numpy"]
    assert uswap.zeros(5).sum() == 0
    """
    )
    assert [line.startswith("arrays in managed memory need numpy") for line in done.stdout.splitlines()] == [True, True]


def test_too_large_an_array_is_refused_with_a_reason(python: Python) -> None:
    done = python(
        ARRAYS
        + """
    uswap.pool("512M")
    for ask in (lambda: uswap.empty(1 << 50, "u1"), lambda: uswap.zeros(1 << 50, "u1")):
        try:
            ask()
        except MemoryError as error:
            print(error)
        assert handler() == "default_allocator"
    small = uswap.full(MIB, 7, "u1")
    try:
        small.resize(1 << 50, refcheck=False)
    except MemoryError:
        print("not resized")
    assert small.shape == (MIB,) and small.sum() == 7 * MIB
    """
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 3, lines
    assert all("the kernel says of this memory" in line for line in lines[:2]), lines


@pytest.mark.parametrize(
    ("lines", "error", "said"),
    [
        ("uswap.pool(4.5)", TypeError, "ram is of type float"),
        ("uswap.pool('4G', 4)", TypeError, "dir is of type int"),
        ("uswap.pool('4G', [])", ValueError, "dir is an empty list"),
        ("uswap.pool('4G', '/var/tmp', 0.3)", TypeError, "positional"),
        ("uswap.pool('4G', on_full=1)", TypeError, "on_full is of type int"),
        ("uswap.pool('4X')", uswap.RefusedError, "'X' in '4X' is not a unit"),
        ("uswap.pool('64M', '/no/such/directory')", uswap.RefusedError, "/no/such/directory"),
    ],
)
def test_wrong_options_leave_the_process_as_it_was(lines: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        eval(lines, {"uswap": uswap})
    assert not uswap.is_limited()
