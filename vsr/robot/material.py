"""Material of a voxel: Table 1 of the 2D-VSR-Sim paper, with its domains.

One description serves square and point masses. What only one of them has is refused for the other where a body is made.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, field_validator, model_validator

from vsr.robot.engine_kinds import ENGINE_KINDS, Actuation, EngineName
from vsr.robot.fluid import Fluid
from vsr.robot.springs import POINT_GROUPS, SQUARE_GROUPS, Group
from vsr.spec import Real, Spec, Switch

LITTLE_DAMPING = 0.15
"""Damping ratio of springs below which errors of steps may outgrow what is lost: found by trying."""


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
    restitution: Annotated[Real, Field(gt=0, le=1)] = 0.1
    """restitution coefficient of a mass; contact uses the larger of it and the ground's"""
    spring_frequency: Annotated[Real, Field(ge=0)] = 8.0
    """frequency of each spring-damper on the effective mass between its ends [Hz]"""
    spring_damping_ratio: Annotated[Real, Field(ge=0, le=1)] = 0.3
    """damping ratio of each spring-damper"""
    max_force: Annotated[Real, Field(ge=0)] = 1000.0
    """force on each mass at full control, with force actuation [N]"""
    max_area_change: Annotated[Real, Field(ge=0, le=1)] = 0.2
    """relative change of area (in 3-D: of volume) at full control, with area actuation"""
    scaffolding: tuple[Group, ...] | None = None
    """groups of springs in the voxel; all if absent"""
    actuation: Actuation = "area"
    """what a control value changes: rest lengths of all springs, forces on the masses, rest lengths of horizontal or of
    vertical edges only (points and evogym), or nothing"""
    lower_limit: Annotated[Real, Field(ge=0)] = 1.0
    """least distance between the centers of side-adjacent masses, in mass sides; 0 for none (square masses only)"""
    upper_limit: Annotated[Real, Field(ge=1)] | None = None
    """greatest distance between the same centers, over their distance at rest (the paper's ropes); none if absent
    (square masses only)"""
    young_modulus: Annotated[Real, Field(gt=0)] | None = None
    """of the voxel [Pa], instead of spring_frequency; needs density (point masses only)"""
    density: Annotated[Real, Field(gt=0)] | None = None
    """of the voxel [kg/m³], in 2-D [kg/m²], instead of mass; needs young_modulus (point masses only)"""

    yield_force: Annotated[Real, Field(gt=0)] | None = None
    """elastic force, pull or push, beyond which a spring breaks for good [N]; never if absent (point masses only)"""
    rigid: Switch = False
    """whether lengths change by 3 % at most (evogym masses only)"""
    fluid: Fluid | None = None
    """what fills the voxel instead of springs; the rest then reports the membrane around it (point masses only)"""

    @property
    def hardly_damps(self) -> bool:
        """Whether its springs lose so little energy that errors may bring more (vsr.physics.energy_monitor)."""
        return self.spring_damping_ratio < LITTLE_DAMPING

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
        if set(groups) & set(SQUARE_GROUPS) and set(groups) & set(POINT_GROUPS):
            raise ValueError(
                f"{', '.join(SQUARE_GROUPS)} are springs between square masses, {', '.join(POINT_GROUPS)} between "
                "point masses: name one kind or the other"
            )
        if len(groups) == 1 and groups[0] in POINT_GROUPS[1:]:
            raise ValueError(f"{groups[0]} alone leaves corners unconnected and the voxel falls apart: add edges")
        return tuple(group for group in (*SQUARE_GROUPS, *POINT_GROUPS) if group in groups)

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

    def issue(self, engine: EngineName, dimension: int) -> tuple[str, str] | None:
        """If voxels with such masses cannot be of this material, the field to blame and why."""
        kind = ENGINE_KINDS[engine]
        groups = kind.groups_in(dimension)
        wrong = [group for group in self.scaffolding or () if group not in groups]
        if wrong:
            return "scaffolding", f"{', '.join(wrong)} cannot join {engine}; choose from {', '.join(groups)}"
        if self.actuation not in kind.actuations:
            return "actuation", f"{engine} know no {self.actuation}; choose from {', '.join(kind.actuations)}"
        fields = type(self).model_fields
        given = [name for name in kind.meaningless if getattr(self, name) != fields[name].default]
        if "fluid" in given:
            return "fluid", f"{engine} cannot hold fluid: give the body `engine: points`"
        return (given[0], f"it has no meaning for {engine}: leave it out") if given else None
