"""The baseline: fresh random individuals every generation, the fittest ever seen are kept."""

from __future__ import annotations

from typing import Literal

import jax
import jax.numpy as jnp

from vsr.evo.generations import Generational, Search
from vsr.evo.population import NOBODY, Population, newborns
from vsr.evo.protocol import Sampler


class RandomSearch(Generational):
    """Fresh random individuals every generation; the fittest ever seen are kept."""

    type: Literal["random_search"] = "random_search"

    def ask(self, state: Search, sample: Sampler) -> Population:
        genes = sample(jax.random.fold_in(state.key, state.generation), self.n_pop)
        parents = jnp.full((self.n_pop, 2), NOBODY)
        return newborns(genes, parents, state.generation * self.n_pop, state.generation)
