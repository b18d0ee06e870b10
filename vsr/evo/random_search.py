"""The baseline: fresh random individuals every generation, the fittest ever seen are kept."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp

from vsr.evo.generations import Generational, Search
from vsr.evo.population import NO_PARENT, Population, offspring
from vsr.evo.protocol import Sampler


class RandomSearch(Generational):
    """Fresh random individuals every generation; the fittest ever seen are kept."""

    type: Literal["random_search"] = "random_search"

    def ask(self, state: Search, sample: Sampler) -> Population:
        genes = sample(jax.random.fold_in(state.key, state.generation), self.population_size)
        parents = jnp.full((self.population_size, 2), NO_PARENT)
        return offspring(genes, parents, state.generation * self.population_size, state.generation)
