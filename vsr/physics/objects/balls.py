"""Free balls (in 2-D: discs): they fall, roll on the ground, are pushed by robots and push back.

Contact is found where a point of a robot is inside a ball, and resolved for all pairs at once: each pair gets its share
of the masses that others touch too (mass splitting), so that many points together do not push too hard. Coulomb
friction with rolling; restitution for fast approaches; depth beyond a slop is undone in a fixed time (Baumgarte). Balls
do not touch each other, and small ones pass between the points of a robot.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.vector import join, split
from vsr.environment import Environment
from vsr.environment.model import by_components
from vsr.environment.surfaces import BOUNCE_SPEED, SLOP, combined_friction, combined_restitution, surfaces
from vsr.physics.contract import Met, SurfacePoints
from vsr.physics.telemetry import failure_of

CORRECTION_TIME = 0.05
"""In which depth beyond the slop is undone [s]; short enough to carry weight, too long to throw anything back."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Balls:
    """What stays as it is. SI units."""

    start: Array
    """centres at the start [m], (balls, dimension)"""
    radius: Array
    """[m], (balls,)"""
    mass: Array
    """[kg], (balls,)"""
    friction: Array
    """coefficient, (balls,)"""
    restitution: Array
    """coefficient, (balls,)"""
    stride: ClassVar[int] = 1
    cover: ClassVar[float] = 0.0

    def rest_state(self, robots: tuple[Met, ...] = ()) -> BallState:
        dimension = self.start.shape[-1]
        spin = jnp.zeros((len(self.radius), 1 if dimension == 2 else 3), self.start.dtype)
        return BallState(self.start, jnp.zeros_like(self.start), spin)

    def step(
        self, environment: Environment, state: BallState, robots: tuple[Met, ...], duration: float
    ) -> tuple[BallState, tuple[Met, ...]]:
        state, after = self.advance(environment, state, duration), []
        for robot in robots:
            state, impulses = self.meet(state, robot.points, duration)
            after.append(robot.pushed(impulses))
        return state, tuple(after)

    def seen(self, state: BallState) -> BallState:
        return state

    def advance(self, environment: Environment, state: BallState, substep: float) -> BallState:
        """The state a substep [s] later, as if there were no robots."""
        down = jnp.zeros(state.position.shape[-1], state.position.dtype).at[-1].set(-1)
        velocity = state.velocity + substep * environment.gravity * down
        moved = BallState(state.position + substep * velocity, velocity, state.spin)
        return self._on_ground(environment, moved)

    def meet(self, state: BallState, points: SurfacePoints, substep: float) -> tuple[BallState, Array]:
        """The state after meeting a robot, and the impulses on the robot's points [N s], like their positions."""
        axes = points.inverse_mass.ndim
        flat = jax.tree.map(lambda part: part.reshape(-1, *part.shape[axes:]), points)
        pairs = self._pairs(state, flat, points.inverse_mass.shape)
        impulse = self._impulses(state, flat, pairs)
        lever = self.radius[:, None, None] * pairs.normal
        pushed = BallState(
            state.position,
            state.velocity - impulse.sum(1) / self.mass[:, None],
            state.spin - _cross(lever, impulse).sum(1) / self._inertia[:, None],
        )
        return pushed, impulse.sum(0).reshape(points.position.shape)

    def failure(self, state: BallState) -> Array:
        return failure_of((state.position.sum(-1), state.spin.sum(-1)), state.velocity).max()

    def momentum(self, state: BallState) -> Array:
        """Linear momentum [kg m/s], (dimension,)."""
        return (self.mass[:, None] * state.velocity).sum(0)

    @property
    def _inertia(self) -> Array:
        """About the centre: of a disc in 2-D, of a solid ball in 3-D [kg m²], (balls,)."""
        return (0.5 if self.start.shape[-1] == 2 else 0.4) * self.mass * self.radius**2

    def _on_ground(self, environment: Environment, state: BallState) -> BallState:
        """Put back on the surface what sank in, with the impulse and the friction of a rolling ball."""
        for surface in surfaces(by_components(environment), split(state.position, 1)):
            normal = join(tuple(jnp.broadcast_to(part, self.radius.shape) for part in surface.normal), 1)
            depth = self.radius - surface.height
            touches = depth > 0
            friction = combined_friction(self.friction, surface.friction)
            restitution = combined_restitution(self.restitution, surface.restitution)
            at_foot = state.velocity + _across(state.spin, -self.radius[:, None] * normal)
            approach = (at_foot * normal).sum(-1)
            wanted = jnp.where(approach < -BOUNCE_SPEED, -restitution * approach, 0)
            press = jnp.where(touches, jnp.maximum(wanted - approach, 0) * self.mass, 0)
            sliding = at_foot - approach[:, None] * normal
            held = _coulomb(sliding, friction * press, 1 / self.mass + self.radius**2 / self._inertia)
            impulse = press[:, None] * normal + held
            state = BallState(
                state.position + jnp.where(touches, jnp.maximum(depth - SLOP, 0), 0)[:, None] * normal,
                state.velocity + impulse / self.mass[:, None],
                state.spin + _cross(-self.radius[:, None] * normal, impulse) / self._inertia[:, None],
            )
        return state

    def _pairs(self, state: BallState, points: SurfacePoints, shape: tuple[int, ...]) -> _Pairs:
        between = points.position - state.position[:, None]
        distance = jnp.sqrt((between**2).sum(-1) + jnp.finfo(between.dtype).tiny)
        depth = self.radius[:, None] - distance
        touches = (depth > 0) & points.exists
        at_carrier = touches.sum(0, keepdims=True)
        if points.lever is not None:  # all points of a carrier, which the first axis counts, share its mass
            by_carrier = at_carrier.reshape(shape).sum(0, keepdims=True)
            at_carrier = jnp.broadcast_to(by_carrier, shape).reshape(at_carrier.shape)
        return _Pairs(
            normal=between / distance[..., None],
            depth=depth,
            touches=touches,
            on_ball=jnp.maximum(touches.sum(1, keepdims=True), 1),
            on_carrier=jnp.maximum(at_carrier, 1),
        )

    def _impulses(self, state: BallState, points: SurfacePoints, pairs: _Pairs) -> Array:
        """On the points [N s], (balls, points, dimension)."""
        lever = self.radius[:, None, None] * pairs.normal
        surface = state.velocity[:, None] + _across(state.spin[:, None], lever)
        relative = points.velocity - surface
        parting = (relative * pairs.normal).sum(-1)
        restitution = combined_restitution(self.restitution[:, None], points.restitution)
        bounce = jnp.where(parting < -BOUNCE_SPEED, -restitution * parting, 0)
        undone = jnp.maximum(pairs.depth - SLOP, 0) / CORRECTION_TIME
        ball, turning = pairs.on_ball / self.mass[:, None], pairs.on_ball * (self.radius**2 / self._inertia)[:, None]
        yields = _yields(points, pairs.normal) * pairs.on_carrier + ball
        wanted = jnp.maximum(bounce, undone) - parting
        press = jnp.where(pairs.touches & (yields > 0), jnp.maximum(wanted, 0) / jnp.where(yields > 0, yields, 1), 0)
        sliding = relative - parting[..., None] * pairs.normal
        pace = jnp.sqrt((sliding**2).sum(-1, keepdims=True) + jnp.finfo(sliding.dtype).tiny)
        readiness = _yields(points, sliding / pace) * pairs.on_carrier + ball + turning
        friction = combined_friction(self.friction[:, None], points.friction)
        return press[..., None] * pairs.normal + _coulomb(sliding, friction * press, readiness)


class BallState(NamedTuple):
    """How balls move."""

    position: Array
    """centres [m], (balls, dimension)"""
    velocity: Array
    """[m/s], (balls, dimension)"""
    spin: Array
    """[rad/s], (balls, 1) in 2-D, (balls, 3) in 3-D"""


class _Pairs(NamedTuple):
    """Balls against points; each (balls, points) unless said otherwise."""

    normal: Array
    """from the ball's centre to the point, (balls, points, dimension)"""
    depth: Array
    """of the point in the ball [m]"""
    touches: Array
    on_ball: Array
    """points that touch the ball, at least 1, (balls, 1)"""
    on_carrier: Array
    """contacts that share the point's carrier, at least 1, (1, points)"""


def _yields(points: SurfacePoints, direction: Array) -> Array:
    """Speed that a unit of impulse along a unit direction gives to points [1/kg], (balls, points)."""
    if points.lever is None or points.inverse_inertia is None:
        return jnp.broadcast_to(points.inverse_mass, direction.shape[:-1])
    turning = _cross(jnp.broadcast_to(points.lever, direction.shape), direction)
    return points.inverse_mass + points.inverse_inertia * (turning**2).sum(-1)


def _coulomb(sliding: Array, most: Array, readiness: Array) -> Array:
    """The impulse that stops a sliding [m/s], or as much of it as friction holds [N s]; readiness: [1/kg]."""
    pace = jnp.sqrt((sliding**2).sum(-1) + jnp.finfo(sliding.dtype).tiny)
    needed = pace / jnp.where(readiness > 0, readiness, jnp.inf)
    return -(jnp.minimum(needed, most) / pace)[..., None] * sliding


def _cross(lever: Array, push: Array) -> Array:
    """Moment of a push, (..., 1) in 2-D, (..., 3) in 3-D."""
    if lever.shape[-1] == 3:
        return jnp.cross(lever, push)
    return (lever[..., 0] * push[..., 1] - lever[..., 1] * push[..., 0])[..., None]


def _across(spin: Array, lever: Array) -> Array:
    """Velocity of a point that a spin carries round, like the lever."""
    if lever.shape[-1] == 3:
        return jnp.cross(jnp.broadcast_to(spin, lever.shape), lever)
    return spin * jnp.stack([-lever[..., 1], lever[..., 0]], -1)
