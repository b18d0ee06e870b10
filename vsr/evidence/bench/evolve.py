"""`vsr bench evolve`: what a generation costs, what the search itself costs, and what a second start saves.

The generation is the paper's: 250 bipeds with evolved phases, 60 s on flat ground with a time step of 1/30 s.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from vsr.compute.implementation import Implementation, chosen
from vsr.evidence.bench.benchmark import (
    Benchmark,
    Metrics,
    Settings,
    bytes_shown,
    device_peak_bytes,
    spread,
    time_calls,
    times_shown,
)
from vsr.evo import Evaluation, MuPlusLambda
from vsr.experiments.config import parse_experiment
from vsr.experiments.evolve.generation import compile_evolution
from vsr.experiments.experiment import Experiment

BIPEDS = """
robot:
  body: {shape: [aaaa, a..a]}
  controller: sine
task: {duration: 60}
physics: {time_step: 1/30}
optimizer: {population_size: 250}
"""

START = """
import sys
from vsr.evidence.bench.evolve import bipeds
from vsr.experiments.devices import prepare
from vsr.experiments.evolve.generation import compile_evolution
prepare(sys.argv[1] or None)
evolution = compile_evolution(bipeds(sys.argv[2]))
evolution.start()
"""
"""All that comes before the first generation."""


def bipeds(implementation: Implementation = "auto") -> Experiment:
    """The experiment that is timed."""
    experiment = parse_experiment(BIPEDS)
    physics = experiment.physics.model_copy(update={"implementation": implementation})
    return experiment.model_copy(update={"physics": physics})


class BenchStart(Benchmark):
    """Everything before the first generation, in two fresh processes that share a store of compiled programs."""

    def measure(self, settings: Settings) -> Metrics:
        with tempfile.TemporaryDirectory() as store:
            environment = {**os.environ, "XDG_CACHE_HOME": store}
            environment.pop("JAX_COMPILATION_CACHE_DIR", None)
            command = [sys.executable, "-c", START, settings.device or "", settings.implementation]
            seconds = []
            for _ in range(2):
                began = time.perf_counter()
                subprocess.run(command, env=environment, check=True)
                seconds.append(time.perf_counter() - began)
        return {"first_s": seconds[0], "second_s": seconds[1], "ratio": seconds[0] / seconds[1]}

    def rows(self, metrics: Metrics) -> list[tuple[str, str]]:
        return [
            ("first start, nothing compiled before", f"{metrics['first_s']:.2f} s"),
            ("second start", f"{metrics['second_s']:.2f} s, {metrics['ratio']:.1f} times quicker"),
        ]


class BenchGeneration(Benchmark):
    """One generation of bipeds."""

    def measure(self, settings: Settings) -> Metrics:
        experiment = bipeds(settings.implementation)
        began = time.perf_counter()
        evolution = compile_evolution(experiment)
        compile_s = time.perf_counter() - began
        searches = evolution.start()
        seconds = []
        for _ in range(settings.repeats + 1):
            began = time.perf_counter()
            searches, reports = evolution.step(searches)
            jax.block_until_ready(reports)
            seconds.append(time.perf_counter() - began)
        wall = spread(seconds[1:])
        schedule = experiment.schedule()
        robots, voxels = experiment.optimizer.population_size, int(experiment.robot.body.possible.sum())
        return {
            "robots": robots,
            "voxels": voxels,
            "simulated_s": schedule.total_time,
            "time_step_s": schedule.time_step,
            "substeps": schedule.substeps,
            "implementation": chosen(schedule.implementation, jnp.dtype(experiment.physics.precision)),
            "compile_s": compile_s,
            **wall,
            "svsps": robots * voxels * schedule.steps / wall["median_s"],
            "host_peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "device_peak_bytes": device_peak_bytes(),
        }

    def rows(self, metrics: Metrics) -> list[tuple[str, str]]:
        episode = f"{metrics['simulated_s']:g} s at {metrics['time_step_s']:.4g} s x {metrics['substeps']} substeps"
        memory = f"{bytes_shown(metrics['host_peak_bytes'])} on the host"
        if metrics["device_peak_bytes"]:
            memory += f", {bytes_shown(metrics['device_peak_bytes'])} on the device"
        return [
            (f"{metrics['robots']} bipeds, {episode}", f"{times_shown(metrics)}; {metrics['implementation']}"),
            ("  simulated voxel steps per second", f"{metrics['svsps']:,.0f}"),
            ("  compile", f"{metrics['compile_s']:.2f} s"),
            ("  peak memory of the process", memory),
        ]


@dataclass(frozen=True)
class BenchOptimizer(Benchmark):
    """Ask and tell without any robot."""

    individuals: int = 250
    genes: int = 400

    def measure(self, settings: Settings) -> Metrics:
        optimizer = MuPlusLambda(population_size=self.individuals)

        def sample(key: Any, count: int) -> Any:
            return jax.random.uniform(key, (count, self.genes))

        @jax.jit
        def generation(search: Any) -> Any:
            asked = optimizer.ask(search, sample)
            fitness = -(asked.genes**2).sum(1)
            return optimizer.tell(search, asked, Evaluation(fitness, failed=jnp.zeros(fitness.shape, bool)))

        search = generation(jax.jit(partial(optimizer.start, sample=sample))(jax.random.key(0)))
        wall = time_calls(lambda: generation(search), max(20, settings.repeats)).wall
        return {"individuals": self.individuals, "genes": self.genes, **wall}

    def rows(self, metrics: Metrics) -> list[tuple[str, str]]:
        return [(f"search alone, {self.individuals} x {self.genes} genes", times_shown(metrics))]


SCENES = (BenchStart("start"), BenchGeneration("generation"), BenchOptimizer("search"))
