"""Files to described objects, with every fault reported.

What a file names under `plugins` is code. It is run for those who give `run_plugins`, because they were asked to run
the experiment or to trust it; everyone else gets `vsr.experiments.config.plugins.PluginRequiredError`.

Many experiments that share most of their parts, as those of a sweep or of many runs, are read quickly: each part is
checked once (`load_variants`, `load_experiment_alike`). What is not as expected goes the long way, which reports every
fault.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from pydantic import ValidationError

from vsr.controllers import CONTROLLERS
from vsr.experiments.config.check import check, part_reader
from vsr.experiments.config.overrides import override
from vsr.experiments.config.plugins import load_plugins, missing_plugins, require_plugins
from vsr.experiments.config.problems import ConfigError, Problem
from vsr.experiments.config.yaml import Document, dump_plain, extended, parse_yaml, read_yaml
from vsr.experiments.encodings import CONTROLLERS as EVOLVED_CONTROLLERS
from vsr.experiments.experiment import Experiment
from vsr.scene import Scene
from vsr.spec import Spec

EVOLVED = "evolved"
"""The block that runs write into their best robots' files (vsr.experiments.storage.robots)."""

PARTS_OF_PLUGINS = ("robot", "world", "task", "optimizer", "physics")
"""Parts with components, of which plugins may bring more."""

Described = TypeVar("Described", bound=Spec)
KEPT = 4096
"""Parts of files that are remembered."""
PART = re.compile(r"^(?=[a-z_]+:)", re.MULTILINE)


def load_scene(path: str | Path, settings: Sequence[str] = (), *, run_plugins: bool = False) -> Scene:
    """The scene in a YAML or JSON file, with values set over the file's; raises ConfigError with every fault in it."""
    document = read_yaml(path)
    override(document, settings)
    return _described(document, Scene, run_plugins)


def with_settings(scene: Scene, settings: Sequence[str], name: str) -> Scene:
    """A scene with values set over it (`path=value`); name: what messages call it."""
    if not settings:
        return scene
    document = Document(name, scene.to_plain())
    override(document, settings)
    return check(document, Scene)


def load_experiment(
    path: str | Path, settings: Sequence[str] = (), swept: Sequence[str] = (), *, run_plugins: bool = False
) -> Experiment:
    """The experiment in a file, with values set over the file's (`path=value`); swept: those of one run of a sweep."""
    document = read_yaml(path)
    override(document, settings)
    override(document, swept, "--sweep")
    return _described(document, Experiment, run_plugins)


def load(path: str | Path, settings: Sequence[str] = (), *, run_plugins: bool = False) -> Scene | Experiment:
    """Whatever a file describes: an experiment if the robot in it evolves or it names a search, else a scene."""
    document = read_yaml(path)
    override(document, settings)
    if run_plugins:
        _run_plugins(document, Experiment if evolves(document.data) else Scene)  # first: they may bring what evolves
    return _described(document, Experiment if evolves(document.data) else Scene)


def parse_scene(text: str, file: str = "<text>", *, run_plugins: bool = False) -> Scene:
    """The scene in a text; file: beside which plugins are."""
    return _described(extended(parse_yaml(text, file)), Scene, run_plugins)


def parse_experiment(
    text: str, file: str = "<text>", settings: Sequence[str] = (), *, run_plugins: bool = False
) -> Experiment:
    """The experiment in a text, with values set over the text's; file: beside which plugins are."""
    document = extended(parse_yaml(text, file))
    override(document, settings)
    return _described(document, Experiment, run_plugins)


def run_plugins_of(path: str | Path) -> None:
    """Run the plugins that a file names, so that it and all that goes with it can be read as a whole."""
    load_plugins(read_yaml(path))


def _described(document: Document, kind: type[Described], run_plugins: bool = False) -> Described:
    if kind is Scene and isinstance(document.data, dict) and isinstance(document.data.get(EVOLVED), dict):
        # It reports the past, and is no part of what is simulated.
        document = replace(document, data={name: part for name, part in document.data.items() if name != EVOLVED})
    if run_plugins:
        _run_plugins(document, kind)
    else:
        require_plugins(document)
    return check(document, kind)


def _run_plugins(document: Document, kind: type[Spec]) -> None:
    """Run the plugins that a document names; if one cannot be, report the other faults, which it would not fix."""
    try:
        load_plugins(document)
    except ConfigError as error:
        raise ConfigError([*error.problems, *_faults_without_plugins(document, kind)]) from None


def _faults_without_plugins(document: Document, kind: type[Spec]) -> list[Problem]:
    """Faults of parts that no plugin has to do with."""
    known = set(kind.model_fields)
    faulty = set(document.data) - known
    for name in known & set(document.data) - {*PARTS_OF_PLUGINS, "plugins"}:
        try:
            part_reader(kind, name).validate_python(document.data[name])
        except ValidationError:
            faulty.add(name)
    try:
        check(document, kind)
    except ConfigError as error:
        return [fault for fault in error.problems if fault in document.problems or {*fault.path[:1]} & faulty]
    return []


def evolves(data: Any) -> bool:
    """Whether a document has what only an experiment has: a search, or a robot that is not settled."""
    if not isinstance(data, dict):
        return False
    if "kind" in data:
        kinds = [str(described.model_fields["kind"].default) for described in (Experiment, Scene)]
        return get_close_matches(str(data["kind"]), kinds, 1) == kinds[:1]  # an experiment, if misspelled
    if (set(Experiment.model_fields) - set(Scene.model_fields)) & set(data):
        return True
    robot = data.get("robot")
    body, controller = (robot.get(part) if isinstance(robot, dict) else None for part in ("body", "controller"))
    if isinstance(body, dict) and "type" in body:
        return True
    kind = controller.get("type") if isinstance(controller, dict) else controller
    if not isinstance(kind, str) or kind not in EVOLVED_CONTROLLERS:
        return False
    settled = CONTROLLERS.get(kind)
    given = controller if isinstance(controller, dict) else {}
    return settled is None or ("weights" in settled.model_fields and "weights" not in given)


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
    """The value of a part of a file; raises for anything else."""
    document = parse_yaml(text)
    (name,) = document.data
    if document.problems:
        raise LookupError(name)
    plain = document.data[name]
    return _Part(plain, part_reader(Experiment, name).validate_python(plain))
