"""What bodies that evolve inside a grid have in common: materials, masses, first genes, connected parts, mirrors."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import Field, field_validator, model_validator

from vsr.experiments.encodings.base import BodyEncoding, Range, Symbol, uniform
from vsr.experiments.encodings.connectivity import largest_component
from vsr.robot import Group, Material
from vsr.robot.engine_kinds import EngineName, default_masses, impossible
from vsr.robot.kinds import KINDS
from vsr.robot.shape import EMPTY_SYMBOLS, defaults_of, issues, wrong_side
from vsr.spec import Count, Real, Spec, validation_error

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
    """What bodies that evolve inside a grid have in common."""

    grid: tuple[Side, ...] = Field(min_length=2, max_length=3)
    """columns and rows, in 3-D columns, rows and levels, of the enclosing grid"""
    engine: EngineName = "squares"
    """squares that turn, or points; if absent, squares in 2-D and points in 3-D"""
    materials: dict[Symbol, Material] = Field(default=PASSIVE_AND_ACTIVE, min_length=1)
    """what a voxel can be made of; by default the paper's hard (h), soft (s) and two active ones (a, b)"""
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
