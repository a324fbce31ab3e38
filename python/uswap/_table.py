"""Rows of a name, a value and a note, as text and as a table of HTML."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

Row = tuple[str, str, str]


def text(rows: Sequence[Row]) -> str:
    """Write a line for each row, with the values below each other.

    Examples
    --------
    >>> print(text([("budget", "64 MiB", ""), ("used", "8 MiB", "12 % of the budget")]))
    budget  64 MiB
    used     8 MiB  12 % of the budget
    """
    name_width = max(len(name) for name, _, _ in rows)
    value_width = max(len(value) for _, value, _ in rows)
    return "\n".join(
        f"{name:<{name_width}}  {value:>{value_width}}{note and '  ' + note}" for name, value, note in rows
    )


def html(rows: Sequence[Row]) -> str:
    """Write a table, for notebooks."""
    lines = [
        "<tr>" + _cell("left", name) + _cell("right", value) + _cell("left", note) + "</tr>"
        for name, value, note in rows
    ]
    return "<table>\n" + "\n".join(lines) + "\n</table>"


def _cell(align: str, content: str) -> str:
    return f'<td style="text-align:{align}">{escape(content)}</td>'
