"""Bodies among grains: sampled shapes, plates that sink and are dragged, and what grains do to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jax import Array

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
    settled,
    with_body,
)
from vsr.physics.grains import Grains, GrainState, driven, free
from vsr.physics.grains.bodies import Reaction
from vsr.physics.grains.model import momentum
from vsr.sdf import Ball, Block, Capsule, Cylinder, Sampled

PRESSURE = 125.0
"""Of the lightest plate: mass over its area [kg/m²]; about that of sand four diameters deep."""
WEIGHED = 0.2
"""How long forces are averaged [s]."""


@dataclass(frozen=True)
class Bed:
    """Of grains in a box with walls, and what is put into it; sizes in diameters."""

    dimension: int
    count: int
    level: tuple[float, ...]
    loads: tuple[float, ...]
    """of a free plate four diameters wide, over the lightest"""
    depths: tuple[float, ...]
    """to which a driven plate reaches"""


BEDS = {
    2: Bed(2, 480, (40.0,), (1.0, 3.0, 6.0, 12.0), (3.0, 6.0, 9.0)),
    3: Bed(3, 1300, (14.0, 10.0), (1.0, 3.0, 6.0), (2.0, 4.0, 6.0)),
}


def check_shapes() -> Findings:
    """Shapes sampled on a grid against their formulas, near the surface."""
    random = np.random.default_rng(0)
    points = tuple(jnp.asarray(part) for part in random.uniform(-0.6, 0.6, (3, 4000)))
    shapes = {
        "ball": Ball(jnp.asarray(0.4)),
        "block": Block(jnp.array([0.3, 0.2, 0.4])),
        "cylinder": Cylinder(jnp.asarray(0.3), jnp.asarray(0.35)),
        "capsule": Capsule(jnp.array([-0.2, 0.0, 0.1]), jnp.array([0.3, 0.1, -0.1]), jnp.asarray(0.2)),
    }
    spacing, rows = 0.03, []
    for name, shape in shapes.items():
        sampled = Sampled.of(shape, np.full(3, -0.7), np.full(3, 0.7), spacing)
        exact = np.asarray(shape.distance(points))
        near = np.abs(exact) < 0.1
        error = np.abs(np.asarray(sampled.distance(points)) - exact)[near].max()
        note = f"grid of {spacing:g} m, 4,000 points within 0.1 m of the surface; edges cost most"
        rows.append(absolute(f"largest error of a sampled {name}", error / spacing, 0, 0.5, "spacings", note))
    return Findings(rows)


def _lying(bed: Bed, packings: Sequence[int], friction: float, rolling: float | None) -> list[Grains]:
    """Beds at rest."""
    size = (*(2 * RADIUS * length for length in bed.level), 2.0)
    loose = [
        in_container(bed.dimension, bed.count, size, friction=friction, rolling=rolling, seed=seed) for seed in packings
    ]
    return settled(loose, 2.0)


def check_plate(dimension: int, packings: Sequence[int] = PACKINGS) -> Findings:
    """A free plate on a bed: its weight is what grains bear, and it sinks the deeper the heavier it is."""
    bed, half = BEDS[dimension], np.array([4 * RADIUS, *(4 * RADIUS,) * (dimension - 2), 2 * RADIUS])
    middle = [RADIUS * length for length in bed.level]
    unit = PRESSURE * float(np.prod(2 * half[:-1]))
    loaded, tops = [], []
    for grains in _lying(bed, packings, 0.3, TURNING):
        for load in bed.loads:
            x, up = grains.start.position[:-1], grains.start.position[-1]
            under = (jnp.abs(x - jnp.array(middle)[:, None]) < 5 * RADIUS).all(0)
            top = float(jnp.where(under, up, 0).max()) + RADIUS
            mass = load * unit
            plate = free(Block(jnp.asarray(half)), (*middle, top + half[-1]), mass, _inertia(half, mass))
            loaded.append(with_body(grains, plate))
            tops.append(top)
    shape = len(packings), len(bed.loads)
    found = np.array(of_all(lambda world: _sunk(world), loaded)).reshape(*shape, 2)
    sunk = (np.array(tops).reshape(shape) - (found[..., 0] - half[-1])) / RADIUS
    borne = found[..., 1] / (unit * np.array(bed.loads) * GRAVITY)
    mean = sunk.mean(0)
    note = (
        f"{dimension}-D, {bed.count} grains that turn, friction 0.3, a plate 4 diameters wide, {unit:.3g} to "
        f"{unit * bed.loads[-1]:.3g} kg, 2 s, {packed(packings)}"
    )
    worst = float(np.abs(borne - 1).max())
    rows = [
        absolute(f"what grains bear against the plate's weight, worst, {dimension}-D", 100 * worst, 0, 2, "%", note),
        absolute(
            f"least rise of the sinkage with the load, {dimension}-D",
            min(0.0, float(np.diff(mean).min())),
            0,
            0.0,
            "radii",
            note,
        ),
    ]
    for load, depth, deviation in zip(bed.loads, mean, sunk.std(0), strict=True):
        rows.append(absolute(f"sinkage under {load * unit:.3g} kg, {dimension}-D", depth, 0, None, "radii", note))
        if len(packings) > 1:
            rows.append(absolute("its standard deviation over packings", deviation, 0, None, "radii", note))
    findings = Findings(rows)
    findings.series[f"plate_{dimension}d"] = {
        "load": [load * unit for load in bed.loads],
        "sinkage": mean.tolist(),
        "spread": sunk.std(0).tolist(),
    }
    return findings


def _inertia(half: np.ndarray, mass: float) -> float | list[float]:
    """Of a block about its middle [kg m²]."""
    squared = half**2
    return mass * float(squared.sum()) / 3 if len(half) == 2 else (mass * (squared.sum() - squared) / 3).tolist()


def _sunk(grains: Grains) -> Array:
    """Height of a free plate [m] and what grains bear of it [N], (2,)."""
    lived = live(grains, 2.0, last=WEIGHED, observe=lambda before, now, reactions: reactions[-1].impulse[-1] / STEP)
    return jnp.stack([lived.state.bodies[0].position[-1], lived.mean])


def check_drag(dimension: int, packings: Sequence[int] = PACKINGS) -> Findings:
    """A plate dragged through a bed: the force grows with depth, and is what grains receive, with the other sign."""
    bed = BEDS[dimension]
    pushed = []
    for grains in _lying(bed, packings, 0.5, None):
        top = float(jnp.quantile(grains.start.position[-1], 0.98))
        for depth in bed.depths:
            half = jnp.array([RADIUS, *(4 * RADIUS,) * (dimension - 2), 2 * RADIUS * depth])
            place = (2 * RADIUS * 0.25 * bed.level[0], *(RADIUS * length for length in bed.level[1:]), top)
            # It stands in the bed from the start, and what it displaces is pushed aside before it is dragged.
            plate = driven(Block(half), place, (0.2, *(0.0,) * (dimension - 1)), 0.5, begin=0.3)
            pushed.append(with_body(grains, plate))
    found = np.array(of_all(_dragged, pushed)).reshape(len(packings), len(bed.depths), 2)
    forces, mean = found[..., 0], found[..., 0].mean(0)
    unit = "N/m" if dimension == 2 else "N"
    depths = ", ".join(f"{depth:g}" for depth in bed.depths)
    note = (
        f"{dimension}-D, {bed.count} grains that do not turn, friction 0.5, 0.2 m/s, plates that reach {depths} "
        f"diameters deep, {packed(packings)}"
    )
    powers = np.polyfit(np.log(bed.depths), np.log(np.maximum(forces, 1e-9)).T, 1)[0]
    rise = min(0.0, float(np.diff(mean).min()))
    mismatch = float(found[..., 1].max())
    findings = Findings(
        [
            absolute(f"least rise of the force with depth, {dimension}-D", rise, 0, 0.0, unit, note),
            absolute(f"exponent of the force over depth, {dimension}-D", powers.mean(), 2.0, None, "", note),
            absolute(f"its standard deviation over packings, {dimension}-D", powers.std(), 0, None, "", note),
            absolute(f"reactions + what grains gained, over their weight, {dimension}-D", mismatch, 0, 1e-5, "", note),
        ]
    )
    findings.series[f"drag_{dimension}d"] = {
        "depth": list(bed.depths),
        "force": mean.tolist(),
        "spread": forces.std(0).tolist(),
    }
    return findings


def _dragged(grains: Grains) -> Array:
    """Mean force that holds a plate back [N], and by how much of the weight reactions do not fit, (2,)."""
    weight = GRAVITY * grains.mass.sum() * STEP

    def observe(before: GrainState, now: GrainState, reactions: tuple[Reaction, ...]) -> tuple[Array, Array]:
        given = momentum(grains, now) - momentum(grains, before)
        given = given.at[-1].add(weight)
        felt = sum(reaction.impulse for reaction in reactions)
        return -reactions[-1].impulse[0] / STEP, jnp.abs(given + felt).max() / weight

    lived = live(grains, 1.0 + WEIGHED, last=WEIGHED, observe=observe)
    return jnp.stack([lived.mean[0], lived.most[1]])
