"""YAML (and JSON) as people mean it, with the line of every value.

PyYAML's own reading follows YAML 1.1: it turns `no` into false, leaves `1e-3` as text and lets the last of two equal
keys win. Here plain values follow the YAML 1.2 core schema, keys are always text, and a repeated key is a fault.

Files may come from anyone, so what a text can grow to is bounded: its size, how many values it holds with those that
aliases repeat, how deep they are nested, how long names and numbers are. libyaml does the scanning where PyYAML has it.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Any

import yaml

from vsr.experiments.config.problems import ConfigError, Problem
from vsr.experiments.config.yaml_values import Builder, Document

MOST_BYTES = 32 * 2**20
"""Of a file."""
MOST_TAG_DIRECTIVES = 10
"""libyaml compares each with all others."""

_Scanner: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
GIVEN_BY_SHELLS = ("/dev/fd/", "/dev/stdin", "/proc/self/fd/")
"""Where a pipe is no surprise."""
_WORDY = 20_000
"""Characters up to which a text with a fault is scanned again by PyYAML itself, which words faults better."""


def read_yaml(path: str | Path) -> Document:
    """Read a file; raises ConfigError if it cannot be read at all."""
    return parse_yaml(read_text(path), str(path))


def read_text(path: str | Path) -> str:
    """What a file holds; raises ConfigError if it is no text, or too much of it."""
    file = str(path)
    try:
        with open(path, "rb", opener=_without_waiting) as opened:
            if stat.S_ISFIFO(os.fstat(opened.fileno()).st_mode) and not file.startswith(GIVEN_BY_SHELLS):
                raise ConfigError([Problem(file, "a pipe; give a regular file")])
            os.set_blocking(opened.fileno(), True)
            content = opened.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES:
            raise ConfigError([Problem(file, f"larger than {MOST_BYTES >> 20} MiB, the most that is read")])
        return content.decode("utf-8")
    except FileNotFoundError:
        raise ConfigError([Problem(file, "there is no such file")]) from None
    except IsADirectoryError:
        raise ConfigError([Problem(file, "this is a folder; give a YAML file")]) from None
    except UnicodeDecodeError:
        raise ConfigError([Problem(file, "this is not a text file (UTF-8)")]) from None
    except OSError as error:
        raise ConfigError([Problem(file, f"cannot be read: {error.strerror}")]) from None
    except ValueError as error:  # a name that no file can have
        raise ConfigError([Problem(_printable(file), f"cannot be read: {error}")]) from None


def _without_waiting(name: str, flags: int) -> int:
    """Opens also a pipe at once, whether anybody writes to it or not."""
    return os.open(name, flags | os.O_NONBLOCK)


def parse_yaml(text: str, file: str = "<text>") -> Document:
    """Read a text; raises ConfigError if it is not YAML, or too much of it."""
    try:
        text.encode()
    except UnicodeEncodeError:  # as of bytes of the command line that are no UTF-8
        raise ConfigError([Problem(_printable(file), "this is not text (UTF-8)")]) from None
    text = text.removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
    if len(re.findall("^%TAG", text, re.MULTILINE)) > MOST_TAG_DIRECTIVES:
        raise ConfigError([Problem(file, f"more than {MOST_TAG_DIRECTIVES} %TAG directives; none is needed")])
    try:
        return Builder(file).build(text, _Scanner)
    except yaml.YAMLError as error:
        fault = error
    if len(text) <= _WORDY:
        try:
            Builder(file).build(text, yaml.SafeLoader)
        except yaml.YAMLError as error:
            fault = error
    raise ConfigError([_syntax_problem(file, text, fault)])


def _syntax_problem(file: str, text: str, error: yaml.YAMLError) -> Problem:
    mark, position = getattr(error, "problem_mark", None), getattr(error, "position", None)
    reason = getattr(error, "problem", None) or str(error).splitlines()[0]
    line = mark.line + 1 if mark else None if position is None else text.count("\n", 0, position) + 1
    return Problem(file, f"this is not valid YAML: {reason}", line)


def _printable(name: str) -> str:
    return name.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
