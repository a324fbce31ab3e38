"""Arrays in managed memory: their content is right, and RAM stays near the budget."""

from __future__ import annotations

import pytest
from arrays import ARRAYS
from conftest import Python

pytest.importorskip("numpy")

BUDGETS = {
    "pool": ('uswap.pool("96M")', None),
    "limit": ('uswap.limit("96M")', None),
    "run": ("uswap.pool()", "96M"),
    "run without a pool": ("pass", "96M"),
}


@pytest.mark.parametrize("kind", BUDGETS)
def test_an_array_of_four_times_the_budget_keeps_its_content(python: Python, kind: str) -> None:
    line, within = BUDGETS[kind]
    python(
        ARRAYS
        + f"""
    {line}
    table = uswap.empty((384, ROW), "u4")
    most = 0
    for number in range(len(table)):
        table[number] = row(number)
        most = max(most, vm_rss_bytes())
    for number in range(len(table)):
        assert (table[number] == row(number)).all(), number
        most = max(most, vm_rss_bytes())
    assert handler(table) == "uswap"
    # Files that are mapped, such as numpy itself, and what is shared with the run come on top.
    assert most <= 96 * MIB + 64 * MIB, most / MIB
    stats = uswap.stats()
    assert stats.ram_bytes == 96 * MIB
    assert stats.used_bytes <= stats.ram_bytes * 1.05, stats
    assert stats.pool_bytes + stats.swap_file_bytes > 64 * MIB, stats
    del table
    assert vm_rss_bytes() < 96 * MIB
    """,
        within=within,
    )


def test_what_numpy_makes_in_a_pool_is_managed(python: Python) -> None:
    python(
        ARRAYS
        + """
    most = 0
    with uswap.pool("96M") as memory:
        table = np.arange(24 * MIB, dtype="f8")
        roots = np.sqrt(table)
        kinds = [table, roots, table[::2].copy(), np.zeros(MIB), np.stack([roots[:MIB], roots[-MIB:]])]
        assert [handler(array) for array in kinds] == ["uswap"] * 5
        total = (roots * roots - table).max()
        assert memory.stats().used_bytes <= 101 * MIB
    assert abs(total) < 1e-6, total
    assert vm_rss_bytes() <= 160 * MIB, vm_rss_bytes() / MIB
    assert (roots[:: 64 * 1024] == np.sqrt(np.arange(0, 24 * MIB, 64 * 1024, dtype="f8"))).all()
    """
    )


def test_arrays_are_plain(python: Python) -> None:
    python(
        ARRAYS
        + """
    uswap.pool("96M")
    for order in "CF":
        for shape in (MIB, (512, 1024), [64, 64, 64], 3, (), (0, 7)):
            for made, plain in (
                (uswap.zeros(shape, "f4", order), np.zeros(shape, "f4", order)),
                (uswap.full(shape, 7, "i8", order=order), np.full(shape, 7, "i8", order=order)),
                (uswap.full(shape, 2.5, order=order), np.full(shape, 2.5, order=order)),
                (uswap.empty(shape, order=order), np.empty(shape, order=order)),
            ):
                assert type(made) is np.ndarray
                assert made.dtype == plain.dtype and made.shape == plain.shape and made.strides == plain.strides
                assert made.flags.writeable and made.flags.owndata and made.flags.aligned
                assert handler(made) == "uswap"
                made.fill(1)
                assert made.sum() == made.size
    # Zeros take no memory before they are touched.
    before = vm_rss_bytes()
    zeros = uswap.zeros((1 << 30,), "u1")
    assert vm_rss_bytes() < before + 16 * MIB
    assert not zeros[:: 64 * MIB].any()
    # Small ones are zeros where others have been.
    for size in (500, 5000, 50_000):
        used = [uswap.full(size, 7, "u1") for _ in range(64)]
        del used
        assert not any(uswap.zeros(size, "u1").any() for _ in range(64))
    texts = uswap.full(MIB, "text", object)
    assert texts[-1] == "text" and handler(np.empty(MIB)) == "default_allocator"
    """
    )


def test_resize_keeps_content_over_and_under_the_size_of_a_large_block(python: Python) -> None:
    python(
        ARRAYS
        + """
    memory = uswap.pool("96M")
    items = 300
    array = uswap.empty(items, "u4")
    array[:] = np.arange(items)
    for new in (1000, 65_535, 65_536, 65_537, 40 * MIB, 1_000_001, 70_000, 65_536, 65_535, 1000, 100_000, 10, 200_000):
        array.resize(new, refcheck=False)
        kept = min(items, new)
        assert (array[:kept] == np.arange(kept)).all(), (items, new)
        assert not array[kept:].any(), (items, new)
        array[:] = np.arange(new)
        items = new
    with memory:
        # numpy finds out by and by how many there are.
        counted = np.fromiter((number for number in range(500_000)), "i8")
        assert handler(counted) == "uswap"
    assert (counted == np.arange(500_000)).all()
    """
    )


def test_computing_is_the_same_as_without(python: Python) -> None:
    text = (
        ARRAYS
        + """
    import contextlib, pickle, sys, zlib
    rng = np.random.default_rng(7)
    context = uswap.pool("64M") if sys.argv[1] == "within" else contextlib.nullcontext()
    def show(what, array):
        print(what, array.shape, array.dtype, zlib.crc32(np.ascontiguousarray(array)))
    with context:
        values = rng.integers(0, 1 << 20, 8 << 20, dtype="u8") / 1024
        show("values", values)
        show("reversed", values[::-1][: 4 << 20])
        places = rng.integers(0, len(values), 1 << 15)
        show("fancy", values[places])
        values[places] = 0.5
        show("random writes", values)
        show("mask", values[values > 1000])
        table = values.reshape(2048, 4096)
        show("transposed", table.T.copy())
        show("column sums", table.sum(axis=0))
        table[100:200] = table[300:400].copy()
        values.sort()
        show("sorted", values)
        loaded = pickle.loads(pickle.dumps(values[: 2 << 20]))
        show("pickled", loaded)
        buffers = []
        packed = pickle.dumps(values, protocol=5, buffer_callback=buffers.append)
        show("pickled out of band", pickle.loads(packed, buffers=buffers))
        show("concatenated", np.concatenate([values[:1000], loaded]))
    """
    )
    assert python(text, "within").stdout == python(text, "without").stdout != ""


def test_forked_processes_read_and_write_their_own(python: Python) -> None:
    python(
        ARRAYS
        + """
    import multiprocessing

    uswap.pool("96M")
    table = uswap.empty((160, ROW), "u4")

    def work(part):
        right = all((table[number] == row(number)).all() for number in range(part, len(table), 4))
        table[part] = 0
        own = uswap.full((32, ROW), part, "u4")
        return right and not table[part].any() and int(own.sum()) == own.size * part

    fill(table)
    with multiprocessing.get_context("fork").Pool(2) as workers:
        assert workers.map(work, range(4)) == [True] * 4
    assert is_right(table)
    """
    )


def test_threads_share_an_array(python: Python) -> None:
    python(
        ARRAYS
        + """
    import contextvars
    from concurrent.futures import ThreadPoolExecutor

    memory = uswap.pool("96M")
    table = uswap.empty((192, ROW), "u4")

    def work(number):
        table[number] = row(number)
        with memory:
            copy = table[number].copy()
        assert handler(copy) == "uswap"
        return bool((copy == row(number)).all()), handler(np.empty(MIB))

    with ThreadPoolExecutor(4) as threads:
        answers = set(threads.map(work, range(len(table))))
        assert answers == {(True, "default_allocator")}, answers
        with memory:
            inherited = threads.submit(contextvars.copy_context().run, lambda: handler(np.empty(MIB)))
            assert inherited.result() == "uswap"
        asks = [threads.submit(uswap.stats) for _ in range(4)] + [threads.submit(uswap.zeros, MIB) for _ in range(64)]
        assert all(ask.result() is not None for ask in asks)
    assert is_right(table)
    """
    )


@pytest.mark.parametrize(
    ("library", "lines"),
    [
        ("pandas", "other = library.Series(array, copy=False); other[5] = 9; total = other.sum()"),
        ("pyarrow", "other = library.array(array); total = library.compute.sum(other).as_py()"),
        ("torch", "other = library.from_numpy(array); other[5] = 9; total = other.sum().item()"),
    ],
)
def test_others_take_such_arrays(python: Python, library: str, lines: str) -> None:
    pytest.importorskip(library)
    python(
        ARRAYS
        + f"""
    import importlib
    library = importlib.import_module("{library}")
    if "{library}" == "pyarrow":
        import pyarrow.compute
    uswap.pool("256M")
    array = uswap.zeros(16 * MIB, "i8")
    array[:] = np.arange(len(array))
    {lines}
    changed = 4 if "{library}" != "pyarrow" else 0
    assert total == len(array) * (len(array) - 1) // 2 + changed, total
    del array
    assert other is not None and uswap.stats().used_bytes <= 269 * MIB
    """
    )
