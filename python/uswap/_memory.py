"""Memory that is managed by name: pools, arrays in managed memory, and advice.

numpy is imported when an array is made, and not before.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, Union

from uswap import _budget, _command, _native
from uswap._errors import AlreadyLimitedError, NotLimitedError
from uswap._stats import Stats

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    # Python 3.9 knows no "X | Y" outside of annotations.
    Shape = Union[SupportsIndex, Sequence[SupportsIndex]]

Order = Literal["C", "F"]
Advice = Literal["cold", "pageout", "willneed", "dead", "pin", "unpin"]

# The handlers that the pools of this context have replaced, the last one last. It goes with the context, as numpy's
# handler does: another thread or task may be inside of the same pool.
_replaced: ContextVar[tuple[object, ...]] = ContextVar("uswap_replaced", default=())


class Pool:
    """Managed memory for numpy, as `uswap.pool` gives it.

    In a ``with`` block new arrays of numpy live in it, temporaries too. It may be entered again, also while it is
    entered, and by several threads and tasks. Arrays outlive it: their memory is given back with them.
    """

    __slots__ = ()

    def __enter__(self) -> Pool:
        """Make new arrays of this thread or task in managed memory, from now on.

        Raises
        ------
        ImportError
            There is no numpy, or one older than 1.22.
        """
        before = _native.use_managed()
        _replaced.set((*_replaced.get(), before))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Make new arrays where they were made before."""
        *rest, before = _replaced.get()
        _replaced.set(tuple(rest))
        _native.use_handler(before)

    def stats(self) -> Stats:
        """Tell how the run goes that the pool is of: that of the process.

        Raises
        ------
        NotLimitedError
            The budget was given up.
        NoStatsError
            The run does not answer.
        """
        return _budget.stats()

    def __repr__(self) -> str:
        """Name it."""
        return "<uswap.Pool>"


def pool(
    ram: str | SupportsIndex | None = None,
    dir: _budget.Path | Sequence[_budget.Path] | None = None,
    *,
    pool: str | float | None = None,
    on_full: str | None = None,
    report: _budget.Path | None = None,
) -> Pool:
    """Make managed memory for arrays that may be larger than RAM; the rest of the process is left alone.

    Used by ``with`` it holds whatever arrays numpy makes inside, as far as their data takes 256 KiB or more. Smaller
    ones are made as ever. `uswap.empty`, `uswap.zeros` and `uswap.full` need no ``with``.

    The budget is that of the whole process: what lies outside of the pool counts, and cannot be evicted. A process has
    one budget. It is set by the first call, and later ones give the same options, or none.

    Parameters
    ----------
    ram : str or int, optional
        RAM for the process and uswap together, as `uswap.limit` takes it. Without it the pool shares the budget that
        the process has: by an earlier pool, by `uswap.limit`, or because it was started by ``uswap run``.
    dir : path or sequence of paths, optional
        Directory of a swap file, or several: what `uswap.limit` calls ``swap``.
    pool : str or float, optional
        Largest part of the budget that compressed pages may take, as of `uswap.limit`.
    on_full : {"grow", "stop", "kill"}, optional
        What happens when there is no room left, as of `uswap.limit`.
    report : path, optional
        A file that gets a report when the run has ended, as of `uswap.limit`.

    Returns
    -------
    Pool
        A context manager. It may be dropped: what was taken from it lives on.

    Raises
    ------
    NotLimitedError
        No `ram` is given, and the process has no budget.
    AlreadyLimitedError
        The process has a budget with other options, or was started within that of another.
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
    numpy's handler of array memory belongs to the context (`contextvars`). A task of asyncio inherits it. A thread does
    not, unless Python is set so: it enters the pool itself, or is run by `contextvars.copy_context`.

    Examples
    --------
    >>> import numpy as np
    >>> import uswap
    >>> with uswap.pool("2G", "/scratch") as memory:  # doctest: +SKIP
    ...     table = np.random.rand(40_000, 40_000)
    ...     roots = np.sqrt(table)
    >>> memory.stats().resident_bytes  # doctest: +SKIP
    1990197248
    """
    size = None if ram is None else _budget.size_word(ram)
    words = _budget.option_words("dir", dir, pool, on_full, report)
    command = _command.packaged()
    try:
        with _budget.asking:
            _native.pool(size, **words, command=None if command is None else str(command))
    except AlreadyLimitedError as error:
        raise AlreadyLimitedError(f"{error}. uswap.pool() without options shares it") from None
    except NotLimitedError:
        raise _no_budget() from None
    return Pool()


def empty(shape: Shape, dtype: npt.DTypeLike = float, order: Order = "C") -> npt.NDArray[Any]:
    """Make an array in managed memory, as `numpy.empty` makes one.

    Parameters
    ----------
    shape : int or sequence of int
        Shape of the array.
    dtype : data-type, optional
        Type of its items.
    order : {"C", "F"}, optional
        Whether the last index goes fastest, or the first.

    Returns
    -------
    numpy.ndarray
        A plain array. With less than 256 KiB of data it is in ordinary memory.

    Raises
    ------
    NotLimitedError
        The process has neither a budget nor a pool.
    ReleasedError
        It gave its budget up.
    ImportError
        There is no numpy, or one older than 1.22.
    MemoryError
        There is no room in the address space, or in the page tables of the run. The text says why.

    Examples
    --------
    >>> import uswap
    >>> memory = uswap.pool("2G")  # doctest: +SKIP
    >>> table = uswap.empty((200_000, 10_000), "f4")  # doctest: +SKIP
    """
    with _managed() as numpy:
        made: npt.NDArray[Any] = numpy.empty(shape, dtype, order)
        return made


def zeros(shape: Shape, dtype: npt.DTypeLike = float, order: Order = "C") -> npt.NDArray[Any]:
    """Make an array of zeros in managed memory, as `numpy.zeros` makes one.

    It takes no memory before it is touched. Parameters and exceptions are those of `uswap.empty`.

    Examples
    --------
    >>> import uswap
    >>> counts = uswap.zeros(1_000_000_000, "u1")  # doctest: +SKIP
    """
    with _managed() as numpy:
        made: npt.NDArray[Any] = numpy.zeros(shape, dtype, order)
        return made


def full(
    shape: Shape, value: npt.ArrayLike, dtype: npt.DTypeLike | None = None, order: Order = "C"
) -> npt.NDArray[Any]:
    """Make an array of one value in managed memory, as `numpy.full` makes one.

    Parameters
    ----------
    shape : int or sequence of int
        Shape of the array.
    value : scalar or array_like
        What it is filled with.
    dtype : data-type, optional
        Type of its items, by default that of the value.
    order : {"C", "F"}, optional
        Whether the last index goes fastest, or the first.

    Notes
    -----
    Exceptions are those of `uswap.empty`.

    Examples
    --------
    >>> import uswap
    >>> distances = uswap.full((100_000, 20_000), float("inf"), "f4")  # doctest: +SKIP
    """
    with _managed() as numpy:
        made: npt.NDArray[Any] = numpy.full(shape, value, dtype, order)
        return made


def advise(memory: Any, advice: Advice) -> None:
    """Tell what is known of the use of memory.

    Parameters
    ----------
    memory : numpy.ndarray or buffer
        An array, or whatever has a buffer, such as a `bytearray`. It is contiguous, and may be written. A slice of an
        array is about that part of it.
    advice : {"cold", "pageout", "willneed", "dead", "pin", "unpin"}
        ``"cold"``: it is not used soon, and goes before others when memory gets short.
        ``"pageout"``: it is not used soon, and goes now.
        ``"willneed"``: it is used soon, and is brought now, as far as nothing else has to go for it.
        ``"dead"``: its content is not needed any more. Whole pages of it become zeros, and take no memory.
        ``"pin"``: it is brought and stays in RAM. It is not counted how often.
        ``"unpin"``: it may be evicted again.

    Raises
    ------
    ValueError
        There is no such advice, or the memory may not be written, is not contiguous, or has Python objects in it and is
        said to be dead.
    TypeError
        It has no buffer.
    NotLimitedError
        It is to be pinned or unpinned, and the process has neither a budget nor a pool.
    NotManagedError
        It cannot be done: too many ranges are pinned, or the memory is locked. The text says which.

    Notes
    -----
    Advice is about pages of 4 KiB. A page that is shared with a neighbour is pinned and brought with it, and is left
    out of other advice.

    Examples
    --------
    >>> import uswap
    >>> memory = uswap.pool("2G")  # doctest: +SKIP
    >>> table = uswap.zeros((200_000, 10_000), "f4")  # doctest: +SKIP
    >>> uswap.advise(table[:100_000], "cold")  # doctest: +SKIP
    """
    if not isinstance(advice, str):
        raise TypeError(f"advice is of type {type(advice).__name__}: give a str")
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(memory, numpy.ndarray):
        start, count_bytes = _range_of_array(memory, advice)
        _tell(start, count_bytes, advice)
        return
    try:
        view = memoryview(memory)
    except TypeError:
        raise TypeError(
            f"memory is of type {type(memory).__name__}, which has no buffer: give an array or a bytearray"
        ) from None
    with view:
        _refuse_unless(not view.readonly, view.c_contiguous)
        if view.nbytes:
            first = (ctypes.c_char * view.nbytes).from_buffer(view)
            try:
                _tell(ctypes.addressof(first), view.nbytes, advice)
            finally:
                # It holds the buffer.
                del first


def _range_of_array(array: np.ndarray[Any, Any], advice: str) -> tuple[int, int]:
    """Return where an array starts, and its bytes. It has no buffer if its type is one of numpy's own, as dates are."""
    _refuse_unless(array.flags.writeable, array.flags.forc)
    if advice == "dead" and array.dtype.hasobject:
        raise ValueError("memory has references to Python objects: what has them cannot be dead")
    return array.ctypes.data, array.nbytes


def _refuse_unless(is_writable: bool, is_contiguous: bool) -> None:
    if not is_writable:
        raise ValueError("memory is read-only: give an array or a buffer that may be written")
    if not is_contiguous:
        raise ValueError("memory is not contiguous: give whole rows of it, or the array that it is a view of")


def _tell(start: int, count_bytes: int, advice: str) -> None:
    # Only these two ask for the state of the native part. Others take as long as the memory is large.
    with _budget.asking if advice in ("pin", "unpin") else nullcontext():
        _native.advise(start, count_bytes, advice)


@contextmanager
def _managed() -> Iterator[Any]:
    """Import numpy and give it: its arrays are in managed memory until this ends."""
    try:
        with _budget.asking:
            _native.pool(None, swap=[], pool=None, on_full=None, report=None, command=None)
    except NotLimitedError:
        raise _no_budget() from None
    before = _native.use_managed()
    try:
        import numpy

        _native.take_refusal()
        yield numpy
    except MemoryError as error:
        why = _native.take_refusal()
        if why is None:
            raise
        raise MemoryError(f"{error}: {why}") from None
    finally:
        _native.use_handler(before)


def _no_budget() -> NotLimitedError:
    return NotLimitedError(
        "managed memory needs a budget, and this process has none: call uswap.pool('2G') for arrays alone, or "
        "uswap.limit('2G') for the whole process, or start it by 'uswap run --ram 2G -- python ...'"
    )
