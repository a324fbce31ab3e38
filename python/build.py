#!/usr/bin/env python3
"""Build the wheel of uswap: the package, and in it the command ``uswap`` and its agent.

    cargo xtask build
    python3 python/build.py

The command and the agent are taken as they were built, and lie together in ``uswap/bin`` of the package: wherever an
installer puts that, they find each other. The script ``uswap`` of the wheel starts the command. The wheel is made by
maturin; what is added to it, and its list of files, is written here, with the modes that make a file executable.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILT = HERE.parent / "target" / "release"
AGENT = "libuswap_agent.so"

# pip writes the path of its Python into the first line. The package itself is not imported: that would take as long
# again as to start Python.
SCRIPT = b"""#!python
import importlib.util
import os
import sys

package = importlib.util.find_spec("uswap")
if package is None or package.origin is None:
    sys.exit("uswap: the Python package uswap, which contains this command, is not installed any more")
command = os.path.join(os.path.dirname(os.path.realpath(package.origin)), "bin", "uswap")
try:
    os.execv(command, ["uswap", *sys.argv[1:]])
except OSError as error:
    sys.exit(f"uswap: '{command}' cannot be started ({error.strerror}): install the Python package uswap again")
"""


def main() -> int:
    """Do what the command line says. Return the exit code."""
    parser = argparse.ArgumentParser(description="Build the wheel of uswap, with the command and its agent inside.")
    parser.add_argument("--command", type=Path, default=BUILT / "uswap", metavar="FILE", help="the command uswap")
    parser.add_argument("--agent", type=Path, default=BUILT / AGENT, metavar="FILE", help="its agent")
    parser.add_argument("--out", type=Path, default=HERE / "dist", metavar="DIR", help="where the wheel goes")
    parser.add_argument("--maturin", default="maturin", metavar="PROGRAM", help="maturin, if it is not in PATH")
    parser.add_argument("--keep-debug", action="store_true", help="keep the debug information of command and agent")
    arguments = parser.parse_args()
    try:
        wheel = build(arguments)
    except (OSError, ValueError, subprocess.CalledProcessError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(wheel)
    return 0


def build(arguments: argparse.Namespace) -> Path:
    """Build the wheel. Return its path."""
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        command = prepare(arguments.command, scratch / "uswap", arguments.keep_debug)
        agent = prepare(arguments.agent, scratch / AGENT, arguments.keep_debug)
        # It says so by itself if the agent is of other sources.
        version = output_of([command, "--version"]).split()[-1]
        output_of([command, "run", "--ram", "64M", "-q", "--", sys.executable, "-c", "pass"])
        platform = f"manylinux_2_{newest_glibc([command, agent])}"
        subprocess.run(
            [arguments.maturin, "build", "--release", "--compatibility", platform, "--out", scratch],
            cwd=HERE,
            check=True,
        )
        [wheel] = scratch.glob("*.whl")
        if not wheel.name.startswith(f"uswap-{version}-"):
            raise ValueError(
                f"the command is of version {version}, and the package is {wheel.name}: correct Cargo.toml"
            )
        finished: Path = arguments.out / wheel.name
        arguments.out.mkdir(parents=True, exist_ok=True)
        programs = {
            "uswap/bin/uswap": command.read_bytes(),
            f"uswap/bin/{AGENT}": agent.read_bytes(),
            f"uswap-{version}.data/scripts/uswap": SCRIPT,
        }
        licenses = {
            f"uswap-{version}.dist-info/licenses/{name}": (HERE.parent / name).read_bytes()
            for name in ("LICENSE-APACHE", "LICENSE-MIT")
        }
        add_to_wheel(wheel, finished, {0o755: programs, 0o644: licenses})
        return finished


def prepare(file: Path, copy: Path, keep_debug: bool) -> Path:
    """Copy a program, without its debug information."""
    shutil.copy(file, copy)
    copy.chmod(0o755)
    if not keep_debug:
        subprocess.run(["strip", "--strip-debug", copy], check=True)
    return copy


def output_of(words: list[str | Path]) -> str:
    """Return what a program says, if it ends well."""
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ValueError(f"'{' '.join(map(str, words))}' failed: {done.stderr.strip()}")
    return done.stdout


def newest_glibc(files: list[Path]) -> int:
    """Return the N of the newest glibc 2.N that one of these programs needs. 17 is the oldest that pip knows."""
    needed = [re.findall(rb"GLIBC_2\.([0-9]+)", file.read_bytes()) for file in files]
    return max([17, *(int(minor) for minors in needed for minor in minors)])


def add_to_wheel(wheel: Path, finished: Path, added: dict[int, dict[str, bytes]]) -> None:
    """Write the wheel anew, with these files of each mode in it."""
    with zipfile.ZipFile(wheel) as source:
        [record] = [name for name in source.namelist() if name.endswith(".dist-info/RECORD")]
        lines = source.read(record).decode()
        with zipfile.ZipFile(finished, "w", zipfile.ZIP_DEFLATED) as target:
            for info in source.infolist():
                if info.filename != record:
                    target.writestr(info, source.read(info))
            for mode, name, content in (
                (mode, name, content) for mode, files in added.items() for name, content in files.items()
            ):
                target.writestr(entry(name, mode), content, zipfile.ZIP_DEFLATED)
                digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                lines += f"{name},sha256={digest},{len(content)}\n"
            target.writestr(entry(record, 0o644), lines, zipfile.ZIP_DEFLATED)


def entry(name: str, mode: int) -> zipfile.ZipInfo:
    """Describe a file of a wheel. It has no time of its own: the same files make the same wheel."""
    info = zipfile.ZipInfo(name)
    info.create_system = 3  # Unix: only there it has a mode.
    info.external_attr = (0o100000 | mode) << 16
    return info


if __name__ == "__main__":
    sys.exit(main())
