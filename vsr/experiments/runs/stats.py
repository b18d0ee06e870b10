"""What a generation came to: statistics, its best robot and the descent of everyone in it."""

from __future__ import annotations

from dataclasses import dataclass, field

import jax
import numpy as np
from jax import Array

from vsr.experiments.encodings import Genes


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class GenerationStats:
    """What a generation of one seed came to; with a leading axis (seeds,) after `gathered`."""

    best: Array
    """fitness of the best survivor, WORST if all failed"""
    median: Array
    """median fitness of the survivors that did not fail, not a number if all failed"""
    failed: Array
    """how many of the individuals evaluated in this generation failed"""
    failures: Array
    """how many for each of vsr.physics.failure.REASONS, (reasons,)"""
    best_genes: Genes
    """of the best survivor"""
    best_id: Array
    """of the best survivor"""
    id: Array
    """of every individual evaluated in this generation, (n_pop,)"""
    parents: Array
    """their parents' ids, (n_pop, 2)"""
    fitness: Array
    """their fitness, WORST for a failure, (n_pop,)"""
    spread: Array
    """standard deviation of a gene over the survivors, averaged over all genes"""
    bodies: Array
    """how many different bodies the survivors have"""
    figures: dict[str, Array] = field(default_factory=dict)
    """what else the search tells of itself, by name: coverage of archives, volume of fronts"""


def gathered(stats: tuple[GenerationStats, ...]) -> GenerationStats:
    """All seeds' statistics as one on the host, with a leading axis (seeds,)."""
    return jax.tree.map(lambda *leaves: np.stack(leaves), *jax.device_get(stats))
