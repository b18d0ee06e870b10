"""A task that watches its robot at every control call and writes down what could be wrong, whatever is reported.

Energy is judged twice. *Raised* is a bound that a robot cannot pass however it is built: energy of motion, and of
height, is at most that of the start and the work of actuators, less what they took. Motion and height are measured
here, with velocities as they are; only the work needs the engine's springs. *Risen* is what is spurious since there was
the least of it: an energy monitor (vsr.physics.energy_monitor) of this task's own, whose limits it leaves to the suite.
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
from vsr.physics.energy_monitor import SHARE_OF_WORK, EnergyMonitor, begin_monitor, follow_monitor, negligible
from vsr.physics.engine import AnyModel, AnyState, engine_of
from vsr.physics.granular import Grains
from vsr.physics.points.geometry import corners_of_nodes
from vsr.physics.points.model import PointModel
from vsr.physics.squares.geometry import mass_motion
from vsr.physics.squares.model import SquareModel, SquareState
from vsr.tasks import Locomotion
from vsr.world.state import WorldModel, WorldState


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Watch:
    """Observations so far, all ()."""

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
    work: Array
    """of actuators where they put energy in [J]"""
    scale: Array
    """largest energy of motion and springs [J]"""
    risen: Array
    """most spurious energy, with that of grains, since there was the least of it, over scale and work"""
    gained: Array
    """the same since the start, likewise"""
    raised: Array
    """most that motion and height had above those at the start and the work of actuators, likewise"""
    drift: Array
    """largest change of the momentum [kg m/s]"""
    pushing: Array
    """largest sum of the sizes of all masses' momenta [kg m/s]"""
    calls: Array


class _Account(NamedTuple):
    start: AnyState
    grains: Array
    """energy of grains at the start [J]"""
    monitor: EnergyMonitor
    watch: Watch


class WatchedLocomotion(Locomotion):
    """Locomotion, watched."""

    type: Literal["watched"] = "watched"  # pyright: ignore[reportIncompatibleVariableOverride]
    substep: float = 1 / 360
    """[s], which the stiffness of limits depends on"""

    def begin(self, world: WorldModel, state: WorldState) -> _Account:
        model, robot = world.robots[0], state.robots[0]
        still = jnp.zeros_like(model.present)
        monitor = begin_monitor(engine_of(model), model, world.environment, robot, still, self.substep)
        assert monitor is not None
        one = jnp.ones((), model.mass.dtype)
        zeros = dict.fromkeys(Watch.__dataclass_fields__, 0 * one)
        whole = {"finite": jnp.ones((), bool), "least_size": one, "least_corner": one, "scale": monitor.scale}
        return _Account(robot, _of_grains(world, state), monitor, Watch(**{**zeros, **whole}))

    def accumulate(
        self, account: _Account, world: WorldModel, before: WorldState, after: WorldState, action: Array
    ) -> _Account:
        model, environment, robot = world.robots[0], world.environment, after.robots[0]
        engine, seen, start = engine_of(model), account.watch, account.start
        given = _of_grains(world, before) - _of_grains(world, after)
        monitor = follow_monitor(
            account.monitor, engine, model, environment, before.robots[0], robot, action, self.substep, given
        )
        now = engine.energies(model, environment, robot, action, self.substep)
        assert now is not None
        spurious = now.total - monitor.start.total - monitor.received
        worked = monitor.received - (account.grains - _of_grains(world, after))
        raised = _mechanical(world, robot) - _mechanical(world, start) - worked
        raised = raised - jnp.maximum(monitor.start.inner - now.inner, 0)

        def share(energy: Array, work: Array) -> Array:
            """The part of an energy that is not negligible, over the scale and a part of the work."""
            allowed, tiny = negligible(engine, model, environment), jnp.finfo(energy.dtype).tiny
            return (energy - allowed) / (monitor.scale + SHARE_OF_WORK * work + tiny)

        shape = _shape(world, after)
        momentum, pushing, fastest = _motion(model, start, robot)
        watch = Watch(
            finite=seen.finite & _all_finite(after),
            least_size=jnp.minimum(seen.least_size, shape.least_size),
            least_corner=jnp.minimum(seen.least_corner, shape.least_corner),
            creased=seen.creased + (shape.least_corner <= 0),
            deepest=jnp.maximum(seen.deepest, shape.depth),
            fastest=jnp.maximum(seen.fastest, fastest),
            work=monitor.work,
            scale=monitor.scale,
            risen=jnp.maximum(seen.risen, share(monitor.rise, monitor.recent)),
            gained=jnp.maximum(seen.gained, share(spurious, monitor.work)),
            raised=jnp.maximum(seen.raised, share(raised, monitor.work)),
            drift=jnp.maximum(seen.drift, momentum),
            pushing=jnp.maximum(seen.pushing, pushing),
            calls=seen.calls + 1,
        )
        return _Account(start, account.grains, monitor, watch)


def masses_of(model: AnyModel) -> Array:
    """Of all clusters or nodes [kg], 0 where there is none."""
    return model.cluster_mass if isinstance(model, SquareModel) else model.node_mass


def corners_of(model: AnyModel, state: AnyState) -> Array:
    """Centers of the masses in the corners of all voxels [m], numbered by their bits, (corners, c, dimension)."""
    if isinstance(state, SquareState):
        assert isinstance(model, SquareModel)
        return mass_motion(model, state).center[jnp.array((0, 1, 3, 2))]
    assert isinstance(model, PointModel)
    return corners_of_nodes(state.position, model.layer[..., None], model.dimension)


def _mechanical(world: WorldModel, state: AnyState) -> Array:
    """Energy of motion, with velocities as they are, and of height [J]."""
    model, mass = world.robots[0], masses_of(world.robots[0])
    moving = 0.5 * (mass * (state.velocity**2).sum(-1)).sum()
    if isinstance(model, SquareModel):
        assert isinstance(state, SquareState)
        moving = moving + 0.5 * (model.cluster_inertia * state.spin**2).sum()
    return moving + world.environment.gravity * (mass * state.position[..., -1]).sum()


def _all_finite(world: WorldState) -> Array:
    seen = [world.robots, [(one.position, one.velocity) for one in world.systems.values()]]
    return jnp.stack([jnp.isfinite(leaf).all() for leaf in jax.tree.leaves(seen)]).all()


def _of_grains(world: WorldModel, state: WorldState) -> Array:
    """Energy of motion and height of grains [J]."""
    total = jnp.zeros((), world.robots[0].mass.dtype)
    for name, system in world.systems.items():
        if isinstance(system, Grains):
            grains = state.systems[name]
            mass = jnp.broadcast_to(system.mass, grains.id.shape)[grains.id]
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
    """Between the centers of neighboring masses at rest [m], c."""
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
    gradients = []
    for axis in range(dimension):
        gradient = jnp.zeros(corner.shape[1:], corner.dtype)
        for index in (index for index in range(2**dimension) if not index >> axis & 1):
            near = [point[k] if index >> k & 1 else 1 - point[k] for k in range(dimension) if k != axis]
            gradient = gradient + math.prod(near) * (corner[index | 1 << axis] - corner[index])
        gradients.append(gradient)
    if dimension == 2:
        return gradients[0][..., 0] * gradients[1][..., 1] - gradients[0][..., 1] * gradients[1][..., 0]
    return (gradients[0] * jnp.cross(gradients[1], gradients[2])).sum(-1)
