"""Material of a voxel: Table 1 of the 2D-VSR-Sim paper, with its domains, and its table form for arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import Field, field_validator

from vsr.physics.scaffolding import GROUPS, Group
from vsr.spec import Real, Spec


class Material(Spec):
    """One kind of voxel. The side length belongs to the body, because all voxels of a robot share it."""

    mass_side_ratio: Annotated[Real, Field(gt=0, le=0.5)] = 0.3
    """side of a mass over side of the voxel"""
    linear_damping: Annotated[Real, Field(ge=0)] = 1.0
    """decay rate of a mass's velocity [1/s]"""
    angular_damping: Annotated[Real, Field(ge=0)] = 1.0
    """decay rate of a mass's spin [1/s]"""
    mass: Annotated[Real, Field(gt=0)] = 1.0
    """mass of each of the four masses [kg]"""
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
    """relative change of area at full control, with area actuation"""
    scaffolding: tuple[Group, ...] = GROUPS
    """groups of springs in the voxel"""
    actuation: Literal["area", "force"] = "area"
    """what a control value changes: the springs' rest lengths, or forces on the masses"""
    lower_limit: Annotated[Real, Field(ge=0)] = 1.0
    """least distance between the centres of side-adjacent masses, in mass sides; 0 for none"""
    upper_limit: Annotated[Real, Field(ge=1)] | None = None
    """greatest distance between the same centres, over their distance at rest (the paper's ropes); none if absent"""

    @field_validator("scaffolding")
    @classmethod
    def _holds_together(cls, groups: tuple[Group, ...]) -> tuple[Group, ...]:
        if not groups:
            raise ValueError("a voxel without springs falls apart: name at least one side group")
        if len(set(groups)) != len(groups):
            raise ValueError("a group is named twice")
        if set(groups) == {Group.central_cross}:
            raise ValueError(
                "central_cross alone leaves the two diagonals unconnected and the voxel falls apart: "
                "add side_external, side_internal or side_cross"
            )
        return tuple(group for group in GROUPS if group in groups)


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
            groups=jnp.asarray(np.array([[group in m.scaffolding for group in GROUPS] for m in materials]), dtype),
            lower_limit=used([m.lower_limit for m in materials], 0.0),
            upper_limit=used([np.inf if m.upper_limit is None else m.upper_limit for m in materials], np.inf),
        )
