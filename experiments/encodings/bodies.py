"""Bodies from genes: one fixed body, a mixture of Gaussians per material, a direct grid of materials."""

from __future__ import annotations

from typing import Annotated, Literal

import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import Field, field_validator

from experiments.encodings.base import BodyEncoding, Range, Symbol, uniform
from experiments.encodings.connectivity import strongest_material
from vsr.body import Body, Group, Material, layers_needed
from vsr.body.shape import EMPTY_SYMBOLS
from vsr.spec import Count, Real, Spec

Side = Annotated[Count, Field(ge=1, le=100)]

PASSIVE_AND_ACTIVE = {
    "h": Material(spring_frequency=25.0),
    "s": Material(spring_frequency=5.0, scaffolding=(Group.side_external, Group.central_cross)),
    "a": Material(),
    "b": Material(),
}
"""The paper's four: hard, soft, and two that are driven apart by the controller (paper 004, section 3.1)."""


class FixedBody(Body, BodyEncoding):
    """One body for all; nothing of it evolves."""

    type: Literal["fixed"] = "fixed"

    @property
    def possible(self) -> np.ndarray:
        return self.present

    @property
    def layers(self) -> int:
        return layers_needed(self.present)

    @property
    def gene_count(self) -> int:
        return 0

    def sample(self, key: Array, count: int) -> Array:
        return jnp.zeros((count, 0))

    def decode(self, genes: Array) -> Array:
        return jnp.asarray(self.cells)

    def describe(self, genes: np.ndarray) -> Body:
        return Body(shape=self.shape, materials=self.materials, voxel_side=self.voxel_side)


class _EvolvedBody(Spec, BodyEncoding):
    """What bodies that evolve inside a grid have in common."""

    grid: tuple[Side, Side]
    """columns and rows of the enclosing grid"""
    materials: dict[Symbol, Material] = Field(default=PASSIVE_AND_ACTIVE, min_length=1)
    """what a voxel can be made of; by default the paper's hard (h), soft (s) and two active ones (a, b)"""
    voxel_side: Annotated[Real, Field(gt=0)] = 3.0
    """side length of every voxel at rest [m]"""
    initial: Range = (0.0, 1.0)
    """range of the first population's genes"""

    @field_validator("materials")
    @classmethod
    def _symbols_usable(cls, materials: dict[str, Material]) -> dict[str, Material]:
        if set(materials) & set(EMPTY_SYMBOLS):
            raise ValueError("'.' and ' ' mean an empty cell and cannot stand for a material")
        return materials

    @property
    def possible(self) -> np.ndarray:
        return np.ones(self.grid[::-1], bool)

    def sample(self, key: Array, count: int) -> Array:
        return uniform(key, count, self.gene_count, self.initial)


class GaussianMixture(_EvolvedBody):
    """Each material's strength is a sum of Gaussians over the grid; the strongest above a threshold fills a cell.

    Four genes per Gaussian: centre x and y, standard deviation, weight, where the grid reaches from 0 to 1:

        strength(x, y) = sum of w / (σ sqrt(2π)) exp(-d² / (2σ²)),   d² = (x/columns - µx)² + (y/rows - µy)².

    A Gaussian whose σ is not positive adds nothing. Of the filled cells the largest side-connected part is the body.
    """

    type: Literal["gaussian_mixture"] = "gaussian_mixture"
    gaussians: Annotated[Count, Field(ge=1, le=1000)] = 5
    """Gaussians per material"""
    threshold: Real = 1.0
    """least strength that fills a cell"""

    @property
    def gene_count(self) -> int:
        return len(self.materials) * self.gaussians * 4

    def decode(self, genes: Array) -> Array:
        mixture = genes.reshape(len(self.materials), self.gaussians, 4, 1, 1)
        center_x, center_y, sigma, weight = (mixture[:, :, i] for i in range(4))
        columns, rows = self.grid
        x = jnp.arange(columns, dtype=genes.dtype) / columns
        y = jnp.arange(rows, dtype=genes.dtype)[:, None] / rows
        positive = sigma > 0
        spread = jnp.where(positive, sigma, 1)
        squared = (x - center_x) ** 2 + (y - center_y) ** 2
        strength = weight / (spread * jnp.sqrt(2 * jnp.pi)) * jnp.exp(-squared / (2 * spread**2))
        return strongest_material(jnp.where(positive, strength, 0).sum(1), self.threshold)


class MaterialGrid(_EvolvedBody):
    """One gene per cell and material; the largest above a threshold fills the cell.

    Of the filled cells the largest side-connected part is the body.
    """

    type: Literal["material_grid"] = "material_grid"
    threshold: Real = 0.7
    """least gene that fills a cell"""

    @property
    def gene_count(self) -> int:
        return len(self.materials) * self.possible.size

    def decode(self, genes: Array) -> Array:
        return strongest_material(genes.reshape(len(self.materials), *self.possible.shape), self.threshold)
