"""A silo: walls carry what the floor does not (Janssen), and both together carry the weight.

As in the experiments, the floor is let down a little, so that friction at the walls is awake: how much it carries after
grains were only thrown in is a matter of how.
"""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from experiments.validate.rows import Findings, absolute, relative
from experiments.validate.sand.scenes import GRAVITY, RADIUS, STEP, free_space, in_container, run
from vsr.physics.grains import Grains, GrainState, driven
from vsr.physics.grains.bed import lie_down
from vsr.physics.grains.step import step

FILLINGS = (150, 300, 600)
"""Grains in silos of equal width."""
WIDTH = 10
"""Of the silo, in diameters."""
SETTLED = 3.0
"""When the floor begins to move [s]."""
LET_DOWN = 2.0
"""How long it has moved when loads are taken [s]."""
LOWERED = 0.02
"""How fast it is let down [m/s]."""


def check_silo() -> Findings:
    """Three fillings of a silo with rough walls: floor and walls against the weight, and the floor's share of it."""
    findings, shares = Findings(), []
    for count in FILLINGS:
        size = (2 * RADIUS * WIDTH * 1.06, 2 * RADIUS * count / 4)
        grains = in_container(2, count, size, friction=0.5, wall_friction=0.5)
        floor = driven(grains.bodies[0].shape, (0.0, 0.0), (0.0, -LOWERED), 0.5, begin=SETTLED)
        grains = replace(grains, bodies=(floor, *grains.bodies[1:]))
        lying = lie_down(grains, free_space(), STEP, round(SETTLED / STEP))
        state = run(grains, free_space(), lying, round(LET_DOWN / STEP))
        floor, walls = loads(grains, state)
        weight = float(np.sum(grains.mass)) * GRAVITY
        note = f"2-D, {WIDTH} diameters wide, friction 0.5 everywhere, floor let down by {1000 * LOWERED:g} mm/s"
        findings.rows.append(relative(f"floor + walls, {count} grains", floor + walls, weight, 0.01, "N/m", note))
        shares.append((floor, weight))
    (low, _), (middle, _), (high, weight) = shares
    findings.rows += [
        absolute("share of the weight on the floor, fullest", high / weight, 0, 0.5, "", note),
        absolute(
            "rise of the floor's load when the filling doubles again", max(high / middle - 1, 0), 0, 0.25, "", note
        ),
        absolute("the same with its sign", high / middle - 1, 0, None, "", note),
        absolute("rise when it doubled first", middle / low - 1, 0, None, "", note),
    ]
    findings.series["silo"] = {"weight": [w for _, w in shares], "floor": [f for f, _ in shares]}
    return findings


def loads(grains: Grains, state: GrainState, steps: int = 1000) -> tuple[float, float]:
    """Mean vertical forces on the floor and on all walls [N]."""

    def one(now: GrainState, nothing: None) -> tuple[GrainState, jnp.ndarray]:
        now, _, reactions = step(grains, free_space(), now, (), STEP)
        return now, jnp.stack([-reaction.impulse[-1] / STEP for reaction in reactions])

    _, pushes = jax.jit(lambda state: jax.lax.scan(one, state, length=steps))(state)
    floor, *walls = np.asarray(pushes).mean(0)
    return float(floor), float(np.sum(walls))
