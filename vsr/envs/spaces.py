"""Actions and observations: boxes of numbers, as gymnax has them.

They are flat rows of numbers. Cells are in the order in which a body is drawn, the top left one first, row by row.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from vsr.physics.evogym.law import LARGEST_TARGET, SMALLEST_TARGET
from vsr.physics.evogym.springs import control_of_target
from vsr.tasks import NamedTask, Task


@dataclass(frozen=True)
class Box:
    """Arrays of one shape, every number between the same bounds."""

    low: float
    high: float
    shape: tuple[int, ...]
    dtype: jnp.dtype

    def sample(self, key: Array) -> Array:
        """Drawn uniformly."""
        return jax.random.uniform(key, self.shape, self.dtype, self.low, self.high)

    def contains(self, values: Array) -> Array:
        """Whether all numbers are within bounds, ()."""
        return ((values >= self.low) & (values <= self.high)).all()

    def __reduce__(self) -> tuple[Any, ...]:
        return box, (self.low, self.high, self.shape, self.dtype)


def box(low: float, high: float, shape: tuple[int, ...], dtype: jnp.dtype) -> Box:
    """A Box. In a program that has imported gymnax, whose wrappers ask for its own class, it is one of that too."""
    gymnax = sys.modules.get("gymnax.environments.spaces")
    return (Box if gymnax is None else _also(gymnax.Box))(low, high, shape, dtype)


@cache
def _also(theirs: type) -> type[Box]:
    """Box as a class of somebody else's too."""
    return type("Box", (Box, theirs), {"__doc__": Box.__doc__, "__module__": Box.__module__})


def in_drawn_order(values: Array, dimension: int) -> Array:
    """Numbers of cells, the lowest first, (..., *cells), as they are drawn, (..., numbers of all cells)."""
    axes = tuple(range(values.ndim - dimension, values.ndim - 1))
    return jnp.flip(values, axes).reshape(*values.shape[: values.ndim - dimension], -1)


def in_cells(values: Array, cells: tuple[int, ...]) -> Array:
    """What `in_drawn_order` undoes: (numbers of all cells,) -> cells."""
    return jnp.flip(values.reshape(cells), tuple(range(len(cells) - 1)))


def action_space(task: Task, cells: tuple[int, ...], dtype: jnp.dtype) -> Box:
    """A number for every cell: target lengths for EvoGym's tasks, control values for all others."""
    count = 1
    for size in cells:
        count *= size
    low, high = (SMALLEST_TARGET, LARGEST_TARGET) if isinstance(task, NamedTask) else (-1.0, 1.0)
    return box(low, high, (count,), dtype)


def controls_of(task: Task, action: Array, cells: tuple[int, ...]) -> Array:
    """Control values of all voxels, cells; action: (numbers of all cells,).

    A target length over that at rest of 1 is control value 0. Shorter and longer ones go in a straight line to the
    ends: 0.6 shrinks a voxel as far as its material does, and 1.6 enlarges it as far.
    """
    return in_cells(control_of_target(action) if isinstance(task, NamedTask) else action, cells)
