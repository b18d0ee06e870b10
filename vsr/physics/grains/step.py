"""One step of grains: all contacts answer together, again and again, and what they answered is kept for the next step.

Projected Jacobi with accumulated impulses. The velocity at the end of a step is the one that the impulses of the step
give, and grains move with it (semi-implicit).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.materialize import materialize
from vsr.compute.vector import Vector, dot, join, minus, plus, split, times
from vsr.environment import Environment
from vsr.environment.surfaces import combined_friction
from vsr.physics.contract import Engine, Met
from vsr.physics.grains.bodies import (
    Body,
    Pose,
    Reaction,
    Touch,
    at_rest,
    moment,
    moved,
    pushed,
    reaction,
    readiness,
    speed_at,
    touch,
)
from vsr.physics.grains.cells import difference, put_back
from vsr.physics.grains.contact import NEVER, Pairs, answered, shift, wanted_parting, wanted_return
from vsr.physics.grains.listing import has_moved, listed, where_needed
from vsr.physics.grains.model import RELAXATION, SLOP, GrainModel, GrainState, PairNumbers, each
from vsr.physics.grains.robots import (
    Standing,
    list_contacts,
    on_grains,
    on_robot,
    quantised,
    robot_has_moved,
    speed_of_faces,
    standing,
)
from vsr.sdf import Ridge


class _Impulses(NamedTuple):
    """What contacts give to grains, each a Vector [N s]."""

    pairs: Vector
    """of neighbours, (slots, grains)"""
    rolling: Vector | None
    """turning impulse of rolling friction [N m s], (slots, grains)"""
    bodies: Vector
    """(bodies, grains)"""
    robots: tuple[Vector, ...]
    """for each robot, (contacts,)"""


class _Meeting(NamedTuple):
    """All contacts as they are through a step."""

    pairs: Pairs
    bodies: Pairs
    shift: Vector
    """how far grains are moved out of each other and out of bodies [m]"""
    touches: tuple[Touch, ...]
    robots: tuple[Standing, ...]


def step(
    grains: GrainModel, environment: Environment, state: GrainState, robots: tuple[Met, ...], duration: float
) -> tuple[GrainState, tuple[Met, ...], tuple[Reaction, ...]]:
    """Grains and robots a step [s] later, and what grains did to each body; robots have moved on their own before."""
    state = _listed(grains, state, robots)
    solids, poses = _solids(grains, environment, state)
    meeting = _meeting(grains, state, solids, poses, robots, duration)
    start = _Impulses(
        pairs=split(state.impulse, 1),
        rolling=None if state.rolling is None else split(state.rolling, 1),
        bodies=split(state.body_impulse, 1),
        robots=tuple(split(contacts.impulse, 0) for contacts in state.robots),
    )
    solver = _Solver(grains, environment, state, solids, poses, robots, meeting, duration)
    impulses = jax.lax.fori_loop(0, grains.iterations, lambda _, now: solver.iteration(now), start)
    velocity, spin = solver.motion(impulses)
    robots = solver.robots_after(impulses)
    reactions = solver.reactions(impulses)
    free = tuple(
        moved(pose, duration) for body, pose in zip(solids, solver.poses_after(impulses), strict=True) if body.is_free
    )
    after = replace(
        state,
        position=state.position + duration * join(velocity, 0) + join(meeting.shift, 0),
        velocity=join(velocity, 0),
        spin=None if spin is None else join(spin, 0),
        impulse=join(impulses.pairs, 1),
        rolling=None if impulses.rolling is None else join(impulses.rolling, 1),
        body_impulse=join(impulses.bodies, 1),
        bodies=free,
        robots=tuple(
            replace(contacts, impulse=join(part, 0))
            for contacts, part in zip(state.robots, impulses.robots, strict=True)
        ),
        time=state.time + duration,
    )
    return after, robots, reactions


@dataclass(frozen=True)
class _Solver:
    """Everything that is fixed while contacts answer."""

    grains: GrainModel
    environment: Environment
    state: GrainState
    solids: tuple[Body, ...]
    poses: tuple[Pose, ...]
    robots: tuple[Met, ...]
    meeting: _Meeting
    duration: float

    def iteration(self, now: _Impulses) -> _Impulses:
        """Every contact once more."""
        grains, state, meeting = self.grains, self.state, self.meeting
        velocity, spin = self.motion(now)
        velocity = materialize(velocity[0], velocity)
        radius = each(grains.radius, state)
        here = self._at_surface(velocity, spin, meeting.pairs.normal, -radius)
        other = tuple(part[state.neighbour] for part in velocity)
        if spin is not None:
            spin = materialize(velocity[0], spin)
            far = radius if radius.ndim == 0 else radius[state.neighbour]
            turning = tuple(part[state.neighbour] for part in spin)
            other = self._at_surface(other, turning, meeting.pairs.normal, far)
        pairs = answered(now.pairs, minus(here, other), meeting.pairs)
        rolling = now.rolling
        if rolling is not None and spin is not None:
            turning = tuple(part[state.neighbour] for part in spin)
            rolling = self._rolled(rolling, minus(spin, turning), dot(pairs, meeting.pairs.normal))
        bodies = self._against_bodies(now, velocity, spin)
        robots = self._against_robots(now, velocity, spin)
        return _Impulses(pairs, rolling, bodies, robots)

    def motion(self, now: _Impulses) -> tuple[Vector, Vector | None]:
        """Velocity and spin of grains under impulses, the weight's included."""
        grains, state = self.grains, self.state
        mass = each(grains.mass, state)
        pushes = tuple(total(pair) + total(body) for pair, body in zip(now.pairs, now.bodies, strict=True))
        for contacts, stands, impulse in zip(state.robots, self.meeting.robots, now.robots, strict=True):
            pushes = plus(pushes, on_grains(grains, contacts, *quantised(grains, stands, impulse)))
        free = split(state.velocity, 0)
        free = (*free[:-1], free[-1] - self.duration * self.environment.gravity)
        velocity = tuple(v + push / mass for v, push in zip(free, pushes, strict=True))
        if state.spin is None:
            return velocity, None
        return velocity, self._spin(now)

    def _spin(self, now: _Impulses) -> Vector:
        """Under the moments of all impulses and of rolling friction."""
        grains, state, meeting = self.grains, self.state, self.meeting
        assert state.spin is not None
        radius, inertia = each(grains.radius, state), inertia_of(grains, state)
        turns = tuple(total(part) for part in moment(meeting.pairs.normal, now.pairs))
        turns = plus(turns, tuple(total(part) for part in moment(meeting.bodies.normal, now.bodies)))
        turns = times(-radius, turns)
        for contacts, stands, impulse in zip(state.robots, meeting.robots, now.robots, strict=True):
            moments = moment(stands.pairs.normal, impulse)
            turns = plus(turns, times(-radius, on_grains(grains, contacts, *quantised(grains, stands, moments))))
        if now.rolling is not None:
            turns = plus(turns, tuple(total(part) for part in now.rolling))
        return tuple(w + turn / inertia for w, turn in zip(split(state.spin, 0), turns, strict=True))

    def _at_surface(self, velocity: Vector, spin: Vector | None, normal: Vector, lever: Array) -> Vector:
        """Velocity of the point of a grain that lies along the normal, a lever [m] away."""
        if spin is None:
            return velocity
        if len(normal) == 2:
            (w,), (x, y) = spin, normal
            return velocity[0] - lever * w * y, velocity[1] + lever * w * x
        (a, b, c), (x, y, z) = spin, normal
        across = b * z - c * y, c * x - a * z, a * y - b * x
        return plus(velocity, times(lever, across))

    def _rolled(self, rolling: Vector, relative: Vector, press: Array) -> Vector:
        """Rolling friction after one more answer to a relative spin."""
        grains, state = self.grains, self.state
        assert grains.rolling is not None
        share = RELAXATION * 0.5 * inertia_of(grains, state)
        share = share if share.ndim == 0 else jnp.minimum(share, share[state.neighbour])
        radius = each(grains.radius, state)
        radius = radius if radius.ndim == 0 else jnp.minimum(radius, radius[state.neighbour])
        wanted = minus(rolling, times(share, relative))
        most = grains.rolling * radius * press
        size = jnp.sqrt(dot(wanted, wanted))
        return times(jnp.where(size > most, most / jnp.where(size > 0, size, 1), 1), wanted)

    def _against_bodies(self, now: _Impulses, velocity: Vector, spin: Vector | None) -> Vector:
        if not self.solids:
            return now.bodies
        grains, meeting = self.grains, self.meeting
        radius = each(grains.radius, self.state)
        here = self._at_surface(velocity, spin, meeting.bodies.normal, -radius)
        speeds = [
            speed_at(pose.velocity, pose.spin, touched.lever)
            for pose, touched in zip(self.poses_after(now), meeting.touches, strict=True)
        ]
        shape = meeting.bodies.bias.shape[1:]
        there = tuple(
            jnp.stack([jnp.broadcast_to(part, shape) for part in parts]) for parts in zip(*speeds, strict=True)
        )
        return answered(now.bodies, minus(here, there), meeting.bodies)

    def _against_robots(self, now: _Impulses, velocity: Vector, spin: Vector | None) -> tuple[Vector, ...]:
        after = []
        parts = zip(self.robots_after(now), self.state.robots, self.meeting.robots, now.robots, strict=True)
        for robot, contacts, stands, impulse in parts:
            place = jnp.minimum(contacts.grain, self.grains.count - 1)
            here = tuple(part[place] for part in velocity)
            if spin is not None:
                radius = each(self.grains.radius, self.state)
                radius = radius if radius.ndim == 0 else radius[place]
                here = self._at_surface(here, tuple(part[place] for part in spin), stands.pairs.normal, -radius)
            relative = minus(here, speed_of_faces(robot, stands))
            after.append(answered(impulse, relative, stands.pairs))
        return tuple(after)

    def robots_after(self, now: _Impulses) -> tuple[Met, ...]:
        """Robots under what grains give them."""
        after = []
        for robot, stands, impulse in zip(self.robots, self.meeting.robots, now.robots, strict=True):
            pushed_by = on_robot(robot, stands, *quantised(self.grains, stands, impulse))
            after.append(robot.pushed_at_hull(pushed_by))
        return tuple(after)

    def reactions(self, now: _Impulses) -> tuple[Reaction, ...]:
        """On every body, the ground first."""
        parts = zip(*now.bodies, strict=True)
        return tuple(reaction(touched.lever, push) for touched, push in zip(self.meeting.touches, parts, strict=False))

    def poses_after(self, now: _Impulses) -> tuple[Pose, ...]:
        """Bodies under what grains give them: only free ones change."""
        if not any(body.is_free for body in self.solids):
            return self.poses
        gravity, after = self.environment.gravity, []
        for body, pose, push in zip(self.solids, self.poses, self.reactions(now), strict=True):
            if body.is_free:
                falling = pose.velocity.at[-1].add(-self.duration * gravity)
                pose = pushed(body, replace(pose, velocity=falling), push)
            after.append(pose)
        return tuple(after)


def total(parts: Array) -> Array:
    """Over the first axis, which is short: one addition after the other is many times as fast as a reduction."""
    return reduce(add, (parts[k] for k in range(parts.shape[0]))) if parts.shape[0] else jnp.zeros(parts.shape[1:])


def inertia_of(grains: GrainModel, state: GrainState) -> Array:
    """Of a solid disc in 2-D, of a ball in 3-D [kg m²], () or (grains,)."""
    return (0.5 if grains.dimension == 2 else 0.4) * each(grains.mass, state) * each(grains.radius, state) ** 2


def _listed(grains: GrainModel, state: GrainState, robots: tuple[Met, ...]) -> GrainState:
    """With lists that hold for this step."""
    anew = has_moved(grains, state)
    state = where_needed(listed, anew, grains, state)
    found, beyond = [], state.beyond
    for robot, contacts in zip(robots, state.robots, strict=True):

        def again(constants: Any, changing: Any, engine: Engine = robot.engine) -> Any:
            grains, state, model, robot_state = constants
            met = Met(engine, model, robot_state)
            contacts, beyond = changing
            contacts, missed = list_contacts(grains, state, met, contacts)
            return contacts, jnp.maximum(beyond, missed.astype(beyond.dtype))

        needed = anew | robot_has_moved(grains, robot, contacts)
        # Grains as they are, without their own contacts with robots: those are what changes here.
        constants = grains, replace(state, robots=()), robot.model, robot.state
        contacts, beyond = where_needed(again, needed, constants, (contacts, beyond))
        found.append(contacts)
    return replace(state, robots=tuple(found), beyond=beyond)


def _solids(
    grains: GrainModel, environment: Environment, state: GrainState
) -> tuple[tuple[Body, ...], tuple[Pose, ...]]:
    """The ground, if there is one, and all bodies; and where they are now."""
    solids, poses, free = [], [], iter(state.bodies)
    if environment.terrain is not None:
        rest = at_rest(jnp.zeros(grains.dimension, state.position.dtype))
        solids.append(Body(Ridge(environment.terrain), environment.terrain.friction, rest))
        poses.append(rest)
    for body in grains.bodies:
        solids.append(body)
        poses.append(next(free) if body.is_free else body.motion.pose(state.time))
    return tuple(solids), tuple(poses)


def _meeting(
    grains: GrainModel,
    state: GrainState,
    solids: tuple[Body, ...],
    poses: tuple[Pose, ...],
    robots: tuple[Met, ...],
    duration: float,
) -> _Meeting:
    pairs, apart = neighbours(grains, state, duration)
    touches = tuple(
        touch(body, pose, _from(grains, body, pose, state), each(grains.radius, state))
        for body, pose in zip(solids, poses, strict=True)
    )
    bodies, out = _with_bodies(grains, state, solids, poses, touches, duration)
    return _Meeting(
        pairs=materialize(state.position, pairs),
        bodies=bodies,
        shift=plus(apart, out),
        touches=touches,
        robots=tuple(
            standing(grains, state, robot, contacts, duration)
            for robot, contacts in zip(robots, state.robots, strict=True)
        ),
    )


def _from(grains: GrainModel, body: Body, pose: Pose, state: GrainState) -> Array:
    """From a body's origin to all grains [m], (dimension, grains): the shortest way round, but ground is everywhere."""
    if isinstance(body.shape, Ridge):
        return state.position
    here = split(state.position, 0)
    origin = put_back(grains.box, pose.position[:, None])
    return join(difference(grains.box, here, tuple(jnp.broadcast_to(at, here[0].shape) for at in origin)), 0)


def neighbours(grains: GrainModel, state: GrainState, duration: float) -> tuple[Pairs, Vector]:
    """Contacts of grains with those listed, and how far each grain is moved out of them [m]."""
    listed = state.neighbour
    empty = listed == jnp.arange(grains.count)
    pair = state.pair
    if pair is None:
        half = jnp.asarray(0.5, grains.mass.dtype)
        pair = PairNumbers(2 * grains.radius, half * grains.mass, half, None)
    here = split(state.position, 0)
    others = materialize(here[0], tuple(part[listed] for part in here))
    between = difference(grains.box, here, others)
    squared = jnp.where(empty, 1, dot(between, between))
    inverse, distance = materialize(here[0], (jax.lax.rsqrt(squared), jnp.sqrt(squared)))
    gap = jnp.where(empty, grains.skin, distance - pair.touching)
    normal = times(inverse, between)
    share = RELAXATION * pair.mass
    pairs = Pairs(
        normal=normal,
        bias=jnp.where(empty, NEVER, wanted_parting(gap, duration)),
        friction=grains.friction if pair.friction is None else pair.friction,
        share=share,
        share_across=share if state.spin is None else share / _turning(grains),
    )
    apart = shift(gap, SLOP * grains.largest) * pair.yielding
    return pairs, tuple(total(apart * part) for part in normal)


def _turning(grains: GrainModel) -> float:
    """How much more readily the surface of a turning grain yields to a push across than along the normal."""
    return 3.0 if grains.dimension == 2 else 3.5


def _with_bodies(
    grains: GrainModel,
    state: GrainState,
    solids: tuple[Body, ...],
    poses: tuple[Pose, ...],
    touches: tuple[Touch, ...],
    duration: float,
) -> tuple[Pairs, Vector]:
    """Contacts of grains with bodies, and how far each grain is moved out of them [m]."""
    mass, friction = each(grains.mass, state), each(grains.friction, state)
    gaps, normals, roughness, shares = [], [], [], []
    for body, pose, touched in zip(solids, poses, touches, strict=True):
        yields = jnp.broadcast_to(1 / mass, touched.gap.shape)
        if body.is_free:
            together = jnp.maximum((touched.gap < grains.skin).sum(), 1)
            yields = yields + together * readiness(body, pose, touched)
        gaps.append(touched.gap)
        normals.append(tuple(jnp.broadcast_to(part, touched.gap.shape) for part in touched.normal))
        roughness.append(jnp.broadcast_to(combined_friction(friction, body.friction), touched.gap.shape))
        shares.append(RELAXATION / yields)
    if not solids:
        none = jnp.zeros((0, grains.count), state.position.dtype)
        still = jnp.zeros(grains.count, state.position.dtype)
        return Pairs((none,) * grains.dimension, none, none, none, none), (still,) * grains.dimension
    gap, share, normal = jnp.stack(gaps), jnp.stack(shares), tuple(map(jnp.stack, zip(*normals, strict=True)))
    slop = SLOP * grains.largest
    heavy = jnp.array([body.is_free for body in solids])[:, None]
    bias = jnp.where(heavy, wanted_return(gap, slop, duration), wanted_parting(gap, duration))
    pairs = Pairs(
        normal=normal,
        bias=jnp.where(gap > grains.skin, NEVER, bias),
        friction=jnp.stack(roughness),
        share=share,
        share_across=share if state.spin is None else share / _turning(grains),
    )
    return pairs, tuple(total(shift(gap, slop) * part) for part in normal)
