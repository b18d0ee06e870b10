"""The smallest scenes of grains.

Single contacts and free clouds: friction on an incline, momentum, energy, and that a boost changes nothing.

Beds at rest: how deep grains lie in each other, and how still, also in a tall column.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.evidence.validate.checks import Findings, absolute, relative
from vsr.evidence.validate.sand.scenes import (
    GRAVITY,
    RADIUS,
    STEP,
    closed_box,
    free_space,
    in_container,
    kinetic_energy,
    penetration,
    run,
    wall,
    weight_of,
)
from vsr.physics.granular import Box, Grains, GrainState, grains_of
from vsr.physics.granular.bed import lie_down, settling
from vsr.physics.granular.model import angular_momentum, in_order
from vsr.physics.granular.step import step
from vsr.sdf import HalfSpace
from vsr.terrain.sand import FILLED, longest_step

FRICTION = 0.5
STEEPER = 5.0
"""Than the angle of friction, where sliding is timed [degrees]."""


def check_incline(dimension: int) -> Findings:
    """At which angle a grain begins to slide, and how fast it does beyond."""
    expected = float(np.degrees(np.arctan(FRICTION)))
    angles = np.concatenate([expected + np.arange(-0.5, 0.51, 0.05), [expected + STEEPER]])
    speeds = np.asarray(jax.vmap(partial(_slid, dimension))(jnp.radians(angles)))
    begins = angles[:-1][speeds[:-1] > 1e-3 * GRAVITY * 0.5 * np.radians(1)][0]
    steep = np.radians(angles[-1])
    slides = 0.5 * GRAVITY * (np.sin(steep) - FRICTION * np.cos(steep))
    note = f"one {'disc' if dimension == 2 else 'ball'} that does not turn, friction {FRICTION:g}, after 0.5 s"
    return Findings(
        [
            absolute(f"angle at which it slides, {dimension}-D", begins, expected, 0.2, "°", note),
            relative(f"speed {STEEPER:g}° beyond, {dimension}-D", speeds[-1], slides, 0.01, "m/s", note),
        ]
    )


def check_refinement(dimension: int) -> Findings:
    """How the way that a grain slid comes nearer to the exact one with shorter steps."""
    angle, time = np.arctan(FRICTION) + np.radians(STEEPER), 0.5
    exact = 0.5 * time**2 * GRAVITY * (np.sin(angle) - FRICTION * np.cos(angle))
    counts = np.array([250, 500, 1000])
    ways = [float(jnp.linalg.norm(_sliding(dimension, angle, count, time / count).position[:, 0])) for count in counts]
    began = RADIUS  # from the foot of the incline to the center: at right angles to the way
    errors = np.abs(np.sqrt(np.square(ways) - began**2) - exact)
    order = -np.polyfit(np.log(counts), np.log(errors), 1)[0]
    note = f"one grain on an incline {STEEPER:g}° too steep for it, {time:g} s in {counts[0]} to {counts[-1]} steps"
    return Findings(
        [
            absolute(f"order of the error over the step, {dimension}-D", order, 1, 0.1, "", note),
            absolute(f"error with smallest step over the way, {dimension}-D", errors[-1] / exact, 0, None, "", note),
        ]
    )


def _slid(dimension: int, angle: Array) -> Array:
    """Speed of a grain after half a second on an incline [m/s]."""
    return jnp.sqrt((_sliding(dimension, angle, round(0.5 / STEP), STEP).velocity ** 2).sum())


def _sliding(dimension: int, angle: Array | float, count: int, duration: float) -> GrainState:
    """A grain on an incline after some steps."""
    normal = jnp.array([jnp.sin(angle), *(0.0,) * (dimension - 2), jnp.cos(angle)])
    up = np.eye(dimension)[-1]
    level = grains_of(
        RADIUS * up[None],
        RADIUS,
        weight_of(dimension),
        friction=FRICTION,
        rolling=None,
        box=Box((-0.1,) * dimension, (0.2,) * dimension, (False,) * dimension),  # who leaves it is not lost
        bodies=[wall(up, np.zeros(dimension), FRICTION)],
        grounded=False,
    )
    incline = replace(level.bodies[0], shape=HalfSpace(normal, jnp.zeros(())))
    start = replace(level.start, position=(RADIUS * normal)[:, None])
    return run(replace(level, bodies=(incline,)), free_space(), start, count, duration)


def cloud(dimension: int, count: int = 300, boost: float = 0.0, spread: float = 0.15) -> Grains:
    """Grains in 3-D that fly towards their middle, and all together along x [m/s]."""
    random = np.random.default_rng(3)
    radius = RADIUS * random.uniform(1 - spread, 1 + spread, count)
    side = int(np.ceil(count ** (1 / dimension)))
    place = np.stack(np.unravel_index(np.arange(count), (side,) * dimension), 1)
    position = (place + 0.5) * 2.4 * RADIUS + random.uniform(-0.1, 0.1, place.shape) * RADIUS
    size = side * 2.4 * RADIUS
    velocity = -2.0 * (position - size / 2) / size + random.uniform(-0.3, 0.3, place.shape)
    velocity[:, 0] += boost
    return grains_of(
        position,
        radius,
        weight_of(dimension, radius),
        friction=FRICTION,
        box=closed_box(dimension, (size,) * dimension),
        velocity=velocity,
        grounded=False,
    )


def check_conservation(dimension: int) -> Findings:
    """A cloud that collapses in 3-D: both momenta stay, energy only falls, a boost changes nothing."""
    steps = 400
    grains = cloud(dimension)
    space = free_space(0.0)
    first = grains.rest_state()

    def traced(state: GrainState, _: None) -> tuple[GrainState, tuple[Array, ...]]:
        state = step(grains, space, state, (), STEP)[0]
        turning = angular_momentum(grains, state)
        return state, (state.velocity, state.id, turning, kinetic_energy(grains, state))

    _, (*motions, turning, energies) = jax.jit(lambda state: jax.lax.scan(traced, state, length=steps))(first)
    # Added up in double precision: sums of that many numbers in single precision exceed the tolerance.
    mass = np.asarray(grains.mass, np.float64)
    momenta = np.stack([velocity @ mass[order] for velocity, order in zip(*map(np.asarray, motions), strict=True)])
    begun = np.asarray(first.velocity) @ mass[np.asarray(first.id)]
    scale = float((mass[np.asarray(first.id)] * np.linalg.norm(np.asarray(first.velocity), axis=0)).sum())
    drift = float(np.abs(momenta - begun).max()) / scale
    turned = float(np.abs(np.asarray(turning) - np.asarray(angular_momentum(grains, first))).max()) / (scale * RADIUS)
    energies = np.concatenate([[float(kinetic_energy(grains, first))], np.asarray(energies)])
    boosted = cloud(dimension, boost=1.0)
    few = 40
    plain = run(grains, space, first, few)
    moving = run(boosted, space, boosted.rest_state(), few)
    shift = np.zeros((dimension, 1))
    shift[0] = few * STEP
    own = np.asarray(plain.position)[:, np.argsort(np.asarray(plain.id))]
    seen = np.asarray(moving.position)[:, np.argsort(np.asarray(moving.id))] - shift
    note = f"{grains.count} grains that fly at each other, {steps} steps; the boost: 1 m/s, {few} steps"
    return Findings(
        [
            absolute(f"momentum gained over the sum of all, {dimension}-D", drift, 0, 1e-7, "", note),
            absolute(
                f"angular momentum gained over momentum of all times a radius, {dimension}-D", turned, 0, 1e-3, "", note
            ),
            absolute(
                f"largest rise of kinetic energy in a step over its first value, {dimension}-D",
                float(np.diff(energies).max() / energies[0]),
                0,
                1e-4,
                "",
                note,
            ),
            relative(f"kinetic energy left, {dimension}-D", energies[-1], energies[0], None, "J", note),
            absolute(
                f"difference that a boost makes, in radii, {dimension}-D",
                float(np.abs(own - seen).max() / RADIUS),
                0,
                1e-3,
                "",
                note,
            ),
        ]
    )


def check_batch(dimension: int, count: int = 60, steps: int = 100) -> Findings:
    """Clouds at once and one after the other; and again."""
    grains, space = cloud(dimension, count), free_space(0.0)
    first = grains.rest_state()
    starts = [replace(first, velocity=speed * first.velocity) for speed in (1.0, 1.5, 0.7)]
    alone = [run(grains, space, start, steps) for start in starts]
    again = run(grains, space, starts[0], steps)
    together = jax.jit(jax.vmap(lambda start: run(grains, space, start, steps)))(
        jax.tree.map(lambda *leaves: jnp.stack(leaves), *starts)
    )
    apart = 0.0
    for number, single in enumerate(alone):
        ours = jax.tree.map(lambda leaf: leaf[number], together)  # noqa: B023
        apart = max(apart, float(jnp.abs(in_order(ours.position, ours) - in_order(single.position, single)).max()))
    note = f"three clouds of {count} grains, {steps} steps"
    repeated = float(jnp.abs(again.position - alone[0].position).max())
    return Findings(
        [
            absolute(
                f"difference of worlds at once and alone, in radii, {dimension}-D", apart / RADIUS, 0, 1e-3, "", note
            ),
            absolute(f"difference of a repeated run, {dimension}-D", repeated, 0, 0, "m", note),
        ]
    )


# Beds at rest

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
    settled = lie_down(grains, settling(grains, space, duration), round(settle / duration))
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
            absolute(f"neighbors without a place, {label}", float(later.overflow.max()), 0, 0, "", note),
        ]
    )


def way(grains: Grains, before: GrainState, after: GrainState) -> float:
    """Root of the mean squared way of grains, in radii."""
    between = np.asarray(in_order(after.position, after)) - np.asarray(in_order(before.position, before))
    return float(np.sqrt((between**2).sum(0).mean()) / grains.largest)
