"""The policy: one network from a task's observation to the control values of all voxels, as learners train it.

Inputs are what the task shows to a learner (vsr.episode.observe_task), or, with `sensors`, the readings of all cells;
then sine and cosine of the clock, if there is one. Every input is normalized by a mean and a deviation, and ends at
±10. Hidden layers are tanh, the last one is linear; `rollout` clips control values to [-1, 1]. Unlike other
controllers a policy also decides at the start of an episode, as whoever steps an environment does.

The weights are flat: means, logarithms of deviations, then for each layer, for each input and its bias last, for each
output. The network spans the whole grid, so that one compilation serves every body, and its size says nothing of one.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Annotated, Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import AfterValidator, Field
from pydantic_core import PydanticCustomError

from vsr.controllers.base import Clock, ControllerSpec, clock_numbers
from vsr.controllers.mlp import check_sensors
from vsr.robot import Body
from vsr.sensors import Sensor
from vsr.spec import Count

FARTHEST_INPUT = 10.0
"""Normalized inputs end here, either way."""
PACKED = {"float32": "<f4", "float64": "<f8"}
"""Kinds of numbers that a text can hold, and how they lie in memory."""


def pack(numbers: np.ndarray) -> str:
    """Numbers as a text with all their bits: `float32:` or `float64:`, then base64 of them, the lowest byte first."""
    kind = str(np.asarray(numbers).dtype)
    return f"{kind}:{base64.b64encode(np.ascontiguousarray(numbers, PACKED[kind]).tobytes()).decode()}"


def unpack(text: str) -> np.ndarray:
    """What `pack` was given; raises ValueError for any other text."""
    kind, _, rest = text.partition(":")
    if kind not in PACKED:
        raise ValueError(f"it begins with {' or '.join(f'{name}:' for name in PACKED)}, then base64")
    try:
        content = base64.b64decode(rest, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ValueError(f"no base64 after {kind}: ({error})") from None
    if len(content) % np.dtype(PACKED[kind]).itemsize:
        raise ValueError(f"{len(content)} bytes given, which are no whole number of {kind}")
    return np.frombuffer(content, PACKED[kind]).astype(kind)


def _readable(text: str) -> str:
    try:
        finite = np.isfinite(unpack(text)).all()
    except ValueError as error:
        raise PydanticCustomError(
            "packed", "Input should be packed numbers: {reason}", {"reason": str(error)}
        ) from None
    if not finite:
        raise PydanticCustomError("packed", "Input should be packed numbers, all of them finite")
    return text


PackedNumbers = Annotated[str, AfterValidator(_readable)]
"""Many numbers in one text (see `pack`)."""
Layer = Annotated[Count, Field(ge=1, le=4096)]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PolicyNetwork:
    """The network over a whole grid."""

    mean: Array
    """of every input, (inputs,)"""
    deviation: Array
    """of every input, (inputs,)"""
    layers: tuple[Array, ...]
    """weights, (inputs + 1, outputs) each; the last row is the bias"""
    clock: Array | None
    """frequency [Hz], amplitude and phase [rad], (3,); None for none"""
    cells: tuple[int, ...] = field(metadata={"static": True})
    sensors: tuple[Sensor, ...] = field(metadata={"static": True})

    @property
    def is_policy(self) -> bool:
        """Whether it decides at the start of an episode too."""
        return True

    @property
    def observes_task(self) -> bool:
        """Whether it is given what the task shows, instead of readings."""
        return not self.sensors

    def control(self, time: Array, readings: Array | None) -> Array:
        assert readings is not None
        values = normalized(inputs_of(self.clock, time, readings), self.mean, self.deviation)
        for number, weights in enumerate(self.layers):
            # A sum of products rather than a matrix product: see Perceptron.
            values = (values[:, None] * weights[:-1]).sum(0) + weights[-1]
            values = jnp.tanh(values) if number < len(self.layers) - 1 else values
        return values.reshape(self.cells)


def inputs_of(clock: Array | None, time: Array, seen: Array) -> Array:
    """What a policy reads, (inputs,); clock: as PolicyNetwork has it; seen: an observation or readings, any shape."""
    seen = seen.ravel()
    if clock is None:
        return seen
    frequency, amplitude, phase = clock
    angle = 2 * jnp.pi * frequency * time + phase
    return jnp.concatenate([seen, amplitude * jnp.stack([jnp.sin(angle), jnp.cos(angle)]).astype(seen.dtype)])


def normalized(inputs: Array, mean: Array, deviation: Array) -> Array:
    """Inputs without their mean, over their deviation, (..., inputs)."""
    return jnp.clip((inputs - mean) / deviation, -FARTHEST_INPUT, FARTHEST_INPUT)


def policy_sizes(inputs: int, hidden: Sequence[int], outputs: int) -> list[tuple[int, int]]:
    """Rows and columns of every layer's weights."""
    return [(before + 1, after) for before, after in pairwise((inputs, *hidden, outputs))]


def policy_count(inputs: int, hidden: Sequence[int], outputs: int) -> int:
    """Numbers of a policy."""
    return 2 * inputs + sum(rows * columns for rows, columns in policy_sizes(inputs, hidden, outputs))


def join_policy(mean: Array, deviation: Array, layers: Sequence[Array]) -> Array:
    """The flat numbers of a policy."""
    return jnp.concatenate([mean, jnp.log(deviation), *(weights.ravel() for weights in layers)])


def split_policy(
    numbers: Array, inputs: int, hidden: Sequence[int], outputs: int
) -> tuple[Array, Array, tuple[Array, ...]]:
    """Mean, deviation and layers out of flat numbers, which may be traced."""
    mean, logarithm = numbers[:inputs], numbers[inputs : 2 * inputs]
    layers, used = [], 2 * inputs
    for rows, columns in policy_sizes(inputs, hidden, outputs):
        layers.append(numbers[used : used + rows * columns].reshape(rows, columns))
        used += rows * columns
    return mean, jnp.exp(logarithm), tuple(layers)


class Policy(ControllerSpec):
    """A network from the task's observation to all voxels' control values, as `vsr train` writes it."""

    type: Literal["policy"] = "policy"
    weights: PackedNumbers
    """all its numbers in one text: float32: or float64:, then base64"""
    hidden: tuple[Layer, ...] = (64, 64)
    """sizes of the hidden layers"""
    clock: Clock | None = None
    """sine and cosine of the time as further inputs; null for none"""
    sensors: tuple[Sensor, ...] = ()
    """what every voxel reads, instead of the task's observation"""

    @property
    def observes_task(self) -> bool:
        """Whether it reads what the task shows."""
        return not self.sensors

    def input_count(self, body: Body) -> int | None:
        """Inputs that its weights are for, the clock's included; None if they are for no number of them."""
        cells = int(body.cells.size)
        given, fixed = len(unpack(self.weights)), policy_count(0, self.hidden, cells)
        each = 2 + (*self.hidden, cells)[0]
        return (given - fixed) // each if given >= fixed and (given - fixed) % each == 0 else None

    def observed_count(self, body: Body) -> int | None:
        """Numbers of an observation that its weights are for."""
        inputs = self.input_count(body)
        return None if inputs is None else inputs - 2 * (self.clock is not None)

    def check(self, body: Body) -> list[tuple[tuple[str, ...], str]]:
        issues = check_sensors(self.sensors, body.present)
        inputs, cells = self.observed_count(body), int(body.cells.size)
        shape = " x ".join(map(str, body.cells.shape[::-1]))
        if inputs is None or inputs < 0:
            text = f"{len(unpack(self.weights))} numbers given, which fit no network with hidden layers of "
            text += f"{', '.join(map(str, self.hidden)) or 'no'} neurons for a grid of {shape} cells"
            issues.append((("weights",), f"{text}: a policy is for the grid that it was trained on"))
        elif self.sensors and inputs != len(self.sensors) * cells:
            needed = len(self.sensors) * cells
            issues.append((("weights",), f"they are for {inputs} readings; {shape} cells have {needed}"))
        return issues

    def build(self, body: Body, dtype: jnp.dtype | type = jnp.float32) -> PolicyNetwork:
        inputs = self.input_count(body)
        assert inputs is not None
        return policy_network(
            jnp.asarray(unpack(self.weights), dtype), inputs, self.hidden, self.clock, self.sensors, body.cells.shape
        )


def policy_network(
    numbers: Array,
    inputs: int,
    hidden: Sequence[int],
    clock: Clock | None,
    sensors: tuple[Sensor, ...],
    cells: tuple[int, ...],
) -> PolicyNetwork:
    """The arrays of a policy; numbers: flat; inputs: with those of the clock."""
    mean, deviation, layers = split_policy(numbers, inputs, hidden, int(np.prod(cells)))
    own: Any = None if clock is None else clock_numbers(clock, numbers.dtype)
    return PolicyNetwork(mean, deviation, layers, own, cells, sensors)
