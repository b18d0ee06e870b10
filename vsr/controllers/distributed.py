"""The distributed controller: one small network in every voxel, the same in all, with messages to neighbors.

Inputs of a voxel are its readings, then the messages that its neighbors sent to it at the previous call (side by side:
below and above along x, then along y, in 3-D along z, `signals` numbers each, 0 where no voxel is), then the clock
if there is one, then 1 as bias. tanh follows every layer. Outputs are its control value, then the messages to its
neighbors in the same order. The weights are flat: for each layer, for each input, for each output. Their number does
not depend on the body's size. (Medvet, Bartoli, De Lorenzo, Fidel, GECCO 2020, proposed such controllers.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
from jax import Array
from pydantic import Field

from vsr.controllers.base import (
    Clock,
    ControllerSpec,
    PerVoxel,
    check_grid,
    clock_numbers,
    clock_value,
    from_neighbors,
    grid_array,
    opposite,
    sides,
)
from vsr.controllers.mlp import check_sensors
from vsr.robot import Body
from vsr.sensors import Sensor
from vsr.spec import Count, Real

Signals = Annotated[Count, Field(ge=0, le=100)]
Hidden = tuple[Annotated[Count, Field(ge=1)], ...]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class VoxelNetworks:
    """The network that all voxels of a grid share. Its memory: the messages sent, (sides, signals, *cells)."""

    layers: tuple[Array, ...]
    """weights, (inputs, outputs) each"""
    clock: Array | None
    """frequency [Hz], amplitude and phase [rad] of the clock, (3,); None for none"""
    amplitude: Array
    """largest control value of every voxel, 0 for passive ones, *cells"""
    present: Array
    """1 where there is a voxel, else 0, *cells"""
    sensors: tuple[Sensor, ...] = field(metadata={"static": True})
    signals: int = field(metadata={"static": True})

    def first_memory(self) -> Array:
        cells = self.present.shape
        return jnp.zeros((2 * len(cells), self.signals, *cells), self.present.dtype)

    def decide(self, memory: Array, time: Array, readings: Array | None) -> tuple[Array, Array]:
        assert readings is not None
        cells = self.present.shape
        ways = sides(len(cells))
        heard = [from_neighbors(memory[opposite(number)], *way) for number, way in enumerate(ways)]
        same = [jnp.ones((), readings.dtype)]
        if self.clock is not None:
            same.insert(0, clock_value(self.clock, time))
        alike = jnp.broadcast_to(jnp.stack(same).reshape(-1, *(1,) * len(cells)), (len(same), *cells))
        values = jnp.concatenate([readings, *heard, alike])
        for weights in self.layers:
            # A sum of products: see Perceptron.
            values = jnp.tanh((values[:, None] * weights.reshape(*weights.shape, *(1,) * len(cells))).sum(0))
        control, sent = values[0], values[1:].reshape(len(ways), self.signals, *cells)
        return self.amplitude * control, sent * self.present


class Distributed(ControllerSpec):
    """One network for all voxels, each with its own readings and messages to and from its neighbors."""

    type: Literal["distributed"] = "distributed"
    sensors: tuple[Sensor, ...] = Field(min_length=1)
    """what every voxel reads"""
    weights: tuple[Real, ...]
    """flat: for each layer, for each input, for each output"""
    signals: Signals = 1
    """numbers sent to each neighbor at every call, read by it at the next"""
    hidden: Hidden = ()
    """sizes of the hidden layers"""
    clock: Clock | None = Clock()
    """a sine of the time as further input; null for none"""
    amplitude: PerVoxel = 1.0
    """largest control value; 0 for a voxel that is not driven, which passes messages on all the same"""

    def check(self, body: Body) -> list[tuple[tuple[str, ...], str]]:
        issues = check_sensors(self.sensors, body.present) + check_grid("amplitude", self.amplitude, body)
        sizes = self.sizes(body.dimension)
        needed = sum(a * b for a, b in pairwise(sizes))
        if len(self.weights) != needed:
            text = f"{len(self.weights)} given; layers of {' x '.join(map(str, sizes))} neurons need {needed}"
            issues.append((("weights",), text))
        return issues

    def sizes(self, dimension: int) -> tuple[int, ...]:
        """Neurons of every layer, inputs first."""
        return network_sizes(len(self.sensors), self.signals, self.hidden, self.clock is not None, dimension)

    def build(self, body: Body, dtype: jnp.dtype | type = jnp.float32) -> VoxelNetworks:
        return VoxelNetworks(
            layers=layers_of(jnp.asarray(self.weights, dtype), self.sizes(body.dimension)),
            clock=clock_numbers(self.clock, dtype) if self.clock else None,
            amplitude=grid_array(self.amplitude, body, dtype),
            present=jnp.asarray(body.present, dtype),
            sensors=self.sensors,
            signals=self.signals,
        )


def network_sizes(sensors: int, signals: int, hidden: tuple[int, ...], driven: bool, dimension: int) -> tuple[int, ...]:
    """Neurons of every layer of a voxel's network, inputs first."""
    messages = 2 * dimension * signals
    return (sensors + messages + driven + 1, *hidden, 1 + messages)


def layers_of(weights: Array, sizes: tuple[int, ...]) -> tuple[Array, ...]:
    """Flat weights as matrices, (inputs, outputs) each."""
    layers, used = [], 0
    for size in pairwise(sizes):
        layers.append(weights[used : used + math.prod(size)].reshape(size))
        used += math.prod(size)
    return tuple(layers)
