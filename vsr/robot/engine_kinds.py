"""Kinds of masses in a voxel's corners, as a description sees them: each kind has an engine (vsr.physics.engine)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import CoreSchema, PydanticKnownError, core_schema

from vsr.robot.springs import Group


class _Known:
    """Annotation of a name that has to be in MASSES when it is validated, so that plugins may add kinds."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(self._known, serialization=None)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"enum": list(ENGINE_KINDS), "type": "string"}

    @staticmethod
    def _known(name: Any) -> str:
        if not isinstance(name, str) or name not in ENGINE_KINDS:
            *others, last = map(repr, ENGINE_KINDS)
            raise PydanticKnownError("literal_error", {"expected": f"{', '.join(others)} or {last}"})
        return name


EngineName = Annotated[str, _Known()]
"""What lies in a voxel's corners: squares that turn, as in 2D-VSR-Sim, points, in 2-D and 3-D, or EvoGym's points."""
Actuation = Literal["area", "force", "horizontal", "vertical", "none"]
"""What a control value changes: all rest lengths, forces on masses, rest lengths along one direction, nothing."""


@dataclass(frozen=True)
class EngineKind:
    """What a description must know of one kind."""

    dimensions: tuple[int, ...]
    """in which it exists"""
    turns: bool
    """whether it has an extent and an angle"""
    groups: tuple[Group, ...]
    """of springs that can join it"""
    meaningless: tuple[str, ...]
    """fields of a material that it does not have"""
    actuations: tuple[Actuation, ...]
    """that it knows"""
    materials: Mapping[str, Any]
    """of a body that names none, by symbol"""
    default_side: float = 3.0
    """of a voxel, unless a body says otherwise [m]"""
    only_side: bool = False
    """whether there is no other, because constants are for this one"""
    default_world: Mapping[str, float] = field(default_factory=dict)
    """fields of a world that differ from its defaults"""
    default_physics: Mapping[str, float] = field(default_factory=dict)
    """fields of physics that differ from its defaults"""

    def groups_in(self, dimension: int) -> tuple[Group, ...]:
        """Groups of springs that can join it in 2-D or 3-D."""
        return self.groups if dimension == 3 else tuple(g for g in self.groups if g is not Group.space_diagonals)


ENGINE_KINDS: dict[str, EngineKind] = {}
"""Every kind by its name (vsr.robot.kinds has those that are shipped)."""


def default_masses(dimension: int) -> EngineName:
    """The kind that a body has unless it says otherwise: the first that exists in its dimension."""
    return next(name for name, kind in ENGINE_KINDS.items() if dimension in kind.dimensions)


def impossible(engine: EngineName, dimension: int) -> str | None:
    """Why there cannot be such masses in 2-D or 3-D, if so."""
    if dimension in ENGINE_KINDS[engine].dimensions:
        return None
    others = [name for name, kind in ENGINE_KINDS.items() if dimension in kind.dimensions]
    only = " and ".join(f"{size}-D" for size in ENGINE_KINDS[engine].dimensions)
    return f"{engine} only exist in {only}: in {dimension}-D masses are {' or '.join(others)}"
