"""Bodies from genes: one fixed body, a mixture of Gaussians per material, a direct grid of materials."""

from __future__ import annotations

import math
from typing import Annotated, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import Field, model_validator

from vsr.experiments.encodings.base import BodyEncoding, Range
from vsr.experiments.encodings.connectivity import grown, strongest
from vsr.experiments.encodings.evolved import EvolvedBody
from vsr.physics.engine import ENGINES
from vsr.robot import Body
from vsr.robot.shape import leaks
from vsr.spec import Count, Real, validation_error


class FixedBody(Body, BodyEncoding):
    """One body for all; nothing of it evolves."""

    type: Literal["fixed"] = "fixed"

    @model_validator(mode="after")
    def _closed(self) -> FixedBody:
        if open_chamber := leaks(self):
            raise validation_error([(("shape",), open_chamber)])
        return self

    @property
    def possible(self) -> np.ndarray:
        return self.present

    @property
    def layers(self) -> int:
        return ENGINES[self.engine].layers_needed(self.present)

    @property
    def gene_count(self) -> int:
        return 0

    def sample(self, key: Array, count: int) -> Array:
        return jnp.zeros((count, 0))

    def decode(self, genes: Array) -> Array:
        return jnp.asarray(self.cells)

    def describe(self, genes: np.ndarray) -> Body:
        return Body(**{name: getattr(self, name) for name in Body.model_fields})


class GaussianMixture(EvolvedBody):
    """Each material's strength is a sum of Gaussians over the grid; the strongest above a threshold fills a cell.

    Per Gaussian a gene for every coordinate of its center, one for its standard deviation and one for its weight; the
    grid reaches from 0 to 1 along each axis:

        strength(x) = sum of w / (σ sqrt(2π)) exp(-d² / (2σ²)),   d² = sum over axes of (x / size - µ)².

    A Gaussian whose σ is not positive adds nothing. Of the filled cells the largest part connected by sides is the
    body.
    """

    type: Literal["gaussian_mixture"] = "gaussian_mixture"
    gaussians: Annotated[Count, Field(ge=1, le=1000)] = 5
    """Gaussians per material"""
    threshold: Real = 1.0
    """least strength that fills a cell"""

    @property
    def gene_count(self) -> int:
        return len(self.materials) * self.gaussians * (self.dimension + 2)

    def kinds(self, genes: Array) -> Array:
        axes = self.dimension
        mixture = genes.reshape(len(self.materials), self.gaussians, axes + 2, *(1,) * axes)
        *center, sigma, weight = (mixture[:, :, i] for i in range(axes + 2))
        positive = sigma > 0
        spread = jnp.where(positive, sigma, 1)
        squared = sum((self._places(axis, genes.dtype) - center[axis]) ** 2 for axis in range(axes))
        strength = weight / (spread * jnp.sqrt(2 * jnp.pi)) * jnp.exp(-squared / (2 * spread**2))
        return strongest(jnp.where(positive, strength, 0).sum(1), self.threshold)

    def _places(self, axis: int, dtype: jnp.dtype) -> Array:
        """Where cells lie along x, y or z in the unit cube, shaped to go with arrays of cells."""
        count = self.grown[::-1][axis]
        return (jnp.arange(count, dtype=dtype) / self.grid[axis]).reshape(count, *(1,) * axis)


class MaterialGrid(EvolvedBody):
    """One gene per cell and material; the largest above a threshold fills the cell.

    Of the filled cells the largest part connected by sides is the body. Or bodies have a given number of voxels: the
    cell with the largest gene, then again and again the one with the largest among those that touch the body.
    """

    type: Literal["material_grid"] = "material_grid"
    threshold: Real = 0.7
    """least gene that fills a cell"""
    voxels: Annotated[Count, Field(ge=1, le=1_000_000)] | None = None
    """how many every body has, whatever the threshold; null for as many as there are above it"""

    @model_validator(mode="after")
    def _enough_cells(self) -> MaterialGrid:
        if self.voxels is not None and self.voxels > self.possible.size:
            raise validation_error([(("voxels",), f"{self.voxels} given; the grid has {self.possible.size} cells")])
        if self.voxels is not None and self.mirrored is not None:
            raise validation_error(
                [(("voxels",), "bodies that are mirrored have no given number of voxels: leave one of both out")]
            )
        return self

    @property
    def gene_count(self) -> int:
        return len(self.materials) * math.prod(self.grown)

    def kinds(self, genes: Array) -> Array:
        scores = genes.reshape(len(self.materials), *self.grown)
        return strongest(scores, self.threshold) if self.voxels is None else grown(scores, self.voxels)


class VoxelKinds(EvolvedBody):
    """One gene per cell: 0 for an empty cell, else the number of a material, drawn with weights, as EvoGym does.

    Of the filled cells the largest part connected by sides is the body; searches that ask are told to try only bodies
    that hang together as they are and have a voxel that is driven.
    """

    type: Literal["voxel_kinds"] = "voxel_kinds"
    of_kinds: ClassVar[bool] = True
    empty: Annotated[Real, Field(gt=0)] = 0.6
    """weight of an empty cell"""
    filled: Annotated[Real, Field(gt=0)] = 0.2
    """weight of every material"""
    initial: Range = (0.0, 1.0)
    """without meaning here: first bodies are drawn with the weights"""

    @property
    def gene_count(self) -> int:
        return math.prod(self.grown)

    def sample(self, key: Array, count: int) -> Array:
        weight = jnp.log(jnp.array([self.empty, *[self.filled] * len(self.materials)]))
        drawn = jax.random.categorical(key, weight, shape=(count * self.gene_count,))
        return drawn.reshape(count, self.gene_count).astype(float)

    def kinds(self, genes: Array) -> Array:
        """Materials as genes say, -1 for empty cells; genes between two numbers are the nearer, NaN is none."""
        kind = jnp.clip(jnp.round(jnp.nan_to_num(genes)), 0, len(self.materials))
        return kind.astype(jnp.int32).reshape(self.grown) - 1

    def accepts(self, genes: Array) -> Array:
        cells, body = self.whole(genes), self.decode(genes)
        driven = np.array([material.actuation != "none" for material in self.materials.values()] + [False])
        return (cells == body).all() & jnp.asarray(driven)[body].any()
