"""Nodes against planes, spheres and the ground: no entering, Coulomb friction, restitution.

After every step a node inside an obstacle is put back on its surface; the part of its velocity that leads inwards is
taken away (or thrown back), and with it as much of the sliding as friction can hold; what friction holds does not move
in that step either, so a body at rest on a slope stays where it is. Nodes are points, so each is resolved exactly and
alone.

A node that bounces had reached the surface earlier, and was sped up (or slowed) inside by whatever pulls it. It leaves
with e times the speed that keeps its energy, e being the restitution, and so with e = 1 a bounce keeps energy to first
order in the step; with e = 0 nothing of this matters. A node bounces only if it came towards the surface before the
step, and as fast as asked for: the step's own force presses what lies there, and must not throw it off.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.gpu.language import anyone
from vsr.compute.gradients import gradients_needed, root, share_of
from vsr.compute.vector import Vector, dot, minus, plus, times
from vsr.compute.xla import for_cpu, in_kernel, materialize
from vsr.environment.model import Environment
from vsr.environment.surfaces import Surface, combined_friction, combined_restitution, surfaces
from vsr.lattice.integrators import NodeState

LEAST_SHARE = 1e-4
"""Of a blow that a constrained node must feel; one that moves along a surface cannot be pushed off it."""


class _Step(NamedTuple):
    """What is known of the step that ends: see `touch`."""

    before: NodeState | None
    bounce_speed: Array | float
    freedom: Sequence[Vector] | None
    acceleration: Vector | None
    lag: Array | float


def touch(
    environment: Environment,
    moving: NodeState,
    free: Array,
    friction: Array | None = None,
    restitution: Array | None = None,
    *,
    before: NodeState | None = None,
    bounce_speed: Array | float = 0.0,
    freedom: Sequence[Vector] | None = None,
    acceleration: Vector | None = None,
    lag: Array | float = 0.0,
) -> NodeState:
    """Resolve contact with every obstacle.

    free: whether a node can move; friction, restitution: the nodes' own coefficients, combined with the obstacle's
    (vsr.environment.surfaces); without them the obstacle's alone count. before: the motion
    before the step, so that friction holds nodes where they were, and that only what came faster than bounce_speed
    [m/s] bounces; freedom: rows of projections onto the directions in
    which they may move, None if all are free; acceleration: mean of the step [m/s²], so that bounces keep energy; lag:
    by how much velocities are older than positions [s] (vsr.lattice.integrators.LAG).
    """
    step = _Step(before, bounce_speed, freedom, acceleration, lag)
    for obstacle in surfaces(environment, moving.position):
        if friction is not None:
            obstacle = obstacle._replace(friction=combined_friction(friction, obstacle.friction))
        if restitution is not None:
            obstacle = obstacle._replace(restitution=combined_restitution(restitution, obstacle.restitution))
        inside = (obstacle.height < 0) & free
        if in_kernel():  # most nodes are far from everything
            resolved = partial(_resolve, obstacle, moving, inside, step)
            moving = jax.lax.cond(anyone(inside), resolved, lambda moving=moving: moving)
        else:
            moving = _resolve(obstacle, moving, inside, step)
    return moving


def _resolve(obstacle: Surface, moving: NodeState, inside: Array, step: _Step) -> NodeState:
    # `out` is how a node leaves per meter of height: along the normal, or as near to it as a constraint lets it. The
    # constraint bears the rest, which presses on the surface too, so friction holds `pressing` times as much.
    out, pressing = obstacle.normal, 1.0
    if step.freedom is not None:
        allowed = tuple(dot(row, obstacle.normal) for row in step.freedom)
        share = dot(allowed, obstacle.normal)
        inside = inside & (share > LEAST_SHARE)
        pressing = 1 / jnp.maximum(share, LEAST_SHARE)
        out = times(pressing, allowed)
    speed = dot(moving.velocity, obstacle.normal)
    hits = inside & (speed < 0)
    rise, rebound = _bounce(obstacle, speed, step)
    bounces = hits
    if step.before is not None:
        bounces = hits & (dot(step.before.velocity, obstacle.normal) < -step.bounce_speed)
    blow = jnp.where(hits, jnp.where(bounces, obstacle.restitution * rebound, 0) - speed, 0)
    sliding = minus(moving.velocity, times(speed, out))
    pace = root(dot(sliding, sliding))
    held = share_of(obstacle.friction * pressing * blow, pace)
    lift = jnp.where(inside, jnp.where(bounces, obstacle.restitution * rise, 0) - obstacle.height, 0)
    held, blow, lift, speed = materialize(moving.position[0], (held, blow, lift, speed))
    sliding = minus(moving.velocity, times(speed, out))
    position = plus(moving.position, times(lift, out))
    if step.before is not None:
        moved = minus(moving.position, step.before.position)
        position = minus(position, times(held, minus(moved, times(dot(moved, obstacle.normal), out))))
    return NodeState(position, plus(minus(moving.velocity, times(held, sliding)), times(blow, out)))


def _bounce(obstacle: Surface, speed: Array, step: _Step) -> tuple[Array, Array]:
    """Height [m] and speed out of the surface [m/s] after a bounce that loses nothing; speed: as it came.

    The node has the same energy outside as inside, the step's acceleration being the same for both. Any height would
    do for that; at half of the depth, what springs change meanwhile cancels on average. A node that cannot rise so high
    is put on the surface.
    """
    depth = -obstacle.height
    if step.acceleration is None:
        return depth, -speed
    pull = dot(step.acceleration, obstacle.normal)

    def work() -> tuple[Array, Array]:
        squared = (speed + step.lag * pull) ** 2 + 2 * pull * depth
        higher = squared + pull * depth
        leaves = root(jnp.maximum(jnp.where(higher > 0, higher, squared), 0))
        return jnp.where(higher > 0, 0.5 * depth, 0), jnp.maximum(leaves - step.lag * pull, 0)

    if gradients_needed() or not for_cpu():
        return work()
    # Most obstacles throw nothing back, and then it is not worth the time.
    return jax.lax.cond(jnp.any(obstacle.restitution > 0), work, lambda: (jnp.zeros_like(speed),) * 2)
