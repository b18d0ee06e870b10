"""Grains that flow out of a hole in the floor (Beverloo's law).

Beverloo, Leniger and van de Velde (1961): the rate is C rho sqrt(g) (D - k d)^p through a hole of width D, of grains of
diameter d; p = 5/2 for a round hole, 3/2 for a slit or in the plane.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.vector import Vector
from vsr.evidence.validate.checks import Findings, absolute
from vsr.evidence.validate.sand.scenes import (
    GRAVITY,
    PACKINGS,
    RADIUS,
    STEP,
    TURNING,
    container,
    free_space,
    of_all,
    packed,
    radii,
    settled,
    thrown_in,
    weight_of,
)
from vsr.physics.grains import Box, Grains, GrainState, fixed, grains_of
from vsr.physics.grains.step import step
from vsr.sdf import Ball, Block

LOST = 1.4
"""Of the width that does not count, in diameters (Beverloo's k)."""
LEVELS = 8
"""At which grains that fell are put back, a diameter apart, one after the other ..."""
DROPPED = 1.0
"""... with this speed [m/s], so that they are gone when the next come."""
FAR = 2.0
"""Half of how far a plate reaches from its hole [m]."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Pierced:
    """A wide level plate about the origin with a hole: a slit in 2-D, round in 3-D."""

    half: Array
    """half the hole's width [m], (); below 0 there is none"""
    thick: Array
    """half the plate's thickness [m], ()"""

    def distance(self, point: Vector) -> Array:
        *level, up = point
        away = Ball(jnp.zeros(())).distance(tuple(level)) - self.half - FAR
        return Block(jnp.stack([jnp.full_like(self.thick, FAR), self.thick])).distance((away, up))


@dataclass(frozen=True)
class Hourglass:
    """How large it is."""

    dimension: int
    holes: tuple[float, ...]
    """widths, in diameters"""
    width: float
    """of the box, in diameters: at least 2.5 times the widest hole (Mankoc et al. 2007)"""
    count: int
    """grains: enough for a filling 1.2 times as high as the box is wide"""
    packings: Sequence[int] = PACKINGS
    seconds: float = 1.5
    """how long grains are counted [s], half a second after the hole was opened"""


PLANE = Hourglass(2, (6.5, 8.0, 10.0, 12.0), 30.0, 1150)
SPACE = Hourglass(3, (6.0, 6.7, 7.4, 8.0), 20.0, 11000)
"""A hole of 5 diameters is blocked within half a second in each of three packings, as one in the plane below 6.5."""
EXPONENT = {2: (1.5, 0.2), 3: (2.5, 0.3)}
"""Of the law, and how far from it we may be."""


def check_hourglass(size: Hourglass) -> Findings:
    """The rate of flow over the width of the hole."""
    dimension, holes = size.dimension, np.array(size.holes)
    lying = settled([_closed(size, seed) for seed in size.packings], 1.5)
    worlds = [_opened(world, hole) for world in lying for hole in holes]
    rates = np.array(of_all(lambda world: _rate(world, size.seconds), worlds)).reshape(len(lying), len(holes))
    expected, tolerance = EXPONENT[dimension]
    # By an arch, at some time: next to nothing of what the law makes of the flow through the widest hole.
    blocked = rates < 0.1 * rates[:, -1:] * ((holes - LOST) / (holes[-1] - LOST)) ** expected
    kept = rates[~blocked.any(1)]
    powers = np.polyfit(np.log(holes - LOST), np.log(kept).T, 1)[0] if len(kept) else np.array([np.nan])
    dense = {2: 0.82, 3: 0.58}[dimension] * 1000
    law = dense * np.sqrt(GRAVITY) * (2 * RADIUS * (holes[-1] - LOST)) ** expected
    constant = rates[:, -1].mean() * weight_of(dimension) / law
    note = (
        f"{dimension}-D, {size.count} grains that turn, friction 0.3, box of {size.width:g} diameters, holes of "
        f"{holes[0]:g} to {holes[-1]:g} less {LOST:g}; what falls is put back on top; {packed(size.packings)}"
    )
    findings = Findings(
        [
            absolute(f"exponent of the rate of flow, {dimension}-D", powers.mean(), expected, tolerance, "", note),
            absolute(f"its standard deviation over packings, {dimension}-D", powers.std(), 0, None, "", note),
            absolute(f"holes that were blocked, {dimension}-D", blocked.sum(), 0, 0, "", note),
            absolute(f"Beverloo's C at the widest hole, {dimension}-D", constant, 0.58, None, "", note),
        ]
    )
    findings.series[f"hourglass_{dimension}d"] = {
        "hole": list(size.holes),
        "rate": rates.mean(0).tolist(),
        "spread": rates.std(0).tolist(),
        "exponent": float(powers.mean()),
    }
    return findings


def _closed(size: Hourglass, seed: int) -> Grains:
    """Grains thrown on the plate without its hole."""
    dimension, diameter = size.dimension, 2 * RADIUS
    width = diameter * size.width
    across = size.width ** (dimension - 1)
    high = diameter * (1.8 * size.count / across + LEVELS + 4)
    level = (width,) * (dimension - 1)
    radius, thick = radii(size.count, 0.15, seed), 0.5 * RADIUS
    middle = (*(0.5 * width,) * (dimension - 1), -thick)
    plate = fixed(Pierced(jnp.asarray(-1.0), jnp.asarray(thick)), middle, 0.5)
    return grains_of(
        thrown_in(size.count, (*level, high), radius, seed),
        radius,
        weight_of(dimension, radius),
        friction=0.3,
        rolling=TURNING,  # grains that cannot turn block such holes
        box=Box((*(0.0,) * (dimension - 1), -0.3), (*level, high + 0.3), (False,) * dimension),
        bodies=[plate, *container((*level, high), 0.5)[1:]],
        grounded=False,
    )


def _opened(grains: Grains, hole: float) -> Grains:
    plate, *walls = grains.bodies
    pierced = replace(plate, shape=replace(plate.shape, half=jnp.asarray(RADIUS * hole, jnp.float32)))
    return replace(grains, bodies=(pierced, *walls))


def _rate(grains: Grains, seconds: float) -> Array:
    """Grains that fall through in a second, ()."""
    dimension, diameter = grains.dimension, 2 * RADIUS
    top = grains.start.position[-1].max() + diameter
    width = jnp.asarray(grains.box.size[:-1])
    # Places that fill a line or a square evenly, however many there are.
    ratio = jnp.array([0.618034] if dimension == 2 else [0.754878, 0.569840])
    on_a_level = 8 * (dimension - 1)
    begin = round(0.5 / STEP)

    def one(number: Array, carry: tuple[GrainState, Array, Array]) -> tuple[GrainState, Array, Array]:
        state, before, counted = carry
        state, _, _ = step(grains, free_space(), state, (), STEP)
        fell = state.position[-1] < -0.2
        order = before + jnp.cumsum(fell)
        high = top + diameter * (order // on_a_level % LEVELS)
        level = width[:, None] * (0.1 + 0.8 * jnp.mod(order * ratio[:, None], 1.0))
        place = jnp.concatenate([level, high[None]])
        dropped = jnp.zeros((dimension, 1)).at[-1].set(-DROPPED)
        state = replace(
            state,
            position=jnp.where(fell, place, state.position),
            velocity=jnp.where(fell, dropped, state.velocity),
        )
        lost = fell.sum()
        return state, before + lost, counted + jnp.where(number >= begin, lost, 0)

    none = jnp.zeros((), jnp.int32)
    count = begin + round(seconds / STEP)
    _, _, counted = jax.lax.fori_loop(0, count, one, (grains.rest_state(), none, none))
    return counted / ((count - begin) * STEP)
