"""Files to described objects and back, with every fault reported.

What a file names under `plugins` is code. It is run for those who give `run_plugins`, because they were asked to run
the experiment or told to trust it; everyone else gets `vsr.experiments.config.plugins.NeedsPlugins`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from vsr.controllers import CONTROLLERS
from vsr.experiments.config.check import check
from vsr.experiments.config.overrides import override
from vsr.experiments.config.parts import part_reader
from vsr.experiments.config.plugins import learn_components, load_plugins, named_plugins, require_plugins
from vsr.experiments.config.problems import ConfigError, Problem, UserError
from vsr.experiments.config.yaml_reader import parse_yaml, read_yaml
from vsr.experiments.config.yaml_values import Document
from vsr.experiments.encodings import CONTROLLERS as EVOLVED_CONTROLLERS
from vsr.experiments.experiment import Experiment
from vsr.scene import Scene
from vsr.spec import Spec

EVOLVED = "evolved"
"""The block that runs write into their best robots' files (vsr.experiments.storage.robots)."""

__all__ = [
    "EVOLVED",
    "ConfigError",
    "Problem",
    "UserError",
    "dump_plain",
    "dump_yaml",
    "evolves",
    "load",
    "load_experiment",
    "load_scene",
    "parse_experiment",
    "parse_scene",
    "run_plugins_of",
]

PARTS_OF_PLUGINS = ("robot", "world", "task", "ea", "physics")
"""Parts with components, of which plugins may bring more."""

Described = TypeVar("Described", bound=Spec)


def load_scene(path: str | Path, *, run_plugins: bool = False) -> Scene:
    """The scene in a YAML or JSON file; raises ConfigError with every fault in it."""
    return _described(read_yaml(path), Scene, run_plugins)


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
    return _described(parse_yaml(text, file), Scene, run_plugins)


def parse_experiment(
    text: str, file: str = "<text>", settings: Sequence[str] = (), *, run_plugins: bool = False
) -> Experiment:
    """The experiment in a text, with values set over the text's; file: beside which plugins are."""
    document = parse_yaml(text, file)
    override(document, settings)
    return _described(document, Experiment, run_plugins)


def run_plugins_of(path: str | Path) -> None:
    """Run the plugins that a file names, so that it and all that goes with it can be read as a whole."""
    load_plugins(read_yaml(path))


def _described(document: Document, kind: type[Described], run_plugins: bool = False) -> Described:
    if kind is Scene and isinstance(document.data, dict) and isinstance(document.data.get(EVOLVED), dict):
        # It tells of the past, and is no part of what is simulated.
        document = replace(document, data={name: part for name, part in document.data.items() if name != EVOLVED})
    if run_plugins:
        _run_plugins(document, kind)
    elif named_plugins(document):
        require_plugins(document)
        learn_components()  # of modules that are loaded, maybe by someone else
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


def dump_yaml(spec: Spec) -> str:
    """A description as YAML that reads back to the same description."""
    return dump_plain(spec.to_plain())


def dump_plain(data: Any) -> str:
    """Mappings, lists, numbers and text as YAML that reads back to the same."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, default_flow_style=None, allow_unicode=True)


_SafeDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
"""libyaml's where PyYAML has it, which is several times as fast."""


class _Dumper(_SafeDumper):
    """Quotes what the reader would take for a number but YAML 1.1 would not."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if _reads_back(value) else "'")


def _reads_back(value: str) -> bool:
    """Whether the reader takes a text without quotes for itself; the row `...` of an empty body ends a document."""
    if value.strip() != value or "\n" in value:
        return False
    try:
        return parse_yaml(value).data == value
    except UserError:
        return False


_Dumper.add_representer(str, _text)
