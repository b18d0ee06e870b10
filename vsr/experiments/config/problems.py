"""Faults in what a user gave: all of them at once, each with where, what and what to do."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One fault in a file."""

    file: str
    message: str
    line: int | None = None
    """counted from 1"""
    path: tuple[str | int, ...] = ()
    """keys and indices from the top of the file"""

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        dotted = ".".join(map(str, self.path))
        return ": ".join(part for part in (where, dotted, self.message) if part)


MOST_REPORTED = 50
"""Faults of a file that are printed; of more it is said how many there are."""


class UserError(Exception):
    """Something the user can fix. The command line prints it without a traceback and exits with the code."""

    exit_code = 2
    leave_at_once = False
    """whether to end the process without waiting for what still runs in it"""


class ConfigError(UserError):
    """One or more faults in a file."""

    def __init__(self, problems: list[Problem]):
        self.problems = problems
        more = len(problems) - MOST_REPORTED
        lines = [*map(str, problems[:MOST_REPORTED]), *([f"and {more:,} more faults"] if more > 0 else [])]
        super().__init__("\n".join(lines))
