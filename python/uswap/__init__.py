"""A budget of RAM for the Python process that asks for it: swap in user space, without root.

>>> import uswap
>>> uswap.limit("4G")  # doctest: +SKIP

From there on this process and its children stay within 4 GiB. Cold pages are compressed in RAM, and the coldest go to
an encrypted swap file. In a notebook, ``%load_ext uswap`` gives the magic ``%uswap 4G``.
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
    RefusedError,
    ReleasedError,
    UnmanageableError,
)
from uswap._native import __version__
from uswap._stats import Stats

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = [
    "AlreadyLimitedError",
    "CommandError",
    "CommandNotFoundError",
    "Error",
    "NoStatsError",
    "NotLimitedError",
    "RefusedError",
    "ReleasedError",
    "Stats",
    "UnmanageableError",
    "__version__",
    "is_limited",
    "limit",
    "release",
    "stats",
]


def load_ipython_extension(ipython: InteractiveShell) -> None:
    """Give IPython the magic ``%uswap``. It calls this for ``%load_ext uswap``."""
    from uswap._magic import register

    register(ipython)
