"""The baseline: fresh random individuals every generation, the fittest ever seen are kept."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp
from jax import Array

from evo.generations import begin, survive
from evo.population import NOBODY, Population, newborns
from evo.protocol import Sampler, Search
from evo.settings import Settings, Size


class RandomSearch(Settings):
    """Fresh random individuals every generation; the fittest ever seen are kept."""

    type: Literal["random_search"] = "random_search"
    n_pop: Size = 250
    """individuals in a generation"""

    def start(self, key: Array, sample: Sampler) -> Search:
        return begin(key, sample, self.n_pop)

    def ask(self, search: Search, sample: Sampler) -> Population:
        genes = sample(jax.random.fold_in(search.key, search.generation), self.n_pop)
        parents = jnp.full((self.n_pop, 2), NOBODY)
        return newborns(genes, parents, search.generation * self.n_pop, search.generation)

    def tell(self, search: Search, asked: Population, fitness: Array) -> Search:
        return survive(search, asked, fitness)
