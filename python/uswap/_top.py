"""How a run goes, with the counters that say why it is slow."""

from __future__ import annotations

from dataclasses import dataclass

from uswap import _table
from uswap._budget import stats
from uswap._sizes import human
from uswap._stats import Stats

_PAGE_BYTES = 4096


@dataclass(frozen=True, repr=False)
class Top:
    """How the run of this process went at one moment. It is shown as a table.

    Attributes
    ----------
    stats : Stats
        The numbers that it is made of.
    """

    stats: Stats

    def __repr__(self) -> str:
        """Write a line for each row."""
        return _table.text(self._rows())

    def _repr_html_(self) -> str:
        """Write a table, for notebooks."""
        return _table.html(self._rows())

    def _rows(self) -> list[_table.Row]:
        def pages(name: str) -> str:
            return human(self.stats.counters.get(name, 0) * _PAGE_BYTES)

        stalled_s = self.stats.counters.get("stall_ns", 0) / 1e9
        rows = [
            ("RAM budget", human(self.stats.ram_bytes), ""),
            ("used", human(self.stats.used_bytes), self.stats.used_note()),
            ("resident", human(self.stats.resident_bytes), "memory of the processes that is in RAM"),
            (
                "pool",
                human(self.stats.pool_bytes),
                f"compressed pages in RAM, at most {human(self.stats.pool_bytes_max)} now",
            ),
            ("swap file", human(self.stats.swap_file_bytes), "what it holds"),
            ("compressed", pages("zswpout"), "went into the pool until now"),
            ("written", human(self.stats.counters.get("written_bytes", 0)), "to the swap file until now"),
            ("read", pages("pswpin"), "from the swap file until now: major faults"),
            ("read ahead", pages("swap_ra"), "brought before it was asked for"),
            ("stalled", f"{stalled_s:.1f} s", "time that threads took for their faults"),
        ]
        over = self.stats.counters.get("over_budget", 0)
        if over:
            rows.append(("over budget", str(over), "faults for which nothing could be evicted: give it more RAM"))
        lost = self.stats.counters.get("lost_pages", 0)
        if lost:
            rows.append(("lost", str(lost), "pages that could not be read back: look at the disk"))
        return rows


def top() -> Top:
    """Tell how the run of this process goes, as a table.

    Returns
    -------
    Top
        Sizes, and the counters that say what memory costs. The last line of a cell of a notebook shows it.

    Raises
    ------
    NotLimitedError
        The process has neither a budget nor a pool.
    NoStatsError
        The run does not answer.

    Examples
    --------
    >>> import uswap
    >>> uswap.top()  # doctest: +SKIP
    RAM budget   64 MiB
    used         63 MiB  98 % of the budget
    ...
    """
    return Top(stats())
