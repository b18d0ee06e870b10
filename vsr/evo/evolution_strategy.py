"""An evolution strategy for many real genes: a mean that follows an estimated gradient (Salimans et al. 2017).

Steps come in opposite pairs, their fitness counts by rank, and Adam takes the mean along. There are no members to
select: it is for one policy of a thousand weights, not for populations with lineage, and stands beside the optimizers
of `evo.protocol`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import jax
import jax.numpy as jnp
from jax import Array

FADING = 0.9, 0.999
"""Of Adam's means of gradients and of their squares, in a generation."""


@dataclass(frozen=True)
class EvolutionStrategy:
    """Settings."""

    population_size: int = 64
    """individuals in a generation, an even number"""
    spread: float = 0.1
    """standard deviation of the steps"""
    rate: float = 0.05
    """how far the mean goes in a generation, about, in each gene"""

    def __post_init__(self) -> None:
        if self.population_size < 2 or self.population_size % 2:
            raise ValueError(
                f"individuals come in pairs: population_size must be even and 2 or more; got {self.population_size}"
            )


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Climb:
    """Where a search stands."""

    mean: Array
    """(genes,)"""
    gradient: Array
    """Adam's mean of gradients, (genes,)"""
    square: Array
    """and of their squares, (genes,)"""
    generation: Array
    """generations so far, ()"""
    key: Array = field(repr=False)


def start(key: Array, mean: Array) -> Climb:
    """A search from a mean, (genes,)."""
    return Climb(mean, jnp.zeros_like(mean), jnp.zeros_like(mean), jnp.zeros((), jnp.int32), key)


def ask(settings: EvolutionStrategy, state: Climb) -> Array:
    """Individuals to evaluate, the same for the same state, (population_size, genes)."""
    return state.mean + settings.spread * _steps(settings, state)


def tell(settings: EvolutionStrategy, state: Climb, fitness: Array) -> Climb:
    """After their evaluation; fitness: larger is better, not finite for a failure, (population_size,)."""
    ranks = centered_ranks(jnp.where(jnp.isfinite(fitness), fitness, -jnp.inf))
    gradient = ranks @ _steps(settings, state) / (settings.population_size * settings.spread)
    generation = state.generation + 1
    first = FADING[0] * state.gradient + (1 - FADING[0]) * gradient
    second = FADING[1] * state.square + (1 - FADING[1]) * gradient**2
    unbiased = first / (1 - FADING[0] ** generation), second / (1 - FADING[1] ** generation)
    way = settings.rate * unbiased[0] / (jnp.sqrt(unbiased[1]) + 1e-8)
    return Climb(state.mean + way, first, second, generation, state.key)


def centered_ranks(fitness: Array) -> Array:
    """From -0.5 for the least to 0.5, equal ones alike, so that scale and outliers do not count; (population_size,)."""
    below = (fitness[:, None] > fitness).sum(1)
    level = (fitness[:, None] == fitness).sum(1) - 1
    return (below + 0.5 * level) / (len(fitness) - 1) - 0.5


def _steps(settings: EvolutionStrategy, state: Climb) -> Array:
    """In units of the spread, (population_size, genes)."""
    key = jax.random.fold_in(state.key, state.generation)
    half = jax.random.normal(key, (settings.population_size // 2, len(state.mean)), state.mean.dtype)
    return jnp.concatenate([half, -half])
