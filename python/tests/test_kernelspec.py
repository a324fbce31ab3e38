"""Jupyter kernels within a budget."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PATIENCE_S, execute_cells

pytest.importorskip("ipykernel")


def kernelspec(prefix: Path, *words: str, code: int = 0) -> str:
    """Run `python -m uswap.kernelspec`, which must end with this code. Return what it says."""
    done = subprocess.run(
        [sys.executable, "-m", "uswap.kernelspec", *words, "--prefix", str(prefix)],
        cwd=prefix,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_kernel_is_installed_listed_and_removed(tmp_path: Path) -> None:
    said = kernelspec(tmp_path, "install", "--ram", "64M", "--swap", "/var/tmp:1G", "--pool", "30%")
    directory = tmp_path / "share/jupyter/kernels/python3-uswap-64m"
    assert said == f"installed {directory}\n"
    spec = json.loads((directory / "kernel.json").read_text())
    command, *words = spec["argv"]
    assert Path(command).name == "uswap" and Path(command).is_absolute()
    assert words[:9] == ["run", "--ram", "64M", "--swap", "/var/tmp:1G", "--pool", "30%", "-q", "--"]
    assert words[9:] == [sys.executable, *words[10:]] and words[-2:] == ["-f", "{connection_file}"]
    assert spec["display_name"] == "Python 3 within 64M (uswap)"
    assert spec["language"] == "python"
    assert kernelspec(tmp_path, "list") == f"python3-uswap-64m  64M  {directory}\n"
    # Again, with another size: it is replaced.
    kernelspec(tmp_path, "install", "--ram", "96M", "--name", "python3-uswap-64m", "--display-name", "Small")
    assert json.loads((directory / "kernel.json").read_text())["display_name"] == "Small"
    assert kernelspec(tmp_path, "remove", "python3-uswap-64m") == f"removed {directory}\n"
    assert not directory.exists()
    assert kernelspec(tmp_path, "list") == ""


def test_mistakes_install_nothing(tmp_path: Path) -> None:
    other = tmp_path / "share/jupyter/kernels/other"
    other.mkdir(parents=True)
    (other / "kernel.json").write_text('{"argv": ["true"], "display_name": "Other", "language": "python"}')
    for words, said in (
        (["install", "--ram", "4X"], "'X' in '4X' is not a unit"),
        (["install", "--ram", "64M", "--pool", "30"], "did you mean 30%?"),
        (["install", "--ram", "64M", "--name", "a b"], "is no name of a kernel"),
        (["install", "--ram", "64M", "--name", "other"], "is none of uswap"),
        (["remove", "other"], "no kernel 'other' of uswap"),
        (["remove", "../other"], "no kernel '../other' of uswap"),
    ):
        assert said in kernelspec(tmp_path, *words, code=1)
    assert [path.name for path in other.parent.iterdir()] == ["other"]
    assert "Other" in (other / "kernel.json").read_text()


def test_the_kernel_starts_computes_and_can_be_interrupted(tmp_path: Path) -> None:
    kernelspec(tmp_path, "install", "--ram", "128M")
    counted, memory, ended_by, counted_again = execute_cells(
        "python3-uswap-128m",
        tmp_path / "share/jupyter/kernels",
        tmp_path,
        [
            "content = bytearray(b'x' * (256 << 20)); print(content.count(b'x'))",
            "print(open('/proc/self/statm').read())",
            "!interrupt",
            "print(content.count(b'x'))",
        ],
    )
    assert counted == counted_again == f"{256 << 20}\n"
    _, resident, shared, *_ = map(int, memory.split())
    assert (resident - shared) * 4096 <= 128 << 20, memory
    assert ended_by == "KeyboardInterrupt"
