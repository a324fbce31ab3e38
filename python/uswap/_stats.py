"""How a run goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from uswap import _table
from uswap._sizes import human


@dataclass(frozen=True)
class Stats:
    """How the run of this process goes. Sizes are those of all its processes together.

    Attributes
    ----------
    ram_bytes : int
        The budget.
    used_bytes : int
        What counts towards it: memory of the processes, the pool, and uswap's own.
    resident_bytes : int
        Memory of the processes that is in RAM.
    pool_bytes : int
        Compressed pages in RAM.
    pool_bytes_max : int
        What the pool may take now.
    swap_file_bytes : int
        What the swap files hold.
    counters : Mapping[str, int]
        Every counter of the run, by its name in docs/METRICS.md.
    """

    ram_bytes: int
    used_bytes: int
    resident_bytes: int
    pool_bytes: int
    pool_bytes_max: int
    swap_file_bytes: int
    counters: Mapping[str, int] = field(repr=False, hash=False)

    def __str__(self) -> str:
        """Write a line for each size."""
        return _table.text(self._rows())

    def _repr_html_(self) -> str:
        """Write a table, for notebooks."""
        return _table.html(self._rows())

    def _rows(self) -> list[_table.Row]:
        return [
            ("budget", human(self.ram_bytes), ""),
            ("used", human(self.used_bytes), self.used_note()),
            ("resident", human(self.resident_bytes), ""),
            ("pool", human(self.pool_bytes), f"at most {human(self.pool_bytes_max)} now"),
            ("swap file", human(self.swap_file_bytes), ""),
        ]

    def used_note(self) -> str:
        """Say how much of the budget is used, in words."""
        used_percent = (self.used_bytes * 100 + self.ram_bytes // 2) // self.ram_bytes if self.ram_bytes else 0
        return f"{used_percent} % of the budget"
