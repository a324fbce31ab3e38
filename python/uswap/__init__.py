"""A budget of RAM for the Python process that asks for it: swap in user space, without root.

>>> import uswap
>>> uswap.limit("4G")  # doctest: +SKIP

From there on this process and its children stay within 4 GiB. Cold pages are compressed in RAM, and the coldest go to
an encrypted swap file. In a notebook, ``%load_ext uswap`` gives the magic ``%uswap 4G``.

Arrays alone may be larger than RAM, too, in a process that is otherwise left as it is:

>>> import numpy as np
>>> with uswap.pool("2G"):  # doctest: +SKIP
...     table = np.random.rand(40_000, 40_000)
>>> uswap.advise(table, "cold")  # doctest: +SKIP
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from uswap._budget import is_limited, limit, release, stats
from uswap._errors import (
    AlreadyLimitedError,
    CommandError,
    CommandNotFoundError,
    Error,
    NoStatsError,
    NotLimitedError,
    NotManagedError,
    RefusedError,
    ReleasedError,
    UnmanageableError,
)
from uswap._memory import Pool, advise, empty, full, pool, zeros
from uswap._native import __version__
from uswap._stats import Stats
from uswap._top import Top, top

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = [
    "AlreadyLimitedError",
    "CommandError",
    "CommandNotFoundError",
    "Error",
    "NoStatsError",
    "NotLimitedError",
    "NotManagedError",
    "Pool",
    "RefusedError",
    "ReleasedError",
    "Stats",
    "Top",
    "UnmanageableError",
    "__version__",
    "advise",
    "empty",
    "full",
    "is_limited",
    "limit",
    "pool",
    "release",
    "stats",
    "top",
    "zeros",
]


def load_ipython_extension(ipython: InteractiveShell) -> None:
    """Give IPython the magic ``%uswap``. It calls this for ``%load_ext uswap``."""
    from uswap._magic import register

    register(ipython)
