"""What the tests share: each of them runs real programs, since a process can get a budget only once."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from uswap import _command

# What a test may take on a machine that does other things too.
PATIENCE_S = 180

Python = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def python(tmp_path: Path) -> Python:
    """Run a text as a Python program in an empty directory; it must end well, unless another code is expected.

    ``within`` is the budget of a ``uswap run`` that it is started by.
    """

    def run(text: str, *words: str, code: int = 0, within: str | None = None) -> subprocess.CompletedProcess[str]:
        program = tmp_path / "program.py"
        program.write_text(textwrap.dedent(text), encoding="utf-8")
        starts = [] if within is None else [str(_command.find()), "run", "--ram", within, "-q", "--"]
        done = subprocess.run(
            [*starts, sys.executable, str(program), *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert done.returncode == code, f"{done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return run


def execute_cells(kernel: str, kernels: Path | None, directory: Path, cells: list[str]) -> list[str]:
    """Execute these cells in a Jupyter kernel, in a directory. Return what each has said."""
    client = Path(__file__).with_name("kernel_client.py")
    done = subprocess.run(
        [sys.executable, str(client), kernel, str(kernels or ""), json.dumps(cells)],
        cwd=directory,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said: list[str] = json.loads(done.stdout)
    return said
