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
        "budget        64 MiB",
        "used          48 MiB  75 % of the budget",
        "resident      40 MiB",
        "pool         3.5 MiB  at most 20 MiB now",
        "swap file        0 B",
    ]
    table = STATS._repr_html_()
    assert table.count("<tr>") == 5
    assert ">75 % of the budget<" in table


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
