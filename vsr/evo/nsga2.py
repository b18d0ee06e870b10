"""NSGA-II (Deb et al. 2002): two or more objectives, the fitness first, and a front of the Pareto front.

Parents win tournaments of two by front, then by crowding; children come from crossover or mutation as in µ + λ; of
parents and children together whole fronts survive, the last of them by crowding.
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
from vsr.evo.operators import flat_draw
from vsr.evo.pareto import crowding, fronts, hypervolume
from vsr.evo.population import NO_PARENT, WORST, Population, best, concatenate, offspring, take, with_fitness
from vsr.evo.protocol import Evaluation, Sampler, SearchSummary
from vsr.evo.settings import Settings, Share, Size
from vsr.evo.variation import cross_or_mutate

MOST_FOR_VOLUME = 3


class Objective(Settings):
    """One objective beside the fitness."""

    measure: str
    """one of the measures"""
    direction: Literal["maximize", "minimize"] = "minimize"
    """whether more or less of it is better"""

    @property
    def sign(self) -> float:
        """By which the measure is multiplied to be maximized."""
        return 1.0 if self.direction == "maximize" else -1.0


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ParetoPoint:
    """A search between two generations, and the front that is kept of it."""

    key: Array
    generation: Array
    """evaluations so far, in generations, ()"""
    population: Population
    """the survivors, the first front first; before the first evaluation, the individuals to be evaluated"""
    objectives: Array
    """all maximized, the fitness first, WORST for a failure, (population_size, objectives)"""
    front: Array
    """number of each survivor's front, (population_size,)"""
    crowding: Array
    """of each survivor within its front, (population_size,)"""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Front:
    """The population with the number of each individual's front, as stored."""

    population: Population
    objectives: Array
    """all maximized, the fitness first, (population_size, objectives)"""
    front: Array
    """0 for the Pareto front, (population_size,)"""


class NSGA2(Settings):
    """Several objectives at once: a front of the Pareto front (NSGA-II)."""

    type: Literal["nsga2"] = "nsga2"
    population_size: Size = 40
    """size of the population, and of the offspring"""
    objectives: Annotated[tuple[Objective, ...], Field(min_length=1, max_length=8)]
    """objectives beside the fitness"""
    crossover_rate: Share = 0.8
    """share of children made by crossover; the others by mutation"""
    sigma: Annotated[float, Strict(), Field(ge=0, le=1e6)] = 0.15
    """standard deviation of the mutation"""
    resampling_rate: Share = 0.1
    """chance of a gene that is a kind (voxel_kinds) to be resampled by mutation, which adds noise to all others"""
    reference: tuple[Annotated[float, Strict()], ...] | None = None
    """a point worse than all that matters: a fitness (larger is better), then one of each measure; the hypervolume is
    counted from it"""

    @model_validator(mode="after")
    def _reference_fits(self) -> NSGA2:
        needed = 1 + len(self.objectives)
        if self.reference is not None and len(self.reference) != needed:
            raise ValueError(f"reference: {len(self.reference)} numbers given; one per objective, {needed} in all")
        if self.reference is not None and needed > MOST_FOR_VOLUME:
            raise ValueError(f"reference: the hypervolume is counted for at most {MOST_FOR_VOLUME} objectives")
        return self

    @property
    def descriptors(self) -> tuple[str, ...]:
        return tuple(objective.measure for objective in self.objectives)

    @property
    def front_objectives(self) -> tuple[Objective, ...]:
        return self.objectives

    @property
    def metrics(self) -> Mapping[str, str]:
        return {
            "front": "Individuals on the first front.",
            "hypervolume": "Hypervolume: what the first front dominates, counted from the reference.",
        }

    def start(self, key: Array, sample: Sampler) -> ParetoPoint:
        first, rest = jax.random.split(key)
        born = offspring(
            sample(first, self.population_size),
            jnp.full((self.population_size, 2), NO_PARENT),
            jnp.int32(0),
            jnp.int32(0),
        )
        unknown = jnp.full((self.population_size, 1 + len(self.objectives)), WORST)
        level = jnp.zeros(self.population_size, jnp.int32)
        return ParetoPoint(rest, jnp.int32(0), born, unknown, level, jnp.zeros(self.population_size))

    def ask(self, state: ParetoPoint, sample: Sampler) -> Population:
        key = jax.random.fold_in(state.key, state.generation)
        children = self._children(key, state, sample)
        first = state.generation == 0
        return jax.tree.map(lambda new, old: jnp.where(first, old, new), children, state.population)

    def tell(self, state: ParetoPoint, asked: Population, evaluation: Evaluation) -> ParetoPoint:
        asked = with_fitness(asked, evaluation.fitness, evaluation.failed)
        assert evaluation.descriptors is not None
        signs = jnp.array([objective.sign for objective in self.objectives])
        others = jnp.where(jnp.isfinite(evaluation.descriptors), evaluation.descriptors * signs, WORST)
        sound = (asked.fitness > WORST) & (others > WORST).all(-1)
        new = jnp.where(sound[:, None], jnp.concatenate([asked.fitness[:, None], others], 1), WORST)
        # At first the population is those asked: nobody's objectives are known before, so that they come last.
        both, objectives = concatenate(state.population, asked), jnp.concatenate([state.objectives, new])
        front = fronts(objectives)
        front = jnp.where((state.generation == 0) & (jnp.arange(len(front)) < self.population_size), len(front), front)
        lonely = crowding(objectives, front)
        chosen = jnp.lexsort((-lonely, front))[: self.population_size]
        return ParetoPoint(
            key=state.key,
            generation=state.generation + 1,
            population=take(both, chosen),
            objectives=objectives[chosen],
            front=front[chosen],
            crowding=lonely[chosen],
        )

    def summary(self, state: ParetoPoint) -> SearchSummary:
        members = state.population
        sound = jnp.where(members.fitness > WORST, members.fitness, jnp.nan)
        leading = (state.front == 0) & (state.objectives[:, 0] > WORST)
        metrics = {"front": leading.sum()}
        if self.reference is not None:
            signs = jnp.array([1.0, *(objective.sign for objective in self.objectives)])
            point = jnp.array(self.reference) * signs
            metrics["hypervolume"] = hypervolume(jnp.where(leading[:, None], state.objectives, point), point)
        return SearchSummary(
            best=best(members),
            median=jnp.nanmedian(sound),
            spread=gene_spread(members.genes),
            members=members,
            archive=Front(members, state.objectives, state.front),
            metrics=metrics,
        )

    def _children(self, key: Array, state: ParetoPoint, sample: Sampler) -> Population:
        choice, winning, mixing, noise = jax.random.split(key, 4)
        drawn = flat_draw(
            lambda k, shape: jax.random.randint(k, shape, 0, self.population_size),
            winning,
            (2 * self.population_size, 2),
        )
        place = (
            jnp.zeros(self.population_size, jnp.int32)
            .at[jnp.lexsort((-state.crowding, state.front))]
            .set(jnp.arange(self.population_size, dtype=jnp.int32))
        )
        winner = jnp.take_along_axis(drawn, jnp.argmin(place[drawn], 1)[:, None], 1)[:, 0]
        first, second = winner.reshape(2, -1)
        parents = take(state.population, first), take(state.population, second)
        genes, ids = cross_or_mutate(
            (choice, mixing, noise), *parents, self.crossover_rate, self.sigma, sample, self.resampling_rate
        )
        return offspring(genes, ids, state.generation * self.population_size, state.generation)
