"""Whether a simulation can be believed, by what was seen of it and by nothing that the engine says."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vsr.evidence.validate.trust.robots import TIME_STEP, Kind, Sample
from vsr.evidence.validate.trust.watching import Watch
from vsr.physics.failure import Failure

SUNK = 0.1
"""Depth of a mass in the ground, over the side of a voxel."""
FAST = 0.25
"""Way of a mass in one substep, over the side of a voxel: with more, steps cannot follow it."""
DRIFTED = 1e-3
"""Momentum that a floating robot may gain, over the sizes of all masses' momenta; rounding comes on top."""
RISEN, RAISED = 0.6, 0.5
"""Shares of the largest energy that are spurious, and that a robot has beyond what it can have (`Watch`): with
more it is broken."""
RISES, RAISES = 0.3, 0.05
"""With less of both it is fine. Between them nobody can tell, and a report is neither missed nor needless."""
UNSEEN = (Failure.crowded, Failure.leaking)
"""Failures that are counted where they happen and cannot be seen from outside: whoever reports one is right."""
CALL = 2
"""Time steps from one control call to the next."""


@dataclass(frozen=True)
class Judged:
    """One simulated robot."""

    robot: Sample
    reported: Failure
    broken: tuple[str, ...]
    """what is wrong by what was seen"""
    unsure: bool
    """whether its energy lies between what is fine and what is broken"""
    creased: bool
    """whether a corner of a voxel was inside out, the voxel as a whole not"""
    seen: dict[str, float]

    @property
    def unreported(self) -> bool:
        """Whether something is wrong that nobody would know of."""
        return bool(self.broken) and self.reported is Failure.none

    @property
    def needless(self) -> bool:
        """Whether it is reported, and nothing is wrong."""
        unsure = self.reported in UNSEEN or (self.reported is Failure.gained_energy and self.unsure)
        return bool(self.reported) and not self.broken and not unsure


def judge(kind: Kind, substeps: int, robots: Sequence[Sample], failure: np.ndarray, watch: Watch) -> list[Judged]:
    """Every robot of a batch."""
    return [
        _judged(
            kind,
            substeps,
            robot,
            Failure(int(failure[place])),
            {name: float(values[place]) for name, values in vars(watch).items()},
        )
        for place, robot in enumerate(robots)
    ]


def _judged(kind: Kind, substeps: int, robot: Sample, reported: Failure, seen: dict[str, float]) -> Judged:
    broken = []
    if not seen["finite"]:
        broken.append("not finite")
    if not seen["least_size"] > 0:
        broken.append("inside out")
    if not seen["fastest"] * TIME_STEP / substeps <= FAST * kind.side:
        broken.append("too fast for its steps")
    broken += _faults_of_energy(kind, seen)
    if not seen["deepest"] <= SUNK * kind.side:
        broken.append("sunk")
    damped = any(material.linear_damping > 0 for material in robot.materials)
    if robot.start == "floating" and not damped and not seen["drift"] <= _drift_allowed(substeps, robot, seen):
        broken.append("momentum from nowhere")
    creased = seen["least_corner"] <= 0 < seen["least_size"]
    unsure = seen["risen"] > RISES or seen["raised"] > RAISES
    return Judged(robot, reported, tuple(broken), unsure, creased, seen)


def _faults_of_energy(kind: Kind, seen: dict[str, float]) -> list[str]:
    # Grains that are pressed hold energy which is not seen; they may give back what they took.
    if kind.ground == "sand":
        return [] if seen["gained"] <= RISEN else ["spurious energy gain"]
    broken = []
    # Near the bound of stability, energy swings without limit while none is gained.
    if not kind.coarsest and not seen["risen"] <= RISEN:
        broken.append("spurious energy gain")
    if not seen["raised"] <= RAISED:
        broken.append("too high or too fast")
    return broken


def _mass(robot: Sample) -> float:
    """Of all masses in the corners of voxels, also of those that neighbours share [kg]."""
    masses = [robot.materials[index].mass for index in robot.cells[robot.cells >= 0].tolist()]
    return 2**robot.cells.ndim * sum(masses)


def _drift_allowed(substeps: int, robot: Sample, seen: dict[str, float]) -> float:
    """Momentum that a floating robot may gain [kg m/s]: a share of its masses' momenta, and what rounding adds up to.

    Impulses of springs are rounded to 24 bits in every substep, and are no larger than the momentum that goes with the
    largest energy, also that which a change of control gives them and dampers take away before the next call; these
    errors are as often of one sign as of the other.
    """
    added = 2 * seen["calls"] * CALL * substeps
    energy = seen["scale"] + seen["work"] / max(seen["calls"], 1)
    rounded = float(np.finfo(np.float32).eps) * math.sqrt(added * _mass(robot) * energy)
    return DRIFTED * seen["pushing"] + rounded
