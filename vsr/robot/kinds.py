"""The kinds of masses that are shipped, and EvoGym's kinds of voxels as materials.

Those are rigid, soft, horizontal and vertical actuators, by the first letter. For EvoGym's own masses they are what the
program has. For our points they are springs of three stiffnesses, of which actuators drive the horizontal or the
vertical edges.
"""

from __future__ import annotations

from vsr.robot.engine_kinds import ENGINE_KINDS, EngineKind, EngineName
from vsr.robot.material import Material
from vsr.robot.springs import POINT_GROUPS, SQUARE_GROUPS

SYMBOLS = "rshv"
"""EvoGym's 1 to 4; 0 is an empty cell."""

KINDS: dict[EngineName, dict[str, Material]] = {
    "points": {
        "r": Material(spring_frequency=25.0, actuation="none"),
        "s": Material(spring_frequency=5.0, actuation="none"),
        "h": Material(actuation="horizontal", max_area_change=0.25),
        "v": Material(actuation="vertical", max_area_change=0.25),
    },
    "evogym": {
        "r": Material(rigid=True, actuation="none"),
        "s": Material(actuation="none"),
        "h": Material(actuation="horizontal"),
        "v": Material(actuation="vertical"),
    },
}
"""For every kind of masses that can be driven along one direction; actuators change edges by a quarter either way."""

_OF_SQUARES = ("mass_side_ratio", "angular_damping", "lower_limit", "upper_limit")
_OF_POINTS = ("young_modulus", "density", "yield_force", "fluid")
_OF_BOTH = (
    "linear_damping",
    "mass",
    "friction",
    "restitution",
    "spring_frequency",
    "spring_damping_ratio",
    "max_force",
)

ENGINE_KINDS["squares"] = EngineKind(
    dimensions=(2,),
    turns=True,
    groups=SQUARE_GROUPS,
    meaningless=(*_OF_POINTS, "rigid"),
    actuations=("area", "force", "none"),
    materials={"a": Material()},
)
ENGINE_KINDS["points"] = EngineKind(
    dimensions=(2, 3),
    turns=False,
    groups=POINT_GROUPS,
    meaningless=(*_OF_SQUARES, "rigid"),
    actuations=("area", "force", "horizontal", "vertical", "none"),
    materials={"a": Material()},
)
ENGINE_KINDS["evogym"] = EngineKind(
    dimensions=(2,),
    turns=False,
    groups=(),
    meaningless=(*_OF_SQUARES, *_OF_POINTS, *_OF_BOTH, "max_area_change", "scaffolding"),
    actuations=("horizontal", "vertical", "none"),
    materials=KINDS["evogym"],
    default_side=0.1,
    only_side=True,
    default_world={"gravity": 110.0},
    default_physics={"time_step": 0.003, "control_every": 1},
)
