"""Grains, ground and goals of machines: grains in layers, level ground, upright walls, and rewards of moved material.

Grains inside a goal box count, others cost the distance that they still have to go.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.envs.machines.kinematic_bodies import Pacing, drive
from vsr.physics.granular import Body, Grains, GrainState, fixed
from vsr.physics.granular.system import overflow_advice
from vsr.sdf import Block, HalfSpace, Inverted, Moved
from vsr.spec import InfeasibleError
from vsr.terrain.sand import FILLED

DENSITY = 2650.0
"""Of grains [kg/m³]: quartz."""
FAR = 100.0
"""Farther than anything goes [m]."""
CANDIDATES = 16
"""Grains looked at in each column of three cells: in front of a blade they lie closer than in a bed."""
LOOSE = 1.2
"""Between centers of grains in layers, in diameters of the largest."""


def floor(friction: float, height: float = 0.0) -> Body:
    """Level ground at a height [m]."""
    return fixed(HalfSpace(jnp.array([0.0, 0.0, 1.0]), jnp.asarray(height)), (0.0, 0.0, 0.0), friction)


def walls(low: Sequence[float], high: Sequence[float], friction: float) -> list[Body]:
    """Four upright ones around a rectangle [m]: those across x are one body, those across y another.

    So a grain in a corner has a contact with each of the two walls that it touches.
    """
    middle = [0.5 * (a + b) for a, b in zip(low, high, strict=True)]
    half = [0.5 * (b - a) for a, b in zip(low, high, strict=True)]
    sizes = ([half[0], FAR, FAR], [FAR, half[1], FAR])
    return [fixed(Inverted(Block(jnp.array(size))), (middle[0], middle[1], 0.0), friction) for size in sizes]


def block(half: Sequence[float], at: Sequence[float]) -> Moved:
    """A box of half sizes with its middle at a place [m]."""
    return Moved(Block(jnp.array(half)), jnp.array(at), jnp.eye(3))


def ball_mass(radius: float | np.ndarray) -> float | np.ndarray:
    """Of grains [kg]; radius: [m]."""
    return DENSITY * 4 / 3 * np.pi * radius**3


def depth_of(count: int, radius: float, area: float) -> float:
    """About how deep grains lie on an area [m²] when they have settled [m], at least as one grain; radius: [m]."""
    return max(count * 4 / 3 * math.pi * radius**3 / (FILLED[3] * area), 2 * radius)


def in_layers(
    count: int, radius: float, low: Sequence[float], high: Sequence[float], random: np.random.Generator
) -> np.ndarray:
    """Places of grains on a shaken grid over a rectangle on the ground, layer by layer [m], (grains, 3)."""
    spacing = LOOSE * 2 * radius
    across = [int((b - a) / spacing) for a, b in zip(low, high, strict=True)]
    if min(across) < 1:
        raise ValueError(f"between {tuple(low)} and {tuple(high)} m there is no room for grains of {radius:g} m radius")
    layers = math.ceil(count / math.prod(across))
    number = np.stack(np.unravel_index(np.arange(count), (layers, *across)), 1)[:, [1, 2, 0]]
    shaken = random.uniform(-1, 1, number.shape) * (LOOSE - 1) * radius
    return np.array([*low, 0.0]) + (number + 0.5) * spacing + shaken


def settled(grains: Grains, pace: Pacing, seconds: float, *, machine: int, smooth: float = 0.0) -> Grains:
    """The same grains, at rest at their start; machine: how many of the last bodies are not there yet.

    smooth: the first seconds are without friction, so that no towers stand. Raises Impractical where lists of grains
    are too short.
    """
    alone = grains.bodies[: len(grains.bodies) - machine]
    bare = replace(grains, bodies=alone)
    state = replace(grains.rest_state(), body_impulse=grains.start.body_impulse[: len(alone)])
    if smooth:
        slippery = replace(bare, friction=jnp.zeros_like(grains.friction))
        state = _run(slippery, pace, math.ceil(smooth / pace.interval), state)
    state = _run(bare, pace, math.ceil(seconds / pace.interval), state)
    if int(state.overflow.max()):
        raise InfeasibleError(f"grains do not fit: {overflow_advice(grains, state.overflow)}")
    start = replace(
        state,
        velocity=jnp.zeros_like(state.velocity),
        body_impulse=jnp.concatenate([state.body_impulse, grains.start.body_impulse[len(alone) :]]),
        time=jnp.zeros_like(state.time),
    )
    return replace(grains, start=start)


@partial(jax.jit, static_argnames="pace")
def _run(grains: Grains, pace: Pacing, intervals: int, state: GrainState) -> GrainState:
    return jax.lax.fori_loop(0, intervals, lambda _, now: drive(grains, now, (), pace).grains, state)


INSIDE = 100.0
"""Reward for all grains inside the goal."""


def distance_to_box(position: Array, low: tuple[float, ...], high: tuple[float, ...]) -> Array:
    """From points to the nearest of a box along its axes, 0 inside [m], (n,); position: [m], (axes or more, n)."""
    here = position[: len(low)]
    first, last = (jnp.asarray(corner, position.dtype)[:, None] for corner in (low, high))
    beyond = jnp.maximum(jnp.maximum(first - here, here - last), 0)
    return jnp.sqrt((beyond**2).sum(0))


def moved_material(position: Array, low: tuple[float, ...], high: tuple[float, ...]) -> Array:
    """Per step 100 / n for each of n grains inside, -d / n for each that is a distance d [m] outside, ()."""
    distance = distance_to_box(position, low, high)
    return jnp.where(distance > 0, -distance, INSIDE).mean()


def share_inside(position: Array, low: tuple[float, ...], high: tuple[float, ...]) -> Array:
    """Of grains, (); position: [m], (axes or more, n)."""
    return (distance_to_box(position, low, high) == 0).mean()
