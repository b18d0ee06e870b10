"""Grains, bodies and robots as they stand through one step: what does not change while contacts answer."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import jax.numpy as jnp
from jax import Array

from vsr.compute.vector import Vector, minus, plus, split, times
from vsr.environment import Environment
from vsr.physics.contract import ContactBody
from vsr.physics.granular.bodies import (
    Body,
    Fixed,
    Pose,
    Reaction,
    Touch,
    at_rest,
    moment,
    pushed,
    reaction,
    speed_at,
    touch,
)
from vsr.physics.granular.cells import difference, put_back
from vsr.physics.granular.contact import answered, at_surface
from vsr.physics.granular.model import GrainModel, GrainState, each, inertia_factor
from vsr.physics.granular.robots import Standing, on_grains, on_robot, quantized, speed_of_faces, standing
from vsr.sdf import Ridge


class Given(NamedTuple):
    """What robots give to grains."""

    push: Vector
    """[N s], each (grains,)"""
    turning: Vector | None
    """[N m s]; None if grains do not turn"""


@dataclass(frozen=True)
class Encounter:
    """One step's contacts before they answer; impulses of bodies are Vectors of (bodies, grains), on the grains."""

    grains: GrainModel
    environment: Environment
    state: GrainState
    solids: tuple[Body, ...]
    """the ground, if there is one, and all bodies"""
    poses: tuple[Pose, ...]
    touches: tuple[Touch, ...]
    robots: tuple[ContactBody, ...]
    standing: tuple[Standing, ...]
    """contacts with each robot"""
    duration: float

    @property
    def rate(self) -> float:
        """Steps in a second [1/s]."""
        return 1 / self.duration

    @property
    def falling(self) -> Vector:
        """Velocity of grains under their weight alone [m/s]."""
        *level, up = split(self.state.velocity, 0)
        return (*level, up - self.duration * self.environment.gravity)

    @property
    def start(self) -> tuple[Vector, Vector | None]:
        """Velocity and spin under what contacts gave in the step before."""
        state = self.state
        velocity, spin = self.gained(tuple(split(contacts.impulse, 0) for contacts in state.robots))
        mass = each(self.grains.mass, state)
        pushed = tuple(v + push / mass for v, push in zip(self.falling, split(state.received, 0), strict=True))
        if state.spin is None or state.received_turning is None or spin is None:
            return plus(pushed, velocity), None
        inertia, turns = inertia_of(self.grains, state), split(state.received_turning, 0)
        turned = tuple(w + turn / inertia for w, turn in zip(split(state.spin, 0), turns, strict=True))
        return plus(pushed, velocity), plus(turned, spin)

    def stands(self) -> tuple[Standing, ...]:
        """Contacts with each robot."""
        return tuple(
            standing(self.grains, self.state, robot, contacts, self.duration)
            for robot, contacts in zip(self.robots, self.state.robots, strict=True)
        )

    def gained(self, impulses: tuple[Vector, ...]) -> tuple[Vector, Vector | None]:
        """Velocity and spin that contacts with all robots give to grains."""
        push, turning = self.given(impulses)
        mass, inertia = each(self.grains.mass, self.state), inertia_of(self.grains, self.state)
        velocity = tuple(part / mass for part in push)
        return velocity, None if turning is None else tuple(part / inertia for part in turning)

    def given(self, impulses: tuple[Vector, ...]) -> Given:
        """Of contacts with all robots."""
        grains, state = self.grains, self.state
        still = jnp.zeros(grains.count, state.position.dtype)
        push: Vector = (still,) * grains.dimension
        turning = None if state.spin is None else (still,) * state.spin.shape[0]
        radius = each(grains.radius, state)
        for contacts, stands, impulse in zip(state.robots, self.standing, impulses, strict=True):
            push = plus(push, on_grains(grains, contacts, *quantized(grains, stands, impulse)))
            if turning is not None:
                moments = moment(stands.pairs.normal, impulse)
                turning = plus(
                    turning, times(-radius, on_grains(grains, contacts, *quantized(grains, stands, moments)))
                )
        return Given(push, turning)

    def against_robots(self, impulses: tuple[Vector, ...], velocity: Vector, spin: Vector | None) -> tuple[Vector, ...]:
        """Contacts with robots after one more answer."""
        after = []
        parts = zip(self.robots_after(impulses), self.state.robots, self.standing, impulses, strict=True)
        for robot, contacts, stands, impulse in parts:
            place = jnp.minimum(contacts.grain, self.grains.count - 1)
            here = tuple(part[place] for part in velocity)
            if spin is not None:
                radius = each(self.grains.radius, self.state)
                radius = radius if radius.ndim == 0 else radius[place]
                here = at_surface(here, tuple(part[place] for part in spin), stands.pairs.normal, -radius)
            relative = minus(here, speed_of_faces(robot, stands))
            after.append(answered(impulse, relative, stands.pairs))
        return tuple(after)

    def robots_after(self, impulses: tuple[Vector, ...]) -> tuple[ContactBody, ...]:
        """Robots under what grains give them."""
        after = []
        for robot, stands, impulse in zip(self.robots, self.standing, impulses, strict=True):
            pushed_by = on_robot(robot, stands, *quantized(self.grains, stands, impulse))
            after.append(robot.pushed_at_hull(pushed_by))
        return tuple(after)

    def reactions(self, impulses: Vector) -> tuple[Reaction, ...]:
        """On every body, the ground first."""
        parts = zip(*impulses, strict=True)
        return tuple(reaction(touched.lever, push) for touched, push in zip(self.touches, parts, strict=False))

    def poses_after(self, impulses: Vector) -> tuple[Pose, ...]:
        """Bodies under what grains give them: only free ones change."""
        if not any(body.is_free for body in self.solids):
            return self.poses
        gravity, after = self.environment.gravity, []
        for body, pose, push in zip(self.solids, self.poses, self.reactions(impulses), strict=True):
            if body.is_free:
                fallen = pose.velocity.at[-1].add(-self.duration * gravity)
                pose = pushed(body, replace(pose, velocity=fallen), push)
            after.append(pose)
        return tuple(after)

    def speeds_of_bodies(self, impulses: Vector) -> tuple[Vector | None, ...]:
        """Of every body where it is touched [m/s]; None of those that never move."""
        return tuple(
            None if is_fixed(body) else speed_at(pose.velocity, pose.spin, touched.lever)
            for body, pose, touched in zip(self.solids, self.poses_after(impulses), self.touches, strict=True)
        )


def encounter(
    grains: GrainModel, environment: Environment, state: GrainState, robots: tuple[ContactBody, ...], duration: float
) -> Encounter:
    """All contacts of a step [s]; lists must hold."""
    solids, poses = _solids(grains, environment, state)
    radius = each(grains.radius, state)
    touches = tuple(
        touch(body, pose, _from(grains, body, pose, state), radius) for body, pose in zip(solids, poses, strict=True)
    )
    contact = Encounter(grains, environment, state, solids, poses, touches, robots, (), duration)
    return replace(contact, standing=contact.stands())


def is_fixed(body: Body) -> bool:
    """Whether it never moves."""
    return isinstance(body.motion, Fixed)


def inertia_of(grains: GrainModel, state: GrainState) -> Array:
    """Of a solid disc in 2-D, of a ball in 3-D [kg m²], () or (grains,)."""
    return inertia_factor(grains.dimension) * each(grains.mass, state) * each(grains.radius, state) ** 2


def _solids(
    grains: GrainModel, environment: Environment, state: GrainState
) -> tuple[tuple[Body, ...], tuple[Pose, ...]]:
    """The ground, if there is one, and all bodies; and where they are now."""
    solids, poses, free = [], [], iter(state.bodies)
    if environment.terrain is not None:
        rest = at_rest(jnp.zeros(grains.dimension, state.position.dtype))
        solids.append(Body(Ridge(environment.terrain), environment.terrain.friction, Fixed(rest)))
        poses.append(rest)
    for body in grains.bodies:
        solids.append(body)
        poses.append(next(free) if body.is_free else body.motion.pose(state.time))
    return tuple(solids), tuple(poses)


def _from(grains: GrainModel, body: Body, pose: Pose, state: GrainState) -> Vector:
    """From a body's origin to all grains [m]: the shortest way round, but ground is everywhere."""
    here = split(state.position, 0)
    if isinstance(body.shape, Ridge):
        return here
    origin = put_back(grains.box, pose.position[:, None])
    return difference(grains.box, here, tuple(jnp.broadcast_to(at, here[0].shape) for at in origin))
