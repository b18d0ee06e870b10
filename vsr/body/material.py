"""Material of a voxel: Table 1 of the 2D-VSR-Sim paper, with its domains, and its table form for arrays.

One description serves square and point masses. What only one of them has is refused for the other where a body is made.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import Field, field_validator, model_validator

from vsr.physics.scaffolding import GROUPS, POINT_GROUPS, Group
from vsr.spec import Real, Spec


class Material(Spec):
    """One kind of voxel. The side length belongs to the body, because all voxels of a robot share it."""

    mass_side_ratio: Annotated[Real, Field(gt=0, le=0.5)] = 0.3
    """side of a mass over side of the voxel (square masses only)"""
    linear_damping: Annotated[Real, Field(ge=0)] = 1.0
    """decay rate of a mass's velocity [1/s]"""
    angular_damping: Annotated[Real, Field(ge=0)] = 1.0
    """decay rate of a mass's spin [1/s] (square masses only)"""
    mass: Annotated[Real, Field(gt=0)] = 1.0
    """mass of each of the masses in a voxel's corners [kg]"""
    friction: Annotated[Real, Field(ge=0)] = 100.0
    """friction coefficient of a mass; contact uses the geometric mean with the ground's"""
    restitution: Annotated[Real, Field(gt=0)] = 0.1
    """restitution coefficient of a mass; contact uses the larger of it and the ground's"""
    spring_frequency: Annotated[Real, Field(gt=0)] = 8.0
    """frequency of each spring-damper on the effective mass between its ends [Hz]"""
    spring_damping_ratio: Annotated[Real, Field(ge=0, le=1)] = 0.3
    """damping ratio of each spring-damper"""
    max_force: Annotated[Real, Field(ge=0)] = 1000.0
    """force on each mass at full control, with force actuation [N]"""
    max_area_change: Annotated[Real, Field(ge=0, le=1)] = 0.2
    """relative change of area (in space: of volume) at full control, with area actuation"""
    scaffolding: tuple[Group, ...] | None = None
    """groups of springs in the voxel; all if absent"""
    actuation: Literal["area", "force"] = "area"
    """what a control value changes: the springs' rest lengths, or forces on the masses"""
    lower_limit: Annotated[Real, Field(ge=0)] = 1.0
    """least distance between the centres of side-adjacent masses, in mass sides; 0 for none (square masses only)"""
    upper_limit: Annotated[Real, Field(ge=1)] | None = None
    """greatest distance between the same centres, over their distance at rest (the paper's ropes); none if absent
    (square masses only)"""
    young_modulus: Annotated[Real, Field(gt=0)] | None = None
    """of the voxel [Pa], instead of spring_frequency; needs density (point masses only)"""
    density: Annotated[Real, Field(gt=0)] | None = None
    """of the voxel [kg/m³], in the plane [kg/m²], instead of mass; needs young_modulus (point masses only)"""

    yield_force: Annotated[Real, Field(gt=0)] | None = None
    """elastic force, pull or push, beyond which a spring breaks for good [N]; never if absent (point masses only)"""

    @field_validator("scaffolding")
    @classmethod
    def _holds_together(cls, groups: tuple[Group, ...] | None) -> tuple[Group, ...] | None:
        if groups is None:
            return None
        if not groups:
            raise ValueError("a voxel without springs falls apart: name at least one side group")
        if len(set(groups)) != len(groups):
            raise ValueError("a group is named twice")
        if set(groups) == {Group.central_cross}:
            raise ValueError(
                "central_cross alone leaves the two diagonals unconnected and the voxel falls apart: "
                "add side_external, side_internal or side_cross"
            )
        if set(groups) & set(GROUPS) and set(groups) & set(POINT_GROUPS):
            raise ValueError(
                f"{', '.join(GROUPS)} are springs between square masses, {', '.join(POINT_GROUPS)} between point "
                "masses: name one kind or the other"
            )
        if len(groups) == 1 and groups[0] in POINT_GROUPS[1:]:
            raise ValueError(f"{groups[0]} alone leaves corners unconnected and the voxel falls apart: add edges")
        return tuple(group for group in (*GROUPS, *POINT_GROUPS) if group in groups)

    @model_validator(mode="after")
    def _solid(self) -> Material:
        if (self.young_modulus is None) != (self.density is None):
            raise ValueError("young_modulus and density go together: give both or none")
        fields = type(self).model_fields
        if self.density is not None and any(
            getattr(self, name) != fields[name].default for name in ("mass", "spring_frequency")
        ):
            raise ValueError("young_modulus and density take the place of spring_frequency and mass: give one pair")
        return self

    def has(self, group: Group) -> bool:
        """Whether voxels of this material have a group of springs."""
        return self.scaffolding is None or group in self.scaffolding

    def misfit(self, masses: Literal["squares", "points"], dimension: int) -> tuple[str, str] | None:
        """If voxels with such masses cannot be of this material, the field to blame and why."""
        if masses == "squares":
            groups, meaningless = GROUPS, ("young_modulus", "density", "yield_force")
        else:
            groups = POINT_GROUPS[:dimension]
            meaningless = ("mass_side_ratio", "angular_damping", "lower_limit", "upper_limit")
        wrong = [group for group in self.scaffolding or () if group not in groups]
        if wrong:
            return "scaffolding", f"{', '.join(wrong)} cannot join {masses}; choose from {', '.join(groups)}"
        fields = type(self).model_fields
        given = [name for name in meaningless if getattr(self, name) != fields[name].default]
        return (given[0], f"it has no meaning for {masses}: leave it out") if given else None


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MaterialTable:
    """Materials as columns, so that a voxel's material is an index. All (materials,) unless said otherwise."""

    mass_side_ratio: Array
    linear_damping: Array
    angular_damping: Array
    mass: Array
    friction: Array
    restitution: Array
    spring_frequency: Array
    spring_damping_ratio: Array
    max_area_change: Array
    """0 for a material with force actuation"""
    max_force: Array | None
    """0 for a material with area actuation; None if all are"""
    groups: Array
    """1 where the material has the group, (materials, groups)"""
    lower_limit: Array | None
    """None if no material has one"""
    upper_limit: Array | None
    """infinite where there is none; None if no material has one"""

    @staticmethod
    def of(materials: Sequence[Material], dtype: jnp.dtype | type = jnp.float32) -> MaterialTable:
        """The table of a sequence of materials, in its order."""

        def column(values: list[float]) -> Array:
            return jnp.asarray(np.array(values), dtype)

        def used(values: list[float], unused: float) -> Array | None:
            return None if all(value == unused for value in values) else column(values)

        plain = (
            *("mass_side_ratio", "linear_damping", "angular_damping", "mass", "friction", "restitution"),
            *("spring_frequency", "spring_damping_ratio"),
        )
        by_force = [material.actuation == "force" for material in materials]
        return MaterialTable(
            **{name: column([getattr(material, name) for material in materials]) for name in plain},
            max_area_change=column([0.0 if f else m.max_area_change for m, f in zip(materials, by_force, strict=True)]),
            max_force=used([m.max_force if f else 0.0 for m, f in zip(materials, by_force, strict=True)], 0.0),
            groups=jnp.asarray(np.array([[m.has(group) for group in GROUPS] for m in materials]), dtype),
            lower_limit=used([m.lower_limit for m in materials], 0.0),
            upper_limit=used([np.inf if m.upper_limit is None else m.upper_limit for m in materials], np.inf),
        )
