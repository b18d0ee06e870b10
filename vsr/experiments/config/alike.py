"""Many experiments that share most of their parts, as those of a sweep or of many runs: each part is checked once.

What is not as expected goes the usual way, which reports every fault.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from vsr.experiments.config import dump_plain, load_experiment
from vsr.experiments.config.overrides import override
from vsr.experiments.config.parts import part_reader
from vsr.experiments.config.plugins import load_plugins, missing_plugins
from vsr.experiments.config.problems import ConfigError
from vsr.experiments.config.yaml_reader import parse_yaml, read_yaml
from vsr.experiments.config.yaml_values import Document
from vsr.experiments.experiment import Experiment

KEPT = 4096
"""Parts of files that are remembered."""
PART = re.compile(r"^(?=[a-z_]+:)", re.MULTILINE)


def load_variants(
    path: str | Path, settings: Sequence[str], variants: Sequence[Sequence[str]], *, run_plugins: bool = False
) -> Iterator[Experiment | ConfigError]:
    """The experiment in a file with each of many sets of values (`path=value`) over it, or the faults of it."""
    document = read_yaml(path)
    override(document, settings)
    if run_plugins:
        load_plugins(document)
    whole = not missing_plugins(document)
    known: dict[tuple[str, str], Any] = {}
    for swept in variants:
        try:
            experiment = _of_parts(document, swept, known) if whole else None
            yield load_experiment(path, settings, swept, run_plugins=run_plugins) if experiment is None else experiment
        except ConfigError as error:
            yield error


def settled(path: str | Path, settings: Sequence[str]) -> str:
    """A file with values set over it, as the text of another."""
    document = read_yaml(path)
    override(document, settings)
    return dump_plain(document.data)


def load_experiment_alike(path: str | Path, *, run_plugins: bool = False) -> Experiment:
    """As `load_experiment`, quickly if files read before had most of the same parts, as those that runs write have."""
    try:
        parts = {name: _read_part(text).checked for name, text in _texts_of_parts(path).items()}
        if not parts.get("plugins"):
            return Experiment.model_validate(parts)
    except (OSError, ValueError, LookupError, ConfigError):
        pass
    return load_experiment(path, run_plugins=run_plugins)


def is_written(path: str | Path, plain: Mapping[str, Any], besides: Collection[str] = ()) -> bool:
    """Whether a file says just these plain values, but for the parts `besides`; False also if it takes long to tell."""
    if plain.get("plugins"):
        return False
    try:
        texts = _texts_of_parts(path)
        names = {*texts, *plain} - {*besides}
        return all(name in plain and _read_part(texts[name]).plain == plain[name] for name in names)
    except (OSError, ValueError, LookupError, ConfigError):
        return False


def _of_parts(document: Document, swept: Sequence[str], known: dict[tuple[str, str], Any]) -> Experiment | None:
    """The experiment, of parts that are known and those that values are set in; None if it is not that simple."""
    if document.problems or not isinstance(document.data, dict):
        return None
    changed = {setting.partition("=")[0].split(".")[0].strip() for setting in swept}
    if "plugins" in changed:
        return None
    data = {name: copy.deepcopy(part) if name in changed else part for name, part in document.data.items()}
    variant = Document(document.file, data)
    override(variant, swept, "--sweep")
    try:
        parts = {}
        for name, part in data.items():
            key = name, repr(part) if name in changed else ""
            if key not in known:
                known[key] = part_reader(Experiment, name).validate_python(part)
            parts[name] = known[key]
        return Experiment.model_validate(parts)
    except (ValidationError, LookupError):
        return None


def _texts_of_parts(path: str | Path) -> Mapping[str, str]:
    """The lines of each part of a file; raises LookupError if it does not simply consist of parts."""
    return _parted(Path(path).read_text(encoding="utf-8"))


@lru_cache(maxsize=1)
def _parted(text: str) -> Mapping[str, str]:
    before, *texts = PART.split(text)
    parts = {text.partition(":")[0]: text for text in texts}
    if _says_something(before) or len(parts) != len(texts):
        raise LookupError("not of parts")
    return parts


def _says_something(text: str) -> bool:
    """Whether there is more than comments."""
    return any(line.strip() and not line.startswith("#") for line in text.splitlines())


class _Part(NamedTuple):
    """Of a file, as it is written and as it is checked. Many experiments share it: nobody may change it."""

    plain: Any
    checked: Any


@lru_cache(maxsize=KEPT)
def _read_part(text: str) -> _Part:
    """The value of a part of a file; raises for anything unusual."""
    document = parse_yaml(text)
    (name,) = document.data
    if document.problems:
        raise LookupError(name)
    plain = document.data[name]
    return _Part(plain, part_reader(Experiment, name).validate_python(plain))
