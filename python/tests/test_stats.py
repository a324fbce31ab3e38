"""How a run goes, as it is shown."""

from __future__ import annotations

import dataclasses
import pickle

import pytest
from conftest import Python

import uswap
from uswap._sizes import human

STATS = uswap.Stats(
    ram_bytes=64 << 20,
    used_bytes=48 << 20,
    resident_bytes=40 << 20,
    pool_bytes=7 << 19,
    pool_bytes_max=20 << 20,
    swap_file_bytes=0,
    counters={"faults": 3},
)


def test_it_is_a_value() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        STATS.ram_bytes = 1  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(STATS)) == STATS
    assert hash(STATS) == hash(dataclasses.replace(STATS))
    assert STATS != dataclasses.replace(STATS, counters={})


def test_it_is_shown_as_lines_and_as_a_table() -> None:
    assert str(STATS).splitlines() == [
        "budget      64 MiB",
        "used        48 MiB  75 % of the budget",
        "resident    40 MiB",
        "pool       3.5 MiB  at most 20 MiB now",
        "swap file      0 B",
    ]
    table = STATS._repr_html_()
    assert table.count("<tr>") == 5
    assert ">75 % of the budget<" in table


def test_top_shows_sizes_and_counters() -> None:
    counters = {"pswpin": 256, "zswpout": 512, "written_bytes": 3 << 20, "swap_ra": 128, "stall_ns": 2_340_000_000}
    shown = uswap.Top(dataclasses.replace(STATS, counters=counters))
    assert repr(shown).splitlines() == [
        "RAM budget   64 MiB",
        "used         48 MiB  75 % of the budget",
        "resident     40 MiB  memory of the processes that is in RAM",
        "pool        3.5 MiB  compressed pages in RAM, at most 20 MiB now",
        "swap file       0 B  what it holds",
        "compressed    2 MiB  went into the pool until now",
        "written       3 MiB  to the swap file until now",
        "read          1 MiB  from the swap file until now: major faults",
        "read ahead  512 KiB  brought before it was asked for",
        "stalled       2.3 s  time that threads took for their faults",
    ]
    table = shown._repr_html_()
    assert table.startswith("<table>")
    assert table.count("<tr>") == 10
    assert "from the swap file until now: major faults</td>" in table
    # What must not be is shown if it is.
    worse = uswap.Top(dataclasses.replace(STATS, counters={"over_budget": 7, "lost_pages": 2}))
    assert [line.split()[0] for line in repr(worse).splitlines()[-2:]] == ["over", "lost"]


@pytest.mark.parametrize("lines", ['uswap.limit("64M")', 'memory = uswap.pool("64M")'])
def test_top_asks_the_run_of_this_process(python: Python, lines: str) -> None:
    done = python(
        f"""
    import uswap
    try:
        uswap.top()
    except uswap.NotLimitedError:
        print("none")
    {lines}
    print(uswap.top())
    assert uswap.top().stats.ram_bytes == 64 << 20
    """
    )
    lines_said = done.stdout.splitlines()
    assert lines_said[0] == "none"
    assert lines_said[1].split() == ["RAM", "budget", "64", "MiB"]


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        ((1 << 20) - 1, "1 MiB"),
        (256 << 20, "256 MiB"),
        (3 << 29, "1.5 GiB"),
        ((1 << 64) - 1, "16 EiB"),
    ],
)
def test_sizes_look_as_those_of_the_command(size: int, text: str) -> None:
    assert human(size) == text


def test_a_run_answers_as_soon_as_there_is_a_budget(python: Python) -> None:
    done = python(
        """
    import uswap
    uswap.limit("64M")
    print(uswap.stats().ram_bytes)
    """
    )
    assert done.stdout == f"{64 << 20}\n"
