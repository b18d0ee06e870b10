"""Bodies and robots among grains.

Bodies among grains: sampled shapes, plates that sink and are dragged, and what grains do to them.

Robots on sand: equal and opposite impulses, weight borne, the same alone and among others, and smaller time steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.implementation import Implementation
from vsr.episode import record, reset
from vsr.evidence.validate.checks import Findings, absolute
from vsr.evidence.validate.sand.scenes import (
    GRAVITY,
    PACKINGS,
    RADIUS,
    STEP,
    TURNING,
    closed_box,
    free_space,
    in_container,
    live,
    of_all,
    packed,
    settle,
    weight_of,
    with_body,
)
from vsr.physics.engine import assemble_body, engine_of
from vsr.physics.granular import Grains, GrainState, driven, free, grains_of
from vsr.physics.granular.bodies import Reaction
from vsr.physics.granular.model import angular_momentum, momentum
from vsr.physics.squares import geometry
from vsr.physics.squares.model import SquareModel
from vsr.robot import Body, Material
from vsr.scene import Physics, Scene
from vsr.sdf import Ball, Block, Capsule, Cylinder, Sampled
from vsr.tasks import Locomotion
from vsr.terrain import Sand
from vsr.terrain.sand import ROLLING
from vsr.world.coupling import advance_coupled
from vsr.world.placement import Placement, move_rigidly
from vsr.world.spec import Robot, World
from vsr.world.state import WorldModel, world_state

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
    return settle(loose, 2.0)


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


# Robots

UNDAMPED = Material(linear_damping=0.0, angular_damping=0.0)
BODIES = {
    "squares": Body(shape=("aa", "aa"), materials={"a": UNDAMPED}),
    "points": Body(shape=("aa", "aa"), engine="points", materials={"a": Material(linear_damping=0.0)}),
    "3-D": Body(shape=(("aa",), ("aa",)), materials={"a": Material(linear_damping=0.0)}),
}
SUBSTEP = 1 / 600


class MomentumExchange(NamedTuple):
    """Momentum exchanged between a robot and grains, and the total gained; largest components."""

    drift: float
    """momentum gained by all together [kg m/s]"""
    given: float
    """and by grains [kg m/s]"""
    turning_drift: float
    """angular momentum about the origin gained by all together [kg m²/s]"""
    turning_given: float
    """and by grains [kg m²/s]"""


def check_impulses() -> Findings:
    """A robot that flies into a cloud of grains in 3-D: what they gain it loses."""
    rows = []
    for name, body in BODIES.items():
        found = thrown_at_grains(body)
        note = "thrown at 4 m/s into a wall of grains, off its center, 0.5 s"
        turned = found.turning_drift / found.turning_given
        rows += [
            absolute(f"momentum gained over that exchanged, {name}", found.drift / found.given, 0, 2e-6, "", note),
            absolute(f"momentum exchanged, {name}", found.given, 0, None, "kg m/s", note),
            absolute(f"angular momentum gained over that exchanged, {name}", turned, 0, 2e-4, "", note),
            absolute(f"angular momentum exchanged, {name}", found.turning_given, 0, None, "kg m²/s", note),
        ]
    return Findings(rows)


def thrown_at_grains(
    body: Body,
    seconds: float = 0.5,
    implementation: Implementation = "auto",
    *,
    rolling: float | None = ROLLING,
) -> MomentumExchange:
    """A robot that flies into a wall of grains with its upper half."""
    model = assemble_body(body)
    engine, dimension, grains = engine_of(model), body.dimension, wall_of_grains(body.dimension, rolling)
    world = WorldModel((model,), free_space(0.0), {"grains": grains})
    velocity = jnp.zeros(dimension).at[0].set(4.0)
    robot = move_rigidly(model, engine.rest_state(model), shift=jnp.zeros(dimension).at[0].set(2.0), velocity=velocity)
    state = world_state(world, (robot,), jax.random.key(0))
    still = (jnp.zeros(model.present.shape),)
    states, others, *_ = jax.jit(
        lambda state: advance_coupled(
            world.robots,
            world.environment,
            world.systems,
            state.robots,
            state.systems,
            still,
            substep=SUBSTEP,
            count=round(seconds / SUBSTEP),
            implementation=implementation,
        )
    )(state)
    given, turned = _momenta_of_grains(grains, others["grains"])  # they were at rest
    lost, spun = (
        after - before for after, before in zip(_momenta(model, states[0]), _momenta(model, robot), strict=True)
    )
    return MomentumExchange(*(float(np.abs(part).max()) for part in (given + lost, given, turned + spun, turned)))


def wall_of_grains(dimension: int, rolling: float | None = ROLLING) -> Grains:
    """In free space, from 9 to 12 m."""
    side, radius = np.arange(3.2, 9.0, 0.85), 0.4
    axes = np.meshgrid(np.arange(9.0, 12.0, 0.85), *(side,) * (dimension - 1), indexing="ij")
    return grains_of(
        np.stack([part.ravel() for part in axes], 1),
        radius,
        weight_of(dimension, radius, 1.0),
        rolling=rolling,
        box=replace(closed_box(dimension, (20.0,) * dimension), low=(-5.0,) * dimension),
        grounded=False,
        samples=8 if dimension == 2 else 6,
    )


def _momenta_of_grains(grains: Grains, state: GrainState) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(momentum(grains, state)), np.asarray(angular_momentum(grains, state))


def _momenta(model: Any, state: Any) -> tuple[np.ndarray, np.ndarray]:
    """Momentum of a robot [kg m/s], (dimension,), and about the origin [kg m²/s], (1,) or (3,)."""
    if isinstance(model, SquareModel):
        linear, angular = geometry.momentum(model, state)
        return np.asarray(linear), np.asarray(angular)[None]
    size = model.dimension
    mass = np.asarray(model.node_mass, np.float64).reshape(-1, 1)
    position, velocity = (np.asarray(part, np.float64).reshape(-1, size) for part in (state.position, state.velocity))
    if size == 2:
        turning = position[:, :1] * velocity[:, 1:] - position[:, 1:] * velocity[:, :1]
    else:
        turning = np.cross(position, velocity)
    return (mass * velocity).sum(0), (mass * turning).sum(0)


def standing_scene(body: Body, sand: Sand) -> Scene:
    """A passive robot put down on sand."""
    return Scene(
        robot=Robot(body=body),
        world=World(terrain=sand),
        task=Locomotion(duration=6.0, placement=Placement(clearance=0.1)),
        physics=Physics(time_step=1 / 30),
    )


def heights_of(scene: Scene, factor: int = 1) -> np.ndarray:
    """Of a robot's center at all control calls [m]; factor: by which time steps are smaller, those of grains too."""
    scenario, controller = scene.build()
    schedule = replace(scenario.schedule, substeps=factor * scenario.schedule.substeps)
    scenario, model = replace(scenario, schedule=schedule), scenario.model
    start = reset(jax.random.key(0), scenario)
    _, path = jax.jit(lambda state: record(scenario, controller, state))(start)
    return np.asarray(jax.vmap(lambda state: engine_of(model).center(model, state))(path.state))[:, -1]


def check_standing() -> Findings:
    """A passive robot on sand: it comes to rest, and with smaller time steps it rests where it did."""
    rows = []
    for name, body, sand in (
        ("squares", Body(shape=("aa", "aa")), Sand()),
        ("3-D", Body(shape=(("aa", "aa"), ("aa", "aa"))), Sand(radius=0.5, depth=2.0, period=16.0)),
    ):
        heights = [heights_of(standing_scene(body, sand), factor) for factor in (1, 2, 4)]
        side, note = body.voxel_side, "a passive robot dropped from 10 cm, 6 s"
        still = float(np.ptp(heights[0][-15:])) / side
        changed = max(abs(float(h[-1] - heights[-1][-1])) for h in heights) / side
        rows += [
            absolute(f"movement in the last second over a voxel's side, {name}", still, 0, 1e-3, "", note),
            absolute(f"rest height against steps 4 times smaller, {name}", changed, 0, 0.02, "", note),
        ]
    return Findings(rows)
