"""Bodies among grains: a shape that grains cannot enter, fixed, driven through time, or free.

What a body does to grains they do to it, with the opposite sign: a free body moves so, and for a driven one the impulse
is reported (`Reaction`).

Motions (`fixed`, `driven`) say where a body is at every time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.linear import product
from vsr.compute.vector import Vector, dot
from vsr.sdf import Ridge, distance_and_normal


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Pose:
    """Where a body is and how it moves."""

    position: Array
    """of its own origin, for a free body its center of mass [m], (dimension,)"""
    rotation: Array
    """from its own axes to those of the world, (dimension, dimension)"""
    velocity: Array
    """of its origin [m/s], (dimension,)"""
    spin: Array
    """[rad/s], (1,) in 2-D, (3,) in 3-D"""


class Motion(Protocol):
    """How a driven body moves: pure, a pytree."""

    def pose(self, time: Array) -> Pose:
        """At a time [s]."""
        ...


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Body:
    """A shape with its surface, and how it moves."""

    shape: Any
    """in its own frame (vsr.sdf)"""
    friction: Array
    """coefficient, combined with a grain's by the geometric mean, ()"""
    motion: Any
    """a Motion of a driven body, or the first Pose of a free one"""
    mass: Array | None = None
    """of a free body [kg], (); None if it is driven"""
    inertia: Array | None = None
    """of a free body about its center of mass, in its own axes [kg m²], () in 2-D, (3,) in 3-D"""

    @property
    def is_free(self) -> bool:
        """Whether grains move it."""
        return self.mass is not None


class Touch(NamedTuple):
    """A body as every grain touches it; each (grains,) or a Vector of such."""

    gap: Array
    """from the grain's surface to the body's, negative inside [m]"""
    normal: Vector
    """out of the body"""
    lever: Vector
    """from the body's origin to the point of contact [m]"""


class Reaction(NamedTuple):
    """What grains did to a body in a step."""

    impulse: Array
    """[N s], (dimension,)"""
    turning: Array
    """about the body's origin [N m s], (1,) or (3,)"""


def touch(body: Body, pose: Pose, between: Vector, radius: Array) -> Touch:
    """How grains touch a body; between: from its origin to the grains' centers [m]."""
    if isinstance(body.shape, Ridge):  # the ground does not turn
        distance, normal = distance_and_normal(body.shape, between)
    else:
        distance, normal = distance_and_normal(body.shape, _rotated(pose.rotation.T, between))
        normal = _rotated(pose.rotation, normal)
    lever = tuple(along - distance * n for along, n in zip(between, normal, strict=True))
    return Touch(distance - radius, normal, lever)


def _rotated(rotation: Array, vectors: Vector) -> Vector:
    """Component by component: a product of matrices would be an errand of its own for a GPU."""
    size = len(vectors)
    return tuple(dot(tuple(rotation[row, column] for column in range(size)), vectors) for row in range(size))


def speed_at(velocity: Array, spin: Array, lever: Vector) -> Vector:
    """Of points of a turning body [m/s]; velocity: (dimension,); spin: (1,) or (3,)."""
    if len(lever) == 2:
        return velocity[0] - spin[0] * lever[1], velocity[1] + spin[0] * lever[0]
    x, y, z = lever
    return (
        velocity[0] + spin[1] * z - spin[2] * y,
        velocity[1] + spin[2] * x - spin[0] * z,
        velocity[2] + spin[0] * y - spin[1] * x,
    )


def moment(lever: Vector, push: Vector) -> Vector:
    """Of pushes at levers: one component in 2-D, three in 3-D."""
    if len(lever) == 2:
        return (lever[0] * push[1] - lever[1] * push[0],)
    (a, b, c), (x, y, z) = lever, push
    return b * z - c * y, c * x - a * z, a * y - b * x


def reaction(lever: Vector, impulses: Vector) -> Reaction:
    """On a body, of the impulses that it gave to grains."""
    return Reaction(
        impulse=-jnp.stack([part.sum() for part in impulses]),
        turning=-jnp.stack([part.sum() for part in moment(lever, impulses)]),
    )


def pushed(body: Body, pose: Pose, push: Reaction) -> Pose:
    """A free body after an impulse."""
    assert body.mass is not None
    return Pose(
        position=pose.position,
        rotation=pose.rotation,
        velocity=pose.velocity + push.impulse / body.mass,
        spin=pose.spin + product(_yield_to_turning(body, pose), push.turning),
    )


def inverse_effective_mass(body: Body, pose: Pose, touched: Touch) -> Array:
    """At most how fast a unit of impulse makes a free body's points [1/kg], (grains,)."""
    assert body.mass is not None
    turning = _yield_to_turning(body, pose)
    return 1 / body.mass + jnp.trace(turning) * dot(touched.lever, touched.lever)


def moved(pose: Pose, step: float) -> Pose:
    """A free body a step [s] later."""
    return Pose(
        position=pose.position + step * pose.velocity,
        rotation=product(turn_by(step * pose.spin), pose.rotation),
        velocity=pose.velocity,
        spin=pose.spin,
    )


def at_rest(position: Array, rotation: Array | None = None) -> Pose:
    """A pose without motion; position: [m], (dimension,)."""
    position = jnp.asarray(position, float)
    dimension = len(position)
    rotation = jnp.eye(dimension, dtype=position.dtype) if rotation is None else rotation
    return Pose(position, rotation, jnp.zeros_like(position), jnp.zeros(2 * dimension - 3, position.dtype))


def _yield_to_turning(body: Body, pose: Pose) -> Array:
    """The inverse of the moment of inertia in the world's axes, (1, 1) or (3, 3)."""
    assert body.inertia is not None
    if pose.position.shape[0] == 2:
        return jnp.reshape(1 / body.inertia, (1, 1))
    return product(pose.rotation / body.inertia, pose.rotation.T)


def turn_by(angle: Array) -> Array:
    """Rotation about the vertical of the plane, or about a vector, by angles [rad], as a matrix."""
    if angle.shape[0] == 1:
        cosine, sine = jnp.cos(angle[0]), jnp.sin(angle[0])
        return jnp.array([[cosine, -sine], [sine, cosine]])
    size = jnp.sqrt((angle**2).sum() + jnp.finfo(angle.dtype).tiny)
    x, y, z = angle / size
    zero = jnp.zeros_like(x)
    across = jnp.array([[zero, -z, y], [z, zero, -x], [-y, x, zero]])
    return jnp.eye(3, dtype=angle.dtype) + jnp.sin(size) * across + (1 - jnp.cos(size)) * product(across, across)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Fixed:
    """Not at all."""

    at: Pose

    def pose(self, time: Array) -> Pose:
        return self.at


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Steady:
    """With the velocity and the spin of its first pose, from a time on."""

    start: Pose
    begin: Array | float = 0.0
    """[s]; before, it stands still"""

    def pose(self, time: Array) -> Pose:
        moving = time >= self.begin
        elapsed = jnp.maximum(time - self.begin, 0)
        return Pose(
            position=self.start.position + elapsed * self.start.velocity,
            rotation=product(turn_by(elapsed * self.start.spin), self.start.rotation),
            velocity=jnp.where(moving, self.start.velocity, 0),
            spin=jnp.where(moving, self.start.spin, 0),
        )


def fixed(shape: Any, position: Sequence[float], friction: float = 0.5) -> Body:
    """A body that stands still, its origin at a position [m]."""
    return Body(shape, jnp.asarray(friction, float), Fixed(at_rest(jnp.asarray(position, float))))


def driven(
    shape: Any,
    position: Sequence[float],
    velocity: Sequence[float],
    friction: float = 0.5,
    *,
    spin: Sequence[float] | None = None,
    begin: float = 0.0,
) -> Body:
    """A body that moves steadily from a time on [s]; position [m], velocity [m/s], spin [rad/s]."""
    pose = at_rest(jnp.asarray(position, float))
    pose = replace(pose, velocity=jnp.asarray(velocity, float))
    if spin is not None:
        pose = replace(pose, spin=jnp.asarray(spin, float))
    return Body(shape, jnp.asarray(friction, float), Steady(pose, jnp.asarray(begin, float)))


def free(
    shape: Any, position: Sequence[float], mass: float, inertia: float | Sequence[float], friction: float = 0.5
) -> Body:
    """A body that grains and gravity move, its center of mass at a position [m]; mass [kg], inertia [kg m²]."""
    return Body(
        shape,
        jnp.asarray(friction, float),
        at_rest(jnp.asarray(position, float)),
        jnp.asarray(mass, float),
        jnp.asarray(inertia, float),
    )
