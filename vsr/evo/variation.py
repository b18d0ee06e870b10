"""Children as the paper makes them: each by crossover of two parents or by mutation of one, never both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from vsr.evo.operators import extended_segment_crossover, flat_draw, gaussian_mutation, redrawn
from vsr.evo.population import NO_PARENT, Population

OF_KINDS = 0x4B494E44
"""Makes a key of its own for genes that are kinds, which none of the parts of genes has by its number."""


def cross_or_mutate(
    keys: tuple[Array, Array, Array],
    first: Population,
    second: Population,
    rate: float,
    sigma: float,
    sample: Callable[[Array, int], Any],
    resampling_rate: float,
) -> tuple[Any, Array]:
    """Genes of the children and their parents' ids; keys: for the choice, crossover and mutation.

    sample: of random genes (evo.protocol.Sampler); resampling_rate: chance of a gene that is a kind to be resampled.
    """
    choice, mixing, noise = keys
    by_crossover = jax.random.uniform(choice, (first.size,)) < rate
    crossed = extended_segment_crossover(mixing, first.genes, second.genes)
    mutated = gaussian_mutation(noise, first.genes, sigma)
    kinds = getattr(sample, "kinds", None)
    if kinds is not None and any(jax.tree.leaves(kinds)):
        mixing, noise = (jax.random.fold_in(key, OF_KINDS) for key in (mixing, noise))
        crossed = _where(kinds, uniform_crossover(mixing, first.genes, second.genes), crossed)
        drawing, choosing_genes = jax.random.split(noise)
        fresh = sample(drawing, first.size)
        mutated = _where(kinds, redrawn(choosing_genes, first.genes, fresh, resampling_rate), mutated)
    genes = jax.tree.map(where_individuals(by_crossover), crossed, mutated)
    other = jnp.where(by_crossover, second.id, NO_PARENT)
    return genes, jnp.stack([first.id, other], 1)


def uniform_crossover(key: Array, first: Any, second: Any) -> Any:
    """Every gene of one of both parents, with equal chances."""
    leaves, tree = jax.tree.flatten(first)
    keys = jax.random.split(key, len(leaves))

    def choose(key: Array, a: Array, b: Array) -> Array:
        return jnp.where(flat_draw(jax.random.uniform, key, a.shape) < 0.5, a, b)

    return jax.tree.unflatten(tree, list(map(choose, keys, leaves, jax.tree.leaves(second))))


def _where(parts: Any, yes: Any, no: Any) -> Any:
    """Parts of genes from the first where they are True, else from the second."""
    return jax.tree.map(lambda part, a, b: a if part else b, parts, yes, no)


def where_individuals(condition: Array) -> Callable[[Array, Array], Array]:
    """The function that takes whole individuals of its first argument where the condition holds, else of its second."""

    def choose(yes: Array, no: Array) -> Array:
        return jnp.where(condition.reshape(-1, *(1,) * (no.ndim - 1)), yes, no)

    return choose
