"""Shared parts of optimizers with a population of fixed size: state, first generation and survival."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from vsr.evo.diversity import gene_spread
from vsr.evo.operators import truncation
from vsr.evo.population import NO_PARENT, WORST, Population, best, concatenate, offspring, take, with_fitness
from vsr.evo.protocol import Evaluation, Sampler, SearchSummary
from vsr.evo.settings import Settings, Size


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Search:
    """A search between two generations: all that is needed to go on."""

    key: Array
    """of the whole search; each generation folds its number in"""
    generation: Array
    """evaluations so far, in generations, ()"""
    population: Population
    """the survivors; before the first evaluation, the individuals to be evaluated"""


class Generational(Settings):
    """The base of optimizers in which the fittest of parents and children survive."""

    population_size: Size = 40
    """size of the population, and of the offspring"""

    def start(self, key: Array, sample: Sampler) -> Search:
        """A random population, not yet evaluated."""
        first, rest = jax.random.split(key)
        born = offspring(
            sample(first, self.population_size),
            jnp.full((self.population_size, 2), NO_PARENT),
            jnp.int32(0),
            jnp.int32(0),
        )
        return Search(key=rest, generation=jnp.int32(0), population=born)

    def tell(self, state: Search, asked: Population, evaluation: Evaluation) -> Search:
        """The fittest of both survive, parents first among equals; at first all those asked."""
        asked = with_fitness(asked, evaluation.fitness, evaluation.failed)
        both = concatenate(state.population, asked)
        survivors = take(both, truncation(both.fitness, asked.size))
        ordered = take(asked, truncation(asked.fitness, asked.size))
        first = state.generation == 0
        population = jax.tree.map(lambda new, old: jnp.where(first, new, old), ordered, survivors)
        return Search(key=state.key, generation=state.generation + 1, population=population)

    def summary(self, state: Search) -> SearchSummary:
        members = state.population
        sound = jnp.where(members.fitness > WORST, members.fitness, jnp.nan)
        return SearchSummary(
            best=best(members), median=jnp.nanmedian(sound), spread=gene_spread(members.genes), members=members
        )
