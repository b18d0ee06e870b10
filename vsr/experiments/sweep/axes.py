"""`--sweep optimizer.population_size=50,100`: what varies, and the name of every combination."""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import yaml

from vsr.experiments.config.problems import ConfigError, Problem
from vsr.experiments.config.yaml import parse_yaml

MOST_RUNS = 10_000
LONGEST_NAME = 120
UNSAFE = "[^A-Za-z0-9._+-]+"
"""What is left out of names: all that a shell, a file system or a person could stumble over."""

SIMPLE = re.compile(r"-?[A-Za-z0-9_.][A-Za-z0-9_.+-]*(?:,-?[A-Za-z0-9_.][A-Za-z0-9_.+-]*)*")
"""Numbers and words, which only commas part: thousands of them are split at once."""


@dataclass(frozen=True)
class Axis:
    """One value of the file that varies."""

    path: str
    values: tuple[str, ...]
    """as YAML, as the user wrote them"""


@dataclass(frozen=True)
class Combination:
    """One run of a sweep."""

    name: str
    """of its folder"""
    values: tuple[str, ...]
    """one of every axis"""


def read_axes(sweeps: Sequence[str], settings: Sequence[str]) -> list[Axis]:
    """All that varies; raises ConfigError with every fault. settings: what the command line sets besides."""
    axes: list[Axis] = []
    problems: list[Problem] = []
    fixed = {setting.partition("=")[0].strip() for setting in settings}
    for sweep in sweeps:
        path, equals, text = sweep.partition("=")
        path, where = path.strip(), f"--sweep {sweep}"
        if not equals or not all(path.split(".")):
            problems.append(
                Problem(where, "write it as path=value,value, for example --sweep optimizer.population_size=50,100")
            )
            continue
        try:
            values = split_values(text)
        except ValueError as error:
            problems.append(Problem(where, str(error)))
            continue
        if path in fixed:
            problems.append(Problem(where, f"{path} is set too (--set, --seeds or --seed); give one of them"))
        if path in {axis.path for axis in axes}:
            problems.append(Problem(where, f"{path} is swept twice; give all its values at once"))
        axes.append(Axis(path, values))
    runs = math.prod(len(axis.values) for axis in axes)
    if runs > MOST_RUNS:
        problems.append(Problem("--sweep", f"{runs} combinations; at most {MOST_RUNS} are run in one sweep"))
    if problems:
        raise ConfigError(problems)
    return axes


def split_values(text: str) -> tuple[str, ...]:
    """Values between commas, each as it was written; commas inside lists, mappings and quotes do not count."""
    hint = "write values with commas between them, lists as [a, b]"
    values = tuple(text.split(",")) if SIMPLE.fullmatch(text) else _split_by_yaml(text, hint)
    if not values:
        raise ValueError(f"there are no values; {hint}")
    meanings = [repr(parse_yaml(value).data) for value in values]
    count = Counter(meanings)
    if twice := [value for value, meaning in zip(values, meanings, strict=True) if count[meaning] > 1]:
        raise ValueError(f"{twice[0]} is given twice")
    return values


def _split_by_yaml(text: str, hint: str) -> tuple[str, ...]:
    """Any values; raises ValueError if they are no YAML."""
    listed = f"[{text}]"
    try:
        root = yaml.compose(listed, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        raise ValueError(f"{text!r} is not a list of YAML values; {hint}") from None
    if not isinstance(root, yaml.SequenceNode) or root.end_mark.index != len(listed):
        raise ValueError(f"{text!r} is not a list of YAML values; {hint}")
    return tuple(listed[item.start_mark.index : item.end_mark.index].strip() for item in root.value)


def combine(axes: Sequence[Axis]) -> list[Combination]:
    """Every combination, the last axis varying fastest."""
    keys = [axis.path.split(".")[-1] for axis in axes]
    keys = [key if keys.count(key) == 1 else axis.path for key, axis in zip(keys, axes, strict=True)]
    every = list(itertools.product(*(axis.values for axis in axes)))
    words = [[f"{_safe(key)}={_safe(value)}" for value in axis.values] for key, axis in zip(keys, axes, strict=True)]
    names = [",".join(chosen) for chosen in itertools.product(*words)]
    count = Counter(names)
    return [
        Combination(name if count[name] == 1 and len(name) <= LONGEST_NAME else _shortened(name, values), values)
        for name, values in zip(names, every, strict=True)
    ]


def _safe(text: str) -> str:
    """A text as part of a file name."""
    return re.sub(UNSAFE, "-", re.sub(f"^{UNSAFE}|{UNSAFE}$", "", text)) or "empty"


def _shortened(name: str, values: Sequence[str]) -> str:
    """Short and unlike others, with a hash of all the values."""
    digest = hashlib.sha256("\0".join(values).encode()).hexdigest()[:8]
    return f"{name[: LONGEST_NAME - 9]}-{digest}"
