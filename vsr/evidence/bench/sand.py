"""`vsr bench sand`: beds of grains at rest, one or many at once, and robots that walk on sand.

A bed is settled first and not timed while it falls. What is counted is grains times steps per second of wall time, with
all iterations of a step; robots' own substeps are part of the time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from vsr.controllers import Sine
from vsr.environment import Environment
from vsr.episode import reset, rollout
from vsr.evidence.bench.benchmark import Benchmark, Metrics, Settings, compiled, costs_shown, here, time_calls
from vsr.experiments.population import repeat
from vsr.physics.granular.bed import sand_bed
from vsr.physics.granular.step import step
from vsr.robot import Body
from vsr.scene import Physics, Scene
from vsr.tasks import Locomotion
from vsr.terrain import Sand
from vsr.world.spec import Robot, World

GRAVITY = 9.8
VOXEL_SIDE = 3.0


@dataclass(frozen=True)
class BenchSand(Benchmark):
    """Beds of grains, with or without robots on them."""

    dimension: int
    sand: Sand
    worlds: int = 1
    steps: tuple[int, int] = (50, 500)
    """on the CPU and on an accelerator"""
    robot: tuple[str, ...] | None = None
    """shape of a robot in every world"""

    def measure(self, settings: Settings) -> Metrics:
        """Settle first; that is not timed."""
        steps = here(self.steps)
        grains = sand_bed(self.sand, self.dimension, GRAVITY, VOXEL_SIDE)
        run, start = _walk(self, steps) if self.robot else _lie(self, steps)
        many = jax.vmap(run) if self.worlds > 1 else run
        if self.worlds > 1:
            start = repeat(start, self.worlds)
        done = compiled(many, start)
        wall = time_calls(lambda: done.program(start), settings.repeats).wall
        return {
            "worlds": self.worlds,
            "grains": grains.count,
            "steps": steps,
            "iterations": grains.iterations,
            "grain_steps_per_s": grains.count * self.worlds * steps / wall["median_s"],
            **done.costs(),
            **wall,
        }

    def rows(self, metrics: Metrics) -> list[tuple[str, str]]:
        worlds = f" x {self.worlds} worlds" if self.worlds > 1 else ""
        name = f"{self.name:16} {metrics['grains']:,} grains{worlds} x {metrics['steps']} steps"
        return [(name, f"{metrics['grain_steps_per_s']:.3g} grain-steps/s; {costs_shown(metrics)}")]


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


_DISCS = Sand(radius=0.25, depth=5.0, period=196.0, spread=0.15)
_BALLS = Sand(radius=0.5, depth=10.0, period=19.0, spread=0.0)
_WIDE = Sand(radius=0.25, depth=4.0, period=245.0, spread=0.15)
_WALKED_ON = Sand(radius=0.25, depth=3.0, period=30.0)
_STILL = {"rolling": None}
"""Of grains that do not turn."""
SCENES = (
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
