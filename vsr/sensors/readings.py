"""Readings: a quantity now, its mean over the last calls, or its difference over them.

A memory keeps the last values of every quantity in use, newest first. The first call fills all of it with the first
value, as in the original, so that means start right and differences start at zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import Field, GetJsonSchemaHandler, field_validator, model_validator
from pydantic_core import CoreSchema

from vsr.environment import Environment
from vsr.physics.contract import VoxelMotion
from vsr.physics.engine import AnyModel, AnyState, engine_of
from vsr.sensors.quantities import QUANTITIES
from vsr.spec import Count, Real, Spec, unknown_names

PARAMETERS = ("direction", "range")
"""Fields of a sensor that only some quantities have."""


class Sensor(Spec):
    """One reading that voxels take. A plain name stands for the present value of that quantity: `[angle, contact]`."""

    quantity: str
    """what is felt, one of QUANTITIES"""
    reading: Literal["current", "mean", "difference"] = "current"
    """the latest value, the mean of the last `window` values, or the latest minus the (window-1)-th before it"""
    window: Annotated[Count, Field(ge=1, le=1000)] = 5
    """number of control calls looked back on, counting the present one"""
    voxels: tuple[tuple[Count, ...], ...] | None = None
    """(column, row), in 3-D (column, row, level), of the voxels that have this sensor, counted from the lowest left
    one; all if absent"""
    direction: tuple[Real, ...] | None = None
    """of a ray, along the voxel's own axes, of any length but 0: [1, -1] is ahead and down at 45 degrees (2-D);
    downwards if absent"""
    range: Annotated[Real, Field(gt=0)] | None = None
    """how far a ray is followed [m]; 10 if absent"""

    @model_validator(mode="before")
    @classmethod
    def _of_name(cls, given: Any) -> Any:
        return {"quantity": given} if isinstance(given, str) else given

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return {"anyOf": [handler(schema), {"enum": list(QUANTITIES)}]}

    @property
    def label(self) -> str:
        """What is read, in words."""
        name = self.quantity.replace("_", " ")
        if self.direction is not None:
            name += f" along ({', '.join(f'{part:g}' for part in self.direction)})"
        over = f"{self.window} call{'s' if self.window > 1 else ''}"
        return {"current": name, "mean": f"{name}, mean of {over}", "difference": f"{name}, change over {over}"}[
            self.reading
        ]

    @property
    def at_rest(self) -> float:
        """What a robot reads that does nothing."""
        return 0.0 if self.reading == "difference" else QUANTITIES[self.quantity].at_rest

    @property
    def unit(self) -> str:
        """Of what is read; empty for plain numbers."""
        return QUANTITIES[self.quantity].unit

    @property
    def legacy(self) -> Sensor:
        """The same with the original's wrong angle, where the quantity depends on it."""
        return self.model_copy(update={"quantity": QUANTITIES[self.quantity].legacy or self.quantity})

    @field_validator("quantity")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in QUANTITIES:
            raise unknown_names([name], QUANTITIES, "quantity")
        return name

    @model_validator(mode="after")
    def _of_the_quantity(self) -> Sensor:
        for name in PARAMETERS:
            if getattr(self, name) is not None and name not in QUANTITIES[self.quantity].parameters:
                others = [other for other, quantity in QUANTITIES.items() if name in quantity.parameters]
                raise ValueError(f"'{self.quantity}' has no {name}; only {', '.join(others)} has: leave it out")
        if self.direction is not None and not any(self.direction):
            raise ValueError("a direction needs a number that is not 0")
        return self

    @property
    def felt(self) -> Remembered:
        """What is remembered for it; several sensors may share it."""
        return Remembered(self.quantity, self.direction, self.range)


class Remembered(NamedTuple):
    """A quantity, and the direction and range of a ray."""

    quantity: str
    direction: tuple[float, ...] | None
    range: float | None

    def value(self, voxels: VoxelMotion) -> Array:
        """Of every voxel, *cells."""
        own = QUANTITIES[self.quantity]
        return own(voxels, *(getattr(self, name) for name in own.parameters))


def empty_memory(model: AnyModel, sensors: Sequence[Sensor]) -> Array:
    """Memory before the first call, (longest window, quantities, *cells)."""
    depth = max((sensor.window for sensor in sensors if sensor.reading != "current"), default=1)
    return jnp.zeros((depth, len(_quantities(sensors)), *model.present.shape), model.present.dtype)


def remember(
    sensors: Sequence[Sensor],
    model: AnyModel,
    environment: Environment,
    state: AnyState,
    memory: Array,
    first: Array,
    touched: Array | None = None,
) -> Array:
    """The memory with what is felt now as its newest values.

    first: whether nothing was felt before, (); touched: 1 for voxels that something besides the ground touches, *cells.
    """
    voxels = engine_of(model).voxel_motion(model, environment, state)
    if touched is not None:
        voxels = voxels._replace(contact=jnp.maximum(voxels.contact, touched))
    values = jnp.stack([felt.value(voxels) for felt in _quantities(sensors)]) * model.present
    values = values.astype(memory.dtype)
    return jnp.where(first, values, jnp.concatenate([values[None], memory[:-1]]))


def readings(sensors: Sequence[Sensor], memory: Array) -> Array:
    """All readings, 0 in empty cells and where a voxel lacks the sensor, (sensors, *cells)."""
    names = _quantities(sensors)

    def read(sensor: Sensor) -> Array:
        return _sensor_places(sensor, _summarize(sensor, memory[:, names.index(sensor.felt)]))

    return jnp.stack([read(sensor) for sensor in sensors])


def read_trajectory(
    sensors: Sequence[Sensor],
    model: AnyModel,
    environment: Environment,
    states: AnyState,
    touched: Array | None = None,
) -> Array:
    """All readings of a recorded episode, (moments, sensors, *cells).

    states: after every control interval, the initial one first, in which nothing has been read yet: 0; touched: as in
    `remember`, (moments, *cells).
    """

    def call(memory: Array, moment: tuple[AnyState, Array | None, Array]) -> tuple[Array, Array]:
        state, touched, index = moment
        memory = remember(sensors, model, environment, state, memory, index == 0, touched)
        return memory, readings(sensors, memory)

    called, touching = jax.tree.map(lambda leaf: leaf[1:], (states, touched))
    count = len(jax.tree.leaves(called)[0])
    _, found = jax.lax.scan(call, empty_memory(model, sensors), (called, touching, jnp.arange(count)))
    return jnp.concatenate([jnp.zeros((1, *found.shape[1:]), found.dtype), found])


def _sensor_places(sensor: Sensor, values: Array) -> Array:
    """0 for voxels that do not have the sensor."""
    if sensor.voxels is None:
        return values
    has = np.zeros(values.shape, bool)
    for place in sensor.voxels:
        has[place[::-1]] = True
    return jnp.where(has, values, 0)


def _quantities(sensors: Sequence[Sensor]) -> list[Remembered]:
    return sorted({sensor.felt for sensor in sensors}, key=lambda felt: (felt.quantity, repr(felt)))


def _summarize(sensor: Sensor, history: Array) -> Array:
    if sensor.reading == "mean":
        return history[: sensor.window].mean(0)
    if sensor.reading == "difference":
        return history[0] - history[sensor.window - 1]
    return history[0]
