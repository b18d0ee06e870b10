"""The small search: many bodies at once, each with controllers of its own, the best of which is kept.

Random numbers of a body follow from the seed and the body's number alone, so that it is tried in the same way in
whatever company.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.experiments.estimate import operations_of, seconds_of
from vsr.experiments.evolve.fitness import evaluation_of
from vsr.experiments.experiment import Experiment
from vsr.experiments.landscape.bodies import cells_of
from vsr.experiments.landscape.spec import Landscape
from vsr.experiments.population import on_all_devices, robots_at_once


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Found:
    """What is known of bodies, one per entry of the leading axis."""

    fitness: Array
    """of the best controller so far, larger is better, negative infinity if all failed, (bodies,)"""
    typical: Array
    """median fitness of the random controllers, in which a failure is worse than any other, (bodies,)"""
    genes: Array
    """of the best controller, (bodies, genes)"""
    failed: Array
    """controllers that failed, (bodies,)"""


def rounds_of(landscape: Landscape) -> Callable[[Array, Array, Found, Array], Found]:
    """The compiled function of one round: from bodies' genes, their numbers, what is known and which round it is."""
    return jax.jit(partial(_round, landscape, landscape.experiment))


def search(landscape: Landscape, numbers: np.ndarray, one_round: Callable[..., Found]) -> Found:
    """All rounds for some bodies, as many as are tried at once or fewer."""
    size = landscape.bodies_at_once
    filled = np.concatenate([numbers, np.repeat(numbers[:1], size - len(numbers))])  # one program for all
    bodies, low, high = _arguments(landscape, filled)
    found = unknown(landscape)
    for number in range(landscape.rounds):
        found = one_round(bodies, (low, high), found, jnp.int32(number))
    return jax.tree.map(lambda leaf: np.asarray(leaf)[: len(numbers)], found)


def seconds_of_part(landscape: Landscape) -> float:
    """How long one part of bodies should take, without compiling, from the operations of the traced program."""
    shapes = jax.eval_shape(lambda: (*_arguments(landscape, np.ones(landscape.bodies_at_once, np.int64)),))
    known = jax.eval_shape(partial(unknown, landscape))
    program = partial(_round, landscape, landscape.experiment)
    traced = jax.make_jaxpr(program)(shapes[0], shapes[1:], known, jax.ShapeDtypeStruct((), jnp.int32))
    return landscape.rounds * seconds_of(operations_of(traced))


def unknown(landscape: Landscape) -> Found:
    """Before the first round."""
    size = landscape.bodies_at_once
    genes = landscape.robot.controller.gene_count(landscape.robot.body)
    worst = jnp.full(size, -jnp.inf)
    return Found(worst, worst, jnp.zeros((size, genes)), jnp.zeros(size, jnp.int32))


def _arguments(landscape: Landscape, numbers: np.ndarray) -> tuple[Array, Array, Array]:
    """Genes of bodies, and their numbers as two words of 32 bits."""
    cells = cells_of(numbers, landscape.shape, len(landscape.symbols))
    genes = jnp.asarray(cells.reshape(len(numbers), -1) + 1, jnp.float32)
    return genes, jnp.asarray(numbers & 0xFFFFFFFF, jnp.uint32), jnp.asarray(numbers >> 32, jnp.uint32)


def _round(
    landscape: Landscape, experiment: Experiment, bodies: Array, numbers: tuple[Array, Array], known: Found, number: Any
) -> Found:
    """One round of all bodies."""
    controller, body = landscape.robot.controller, landscape.robot.body
    size, tries = len(bodies), landscape.tries

    def drawn(low: Array, high: Array, best: Array) -> Array:
        key = jax.random.fold_in(jax.random.key(landscape.seed), low)
        key = jax.random.fold_in(jax.random.fold_in(key, high), number)
        near = best + landscape.sigma * jax.random.normal(key, (tries, best.size))
        return jnp.where(number == 0, controller.sample(key, tries, body), near)

    tried = jax.vmap(drawn)(*numbers, known.genes)
    robots = {"body": jnp.repeat(bodies, tries, 0), "controller": tried.reshape(size * tries, -1)}
    at_once = robots_at_once(size * tries, body.possible.size)
    evaluated = on_all_devices(evaluation_of(experiment), robots, at_once)
    sound = jnp.isfinite(evaluated.fitness) & ~evaluated.failed
    fitness = jnp.where(sound, evaluated.fitness, -jnp.inf).reshape(size, tries)
    leader = jnp.argmax(fitness, 1)
    best = jnp.take_along_axis(fitness, leader[:, None], 1)[:, 0]
    better = best > known.fitness
    genes = jnp.take_along_axis(tried, leader[:, None, None], 1)[:, 0]
    lower, upper = jnp.sort(fitness, 1)[:, (tries - 1) // 2], jnp.sort(fitness, 1)[:, tries // 2]
    return Found(
        fitness=jnp.where(better, best, known.fitness),
        typical=jnp.where(number == 0, 0.5 * lower + 0.5 * upper, known.typical),
        genes=jnp.where(better[:, None], genes, known.genes),
        failed=known.failed + (~sound).reshape(size, tries).sum(1),
    )
