"""The centralised sensing controller: one multilayer perceptron for the whole robot (paper, section 2.3).

Inputs are the readings of all voxels (level by level, row by row from the lowest, left to right, each voxel's sensors
in their order), then the clock if there is one, then 1 as bias; every layer is followed by tanh; outputs are
the voxels' control values in the same order. The weights are flat: for each layer, for each input, for each output.

As arrays the network spans the whole grid: weights of absent voxels are zero. So one compilation serves every body.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import Field

from vsr.controllers.base import Clock, ControllerSpec, clock_numbers, clock_value, place_name
from vsr.robot import Body
from vsr.sensors import QUANTITIES, Sensor
from vsr.spec import Count, Real, Switch

RateLimit = Annotated[Real, Field(gt=0)]
"""Change of a control value in a second [1/s]."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Perceptron:
    """The network over a whole grid."""

    layers: tuple[Array, ...]
    """weights, (inputs, outputs) each; the first has cells * sensors + 2 inputs (clock, bias)"""
    clock: Array
    """frequency [Hz], amplitude and phase [rad] of the clock, (3,)"""
    sensors: tuple[Sensor, ...] = field(metadata={"static": True})
    rate_limit: Array | None = None
    """how fast control values in force can change [1/s], (); `rollout` and `record` see to it, `control` does not"""

    def control(self, time: Array, readings: Array | None) -> Array:
        assert readings is not None
        drive = clock_value(self.clock, time)
        values = jnp.concatenate([jnp.moveaxis(readings, 0, -1).ravel(), jnp.stack([drive, jnp.ones_like(drive)])])
        for weights in self.layers:
            # A sum of products rather than a matrix product: libraries choose algorithms for products by timing them,
            # so that two runs of one program could differ, and the layers are too small to gain from it.
            values = jnp.tanh((values[:, None] * weights).sum(0))
        return values.reshape(readings.shape[1:])


class MLP(ControllerSpec):
    """A multilayer perceptron from all voxels' readings to all voxels' control values."""

    type: Literal["mlp"] = "mlp"
    sensors: tuple[Sensor, ...] = Field(min_length=1)
    """what every voxel reads"""
    weights: tuple[Real, ...]
    """flat: for each layer, for each input, for each output"""
    hidden: tuple[Annotated[Count, Field(ge=1)], ...] = ()
    """sizes of the hidden layers"""
    clock: Clock | None = Clock()
    """a sine of the time as further input; null for none"""
    legacy_angle: Switch = False
    """reproduce the original's wrong angle sensor"""
    rate_limit: RateLimit | None = None
    """how fast a control value can change [1/s]; null for any speed"""

    @property
    def used_sensors(self) -> tuple[Sensor, ...]:
        """The sensors with the quantities that are really read."""
        return tuple(sensor.legacy for sensor in self.sensors) if self.legacy_angle else self.sensors

    def sizes(self, body: Body) -> tuple[int, ...]:
        """Neurons of every layer, inputs first."""
        voxels = int(body.present.sum())
        return (int(wiring(self.sensors, body.present).sum()) + (self.clock is not None) + 1, *self.hidden, voxels)

    def weight_count(self, body: Body) -> int:
        """Number of weights needed."""
        sizes = self.sizes(body)
        return sum(a * b for a, b in pairwise(sizes))

    def check(self, body: Body) -> list[tuple[tuple[str, ...], str]]:
        issues = check_sensors(self.used_sensors, body.present)
        needed = self.weight_count(body)
        if len(self.weights) != needed:
            sizes = " x ".join(map(str, self.sizes(body)))
            issues.append((("weights",), f"{len(self.weights)} given; layers of {sizes} neurons need {needed}"))
        return issues

    def build(self, body: Body, dtype: jnp.dtype | type = jnp.float32) -> Perceptron:
        return Perceptron(
            layers=spread_weights(
                jnp.asarray(self.weights, dtype),
                self.hidden,
                wiring(self.sensors, body.present),
                self.clock is not None,
                body.present,
            ),
            clock=clock_numbers(self.clock, dtype),
            sensors=self.used_sensors,
            rate_limit=None if self.rate_limit is None else jnp.asarray(self.rate_limit, dtype),
        )


def check_sensors(sensors: Sequence[Sensor], present: np.ndarray) -> list[tuple[tuple[str, ...], str]]:
    """Complaints about sensors that voxels of this grid cannot have; present: True where a voxel is or may be."""
    issues = []
    for i, sensor in enumerate(sensors):
        known = QUANTITIES[sensor.quantity].dimensions
        if present.ndim not in known:
            own = " and ".join(f"{dimension}-D" for dimension in known)
            text = f"{sensor.quantity} is only felt in {own}, and this body is in {present.ndim}-D"
            issues.append((("sensors", str(i), "quantity"), text))
        if sensor.direction is not None and len(sensor.direction) != present.ndim:
            text = f"{len(sensor.direction)} numbers given; this body is in {present.ndim}-D and needs {present.ndim}"
            issues.append((("sensors", str(i), "direction"), text))
        for place in sensor.voxels or ():
            if not _is_there(place, present):
                issues.append((("sensors", str(i), "voxels"), f"there is no voxel in {place_name(place)}"))
    return issues


def wiring(sensors: Sequence[Sensor], present: np.ndarray) -> np.ndarray:
    """True where a voxel has a sensor, (*cells, sensors); present: True where there is a voxel."""
    wired = np.repeat(present[..., None], len(sensors), -1)
    for i, sensor in enumerate(sensors):
        if sensor.voxels is not None:
            chosen = np.zeros_like(present)
            for place in sensor.voxels:
                if _is_there(place, present):
                    chosen[place[::-1]] = True
            wired[..., i] &= chosen
    return wired


def _is_there(place: tuple[int, ...], present: np.ndarray) -> bool:
    """place: (column, row) or (column, row, level)."""
    if len(place) != present.ndim or any(
        not 0 <= at < size for at, size in zip(place[::-1], present.shape, strict=True)
    ):
        return False
    return bool(present[place[::-1]])


def spread_weights(
    weights: Array, hidden: tuple[int, ...], wired: np.ndarray, driven: bool, present: np.ndarray
) -> tuple[Array, ...]:
    """Weights of one body's network, flat, as matrices over its whole grid.

    wired: which voxels have which sensors, (*cells, sensors); present: (*cells,). Both are known before tracing; the
    weights may be traced.
    """
    inputs = np.flatnonzero(np.concatenate([wired.ravel(), [driven, True]]))
    outputs = np.flatnonzero(present.ravel())
    full = (wired.size + 2, *hidden, present.size)
    kept = (inputs, *(np.arange(size) for size in hidden), outputs)
    layers, used = [], 0
    for layer in range(len(full) - 1):
        size = kept[layer].size, kept[layer + 1].size
        block = weights[used : used + math.prod(size)].reshape(size)
        used += math.prod(size)
        matrix = jnp.zeros((full[layer], full[layer + 1]), weights.dtype)
        layers.append(matrix.at[np.ix_(kept[layer], kept[layer + 1])].set(block))
    return tuple(layers)
