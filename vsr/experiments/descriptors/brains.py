"""Descriptors of controllers. Pure functions of their genes."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

WEAK = 0.2
"""A gene smaller than this, in its absolute value, hardly counts: of weights, a fifth of the first ones' range."""


def connectivity(genes: Array) -> Array:
    """Share of the controller's genes that are not weak, 0 for a controller without genes."""
    return (jnp.abs(genes) > WEAK).mean() if genes.size else jnp.zeros(())


def gene_mean(genes: Array) -> Array:
    """Mean of the controller's genes."""
    return genes.mean() if genes.size else jnp.zeros(())


def gene_deviation(genes: Array) -> Array:
    """Standard deviation of the controller's genes: of phases, how much voxels are out of step."""
    return genes.std() if genes.size else jnp.zeros(())
