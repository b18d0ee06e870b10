"""Beds at rest: how deep grains lie in each other, and how still, also in a tall column."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from vsr.evidence.validate.checks import Findings, absolute
from vsr.evidence.validate.sand.scenes import GRAVITY, RADIUS, free_space, in_container, penetration, run, weight_of
from vsr.physics.grains import Grains, GrainState
from vsr.physics.grains.bed import lie_down
from vsr.physics.grains.model import in_order
from vsr.terrain.sand import FILLED, longest_step

WATCHED = 60.0
"""How long a bed is watched [s] ..."""
WINDOW = 2.0
"""... in spans of this length, of which the liveliest counts [s]."""


def check_rest(dimension: int, count: int, across: int, settle: float = 8.0, watched: float = WATCHED) -> Findings:
    """A bed in a container, at the longest step that robots' sand takes."""
    size = (*(2.2 * RADIUS * across,) * (dimension - 1), 4.0)
    depth = weight_of(dimension) * count / (1000 * FILLED[dimension] * size[0] ** (dimension - 1))
    duration = longest_step(RADIUS, depth, GRAVITY)
    grains = in_container(dimension, count, size)
    space = free_space()
    settled = lie_down(grains, space, duration, round(settle / duration))
    deepest, mean = penetration(grains, settled)
    later, most = settled, 0.0
    for _ in range(round(watched / WINDOW)):
        before, later = later, run(grains, space, later, round(WINDOW / duration), duration)
        most = max(most, way(grains, before, later) / WINDOW)
    layers = float(settled.position[-1].max()) / (2 * RADIUS)
    note = f"{count} grains, {layers:.0f} layers, settled for {settle:g} s, steps of {1000 * duration:.2f} ms"
    label = f"{dimension}-D, {layers:.0f} layers"
    rest = float(jnp.sqrt((later.velocity**2).sum(0).mean()))
    return Findings(
        [
            absolute(f"deepest overlap over the radius, {label}", 100 * deepest, 0, 1.0, "%", note),
            absolute(f"mean overlap over the radius, {label}", 100 * mean, 0, None, "%", note),
            absolute(f"largest movement over the radius in a second, {label}", 100 * most, 0, 0.01, "%/s", note),
            absolute(f"speed at the end, {label}", rest, 0, None, "m/s", note),
            absolute(f"neighbours without a place, {label}", float(later.beyond.max()), 0, 0, "", note),
        ]
    )


def way(grains: Grains, before: GrainState, after: GrainState) -> float:
    """Root of the mean squared way of grains, in radii."""
    between = np.asarray(in_order(after.position, after)) - np.asarray(in_order(before.position, before))
    return float(np.sqrt((between**2).sum(0).mean()) / grains.largest)
