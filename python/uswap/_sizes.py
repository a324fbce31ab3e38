"""Sizes as a person reads them. They look as those of the command do."""

from __future__ import annotations

_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def human(count_bytes: int) -> str:
    """Write a size with a binary unit and at most one digit behind the point.

    Examples
    --------
    >>> human(900), human(3 << 29)
    ('900 B', '1.5 GiB')
    """
    if count_bytes < 1024:
        return f"{count_bytes} B"
    unit_index, unit_bytes = 0, 1024
    # The next unit begins early, where rounding would write "1024 KiB".
    while count_bytes * 20 >= unit_bytes * (1024 * 20 - 1) and unit_index + 1 < len(_UNITS):
        unit_index, unit_bytes = unit_index + 1, unit_bytes * 1024
    whole, tenth = divmod((count_bytes * 10 + unit_bytes // 2) // unit_bytes, 10)
    number = f"{whole}.{tenth}" if tenth else f"{whole}"
    return f"{number} {_UNITS[unit_index]}"
