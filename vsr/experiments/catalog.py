"""Every component by kind and name, with its parameters and a line of help; and the schema of files."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from vsr.controllers import CONTROLLERS, Hardware
from vsr.evo import OPTIMIZERS
from vsr.experiments.claims import CLAIMS
from vsr.experiments.config import EVOLVED
from vsr.experiments.config.yaml import EXTENDS
from vsr.experiments.descriptors import DESCRIPTORS
from vsr.experiments.docstrings import DescribedSchema, field_descriptions
from vsr.experiments.encodings import BODIES
from vsr.experiments.encodings import CONTROLLERS as EVOLVED_CONTROLLERS
from vsr.experiments.evaluate.sets import EvaluationSet
from vsr.experiments.experiment import Experiment
from vsr.experiments.landscape.spec import Landscape
from vsr.experiments.reach.spec import Reach
from vsr.experiments.study import Study
from vsr.robot import Material
from vsr.scene import Physics, Scene
from vsr.sensors import QUANTITIES
from vsr.tasks import MEASURES, TASKS
from vsr.terrain import TERRAINS

KINDS: dict[str, tuple[str, Mapping[str, Any]]] = {
    "bodies": ("experiment: robot.body.type", BODIES),
    "evolved_controllers": ("experiment: robot.controller.type", EVOLVED_CONTROLLERS),
    "optimizers": ("experiment: optimizer.type", OPTIMIZERS),
    "controllers": ("scene: robot.controller.type", CONTROLLERS),
    "terrains": ("world.terrain", TERRAINS),
    "tasks": ("task.type", TASKS),
    "measures": ("fitness, task.measures", MEASURES),
    "descriptors": ("experiment: fitness, optimizer.archives and objectives; also share_of_SYMBOL", DESCRIPTORS),
    "sensors": ("quantity of a controller's sensors", QUANTITIES),
    "claims": ("study: claims", CLAIMS),
    "settings": (
        "physics, robot.body.materials and robot.hardware",
        {"physics": Physics, "material": Material, "hardware": Hardware},
    ),
}
"""Each kind: the key in a file that takes its names, and its registry."""

FILES = {
    each.model_fields["kind"].default: each for each in (Experiment, Scene, Study, EvaluationSet, Landscape, Reach)
}
"""What `vsr evolve`, `simulate`, `reproduce`, `evaluate --on`, `landscape` and `reach` read."""


@dataclass(frozen=True)
class Parameter:
    name: str
    domain: str
    default: str
    help: str


@dataclass(frozen=True)
class Component:
    name: str
    help: str
    parameters: tuple[Parameter, ...]


def components(kind: str) -> list[Component]:
    """Every component of a kind."""
    return [_component(name, what) for name, what in _known(kind).items()]


def names(kind: str) -> list[str]:
    """Of every component of a kind."""
    return list(_known(kind))


def _known(kind: str) -> dict[str, Any]:
    known = dict(KINDS[kind][1])
    if kind == "measures":
        for task in TASKS.values():
            known |= task.own_measures
    return known


def schema(file: str) -> dict[str, Any]:
    """The JSON schema of a kind of file that extends no other."""
    fields = FILES[file].model_json_schema(schema_generator=DescribedSchema)
    described = {"$schema": "https://json-schema.org/draft/2020-12/schema", **fields}
    if file == "scene":  # what runs write beside it
        described["properties"][EVOLVED] = {
            "type": "object",
            "description": "How a robot evolved, for vsr verify",
        }
    return described


def schema_for_editors(file: str) -> dict[str, Any]:
    """The JSON schema of a kind of file; one that extends another may have any part of it."""
    whole = schema(file)
    shared = {name: whole.pop(name) for name in ("$schema", "$defs") if name in whole}
    other = {"type": "string", "description": "Another file, or the name of a shipped one, that this one changes"}
    parts = {EXTENDS: other, **dict.fromkeys(whole["properties"], True)}
    extending = {"type": "object", "properties": parts, "additionalProperties": False}
    return {**shared, "if": {"required": [EXTENDS]}, "then": extending, "else": whole}


def _component(name: str, what: type[BaseModel] | Callable) -> Component:
    first_line = (inspect.getdoc(inspect.unwrap(what)) or "").split("\n")[0]
    fields, described, help_of = {}, {}, {}
    if isinstance(what, type) and issubclass(what, BaseModel) and what.model_fields:
        fields, described, help_of = what.model_fields, what.model_json_schema()["properties"], field_descriptions(what)
    parameters = tuple(
        Parameter(
            name=field_name,
            domain=_domain(described.get(field_name, {})),
            default="required" if field.is_required() else _shown(field.get_default(call_default_factory=True)),
            help=help_of.get(field_name, "").replace("\n", " "),
        )
        for field_name, field in fields.items()
        if field_name != "type"
    )
    return Component(name, first_line, parameters)


def _domain(schema: dict[str, Any]) -> str:
    """The values that a JSON schema allows, in words."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(_domain, schema["anyOf"])))
    if "enum" in schema or "const" in schema:
        return "|".join(map(str, schema.get("enum", [schema.get("const")])))
    if "$ref" in schema:
        return schema["$ref"].rsplit("/", 1)[-1]
    if schema.get("type") == "array":
        inside = schema.get("prefixItems", [schema.get("items", {})])
        return f"list of {', '.join(dict.fromkeys(map(_domain, inside)))}"
    low = f"[{schema['minimum']:g}" if "minimum" in schema else f"]{schema.get('exclusiveMinimum', -math.inf):g}"
    high = f"{schema['maximum']:g}]" if "maximum" in schema else f"{schema.get('exclusiveMaximum', math.inf):g}["
    bounds = "" if (low, high) == ("]-inf", "inf[") else f" {low}, {high}"
    kind: str = schema.get("type", "anything")
    return {"object": "mapping", "string": "text", "boolean": "true|false"}.get(kind, kind) + bounds


def _shown(value: Any) -> str:
    plain = value.to_plain() if hasattr(value, "to_plain") else value
    if isinstance(plain, dict) and len(str(plain)) > 60:
        return "{" + ", ".join(map(str, plain)) + "}"
    if isinstance(plain, tuple):
        plain = [str(getattr(item, "value", item)) if isinstance(item, str) else item for item in plain]
    return "null" if plain is None else str(plain)
