"""`vsr bench sand`: beds of grains at rest, one or many at once, and robots that walk on sand.

A bed is settled first and not timed while it falls. What is counted is grains times steps per second of wall time, with
all iterations of a step; robots' own substeps are part of the time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from vsr.body import Body
from vsr.controllers import Sine
from vsr.environment import Environment
from vsr.episode import reset, rollout
from vsr.experiments.bench.timing import device_peak_bytes, peak_bytes, timed
from vsr.physics.grains.bed import sand_bed
from vsr.physics.grains.step import step
from vsr.scene import Physics, Scene
from vsr.tasks import Locomotion
from vsr.terrain import Sand
from vsr.world.spec import Robot, World

GRAVITY = 9.8
VOXEL_SIDE = 3.0


@dataclass(frozen=True)
class BenchSand:
    """One thing to time."""

    name: str
    """as `--scene` takes it"""
    dimension: int
    sand: Sand
    worlds: int = 1
    steps: tuple[int, int] = (50, 500)
    """on the CPU and on an accelerator"""
    robot: tuple[str, ...] | None = None
    """shape of a robot in every world"""
    everywhere: bool = True
    """whether a CPU takes it on, too"""


_DISCS = Sand(radius=0.25, depth=5.0, period=196.0, spread=0.15)
_BALLS = Sand(radius=0.5, depth=10.0, period=19.0, spread=0.0)
_WIDE = Sand(radius=0.25, depth=4.0, period=245.0, spread=0.15)
_WALKED_ON = Sand(radius=0.25, depth=3.0, period=30.0)
_STILL = {"rolling": None}
"""Of grains that do not turn."""
SANDS = (
    BenchSand("discs-4k", 2, _DISCS),
    BenchSand("discs-4k-still", 2, _DISCS.model_copy(update=_STILL)),
    BenchSand("balls-4k", 3, _BALLS),
    BenchSand("balls-4k-x64", 3, _BALLS, 64, everywhere=False),
    BenchSand("balls-4k-x64-still", 3, _BALLS.model_copy(update=_STILL), 64, everywhere=False),
    BenchSand("balls-50k", 3, _BALLS.model_copy(update={"period": 67.0}), everywhere=False),
    BenchSand("balls-1m", 3, _BALLS.model_copy(update={"period": 300.0}), steps=(1, 50), everywhere=False),
    BenchSand("discs-x250", 2, _WALKED_ON, 250, steps=(120, 360), everywhere=False),
    BenchSand("discs-4k-x250", 2, _WIDE, 250, steps=(120, 360), everywhere=False),
    BenchSand("biped-on-discs", 2, _WALKED_ON, 8, steps=(120, 360), robot=("aaaa", "a..a")),
    BenchSand("biped-on-discs-x250", 2, _WALKED_ON, 250, steps=(120, 360), robot=("aaaa", "a..a"), everywhere=False),
    BenchSand(
        "biped-on-discs-x250-still",
        2,
        _WALKED_ON.model_copy(update=_STILL),
        250,
        steps=(120, 360),
        robot=("aaaa", "a..a"),
        everywhere=False,
    ),
    BenchSand("biped-on-4k-x250", 2, _WIDE, 250, steps=(120, 360), robot=("aaaa", "a..a"), everywhere=False),
)
"""Beds of the sizes that others were measured with, and robots as evolution needs them, beside their sand alone."""


def bench_sand(scene: BenchSand, repeats: int) -> dict[str, Any]:
    """Settle, compile and time one scene; times in seconds."""
    steps = scene.steps[0 if jax.default_backend() == "cpu" else 1]
    grains = sand_bed(scene.sand, scene.dimension, GRAVITY, VOXEL_SIDE)
    run, start = _walk(scene, steps) if scene.robot else _lie(scene, steps)
    many = jax.vmap(run) if scene.worlds > 1 else run
    if scene.worlds > 1:
        start = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (scene.worlds, *leaf.shape)), start)
    began = time.perf_counter()
    program = jax.jit(many).lower(start).compile()
    compile_s = time.perf_counter() - began
    figures = timed(lambda: program(start), repeats)
    return {
        "scene": scene.name,
        "worlds": scene.worlds,
        "grains": grains.count,
        "steps": steps,
        "iterations": grains.iterations,
        "grain_steps_per_s": grains.count * scene.worlds * steps / figures["median_s"],
        "compile_s": compile_s,
        "peak_bytes": peak_bytes(program),
        "device_peak_bytes": device_peak_bytes(),
        **figures,
    }


def _lie(scene: BenchSand, steps: int) -> tuple[Callable[[Any], Any], Any]:
    """A function that takes a bed a number of steps further, and the bed at rest."""
    grains = sand_bed(scene.sand, scene.dimension, GRAVITY, VOXEL_SIDE)
    environment = Environment(gravity=jnp.float32(GRAVITY), terrain=scene.sand.build())
    duration = scene.sand.longest_step(GRAVITY)

    def run(state: Any) -> Any:
        return jax.lax.fori_loop(0, steps, lambda _, now: step(grains, environment, now, (), duration)[0], state)

    return run, grains.rest_state()


def _walk(scene: BenchSand, steps: int) -> tuple[Callable[[Any], Any], Any]:
    """A function that lets a robot walk on sand for a number of substeps, and its start."""
    assert scene.robot is not None
    physics = Physics(time_step=1 / 30)
    described = Scene(
        robot=Robot(body=Body(shape=scene.robot), controller=Sine(frequency=1.0)),
        world=World(terrain=scene.sand, gravity=GRAVITY),
        task=Locomotion(duration=1.0),
        physics=physics,
    )
    seconds = steps / described.schedule().substeps * physics.time_step
    described = described.model_copy(update={"task": Locomotion(duration=seconds)})
    scenario, controller = described.build()

    def run(state: Any) -> Any:
        return rollout(scenario, controller, state)

    return run, reset(jax.random.key(0), scenario)
