"""A process keeps its content, and stays within its budget."""

from __future__ import annotations

from conftest import Python

# Content that compresses somewhat, and is known from its number: half of each page is noise.
CONTENT = """
    import os, random, uswap

    BLOCK = 1 << 16

    def block(number):
        noise = random.Random(number).randbytes(BLOCK // 32)
        return (noise + bytes([number % 251]) * (BLOCK // 32)) * 16

    def own_bytes():
        "What is resident and is no file or shared memory."
        _, resident, shared, *_ = map(int, open("/proc/self/statm").read().split())
        return (resident - shared) * os.sysconf("SC_PAGESIZE")
"""


def test_a_bytearray_of_four_times_the_budget_keeps_its_content(python: Python) -> None:
    python(
        CONTENT
        + """
    uswap.limit("64M")
    count = (256 << 20) // BLOCK
    content = bytearray(256 << 20)
    most = 0
    for number in range(count):
        content[number * BLOCK : (number + 1) * BLOCK] = block(number)
        most = max(most, own_bytes())
    for number in range(count):
        assert content[number * BLOCK : (number + 1) * BLOCK] == block(number), number
        most = max(most, own_bytes())
    stats = uswap.stats()
    assert most <= 64 << 20, most
    assert stats.ram_bytes == 64 << 20
    assert stats.used_bytes <= stats.ram_bytes * 1.05, stats
    assert stats.pool_bytes + stats.swap_file_bytes > 64 << 20, stats
    """
    )


def test_what_was_there_before_is_managed_too(python: Python) -> None:
    python(
        CONTENT
        + """
    blocks = [block(number) for number in range((128 << 20) // BLOCK)]
    assert own_bytes() > 128 << 20
    uswap.limit(32 << 20)
    while own_bytes() > 32 << 20:
        pass
    assert all(content == block(number) for number, content in enumerate(blocks))
    assert own_bytes() <= 32 << 20, own_bytes()
    """
    )


def test_a_list_of_small_objects_keeps_its_content(python: Python) -> None:
    python(
        CONTENT
        + """
    uswap.limit("64M")
    texts = [f"text {number} " * 8 for number in range(2_000_000)]
    assert own_bytes() <= 64 << 20, own_bytes()
    assert all(text == f"text {number} " * 8 for number, text in enumerate(texts))
    assert own_bytes() <= 64 << 20, own_bytes()
    """
    )


def test_numpy_computes_the_same(python: Python) -> None:
    text = """
    import sys
    try:
        import numpy
    except ImportError:
        sys.exit("none")
    import uswap
    if sys.argv[1] == "within":
        uswap.limit("64M")
    values = numpy.random.default_rng(7).random(8 << 20)
    values.sort()
    print(values.sum(), values[::100_000].tolist())
    """
    assert python(text, "within").stdout == python(text, "without").stdout != ""


def test_release_brings_everything_home(python: Python) -> None:
    python(
        CONTENT
        + """
    uswap.limit("32M")
    assert uswap.is_limited()
    blocks = [block(number) for number in range((96 << 20) // BLOCK)]
    assert own_bytes() <= 32 << 20
    uswap.release()
    assert not uswap.is_limited()
    assert own_bytes() > 96 << 20
    assert all(content == block(number) for number, content in enumerate(blocks))
    """
    )


def test_a_report_is_written_to_a_file_and_options_are_heard(python: Python) -> None:
    python(
        """
    import json, pathlib, time, uswap
    pathlib.Path("swap").mkdir()
    uswap.limit("64M", swap=[pathlib.Path("swap"), "/var/tmp:1G:5"], pool=0.25, on_full="kill", report="report.json")
    content = bytearray(b"abcdefgh" * (24 << 20))
    assert uswap.stats().pool_bytes_max <= 16 << 20
    uswap.release()
    # The run has ended when nobody is in it.
    text = ""
    while not text.strip().endswith("}"):
        time.sleep(0.1)
        text = pathlib.Path("report.json").read_text()
    print(json.loads(text))
    """
    )
