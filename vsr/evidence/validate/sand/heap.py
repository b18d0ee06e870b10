"""The slope that grains are left in when a gate is let down before them and they pour over the edge of a ledge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from vsr.evidence.validate.checks import Findings, absolute
from vsr.evidence.validate.sand.scenes import (
    PACKINGS,
    RADIUS,
    TURNING,
    live,
    of_all,
    packed,
    radii,
    thrown_in,
    wall,
    weight_of,
)
from vsr.physics.grains import Box, Grains, driven, fixed, grains_of
from vsr.sdf import Block
from vsr.terrain.sand import ROLLING

FALLING = 1.5
"""After which the top of the gate is down at that of the filling [s] ..."""
SINKING = 0.4
"""... as it sinks at this speed all the time [m/s]."""
RESTING = 1.0
"""After it is down [s]."""
PUBLISHED = {(2, TURNING): (12.0, 22.0), (3, TURNING): (17.0, 27.0), (2, ROLLING): (25.0, 35.0)}
"""Slopes at friction 0.5 by dimension and rolling resistance: of round grains, and of dry sand [degrees]; docs/sand.md
says whose."""
KINDS = {None: "still", TURNING: "turning", ROLLING: "sand"}


@dataclass(frozen=True)
class Ledge:
    """Sizes in diameters."""

    dimension: int
    count: int
    long: float
    """from the wall at the back to the edge"""
    high: float
    """of the filling, about"""
    pit: tuple[float, float]
    """length and depth of where grains fall"""
    wide: float = 4.2
    """in 3-D, across: cyclic, so that there are no walls"""


LEDGES = {
    2: Ledge(2, 330, 16.0, 20.0, (24.0, 16.0)),
    3: Ledge(3, 650, 14.0, 10.0, (16.0, 11.0)),
}


def check_heap(
    dimension: int, rolling: float | None, frictions: Sequence[float], packings: Sequence[int] = PACKINGS
) -> Findings:
    """Steeper with more friction, and as steep as others found."""
    ledge = LEDGES[dimension]
    worlds = [_filled(ledge, friction, rolling, seed) for seed in packings for friction in frictions]
    seconds = FALLING + 2 * RADIUS * ledge.high / SINKING + RESTING
    ends = of_all(lambda world: live(world, seconds, smooth=0.5 * FALLING).state.position, worlds)
    slopes = np.array([_slope(ledge, np.asarray(end)) for end in ends]).reshape(len(packings), len(frictions))
    mean, spread = slopes.mean(0), slopes.std(0)
    turning = "do not turn" if rolling is None else f"turn, rolling resistance {rolling:g}"
    note = f"{dimension}-D, {ledge.count} grains that {turning}, {packed(packings)}"
    rows = []
    for friction, slope, deviation in zip(frictions, mean, spread, strict=True):
        rows.append(absolute(f"slope at friction {friction:g}, {dimension}-D", slope, 0, None, "°", note))
        if len(packings) > 1:
            rows.append(absolute("its standard deviation over packings", deviation, 0, None, "°", note))
    if rolling is not None:  # who cannot turn stands in towers, and how steep is a matter of chance
        upto = frictions.index(0.5) + 1
        low, high = PUBLISHED[dimension, rolling]
        rises = min(0.0, float(np.diff(mean[:upto]).min()))
        rows += [
            absolute(f"least rise from friction to friction up to 0.5, {dimension}-D", rises, 0, 0.0, "°", note),
            absolute(
                f"slope at friction 0.5 against {low:g} to {high:g}°, {dimension}-D",
                mean[upto - 1],
                0.5 * (low + high),
                0.5 * (high - low),
                "°",
                note,
            ),
        ]
        if len(frictions) > upto:
            name = f"fall of the slope beyond friction 0.5, {dimension}-D"
            rows.append(absolute(name, max(0.0, float(mean[upto - 1] - mean[upto:].min())), 0, 1.0, "°", note))
    findings = Findings(rows)
    findings.series[f"heap_{dimension}d_{KINDS[rolling]}"] = {
        "friction": list(frictions),
        "slope": mean.tolist(),
        "spread": spread.tolist(),
    }
    return findings


def _filled(ledge: Ledge, friction: float, rolling: float | None, seed: int) -> Grains:
    """Grains to be thrown on a ledge, between a wall and a gate; beyond the gate is a pit."""
    dimension, diameter = ledge.dimension, 2 * RADIUS
    across = (diameter * ledge.wide,) * (dimension - 2)
    long, high = diameter * ledge.long, diameter * ledge.high
    pit, deep = diameter * ledge.pit[0], diameter * ledge.pit[1]
    tall, gate = 3.0 * high, high + SINKING * FALLING
    radius = radii(ledge.count, 0.15, seed)
    nowhere = (0.0,) * (dimension - 2)
    aside, up = np.eye(dimension)[0], np.eye(dimension)[-1]
    bodies = [
        fixed(Block(jnp.array([long, *across, deep])), (0.0, *nowhere, -deep), friction),
        wall(aside, np.zeros(dimension), friction),
        wall(up, -deep * up, friction),
        wall(-aside, (long + pit) * aside, friction),
        driven(
            Block(jnp.array([RADIUS, *across, 0.5 * gate])),
            (long + RADIUS, *nowhere, 0.5 * gate),
            (0.0, *nowhere, -SINKING),
            0.0,
        ),
    ]
    return grains_of(
        thrown_in(ledge.count, (long, *across, tall), radius, seed),
        radius,
        weight_of(dimension, radius),
        friction=friction,
        rolling=rolling,
        box=Box((0.0, *nowhere, -deep), (long + pit, *across, deep + tall), (False, *(True,) * (dimension - 2), False)),
        bodies=bodies,
        grounded=False,
    )


def _slope(ledge: Ledge, position: np.ndarray) -> float:
    """Of the surface between two diameters from the wall and two from the edge [degrees]; position: (dimension, n)."""
    diameter = 2 * RADIUS
    bins = diameter * np.arange(2, ledge.long - 2)
    x, up = position[0], position[-1]
    top = np.array([up[(x >= b) & (x < b + diameter)].max(initial=0.0) for b in bins])
    return float(np.degrees(np.arctan(-np.polyfit(bins, top, 1)[0])))
