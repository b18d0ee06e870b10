"""Whole generations on the device: ask, decode, simulate, tell, for all seeds of an experiment at once.

`compile_evolution` gives two functions of arrays. The host only learns what `Report` holds, once a generation. All
devices do the same search; robots are shared out among them (processor cores count as devices, see
experiments.devices).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.sharding import NamedSharding, PartitionSpec

from evo import Search, best
from evo.population import WORST, Population, evaluated, failures
from experiments.encodings import Genes
from experiments.experiment import Experiment
from experiments.population import device_mesh, on_all_devices, robots_at_once
from vsr.rollout import rollout
from vsr.tasks import evaluate, place

SHARE_OF_DEVICE = 0.6
BYTES_ON_HOST = 2**30


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Report:
    """What a generation came to; leading axis (seeds,)."""

    best: Array
    """fitness of the best survivor, WORST if all failed"""
    median: Array
    """median fitness of the survivors that did not fail, not a number if all failed"""
    failed: Array
    """how many of the individuals evaluated in this generation failed"""
    best_genes: Genes
    """of the best survivor"""
    best_id: Array
    """of the best survivor"""
    id: Array
    """of every individual evaluated in this generation, (seeds, n_pop)"""
    parents: Array
    """their parents' ids, (seeds, n_pop, 2)"""
    fitness: Array
    """their fitness, WORST for a failure, (seeds, n_pop)"""


@dataclass(frozen=True)
class Evolution:
    """An experiment's search as compiled functions."""

    start: Callable[[], Search]
    """all seeds before their first generation; leading axis (seeds,)"""
    step: Callable[[Search], tuple[Search, Report]]
    """one generation"""
    robots_at_once: int
    """how many robots are simulated together"""


def fitness_of(experiment: Experiment) -> Callable[[Genes], Array]:
    """The function from one individual's genes to its fitness, not a number if it failed."""
    schedule = experiment.schedule()
    dtype = jnp.dtype(experiment.physics.precision)
    goal = experiment.fitness

    def fitness(genes: Genes) -> Array:
        environment = experiment.world.build(dtype)
        model, controller = experiment.robot.build(genes, experiment.task.duration, dtype)
        state = place(model, environment.terrain, experiment.task.placement)
        episode = rollout(model, controller, environment, state, schedule)
        return goal.sign * evaluate(episode, (goal.measure,))[goal.measure]

    return fitness


def start(experiment: Experiment) -> Search:
    """All seeds before their first generation."""
    keys = jnp.stack([jax.random.key(seed) for seed in experiment.seeds])
    return jax.vmap(lambda key: experiment.ea.start(key, experiment.robot.sample))(keys)


def generation(experiment: Experiment, at_once: int, search: Search) -> tuple[Search, Report]:
    """One generation of all seeds. Pure."""
    sample = experiment.robot.sample
    asked = jax.vmap(lambda one: experiment.ea.ask(one, sample))(search)
    everyone = jax.tree.map(lambda leaf: leaf.reshape(asked.fitness.size, *leaf.shape[2:]), asked.genes)
    fitness = on_all_devices(fitness_of(experiment), everyone, at_once).reshape(asked.fitness.shape)
    told = jax.vmap(experiment.ea.tell)(search, asked, fitness)
    return told, jax.vmap(_report)(told, jax.vmap(evaluated)(asked, fitness))


def _report(told: Search, asked: Population) -> Report:
    population = told.population
    first = best(population)
    alive = jnp.where(population.fitness > WORST, population.fitness, jnp.nan)
    return Report(
        best=first.fitness[0],
        median=jnp.nanmedian(alive),
        failed=failures(asked),
        best_genes=jax.tree.map(lambda leaf: leaf[0], first.genes),
        best_id=first.id[0],
        id=asked.id,
        parents=asked.parents,
        fitness=asked.fitness,
    )


def compile_evolution(experiment: Experiment) -> Evolution:
    """The compiled search; if the robots of a device together need too much memory, they are simulated in parts."""
    everywhere = NamedSharding(device_mesh(), PartitionSpec())
    shapes = jax.eval_shape(partial(start, experiment))
    first = jax.jit(partial(start, experiment), out_shardings=everywhere).lower().compile()

    def compile_for(at_once: int) -> Any:
        whole = partial(generation, experiment, at_once)
        return jax.jit(whole, in_shardings=everywhere, out_shardings=everywhere).lower(shapes).compile()

    step, at_once = within_memory(compile_for, most_at_once(experiment), memory_limit())
    return Evolution(first, lambda search: step(jax.device_put(search, everywhere)), at_once)


def within_memory(compile_for: Callable[[int], Any], at_once: int, limit: float) -> tuple[Any, int]:
    """The program compiled for as many robots at once as need no more than the limit [bytes], and their number."""
    while True:
        program = compile_for(at_once)
        analysis = program.memory_analysis()
        needed = 0 if analysis is None else analysis.temp_size_in_bytes
        if needed <= limit or at_once == 1:
            return program, at_once
        at_once = max(1, int(0.9 * at_once * limit / needed))


def most_at_once(experiment: Experiment) -> int:
    """How many robots a device simulates together, if memory allows.

    On the CPU the number depends on one seed's population only, so that a seed in a batch gives the same numbers as
    alone.
    """
    seeds = 1 if jax.default_backend() == "cpu" else len(experiment.seeds)
    return robots_at_once(experiment.ea.n_pop * seeds, experiment.robot.body.possible.size)


def memory_limit() -> float:
    """What a device may use while it runs a generation [bytes]: much of an accelerator, a modest part of a computer."""
    statistics = jax.devices()[0].memory_stats() or {}
    if "bytes_limit" in statistics:
        return SHARE_OF_DEVICE * statistics["bytes_limit"]
    return BYTES_ON_HOST / jax.device_count()
