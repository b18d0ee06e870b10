"""Grains for checks: in boxes, silos and beds, and how they are run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.vector import dot, split
from vsr.environment import Environment
from vsr.physics.granular import Body, Box, Grains, GrainState, fixed, grains_of
from vsr.physics.granular.bodies import Reaction
from vsr.physics.granular.cells import difference
from vsr.physics.granular.model import each, inertia_factor
from vsr.physics.granular.step import step
from vsr.sdf import HalfSpace

RADIUS = 0.02
"""Of grains in all checks, unless noted otherwise [m]."""
STEP = 0.011 * float(np.sqrt(RADIUS / 9.81))
"""Time step of all checks, smaller than robots need [s]."""
GRAVITY = 9.81
PACKINGS = (1, 2, 3)
"""Seeds of the packings that a metric is averaged over."""
TURNING = 0.02
"""Coefficient of rolling resistance of round grains, whose slopes are published; that of sand is larger."""


def weight_of(dimension: int, radius: float | np.ndarray = RADIUS, density: float = 1000.0) -> Any:
    """Mass of discs or balls [kg]."""
    size = np.pi * np.square(radius) if dimension == 2 else 4 / 3 * np.pi * np.power(radius, 3)
    return density * size


def wall(normal: np.ndarray, through: np.ndarray, friction: float) -> Body:
    """A half-space with its surface through a point; normal: a unit vector out of it."""
    return fixed(HalfSpace(jnp.asarray(normal, float), jnp.zeros(())), through.tolist(), friction)


def container(size: Sequence[float], friction: float) -> list[Body]:
    """A floor and two walls for each level axis, from 0 to a size [m]."""
    dimension = len(size)
    up = np.eye(dimension)[-1]
    found = [wall(up, np.zeros(dimension), friction)]
    for axis in range(dimension - 1):
        out = np.eye(dimension)[axis]
        found += [wall(out, np.zeros(dimension), friction), wall(-out, out * size[axis], friction)]
    return found


def thrown_in(
    count: int, size: Sequence[float], radius: np.ndarray | float, seed: int, room: float = 1.15
) -> np.ndarray:
    """Centers on a shaken grid in a container [m], (count, dimension)."""
    random, largest = np.random.default_rng(seed), float(np.max(radius))
    dimension, spacing = len(size), 2 * room * largest
    across = [max(1, int((length - 2 * largest) / spacing) + 1) for length in size[:-1]]
    levels = -(-count // int(np.prod(across)))
    place = np.stack(np.unravel_index(np.arange(count), (levels, *across)), 1)[:, ::-1]
    level = [
        largest + place[:, axis] * (size[axis] - 2 * largest) / max(1, across[axis] - 1)
        for axis in range(dimension - 1)
    ]
    shake = (room - 1) * largest * random.uniform(-1, 1, (count, dimension))
    return np.stack([*level, largest + place[:, -1] * spacing], 1) + shake


def radii(count: int, spread: float, seed: int, radius: float = RADIUS) -> np.ndarray | float:
    """Uniform within a share of the mean [m]; with the extremes among them, so that all packings share a program."""
    if not spread:
        return radius
    found = np.random.default_rng(seed).uniform(1 - spread, 1 + spread, count)
    found[:2] = 1 + spread, 1 - spread
    return radius * found


@partial(jax.jit, static_argnames=("count", "duration"))
def run(grains: Grains, environment: Environment, state: GrainState, count: int, duration: float = STEP) -> GrainState:
    """Some steps."""
    return jax.lax.fori_loop(0, count, lambda _, now: step(grains, environment, now, (), duration)[0], state)


def of_all(measure: Callable[[Grains], Any], worlds: Sequence[Grains]) -> list[Any]:
    """Measurements in worlds of equal shapes: one after the other on a CPU, all at once on an accelerator."""
    if jax.default_backend() == "cpu":
        one = jax.jit(measure)
        return [one(world) for world in worlds]
    together = jax.jit(jax.vmap(measure))(jax.tree.map(lambda *leaves: jnp.stack(leaves), *worlds))
    return [jax.tree.map(lambda leaf: leaf[number], together) for number in range(len(worlds))]  # noqa: B023


class GrainMotion(NamedTuple):
    """The final state of grains."""

    state: GrainState
    mean: Any
    """of what was observed"""
    most: Any
    """the largest absolute value of it"""


def live(
    grains: Grains,
    seconds: float,
    *,
    smooth: float = 0.0,
    last: float = 0.0,
    observe: Callable[[GrainState, GrainState, tuple[Reaction, ...]], Any] = lambda before, now, reactions: (),
) -> GrainMotion:
    """From the start on; smooth: so long without friction, so that no towers stand [s].

    observe: numbers of a step, from the states before and after it and what bodies felt; kept of the last seconds.
    """
    slippery, count, begin = (round(time / STEP) for time in (smooth, seconds, seconds - last))

    def one(number: Array, carry: tuple[GrainState, Any, Any]) -> tuple[GrainState, Any, Any]:
        before, total, most = carry
        # One step in the program for both times: each costs seconds of compiling.
        rough = replace(grains, friction=jnp.where(number < slippery, 0, grains.friction)) if slippery else grains
        now, _, reactions = step(rough, free_space(), before, (), STEP)
        seen = jax.tree.map(lambda value: jnp.where(number >= begin, value, 0), observe(before, now, reactions))
        most = jax.tree.map(lambda largest, value: jnp.maximum(largest, jnp.abs(value)), most, seen)
        return now, jax.tree.map(jnp.add, total, seen), most

    start = grains.rest_state()
    still = tuple(Reaction(jnp.zeros(grains.dimension), jnp.zeros(2 * grains.dimension - 3)) for _ in grains.bodies)
    nothing = jax.tree.map(jnp.zeros_like, observe(start, start, still))
    state, total, most = jax.lax.fori_loop(0, count, one, (start, nothing, nothing))
    return GrainMotion(state, jax.tree.map(lambda value: value / max(count - begin, 1), total), most)


def settle(worlds: Sequence[Grains], seconds: float) -> list[Grains]:
    """Worlds whose grains have come to rest: half the time without friction."""
    states = of_all(lambda world: live(world, seconds, smooth=0.5 * seconds).state, worlds)
    return [
        replace(world, start=replace(state, time=jnp.zeros_like(state.time)))
        for world, state in zip(worlds, states, strict=True)
    ]


def with_body(grains: Grains, body: Body) -> Grains:
    """One more among grains that lie."""
    start = grains.start
    more = jnp.concatenate([start.body_impulse, jnp.zeros_like(start.body_impulse[:1])])
    bodies = (*start.bodies, body.motion) if body.is_free else start.bodies
    return replace(grains, bodies=(*grains.bodies, body), start=replace(start, body_impulse=more, bodies=bodies))


def packed(packings: Sequence[int]) -> str:
    """Number of packings that a metric is averaged over, as a note."""
    return f"mean of {len(packings)} packings" if len(packings) > 1 else "one packing"


def free_space(gravity: float = GRAVITY) -> Environment:
    """Without ground."""
    return Environment(gravity=jnp.asarray(gravity, float), terrain=None)


def penetration(grains: Grains, state: GrainState) -> tuple[float, float]:
    """Largest and mean depth of contacts that overlap, over the largest radius."""
    here, listed = split(state.position, 0), state.neighbor
    between = difference(grains.box, here, tuple(part[listed] for part in here))
    radius = jnp.broadcast_to(each(grains.radius, state), (grains.count,))
    depth = radius + radius[listed] - jnp.sqrt(dot(between, between))
    depth = jnp.where((listed != jnp.arange(grains.count)) & (depth > 0), depth, 0) / grains.largest
    return float(depth.max()), float(depth.sum() / jnp.maximum((depth > 0).sum(), 1))


def kinetic_energy(grains: Grains, state: GrainState) -> Array:
    """Spin included [J]."""
    squared = (state.velocity**2).sum(0)
    if state.spin is not None:
        squared += inertia_factor(grains.dimension) * each(grains.radius, state) ** 2 * (state.spin**2).sum(0)
    return 0.5 * (each(grains.mass, state) * squared).sum()


def closed_box(dimension: int, size: Sequence[float]) -> Box:
    """From 0 to a size [m], nothing cyclic."""
    return Box((0.0,) * dimension, tuple(map(float, size)), (False,) * dimension)


def in_container(
    dimension: int,
    count: int,
    size: Sequence[float],
    *,
    friction: float | np.ndarray = 0.5,
    wall_friction: float | None = None,
    spread: float = 0.15,
    seed: int = 1,
    rolling: float | None = None,
    bodies: Sequence[Body] = (),
) -> Grains:
    """Grains thrown into a container; its floor and walls are the first bodies."""
    radius = radii(count, spread, seed)
    return grains_of(
        thrown_in(count, size, radius, seed),
        radius,
        weight_of(dimension, radius),
        friction=friction,
        rolling=rolling,
        box=closed_box(dimension, size),
        bodies=[*container(size, float(np.mean(friction)) if wall_friction is None else wall_friction), *bodies],
        grounded=False,
    )
