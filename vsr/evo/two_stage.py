"""One part of the genes after the other, for comparison with both together: bodies first, then controllers, say.

In the first generations only one part evolves, by µ + λ; all individuals share the others, those of a random one. Then
the best individual's first part is kept for all, and the others evolve, from random ones on.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
from jax import Array
from pydantic import Field, Strict

from vsr.evo.generations import Search
from vsr.evo.mu_plus_lambda import MuPlusLambda
from vsr.evo.population import NO_PARENT, WORST, Population, best
from vsr.evo.protocol import Evaluation, Sampler


class TwoStage(MuPlusLambda):
    """One part of the genes evolves first, then the others for the best of it (µ + λ each time)."""

    type: Literal["two_stage"] = "two_stage"
    first: str = "body"
    """the part of the genes that evolves first: body or controller"""
    first_generations: Annotated[int, Strict(), Field(ge=1, le=1_000_000_000)] = 20
    """in which only that part evolves, the random first one included"""

    def start(self, key: Array, sample: Sampler) -> Search:
        search = super().start(key, sample)
        genes = self._held(search.population.genes, _one(search.population.genes, 0), of_first=False)
        return replace(search, population=replace(search.population, genes=genes))

    def ask(self, state: Search, sample: Sampler) -> Population:
        children, leader = super().ask(state, sample), best(state.population)
        begins, later = state.generation == self.first_generations, state.generation >= self.first_generations
        fresh = sample(jax.random.fold_in(jax.random.fold_in(state.key, state.generation), 1), self.population_size)
        early = self._held(children.genes, _one(state.population.genes, 0), of_first=False)
        late = jax.tree.map(lambda new, bred: jnp.where(begins, new, bred), fresh, children.genes)
        late = self._held(late, _one(leader.genes, 0), of_first=True)
        alone = jnp.stack([leader.id[0], jnp.int32(NO_PARENT)])
        return replace(
            children,
            genes=jax.tree.map(lambda new, old: jnp.where(later, new, old), late, early),
            parents=jnp.where(begins, alone, children.parents),
        )

    def tell(self, state: Search, asked: Population, evaluation: Evaluation) -> Search:
        """As in µ + λ; but when the second stage begins, only the best parent is left."""
        begins = state.generation == self.first_generations
        elders = state.population
        left = begins & (jnp.arange(self.population_size) != jnp.argmax(elders.fitness))
        elders = replace(elders, fitness=jnp.where(left, WORST, elders.fitness))
        return super().tell(replace(state, population=elders), asked, evaluation)

    def _held(self, genes: dict[str, Any], one: dict[str, Any], *, of_first: bool) -> dict[str, Any]:
        """Genes in which the first part, or all but it, is that of one individual."""
        return {
            name: jax.tree.map(lambda leaf, own: jnp.broadcast_to(own, leaf.shape), part, one[name])
            if (name == self.first) == of_first
            else part
            for name, part in genes.items()
        }


def _one(genes: Any, place: int) -> Any:
    return jax.tree.map(lambda leaf: leaf[place], genes)
