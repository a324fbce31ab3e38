"""The command that the package contains."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from conftest import PATIENCE_S, Python

import uswap
from uswap import _command

needs_wheel = pytest.mark.skipif(_command.packaged() is None, reason="this package was built without the command")


def script() -> Path:
    return Path(sysconfig.get_path("scripts")) / "uswap"


@needs_wheel
def test_pip_installs_a_command_that_finds_its_agent() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("USWAP_")}
    done = subprocess.run(
        [script(), "run", "--ram", "64M", "--", sys.executable, "-c", "print(len(bytearray(96 << 20)))"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"{96 << 20}\n"
    assert "budget 64 MiB" in done.stderr


@needs_wheel
def test_the_command_is_of_the_same_version_and_hands_on_exit_codes() -> None:
    said = subprocess.run([script(), "--version"], capture_output=True, text=True, check=True).stdout
    assert said == f"uswap {uswap.__version__}\n"
    words: list[str | Path] = [script(), "run", "--ram", "64M", "-q", "--", "sh", "-c", "exit 7"]
    assert subprocess.run(words, check=False).returncode == 7
    assert subprocess.run([script(), "nonsense"], stderr=subprocess.DEVNULL, check=False).returncode == 2


@needs_wheel
def test_limit_takes_the_command_of_the_package(python: Python) -> None:
    python(
        """
    import os, uswap
    os.environ["PATH"] = "/nowhere"
    uswap.limit("64M")
    assert uswap.is_limited()
    """
    )


def test_without_one_in_the_package_it_is_looked_for(python: Python) -> None:
    done = python(
        """
    import os, uswap
    from uswap import _command

    _command.packaged = lambda: None
    os.environ["USWAP_COMMAND"] = "/no/such/program"
    for ask in (lambda: uswap.limit("64M"), _command.find):
        try:
            ask()
        except uswap.CommandNotFoundError as error:
            print(error)
    os.environ["USWAP_COMMAND"] = "/bin/true"
    try:
        uswap.limit("64M")
    except uswap.CommandError as error:
        print(error)
    """
    )
    lines = done.stdout.splitlines()
    assert ["/no/such/program" in line for line in lines] == [True, True, False]
    assert "same version" in lines[2]
