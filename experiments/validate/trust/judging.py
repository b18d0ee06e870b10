"""Whether a simulation can be believed, by what was seen of it and by nothing that the engine says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vsr.experiments.validate.trust.robots import Kind, Sample
from vsr.experiments.validate.trust.watching import Watch
from vsr.physics.failure import Failure

FROM_NOWHERE = 0.5
"""Energy that may seem to come from nowhere, over the largest energy and all work of actuation. Semi-implicit Euler's
energy swings by up to the angular frequency times half the substep (0.4 at the bound of automatic substeps) while none
is gained; what blows up passes this by orders of magnitude."""
RAISED = 0.25
"""Kinetic energy and that of the weight of a passive robot, over those at the start, over the largest energy."""
SUNK = 0.1
"""Depth of a mass in the ground, over the side of a voxel."""
DRIFTED = 1e-3
"""Momentum that a floating robot may gain, over the sizes of all masses' momenta."""


@dataclass(frozen=True)
class Judged:
    """One simulated robot."""

    robot: Sample
    reported: Failure
    broken: tuple[str, ...]
    """what is wrong by what was seen"""
    creased: bool
    """whether a corner of a voxel was inside out, the voxel as a whole not"""
    seen: dict[str, float]

    @property
    def unreported(self) -> bool:
        """Whether something is wrong that nobody would know of."""
        return bool(self.broken) and self.reported is Failure.none


def judge(kind: Kind, robots: Sequence[Sample], failure: np.ndarray, watch: Watch) -> list[Judged]:
    """Every robot of a batch."""
    return [
        _judged(kind, robot, Failure(int(failure[place])), {name: float(v[place]) for name, v in vars(watch).items()})
        for place, robot in enumerate(robots)
    ]


def _judged(kind: Kind, robot: Sample, reported: Failure, seen: dict[str, float]) -> Judged:
    broken = []
    energy = seen["energy"] + seen["work"]
    if not seen["finite"]:
        broken.append("not finite")
    if not seen["least_size"] > 0:
        broken.append("inside out")
    if not seen["growth"] <= FROM_NOWHERE * energy:
        broken.append("energy from nowhere")
    if (
        robot.control == "passive"
        and kind.ground != "sand"
        and not kind.fluid
        and not seen["raised"] <= RAISED * energy
    ):
        broken.append("too high or too fast")
    if not seen["deepest"] <= SUNK * kind.side:
        broken.append("sunk")
    damped = any(material.linear_damping > 0 for material in robot.materials)
    if robot.start == "floating" and not damped and not seen["drift"] <= DRIFTED * seen["pushing"]:
        broken.append("momentum from nowhere")
    creased = seen["least_corner"] <= 0 < seen["least_size"]
    return Judged(robot, reported, tuple(broken), creased, seen)
