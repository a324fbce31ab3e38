"""``%uswap`` in IPython."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Python, execute_cells

pytest.importorskip("IPython")

# Runs cells, and shows what each has printed and answered.
CELLS = """
    import contextlib, io, json, os, sys

    os.environ["IPYTHONDIR"] = os.getcwd()
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    said = []
    for cell in json.loads(sys.argv[1]):
        out = io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            answer = shell.run_cell(cell).result
        said.append([out.getvalue(), None if answer is None else str(answer)])
    print(json.dumps(said))
"""


def cells(python: Python, *lines: str) -> list[tuple[str, str | None]]:
    """Run these cells after `%load_ext uswap`."""
    done = python(CELLS, json.dumps(["%load_ext uswap", *lines]))
    (loaded, _), *rest = json.loads(done.stdout)
    assert loaded == ""
    return [(printed, answer) for printed, answer in rest]


def test_the_magic_limits_shows_and_releases(python: Python) -> None:
    before, limited, kept, shown, off, after = cells(
        python,
        "%uswap",
        "%uswap 64M --swap /var/tmp:1G --pool=30%",
        "content = bytearray(b'x' * (128 << 20)); content.count(b'x')",
        "%uswap",
        "%uswap off",
        "content.count(b'x')",
    )
    assert "has not asked for a budget" in before[0] and before[1] is None
    assert limited == ("uswap: this process and its children stay within 64M. %uswap shows how it goes.\n", None)
    assert shown[1] is not None and shown[1].split("\n")[0].split() == ["budget", "64", "MiB"]
    assert kept[1] == after[1] == str(128 << 20)
    assert "no budget any more" in off[0]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%uswap 4X", "'X' in '4X' is not a unit"),
        ("%uswap 64M 65M", "'65M' is not expected here"),
        ("%uswap 64M --nonsense", "'--nonsense' is not expected here"),
        ("%uswap --pool 30%", "no size is given"),
        ("%uswap 64M --swap", "--swap needs a value"),
        ("%uswap 64M --pool 10% --pool 20%", "--pool is given twice"),
        ("%uswap 64M --swap '/no/such dir'", "/no/such dir"),
        ("%uswap 64M '", "quotation"),
        ("%uswap off", "has not asked for a budget"),
        ("%uswap off now", "'now' is not expected here"),
    ],
)
def test_mistakes_are_told_without_a_traceback(python: Python, line: str, said: str) -> None:
    [(printed, answer)] = cells(python, line)
    assert answer is None
    assert printed.startswith("UsageError: ") and said in printed, printed
    assert "Traceback" not in printed and len(printed.splitlines()) == 1


def test_the_magic_has_a_help_text(python: Python) -> None:
    [(printed, _)] = cells(python, "print(get_ipython().find_line_magic('uswap').__doc__)")
    assert "%uswap off" in printed


def test_the_magic_works_in_a_jupyter_kernel(tmp_path: Path) -> None:
    pytest.importorskip("ipykernel")
    _, limited, counted, shown, ended_by, counted_again, mistake = execute_cells(
        "python3",
        None,
        tmp_path,
        [
            "%load_ext uswap",
            "%uswap 128M",
            "content = bytearray(b'x' * (384 << 20)); print(content.count(b'x'))",
            "%uswap",
            "!interrupt",
            "print(content.count(b'x'))",
            """
            import uswap
            try:
                uswap.limit("128M")
            except uswap.AlreadyLimitedError as error:
                print(error)
            """,
        ],
    )
    assert "stay within 128M" in limited
    assert counted == counted_again == f"{384 << 20}\n"
    assert shown.startswith("<table>") and "128 MiB" in shown
    assert ended_by == "KeyboardInterrupt"
    assert "has a budget already" in mistake
