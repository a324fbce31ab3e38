"""The notebook of the examples, in a small form; with USWAP_TEST_FULL=1 in its own size."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import PATIENCE_S

for needed in ("pandas", "matplotlib", "nbconvert", "ipykernel"):
    pytest.importorskip(needed)

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebooks" / "larger_than_ram.ipynb"
NOBODY = 65534
IS_FULL = os.environ.get("USWAP_TEST_FULL") == "1"


def execute(
    directory: Path,
    with_uswap: bool,
    size: tuple[int, str],
    starts: list[str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Execute it with a table of so many MiB, and so much RAM, started by these words."""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    if not with_uswap:
        notebook["cells"] = [cell for cell in notebook["cells"] if cell["metadata"].get("tags") != ["uswap"]]
    notebook["cells"][1]["source"] = [f"mebibytes, ram = {size[0]}, '{size[1]}'"]
    (directory / "in.ipynb").write_text(json.dumps(notebook))
    words = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "in.ipynb", "--output", "out.ipynb"]
    return subprocess.run(
        [*(starts or []), *words],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=(20 if IS_FULL else 2) * PATIENCE_S,
    )


def said(directory: Path) -> tuple[list[str], list[str]]:
    """Return what the cells say that need no uswap, and what those say that need it."""
    texts: dict[bool, list[str]] = {False: [], True: []}
    for cell in json.loads((directory / "out.ipynb").read_text())["cells"]:
        # On the standard error the run may say that it waits.
        for output in (output for output in cell.get("outputs", []) if output.get("name") != "stderr"):
            text = output.get("text") or output["data"].get("text/html") or output["data"]["text/plain"]
            texts[cell["metadata"].get("tags") == ["uswap"]].append("".join(text))
    return texts[False], texts[True]


@contextlib.contextmanager
def memory_group(limit_bytes: int) -> Iterator[list[str]]:
    """A memory cgroup with this limit and without swap: words that start a program in it, as nobody."""
    versions = [
        ("/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.memsw.limit_in_bytes"),
        ("/sys/fs/cgroup", "memory.max", "memory.swap.max"),
    ]
    for root, limit, swap in versions:
        group = Path(root) / f"uswap-notebook-{os.getpid()}"
        with contextlib.suppress(OSError):
            group.mkdir()
        if not group.exists():
            continue
        try:
            if not (group / limit).exists():
                continue
            (group / limit).write_text(str(limit_bytes))
            with contextlib.suppress(OSError):
                (group / swap).write_text("0" if swap == "memory.swap.max" else str(limit_bytes))
            enter = f'echo $$ > {group}/cgroup.procs && exec setpriv --reuid=65534 --regid=65534 --clear-groups "$@"'
            yield ["sh", "-c", enter, "sh"]
            return
        finally:
            # Who has just ended is in it for a moment.
            for _ in range(100):
                with contextlib.suppress(OSError):
                    group.rmdir()
                    break
                time.sleep(0.05)
    pytest.skip("no memory cgroup may be made here")


@contextlib.contextmanager
def directory_of_nobody() -> Iterator[Path]:
    """A directory that nobody may write to."""
    directory = Path(tempfile.mkdtemp(dir="/var/tmp"))
    os.chown(directory, NOBODY, NOBODY)
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


def test_the_notebook_says_the_same_within_a_budget(tmp_path: Path) -> None:
    texts = []
    for with_uswap in (True, False):
        directory = tmp_path / f"uswap-{with_uswap}"
        directory.mkdir()
        done = execute(directory, with_uswap, (384, "192M"))
        assert done.returncode == 0, done.stderr
        texts.append(said(directory))
    (within, of_uswap), (without, nothing) = texts
    assert within == without and len(within) >= 4
    assert "12,000,000 orders, 366 MiB" in within[0], within[0]
    assert "stay within 192M" in of_uswap[0] and of_uswap[-1].startswith("<table>")
    assert nothing == []


def test_under_a_memory_limit_it_dies_without_a_budget_and_finishes_with_one() -> None:
    if os.geteuid() != 0:
        pytest.skip("a memory cgroup needs root")
    size, limit_mib = ((2048, "384M"), 512) if IS_FULL else ((768, "192M"), 352)
    seen = {}
    for with_uswap in (False, True):
        with memory_group(limit_mib << 20) as starts, directory_of_nobody() as directory:
            starts = ["env", f"HOME={directory}", f"TMPDIR={directory}", *starts]
            done = execute(directory, with_uswap, size, starts)
            if not with_uswap:
                assert done.returncode != 0 and "died" in done.stderr, done.stderr
                continue
            assert done.returncode == 0, done.stderr
            seen["within"], _ = said(directory)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as directory:
        done = execute(Path(directory), False, size)
        assert done.returncode == 0, done.stderr
        seen["without"], _ = said(Path(directory))
    assert seen["within"] == seen["without"] and len(seen["within"]) >= 4
