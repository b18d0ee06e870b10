"""The recurrent controller: one network for the whole robot whose hidden neurons remember (Elman 1990; minimal gated
units, Zhou et al. 2016).

    elman:   h' = tanh(W [x, h])
    gated:   f = σ(V [x, h]),   h' = (1 - f) h + f tanh(W [x, f h])

and control values are tanh(U h'). The inputs x are those of `mlp`: the readings of all voxels, the clock if
there is one, and 1 as bias. h is 0 before the first call. The weights are flat: W, then V if there are gates, then U,
each for each input, for each output. As arrays the network spans the whole grid, as that of `mlp` does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import Field

from vsr.controllers.base import Clock, ControllerSpec, clock_numbers, clock_value
from vsr.controllers.mlp import check_sensors, wiring
from vsr.robot import Body
from vsr.sensors import Sensor
from vsr.spec import Count, Real

Unit = Literal["elman", "gated"]
Neurons = Annotated[Count, Field(ge=1, le=1000)]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class RecurrentNetwork:
    """The network over a whole grid. Its memory: the values of the hidden neurons, (hidden,)."""

    inward: Array
    """W: (cells * sensors + 2 + hidden, hidden); clock and bias follow the readings"""
    gate: Array | None
    """V, of the same shape; None without gates"""
    outward: Array
    """U: (hidden, cells)"""
    clock: Array
    """frequency [Hz], amplitude and phase [rad] of the clock, (3,)"""
    sensors: tuple[Sensor, ...] = field(metadata={"static": True})

    def first_memory(self) -> Array:
        return jnp.zeros(self.outward.shape[0], self.outward.dtype)

    def decide(self, memory: Array, time: Array, readings: Array | None) -> tuple[Array, Array]:
        assert readings is not None
        drive = clock_value(self.clock, time)
        inputs = jnp.concatenate([jnp.moveaxis(readings, 0, -1).ravel(), jnp.stack([drive, jnp.ones_like(drive)])])

        def weighed(weights: Array, hidden: Array) -> Array:
            # A sum of products: see Perceptron.
            return (jnp.concatenate([inputs, hidden])[:, None] * weights).sum(0)

        if self.gate is None:
            memory = jnp.tanh(weighed(self.inward, memory))
        else:
            opened = jax.nn.sigmoid(weighed(self.gate, memory))
            memory = (1 - opened) * memory + opened * jnp.tanh(weighed(self.inward, opened * memory))
        control = jnp.tanh((memory[:, None] * self.outward).sum(0))
        return control.reshape(readings.shape[1:]), memory


class Recurrent(ControllerSpec):
    """A network with hidden neurons that remember, from all voxels' readings to all voxels' control values."""

    type: Literal["recurrent"] = "recurrent"
    sensors: tuple[Sensor, ...] = Field(min_length=1)
    """what every voxel reads"""
    weights: tuple[Real, ...]
    """flat: into the hidden neurons, into their gates, out of them; each for each input, for each output"""
    hidden: Neurons = 8
    """neurons that remember"""
    unit: Unit = "elman"
    """how they remember: elman, or gated (minimal gated units)"""
    clock: Clock | None = Clock()
    """a sine of the time as further input; null for none"""

    def check(self, body: Body) -> list[tuple[tuple[str, ...], str]]:
        issues = check_sensors(self.sensors, body.present)
        wired = wiring(self.sensors, body.present)
        needed = weights_needed(self.hidden, self.unit, wired, self.clock is not None, body.present)
        if len(self.weights) != needed:
            inputs = int(wired.sum()) + (self.clock is not None) + 1
            text = f"{inputs} inputs, {self.hidden} {self.unit} neurons and {int(body.present.sum())} outputs"
            issues.append((("weights",), f"{len(self.weights)} given; {text} need {needed}"))
        return issues

    def build(self, body: Body, dtype: jnp.dtype | type = jnp.float32) -> RecurrentNetwork:
        wired = wiring(self.sensors, body.present)
        weights = jnp.asarray(self.weights, dtype)
        inward, gate, outward = spread(weights, self.hidden, self.unit, wired, self.clock is not None, body.present)
        return RecurrentNetwork(inward, gate, outward, clock_numbers(self.clock, dtype), self.sensors)


def weights_needed(hidden: int, unit: Unit, wired: np.ndarray, driven: bool, present: np.ndarray) -> int:
    """Number of weights; wired: which voxels have which sensors, (*cells, sensors); present: (*cells,)."""
    inputs = int(wired.sum()) + driven + 1 + hidden
    return hidden * ((1 + (unit == "gated")) * inputs + int(present.sum()))


def kept(hidden: int, wired: np.ndarray, driven: bool, present: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of the inputs, hidden ones included, and of the outputs that a body has, in arrays over its grid."""
    inputs = np.flatnonzero(np.concatenate([wired.ravel(), [driven, True], np.ones(hidden, bool)]))
    return inputs, np.flatnonzero(present.ravel())


def spread(
    weights: Array, hidden: int, unit: Unit, wired: np.ndarray, driven: bool, present: np.ndarray
) -> tuple[Array, Array | None, Array]:
    """Flat weights of one body's network as matrices over its whole grid: W, V and U.

    wired, present: as for `weights_needed`, known before tracing; the weights may be traced.
    """
    inputs, outputs = kept(hidden, wired, driven, present)
    count = inputs.size * hidden

    def into(first: int) -> Array:
        block = weights[first : first + count].reshape(inputs.size, hidden)
        return jnp.zeros((wired.size + 2 + hidden, hidden), weights.dtype).at[inputs].set(block)

    gated = unit == "gated"
    last = weights[(1 + gated) * count :].reshape(hidden, outputs.size)
    outward = jnp.zeros((hidden, present.size), weights.dtype).at[:, outputs].set(last)
    return into(0), into(count) if gated else None, outward
