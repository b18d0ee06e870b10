"""µ + λ with λ = µ, as in the 2D-VSR-Sim paper, section 3.

Each child comes from crossover of two parents or mutation of one, never both; parents win tournaments; a child that
already exists among parents or earlier children is made again, a few times at most; the fittest of parents and children
together survive.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
from jax import Array
from pydantic import Field, Strict

from vsr.evo.generations import Generational, Search
from vsr.evo.operators import duplicates, tournament
from vsr.evo.population import Population, offspring, take
from vsr.evo.protocol import Sampler
from vsr.evo.settings import Share, Size
from vsr.evo.variation import cross_or_mutate, where_individuals


class MuPlusLambda(Generational):
    """Crossover or mutation of tournament winners; the fittest of parents and children survive (the paper's)."""

    type: Literal["mu_plus_lambda"] = "mu_plus_lambda"
    tournament_size: Size = 5
    """individuals in a tournament"""
    crossover_rate: Share = 0.8
    """share of children made by crossover; the others by mutation"""
    sigma: Annotated[float, Strict(), Field(ge=0, le=1e6)] = 0.15
    """standard deviation of the mutation"""
    resampling_rate: Share = 0.1
    """chance of a gene that is a kind (voxel_kinds) to be resampled by mutation, which adds noise to all others"""
    attempts: Annotated[int, Strict(), Field(ge=0, le=1000)] = 10
    """how often a child that already exists is made again"""

    def ask(self, state: Search, sample: Sampler) -> Population:
        key = jax.random.fold_in(state.key, state.generation)
        genes, parents = self._distinct_children(key, state.population, sample)
        children = offspring(genes, parents, state.generation * self.population_size, state.generation)
        first = state.generation == 0
        return jax.tree.map(lambda new, old: jnp.where(first, old, new), children, state.population)

    def _distinct_children(self, key: Array, population: Population, sample: Sampler) -> tuple[Any, Array]:
        """Genes and parents' ids of the offspring."""

        def attempt(carry):
            number, genes, parents, doubled = carry
            fresh, fresh_parents = self._children(jax.random.fold_in(key, number), population, sample)
            choose = where_individuals(doubled)
            genes, parents = jax.tree.map(choose, fresh, genes), choose(fresh_parents, parents)
            return number + 1, genes, parents, duplicates(genes, population.genes)

        # At first nobody is there, so that all are to be made.
        nobody = jnp.int32(0), population.genes, population.parents, jnp.ones(self.population_size, bool)
        _, genes, parents, _ = jax.lax.while_loop(lambda c: (c[0] <= self.attempts) & c[3].any(), attempt, nobody)
        return genes, parents

    def _children(self, key: Array, population: Population, sample: Sampler) -> tuple[Any, Array]:
        choice, winning, mixing, noise = jax.random.split(key, 4)
        first, second = tournament(winning, population.fitness, self.tournament_size, 2 * self.population_size).reshape(
            2, -1
        )
        parents = take(population, first), take(population, second)
        return cross_or_mutate(
            (choice, mixing, noise), *parents, self.crossover_rate, self.sigma, sample, self.resampling_rate
        )
