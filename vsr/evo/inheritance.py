"""Searches over individuals that learn in their lifetime, and the inheritance of learned genes.

The evaluation reports every individual's learned genes (`Evaluation.learned`) and how fit it was then.
Lamarckian: the search goes on with those genes. Baldwinian: with the genes of birth; what was learned counts for
fitness and for the robot that is kept, and is lost to children.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from vsr.evo.population import NO_PARENT, Population
from vsr.evo.protocol import Evaluation, Sampler, Search, SearchSummary


@dataclass(frozen=True)
class Lamarckian:
    """A search whose children inherit what parents have learned."""

    search: Search

    def start(self, key: Array, sample: Sampler) -> Any:
        return self.search.start(key, sample)

    def ask(self, state: Any, sample: Sampler) -> Population:
        return self.search.ask(state, sample)

    def tell(self, state: Any, asked: Population, evaluation: Evaluation) -> Any:
        return self.search.tell(state, replace(asked, genes=evaluation.learned), evaluation)

    def summary(self, state: Any) -> SearchSummary:
        return self.search.summary(state)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Grown:
    """A search, and its best individual as it was after it had learned."""

    search: Any
    id: Array
    """of the best so far, ()"""
    genes: Any
    """its own, after learning, (...)"""


@dataclass(frozen=True)
class Baldwinian(Lamarckian):
    """A search whose children inherit nothing of what parents have learned."""

    def start(self, key: Array, sample: Sampler) -> Grown:
        one = jax.tree.map(lambda leaf: leaf[0], sample(key, 1))
        return Grown(self.search.start(key, sample), jnp.int32(NO_PARENT), one)

    def ask(self, state: Grown, sample: Sampler) -> Population:
        return self.search.ask(state.search, sample)

    def tell(self, state: Grown, asked: Population, evaluation: Evaluation) -> Grown:
        following = self.search.tell(state.search, asked, evaluation)
        best = self.search.summary(following).best.id[0]
        # The best is one of these, or the one that was the best before.
        place = jnp.argmax(asked.id == best)
        genes = jax.tree.map(
            lambda new, old: jnp.where(best == state.id, old, new[place]), evaluation.learned, state.genes
        )
        return Grown(following, best, genes)

    def summary(self, state: Grown) -> SearchSummary:
        summary = self.search.summary(state.search)
        return replace(summary, best=replace(summary.best, genes=jax.tree.map(lambda leaf: leaf[None], state.genes)))
