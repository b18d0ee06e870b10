"""Age-fitness Pareto optimization (Schmidt and Lipson 2010): lineages that are young need not yet be good.

A lineage is as old as the oldest founder in it. Every generation a few random newcomers begin lineages of their own;
the others are children of parents drawn at random. Of all, those survive that nobody dominates in youth and fitness;
within a front the fitter come first, and among equals the younger.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
from jax import Array
from pydantic import Field, Strict, model_validator

from vsr.evo.diversity import gene_spread
from vsr.evo.pareto import fronts
from vsr.evo.population import NO_PARENT, WORST, Population, best, concatenate, offspring, take, with_fitness
from vsr.evo.protocol import Evaluation, Sampler, SearchSummary
from vsr.evo.settings import Settings, Share, Size
from vsr.evo.variation import cross_or_mutate, where_individuals


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Generations:
    """A search between two generations."""

    key: Array
    generation: Array
    """evaluations so far, in generations, ()"""
    population: Population
    """the survivors; before the first evaluation, the individuals to be evaluated"""
    founded: Array
    """generation in which each survivor's lineage began, (population_size,)"""


class AFPO(Settings):
    """Young lineages are spared: survival by age and fitness (AFPO)."""

    type: Literal["afpo"] = "afpo"
    population_size: Size = 40
    """size of the population, and of the offspring"""
    newcomers: Annotated[int, Strict(), Field(ge=1, le=1_000_000)] = 1
    """random individuals in every generation, the first of their lineages"""
    crossover_rate: Share = 0.0
    """share of children made by crossover; the others by mutation"""
    sigma: Annotated[float, Strict(), Field(ge=0, le=1e6)] = 0.15
    """standard deviation of the mutation"""
    resampling_rate: Share = 0.1
    """chance of a gene that is a kind (voxel_kinds) to be resampled by mutation, which adds noise to all others"""

    @model_validator(mode="after")
    def _room(self) -> AFPO:
        if self.newcomers > self.population_size:
            raise ValueError(f"newcomers: {self.newcomers} given; at most population_size, {self.population_size}")
        return self

    @property
    def metrics(self) -> Mapping[str, str]:
        return {
            "lineages": "Lineages with a founder of their own.",
            "age": "Age: generations since the founder of a lineage, mean over the population.",
        }

    def start(self, key: Array, sample: Sampler) -> Generations:
        first, rest = jax.random.split(key)
        born = offspring(
            sample(first, self.population_size),
            jnp.full((self.population_size, 2), NO_PARENT),
            jnp.int32(0),
            jnp.int32(0),
        )
        return Generations(rest, jnp.int32(0), born, jnp.zeros(self.population_size, jnp.int32))

    def ask(self, state: Generations, sample: Sampler) -> Population:
        """Newcomers and children; at first the random population."""
        fresh_key, drawing, *keys = jax.random.split(jax.random.fold_in(state.key, state.generation), 5)
        drawn = jax.random.randint(drawing, (2, self.population_size), 0, self.population_size)
        first, second = (take(state.population, places) for places in drawn)
        genes, parents = cross_or_mutate(
            (keys[0], keys[1], keys[2]), first, second, self.crossover_rate, self.sigma, sample, self.resampling_rate
        )
        new = jnp.arange(self.population_size) < self.newcomers
        genes = jax.tree.map(where_individuals(new), sample(fresh_key, self.population_size), genes)
        parents = jnp.where(new[:, None], NO_PARENT, parents)
        children = offspring(genes, parents, state.generation * self.population_size, state.generation)
        at_first = state.generation == 0
        return jax.tree.map(lambda later, now: jnp.where(at_first, now, later), children, state.population)

    def tell(self, state: Generations, asked: Population, evaluation: Evaluation) -> Generations:
        asked = with_fitness(asked, evaluation.fitness, evaluation.failed)
        born = self._founded(state, asked)
        both, founded = concatenate(state.population, asked), jnp.concatenate([state.founded, born])
        fitness = jnp.nan_to_num(both.fitness, nan=WORST, neginf=WORST)
        first = state.generation == 0
        unborn = first & (jnp.arange(both.size) < self.population_size)
        sound = jnp.stack([fitness, founded.astype(fitness.dtype)], 1)
        objectives = jnp.where((fitness > WORST)[:, None], sound, WORST)  # failure has no excuse in youth
        front = jnp.where(unborn, both.size, fronts(objectives))
        chosen = jnp.lexsort((-founded, -fitness, front))[: self.population_size]
        return Generations(state.key, state.generation + 1, take(both, chosen), founded[chosen])

    def summary(self, state: Generations) -> SearchSummary:
        members = state.population
        sound = jnp.where(members.fitness > WORST, members.fitness, jnp.nan)
        return SearchSummary(
            best=best(members),
            median=jnp.nanmedian(sound),
            spread=gene_spread(members.genes),
            members=members,
            metrics={
                "lineages": (jnp.diff(jnp.sort(state.founded)) > 0).sum() + 1,
                "age": (state.generation - state.founded).mean(),
            },
        )

    def _founded(self, state: Generations, asked: Population) -> Array:
        """Generation in which the lineages of children began: that of the older parent, or this, (population_size,)."""
        known = state.population.id
        of = asked.parents[..., None] == known  # (n_pop, 2, n_pop)
        elder = jnp.where(of, state.founded, jnp.iinfo(jnp.int32).max).min((1, 2))
        alone = (asked.parents < 0).all(-1)
        return jnp.where(alone, state.generation, elder).astype(jnp.int32)
