"""Ascent along gradients that the evaluation gives: many restarts side by side, each moved by Adam (package optax).

Every individual is one restart. It follows its own gradient; a gradient longer than `clip` is shortened,
because gradients through contact have spikes. A restart that fails, or has not become better for `patience`
generations, restarts from random genes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
from jax import Array
from pydantic import Field, Strict, model_validator

from vsr.evo.diversity import gene_spread
from vsr.evo.population import NO_PARENT, WORST, Population, best, concatenate, offspring, with_fitness
from vsr.evo.protocol import Evaluation, Sampler, SearchSummary
from vsr.evo.settings import Settings, Size

MISSING = "this search needs the package optax: pip install 'voxel-soft-robots[learning]'"


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Ascent:
    """A search between two generations."""

    key: Array
    generation: Array
    """evaluations so far, in generations, ()"""
    genes: Any
    """where the restarts are to be evaluated next, (population_size, ...)"""
    moments: Any
    """the state of optax, (population_size, ...)"""
    begins: Array
    """individuals that restart with the next evaluation, (population_size,)"""
    top: Array
    """the best fitness of each restart since it began, (population_size,)"""
    waited: Array
    """generations since then, (population_size,)"""
    population: Population
    """those evaluated last; before the first evaluation not to be used"""
    leader: Population
    """the fittest so far, (1,)"""


class Adam(Settings):
    """Gradient ascent by Adam along gradients through the simulation; restarts side by side (docs/do/learning.md)."""

    type: Literal["adam"] = "adam"
    population_size: Size = 32
    """restarts, each an individual"""
    rate: Annotated[float, Strict(), Field(gt=0, le=1e6)] = 0.05
    """how far a gene goes in a generation, about"""
    clip: Annotated[float, Strict(), Field(gt=0, le=1e12)] = 1.0
    """longest gradient; longer ones are shortened to it"""
    patience: Annotated[int, Strict(), Field(ge=1)] | None = 20
    """generations without improvement before an individual restarts; null for never"""

    @model_validator(mode="after")
    def _available(self) -> Adam:
        if _optax() is None:
            raise ValueError(MISSING)
        return self

    @property
    def needs_gradients(self) -> bool:
        return True

    def start(self, key: Array, sample: Sampler) -> Ascent:
        first, rest = jax.random.split(key)
        genes = sample(first, self.population_size)
        nobody = offspring(genes, jnp.full((self.population_size, 2), NO_PARENT), jnp.int32(0), jnp.int32(0))
        return Ascent(
            key=rest,
            generation=jnp.int32(0),
            genes=genes,
            moments=self._at_first(genes),
            begins=jnp.ones(self.population_size, bool),
            top=jnp.full(self.population_size, WORST, nobody.fitness.dtype),
            waited=jnp.zeros(self.population_size, jnp.int32),
            population=nobody,
            leader=jax.tree.map(lambda leaf: leaf[:1], nobody),
        )

    def ask(self, state: Ascent, sample: Sampler) -> Population:
        first = state.generation == 0
        fresh = sample(jax.random.fold_in(state.key, state.generation), self.population_size)
        genes = _chosen(state.begins & ~first, fresh, state.genes)
        parent = jnp.where(state.begins, NO_PARENT, state.population.id)
        parents = jnp.stack([parent, jnp.full_like(parent, NO_PARENT)], -1)
        return offspring(genes, parents, state.generation * self.population_size, state.generation)

    def tell(self, state: Ascent, asked: Population, evaluation: Evaluation) -> Ascent:
        asked, gradients = with_fitness(asked, evaluation.fitness, evaluation.failed), evaluation.gradients
        assert gradients is not None
        sound = (asked.fitness > WORST) & _finite(gradients, self.population_size)
        downhill = _chosen(sound, jax.tree.map(jnp.negative, gradients), jax.tree.map(jnp.zeros_like, gradients))
        moments = _chosen(state.begins, self._at_first(asked.genes), state.moments)
        changes, moments = jax.vmap(self._way().update)(downhill, moments)
        top = jnp.where(state.begins, WORST, state.top)
        better = asked.fitness > top
        waited = jnp.where(better | state.begins, 0, state.waited + 1)
        tired = jnp.zeros(self.population_size, bool) if self.patience is None else waited >= self.patience
        before = jax.tree.map(lambda leaf: leaf[:1], asked)
        leader = _chosen(state.generation == 0, before, state.leader)
        return Ascent(
            key=state.key,
            generation=state.generation + 1,
            genes=jax.tree.map(jnp.add, asked.genes, changes),
            moments=moments,
            begins=~sound | tired,
            top=jnp.maximum(asked.fitness, top),
            waited=waited,
            population=asked,
            leader=best(concatenate(leader, asked)),
        )

    def summary(self, state: Ascent) -> SearchSummary:
        members = state.population
        sound = jnp.where(members.fitness > WORST, members.fitness, jnp.nan)
        return SearchSummary(
            best=state.leader,
            median=jnp.nanmedian(sound),
            spread=gene_spread(members.genes),
            members=members,
            metrics={"begun_anew": state.begins.sum()},
        )

    def _way(self) -> Any:
        optax = _optax()
        return optax.chain(optax.clip_by_global_norm(self.clip), optax.adam(self.rate))

    def _at_first(self, genes: Any) -> Any:
        """State of optax for restarts that have not moved yet, (population_size, ...)."""
        return jax.vmap(self._way().init)(genes)


def _chosen(condition: Array, value: Any, otherwise: Any) -> Any:
    """For every restart one of two, equal pytrees; condition: (population_size,) or ()."""

    def choose(first: Array, second: Array) -> Array:
        return jnp.where(condition.reshape(*condition.shape, *(1,) * (first.ndim - condition.ndim)), first, second)

    return jax.tree.map(choose, value, otherwise)


def _finite(gradients: Any, count: int) -> Array:
    """Whether all gradients of an individual are finite, (count,)."""
    return jnp.stack([jnp.isfinite(leaf).reshape(count, -1).all(1) for leaf in jax.tree.leaves(gradients)]).all(0)


@cache
def _optax() -> Any:
    """The package; None if it is not installed."""
    try:
        import optax
    except ImportError:
        return None
    return optax
