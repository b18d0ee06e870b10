"""Files to described objects and back, with every fault reported."""

from __future__ import annotations

from pathlib import Path

import yaml

from experiments.config.check import check
from experiments.config.problems import ConfigError, Problem, UserError
from experiments.config.yaml_reader import parse_yaml, read_yaml
from vsr.scene import Scene
from vsr.spec import Spec

__all__ = ["ConfigError", "Problem", "UserError", "dump_yaml", "load_scene", "parse_scene"]


def load_scene(path: str | Path) -> Scene:
    """The scene in a YAML or JSON file; raises ConfigError with every fault in it."""
    return check(read_yaml(path), Scene)


def parse_scene(text: str, file: str = "<text>") -> Scene:
    """The scene in a text."""
    return check(parse_yaml(text, file), Scene)


def dump_yaml(spec: Spec) -> str:
    """A description as YAML that reads back to the same description."""
    return yaml.dump(spec.to_plain(), Dumper=_Dumper, sort_keys=False, default_flow_style=None, allow_unicode=True)


class _Dumper(yaml.SafeDumper):
    """Quotes what the reader would take for a number but YAML 1.1 would not."""


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.Node:
    plain = parse_yaml(value).data if value.strip() == value and "\n" not in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if plain == value else "'")


_Dumper.add_representer(str, _text)
