"""Bodies from genes: one fixed body, a mixture of Gaussians per material, a direct grid of materials."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import Field, field_validator, model_validator

from vsr.body import Body, Group, Material
from vsr.body.kinds import KINDS
from vsr.body.masses import Masses, impossible, usual_masses
from vsr.body.shape import EMPTY_SYMBOLS, leaks, misfits, usual_of, wrong_side
from vsr.experiments.encodings.base import BodyEncoding, Range, Symbol, uniform
from vsr.experiments.encodings.connectivity import grown, largest_component, strongest_material
from vsr.physics.engine import ENGINES
from vsr.spec import Count, Real, Spec, misfit

Side = Annotated[Count, Field(ge=1, le=100)]

PASSIVE_AND_ACTIVE = {
    "h": Material(spring_frequency=25.0),
    "s": Material(spring_frequency=5.0, scaffolding=(Group.side_external, Group.central_cross)),
    "a": Material(),
    "b": Material(),
}
"""The paper's four: hard, soft, and two that are driven apart by the controller (paper 004, section 3.1)."""
OF_POINTS = {**PASSIVE_AND_ACTIVE, "s": Material(spring_frequency=5.0, scaffolding=(Group.edges, Group.face_diagonals))}
"""The same four with springs between points."""
PAPER_MATERIALS: dict[Any, dict[str, Material]] = {
    "squares": PASSIVE_AND_ACTIVE,
    "points": OF_POINTS,
    "evogym": KINDS["evogym"],
}


class FixedBody(Body, BodyEncoding):
    """One body for all; nothing of it evolves."""

    type: Literal["fixed"] = "fixed"

    @model_validator(mode="after")
    def _closed(self) -> FixedBody:
        if open_chamber := leaks(self):
            raise misfit([(("shape",), open_chamber)])
        return self

    @property
    def possible(self) -> np.ndarray:
        return self.present

    @property
    def layers(self) -> int:
        return ENGINES[self.masses].layers_needed(self.present)

    @property
    def gene_count(self) -> int:
        return 0

    def sample(self, key: Array, count: int) -> Array:
        return jnp.zeros((count, 0))

    def decode(self, genes: Array) -> Array:
        return jnp.asarray(self.cells)

    def describe(self, genes: np.ndarray) -> Body:
        return Body(**{name: getattr(self, name) for name in Body.model_fields})


class _EvolvedBody(Spec, BodyEncoding):
    """What bodies that evolve inside a grid have in common."""

    grid: tuple[Side, ...] = Field(min_length=2, max_length=3)
    """columns and rows, in 3-D columns, rows and levels, of the enclosing grid"""
    masses: Masses = "squares"
    """squares that turn, or points; if absent, squares in 2-D and points in 3-D"""
    materials: dict[Symbol, Material] = Field(default=PASSIVE_AND_ACTIVE, min_length=1)
    """what a voxel can be made of; by default the paper's hard (h), soft (s) and two active ones (a, b)"""
    voxel_side: Annotated[Real, Field(gt=0)] = 3.0
    """side length of every voxel at rest [m]"""
    initial: Range = (0.0, 1.0)
    """range of the first population's genes"""

    @model_validator(mode="before")
    @classmethod
    def _usual_masses(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        grid = data.get("grid")
        usual = usual_masses(len(grid) if isinstance(grid, list | tuple) and len(grid) == 3 else 2)
        masses = data.get("masses", usual)
        known = isinstance(masses, str) and masses in PAPER_MATERIALS
        usual_materials = {"materials": PAPER_MATERIALS[masses]} if known else {}
        return {"masses": masses, **usual_of(masses), **usual_materials, **data}

    @field_validator("materials")
    @classmethod
    def _symbols_usable(cls, materials: dict[str, Material]) -> dict[str, Material]:
        if set(materials) & set(EMPTY_SYMBOLS):
            raise ValueError("'.' and ' ' mean an empty cell and cannot stand for a material")
        return materials

    @model_validator(mode="after")
    def _fits(self) -> _EvolvedBody:
        if text := impossible(self.masses, len(self.grid)):
            raise ValueError(text)
        wrong = [*misfits(self.materials, self.masses, len(self.grid)), *wrong_side(self.masses, self.voxel_side)]
        if wrong:
            raise misfit(wrong)
        return self

    @property
    def possible(self) -> np.ndarray:
        return np.ones(self.grid[::-1], bool)

    def sample(self, key: Array, count: int) -> Array:
        return uniform(key, count, self.gene_count, self.initial)


class GaussianMixture(_EvolvedBody):
    """Each material's strength is a sum of Gaussians over the grid; the strongest above a threshold fills a cell.

    Per Gaussian a gene for every coordinate of its centre, one for its standard deviation and one for its weight; the
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

    def decode(self, genes: Array) -> Array:
        axes = self.dimension
        mixture = genes.reshape(len(self.materials), self.gaussians, axes + 2, *(1,) * axes)
        *center, sigma, weight = (mixture[:, :, i] for i in range(axes + 2))
        positive = sigma > 0
        spread = jnp.where(positive, sigma, 1)
        squared = sum((self._places(axis, genes.dtype) - center[axis]) ** 2 for axis in range(axes))
        strength = weight / (spread * jnp.sqrt(2 * jnp.pi)) * jnp.exp(-squared / (2 * spread**2))
        return strongest_material(jnp.where(positive, strength, 0).sum(1), self.threshold)

    def _places(self, axis: int, dtype: jnp.dtype) -> Array:
        """Where cells lie along x, y or z in the unit cube, shaped to go with arrays of cells."""
        size = self.grid[axis]
        return (jnp.arange(size, dtype=dtype) / size).reshape(size, *(1,) * axis)


class MaterialGrid(_EvolvedBody):
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
            raise misfit([(("voxels",), f"{self.voxels} given; the grid has {self.possible.size} cells")])
        return self

    @property
    def gene_count(self) -> int:
        return len(self.materials) * self.possible.size

    def decode(self, genes: Array) -> Array:
        scores = genes.reshape(len(self.materials), *self.possible.shape)
        return strongest_material(scores, self.threshold) if self.voxels is None else grown(scores, self.voxels)


class VoxelKinds(_EvolvedBody):
    """One gene per cell: 0 for an empty cell, else the number of a material, drawn with weights, as EvoGym does.

    Of the filled cells the largest part connected by sides is the body; searches that ask are told to try only bodies
    that hang together as they are and have a voxel that is driven.
    """

    type: Literal["voxel_kinds"] = "voxel_kinds"
    empty: Annotated[Real, Field(gt=0)] = 0.6
    """weight of an empty cell"""
    filled: Annotated[Real, Field(gt=0)] = 0.2
    """weight of every material"""
    initial: Range = (0.0, 1.0)
    """without meaning here: first bodies are drawn with the weights"""

    @property
    def gene_count(self) -> int:
        return self.possible.size

    def sample(self, key: Array, count: int) -> Array:
        weight = jnp.log(jnp.array([self.empty, *[self.filled] * len(self.materials)]))
        drawn = jax.random.categorical(key, weight, shape=(count * self.gene_count,))
        return drawn.reshape(count, self.gene_count).astype(float)

    def _cells(self, genes: Array) -> Array:
        """Materials as genes say, -1 for empty cells; genes between two numbers are the nearer, NaN is none."""
        kind = jnp.clip(jnp.round(jnp.nan_to_num(genes)), 0, len(self.materials))
        return kind.astype(jnp.int32).reshape(self.possible.shape) - 1

    def decode(self, genes: Array) -> Array:
        cells = self._cells(genes)
        return jnp.where(largest_component(cells >= 0), cells, -1)

    def accepts(self, genes: Array) -> Array:
        cells, body = self._cells(genes), self.decode(genes)
        driven = np.array([material.actuation != "none" for material in self.materials.values()] + [False])
        return (cells == body).all() & jnp.asarray(driven)[body].any()
