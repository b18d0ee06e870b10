"""Individuals with their fitness and descent."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

NO_PARENT = -1
"""The id of a parent that is not there."""
WORST = -jnp.inf
"""The fitness of an individual that failed."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Population:
    """Individuals, one per entry of the leading axis (size,)."""

    genes: Any
    """any pytree of arrays, (size, ...)"""
    fitness: Array
    """larger is better, WORST for a failure, not a number before evaluation, (size,)"""
    id: Array
    """counted from 0 in the order of birth, (size,)"""
    parents: Array
    """ids of the one or two parents, NOBODY where there is none, (size, 2)"""
    birth: Array
    """generation in which it was made, (size,)"""

    @property
    def size(self) -> int:
        return self.fitness.shape[0]


def offspring(genes: Any, parents: Array, first_id: Array, generation: Array) -> Population:
    """Individuals not yet evaluated."""
    size = parents.shape[0]
    return Population(
        genes=genes,
        fitness=jnp.full(size, jnp.nan),
        id=first_id + jnp.arange(size, dtype=jnp.int32),
        parents=parents.astype(jnp.int32),
        birth=jnp.broadcast_to(jnp.asarray(generation, jnp.int32), (size,)),
    )


def with_fitness(population: Population, fitness: Array, failed: Array) -> Population:
    """The population with its fitness. The one place where what failed, or is not a number, becomes the worst."""
    known = jnp.where(jnp.isfinite(fitness) & ~failed, fitness, WORST)
    return replace(population, fitness=known)


def take(population: Population, index: Array) -> Population:
    """The individuals at the given places."""
    return jax.tree.map(lambda leaf: leaf[index], population)


def concatenate(first: Population, second: Population) -> Population:
    """Both populations as one, the first one's individuals first."""
    return jax.tree.map(lambda a, b: jnp.concatenate([a, b]), first, second)


def best(population: Population) -> Population:
    """The fittest individual, still with a leading axis (1,)."""
    return take(population, jnp.argmax(jnp.nan_to_num(population.fitness, nan=WORST))[None])


def failures(population: Population) -> Array:
    """How many failed, ()."""
    return (population.fitness == WORST).sum()
