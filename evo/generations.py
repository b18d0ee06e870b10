"""How a search begins and who survives a generation: what optimisers with a population of fixed size share."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from evo.population import NOBODY, Population, evaluated, joined, newborns, take
from evo.protocol import Sampler, Search
from evo.selection import truncation


def begin(key: Array, sample: Sampler, size: int) -> Search:
    """A search whose population is a random one, not yet evaluated."""
    first, rest = jax.random.split(key)
    born = newborns(sample(first, size), jnp.full((size, 2), NOBODY), jnp.int32(0), jnp.int32(0))
    return Search(key=rest, generation=jnp.int32(0), population=born)


def survive(search: Search, asked: Population, fitness: Array) -> Search:
    """The fittest of the population and those asked go on, elders first among equals; at first just those asked."""
    asked = evaluated(asked, fitness)
    both = joined(search.population, asked)
    survivors = take(both, truncation(both.fitness, asked.size))
    ordered = take(asked, truncation(asked.fitness, asked.size))
    first = search.generation == 0
    population = jax.tree.map(lambda new, old: jnp.where(first, new, old), ordered, survivors)
    return Search(key=search.key, generation=search.generation + 1, population=population)
