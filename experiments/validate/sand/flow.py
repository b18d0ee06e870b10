"""Grains that flow: out of a hole in the floor (Beverloo), and down a heap when a wall is taken away."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from experiments.validate.rows import Findings, absolute
from experiments.validate.sand.scenes import (
    RADIUS,
    STEP,
    closed_box,
    container,
    free_space,
    in_container,
    radii,
    run,
    thrown_in,
    weight_of,
)
from vsr.physics.grains import GrainState, driven, fixed, grains_of
from vsr.physics.grains.bed import lie_down
from vsr.physics.grains.step import step
from vsr.sdf import Block, HalfSpace

HOLES = (5.0, 6.5, 8.0, 10.0)
"""Widths of the hole, in diameters."""
LOST = 1.4
"""Of the width that does not count, in diameters (Beverloo's k)."""
FRICTIONS = (0.1, 0.3, 0.5, 0.8)
EXPECTED = 10.0, 30.0
"""Between which heaps of discs that turn a little should rest [degrees]: a wide range of our own, set after a run."""


def check_hourglass() -> Findings:
    """The rate of flow through a slit in the plane goes with the 3/2 power of its width, less Beverloo's margin."""
    rates = [_rate(hole) for hole in HOLES]
    power, _ = np.polyfit(np.log(np.array(HOLES) - LOST), np.log(rates), 1)
    note = f"2-D, holes of {HOLES[0]:g} to {HOLES[-1]:g} diameters less {LOST:g}; what falls is put back on top"
    findings = Findings([absolute("exponent of the rate of flow", power, 1.5, 0.2, "", note)])
    findings.series["hourglass"] = {"hole": list(HOLES), "rate": rates}
    return findings


def _rate(hole: float, count: int = 1000, seconds: float = 2.0) -> float:
    """Grains that fall through a hole in the floor in a second; hole: in diameters."""
    width, half = 2 * RADIUS * 30, RADIUS * hole
    size = (width, 2.0)
    radius = radii(count, 0.15, 1)
    thick = 2 * RADIUS
    plates = [
        fixed(Block(jnp.array([0.25 * width - 0.5 * half, thick])), (0.5 * (0.5 * width - half), -thick), 0.5),
        fixed(Block(jnp.array([0.25 * width - 0.5 * half, thick])), (width - 0.5 * (0.5 * width - half), -thick), 0.5),
    ]
    lid = driven(Block(jnp.array([half, thick])), (0.5 * width, -thick), (0.0, -20.0), 0.5, begin=1.0)
    grains = grains_of(
        thrown_in(count, size, radius, 1),
        radius,
        weight_of(2, radius),
        friction=0.3,
        rolling=0.02,  # grains that cannot turn block such holes
        box=replace(closed_box(2, size), low=(0.0, -0.5), size=(width, 3.0)),
        bodies=[*container(size, 0.5)[1:], *plates, lid],
        grounded=False,
    )

    def one(state: GrainState, nothing: None) -> tuple[GrainState, Array]:
        state, _, _ = step(grains, free_space(), state, (), STEP)
        fell = state.position[-1] < -0.3
        top = jnp.where(fell, -jnp.inf, state.position[-1]).max()
        # Put back above the filling, each over its own place, at rest.
        high = top + 2 * RADIUS * (1 + jnp.cumsum(fell))
        position = state.position.at[-1].set(jnp.where(fell, high, state.position[-1]))
        spread = width * (0.1 + 0.8 * jnp.mod(state.id * 0.618034, 1.0))
        position = position.at[0].set(jnp.where(fell, spread, position[0]))
        velocity = jnp.where(fell, 0, state.velocity)
        return replace(state, position=position, velocity=velocity), fell.sum()

    lying = lie_down(grains, free_space(), STEP, round(1.0 / STEP))
    _, fallen = jax.jit(lambda state: jax.lax.scan(one, state, length=round((seconds + 0.5) / STEP)))(lying)
    steady = np.asarray(fallen)[round(0.5 / STEP) :]
    return float(steady.sum() / (len(steady) * STEP))


def check_heap(rolling: float | None, seeds: tuple[int, ...] = (1, 2)) -> Findings:
    """The slope that is left when a wall is taken away: steeper with more friction."""
    slopes = [float(np.mean([_slope(friction, rolling, seed) for seed in seeds])) for friction in FRICTIONS]
    turning = "that do not turn" if rolling is None else f"that turn, rolling friction {rolling:g}"
    note = f"2-D, discs {turning}, mean of {len(seeds)} packings"
    rows = [
        absolute(f"slope at friction {friction:g}, {turning}", slope, 0, None, "°", note)
        for friction, slope in zip(FRICTIONS, slopes, strict=True)
    ]
    if rolling is not None:  # who cannot turn stands in towers, and how steep is a matter of chance
        rises, middle = float(np.diff(slopes).min()), slopes[FRICTIONS.index(0.5)]
        center, half = 0.5 * sum(EXPECTED), 0.5 * (EXPECTED[1] - EXPECTED[0])
        rows += [
            absolute(f"least rise from friction to friction, {turning}", min(rises, 0.0), 0, 0.0, "°", note),
            absolute(f"at friction 0.5 against {EXPECTED[0]:g} to {EXPECTED[1]:g}°", middle, center, half, "°", note),
        ]
    return Findings(rows)


def _slope(friction: float, rolling: float | None, seed: int, count: int = 350) -> float:
    """Of the heap that is left [degrees]."""
    width, tall = 2 * RADIUS * 45, 3.0
    size = (2 * RADIUS * 16, tall)
    grains = in_container(2, count, size, friction=friction, wall_friction=friction, seed=seed, rolling=rolling)
    gate = driven(HalfSpace(jnp.array([-1.0, 0.0]), jnp.zeros(())), (size[0], 0.0), (4.0, 0.0), 0.0, begin=1.5)
    floor, back, _ = grains.bodies
    grains = replace(grains, bodies=(floor, back, gate), box=replace(grains.box, size=(width, tall)))
    grains = replace(grains, start=replace(grains.start, starts=jnp.zeros(int(np.prod(grains.cells)) + 1, jnp.int32)))
    lying = lie_down(grains, free_space(), STEP, round(1.5 / STEP))
    left = run(grains, free_space(), lying, round(3.5 / STEP))
    x, y = np.asarray(left.position)
    bins = np.arange(0, width, 2 * RADIUS)
    top = np.array([y[(x >= b) & (x < b + 2 * RADIUS)].max(initial=0.0) for b in bins])
    high = top.max()
    # Its foot is a single layer, and its head may lean on the wall.
    on_slope = (top > 4 * RADIUS) & (top < max(0.9 * high, 8 * RADIUS)) & (bins >= bins[top.argmax()])
    if on_slope.sum() < 3:
        return 0.0
    line = np.polyfit(bins[on_slope], top[on_slope], 1)
    return float(np.degrees(np.arctan(-line[0])))
