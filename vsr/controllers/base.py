"""Controllers, as descriptions and as arrays.

A described controller (a Spec) is built for a body into a frozen pytree that rollout calls once per control interval.
Most are functions of time and readings. Some keep a memory from call to call, which rollout carries through an episode.

Two parts that several controllers share are here: the clock, a sinusoid of the time as one more input of a network, and
the values that voxels get from their neighbors.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Annotated, Any, Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from vsr.robot import Body
from vsr.sensors import Sensor
from vsr.spec import Real, Spec


class Reflexive(Protocol):
    """A controller as arrays that remembers nothing: pure, jit- and vmap-able."""

    @property
    def sensors(self) -> tuple[Sensor, ...]:
        """Readings needed at every call (static)."""
        ...

    def control(self, time: Array, readings: Array | None) -> Array:
        """Control values at a time [s], one per cell; readings: (sensors, *cells), or what the task shows."""
        ...


class Remembering(Protocol):
    """A controller as arrays with a memory of its own: pure, jit- and vmap-able."""

    @property
    def sensors(self) -> tuple[Sensor, ...]:
        """Readings needed at every call (static)."""
        ...

    def first_memory(self) -> Any:
        """The memory before the first call, any pytree; None if there is nothing to remember."""
        ...

    def decide(self, memory: Any, time: Array, readings: Array | None) -> tuple[Array, Any]:
        """Control values at a time [s], one per cell, and the memory for the next call; readings: (sensors, *cells)."""
        ...


Controller = Reflexive | Remembering
"""What `rollout` and `record` take."""


def first_memory(controller: Controller) -> Any:
    """What a controller remembers before its first call; None if it never remembers anything."""
    begin = getattr(controller, "first_memory", None)
    return None if begin is None else begin()


def decide(controller: Controller, memory: Any, time: Array, readings: Array | None) -> tuple[Array, Any]:
    """Control values of any controller at a call, *cells, and its memory after it."""
    act = getattr(controller, "decide", None)
    return (controller.control(time, readings), memory) if act is None else act(memory, time, readings)  # pyright: ignore[reportAttributeAccessIssue]


def rate_limit(controller: Controller) -> Array | None:
    """How fast control values can change [1/s], (). A controller may have a limit, and need not name one."""
    return getattr(controller, "rate_limit", None)


def is_policy(controller: Controller) -> bool:
    """Whether a controller decides at the start of an episode too, as a learner in an environment does."""
    return getattr(controller, "is_policy", False)


def observes_task(controller: Controller) -> bool:
    """Whether a controller reads what the task shows (vsr.episode.observe_task), (numbers,), instead of sensors."""
    return getattr(controller, "observes_task", False)


def knows_time_alone(controller: Controller) -> bool:
    """Whether control values are a function of time, so that those of many calls can be made at once."""
    blind = not controller.sensors and not observes_task(controller)
    return blind and rate_limit(controller) is None and first_memory(controller) is None


class ControllerSpec(Spec):
    """A described controller."""

    @abstractmethod
    def build(self, body: Body, dtype: jnp.dtype | type = jnp.float32) -> Controller:
        """The array form for a body that `check` accepts."""

    def check(self, body: Body) -> list[tuple[tuple[str, ...], str]]:
        """What does not fit the body: where (path inside the controller) and why."""
        return []


def _read_grid(value: Any) -> Any:
    """Refuse what is neither a number nor rows (or levels of rows) with one message, not one per alternative."""

    def is_number(item: Any) -> bool:
        return isinstance(item, int | float) and not isinstance(item, bool) and math.isfinite(item)

    def is_row(item: Any) -> bool:
        return isinstance(item, list | tuple) and all(cell is None or is_number(cell) for cell in item)

    def is_level(item: Any) -> bool:
        return isinstance(item, list | tuple) and bool(item) and all(map(is_row, item))

    if is_number(value) or is_level(value) or (isinstance(value, list | tuple) and value and all(map(is_level, value))):
        return value
    raise PydanticCustomError("grid", "Input should be a finite number, or rows of them as the shape is drawn")


Rows = tuple[tuple[Real | None, ...], ...]
PerVoxel = Annotated[Real | Rows | tuple[Rows, ...], BeforeValidator(_read_grid)]
"""One number for all voxels, or rows of numbers as the shape is drawn (top row, in 3-D top level, first.

Anything in empty cells).
"""


def check_grid(name: str, value: PerVoxel, body: Body) -> list[tuple[tuple[str, ...], str]]:
    """Complaints about a PerVoxel value that does not fit the body."""
    if not isinstance(value, tuple):
        return []
    shape = body.cells.shape
    given = _shape_of(value)
    if given != shape:
        text = "rows of unequal length" if given is None else _described(given)
        return [((name,), f"{text} values given; the body has {_described(shape)}")]
    numbers = _lowest_first(value, body.dimension)
    missing = [place for place in zip(*np.nonzero(body.present), strict=True) if numbers[place] is None]
    return [((name,), f"no value for the voxel in {place_name(place[::-1])} (from the bottom)") for place in missing]


def grid_array(value: PerVoxel, body: Body, dtype: Any) -> Array:
    """The array of a PerVoxel value, in the order of the body's cells."""
    if not isinstance(value, tuple):
        return jnp.full(body.cells.shape, value, dtype)
    numbers = _lowest_first(value, body.dimension)
    return jnp.asarray(np.where(numbers == None, 0.0, numbers).astype(float), dtype)  # noqa: E711


def place_name(place: tuple[int, ...]) -> str:
    """'column 0, row 1' (and level)."""
    return ", ".join(f"{name} {number}" for name, number in zip(("column", "row", "level"), place, strict=False))


def _lowest_first(value: tuple, dimension: int) -> np.ndarray:
    return np.array(value, dtype=object)[(slice(None, None, -1),) * (dimension - 1)]


def _shape_of(value: Any) -> tuple[int, ...] | None:
    """Of nested tuples; None if they are ragged."""
    if not isinstance(value, tuple):
        return ()
    inner = {_shape_of(item) for item in value}
    return None if len(inner) != 1 or None in inner else (len(value), *(inner.pop() or ()))


def _described(shape: tuple[int, ...]) -> str:
    *levels, rows, columns = (1, *shape) if len(shape) == 1 else shape
    return f"{levels[0]} levels of {rows} rows of {columns}" if levels else f"{rows} rows of {columns}"


class Clock(Spec):
    """A sine of the time as one more input."""

    frequency: Real = 1.0
    """[Hz]"""
    amplitude: Real = 1.0
    """largest input"""
    phase: Real = 0.0
    """[rad]"""


def clock_numbers(clock: Clock | None, dtype: Any) -> Array:
    """Frequency [Hz], amplitude and phase [rad], (3,); an amplitude of 0 for none."""
    sine = clock or Clock(frequency=0.0, amplitude=0.0)
    return jnp.asarray([sine.frequency, sine.amplitude, sine.phase], dtype)


def clock_value(numbers: Array, time: Array) -> Array:
    """The input at a time [s], (); numbers: as above."""
    frequency, amplitude, phase = numbers
    return amplitude * jnp.sin(2 * jnp.pi * frequency * time + phase)


def from_neighbors(values: Array, axis: int, step: int) -> Array:
    """For every cell the value of the next one, 0 beyond the border.

    values: (..., *cells); axis: 0 for x, which is the last axis of the array, 1 for y, 2 for z; step: -1 for the
    neighbor below along that axis, 1 for the one above.
    """
    padding = [(0, 0, 0)] * values.ndim
    padding[values.ndim - 1 - axis] = (-step, step, 0)
    return jax.lax.pad(values, jnp.zeros((), values.dtype), padding)


def sides(dimension: int) -> tuple[tuple[int, int], ...]:
    """Axis and step of every side of a voxel: below and above along x, then along y, in 3-D along z."""
    return tuple((axis, step) for axis in range(dimension) for step in (-1, 1))


def opposite(side: int) -> int:
    """Number of the side across, in the order of `sides`."""
    return side ^ 1
