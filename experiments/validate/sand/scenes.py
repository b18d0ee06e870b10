"""Grains for checks: in boxes, silos and beds, and how they are run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.vector import dot, split
from vsr.environment import Environment
from vsr.physics.grains import Body, Box, Grains, GrainState, fixed, grains_of
from vsr.physics.grains.cells import difference
from vsr.physics.grains.model import each
from vsr.physics.grains.step import step
from vsr.sdf import HalfSpace

RADIUS = 0.02
"""Of grains in all checks, unless said otherwise [m]."""
STEP = 0.011 * float(np.sqrt(RADIUS / 9.81))
"""Of all checks: 0.5 ms, finer than robots need [s]."""
GRAVITY = 9.81


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
    """Centres on a shaken grid in a container [m], (count, dimension)."""
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
    """Uniform within a share of the mean [m]."""
    return radius * np.random.default_rng(seed).uniform(1 - spread, 1 + spread, count) if spread else radius


@partial(jax.jit, static_argnames=("count", "duration"))
def run(grains: Grains, environment: Environment, state: GrainState, count: int, duration: float = STEP) -> GrainState:
    """Some steps."""
    return jax.lax.fori_loop(0, count, lambda _, now: step(grains, environment, now, (), duration)[0], state)


def free_space(gravity: float = GRAVITY) -> Environment:
    """Without ground."""
    return Environment(gravity=jnp.asarray(gravity, float), terrain=None)


def penetration(grains: Grains, state: GrainState) -> tuple[float, float]:
    """Largest and mean depth of contacts that overlap, over the largest radius."""
    here, listed = split(state.position, 0), state.neighbour
    between = difference(grains.box, here, tuple(part[listed] for part in here))
    radius = jnp.broadcast_to(each(grains.radius, state), (grains.count,))
    depth = radius + radius[listed] - jnp.sqrt(dot(between, between))
    depth = jnp.where((listed != jnp.arange(grains.count)) & (depth > 0), depth, 0) / grains.largest
    return float(depth.max()), float(depth.sum() / jnp.maximum((depth > 0).sum(), 1))


def kinetic_energy(grains: Grains, state: GrainState) -> Array:
    """[J]; of grains that do not turn."""
    return 0.5 * (each(grains.mass, state) * (state.velocity**2).sum(0)).sum()


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
