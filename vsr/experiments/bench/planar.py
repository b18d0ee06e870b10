"""`vsr bench 2d`: fixed scenes of 2-D robots, whole episodes with real contact, bodies and controllers.

SVSPS are simulated voxel steps per second: voxels that exist times time steps of 1/60 s (1/30 s for the sensing biped,
as in the paper's experiments), substeps not counted, robots added up.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vsr.compute.implementation import Implementation, chosen
from vsr.experiments.bench.timing import device_peak_bytes, peak_bytes, timed
from vsr.experiments.encodings import Genes
from vsr.experiments.evolve.evaluation import evaluation_of
from vsr.experiments.evolve.generation import memory_limit, most_at_once, within_memory
from vsr.experiments.experiment import Experiment
from vsr.experiments.population import on_all_devices
from vsr.physics.engine import ENGINES

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

    substeps: int | None = None
    """per time step; None for as many as the materials need"""

    def experiment(self, duration: float, implementation: Implementation = "auto") -> Experiment:
        """The scene as an experiment, of which one generation's evaluation is timed; duration: [s]."""
        return Experiment.model_validate(
            {
                "robot": {"body": self.body, "controller": self.controller},
                "task": {"duration": duration},
                "physics": {
                    "time_step": self.time_step,
                    "substeps": self.substeps,
                    "implementation": implementation,
                },
                "ea": {"n_pop": self.robots},
            }
        )


def box(columns: int, rows: int) -> dict[str, Any]:
    """A body without holes."""
    return {"shape": ["a" * columns] * rows}


SCENES = (
    *(BenchScene(f"worm-{width}x3", box(width, 3), 256, seconds=(1.0, 5.0)) for width in (3, 9, 21, 45)),
    BenchScene(
        "biped-mlp", {"shape": ["aaaa", "a..a"]}, 250, {"type": "mlp", "senses": SENSES}, 1 / 30, seconds=(6.0, 60.0)
    ),
    BenchScene("devo-11x4", box(11, 4), 256, "development", seconds=(1.0, 10.0)),
    BenchScene("devo-11x4", box(11, 4), 4096, "development", seconds=(0.5, 10.0)),
    BenchScene("box-10x10", box(10, 10), 4096, seconds=(0.3, 5.0)),
    BenchScene(
        "random-10x10",
        {"type": "gaussian_mixture", "grid": [10, 10], "materials": {"a": {}, "b": {}}},
        4096,
        seconds=(0.3, 5.0),
    ),
)


@dataclass(frozen=True)
class CompiledScene:
    """A scene ready to be timed."""

    scene: BenchScene
    experiment: Experiment
    genes: Genes
    program: Any
    """from genes to fitness"""
    compile_s: float


def bench_scene(scene: BenchScene, repeats: int, implementation: Implementation = "auto") -> dict[str, Any]:
    """Compile and time one scene; times in seconds."""
    return time_scene(compile_scene(scene, implementation), repeats)


def compile_scene(scene: BenchScene, implementation: Implementation = "auto") -> CompiledScene:
    """The evaluation of one generation, compiled as evolution does: in parts if memory demands it."""
    experiment = scene.experiment(scene.seconds[0 if jax.default_backend() == "cpu" else 1], implementation)
    genes = jax.jit(lambda key: experiment.robot.sample(key, scene.robots))(jax.random.key(0))

    def compile_for(at_once: int) -> Any:
        return jax.jit(lambda given: on_all_devices(evaluation_of(experiment), given, at_once)).lower(genes).compile()

    began = time.perf_counter()
    program, _ = within_memory(compile_for, most_at_once(experiment), memory_limit())
    return CompiledScene(scene, experiment, genes, program, time.perf_counter() - began)


def time_scene(compiled: CompiledScene, repeats: int) -> dict[str, Any]:
    """All figures of a scene."""
    scene, experiment, genes = compiled.scene, compiled.experiment, compiled.genes
    figures = timed(lambda: compiled.program(genes), repeats)
    schedule, body = experiment.schedule(), experiment.robot.body
    voxels = int((np.asarray(jax.jit(jax.vmap(experiment.robot.body.decode))(genes["body"])) >= 0).sum())
    svsps = voxels * schedule.steps / figures["median_s"]
    return {
        "scene": scene.name,
        "robots": scene.robots,
        "voxels": voxels,
        "substeps": schedule.substeps,
        "simulated_s": schedule.total_time,
        "implementation": chosen(schedule.implementation, jnp.dtype(experiment.physics.precision)),
        "svsps": svsps,
        "svsps_per_core": svsps / jax.device_count() if jax.default_backend() == "cpu" else None,
        "spring_updates_per_s": svsps * schedule.substeps * len(ENGINES[body.masses].spring_ends(body.dimension)),
        "compile_s": compiled.compile_s,
        "peak_bytes": peak_bytes(compiled.program),
        "device_peak_bytes": device_peak_bytes(),
        **figures,
    }
