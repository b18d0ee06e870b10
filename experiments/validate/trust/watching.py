"""A task that watches its robot at every control call and writes down what could be wrong, whatever the engine says.

Between two calls nothing feeds energy into a robot: rest lengths, forces and drives of pumps are held. So what its
energy grows by from one call to the next comes from nowhere. Added up over an episode this is the *ledger*. Dampers,
friction, impacts and grains may only lower it, whatever the controller does.
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
from vsr.physics.engine import AnyModel, AnyState, engine_of
from vsr.physics.grains import Grains
from vsr.physics.ledger import FROM_NOWHERE, negligible
from vsr.physics.squares.model import SquareModel
from vsr.tasks import Locomotion
from vsr.world import WorldModel, WorldState


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
    ledger: Array
    """see above [J]"""
    lowest: Array
    """the ledger's lowest value so far [J]"""
    growth: Array
    """most that the ledger rose above its lowest value before, beyond a share of the energy and of the work since then
    [J]"""
    gained: Array
    """most that the ledger rose above its value at the start [J]"""
    energy: Array
    """largest kinetic energy, or change of the potential energy between two calls [J]"""
    work: Array
    """sizes of what actuation did, added up [J]"""
    recent: Array
    """the same since the ledger was at its lowest [J]"""
    raised: Array
    """largest kinetic energy and that of the weight, over those at the start and what all else has given them [J]"""
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
        whole = {"finite": jnp.ones((), bool), "least_size": one, "least_corner": one, "energy": found.motion}
        whole["negligible"] = negligible(engine_of(model), model, world.environment)
        return _Account(state.robots[0], still, Watch(**{**zeros, **whole}))

    def accumulate(
        self, account: _Account, world: WorldModel, before: WorldState, after: WorldState, action: Array
    ) -> _Account:
        seen = account.watch
        shape = _shape(world, after)
        growth, energy, work, raised = self._energies(account, world, before, after, action)
        ledger, energy = seen.ledger + growth, jnp.maximum(seen.energy, energy)
        recent = jnp.where(ledger <= seen.lowest, 0, seen.recent + jnp.abs(work))
        momentum, pushing, fastest = _motion(world.robots[0], account.start, after.robots[0])
        watch = Watch(
            finite=seen.finite & _all_finite(after),
            least_size=jnp.minimum(seen.least_size, shape.least_size),
            least_corner=jnp.minimum(seen.least_corner, shape.least_corner),
            creased=seen.creased + (shape.least_corner <= 0),
            deepest=jnp.maximum(seen.deepest, shape.depth),
            fastest=jnp.maximum(seen.fastest, fastest),
            ledger=ledger,
            lowest=jnp.minimum(seen.lowest, ledger),
            growth=jnp.maximum(seen.growth, ledger - seen.lowest - FROM_NOWHERE * (energy + recent)),
            gained=jnp.maximum(seen.gained, ledger),
            energy=energy,
            work=seen.work + jnp.abs(work),
            recent=recent,
            raised=jnp.maximum(seen.raised, raised),
            negligible=seen.negligible,
            drift=jnp.maximum(seen.drift, momentum),
            pushing=jnp.maximum(seen.pushing, pushing),
            calls=seen.calls + 1,
        )
        return _Account(account.start, action, watch)

    def _energies(
        self, account: _Account, world: WorldModel, before: WorldState, after: WorldState, action: Array
    ) -> tuple[Array, Array, Array, Array]:
        """Growth of the energy since the last call, its largest part, what the change of controls then did, and what
        motion and weight have more than at the start, without what all else gave them [J]."""
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
        moved = held.weight + held.inner - began.weight - began.inner
        others = _of_grains(world, after) - _of_grains(world, before)
        return (
            held.motion - began.motion + moved + others,
            jnp.maximum(held.motion, jnp.abs(moved)),
            began.inner - ended.inner,
            held.motion + held.weight - start.motion - start.weight - jnp.maximum(start.inner - held.inner, 0),
        )


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
