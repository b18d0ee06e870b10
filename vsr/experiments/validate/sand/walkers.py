"""Robots on sand: equal and opposite impulses, weight borne, the same alone and among others, and finer steps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vsr.body import Body, Material
from vsr.compute.implementation import Implementation
from vsr.episode import record, reset
from vsr.experiments.validate.rows import Findings, absolute
from vsr.experiments.validate.sand.scenes import closed_box, free_space, weight_of
from vsr.physics.engine import assemble_body, engine_of
from vsr.physics.grains import Grains, GrainState, grains_of
from vsr.physics.grains.model import angular_momentum, momentum
from vsr.physics.squares import geometry
from vsr.physics.squares.model import SquareModel
from vsr.scene import Physics, Scene
from vsr.tasks import Locomotion
from vsr.terrain import Sand
from vsr.terrain.sand import ROLLING
from vsr.world.coupling import advance_coupled
from vsr.world.placement import Placement, move_rigidly
from vsr.world.spec import Robot, World
from vsr.world.state import WorldModel, world_state

UNDAMPED = Material(linear_damping=0.0, angular_damping=0.0)
BODIES = {
    "squares": Body(shape=("aa", "aa"), materials={"a": UNDAMPED}),
    "points": Body(shape=("aa", "aa"), masses="points", materials={"a": Material(linear_damping=0.0)}),
    "3-D": Body(shape=(("aa",), ("aa",)), materials={"a": Material(linear_damping=0.0)}),
}
SUBSTEP = 1 / 600


class Exchanged(NamedTuple):
    """What a robot and grains gave each other, and what all gained together; largest components."""

    drift: float
    """momentum gained by all together [kg m/s]"""
    given: float
    """and by grains [kg m/s]"""
    turning_drift: float
    """angular momentum about the origin gained by all together [kg m²/s]"""
    turning_given: float
    """and by grains [kg m²/s]"""


def check_impulses() -> Findings:
    """A robot that flies into a cloud of grains in space: what they gain it loses."""
    rows = []
    for name, body in BODIES.items():
        found = thrown_at_grains(body)
        note = "thrown at 4 m/s into a wall of grains, off its centre, 0.5 s"
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
) -> Exchanged:
    """A robot that flies into a wall of grains with its upper half."""
    model = assemble_body(body)
    engine, dimension, radius = engine_of(model), body.dimension, 0.4
    side = np.arange(3.2, 9.0, 0.85)
    axes = np.meshgrid(np.arange(9.0, 12.0, 0.85), *(side,) * (dimension - 1), indexing="ij")
    position = np.stack([part.ravel() for part in axes], 1)
    grains = grains_of(
        position,
        radius,
        weight_of(dimension, radius, 1.0),
        rolling=rolling,
        box=replace(closed_box(dimension, (20.0,) * dimension), low=(-5.0,) * dimension),
        grounded=False,
        samples=8 if dimension == 2 else 6,
    )
    world = WorldModel((model,), free_space(0.0), {"grains": grains})
    velocity = jnp.zeros(dimension).at[0].set(4.0)
    robot = move_rigidly(model, engine.rest_state(model), shift=jnp.zeros(dimension).at[0].set(2.0), velocity=velocity)
    state = world_state(world, (robot,), jax.random.key(0))
    still = (jnp.zeros(model.present.shape),)
    states, others, *_ = jax.jit(
        lambda state: advance_coupled(
            world.robots,
            world.environment,
            world.occupants,
            state.robots,
            state.occupants,
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
    return Exchanged(*(float(np.abs(part).max()) for part in (given + lost, given, turned + spun, turned)))


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
    """Of a robot's centre at all control calls [m]; factor: by which steps are finer, those of grains too."""
    scenario, controller = scene.build()
    schedule = replace(scenario.schedule, substeps=factor * scenario.schedule.substeps)
    scenario, model = replace(scenario, schedule=schedule), scenario.model
    start = reset(jax.random.key(0), scenario)
    _, path = jax.jit(lambda state: record(scenario, controller, state))(start)
    return np.asarray(jax.vmap(lambda state: engine_of(model).center(model, state))(path.state))[:, -1]


def check_standing() -> Findings:
    """A passive robot on sand: it comes to rest, and with finer steps it rests where it did."""
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
            absolute(f"rest height against steps 4 times finer, {name}", changed, 0, 0.02, "", note),
        ]
    return Findings(rows)
