"""YAML (and JSON) as people mean it, with the line of every value.

PyYAML's own reading follows YAML 1.1: it turns `no` into false, leaves `1e-3` as text and lets the last of two equal
keys win. Here plain values follow the YAML 1.2 core schema, keys are always text, and a repeated key is a fault.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from vsr.experiments.config.problems import ConfigError, Problem

_INTEGER = re.compile(r"[-+]?[0-9]+")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf"), float("inf")),
    "-.inf": float("-inf"),
}


@dataclass
class Document:
    """A file's content and where each part of it stands."""

    file: str
    data: Any
    lines: dict[tuple[str | int, ...], int] = field(default_factory=dict)
    """line of the key or item at each path, from 1"""
    problems: list[Problem] = field(default_factory=list)
    """faults that did not stop the reading"""
    settings: dict[tuple[str | int, ...], str] = field(default_factory=dict)
    """the words of the command line that set the value at a path"""

    def line_of(self, path: tuple[str | int, ...]) -> int | None:
        """Line of the path or of its nearest ancestor that is in the file."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path)

    def problem(self, message: str, path: tuple[str | int, ...]) -> Problem:
        """A fault at a path, reported where the user wrote it."""
        for length in range(len(path), 0, -1):
            if path[:length] in self.settings:
                return Problem(self.settings[path[:length]], message, None, path)
        return Problem(self.file, message, self.line_of(path), path)


def read_yaml(path: str | Path) -> Document:
    """Read a file; raises ConfigError if it cannot be read at all."""
    file = str(path)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError([Problem(file, "there is no such file")]) from None
    except IsADirectoryError:
        raise ConfigError([Problem(file, "this is a folder; give a YAML file")]) from None
    except UnicodeDecodeError:
        raise ConfigError([Problem(file, "this is not a text file (UTF-8)")]) from None
    except OSError as error:
        raise ConfigError([Problem(file, f"cannot be read: {error.strerror}")]) from None
    return parse_yaml(text, file)


def parse_yaml(text: str, file: str = "<text>") -> Document:
    """Read a text; raises ConfigError if it is not YAML."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.YAMLError as error:
        raise ConfigError([_syntax_problem(file, error)]) from None
    document = Document(file, None)
    if root is not None:
        document.data = _construct(root, (), document, ())
    return document


def _syntax_problem(file: str, error: yaml.YAMLError) -> Problem:
    mark = getattr(error, "problem_mark", None)
    reason = getattr(error, "problem", None) or str(error).splitlines()[0]
    return Problem(file, f"this is not valid YAML: {reason}", mark.line + 1 if mark else None)


def _construct(node: yaml.Node, path: tuple[str | int, ...], document: Document, parents: tuple[yaml.Node, ...]) -> Any:
    document.lines.setdefault(path, node.start_mark.line + 1)
    if node in parents:
        document.problems.append(Problem(document.file, "an anchor contains itself", document.lines[path], path))
        return None
    inside = (*parents, node)
    if isinstance(node, yaml.ScalarNode):
        return _scalar(node)
    if isinstance(node, yaml.SequenceNode):
        return [_construct(item, (*path, index), document, inside) for index, item in enumerate(node.value)]
    assert isinstance(node, yaml.MappingNode)
    mapping: dict[str, Any] = {}
    for key_node, value_node in node.value:
        line = key_node.start_mark.line + 1
        key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
        if key is None:
            document.problems.append(Problem(document.file, "a key must be a single word", line, path))
            continue
        here = (*path, key)
        if key in mapping:
            first = document.lines[here]
            document.problems.append(Problem(document.file, f"given twice; first on line {first}", line, here))
            continue
        document.lines[here] = line
        mapping[key] = _construct(value_node, here, document, inside)
    return mapping


def _scalar(node: yaml.ScalarNode) -> Any:
    text = node.value
    if node.style is not None:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    return text
