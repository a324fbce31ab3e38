"""What goes wrong is said by an exception, and the process goes on."""

from __future__ import annotations

import pytest
from conftest import Python

import uswap

# Runs some lines that fail, shows why, and sees that the process is as it was.
FAILS = """
    import sys, uswap

    try:
        {lines}
    except {error} as error:
        print(error)
    else:
        sys.exit("nothing was wrong")
    content = bytearray(b"x" * (1 << 20))
    assert content.count(b"x") == 1 << 20
"""


@pytest.mark.parametrize(
    ("lines", "error", "said"),
    [
        ('uswap.limit("4X")', "uswap.RefusedError", "'X' in '4X' is not a unit"),
        ('uswap.limit("much")', "ValueError", "256M"),
        ('uswap.limit("")', "uswap.RefusedError", "--ram"),
        ("uswap.limit(64)", "uswap.RefusedError", "did you mean 64M?"),
        ("uswap.limit(0)", "uswap.RefusedError", "8M is the smallest"),
        ("uswap.limit(-5)", "uswap.RefusedError", "-5"),
        ('uswap.limit("1000T")', "uswap.RefusedError", "more RAM than this machine has"),
        ('uswap.limit("64M", swap="/no/such/directory")', "uswap.RefusedError", "/no/such/directory"),
        ('uswap.limit("64M", swap=["/var/tmp", "/no/such"])', "uswap.RefusedError", "/no/such"),
        ('uswap.limit("64M", swap="--json")', "uswap.RefusedError", "--swap"),
        ('uswap.limit("64M", swap="/var/tmp:x")', "uswap.RefusedError", "'/var/tmp:x'"),
        ('uswap.limit("64M", pool="30")', "uswap.RefusedError", "did you mean 30%?"),
        ('uswap.limit("64M", pool=0.99)', "uswap.RefusedError", "between 1% and 90%"),
        ('uswap.limit("64M", on_full="panic")', "uswap.RefusedError", "panic"),
        ('uswap.limit("64M", report="/no/such/report.json")', "uswap.RefusedError", "/no/such/report.json"),
        ("uswap.release()", "uswap.NotLimitedError", "has not asked for a budget"),
        ("uswap.stats()", "uswap.NotLimitedError", "has not asked for a budget"),
    ],
)
def test_what_is_refused_leaves_the_process_as_it_was(python: Python, lines: str, error: str, said: str) -> None:
    done = python(
        FAILS.format(lines=lines, error=error)
        + """
    assert not uswap.is_limited()
    uswap.limit("64M")
    assert uswap.is_limited()
    """
    )
    assert said in done.stdout, done.stdout
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1, done.stdout


@pytest.mark.parametrize(
    ("lines", "error", "said"),
    [
        ("uswap.limit(4.5)", TypeError, "ram is of type float: write it like '4G'"),
        ("uswap.limit(True)", TypeError, "ram is of type bool"),
        ("uswap.limit(None)", TypeError, "ram is of type NoneType"),
        ("uswap.limit()", TypeError, "ram"),
        ('uswap.limit("4G", "/var/tmp")', TypeError, "positional"),
        ('uswap.limit("4G", swap=4)', TypeError, "swap is of type int"),
        ('uswap.limit("4G", swap=b"/var/tmp")', TypeError, "swap is of type bytes"),
        ('uswap.limit("4G", swap=[4])', TypeError, "swap is of type int"),
        ('uswap.limit("4G", swap=[])', ValueError, "empty list"),
        ('uswap.limit("4G", pool=[])', TypeError, "pool is of type list"),
        ('uswap.limit("4G", on_full=1)', TypeError, "on_full is of type int"),
        ('uswap.limit("4G", report=1)', TypeError, "report is of type int"),
        ('uswap.limit("4\\0G")', ValueError, "ram has a null character"),
    ],
)
def test_a_wrong_type_is_named(lines: str, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said.replace("(", r"\(")):
        eval(lines, {"uswap": uswap})
    assert not uswap.is_limited()


def test_twice_is_once_too_often(python: Python) -> None:
    done = python(
        """
    import uswap

    content = bytearray(b"abcdefgh" * (1 << 20))
    uswap.limit("64M")
    for error in (uswap.AlreadyLimitedError, uswap.AlreadyLimitedError):
        try:
            uswap.limit("64M")
        except error as seen:
            print(seen)
    uswap.release()
    try:
        uswap.limit("64M")
    except uswap.ReleasedError as seen:
        print(seen)
    try:
        uswap.release()
    except uswap.NotLimitedError as seen:
        print(seen)
    assert content == b"abcdefgh" * (1 << 20)
    """
    )
    assert [line.split(":")[0] for line in done.stdout.splitlines()] == [
        "this process has a budget already",
        "this process has a budget already",
        "this process had a budget before, and a process can get one only once",
        "this process has not asked for a budget",
    ]


def test_a_process_that_cannot_be_managed_is_told_why(python: Python) -> None:
    done = python(
        """
    import ctypes, uswap

    SYS_IO_SETUP = 206
    ring = ctypes.c_ulong(0)
    assert ctypes.CDLL(None).syscall(SYS_IO_SETUP, 8, ctypes.byref(ring)) == 0
    try:
        uswap.limit("64M")
    except uswap.UnmanageableError as error:
        print(error)
    assert not uswap.is_limited()
    """
    )
    assert "asynchronous I/O" in done.stdout, done.stdout


def test_a_process_outlives_its_run(python: Python) -> None:
    done = python(
        """
    import os, pathlib, signal, uswap

    uswap.limit("64M")
    content = bytearray(b"abcdefgh" * (16 << 20))
    own = f"--pid\\0{os.getpid()}\\0".encode()
    def is_supervisor(process):
        try:
            return own in (process / "cmdline").read_bytes()
        except OSError:
            return False
    [supervisor] = [int(p.name) for p in pathlib.Path("/proc").iterdir() if p.name.isdigit() and is_supervisor(p)]
    os.kill(supervisor, signal.SIGKILL)
    while True:
        try:
            uswap.stats()
        except uswap.NoStatsError as error:
            print(error)
            break
    assert content == b"abcdefgh" * (16 << 20)
    uswap.release()
    assert content == b"abcdefgh" * (16 << 20)
    """
    )
    assert done.stdout.startswith(("no run listens", "there is no process", "the run of process")), done.stdout
    assert "was killed" in done.stderr


def test_errors_are_kinds_of_error() -> None:
    for name in uswap.__all__:
        kind = getattr(uswap, name)
        if name.endswith("Error"):
            assert issubclass(kind, uswap.Error) and issubclass(kind, RuntimeError)
            assert kind.__doc__
    assert issubclass(uswap.RefusedError, ValueError)
    assert issubclass(uswap.CommandNotFoundError, uswap.CommandError)
