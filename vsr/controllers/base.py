"""What a controller is, described and as arrays.

A described controller (a Spec) is built for a body into a frozen pytree that rollout calls once per control interval.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Annotated, Any, Protocol

import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from vsr.body import Body
from vsr.sensors import Sense
from vsr.spec import Real, Spec


class Controller(Protocol):
    """A controller as arrays: pure, jit- and vmap-able."""

    @property
    def senses(self) -> tuple[Sense, ...]:
        """Readings wanted at every call (static)."""
        ...

    @property
    def legacy_angle(self) -> bool:
        """Whether readings have the original's wrong angle (static)."""
        ...

    def control(self, time: Array, readings: Array | None) -> Array:
        """Control values at a time [s], (rows, columns); readings: (senses, rows, columns)."""
        ...


class ControllerSpec(Spec):
    """A described controller."""

    @abstractmethod
    def build(self, body: Body, dtype: jnp.dtype | type = jnp.float32) -> Controller:
        """The array form for a body that `check` accepts."""

    def check(self, body: Body) -> list[tuple[tuple[str, ...], str]]:
        """What does not fit the body: where (path inside the controller) and why."""
        return []


def _read_grid(value: Any) -> Any:
    """Refuse what is neither a number nor rows of numbers with one message, not one per alternative."""

    def is_number(item: Any) -> bool:
        return isinstance(item, int | float) and not isinstance(item, bool) and math.isfinite(item)

    def is_row(item: Any) -> bool:
        return isinstance(item, list | tuple) and all(cell is None or is_number(cell) for cell in item)

    if is_number(value) or (isinstance(value, list | tuple) and value and all(map(is_row, value))):
        return value
    raise PydanticCustomError("grid", "Input should be a finite number, or rows of them as the shape is drawn")


PerVoxel = Annotated[Real | tuple[tuple[Real | None, ...], ...], BeforeValidator(_read_grid)]
"""One number for all voxels, or rows of numbers as the shape is drawn (top row first; anything in empty cells)."""


def check_grid(name: str, value: PerVoxel, body: Body) -> list[tuple[tuple[str, ...], str]]:
    """Complaints about a PerVoxel value that does not fit the body."""
    if not isinstance(value, tuple):
        return []
    rows, columns = body.cells.shape
    if len(value) != rows or any(len(row) != columns for row in value):
        given = f"{len(value)} rows of {', '.join(map(str, sorted({len(row) for row in value})))}"
        return [((name,), f"{given} values given; the body has {rows} rows of {columns}")]
    missing = [
        (column, row)
        for row in range(rows)
        for column in range(columns)
        if body.present[row, column] and value[rows - 1 - row][column] is None
    ]
    return [((name,), f"no value for the voxel in column {c}, row {r} (from the bottom)") for c, r in missing]


def grid_array(value: PerVoxel, body: Body, dtype: Any) -> Array:
    """The array of a PerVoxel value, (rows, columns), bottom row first."""
    if not isinstance(value, tuple):
        return jnp.full(body.cells.shape, value, dtype)
    rows = [[0.0 if cell is None else cell for cell in row] for row in reversed(value)]
    return jnp.asarray(np.array(rows), dtype)


def misfit(complaints: list[tuple[tuple[str, ...], str]]) -> PydanticCustomError:
    """One error that carries every complaint about a controller and its body."""
    text = "; ".join(f"{'.'.join(path)}: {reason}" for path, reason in complaints)
    return PydanticCustomError("misfit", "{text}", {"text": text, "complaints": complaints})
