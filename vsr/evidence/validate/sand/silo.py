"""A silo: walls carry what the floor does not (Janssen), and both together carry the weight.

As in the experiments, the floor is let down a little, so that friction at the walls is awake: how much it carries after
grains were only thrown in is a matter of how.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from vsr.evidence.validate.checks import Findings, absolute
from vsr.evidence.validate.sand.scenes import (
    GRAVITY,
    PACKINGS,
    RADIUS,
    STEP,
    TURNING,
    in_container,
    live,
    of_all,
    packed,
)
from vsr.physics.grains import Grains, driven

FILLINGS = {2: (150, 300, 600), 3: (200, 400, 800)}
"""Grains in silos of equal width."""
WIDTH = {2: 10, 3: 5}
"""Of the silo, in diameters."""
FILLED = 2.5
"""When the floor begins to move [s]."""
LET_DOWN = 1.5
"""How long it has moved when loads are taken [s] ..."""
WEIGHED = 0.5
"""... for so long [s]."""
LOWERED = 0.02
"""How fast it is let down [m/s]."""


def check_silo(dimension: int, packings: Sequence[int] = PACKINGS) -> Findings:
    """Three fillings of a silo with rough walls: floor and walls against the weight, and what the floor bears."""
    unit = "N/m" if dimension == 2 else "N"
    note = (
        f"{dimension}-D, {WIDTH[dimension]} diameters wide, grains that turn, friction 0.5 everywhere, floor let down "
        f"by {1000 * LOWERED:g} mm/s, {packed(packings)}"
    )
    findings, floors, weights = Findings(), [], []
    for count in FILLINGS[dimension]:
        worlds = [silo(dimension, count, seed) for seed in packings]
        weight = np.array([float(jnp.sum(world.mass)) * GRAVITY for world in worlds])
        pushes = np.stack([np.asarray(found) for found in of_all(_loads, worlds)])
        worst = np.abs(pushes.sum(1) / weight - 1).max()
        name = f"floor + walls against the weight, {count} grains, worst packing"
        findings.rows.append(absolute(name, 100 * worst, 0, 1.0, "%", note))
        floors.append(pushes[:, 0])
        weights.append(weight)
    loads, weight = np.stack(floors), np.stack(weights).mean(1)
    mean = loads.mean(1)
    findings.rows += [
        absolute(f"floor's share of the weight, fullest, {dimension}-D", mean[2] / weight[2], 0, 0.5, "", note),
        absolute(
            f"floor's share of what the last doubling added, {dimension}-D",
            (mean[2] - mean[1]) / (weight[2] - weight[1]),
            0,
            0.25,
            "",
            note,
        ),
        absolute(
            f"floor's share of what the first doubling added, {dimension}-D",
            (mean[1] - mean[0]) / (weight[1] - weight[0]),
            0,
            None,
            "",
            note,
        ),
        absolute(
            f"standard deviation of the floor's load, fullest, over its mean, {dimension}-D",
            loads[2].std() / mean[2],
            0,
            None,
            "",
            note,
        ),
    ]
    findings.series[f"silo_{dimension}d"] = {
        "weight": weight.tolist(),
        "floor": mean.tolist(),
        "spread": loads.std(1).tolist(),
        "unit": unit,
    }
    return findings


def silo(dimension: int, count: int, seed: int) -> Grains:
    """Grains to be thrown into a silo, whose floor is the first body."""
    width = 2 * RADIUS * WIDTH[dimension] * 1.06
    levels = count / (0.8 * WIDTH[dimension] ** (dimension - 1))
    size = (*(width,) * (dimension - 1), 2 * RADIUS * (1.5 * levels + 4))
    grains = in_container(dimension, count, size, friction=0.5, seed=seed, rolling=TURNING)
    down = (*(0.0,) * (dimension - 1), -LOWERED)
    floor = driven(grains.bodies[0].shape, (0.0,) * dimension, down, 0.5, begin=FILLED)
    return replace(grains, bodies=(floor, *grains.bodies[1:]))


def _loads(grains: Grains) -> jnp.ndarray:
    """Mean vertical forces on the floor and on all walls [N], (2,)."""
    lived = live(
        grains,
        FILLED + LET_DOWN + WEIGHED,
        smooth=0.5 * FILLED,
        last=WEIGHED,
        observe=lambda before, now, reactions: jnp.stack([-felt.impulse[-1] / STEP for felt in reactions]),
    )
    return jnp.stack([lived.mean[0], lived.mean[1:].sum()])
