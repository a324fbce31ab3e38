"""The magic ``%uswap`` of IPython and Jupyter."""

from __future__ import annotations

import shlex
from typing import NoReturn

from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

from uswap._budget import limit, release, stats
from uswap._errors import Error, NotLimitedError
from uswap._stats import Stats

_USAGE = "write '%uswap 4G [--swap DIR] [--pool SHARE] [--on-full RULE]', '%uswap' or '%uswap off'"
_OPTIONS = ("--swap", "--pool", "--on-full")


def register(ipython: InteractiveShell) -> None:
    """Make ``%uswap`` known."""
    ipython.magics_manager.register_function(uswap, "line", "uswap")


def uswap(line: str) -> Stats | None:
    """Keep this notebook within a budget of RAM, or show how that goes.

    ``%uswap 4G``
        From now on this process and its children stay within 4 GiB. Call it in the first cell.
        ``--swap DIR[:SIZE]``: directory of the swap file; it may be given several times.
        ``--pool SHARE``: largest part of the budget that compressed pages may take, as 30%.
        ``--on-full RULE``: grow, stop or kill, when pool and swap file are full.
    ``%uswap``
        Shows what is used.
    ``%uswap off``
        Brings all memory home, and gives the budget up.
    """
    try:
        words = shlex.split(line)
        if not words:
            return _show()
        if words == ["off"]:
            release()
            print("uswap: this process has no budget any more. To get one again, restart it.")
            return None
        print(f"uswap: this process and its children stay within {_limit(words)}. %uswap shows how it goes.")
        return None
    except (Error, ValueError) as error:
        _refuse(str(error))


def _show() -> Stats | None:
    try:
        return stats()
    except NotLimitedError:
        print("uswap: this process has not asked for a budget: '%uswap 4G' does.")
        return None


def _limit(words: list[str]) -> str:
    """Do it. Return the size."""
    ram: str | None = None
    given: dict[str, list[str]] = {option: [] for option in _OPTIONS}
    left = iter(words)
    for word in left:
        option, equals, value = word.partition("=")
        if option in given:
            given[option].append(value if equals else _value_of(option, next(left, None)))
        elif ram is None and not word.startswith("-"):
            ram = word
        else:
            _refuse(f"'{word}' is not expected here: {_USAGE}")
    if ram is None:
        _refuse(f"no size is given: {_USAGE}")
    for option in ("--pool", "--on-full"):
        if len(given[option]) > 1:
            _refuse(f"{option} is given twice: give it once")
    limit(
        ram,
        swap=given["--swap"] or None,
        pool=next(iter(given["--pool"]), None),
        on_full=next(iter(given["--on-full"]), None),
    )
    return ram


def _value_of(option: str, value: str | None) -> str:
    return value if value is not None else _refuse(f"{option} needs a value: {_USAGE}")


def _refuse(what: str) -> NoReturn:
    # IPython shows the text of this one, and no traceback.
    raise UsageError(what) from None
