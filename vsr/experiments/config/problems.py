"""Faults in what a user gave: all of them at once, each with where, what and what to do."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator
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


OF_COMMANDS = re.compile(r"\bvsr evolve ('[^']*'|\S+) --resume\b|\bvsr \w+ [^;,\n]*|(?<![\w-])--([a-z]+)\b")
"""A command that goes on with a run, any other command, or an option, in a message."""
IN_PYTHON = {"resume": "resume=True", "set": "settings"}
"""Parameters of functions that are not called as the options of commands are."""


def in_python(message: str) -> str:
    """A message in which parameters of functions stand for options; whole commands are left as they are."""

    def word(found: re.Match[str]) -> str:
        if found[1] is not None:
            return f"vsr.evolve(..., out={shlex.split(found[1])[0]!r}, resume=True)"
        return found[0] if found[2] is None else IN_PYTHON.get(found[2], found[2])

    return OF_COMMANDS.sub(word, message)


@contextlib.contextmanager
def worded_for_python() -> Iterator[None]:
    """Let errors speak of parameters of functions, not of options of commands; also as a decorator."""
    try:
        yield
    except UserError as error:
        error.args = (in_python(str(error)),)
        raise
