"""`vsr bench archives`: what a search adds to a generation besides simulation, of one seed.

The experiments are those of the study `archives` with 1,000 children: a genetic algorithm, and MAP-Elites with three
archives of 1024 cells. Instead of simulations fitness and descriptors are drawn at random. `ask` makes the children,
`enter` lets them into population or archives; `tell` does so and collects all that statistics have of a generation, the
different bodies counted too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from vsr.evidence.bench.benchmark import Benchmark, Metrics, Settings, time_calls
from vsr.evo import Evaluation
from vsr.experiments.config import load_experiment
from vsr.experiments.evolve.generation import ask, start, tell
from vsr.experiments.experiment import Experiment
from vsr.experiments.installed import CONFIGS

CHILDREN = ("optimizer.population_size=1000",)
PARTS = ("ask", "enter", "tell")
"""The functions that are timed."""
FILLED = 10
"""Generations before anything is timed, so that most cells are filled."""


@dataclass(frozen=True)
class BenchSearch(Benchmark):
    """A search of the study `archives`, by its name there."""

    settings: Sequence[str] = CHILDREN
    """over those of the study's file"""

    def measure(self, settings: Settings) -> Metrics:
        experiment = load_experiment(CONFIGS / "studies" / "archives" / f"{self.name}.yaml", self.settings)
        asking, reporting = jax.jit(partial(ask, experiment)), jax.jit(partial(tell, experiment))
        entering, drawing = jax.jit(experiment.optimizer.tell), jax.jit(partial(drawn, experiment))
        search = jax.jit(partial(start, experiment))(jax.random.key(0))
        for generation in range(FILLED):
            asked, evaluation = asking(search), drawing(jax.random.key(generation))
            search, stats = reporting(search, asked, evaluation)
        asked = asking(search)
        calls = {
            "ask": lambda: asking(search),
            "enter": lambda: entering(search, asked, evaluation),
            "tell": lambda: reporting(search, asked, evaluation),
        }
        return {
            "children": experiment.optimizer.population_size,
            "genes": experiment.robot.gene_count,
            **{part: time_calls(call, settings.repeats).wall for part, call in calls.items()},
            "coverage": {key: float(value) for key, value in stats.metrics.items() if key.endswith("coverage")},
        }

    def rows(self, metrics: Metrics) -> list[tuple[str, str]]:
        times = ", ".join(f"{part} {1e3 * metrics[part]['median_s']:.3g} ms" for part in PARTS)
        return [(self.name, f"{metrics['children']} children of {metrics['genes']} genes: {times}")]


def drawn(experiment: Experiment, key: Array) -> Evaluation:
    """Fitness and descriptors at random, these in the ranges of archives."""
    search, size = experiment.optimizer, experiment.optimizer.population_size
    of_fitness, of_descriptors = jax.random.split(key)
    fitness = jax.random.normal(of_fitness, (size,))
    fine = jnp.zeros(size, bool)
    described = None
    if search.elite_archives:
        ranges = {axis.measure: axis.range for archive in search.elite_archives.values() for axis in archive.axes}
        low, high = jnp.array([ranges[name] for name in search.descriptors]).T
        described = low + (high - low) * jax.random.uniform(of_descriptors, (size, len(search.descriptors)))
    return Evaluation(fitness=fitness, failed=fine, failure=fine.astype(jnp.int32), descriptors=described)


SCENES = (BenchSearch("ga"), BenchSearch("three_archives"))
