"""The body as a researcher draws it: rows of symbols, top row first, one material per symbol."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import Field, field_validator, model_validator

from vsr.body.material import Material
from vsr.spec import Real, Spec

EMPTY_SYMBOLS = ". "


class Body(Spec):
    """A grid of voxels.

    shape: rows of symbols, the top row first, as they look; '.' is an empty cell.
    """

    shape: tuple[str, ...]
    """rows of material symbols, top row first; '.' is empty"""
    materials: dict[Annotated[str, Field(min_length=1, max_length=1)], Material] = Field(
        default_factory=lambda: {"a": Material()}
    )
    """the material behind each symbol"""
    voxel_side: Annotated[Real, Field(gt=0)] = 3.0
    """side length of every voxel at rest [m]"""

    @field_validator("shape", mode="before", json_schema_input_type=tuple[str, ...] | str)
    @classmethod
    def _read_drawing(cls, value: Any) -> Any:
        if isinstance(value, str):
            value = value.strip("\n").split("\n")
        if isinstance(value, list | tuple) and value and all(isinstance(row, str) for row in value):
            width = max(len(row) for row in value)
            return tuple(row.ljust(width).replace(" ", ".") for row in value)
        return value

    @model_validator(mode="after")
    def _symbols_known(self) -> Body:
        if set(self.materials) & set(EMPTY_SYMBOLS):
            raise ValueError("'.' and ' ' mean an empty cell and cannot stand for a material")
        used = sorted({symbol for row in self.shape for symbol in row} - set(EMPTY_SYMBOLS))
        if not used:
            raise ValueError("the shape has no voxel")
        unknown = [symbol for symbol in used if symbol not in self.materials]
        if unknown:
            raise ValueError(
                f"the shape uses {', '.join(map(repr, unknown))} but the materials are "
                f"{', '.join(map(repr, self.materials))}"
            )
        return self

    @property
    def cells(self) -> np.ndarray:
        """Material index of every cell, -1 where empty, (rows, columns), BOTTOM row first."""
        symbols = list(self.materials)
        rows = [[symbols.index(s) if s in self.materials else -1 for s in row] for row in reversed(self.shape)]
        return np.array(rows, dtype=np.int32)

    @property
    def present(self) -> np.ndarray:
        """True where there is a voxel, (rows, columns), bottom row first."""
        return self.cells >= 0
