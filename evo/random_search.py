"""The baseline: fresh random individuals every generation, the fittest ever seen are kept."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array

from evo.mu_plus_lambda import MuPlusLambda
from evo.population import NOBODY, Population, newborns
from evo.protocol import Sampler, Search


@dataclass(frozen=True)
class RandomSearch:
    """Parameters."""

    n_pop: int = 250
    """individuals in a generation"""

    def start(self, key: Array, sample: Sampler) -> Search:
        return MuPlusLambda(n_pop=self.n_pop).start(key, sample)

    def ask(self, search: Search, sample: Sampler) -> Population:
        genes = sample(jax.random.fold_in(search.key, search.generation), self.n_pop)
        parents = jnp.full((self.n_pop, 2), NOBODY)
        return newborns(genes, parents, search.generation * self.n_pop, search.generation)

    def tell(self, search: Search, asked: Population, fitness: Array) -> Search:
        return MuPlusLambda(n_pop=self.n_pop).tell(search, asked, fitness)
