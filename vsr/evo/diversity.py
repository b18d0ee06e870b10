"""How different the individuals of a population are from each other."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from vsr.evo.operators import fingerprints


def gene_spread(genes: Any, there: Array | None = None) -> Array:
    """Standard deviation of a gene over the population, averaged over all genes, (); 0 if all are the same.

    genes: any pytree of arrays, (size, ...), with at least one gene; there: False for places that are empty, (size,).
    """

    def spread(leaf: Array) -> Array:
        if there is None:
            return leaf.std(0).ravel()
        return leaf.std(0, where=there.reshape(-1, *(1,) * (leaf.ndim - 1))).ravel()

    spreads = [spread(leaf) for leaf in jax.tree.leaves(genes)]
    return jnp.concatenate(spreads).mean()


def distinct(rows: Any) -> Array:
    """How many different ones there are, (); objects: any pytree of arrays of numbers, (size, ...)."""
    marks = fingerprints(rows)
    same = (marks[:, None] == marks[None]).all(-1)
    return (~jnp.tril(same, k=-1).any(1)).sum()
