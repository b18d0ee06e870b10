"""Whole generations on the device: ask, decode, simulate, tell, for all seeds of an experiment.

`compile_evolution` gives two functions of arrays. The host only learns what `Report` holds, once a generation. Every
seed has its own search, run by one program for all, so that a seed is the same alone and among others; the robots of
all seeds are simulated together, shared out among all devices (processor cores count as devices, see
experiments.devices), also those of other processes: then process 0 searches, and the others only evaluate.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import NamedSharding, PartitionSpec

from evo import Search, best
from evo.diversity import distinct, gene_spread
from evo.population import WORST, Population, evaluated, failures
from experiments.encodings import Genes
from experiments.encodings.base import BodyEncoding
from experiments.encodings.connectivity import in_the_corner
from experiments.evolve.programs import recall, remember
from experiments.experiment import Experiment
from experiments.hosts.collectives import hand_out, noticing_loss
from experiments.population import device_mesh, on_all_devices, robots_at_once
from vsr.episode import reset, rollout, scenario_of

SHARE_OF_DEVICE = 0.6
BYTES_ON_HOST = 2**30


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Report:
    """What a generation of one seed came to; with a leading axis (seeds,) after `gathered`."""

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
    """of every individual evaluated in this generation, (n_pop,)"""
    parents: Array
    """their parents' ids, (n_pop, 2)"""
    fitness: Array
    """their fitness, WORST for a failure, (n_pop,)"""
    spread: Array
    """standard deviation of a gene over the survivors, averaged over all genes"""
    bodies: Array
    """how many different bodies the survivors have"""


Searches = tuple[Search, ...]
"""One per seed."""


@dataclass(frozen=True)
class Evolution:
    """An experiment's search as compiled functions."""

    start: Callable[[], Searches]
    """all seeds before their first generation"""
    step: Callable[[Searches], tuple[Searches, tuple[Report, ...]]]
    """one generation of all seeds"""
    at_once: int
    """how many robots a device simulates together"""


def fitness_of(experiment: Experiment) -> Callable[[Genes], Array]:
    """The function from one individual's genes to its fitness, not a number if it failed."""
    schedule = experiment.schedule()
    dtype = jnp.dtype(experiment.physics.precision)
    goal = experiment.fitness

    def fitness(genes: Genes) -> Array:
        environment = experiment.world.build(dtype)
        model, controller = experiment.robot.build(
            genes, experiment.task.duration, dtype, experiment.physics.integrator
        )
        scenario = scenario_of(model, environment, schedule, experiment.task, controller.senses)
        episode = rollout(scenario, controller, reset(jax.random.key(0), scenario))
        return goal.sign * experiment.task.evaluate(episode, (goal.measure,))[goal.measure]

    return fitness


def start(experiment: Experiment, key: Array) -> Search:
    """One seed before its first generation. Pure."""
    return experiment.ea.start(key, experiment.robot.sample)


def ask(experiment: Experiment, search: Search) -> Population:
    """One seed's individuals to evaluate. Pure."""
    return experiment.ea.ask(search, experiment.robot.sample)


def evaluate_all(experiment: Experiment, at_once: int, genes: tuple[Genes, ...]) -> tuple[Array, ...]:
    """Fitness of all seeds' individuals. Pure."""
    everyone = jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *genes)
    fitness = on_all_devices(fitness_of(experiment), everyone, at_once)
    return tuple(jnp.split(fitness, len(genes)))


def tell(experiment: Experiment, search: Search, asked: Population, fitness: Array) -> tuple[Search, Report]:
    """One seed's search after an evaluation. Pure."""
    told = experiment.ea.tell(search, asked, fitness)
    asked = evaluated(asked, fitness)
    first = best(told.population)
    alive = jnp.where(told.population.fitness > WORST, told.population.fitness, jnp.nan)
    return told, Report(
        best=first.fitness[0],
        median=jnp.nanmedian(alive),
        failed=failures(asked),
        best_genes=jax.tree.map(lambda leaf: leaf[0], first.genes),
        best_id=first.id[0],
        id=asked.id,
        parents=asked.parents,
        fitness=asked.fitness,
        spread=gene_spread(told.population.genes),
        bodies=body_count(experiment.robot.body, told.population.genes["body"]),
    )


def body_count(encoding: BodyEncoding, genes: Array) -> Array:
    """How many different bodies genes make, wherever they lie in the grid, (); genes: (size, ...). Pure."""
    if not encoding.gene_count:
        return jnp.int32(1)
    return distinct(jax.vmap(lambda own: in_the_corner(encoding.decode(own)))(genes))


def gathered(reports: tuple[Report, ...]) -> Report:
    """All seeds' reports as one on the host, with a leading axis (seeds,)."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *jax.device_get(reports))


def search_shapes(experiment: Experiment) -> Search:
    """Shapes of one seed's search."""
    return jax.eval_shape(partial(start, experiment), jax.eval_shape(lambda: jax.random.key(0)))


def compile_evolution(experiment: Experiment) -> Evolution:
    """The compiled search, or the one that was compiled for the same experiment before."""
    at_once, (*search, evaluate) = recall(experiment) or _compile(experiment)
    everywhere, home = _everywhere(), jax.devices()[0]

    def fitness(genes: tuple[Genes, ...]) -> tuple[Array, ...]:
        return jax.device_put(evaluate(jax.device_put(genes, everywhere)), home)

    return _evolution(experiment, search, fitness, at_once)


def compile_led_evolution(experiment: Experiment, limit: float) -> Evolution:
    """For process 0 of several: it searches, all of them evaluate; limit: memory of each device [bytes].

    Nothing is kept for a second start: programs of several processes can only be loaded where all have them.
    """
    small = _lowered_search(experiment)
    with ThreadPoolExecutor() as threads:
        programs = [threads.submit(program.compile) for program in small]
        evaluate, at_once = _compile_evaluation(experiment, limit)
        search = [program.result() for program in programs]

    def fitness(genes: tuple[Genes, ...]) -> tuple[Array, ...]:
        everywhere = hand_out(genes)
        with noticing_loss():
            return tuple(result.addressable_data(0) for result in evaluate(everywhere))

    return _evolution(experiment, search, fitness, at_once)


def compile_led_evaluation(experiment: Experiment, limit: float) -> Callable[[], None]:
    """For the other processes: their part of one evaluation that process 0 has begun."""
    evaluate, _ = _compile_evaluation(experiment, limit)
    nothing = jax.tree.map(lambda leaf: np.zeros(leaf.shape, leaf.dtype), _asked_genes(experiment))

    def take_part() -> None:
        everywhere = hand_out(nothing)
        with noticing_loss():
            jax.block_until_ready(evaluate(everywhere))

    return take_part


def _evolution(experiment: Experiment, search: list[Any], fitness: Callable[..., Any], at_once: int) -> Evolution:
    first, ask_one, tell_one = search

    def begin() -> Searches:
        return tuple(first(jax.random.key(seed)) for seed in experiment.seeds)

    def step(searches: Searches) -> tuple[Searches, tuple[Report, ...]]:
        everyone = tuple(map(ask_one, searches))
        told = list(map(tell_one, searches, everyone, fitness(tuple(asked.genes for asked in everyone))))
        return tuple(search for search, _ in told), tuple(report for _, report in told)

    return Evolution(begin, step, at_once)


def _compile(experiment: Experiment) -> tuple[int, list[Any]]:
    """How many robots run at once, and the programs to start, ask, tell and evaluate."""
    lowered = _lowered_search(experiment)
    with ThreadPoolExecutor() as threads:
        small = [threads.submit(program.compile) for program in lowered]
        evaluate, at_once = _compile_evaluation(experiment, memory_limit())
        programs = [program.result() for program in small]
    on_devices = [*((program, 1) for program in programs), (evaluate, jax.device_count())]
    remember(experiment, at_once, on_devices)
    return at_once, [*programs, evaluate]


def _lowered_search(experiment: Experiment) -> list[Any]:
    """The programs to start, ask and tell, not yet compiled."""
    search = search_shapes(experiment)
    asked = jax.eval_shape(partial(ask, experiment), search)
    return [
        jax.jit(partial(start, experiment)).lower(search.key),
        jax.jit(partial(ask, experiment)).lower(search),
        jax.jit(partial(tell, experiment)).lower(search, asked, asked.fitness),
    ]


def _compile_evaluation(experiment: Experiment, limit: float) -> tuple[Any, int]:
    """The program to evaluate, and how many robots run at once.

    If the robots of a device together need too much memory, they are simulated in parts.
    """
    genes = _asked_genes(experiment)

    def compile_for(at_once: int) -> Any:
        whole = partial(evaluate_all, experiment, at_once)
        return jax.jit(whole, in_shardings=_everywhere(), out_shardings=_everywhere()).lower(genes).compile()

    return within_memory(compile_for, most_at_once(experiment), limit)


def _asked_genes(experiment: Experiment) -> tuple[Genes, ...]:
    """Shapes of what is evaluated in a generation."""
    asked = jax.eval_shape(partial(ask, experiment), search_shapes(experiment))
    return (asked.genes,) * len(experiment.seeds)


def _everywhere() -> NamedSharding:
    """The same on every device."""
    return NamedSharding(device_mesh(), PartitionSpec())


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

    On the CPU the number depends on one seed's population only, so that a seed among others is the same as alone.
    """
    seeds = 1 if jax.default_backend() == "cpu" else len(experiment.seeds)
    return robots_at_once(experiment.ea.n_pop * seeds, experiment.robot.body.possible.size)


def memory_limit() -> float:
    """What a device may use while it runs a generation [bytes]: much of an accelerator, a modest part of a computer."""
    statistics = jax.local_devices()[0].memory_stats() or {}
    if "bytes_limit" in statistics:
        return SHARE_OF_DEVICE * statistics["bytes_limit"]
    return BYTES_ON_HOST / jax.local_device_count()
