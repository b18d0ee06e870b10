"""Children as the paper makes them: each by crossover of two parents or by mutation of one, never both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from vsr.evo.operators import extended_segment_crossover, gaussian_mutation
from vsr.evo.population import NOBODY, Population


def crossed_or_mutated(
    keys: tuple[Array, Array, Array], first: Population, second: Population, rate: float, sigma: float
) -> tuple[Any, Array]:
    """Genes of the children and their parents' ids; keys: for the choice, crossover and mutation."""
    choice, mixing, noise = keys
    by_crossover = jax.random.uniform(choice, (first.size,)) < rate
    crossed = extended_segment_crossover(mixing, first.genes, second.genes)
    mutated = gaussian_mutation(noise, first.genes, sigma)
    genes = jax.tree.map(choosing(by_crossover), crossed, mutated)
    other = jnp.where(by_crossover, second.id, NOBODY)
    return genes, jnp.stack([first.id, other], 1)


def choosing(condition: Array) -> Callable[[Array, Array], Array]:
    """The function that takes whole individuals of its first argument where the condition holds, else of its second."""

    def choose(yes: Array, no: Array) -> Array:
        return jnp.where(condition.reshape(-1, *(1,) * (no.ndim - 1)), yes, no)

    return choose
