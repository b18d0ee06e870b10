"""Files to described objects and back, with every fault reported."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

import yaml

from vsr.controllers import CONTROLLERS
from vsr.experiments.config.check import check
from vsr.experiments.config.overrides import override
from vsr.experiments.config.plugins import load_plugins
from vsr.experiments.config.problems import ConfigError, Problem, UserError
from vsr.experiments.config.yaml_reader import Document, parse_yaml, read_yaml
from vsr.experiments.encodings import CONTROLLERS as EVOLVED_CONTROLLERS
from vsr.experiments.experiment import Experiment
from vsr.scene import Scene
from vsr.spec import Spec

__all__ = [
    "ConfigError",
    "Problem",
    "UserError",
    "dump_plain",
    "dump_yaml",
    "load",
    "load_experiment",
    "load_scene",
    "parse_experiment",
    "parse_scene",
]

Described = TypeVar("Described", bound=Spec)


def load_scene(path: str | Path) -> Scene:
    """The scene in a YAML or JSON file; raises ConfigError with every fault in it."""
    return _described(read_yaml(path), Scene)


def load_experiment(path: str | Path, settings: Sequence[str] = (), swept: Sequence[str] = ()) -> Experiment:
    """The experiment in a file, with values set over the file's (`path=value`); swept: those of one run of a sweep."""
    document = read_yaml(path)
    override(document, settings)
    override(document, swept, "--sweep")
    return _described(document, Experiment)


def load(path: str | Path, settings: Sequence[str] = ()) -> Scene | Experiment:
    """Whatever a file describes: an experiment if the robot in it evolves or it names a search, else a scene."""
    document = read_yaml(path)
    override(document, settings)
    return _described(document, Experiment if _evolves(document.data) else Scene)


def parse_scene(text: str, file: str = "<text>") -> Scene:
    """The scene in a text."""
    return _described(parse_yaml(text, file), Scene)


def parse_experiment(text: str, file: str = "<text>") -> Experiment:
    """The experiment in a text."""
    return _described(parse_yaml(text, file), Experiment)


def _described(document: Document, kind: type[Described]) -> Described:
    load_plugins(document)
    return check(document, kind)


def _evolves(data: Any) -> bool:
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
    without_weights = kind == "mlp" and "weights" not in (controller if isinstance(controller, dict) else {})
    return without_weights or (kind in EVOLVED_CONTROLLERS and kind not in CONTROLLERS)


def dump_yaml(spec: Spec) -> str:
    """A description as YAML that reads back to the same description."""
    return dump_plain(spec.to_plain())


def dump_plain(value: Any) -> str:
    """Plain data as YAML that reads back to the same."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, default_flow_style=None, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
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
