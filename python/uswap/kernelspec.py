"""Jupyter kernels that run within a budget: ``python -m uswap.kernelspec install --ram 4G``.

Such a kernel is started by ``uswap run``: it is within its budget before Python begins, so there is nothing to be
called in the notebook.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from uswap import _command
from uswap._errors import Error, RefusedError

# What is in the metadata of a kernel that was installed here, and in no other.
_MARK = "uswap"
# Exit code of the command for words that are wrong.
_USAGE = 2


def install(
    ram: str,
    *,
    name: str | None = None,
    display_name: str | None = None,
    swap: Sequence[str] = (),
    pool: str | None = None,
    user: bool = False,
    prefix: str | None = None,
) -> Path:
    """Install a kernel of this Python that runs within a budget.

    Parameters
    ----------
    ram : str
        The budget, as `uswap.limit` takes it.
    name : str, optional
        Name of the kernel, by default as ``python3-uswap-4g``. One of uswap that has it is replaced.
    display_name : str, optional
        What Jupyter shows.
    swap : sequence of str, optional
        As `uswap.limit` takes it.
    pool : str, optional
        As `uswap.limit` takes it.
    user : bool, optional
        Install it for this user. By default it is installed in the environment of this Python.
    prefix : str, optional
        Install it in ``PREFIX/share/jupyter/kernels``.

    Returns
    -------
    Path
        The directory of the kernel.

    Raises
    ------
    Error
        ipykernel is missing, the command ``uswap`` is, or the name belongs to another kernel.
    RefusedError
        A value is wrong.
    """
    ipykernel, specs = _jupyter(user, prefix)
    options = ["--ram", ram]
    for place in swap:
        options += ["--swap", place]
    if pool is not None:
        options += ["--pool", pool]
    run = [str(_command.find()), "run", *options, "-q", "--"]
    _try(run)
    name = name or f"python{sys.version_info.major}-uswap-{ram.lower()}"
    if re.fullmatch(r"[A-Za-z0-9._-]+", name) is None:
        raise RefusedError(f"'{name}' is no name of a kernel: it has letters, digits, '.', '_' and '-'")
    if name in specs.find_kernel_specs() and name not in _ours(specs):
        raise Error(f"there is a kernel '{name}' that is none of uswap: give another name")
    plain = ipykernel.get_kernel_dict()
    overrides = {
        "argv": [*run, *plain["argv"]],
        "display_name": display_name or f"Python {sys.version_info.major} within {ram} (uswap)",
        "metadata": {**plain.get("metadata", {}), _MARK: {"ram": ram}},
    }
    with tempfile.TemporaryDirectory() as directory:
        written = ipykernel.write_kernel_spec(Path(directory) / name, overrides=overrides)
        destination = Path(specs.kernel_dirs[0]) / name
        destination.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(destination, ignore_errors=True)
        shutil.copytree(written, destination)
    return destination


def installed(*, user: bool = False, prefix: str | None = None) -> dict[str, Path]:
    """Return the kernels of uswap that Jupyter finds, by their names.

    Parameters
    ----------
    user : bool, optional
        Only those of this user.
    prefix : str, optional
        Only those in ``PREFIX/share/jupyter/kernels``.
    """
    _, specs = _jupyter(user, prefix, searches=True)
    return _ours(specs)


def remove(name: str, *, user: bool = False, prefix: str | None = None) -> Path:
    """Remove a kernel of uswap.

    Parameters
    ----------
    name : str
        Name of the kernel.
    user : bool, optional
        Look for it only among those of this user.
    prefix : str, optional
        Look for it only in ``PREFIX/share/jupyter/kernels``.

    Returns
    -------
    Path
        The directory that was removed.

    Raises
    ------
    Error
        There is no kernel of this name, or it is none of uswap.
    """
    found = installed(user=user, prefix=prefix)
    if name not in found:
        raise Error(f"there is no kernel '{name}' of uswap: 'list' shows those that there are")
    shutil.rmtree(found[name])
    return found[name]


def _jupyter(user: bool, prefix: str | None, *, searches: bool = False) -> tuple[Any, Any]:
    """Return ipykernel's module of specifications, and Jupyter's manager of those in one place, or in all."""
    try:
        from ipykernel import kernelspec as ipykernel
        from jupyter_client.kernelspec import KernelSpecManager
        from jupyter_core.paths import jupyter_data_dir
    except ImportError as error:
        raise Error(f"a kernel needs ipykernel in this Python ({error}): install it") from error
    if user:
        directories = [Path(jupyter_data_dir()) / "kernels"]
    elif prefix is not None or not searches:
        directories = [Path(prefix or sys.prefix) / "share" / "jupyter" / "kernels"]
    else:
        return ipykernel, KernelSpecManager()
    return ipykernel, KernelSpecManager(kernel_dirs=[str(directory) for directory in directories])


def _ours(specs: Any) -> dict[str, Path]:
    found = {name: Path(directory) for name, directory in specs.find_kernel_specs().items()}
    return {name: directory for name, directory in found.items() if _MARK in _metadata(directory)}


def _metadata(directory: Path) -> dict[str, Any]:
    try:
        metadata = json.loads((directory / "kernel.json").read_text(encoding="utf-8"))["metadata"]
    except (OSError, ValueError, KeyError):
        return {}
    return metadata if isinstance(metadata, dict) else {}


def _try(run: list[str]) -> None:
    """Run something that does nothing, as the kernel will be run."""
    tried = subprocess.run([*run, sys.executable, "-c", "pass"], capture_output=True, text=True, check=False)
    said = tried.stderr.strip()
    if tried.returncode == _USAGE:
        raise RefusedError(said.split("\n\n")[0].removeprefix("error: "))
    if tried.returncode != 0:
        # An image may be built where nothing can be managed.
        print(f"It is installed, but would not start here:\n{said}", file=sys.stderr)


def main(words: Sequence[str] | None = None) -> int:
    """Do what the command line says. Return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m uswap.kernelspec", description="Jupyter kernels that run within a budget of RAM"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    installs = commands.add_parser("install", help="install a kernel of this Python")
    lists = commands.add_parser("list", help="show the kernels that were installed so")
    removes = commands.add_parser("remove", help="remove one")
    installs.add_argument("--ram", required=True, metavar="SIZE", help="the budget, as 4G")
    installs.add_argument("--name", help="name of the kernel [default: as python3-uswap-4g]")
    installs.add_argument("--display-name", metavar="TEXT", help="what Jupyter shows")
    installs.add_argument(
        "--swap", action="append", default=[], metavar="DIR[:SIZE]", help="directory of a swap file; may be repeated"
    )
    installs.add_argument("--pool", metavar="SHARE", help="largest part of the budget for compressed pages, as 30%%")
    removes.add_argument("name", metavar="NAME", help="name of the kernel")
    for command, default in ((installs, "the environment of this Python"), (lists, "all"), (removes, "all")):
        place = command.add_mutually_exclusive_group()
        place.add_argument("--user", action="store_true", help=f"those of this user [default: {default}]")
        place.add_argument("--prefix", metavar="DIR", help="those in DIR/share/jupyter/kernels")
    arguments = parser.parse_args(words)
    place_of = {"user": arguments.user, "prefix": arguments.prefix}
    try:
        if arguments.command == "install":
            destination = install(
                arguments.ram,
                name=arguments.name,
                display_name=arguments.display_name,
                swap=arguments.swap,
                pool=arguments.pool,
                **place_of,
            )
            print(f"installed {destination}")
        elif arguments.command == "list":
            for name, directory in sorted(installed(**place_of).items()):
                print(f"{name}  {_metadata(directory)[_MARK]['ram']}  {directory}")
        else:
            print(f"removed {remove(arguments.name, **place_of)}")
    except (Error, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
