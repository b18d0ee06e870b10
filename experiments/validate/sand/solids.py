"""Bodies among grains: sampled shapes, plates that sink and are dragged, and what grains do to them."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from experiments.validate.rows import Findings, absolute, relative
from experiments.validate.sand.scenes import GRAVITY, RADIUS, STEP, free_space, in_container, run
from vsr.physics.grains import Grains, GrainState, driven, free
from vsr.physics.grains.bed import lie_down
from vsr.physics.grains.model import each
from vsr.physics.grains.step import step
from vsr.sdf import Ball, Block, Capsule, Cylinder, Sampled

LOADS = (1.0, 3.0, 6.0, 12.0)
"""Of the plate, in weights of the bed below it."""
DEPTHS = (3.0, 6.0, 9.0)
"""At which a plate is dragged, in diameters."""


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


def _bed(friction: float = 0.5, rolling: float | None = None) -> tuple[Grains, GrainState]:
    """A bed in a wide box, at rest."""
    size = (2 * RADIUS * 40, 2.0)
    grains = in_container(2, 480, size, friction=friction, rolling=rolling)
    return grains, lie_down(grains, free_space(), STEP, round(2.0 / STEP))


def check_plate() -> Findings:
    """A free plate on a bed: its weight is what grains bear, and it sinks the deeper the heavier it is."""
    grains, lying = _bed(friction=0.3, rolling=0.02)
    top = float(lying.position[-1].max())
    half = np.array([4 * RADIUS, 2 * RADIUS])
    weight = float(np.mean(grains.mass)) * 16
    sunk, borne = [], []
    for load in LOADS:
        mass = load * weight
        plate = free(
            Block(jnp.asarray(half)),
            (20 * 2 * RADIUS, top + half[1] + 1.05 * RADIUS),
            mass,
            mass * float((half**2).sum()) / 3,
        )
        loaded = replace(grains, bodies=(*grains.bodies, plate))
        start = replace(
            lying,
            bodies=(plate.motion,),
            body_impulse=jnp.concatenate([lying.body_impulse, jnp.zeros_like(lying.body_impulse[:1])]),
        )
        state = run(loaded, free_space(), start, round(2.0 / STEP))
        sunk.append(float(top - (state.bodies[0].position[-1] - half[1])))
        borne.append(_mean_push(loaded, state)[1] / (mass * GRAVITY))
    note = f"2-D, a plate 4 diameters wide, loads of {LOADS[0] * weight:.0f} to {LOADS[-1] * weight:.0f} kg, 2 s"
    findings = Findings(
        [
            relative("what grains bear over the plate's weight, heaviest", borne[-1], 1.0, 0.02, "", note),
            absolute(
                "least rise of the sinkage with the load",
                min(0.0, float(np.diff(sunk).min()) / RADIUS),
                0,
                0.05,
                "radii",
                note,
            ),
            absolute("sinkage under the heaviest", sunk[-1] / RADIUS, 0, None, "radii", note),
        ]
    )
    findings.series["plate"] = {"load": [load * weight for load in LOADS], "sinkage": sunk}
    return findings


def check_drag() -> Findings:
    """A plate dragged through a bed: the force grows with depth, and is what grains receive, with the other sign."""
    grains, lying = _bed()
    top = float(lying.position[-1].max())
    forces, mismatch = [], 0.0
    for depth in DEPTHS:
        half = np.array([RADIUS, depth * RADIUS])
        # It stands in the bed from the start, and what it displaces is pushed aside before it is dragged.
        plate = driven(Block(jnp.asarray(half)), (10 * 2 * RADIUS, top), (0.2, 0.0), 0.5, begin=0.3)
        state = replace(
            lying,
            time=jnp.zeros_like(lying.time),
            body_impulse=jnp.concatenate([lying.body_impulse, jnp.zeros_like(lying.body_impulse[:1])]),
        )
        pushed = replace(grains, bodies=(*grains.bodies, plate))
        state = run(pushed, free_space(), state, round(1.0 / STEP))
        force, _, gap = _mean_push_and_gap(pushed, state)
        forces.append(-force)
        mismatch = max(mismatch, gap)
    note = "2-D, 0.2 m/s, plates that reach 3, 6 and 9 diameters deep"
    power = float(np.polyfit(np.log(DEPTHS), np.log(np.maximum(forces, 1e-9)), 1)[0])
    findings = Findings(
        [
            absolute("least rise of the force with depth", min(0.0, float(np.diff(forces).min())), 0, 0.0, "N/m", note),
            absolute("exponent of the force over depth", power, 2.0, None, "", note),
            absolute("reactions + what grains gained, over their weight", mismatch, 0, 1e-5, "", note),
        ]
    )
    findings.series["drag"] = {"depth": list(DEPTHS), "force": forces}
    return findings


def _mean_push(grains: Grains, state: GrainState, steps: int = 400) -> tuple[float, float]:
    """Mean force of grains on the last body [N], along x and up."""
    along, up, _ = _mean_push_and_gap(grains, state, steps)
    return along, up


def _mean_push_and_gap(grains: Grains, state: GrainState, steps: int = 400) -> tuple[float, float, float]:
    """The same, and by how much the reaction differs from what grains received, over its size."""

    def one(now: GrainState, nothing: None) -> tuple[GrainState, tuple[Array, Array]]:
        before = now
        now, _, reactions = step(grains, free_space(), now, (), STEP)
        given = (each(grains.mass, now) * now.velocity).sum(-1) - (each(grains.mass, before) * before.velocity).sum(-1)
        weight = jnp.zeros_like(given).at[-1].set(-STEP * GRAVITY * grains.mass.sum())
        all_reactions = sum(reaction.impulse for reaction in reactions)
        return now, (reactions[-1].impulse / STEP, given - weight + all_reactions)

    _, (pushes, gaps) = jax.jit(lambda state: jax.lax.scan(one, state, length=steps))(state)
    pushes = np.asarray(pushes)
    scale = GRAVITY * float(np.sum(grains.mass)) * STEP
    return float(pushes[:, 0].mean()), float(pushes[:, 1].mean()), float(np.abs(np.asarray(gaps)).max() / scale)
