"""The notebook of the examples, in a small form."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PATIENCE_S

for needed in ("pandas", "matplotlib", "nbconvert", "ipykernel"):
    pytest.importorskip(needed)

NOTEBOOK = Path(__file__).parents[2] / "examples" / "notebooks" / "larger_than_ram.ipynb"


def execute(directory: Path, with_uswap: bool) -> tuple[list[str], list[str]]:
    """Return what the cells say that need no uswap, and what those say that need it."""
    notebook = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    is_of_uswap = [cell["metadata"].get("tags") == ["uswap"] for cell in notebook["cells"]]
    if not with_uswap:
        notebook["cells"] = [cell for cell, its in zip(notebook["cells"], is_of_uswap) if not its]
    notebook["cells"][1]["source"] = ["mebibytes, ram = 384, '192M'"]
    directory.mkdir()
    (directory / "in.ipynb").write_text(json.dumps(notebook))
    words = [sys.executable, "-m", "nbconvert", "--to", "notebook", "--execute", "in.ipynb", "--output", "out.ipynb"]
    done = subprocess.run(words, cwd=directory, capture_output=True, text=True, check=False, timeout=2 * PATIENCE_S)
    assert done.returncode == 0, done.stderr
    said: dict[bool, list[str]] = {False: [], True: []}
    for cell in json.loads((directory / "out.ipynb").read_text())["cells"]:
        # On the standard error the run may say that it waits.
        for output in (output for output in cell.get("outputs", []) if output.get("name") != "stderr"):
            text = output.get("text") or output["data"].get("text/html") or output["data"]["text/plain"]
            said[cell["metadata"].get("tags") == ["uswap"]].append("".join(text))
    return said[False], said[True]


def test_the_notebook_says_the_same_within_a_budget(tmp_path: Path) -> None:
    within, of_uswap = execute(tmp_path / "within", with_uswap=True)
    without, nothing = execute(tmp_path / "without", with_uswap=False)
    assert within == without and len(within) >= 4
    assert "12,000,000 orders, 366 MiB" in within[0], within[0]
    assert "stay within 192M" in of_uswap[0] and of_uswap[-1].startswith("<table>")
    assert nothing == []
