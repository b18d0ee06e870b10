"""EvoGym's genetic algorithm: no crossover, and ever fewer survivors.

The share of survivors falls linearly with the evaluations used, from `survivors` to none, but two always stay. Parents
are drawn uniformly among them; every gene of a child is resampled with a small chance, as for a first population,
until the child is acceptable (evo.protocol.Sampler) and unlike everybody before. Survivors keep their fitness.

Arrays have fixed sizes, which changes three details. A generation always has `population_size` children; EvoGym makes
as many as did not survive. Attempts at a child are counted, and the last one stands, whatever it is. Everybody is
remembered for `budget` evaluations, then the oldest are forgotten.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
from jax import Array
from pydantic import Field, Strict

from vsr.evo.generations import Generational, Search
from vsr.evo.operators import fingerprints, redrawn
from vsr.evo.population import NO_PARENT, WORST, Population, offspring
from vsr.evo.protocol import Evaluation, Sampler, acceptance
from vsr.evo.settings import Share, Size

FEWEST = 2
"""Survivors that there always are."""
Make = Callable[[Array], tuple[Any, Array]]
"""From a key to genes and parents of as many individuals as a generation has."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SearchWithHistory(Search):
    """A search that knows whom it has evaluated."""

    known: Array
    """fingerprints of the last to be evaluated, (budget, 2)"""


class EvogymGA(Generational):
    """Mutation only; survivors fall from 60 % to two, and nobody is evaluated twice (EvoGym's)."""

    type: Literal["evogym_ga"] = "evogym_ga"
    population_size: Size = 25
    """children in a generation"""
    budget: Size = 500
    """evaluations after which only two survive: as a rule population_size times generations"""
    survivors: Share = 0.6
    """share that survives at the beginning"""
    mutation_rate: Share = 0.1
    """chance of every gene to be resampled"""
    part: str | None = None
    """the genes to search over, such as body, if others are left to learning: children inherit the others as they are,
    and no two individuals share this part; if absent, all genes together"""
    attempts: Annotated[int, Strict(), Field(ge=1, le=10_000)] = 100
    """how often a child is made at most, until it is acceptable and new"""

    def start(self, key: Array, sample: Sampler) -> SearchWithHistory:
        # Zeros are the mark of nobody: no two hashes are both 0 but by a chance of one in 2**64.
        known = jnp.zeros((self.budget, 2), jnp.uint32)
        drawing, rest = jax.random.split(key)
        genes, parents = self._new(
            drawing,
            sample,
            known,
            lambda key: (sample(key, self.population_size), jnp.full((self.population_size, 2), NO_PARENT)),
        )
        born = offspring(genes, parents, jnp.int32(0), jnp.int32(0))
        return SearchWithHistory(key=rest, generation=jnp.int32(0), population=born, known=known)

    def survivor_count(self, evaluations: Array) -> Array:
        """After some evaluations, ()."""
        left = jnp.maximum(1 - evaluations / self.budget, 0)
        return jnp.maximum(jnp.floor(self.population_size * self.survivors * left + 1e-4), FEWEST).astype(jnp.int32)

    def ask(self, state: SearchWithHistory, sample: Sampler) -> Population:
        key = jax.random.fold_in(state.key, state.generation)
        genes, parents = self._new(key, sample, state.known, self._children(state, sample))
        children = offspring(genes, parents, state.generation * self.population_size, state.generation)
        first = state.generation == 0
        return jax.tree.map(lambda new, old: jnp.where(first, old, new), children, state.population)

    def tell(self, state: SearchWithHistory, asked: Population, evaluation: Evaluation) -> SearchWithHistory:
        """Survivors and children are the next population; those who did not survive are gone."""
        members = state.population
        alive = jnp.arange(members.size) < self._survivors(state)
        kept = replace(members, fitness=jnp.where(alive, members.fitness, WORST))
        following = super().tell(replace(state, population=kept), asked, evaluation)
        place = (state.generation * self.population_size + jnp.arange(self.population_size)) % self.budget
        known = state.known.at[place].set(self._marks(asked.genes))
        return SearchWithHistory(following.key, following.generation, following.population, known)

    def _survivors(self, state: Search) -> Array:
        return jnp.minimum(self.survivor_count(state.generation * self.population_size), self.population_size)

    def _children(self, state: Search, sample: Sampler) -> Make:
        """How children of a population's survivors are made."""
        members, survivors = state.population, self._survivors(state)

        def make(key: Array) -> tuple[Any, Array]:
            drawing, choosing, place = jax.random.split(key, 3)
            parent = jax.random.randint(place, (self.population_size,), 0, survivors)
            theirs = jax.tree.map(lambda leaf: leaf[parent], members.genes)
            genes = redrawn(choosing, theirs, sample(drawing, self.population_size), self.mutation_rate)
            if self.part is not None:
                genes = {**theirs, self.part: genes[self.part]}
            return genes, jnp.full((self.population_size, 2), NO_PARENT).at[:, 0].set(members.id[parent])

        return make

    def _new(self, key: Array, sample: Sampler, known: Array, make: Make) -> tuple[Any, Array]:
        """Genes and parents of individuals, made again where they are not acceptable or not new."""

        def attempt(carry: tuple[Array, Any, Array]) -> tuple[Array, Any, Array]:
            number, made, missing = carry

            def choose(new: Array, old: Array) -> Array:
                return jnp.where(missing.reshape(-1, *(1,) * (new.ndim - 1)), new, old)

            made = jax.tree.map(choose, make(jax.random.fold_in(key, number)), made)
            genes, _ = made
            return number + 1, made, ~acceptance(sample, genes, self.population_size) | self._seen(genes, known)

        def goes_on(carry: tuple[Array, Any, Array]) -> Array:
            return (carry[0] < self.attempts) & carry[2].any()

        # At first nobody is there, so that all are to be made.
        shapes = jax.eval_shape(make, key)
        nobody = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        return jax.lax.while_loop(goes_on, attempt, (jnp.int32(0), nobody, jnp.ones(self.population_size, bool)))[1]

    def _seen(self, genes: Any, known: Array) -> Array:
        """Whether an individual was evaluated before, or equals an earlier child, (population_size,)."""
        marks = self._marks(genes)
        before = (marks[:, None] == known[None]).all(-1).any(1)
        return before | jnp.tril((marks[:, None] == marks[None]).all(-1), k=-1).any(1)

    def _marks(self, genes: Any) -> Array:
        """Hashes by which individuals differ, (population_size, 2)."""
        return fingerprints(genes if self.part is None else genes[self.part])
