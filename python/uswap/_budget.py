"""The budget of this process: the functions of the package."""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Sequence
from typing import SupportsIndex, TypedDict, Union

from uswap import _command, _native
from uswap._stats import Stats

Path = Union[str, "os.PathLike[str]"]

# One thread at a time asks the native part, and nobody forks meanwhile: a child would inherit its state as locked by a
# thread that it does not have. It can be taken twice by one thread, since the handler of a signal may ask or fork too.
asking = threading.RLock()
os.register_at_fork(before=asking.acquire, after_in_parent=asking.release, after_in_child=asking.release)


def limit(
    ram: str | SupportsIndex,
    *,
    swap: Path | Sequence[Path] | None = None,
    pool: str | float | None = None,
    on_full: str | None = None,
    report: Path | None = None,
) -> None:
    """Keep this process and its children within so much RAM, from now on.

    Pages that were not used lately are compressed in RAM, and what does not fit there goes to an encrypted swap file.
    All that is mapped privately and is not of a file is managed, but for the stacks of threads. Other threads stand
    still for some milliseconds, and no call of theirs ends in another way for it. What the process starts belongs to
    its run. A process can get a budget only once.

    Call it early. What runs already is managed too, but the stacks of threads that run now are not, and a process that
    has an io_uring or uses CUDA cannot be managed any more.

    Parameters
    ----------
    ram : str or int
        RAM for the process, its children and uswap together: a number with K, M, G or T, which are powers of 1024, or
        a number of bytes. 8 MiB at least.
    swap : path or sequence of paths, optional
        Directory of a swap file, or several. As ``"DIR:SIZE:PRIORITY"`` it says how large the file may become, and
        which one is filled first. By default there is one in ``/var/tmp``, of at most 90 % of the free space there and
        at most 64 GiB.
    pool : str or float, optional
        Largest part of the budget that compressed pages may take: ``"30%"`` or ``0.3``. By default the run finds that
        out, again and again.
    on_full : {"grow", "stop", "kill"}, optional
        What happens when pool and swap files are full: go over the budget (the default), stop the process by SIGSTOP
        so that room can be made, or kill it.
    report : path, optional
        A file that gets a report, as JSON, when the run has ended.

    Raises
    ------
    AlreadyLimitedError
        The process has a budget, or was started within that of another.
    ReleasedError
        It had one, and gave it up.
    RefusedError
        A value is wrong, or this system forbids it. It is also a `ValueError`.
    UnmanageableError
        The process does something already that uswap cannot follow.
    CommandError
        The command ``uswap`` was not found or cannot be used.

    Notes
    -----
    When it fails the process is as it was.

    Examples
    --------
    >>> import uswap
    >>> uswap.limit("4G")  # doctest: +SKIP
    >>> uswap.limit("4G", swap="/scratch:50G", on_full="kill")  # doctest: +SKIP
    """
    size = size_word(ram)
    words = option_words("swap", swap, pool, on_full, report)
    command = _command.packaged()
    with asking:
        _native.limit(size, **words, command=None if command is None else str(command))


def release() -> None:
    """Give the budget up: all memory of the process comes back into RAM, and stays there.

    Children that run stay within the budget. The process cannot get another one.

    Raises
    ------
    NotLimitedError
        The process has not asked for a budget itself: it has none, or it was forked by one that has.
    """
    with asking:
        _native.release()


def is_limited() -> bool:
    """Tell whether this process has a budget that it asked for itself, or its parent did before it was forked.

    A program that was started anew within the budget of another knows nothing of it, and gets False.
    """
    with asking:
        return _native.is_limited()


def stats() -> Stats:
    """Tell how the run of this process goes.

    Returns
    -------
    Stats
        Sizes and counters of the run. In a notebook it is shown as a table.

    Raises
    ------
    NotLimitedError
        The process has no budget: neither it nor its parent, before it was forked, asked for one or for a pool, and it
        was not started in a run.
    NoStatsError
        The run does not answer.
    """
    with asking:
        return Stats(**_native.stats())


class OptionWords(TypedDict):
    """What a budget is told beside its size, in the words of the command."""

    swap: list[str]
    pool: str | None
    on_full: str | None
    report: str | None


def option_words(
    swap_name: str,
    swap: Path | Sequence[Path] | None,
    pool: str | float | None,
    on_full: str | None,
    report: Path | None,
) -> OptionWords:
    """Make words of what callers write. `swap_name` is the name that `swap` has for them."""
    return {
        "swap": _places(swap_name, swap),
        "pool": None if pool is None else _share(pool),
        "on_full": None if on_full is None else _text("on_full", on_full),
        "report": None if report is None else _path("report", report),
    }


def size_word(ram: str | SupportsIndex) -> str:
    """Make a word of a size."""
    if isinstance(ram, str):
        return _text("ram", ram)
    try:
        if isinstance(ram, bool):
            raise TypeError
        return str(operator.index(ram))
    except TypeError:
        raise TypeError(f"ram is {_type(ram)}: write it like '4G', or give a whole number of bytes") from None


def _share(pool: str | float) -> str:
    if isinstance(pool, float):
        # The command counts in millionths.
        return f"{pool:.6f}"
    if isinstance(pool, int) and not isinstance(pool, bool):
        return str(pool)
    return _text("pool", pool)


def _places(name: str, swap: Path | Sequence[Path] | None) -> list[str]:
    if swap is None:
        return []
    if isinstance(swap, (str, os.PathLike)):
        return [_path(name, swap)]
    if isinstance(swap, (bytes, bytearray)) or not isinstance(swap, Sequence):
        raise TypeError(f"{name} is {_type(swap)}: give a path, or a list of paths")
    if not swap:
        raise ValueError(f"{name} is an empty list: leave it out to have a swap file in /var/tmp")
    return [_path(name, place) for place in swap]


def _path(name: str, path: Path) -> str:
    return _text(name, os.fspath(path) if isinstance(path, os.PathLike) else path)


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is {_type(value)}: give a str")
    if "\0" in value:
        raise ValueError(f"{name} has a null character in it: {value!r}")
    return value


def _type(value: object) -> str:
    return f"of type {type(value).__name__}"
