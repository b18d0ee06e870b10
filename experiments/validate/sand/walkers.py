"""Robots on sand: equal and opposite impulses, weight borne, the same alone and among others, and finer steps."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from vsr.body import Body, Material
from vsr.compute.implementation import Implementation
from vsr.episode import record, reset
from vsr.experiments.validate.rows import Findings, absolute
from vsr.experiments.validate.sand.scenes import closed_box, free_space, weight_of
from vsr.physics.coupled import advance_coupled
from vsr.physics.engine import assemble_body, engine_of
from vsr.physics.grains import grains_of
from vsr.physics.grains.model import momentum
from vsr.scene import Physics, Robot, Scene, World
from vsr.tasks import Locomotion, Placement, move_rigidly
from vsr.terrain import Sand
from vsr.world import WorldModel, world_state

UNDAMPED = Material(linear_damping=0.0, angular_damping=0.0)
BODIES = {
    "squares": Body(shape=("aa", "aa"), materials={"a": UNDAMPED}),
    "points": Body(shape=("aa", "aa"), masses="points", materials={"a": Material(linear_damping=0.0)}),
    "3-D": Body(shape=(("aa",), ("aa",)), materials={"a": Material(linear_damping=0.0)}),
}
SUBSTEP = 1 / 600


def check_impulses() -> Findings:
    """A robot that flies into a cloud of grains in space: what they gain it loses."""
    rows = []
    for name, body in BODIES.items():
        drift, exchanged = thrown_at_grains(body)
        note = "thrown at 4 m/s into a wall of grains, 0.5 s"
        rows.append(absolute(f"momentum gained over that exchanged, {name}", drift / exchanged, 0, 2e-6, "", note))
        rows.append(absolute(f"momentum exchanged, {name}", exchanged, 0, None, "kg m/s", note))
    return Findings(rows)


def thrown_at_grains(body: Body, seconds: float = 0.5, implementation: Implementation = "auto") -> tuple[float, float]:
    """Momentum gained by all together, and by grains [kg m/s]."""
    model = assemble_body(body)
    engine, dimension, radius = engine_of(model), body.dimension, 0.4
    side = np.arange(-2.0, 9.0, 0.85)
    axes = np.meshgrid(np.arange(9.0, 12.0, 0.85), *(side,) * (dimension - 1), indexing="ij")
    position = np.stack([part.ravel() for part in axes], 1)
    grains = grains_of(
        position,
        radius,
        weight_of(dimension, radius, 1.0),
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
    given = np.asarray(momentum(grains, others["grains"]))
    lost = np.asarray(engine.momentum(model, states[0])) - np.asarray(engine.momentum(model, robot))
    return float(np.abs(given + lost).max()), float(np.abs(given).max())


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
