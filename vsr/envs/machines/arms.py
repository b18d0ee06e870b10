"""Arms of revolute joints: where their links are (forward kinematics), and angles that reach a place in one plane."""

from __future__ import annotations

import math
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.linear import product
from vsr.physics.granular import Pose, at_rest
from vsr.physics.granular.bodies import turn_by


@dataclass(frozen=True)
class Arm:
    """A chain of joints, each with an axis in its own frame. Static."""

    base: tuple[float, float, float]
    """[m]"""
    axes: tuple[tuple[float, float, float], ...]
    """unit vectors about which joints turn"""
    offsets: tuple[tuple[float, float, float], ...]
    """of each joint in the frame of the one before, the first from the base [m]"""
    low: tuple[float, ...]
    """least angle of each joint [rad]"""
    high: tuple[float, ...]
    """greatest"""
    speed: tuple[float, ...]
    """top speed of each joint [rad/s]"""

    def poses(self, angle: Array) -> tuple[Pose, ...]:
        """Frames behind each joint, at rest; angle: of joints [rad], (joints,)."""
        place, rotation = jnp.asarray(self.base, angle.dtype), jnp.eye(3, dtype=angle.dtype)
        found = []
        for number, (axis, offset) in enumerate(zip(self.axes, self.offsets, strict=True)):
            place = place + product(rotation, jnp.asarray(offset, angle.dtype))
            rotation = product(rotation, turn_by(angle[number] * jnp.asarray(axis, angle.dtype)))
            found.append(at_rest(place, rotation))
        return tuple(found)

    def turned(self, angle: Array, action: Array, duration: float) -> Array:
        """Angles a duration [s] later; action: speeds over the top ones, from -1 to 1, (joints,)."""
        after = angle + duration * jnp.asarray(self.speed, angle.dtype) * action
        return jnp.clip(after, jnp.asarray(self.low, angle.dtype), jnp.asarray(self.high, angle.dtype))


ALONG, ACROSS = (0.0, 0.0, 1.0), (0.0, 1.0, 0.0)
UPPER, FORE, WRIST, SHOULDER = 0.4, 0.4, 0.13, 0.34
"""Lengths of an arm about as large as a Franka Emika Panda [m]."""

SEVEN_JOINTS = Arm(
    base=(0.0, 0.0, 0.0),
    axes=(ALONG, ACROSS, ALONG, ACROSS, ALONG, ACROSS, ALONG),
    offsets=(
        (0.0, 0.0, 0.0),
        (0.0, 0.0, SHOULDER),
        (0.0, 0.0, 0.5 * UPPER),
        (0.0, 0.0, 0.5 * UPPER),
        (0.0, 0.0, 0.5 * FORE),
        (0.0, 0.0, 0.5 * FORE),
        (0.0, 0.0, WRIST),
    ),
    low=(-2.9, -1.8, -2.9, 0.05, -2.9, -0.2, -2.9),
    high=(2.9, 1.8, 2.9, 2.9, 2.9, 2.65, 2.9),  # a bucket bent further would meet the forearm
    speed=(1.5, 1.5, 1.5, 1.5, 2.0, 2.0, 2.0),
)
"""Rolls and bends in turn, as common arms have them; all angles 0: straight up."""


def planar_angles(ahead: float, up: float, pitch: float, yaw: float = 0.0) -> np.ndarray:
    """Angles of SEVEN_JOINTS that take its last joint ahead of the base and up [m], pitched from the vertical [rad].

    The elbow is above. Raises ValueError for a place out of reach.
    """
    x = ahead - WRIST * math.sin(pitch)
    z = up - SHOULDER - WRIST * math.cos(pitch)
    far = math.hypot(x, z)
    if not abs(UPPER - FORE) < far < UPPER + FORE:
        raise ValueError(f"({ahead:g}, {up:g}) m with a pitch of {pitch:g} rad is out of the arm's reach")
    elbow = math.pi - math.acos((UPPER**2 + FORE**2 - far**2) / (2 * UPPER * FORE))
    shoulder = math.atan2(x, z) - math.atan2(FORE * math.sin(elbow), UPPER + FORE * math.cos(elbow))
    return np.array([yaw, shoulder, 0.0, elbow, 0.0, pitch - shoulder - elbow, 0.0])
