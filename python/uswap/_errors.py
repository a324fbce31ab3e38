"""What goes wrong. The text of each says what was seen, and what to try."""

from __future__ import annotations


class Error(RuntimeError):
    """Something of uswap went wrong. A process that could not be limited is as it was."""


class AlreadyLimitedError(Error):
    """The process has a budget: it asked for one, or it was started within the budget of another."""


class ReleasedError(Error):
    """The process gave its budget up before. It can get one only once."""


class NotLimitedError(Error):
    """The process has not asked for a budget."""


class CommandError(Error):
    """The command ``uswap`` or its agent cannot be used."""


class CommandNotFoundError(CommandError):
    """The command ``uswap`` was not found."""


class RefusedError(Error, ValueError):
    """What was asked for cannot be had: a size, a directory or a rule is wrong, or this system forbids it."""


class UnmanageableError(Error):
    """The process does something already that uswap cannot follow."""


class NoStatsError(Error):
    """The run does not say how it goes."""


class NotManagedError(Error):
    """Memory cannot be kept in RAM, or the kernel takes no advice about it."""
