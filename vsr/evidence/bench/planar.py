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
from vsr.evidence.bench.benchmark import Benchmark, Compiled, Metrics, Settings, costs_shown, here, on_cpu, time_calls
from vsr.experiments.encodings import Genes
from vsr.experiments.evolve.fitness import evaluation_of
from vsr.experiments.evolve.generation import most_at_once, within_memory
from vsr.experiments.experiment import Experiment
from vsr.experiments.memory import memory_limit
from vsr.experiments.population import on_all_devices
from vsr.physics.engine import ENGINES

SENSORS = tuple(
    {"quantity": quantity, "reading": reading}
    for reading in ("mean", "difference")
    for quantity in ("rotated_velocity_x", "rotated_velocity_y", "area_ratio")
)
"""The paper's sensing biped has these."""


@dataclass(frozen=True)
class BenchScene(Benchmark):
    """Robots of one kind, evaluated as evolution does."""

    body: dict[str, Any]
    robots: int
    controller: Any = "sine"
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
                "evaluation": {"trials": 1, "refine": None},
                "optimizer": {"population_size": self.robots},
            }
        )

    def compile(self, settings: Settings) -> CompiledScene:
        """The evaluation of one generation, compiled as evolution does: in parts if memory demands it."""
        experiment = self.experiment(here(self.seconds), settings.implementation)
        genes = jax.jit(lambda key: experiment.robot.sample(key, self.robots))(jax.random.key(0))

        def compile_for(at_once: int) -> Any:
            program = jax.jit(lambda given: on_all_devices(evaluation_of(experiment), given, at_once))
            return program.lower(genes).compile()

        began = time.perf_counter()
        program, _ = within_memory(compile_for, most_at_once(experiment), memory_limit())
        return CompiledScene(experiment, genes, Compiled(program, time.perf_counter() - began))

    def measure(self, settings: Settings) -> Metrics:
        return self.compile(settings).timed(settings.repeats)

    def rows(self, metrics: Metrics) -> list[tuple[str, str]]:
        name = f"{self.name:14} {self.robots:5} robots, {metrics['simulated_s']:g} s x {metrics['substeps']}"
        per_core = f", {metrics['svsps_per_core']:,.0f} a core" if metrics["svsps_per_core"] else ""
        springs = metrics["spring_updates_per_s"]
        updates = "" if springs is None else f", {springs:.3g} springs/s"
        return [(name, f"{metrics['svsps']:,.0f} SVSPS{per_core}{updates}; {costs_shown(metrics)}")]


@dataclass(frozen=True)
class CompiledScene:
    """A scene ready to be timed."""

    experiment: Experiment
    genes: Genes
    compiled: Compiled
    """from genes to fitness"""

    def timed(self, repeats: int) -> Metrics:
        """All metrics of a scene."""
        experiment, genes = self.experiment, self.genes
        wall = time_calls(lambda: self.compiled.program(genes), repeats).wall
        schedule, body = experiment.schedule(), experiment.robot.body
        voxels = int((np.asarray(jax.jit(jax.vmap(body.decode))(genes["body"])) >= 0).sum())
        svsps = voxels * schedule.steps / wall["median_s"]
        springs = len(ENGINES[body.engine].spring_ends(body.dimension))
        return {
            "robots": experiment.optimizer.population_size,
            "voxels": voxels,
            "substeps": schedule.substeps,
            "simulated_s": schedule.total_time,
            "implementation": chosen(schedule.implementation, jnp.dtype(experiment.physics.precision)),
            "svsps": svsps,
            "svsps_per_core": svsps / jax.device_count() if on_cpu() else None,
            "spring_updates_per_s": svsps * schedule.substeps * springs,
            **self.compiled.costs(),
            **wall,
        }


def box(columns: int, rows: int) -> dict[str, Any]:
    """A body without holes."""
    return {"shape": ["a" * columns] * rows}


SCENES = (
    *(BenchScene(f"worm-{width}x3", box(width, 3), 256, seconds=(1.0, 5.0)) for width in (3, 9, 21, 45)),
    BenchScene(
        "biped-mlp", {"shape": ["aaaa", "a..a"]}, 250, {"type": "mlp", "sensors": SENSORS}, 1 / 30, seconds=(6.0, 60.0)
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
