"""Archives: the fittest individual of every cell of a space of descriptors (Mouret and Clune 2015).

A grid cuts every axis into equal intervals; a value on a border, or as near below as rounding brings it, belongs to the
upper cell, by the rule of pyribs. A CVT archive (Vassiliades et al. 2018) has as many cells as asked for,
whatever the number of axes: the regions that are nearest to centers spread evenly. Values beyond a range belong to
the outermost cell, as in pyribs. What has a descriptor that is not a number, or failed, enters no cell.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Literal, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import Field, Strict, field_validator

from vsr.evo.population import NO_PARENT, WORST, Population, take
from vsr.evo.settings import Settings
from vsr.evo.variation import where_individuals

MOST_CELLS = 1_000_000
NEARLY = 1e-6
"""pyribs' epsilon: the cell of x is the whole part of (cells (x - low) + epsilon) / (high - low)."""
Number = Annotated[float, Strict()]


class Axis(Settings):
    """One descriptor of an archive."""

    measure: str
    """descriptors that distinguish individuals"""
    range: tuple[Number, Number]
    """the least and the largest that are distinguished"""

    @field_validator("range")
    @classmethod
    def _rising(cls, bounds: tuple[float, float]) -> tuple[float, float]:
        if not bounds[0] < bounds[1]:
            raise ValueError(f"{list(bounds)} given; the smaller must come first")
        return bounds


class GridAxis(Axis):
    """One descriptor of a grid."""

    cells: Annotated[int, Strict(), Field(ge=1, le=100_000)] = 32
    """intervals of equal width"""

    def borders(self, dtype: np.dtype) -> np.ndarray:
        """The least number of a type that belongs to each cell but the first, (cells - 1,).

        Found by bisection of pyribs' rule, which has 64 bits: in 32 bits its sums would round by more than NEARLY.
        """
        low, high = self.range
        number = np.arange(1, self.cells)
        below, least = np.full(number.shape, low), np.full(number.shape, high)
        for _ in range(128):
            middle = below + (least - below) / 2
            reached = (self.cells * (middle - low) + NEARLY) / (high - low) >= number
            below, least = np.where(reached, below, middle), np.where(reached, middle, least)
        near = least.astype(dtype)
        return np.where(near < least, np.nextafter(near, np.inf, dtype=dtype), near)


class GridArchive(Settings):
    """Cells between equally spaced bounds along every axis."""

    type: Literal["grid"] = "grid"
    axes: Annotated[tuple[GridAxis, ...], Field(min_length=1, max_length=8)]
    """descriptors that distinguish individuals; the last changes fastest in the order of cells"""

    @field_validator("axes")
    @classmethod
    def _not_too_many(cls, axes: tuple[GridAxis, ...]) -> tuple[GridAxis, ...]:
        cells = math.prod(axis.cells for axis in axes)
        if cells > MOST_CELLS:
            raise ValueError(f"{cells:.3g} cells in all; at most {MOST_CELLS:.3g}: give axes fewer cells")
        return axes

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells along the axes."""
        return tuple(axis.cells for axis in self.axes)

    @property
    def is_regular(self) -> bool:
        return True

    def centers(self) -> np.ndarray:
        """The middle of every cell, (cells, axes)."""
        return _middles(self.shape, tuple(axis.range for axis in self.axes))

    def place(self, descriptors: Array, centers: Array) -> Array:
        """The cell of each individual; descriptors: (size, axes)."""
        cell = jnp.zeros(len(descriptors), jnp.int32)
        for number, axis in enumerate(self.axes):
            borders = jnp.asarray(axis.borders(descriptors.dtype))
            along = jnp.searchsorted(borders, descriptors[:, number], side="right", method="compare_all")
            cell = cell * axis.cells + along.astype(jnp.int32)
        return cell


class CVTArchive(Settings):
    """Cells around centers that are spread evenly: as many as asked for in any number of dimensions."""

    type: Literal["cvt"] = "cvt"
    axes: Annotated[tuple[Axis, ...], Field(min_length=1, max_length=64)]
    """descriptors that distinguish individuals"""
    cells: Annotated[int, Strict(), Field(ge=2, le=100_000)] = 1024
    """how many"""
    samples: Annotated[int, Strict(), Field(ge=1, le=1000)] = 20
    """random points a cell, among which centers are spread"""
    seed: Annotated[int, Strict(), Field(ge=0, lt=2**32)] = 0
    """of the centers; independent of the seeds of runs, so that all runs have the same cells"""

    @property
    def shape(self) -> tuple[int, ...]:
        """All cells in a row."""
        return (self.cells,)

    @property
    def is_regular(self) -> bool:
        return False

    def centers(self) -> np.ndarray:
        """Of the cells, (cells, axes)."""
        return _spread(self.cells, tuple(axis.range for axis in self.axes), self.samples, self.seed)

    def place(self, descriptors: Array, centers: Array) -> Array:
        """The nearest center of each individual, in units of the ranges; the first among equals."""
        low, high = np.array([axis.range for axis in self.axes], float).T
        width = (high - low).astype(descriptors.dtype)
        clipped = jnp.clip(jnp.nan_to_num(descriptors), low.astype(width.dtype), high.astype(width.dtype))
        point, center = clipped / width, centers.astype(width.dtype) / width
        # Axis by axis: the sum over a short last axis takes five times as long on a processor.
        square = sum((point[:, axis, None] - center[:, axis]) ** 2 for axis in range(len(self.axes)))
        return jnp.argmin(square, 1).astype(jnp.int32)


class Archive(Protocol):
    """How a space of descriptors is cut into cells."""

    @property
    def axes(self) -> Sequence[Axis]:
        """Descriptors that distinguish individuals."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Cells along each of the axes, or of all cells in a row."""
        ...

    @property
    def is_regular(self) -> bool:
        """Whether cells are equal intervals along every axis."""
        ...

    def centers(self) -> np.ndarray:
        """Of the cells, (cells, axes)."""
        ...

    def place(self, descriptors: Array, centers: Array) -> Array:
        """The cell of each individual, (size,); descriptors: (size, axes)."""
        ...


AnyArchive = Annotated[GridArchive | CVTArchive, Field(discriminator="type")]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Elites:
    """Contents of an archive, one slot per cell."""

    members: Population
    """fitness WORST where a cell is empty, (cells,)"""
    descriptors: Array
    """of the members, not a number where a cell is empty, (cells, axes)"""
    centers: Array
    """of the cells, (cells, axes)"""

    @property
    def filled(self) -> Array:
        """True for cells that hold someone, (cells,)."""
        return self.members.fitness > WORST


def nobody(archive: Archive, like: Population) -> Elites:
    """An empty archive for individuals like these."""
    cells = math.prod(archive.shape)
    empty = Population(
        genes=jax.tree.map(lambda leaf: jnp.zeros((cells, *leaf.shape[1:]), leaf.dtype), like.genes),
        fitness=jnp.full(cells, WORST),
        id=jnp.full(cells, NO_PARENT, jnp.int32),
        parents=jnp.full((cells, 2), NO_PARENT, jnp.int32),
        birth=jnp.full(cells, NO_PARENT, jnp.int32),
    )
    centers = jnp.asarray(archive.centers(), jnp.float32)
    return Elites(empty, jnp.full(centers.shape, jnp.nan, jnp.float32), centers)


def insert(archive: Archive, elites: Elites, newcomers: Population, descriptors: Array) -> Elites:
    """The archive after a batch: of each cell the fittest stays or enters.

    Among equals who is there stays, and of the newcomers the first in the batch enters. descriptors: (size, axes).
    """
    size, cells = newcomers.size, len(elites.centers)
    sound = (newcomers.fitness > WORST) & jnp.isfinite(descriptors).all(-1)
    cell = jnp.where(sound, archive.place(descriptors, elites.centers), cells)  # the others: in a cell of no archive
    best = jax.ops.segment_max(newcomers.fitness, cell, cells + 1)[:cells]
    leads = sound & (newcomers.fitness == best[jnp.minimum(cell, cells - 1)])
    first = jax.ops.segment_min(jnp.where(leads, jnp.arange(size), size), cell, cells + 1)[:cells]
    enters = (first < size) & (best > elites.members.fitness)
    winner = jnp.minimum(first, size - 1)
    chosen = where_individuals(enters)
    return Elites(
        members=jax.tree.map(chosen, take(newcomers, winner), elites.members),
        descriptors=chosen(descriptors[winner].astype(elites.descriptors.dtype), elites.descriptors),
        centers=elites.centers,
    )


ARCHIVE_METRICS = {
    "coverage": "Coverage: filled cells over all.",
    "qd_score": "QD score: fitness above the offset, summed over filled cells.",
    "mean": "Mean fitness of the elites.",
}
"""What `archive_figures` gives, for readers."""


def archive_metrics(elites: Elites, offset: float) -> dict[str, Array]:
    """Numbers as pyribs defines them.

    coverage: filled cells over all; qd_score: sum over filled cells of fitness above the offset; mean: of filled cells.
    """
    filled, fitness = elites.filled, elites.members.fitness
    count = filled.sum()
    above = jnp.where(filled, fitness - offset, 0)
    return {
        "coverage": count / filled.size,
        "qd_score": above.sum(),
        "mean": jnp.where(count > 0, above.sum() / jnp.maximum(count, 1) + offset, jnp.nan),
    }


def _middles(shape: tuple[int, ...], ranges: tuple[tuple[float, float], ...]) -> np.ndarray:
    along = [
        low + (high - low) * (np.arange(cells) + 0.5) / cells for cells, (low, high) in zip(shape, ranges, strict=True)
    ]
    return np.stack([axis.ravel() for axis in np.meshgrid(*along, indexing="ij")], -1)


@lru_cache(maxsize=8)
def _spread(cells: int, ranges: tuple[tuple[float, float], ...], samples: int, seed: int) -> np.ndarray:
    """Centers of random points' clusters in the box of the ranges, (cells, axes)."""
    from scipy.cluster.vq import kmeans2  # takes a quarter of a second to load, and few need it

    random = np.random.default_rng(seed)
    points = random.random((samples * cells, len(ranges)))
    centers, _ = kmeans2(points, points[:cells], minit="matrix", iter=20, missing="warn")
    low, high = np.array(ranges, float).T
    return low + centers * (high - low)
