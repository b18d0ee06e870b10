"""`vsr bench 2d`: fixed scenes of 2-D robots, whole lives with real contact, bodies and controllers.

SVSPS are simulated voxel steps per second: voxels that exist times time steps of 1/60 s (1/30 s for the sensing biped,
as in the paper's experiments), substeps not counted, robots added up.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from experiments.bench.timing import timed
from experiments.evolution import fitness_of, most_at_once
from experiments.experiment import Experiment
from experiments.population import on_all_devices
from vsr.physics.scaffolding import SIDE_SPRINGS

SPRINGS_PER_VOXEL = 4 * len(SIDE_SPRINGS) + 2
SENSES = tuple(
    {"quantity": quantity, "reading": reading}
    for reading in ("mean", "difference")
    for quantity in ("rotated_velocity_x", "rotated_velocity_y", "area_ratio")
)
"""The paper's sensing biped has these."""


@dataclass(frozen=True)
class BenchScene:
    """One thing to time."""

    name: str
    body: dict[str, Any]
    robots: int
    controller: Any = "phases"
    time_step: float = 1 / 60
    seconds: tuple[float, float] = (2.0, 10.0)
    """simulated on the CPU and on an accelerator [s]: many control calls, as all robots are alike before the first"""

    def experiment(self, duration: float) -> Experiment:
        """The scene as an experiment, of which one generation's evaluation is timed."""
        return Experiment.model_validate(
            {
                "robot": {"body": self.body, "controller": self.controller},
                "task": {"duration": duration},
                "physics": {"time_step": self.time_step},
                "ea": {"n_pop": self.robots},
            }
        )


def _box(columns: int, rows: int) -> dict[str, Any]:
    return {"shape": ["a" * columns] * rows}


SCENES = (
    *(BenchScene(f"worm-{width}x3", _box(width, 3), 256, seconds=(1.0, 5.0)) for width in (3, 9, 21, 45)),
    BenchScene(
        "biped-mlp", {"shape": ["aaaa", "a..a"]}, 250, {"type": "mlp", "senses": SENSES}, 1 / 30, seconds=(6.0, 60.0)
    ),
    BenchScene("devo-11x4", _box(11, 4), 256, "development", seconds=(1.0, 10.0)),
    BenchScene("devo-11x4", _box(11, 4), 4096, "development", seconds=(0.5, 10.0)),
    BenchScene("box-10x10", _box(10, 10), 4096, seconds=(0.3, 5.0)),
    BenchScene(
        "random-10x10",
        {"type": "gaussian_mixture", "grid": [10, 10], "materials": {"a": {}, "b": {}}},
        4096,
        seconds=(0.3, 5.0),
    ),
)


def bench_scene(scene: BenchScene, repeats: int) -> dict[str, Any]:
    """Time one scene; times in seconds."""
    on_cpu = jax.default_backend() == "cpu"
    experiment = scene.experiment(scene.seconds[0 if on_cpu else 1])
    genes = jax.jit(lambda key: experiment.robot.sample(key, scene.robots))(jax.random.key(0))
    at_once = most_at_once(experiment)
    began = time.perf_counter()
    program = jax.jit(lambda g: on_all_devices(fitness_of(experiment), g, at_once)).lower(genes).compile()
    compiled = time.perf_counter() - began
    figures = timed(lambda: program(genes), repeats)
    schedule = experiment.schedule()
    voxels = int((np.asarray(jax.jit(jax.vmap(experiment.robot.body.decode))(genes["body"])) >= 0).sum())
    svsps = voxels * schedule.steps / figures["median_s"]
    memory = program.memory_analysis()
    return {
        "scene": scene.name,
        "robots": scene.robots,
        "voxels": voxels,
        "substeps": schedule.substeps,
        "simulated_s": schedule.total_time,
        "svsps": svsps,
        "svsps_per_core": svsps / jax.device_count() if on_cpu else None,
        "spring_updates_per_s": svsps * schedule.substeps * SPRINGS_PER_VOXEL,
        "compile_s": compiled,
        "peak_bytes": None if memory is None else memory.temp_size_in_bytes + memory.output_size_in_bytes,
        **figures,
    }
