"""`--set optimizer.population_size=100`: values given on the command line, over those of a file."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from vsr.experiments.config.problems import ConfigError, Problem, UserError
from vsr.experiments.config.yaml import DEEPEST, Document, parse_yaml

LONGEST_SHOWN = 120
"""Characters of a setting in messages."""
KEPT = 4096
"""Settings that are remembered."""


def override(document: Document, settings: Sequence[str], option: str = "--set") -> None:
    """Put every `path=value` into a document; a value is written as in YAML. option: by which they were given."""
    for setting in settings:
        words = f"{option} {setting if len(setting) <= LONGEST_SHOWN else setting[: LONGEST_SHOWN - 3] + '...'}"
        path, value = _read(setting, words)
        _put(document, path, copy.deepcopy(value), words)


@lru_cache(maxsize=KEPT)
def _read(setting: str, words: str) -> tuple[list[str], Any]:
    """The path and the value; both are remembered, as a sweep has the same in many of its runs."""
    dotted, equals, text = setting.partition("=")
    path = dotted.strip().split(".")
    if not equals or not all(path):
        raise UserError(f"{words}: write it as path=value, for example optimizer.population_size=100")
    if len(path) > DEEPEST:
        raise UserError(f"{words}: a path of {len(path):,} names; at most {DEEPEST}")
    read = parse_yaml(text, words)
    if read.problems:
        raise ConfigError(read.problems)
    return path, read.data


def _put(document: Document, path: list[str], value: Any, words: str) -> None:
    if not isinstance(document.data, dict):
        return  # the file holds something else altogether, which is reported when it is checked
    owner: Any = document.data
    keys: list[Any] = []
    for position, word in enumerate(path):
        key = _key(owner, word, words, path[:position])
        keys.append(key)
        if position == len(path) - 1:
            owner[key] = value
        else:
            present = isinstance(owner, list) or key in owner
            owner[key] = _opened(owner[key] if present else None, path[position + 1])
            owner = owner[key]
    document.settings[tuple(keys)] = words


def _opened(value: Any, following: str) -> Any:
    """A value made ready to have something put into it."""
    if value is None:
        return {}
    if isinstance(value, str) and not following.isdigit():
        return {"type": value}  # a bare name stands for a component
    return value


def _key(owner: Any, word: str, words: str, before: list[str]) -> Any:
    if isinstance(owner, dict):
        return word
    if isinstance(owner, list) and word.isdigit() and int(word) < len(owner):
        return int(word)
    holds = f"is a list of {len(owner)}" if isinstance(owner, list) else f"holds {owner!r}"
    raise ConfigError([Problem(words, f"'{'.'.join(before)}' {holds} and has no '{word}'")])
