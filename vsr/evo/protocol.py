"""The protocol of optimizers (`start`, `ask`, `tell`, `summary`), and the values that go in and out.

The state of a search is any pytree. Only its optimizer looks inside; everyone else stores it, hands it back and asks
for a `summary`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from vsr.evo.population import Population

Sampler = Callable[[Array, int], Any]
"""From a key and a number to that many random genes, (number, ...). It may have `accepts`, a function of genes of one
individual that is False for genes that no search should try, and `kinds`, a tree like the genes that is True for parts
whose genes are numbers of kinds: noise means nothing to them, so that they are resampled instead."""


def acceptance(sample: Sampler, genes: Any, count: int) -> Array:
    """Whether genes are acceptable, (count,); all are, unless the sampler has `accepts`; genes: (count, ...)."""
    accepts = getattr(sample, "accepts", None)
    return jnp.ones(count, bool) if accepts is None else jax.vmap(accepts)(genes)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Evaluation:
    """Results of individuals, one per entry of the leading axis (size,)."""

    fitness: Array
    """larger is better, not finite for a failure, (size,)"""
    failed: Array
    """whether the evaluation failed, (size,)"""
    failure: Array | None = None
    """why, in numbers of whoever evaluates, 0 where it did not, (size,)"""
    measures: dict[str, Array] = field(default_factory=dict)
    """by name, not finite for a failure, (size,)"""
    descriptors: Array | None = None
    """measures that the search asked for (`Optimizer.descriptors`), in their order, (size, descriptors)"""
    gradients: Any = None
    """of the fitness with respect to each gene, like the genes, where the search asked for them; need not be finite"""
    learned: Any = None
    """genes as changed by learning, and evaluated; None if they do not learn"""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SearchSummary:
    """Where a search stands."""

    best: Population
    """the fittest so far, (1,)"""
    median: Array
    """fitness of the members that did not fail, not a number if all did, ()"""
    spread: Array
    """standard deviation of a gene over the members, averaged over all genes, ()"""
    members: Population
    """those from which the search goes on, (size,)"""
    archive: Any = None
    """where the search has them: archives (`Elites`) by the names of `elite_archives`, or a `Front` in
    `front_objectives`; whatever else is stored, and read by nobody"""
    metrics: dict[str, Array] = field(default_factory=dict)
    """more numbers about it, by name, that of an archive first: `body.coverage`; each ()"""


class Search(Protocol):
    """The functions that evolution calls, all pure; `sample` draws genes as the encoding's first population has
    them."""

    def start(self, key: Array, sample: Sampler) -> Any:
        """The state of a search that has evaluated nothing."""
        ...

    def ask(self, state: Any, sample: Sampler) -> Population:
        """Individuals to evaluate, the same for the same state."""
        ...

    def tell(self, state: Any, asked: Population, evaluation: Evaluation) -> Any:
        """The state after their evaluation."""
        ...

    def summary(self, state: Any) -> SearchSummary:
        """Where the search stands after at least one evaluation."""
        ...


class Optimizer(Search, Protocol):
    """A search with its settings."""

    @property
    def type(self) -> str:
        """Name in the registry."""
        ...

    @property
    def population_size(self) -> int:
        """Individuals asked for in every generation."""
        ...

    @property
    def descriptors(self) -> tuple[str, ...]:
        """Names of the measures that describe behavior to this search; none for most."""
        ...

    @property
    def needs_gradients(self) -> bool:
        """Whether evaluations are to have gradients of the fitness."""
        ...

    @property
    def elite_archives(self) -> Mapping[str, Any]:
        """Archives that `summary` gives, by name: the axes and the cells of each; none for most."""
        ...

    @property
    def front_objectives(self) -> tuple[Any, ...]:
        """Objectives beside the fitness of the front that `summary` gives; none for most."""
        ...

    @property
    def metrics(self) -> Mapping[str, str]:
        """Meaning of the `metrics` of `summary`, by the last part of their names."""
        ...
