"""What every optimiser has: `start`, `ask`, `tell`. And what goes from one generation to the next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import jax
from jax import Array

from evo.population import Population

Sampler = Callable[[Array, int], Any]
"""From a key and a number to that many random genes, (number, ...)."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Search:
    """A search between two generations: all that is needed to go on."""

    key: Array
    """of the whole search; each generation folds its number in"""
    generation: Array
    """how many have been told, ()"""
    population: Population
    """the survivors; before the first generation is told, just its newborns"""


class Optimiser(Protocol):
    """A way to search. All three are pure; `sample` draws genes as the encoding wants its first population."""

    @property
    def n_pop(self) -> int:
        """Individuals asked for in every generation."""
        ...

    def start(self, key: Array, sample: Sampler) -> Search:
        """A search that has seen nothing yet."""
        ...

    def ask(self, search: Search, sample: Sampler) -> Population:
        """Individuals to evaluate, the same for the same search."""
        ...

    def tell(self, search: Search, asked: Population, fitness: Array) -> Search:
        """The search after their evaluation; fitness: larger is better, not finite for a failure, (size,)."""
        ...
