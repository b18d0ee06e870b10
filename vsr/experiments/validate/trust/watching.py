"""A task that watches its robot at every control call and writes down what could be wrong, whatever the engine says.

Energy is judged twice. *Raised* is a bound that a robot cannot pass however it is built: energy of motion, and of
height, is at most that of the start and the work of actuators, less what they took. Motion and height are measured
here, with velocities as they are; only the work needs the engine's springs. *Risen* is what is spurious since
there was the least of it, as the energy monitor sees it (vsr.physics.energy_monitor), by sums of its own.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.environment import Environment
from vsr.environment.surfaces import ground
from vsr.experiments.validate.trust.masses import corners_of, masses_of
from vsr.physics.contract import Energies
from vsr.physics.energy_monitor import negligible
from vsr.physics.engine import AnyModel, AnyState, engine_of
from vsr.physics.grains import Grains
from vsr.physics.squares.model import SquareModel, SquareState
from vsr.tasks import Locomotion
from vsr.world.state import WorldModel, WorldState

PART_OF_WORK = 0.05
"""Of the work that actuators put in, which counts like the largest energy: errors go with what goes through."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Watch:
    """What was seen so far, all ()."""

    finite: Array
    """whether every number was"""
    least_size: Array
    """smallest area or volume of a voxel over that at rest, negative if inside out"""
    least_corner: Array
    """the same of the corner of a voxel"""
    creased: Array
    """calls with a corner inside out"""
    deepest: Array
    """how far a mass was below the ground [m]"""
    fastest: Array
    """mass [m/s]"""
    balance: Array
    """spurious energy since the start, with that of grains [J]"""
    lowest: Array
    """its lowest value so far [J]"""
    received: Array
    """work of actuators, less what they took [J]"""
    work: Array
    """the same where they put energy in [J]"""
    recent: Array
    """the same since the balance was at its lowest [J]"""
    scale: Array
    """largest energy of motion and springs [J]"""
    risen: Array
    """most that the balance rose above its lowest value before, over scale and work"""
    gained: Array
    """most that the balance rose above its value at the start, likewise"""
    raised: Array
    """most that motion and height had above those at the start and what was received, likewise"""
    negligible: Array
    """energy that is too little to tell [J]"""
    drift: Array
    """largest change of the momentum [kg m/s]"""
    pushing: Array
    """largest sum of the sizes of all masses' momenta [kg m/s]"""
    calls: Array


class _Account(NamedTuple):
    start: AnyState
    action: Array
    """in force before"""
    watch: Watch


class Watched(Locomotion):
    """Locomotion, watched."""

    type: Literal["watched"] = "watched"  # pyright: ignore[reportIncompatibleVariableOverride]
    substep: float = 1 / 360
    """[s], which the stiffness of limits depends on"""

    def begin(self, world: WorldModel, state: WorldState) -> _Account:
        model = world.robots[0]
        one = jnp.ones((), model.mass.dtype)
        zeros = dict.fromkeys(Watch.__dataclass_fields__, 0 * one)
        still = jnp.zeros_like(model.present)
        found = engine_of(model).energies(model, world.environment, state.robots[0], still, self.substep)
        assert found is not None
        whole = {"finite": jnp.ones((), bool), "least_size": one, "least_corner": one, "scale": found.scale}
        whole["negligible"] = negligible(engine_of(model), model, world.environment)
        return _Account(state.robots[0], still, Watch(**{**zeros, **whole}))

    def accumulate(
        self, account: _Account, world: WorldModel, before: WorldState, after: WorldState, action: Array
    ) -> _Account:
        seen = account.watch
        shape = _shape(world, after)
        seen_now = self._energies(account, world, before, after, action)
        balance, work = seen.balance + seen_now.growth, seen.work + jnp.maximum(seen_now.work, 0)
        received, scale = seen.received + seen_now.work, jnp.maximum(seen.scale, seen_now.scale)
        recent = jnp.where(balance <= seen.lowest, 0, seen.recent + jnp.maximum(seen_now.work, 0))

        def share(energy: Array, work: Array) -> Array:
            """What is more than negligible of an energy, over the scale and a part of the work."""
            return (energy - seen.negligible) / (scale + PART_OF_WORK * work + jnp.finfo(scale.dtype).tiny)

        momentum, pushing, fastest = _motion(world.robots[0], account.start, after.robots[0])
        watch = Watch(
            finite=seen.finite & _all_finite(after),
            least_size=jnp.minimum(seen.least_size, shape.least_size),
            least_corner=jnp.minimum(seen.least_corner, shape.least_corner),
            creased=seen.creased + (shape.least_corner <= 0),
            deepest=jnp.maximum(seen.deepest, shape.depth),
            fastest=jnp.maximum(seen.fastest, fastest),
            balance=balance,
            lowest=jnp.minimum(seen.lowest, balance),
            received=received,
            work=work,
            recent=recent,
            scale=scale,
            risen=jnp.maximum(seen.risen, share(balance - seen.lowest, recent)),
            gained=jnp.maximum(seen.gained, share(balance, work)),
            raised=jnp.maximum(seen.raised, share(seen_now.lifted - received, work)),
            negligible=seen.negligible,
            drift=jnp.maximum(seen.drift, momentum),
            pushing=jnp.maximum(seen.pushing, pushing),
            calls=seen.calls + 1,
        )
        return _Account(account.start, action, watch)

    def _energies(
        self, account: _Account, world: WorldModel, before: WorldState, after: WorldState, action: Array
    ) -> _Interval:
        model, environment = world.robots[0], world.environment

        def energies(state: AnyState, control: Array) -> Energies:
            found = engine_of(model).energies(model, environment, state, control, self.substep)
            assert found is not None
            return found

        # Mapped, so that the formulas are compiled once.
        was, now = before.robots[0], after.robots[0]
        states = jax.tree.map(lambda *leaves: jnp.stack(leaves), now, was, was, account.start)
        found = jax.vmap(energies)(states, jnp.stack([action, action, account.action, jnp.zeros_like(action)]))
        held, began, ended, start = (jax.tree.map(lambda each, place=place: each[place], found) for place in range(4))
        others = _of_grains(world, after) - _of_grains(world, before)
        lifted = _mechanical(world, now) - _mechanical(world, account.start)
        return _Interval(
            growth=held.total - began.total + others,
            work=began.total - ended.total,
            scale=held.scale,
            lifted=lifted - jnp.maximum(start.inner - held.inner, 0),
        )


class _Interval(NamedTuple):
    """Energies of the time since the last call [J], all ()."""

    growth: Array
    """while controls were held"""
    work: Array
    """of the change of controls before"""
    scale: Array
    """of motion and springs now"""
    lifted: Array
    """what motion and height have more than at the start, without what springs and fluid gave them"""


def _mechanical(world: WorldModel, state: AnyState) -> Array:
    """Energy of motion, with velocities as they are, and of height [J]."""
    model, mass = world.robots[0], masses_of(world.robots[0])
    moving = 0.5 * (mass * (state.velocity**2).sum(-1)).sum()
    if isinstance(model, SquareModel):
        assert isinstance(state, SquareState)
        moving = moving + 0.5 * (model.cluster_inertia * state.spin**2).sum()
    return moving + world.environment.gravity * (mass * state.position[..., -1]).sum()


def _all_finite(world: WorldState) -> Array:
    seen = [world.robots, [(one.position, one.velocity) for one in world.occupants.values()]]
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(seen)]).all()


def _of_grains(world: WorldModel, state: WorldState) -> Array:
    """Energy of motion and height of grains [J]."""
    total = jnp.zeros((), world.robots[0].mass.dtype)
    for name, occupant in world.occupants.items():
        if isinstance(occupant, Grains):
            grains = state.occupants[name]
            mass = jnp.broadcast_to(occupant.mass, grains.id.shape)[grains.id]
            moving = 0.5 * (mass * (grains.velocity**2).sum(0)).sum()
            total = total + moving + world.environment.gravity * (mass * grains.position[-1]).sum()
    return total


def _motion(model: AnyModel, start: AnyState, now: AnyState) -> tuple[Array, Array, Array]:
    """Change of the momentum, sum of the sizes of all momenta [kg m/s], speed of the fastest mass [m/s]."""
    mass = masses_of(model)
    speed = jnp.where(mass > 0, jnp.sqrt((now.velocity**2).sum(-1)), 0)
    changed = (mass[..., None] * (now.velocity - start.velocity)).sum(tuple(range(mass.ndim)))
    return jnp.sqrt((changed**2).sum()), (mass * speed).sum(), speed.max()


class _Shape(NamedTuple):
    least_size: Array
    least_corner: Array
    depth: Array


def _shape(world: WorldModel, state: WorldState) -> _Shape:
    model, environment = world.robots[0], world.environment
    corner, there = corners_of(model, state.robots[0]), model.present > 0
    size, at_corners = sizes(corner, _rest_sides(model))
    return _Shape(
        jnp.where(there, size, 1).min(), jnp.where(there, at_corners, 1).min(), _depth(environment, corner, there)
    )


def _depth(environment: Environment, corner: Array, there: Array) -> Array:
    """Of the lowest mass in the ground [m]."""
    if environment.terrain is None:
        return jnp.zeros((), corner.dtype)
    height = ground(environment.terrain, tuple(jnp.moveaxis(corner, -1, 0))).height
    return jnp.maximum(jnp.where(there, -height, 0).max(), 0)


def _rest_sides(model: AnyModel) -> Array:
    """Between the centres of neighbouring masses at rest [m], c."""
    inside = 2 * model.half_side if isinstance(model, SquareModel) else 0
    return (model.voxel_side - inside) * jnp.ones_like(model.present)


def sizes(corner: Array, rest: Array) -> tuple[Array, Array]:
    """Area or volume of voxels, c, and its density in their corners, (corners, c), over those at rest.

    A voxel is the image of a square or cube under the map that is linear along each edge; where the determinant of its
    derivative is negative, it is inside out. corner: [m], (corners, c, dimension); rest: sides at rest [m], c.
    """
    dimension = corner.shape[-1]
    inner = 0.5 - 0.5 / 3**0.5  # two such points along each axis integrate the determinant without error
    within = [_determinant(corner, point) for point in itertools.product((inner, 1 - inner), repeat=dimension)]
    at_corners = [_determinant(corner, point) for point in itertools.product((0.0, 1.0), repeat=dimension)]
    return jnp.stack(within).mean(0) / rest**dimension, jnp.stack(at_corners) / rest**dimension


def _determinant(corner: Array, point: tuple[float, ...]) -> Array:
    """Of the map's derivative at a point of the unit square or cube, c."""
    dimension = corner.shape[-1]
    slopes = []
    for axis in range(dimension):
        slope = jnp.zeros(corner.shape[1:], corner.dtype)
        for index in (index for index in range(2**dimension) if not index >> axis & 1):
            near = [point[k] if index >> k & 1 else 1 - point[k] for k in range(dimension) if k != axis]
            slope = slope + math.prod(near) * (corner[index | 1 << axis] - corner[index])
        slopes.append(slope)
    if dimension == 2:
        return slopes[0][..., 0] * slopes[1][..., 1] - slopes[0][..., 1] * slopes[1][..., 0]
    return (slopes[0] * jnp.cross(slopes[1], slopes[2])).sum(-1)
