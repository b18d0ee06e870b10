"""Bodies from genes: one fixed body, a mixture of Gaussians per material, a direct grid of materials."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Annotated, Any, ClassVar, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import Field, field_validator, model_validator

from vsr.compute.grid import label_components
from vsr.experiments.encodings.base import BodyEncoding, Range, Symbol, uniform
from vsr.physics.engine import ENGINES
from vsr.robot import Body, Group, Material
from vsr.robot.engine_kinds import EngineName, default_masses, impossible
from vsr.robot.kinds import KINDS
from vsr.robot.shape import EMPTY_SYMBOLS, defaults_of, issues, leaks, wrong_side
from vsr.spec import Count, Real, Spec, validation_error


def largest_component(present: Array, through: np.ndarray | None = None) -> Array:
    """True in the largest set of cells that is connected by sides (in 3-D: by faces), of any number of axes.

    Among sets of equal size the one with the first cell (row by row from the first, then by column) is taken.
    present: True where there is a voxel; through: cells of which it must have at least one, if that is asked for.
    """
    nobody = present.size
    label = label_components(jnp.where(present, 0, -1))
    size = jnp.zeros(nobody + 1, jnp.int32).at[label.ravel()].add(1).at[nobody].set(0)
    if through is not None:
        reached = jnp.zeros(nobody + 1, bool).at[label.ravel()].max(jnp.asarray(through).ravel())
        size = jnp.where(reached, size, 0)
    return present & (label == jnp.argmax(size)) & (size.max() > 0)


def strongest(scores: Array, threshold: float) -> Array:
    """Each cell's material: the one with the largest score if that is above the threshold, else -1 (empty).

    scores: (materials, *cells); a score that is not a number never wins. Returns (*cells,).
    """
    known = jnp.where(jnp.isnan(scores), -jnp.inf, scores)
    return jnp.where(known.max(0) > threshold, jnp.argmax(known, axis=0), -1).astype(jnp.int32)


def grown(scores: Array, count: int) -> Array:
    """Each cell's material: `count` cells, from the one with the largest score on always the best that touches them.

    All others are empty, -1. scores: (materials, *cells); one that is not a number is worse than any other. Among
    equals the first is taken. Returns (*cells,).
    """
    lowest = float(jnp.finfo(scores.dtype).min)
    known = jnp.nan_to_num(scores, nan=lowest, neginf=lowest)
    best = known.max(0)

    def grow(_: Array, body: Array) -> Array:
        near = _neighbors(body) & ~body
        return body.at[jnp.unravel_index(jnp.argmax(jnp.where(near, best, -jnp.inf)), best.shape)].set(True)

    first = jnp.zeros(best.shape, bool).at[jnp.unravel_index(jnp.argmax(best), best.shape)].set(True)
    body = jax.lax.fori_loop(1, min(count, math.prod(best.shape)), grow, first)
    return jnp.where(body, jnp.argmax(known, axis=0), -1).astype(jnp.int32)


def _neighbors(body: Array) -> Array:
    """Cells that share a side with the body."""
    found = jnp.zeros_like(body)
    for axis in range(body.ndim):
        padded = jnp.pad(jnp.moveaxis(body, axis, 0), [(1, 1)] + [(0, 0)] * (body.ndim - 1))
        found = found | jnp.moveaxis(padded[:-2] | padded[2:], 0, axis)
    return found


def in_the_corner(cells: Array) -> Array:
    """The same body moved as far as it can be towards the first cell; cells: negative where empty, of any number of
    axes."""
    present = cells >= 0
    for axis in range(cells.ndim):
        others = tuple(other for other in range(cells.ndim) if other != axis)
        cells = jnp.roll(cells, -jnp.argmax(present.any(others)), axis)
    return cells


Axis = Literal["x", "y", "z"]
AXES: tuple[Axis, ...] = ("x", "y", "z")
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


class EvolvedBody(Spec, BodyEncoding):
    """Shared parts of bodies that evolve inside a grid."""

    grid: tuple[Side, ...] = Field(min_length=2, max_length=3)
    """columns and rows, in 3-D columns, rows and levels, of the enclosing grid"""
    engine: EngineName = "squares"
    """squares that turn, or points; if absent, squares in 2-D and points in 3-D"""
    materials: dict[Symbol, Material] = Field(default=PASSIVE_AND_ACTIVE, min_length=1)
    """materials of voxels; by default the paper's hard (h), soft (s) and two active ones (a, b)"""
    voxel_side: Annotated[Real, Field(gt=0)] = 3.0
    """side length of every voxel at rest [m]"""
    initial: Range = (0.0, 1.0)
    """range of the first population's genes"""
    mirrored: Axis | None = None
    """axis along which the body is its own mirror image, with genes for one half alone; null for none"""

    @model_validator(mode="before")
    @classmethod
    def _default_masses(cls, data: Any) -> Any:
        if not isinstance(data, dict):
            return data
        grid = data.get("grid")
        default = default_masses(len(grid) if isinstance(grid, list | tuple) and len(grid) == 3 else 2)
        engine = data.get("engine", default)
        known = isinstance(engine, str) and engine in PAPER_MATERIALS
        default_materials = {"materials": PAPER_MATERIALS[engine]} if known else {}
        return {"engine": engine, **defaults_of(engine), **default_materials, **data}

    @field_validator("materials")
    @classmethod
    def _symbols_usable(cls, materials: dict[str, Material]) -> dict[str, Material]:
        if set(materials) & set(EMPTY_SYMBOLS):
            raise ValueError("'.' and ' ' mean an empty cell and cannot stand for a material")
        return materials

    @model_validator(mode="after")
    def _fits(self) -> EvolvedBody:
        if text := impossible(self.engine, len(self.grid)):
            raise ValueError(text)
        wrong = [*issues(self.materials, self.engine, len(self.grid)), *wrong_side(self.engine, self.voxel_side)]
        if self.mirrored is not None and AXES.index(self.mirrored) >= len(self.grid):
            wrong.append((("mirrored",), f"'{self.mirrored}' given; a grid of two axes has x and y"))
        if wrong:
            raise validation_error(wrong)
        return self

    @property
    def possible(self) -> np.ndarray:
        return np.ones(self.grid[::-1], bool)

    def sample(self, key: Array, count: int) -> Array:
        return uniform(key, count, self.gene_count, self.initial)

    @property
    def grown(self) -> tuple[int, ...]:
        """Shape of the cells that genes fill, as `possible`: if it is mirrored the lower half, the middle included."""
        sizes = list(self.grid)
        if self.mirrored is not None:
            axis = AXES.index(self.mirrored)
            sizes[axis] = math.ceil(sizes[axis] / 2)
        return tuple(sizes[::-1])

    @abstractmethod
    def kinds(self, genes: Array) -> Array:
        """Material index of the cells that genes fill, negative where empty, connected or not, `grown`. Pure."""

    def whole(self, genes: Array) -> Array:
        """The same of all cells."""
        cells = self.kinds(genes)
        if self.mirrored is None:
            return cells
        axis, odd = AXES.index(self.mirrored), self.grid[AXES.index(self.mirrored)] % 2
        across = cells.ndim - 1 - axis
        other = jnp.flip(cells, across)
        return jnp.concatenate([cells, jax.lax.slice_in_dim(other, odd, None, axis=across)], across)

    def decode(self, genes: Array) -> Array:
        cells = self.whole(genes)
        return jnp.where(largest_component(cells >= 0, self._middle()), cells, -1)

    def _middle(self) -> np.ndarray | None:
        """Cells next to the plane of the mirror. Of parts that do not reach it there are two, neither of which is a
        mirrored body."""
        if self.mirrored is None:
            return None
        axis = AXES.index(self.mirrored)
        size, middle = self.grid[axis], np.zeros(self.grid[::-1], bool)
        place: list[Any] = [slice(None)] * middle.ndim
        place[middle.ndim - 1 - axis] = slice((size - 1) // 2, size // 2 + 1)
        middle[tuple(place)] = True
        return middle


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

    Of the filled cells the largest part connected by sides is the body; searches that ask try only bodies
    that are connected and have a voxel that is driven.
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
        """Materials by genes, -1 for empty cells; genes between two numbers are the nearer, NaN is none."""
        kind = jnp.clip(jnp.round(jnp.nan_to_num(genes)), 0, len(self.materials))
        return kind.astype(jnp.int32).reshape(self.grown) - 1

    def accepts(self, genes: Array) -> Array:
        cells, body = self.whole(genes), self.decode(genes)
        driven = np.array([material.actuation != "none" for material in self.materials.values()] + [False])
        return (cells == body).all() & jnp.asarray(driven)[body].any()
