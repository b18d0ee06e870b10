"""All contacts of a step answered together, again and again: projected Jacobi with accumulated impulses, in plain JAX.

The same in launches of a GPU is vsr.physics.granular.kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.vector import Vector, dot, join, minus, plus, split, times
from vsr.compute.xla import materialize
from vsr.environment.surfaces import combined_friction
from vsr.physics.contract import ContactBody
from vsr.physics.granular.bodies import inverse_effective_mass, moment
from vsr.physics.granular.cells import difference
from vsr.physics.granular.contact import (
    NEVER,
    Pairs,
    answered,
    at_surface,
    pair_contact,
    rolled,
    share_across,
    shift,
    wanted_parting,
    wanted_return,
)
from vsr.physics.granular.encounter import Encounter, inertia_of
from vsr.physics.granular.model import RELAXATION, SLOP, GrainModel, GrainState, PairNumbers, each


class Solved(NamedTuple):
    """What came of a step's contacts."""

    position: Array
    """of grains at the end of the step [m], (dimension, n)"""
    velocity: Array
    """(dimension, n)"""
    spin: Array | None
    received: Array
    """from neighbors and bodies together [N s], (dimension, n)"""
    received_turning: Array | None
    impulse: Array
    """as in GrainState"""
    rolling: Array | None
    body_impulse: Array
    robots: tuple[Array, ...]
    """impulses of contacts with each robot [N s], (dimension, m)"""
    pushed: tuple[ContactBody, ...]
    """robots under these"""


class _Impulses(NamedTuple):
    """What contacts give to grains, each a Vector [N s]."""

    pairs: Vector
    """of neighbors, (slots, grains)"""
    rolling: Vector | None
    """turning impulse of rolling friction [N m s], (slots, grains)"""
    bodies: Vector
    """(bodies, grains)"""
    robots: tuple[Vector, ...]
    """for each robot, (contacts,)"""


class _Now(NamedTuple):
    """Impulses, and how grains move under them."""

    impulses: _Impulses
    velocity: Vector
    spin: Vector | None


def solve(encounter: Encounter) -> Solved:
    """A step in plain JAX."""
    grains, state = encounter.grains, encounter.state
    pairs, apart = neighbors(grains, state, encounter.duration)
    bodies, out = with_bodies(encounter)
    pairs = materialize(state.position, pairs)
    if grains.rolling is None:  # the same numbers: read them once
        pairs = pairs._replace(share_across=pairs.share)
    solver = _Solver(encounter, pairs, bodies)
    start = _Impulses(
        pairs=split(state.impulse, 1),
        rolling=None if state.rolling is None else split(state.rolling, 1),
        bodies=split(state.body_impulse, 1),
        robots=tuple(split(contacts.impulse, 0) for contacts in state.robots),
    )
    now = jax.lax.fori_loop(0, grains.iterations, lambda _, now: solver.iteration(now), _Now(start, *encounter.start))
    impulses, velocity = now.impulses, join(now.velocity, 0)
    received, turning = solver.received(impulses)
    return Solved(
        position=state.position + encounter.duration * velocity + join(plus(apart, out), 0),
        velocity=velocity,
        spin=None if now.spin is None else join(now.spin, 0),
        received=join(received, 0),
        received_turning=None if turning is None else join(turning, 0),
        impulse=join(impulses.pairs, 1),
        rolling=None if impulses.rolling is None else join(impulses.rolling, 1),
        body_impulse=join(impulses.bodies, 1),
        robots=tuple(join(part, 0) for part in impulses.robots),
        pushed=encounter.robots_after(impulses.robots),
    )


@dataclass(frozen=True)
class _Solver:
    """Everything that is fixed while contacts answer."""

    encounter: Encounter
    pairs: Pairs
    bodies: Pairs

    def iteration(self, now: _Now) -> _Now:
        """Every contact once more."""
        state, (impulses, velocity, spin) = self.encounter.state, now
        radius = each(self.encounter.grains.radius, state)
        here = at_surface(velocity, spin, self.pairs.normal, -radius)
        other, turning = jax.tree.map(lambda part: at(part, state.neighbor), (velocity, spin))
        far = numbers_of_pairs(self.encounter.grains, state).far
        pairs = answered(impulses.pairs, minus(here, at_surface(other, turning, self.pairs.normal, far)), self.pairs)
        rolling, coefficient = impulses.rolling, self.encounter.grains.rolling
        if rolling is not None and spin is not None and turning is not None and coefficient is not None:
            press, smaller = dot(pairs, self.pairs.normal), jnp.minimum(radius, far)
            rolling = rolled(rolling, minus(spin, turning), press, self.pairs.share, smaller, coefficient)
        bodies = self._against_bodies(impulses.bodies, velocity, spin)
        robots = self.encounter.against_robots(impulses.robots, velocity, spin)
        after = _Impulses(pairs, rolling, bodies, robots)
        return _Now(after, *self._motion(after))

    def _motion(self, now: _Impulses) -> tuple[Vector, Vector | None]:
        """Velocity and spin of grains under impulses, the weight's included."""
        grains, state = self.encounter.grains, self.encounter.state
        mass = each(grains.mass, state)
        (push, turning), (velocity, spin) = self.received(now), self.encounter.gained(now.robots)
        pushed = tuple(v + part / mass for v, part in zip(self.encounter.falling, push, strict=True))
        if state.spin is None or turning is None or spin is None:
            return plus(pushed, velocity), None
        inertia = inertia_of(grains, state)
        turned = tuple(w + part / inertia for w, part in zip(split(state.spin, 0), turning, strict=True))
        return plus(pushed, velocity), plus(turned, spin)

    def received(self, now: _Impulses) -> tuple[Vector, Vector | None]:
        """From neighbors and bodies together: impulse and turning impulse of every grain."""
        push = tuple(total(pair) + total(body) for pair, body in zip(now.pairs, now.bodies, strict=True))
        if now.rolling is None:
            return push, None
        radius = each(self.encounter.grains.radius, self.encounter.state)
        turns = tuple(total(part) for part in moment(self.pairs.normal, now.pairs))
        turns = plus(turns, tuple(total(part) for part in moment(self.bodies.normal, now.bodies)))
        return push, plus(times(-radius, turns), tuple(total(part) for part in now.rolling))

    def _against_bodies(self, impulses: Vector, velocity: Vector, spin: Vector | None) -> Vector:
        encounter = self.encounter
        if not encounter.solids:
            return impulses
        radius = each(encounter.grains.radius, encounter.state)
        here = at_surface(velocity, spin, self.bodies.normal, -radius)
        shape, still = self.bodies.bias.shape[1:], (jnp.zeros((), radius.dtype),) * encounter.grains.dimension
        speeds = [still if speed is None else speed for speed in encounter.speeds_of_bodies(impulses)]
        there = tuple(
            jnp.stack([jnp.broadcast_to(part, shape) for part in parts]) for parts in zip(*speeds, strict=True)
        )
        return answered(impulses, minus(here, there), self.bodies)


def at(values: Array, places: Array) -> Array:
    """Values at places that are there: indices known not to be negative are read faster on a CPU."""
    return values.at[places].get(mode="clip", wrap_negative_indices=False)


def total(parts: Array) -> Array:
    """Over the first axis, which is short: one addition after the other is many times as fast as a reduction."""
    return reduce(add, (parts[k] for k in range(parts.shape[0]))) if parts.shape[0] else jnp.zeros(parts.shape[1:])


def neighbors(grains: GrainModel, state: GrainState, duration: float) -> tuple[Pairs, Vector]:
    """Contacts of grains with those listed, and how far each grain is moved out of them [m]."""
    listed = state.neighbor
    empty = listed == jnp.arange(grains.count)
    here = split(state.position, 0)
    others = materialize(here[0], tuple(at(part, listed) for part in here))
    between = difference(grains.box, here, others)
    squared = jnp.where(empty, 1, dot(between, between))
    inverse, distance = materialize(here[0], (jax.lax.rsqrt(squared), jnp.sqrt(squared)))
    pair = numbers_of_pairs(grains, state)
    radius = each(grains.radius, state)
    pairs, apart = pair_contact(grains, pair, radius, times(inverse, between), distance, empty, 1 / duration)
    return pairs, tuple(total(part) for part in apart)


def numbers_of_pairs(grains: GrainModel, state: GrainState) -> PairNumbers:
    """As listed, or the same for all."""
    if state.pair is not None:
        return state.pair
    half = jnp.asarray(0.5, grains.mass.dtype)
    return PairNumbers(grains.radius, half * grains.mass, half, None)


def with_bodies(encounter: Encounter) -> tuple[Pairs, Vector]:
    """Contacts of grains with bodies, and how far each grain is moved out of them [m]."""
    grains, state = encounter.grains, encounter.state
    if not encounter.solids:
        none = jnp.zeros((0, grains.count), state.position.dtype)
        still = jnp.zeros(grains.count, state.position.dtype)
        return Pairs((none,) * grains.dimension, none, none, none, none), (still,) * grains.dimension
    friction = each(grains.friction, state)
    gap, roughness, shares, normals = [], [], [], []
    for number, (body, touched) in enumerate(zip(encounter.solids, encounter.touches, strict=True)):
        gap.append(touched.gap)
        normals.append(tuple(jnp.broadcast_to(part, touched.gap.shape) for part in touched.normal))
        roughness.append(jnp.broadcast_to(combined_friction(friction, body.friction), touched.gap.shape))
        shares.append(jnp.broadcast_to(share_of_body(encounter, number), touched.gap.shape))
    gap, share, normal = jnp.stack(gap), jnp.stack(shares), tuple(map(jnp.stack, zip(*normals, strict=True)))
    slop = SLOP * grains.largest
    heavy = jnp.array([body.is_free for body in encounter.solids])[:, None]
    bias = jnp.where(heavy, wanted_return(gap, slop, encounter.rate), wanted_parting(gap, encounter.rate))
    pairs = Pairs(
        normal=normal,
        bias=jnp.where(gap > grains.skin, NEVER, bias),
        friction=jnp.stack(roughness),
        share=share,
        share_across=share_across(grains, share),
    )
    return pairs, tuple(total(shift(gap, slop) * part) for part in normal)


def share_of_body(encounter: Encounter, number: int) -> Array:
    """Impulse over speed of contacts with a body [kg], () or (grains,)."""
    grains, body, pose, touched = (
        encounter.grains,
        encounter.solids[number],
        encounter.poses[number],
        encounter.touches[number],
    )
    mass = each(grains.mass, encounter.state)
    if not body.is_free:
        return RELAXATION * mass
    together = jnp.maximum((touched.gap < grains.skin).sum(), 1)
    return RELAXATION / (1 / mass + together * inverse_effective_mass(body, pose, touched))
