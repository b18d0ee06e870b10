"""How a robot stands on its ground: how much of it touches, how long, how deep. 2-D robots only.

A voxel touches at a moment if the gap between a corner of its hull and the hard ground, or between one of its sides and
a grain, is less than NEAR of a voxel's side. This is geometry alone, so that it means the same on hard ground and on
sand; the contact sensor knows hard ground only. Moments are those of control calls.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.episode import Scenario, Trajectory
from vsr.physics.engine import AnyState, engine_of
from vsr.physics.granular.system import Grains
from vsr.robot.corners import RING
from vsr.terrain import surface

NEAR = 0.01
"""Gap within which a voxel touches, in voxel sides: more than contacts give way, less than a foot is lifted."""
ARRIVAL = 1.0
"""Time in which a robot lands, which is not counted [s]."""
FOOT = 0.05
"""Share of the time that a voxel touches, from which on it is a foot."""


class Gait(NamedTuple):
    """Means over the time after landing, each ()."""

    contact: Array
    """voxels that touch at a time"""
    feet: Array
    """voxels that touch in at least FOOT of the time"""
    duty: Array
    """share of the time that a foot touches, mean over feet; not a number without any"""
    sinkage: Array
    """how far the lowest corner is below the surface, 0 while it is above [m]"""


def gait_of(scenario: Scenario, trajectory: Trajectory) -> Gait:
    """Of a recorded episode; shorter ones than twice ARRIVAL are counted from their middle on."""
    last = trajectory.time[-1]
    counted = (trajectory.time >= jnp.minimum(ARRIVAL, 0.5 * last)).astype(last.dtype)
    weight = counted / counted.sum()

    def at_moment(frame: Any) -> tuple[Array, Array]:
        return contact(scenario, *frame)

    in_contact, depth = jax.lax.map(at_moment, (trajectory.state, trajectory.systems or {}))
    share = jnp.tensordot(weight, in_contact.astype(weight.dtype), 1)  # of the time, *cells
    foot = share >= FOOT
    return Gait(
        contact=share.sum(),
        feet=foot.sum().astype(weight.dtype),
        duty=jnp.where(foot, share, 0).sum() / foot.sum(),
        sinkage=weight @ depth,
    )


def contact(scenario: Scenario, robot: AnyState, others: dict[str, Any]) -> tuple[Array, Array]:
    """Which voxels touch, *cells, and how far the lowest corner is below the surface [m], ().

    others: what is seen of whatever else moves, by name.
    """
    model, world = scenario.model, scenario.world
    corner = engine_of(model).hull(model, robot).position
    present = model.present > 0
    terrain = world.environment.terrain
    if terrain is None or terrain.line is None:
        raise TypeError("a gait is measured over a line of ground, and this world has none")
    over = corner[..., 1] - surface(terrain.line, corner[..., 0])[0]
    gap, height = over.min(0), over
    for name, system in world.systems.items():
        if isinstance(system, Grains):
            gap = jnp.minimum(gap, _gap_to_grains(system, others[name].position, corner))
            height = corner[..., 1]  # the surface of sand is level, at 0
    lowest = jnp.where(present, height, jnp.inf).min()
    return present & (gap < NEAR * model.voxel_side), jnp.maximum(-lowest, 0)


def _gap_to_grains(grains: Grains, position: Array, corner: Array) -> Array:
    """From the sides of every voxel to the nearest grain [m], *cells; position: (grains, 2), corner: (4, *cells, 2)."""
    first = corner[jnp.array(RING)]
    along = (jnp.roll(first, -1, 0) - first)[..., None, :]
    size, cyclic = (jnp.asarray(part) for part in (grains.box.size, grains.box.cyclic))
    way = position - first[..., None, :]  # (4, *cells, grains, 2)
    way = way - jnp.where(cyclic, size * jnp.round(way / size), 0).astype(way.dtype)
    share = (way * along).sum(-1) / jnp.maximum((along**2).sum(-1), jnp.finfo(way.dtype).tiny)
    away = way - jnp.clip(share, 0, 1)[..., None] * along
    return (jnp.sqrt((away**2).sum(-1)) - grains.radius).min((0, -1))
