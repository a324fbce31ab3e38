"""Where the command ``uswap`` is.

A wheel contains it, with the agent beside it: there the two look for each other. Where the package was built without
it, whoever needs it looks for another one.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from uswap._errors import CommandNotFoundError


def packaged() -> Path | None:
    """Return the command that this package contains, if it does."""
    path = Path(__file__).resolve().parent / "bin" / "uswap"
    return path if os.access(path, os.X_OK) else None


def find() -> Path:
    """Return the command of this package, or the one that ``USWAP_COMMAND`` names, or the first in ``PATH``.

    Raises
    ------
    CommandNotFoundError
        There is none.
    """
    path = packaged()
    if path is not None:
        return path
    named = os.environ.get("USWAP_COMMAND") or "uswap"
    found = shutil.which(named)
    if found is None:
        raise CommandNotFoundError(
            f"the command '{named}' is not a program, or not in PATH: install it, or name it by USWAP_COMMAND"
        )
    return Path(found).absolute()
