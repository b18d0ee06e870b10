"""Compositional pattern-producing networks: numbers for every cell from where it lies (Stanley 2007).

Inputs are the coordinates of a cell's center (the grid reaches from -1 to 1 along each axis), its distance from the
grid's middle, and 1 as bias. The topology is fixed, so that decoding compiles once; what evolves besides the weights is
the activation function of every hidden neuron, one gene each: the initial range is cut into as many parts as there are
functions, and goes on periodically beyond its ends. Outputs are sums without a function.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Annotated, Literal

import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import Field

from vsr.controllers import Sine, TimeFunctions
from vsr.experiments.encodings.base import (
    BodyEncoding,
    Complaints,
    ControllerEncoding,
    Range,
    check_symbols,
    driven,
    uniform,
)
from vsr.experiments.encodings.bodies import AXES, Axis, EvolvedBody, strongest
from vsr.experiments.encodings.time_functions import drawn
from vsr.spec import Count, Real

ACTIVATIONS = {
    "tanh": jnp.tanh,
    "sine": lambda value: jnp.sin(jnp.pi * value),
    "gaussian": lambda value: jnp.exp(-(value**2)),
    "absolute": jnp.abs,
    "identity": lambda value: value,
}
"""Of hidden neurons, in the order of their genes."""

Layers = Annotated[tuple[Annotated[Count, Field(ge=1, le=1000)], ...], Field(min_length=1, max_length=10)]


def genes_needed(hidden: tuple[int, ...], dimension: int, outputs: int) -> int:
    """Weights, and one gene for the function of every hidden neuron."""
    return sum(a * b for a, b in pairwise((dimension + 2, *hidden, outputs))) + sum(hidden)


def inputs_of(cells: tuple[int, ...], mirrored: Axis | None = None) -> np.ndarray:
    """Inputs of the network for every cell: x, y (and z), distance from the middle, 1; (dimension + 2, *cells).

    mirrored: the axis along which both ends look alike: its coordinate is that of the lower half.
    """
    along = [(2 * np.arange(size) + 1) / size - 1 for size in cells[::-1]]
    if mirrored is not None:
        along[AXES.index(mirrored)] = -np.abs(along[AXES.index(mirrored)])
    grid = np.stack(np.meshgrid(*along[::-1], indexing="ij"))[::-1]
    return np.concatenate([grid, np.sqrt((grid**2).sum(0, keepdims=True)), np.ones((1, *cells))])


def pattern(genes: Array, inputs: np.ndarray, hidden: tuple[int, ...], outputs: int, initial: Range) -> Array:
    """Outputs of a network for every cell, (outputs, *cells); genes: weights layer by layer, then functions."""
    values, cells = jnp.asarray(inputs, genes.dtype), inputs.shape[1:]
    sizes = (len(inputs), *hidden, outputs)
    used, neuron = 0, sum(a * b for a, b in pairwise(sizes))
    share = (genes - initial[0]) / (initial[1] - initial[0])
    function = jnp.floor(len(ACTIVATIONS) * (share % 1)).astype(jnp.int32)
    for layer, size in enumerate(pairwise(sizes)):
        weights = genes[used : used + math.prod(size)].reshape(*size, *(1,) * len(cells))
        used += math.prod(size)
        values = (jnp.asarray(values)[:, None] * weights).sum(0)  # a sum of products: see Perceptron
        if layer < len(hidden):
            chosen = function[neuron : neuron + size[1]].reshape(-1, *(1,) * len(cells))
            neuron += size[1]
            values = sum(jnp.where(chosen == i, act(values), 0) for i, act in enumerate(ACTIVATIONS.values()))  # pyright: ignore
    return jnp.asarray(values)


class PatternBody(EvolvedBody):
    """A pattern-producing network decides whether a cell is filled and, by the strongest output, with which material.

    Its outputs are the presence of a voxel and the strength of each material. Of the filled cells the largest part
    connected by sides is the body.
    """

    type: Literal["cppn"] = "cppn"
    hidden: Layers = (8, 8)
    """sizes of the hidden layers"""
    threshold: Real = 0.0
    """least presence that fills a cell"""
    initial: Range = (-2.0, 2.0)
    """range of the first population's genes"""

    @property
    def gene_count(self) -> int:
        return genes_needed(self.hidden, self.dimension, 1 + len(self.materials))

    def kinds(self, genes: Array) -> Array:
        low = tuple(slice(0, size) for size in self.grown)
        inputs = inputs_of(self.possible.shape)[(slice(None), *low)]
        presence, *strengths = pattern(genes, inputs, self.hidden, 1 + len(self.materials), self.initial)
        return jnp.where(presence > self.threshold, strongest(jnp.stack(strengths), -jnp.inf), -1)


class SineCPPN(ControllerEncoding):
    """A sine per voxel; a pattern-producing network gives the phases, π times its output, from where voxels lie."""

    type: Literal["sine_cppn"] = "sine_cppn"
    hidden: Layers = (8,)
    """sizes of the hidden layers"""
    mirrored: Axis | None = None
    """axis along which both ends of the grid have the same phases; null for none"""
    frequency: Real = 1.0
    """of all voxels [Hz]"""
    amplitude: Real = 1.0
    """largest control value of the sine"""
    passive: tuple[str, ...] = ()
    """symbols of materials that are not driven"""
    initial: Range = (-2.0, 2.0)
    """range of the first population's genes"""

    def check(self, body: BodyEncoding) -> Complaints:
        unknown = self.mirrored is not None and AXES.index(self.mirrored) >= body.dimension
        return [
            *check_symbols(self.passive, body, "passive"),
            *([(("mirrored",), f"'{self.mirrored}' given; the body has no such axis")] if unknown else []),
        ]

    def gene_count(self, body: BodyEncoding) -> int:
        return genes_needed(self.hidden, body.dimension, 1)

    def sample(self, key: Array, count: int, body: BodyEncoding) -> Array:
        return uniform(key, count, self.gene_count(body), self.initial)

    def build(self, genes: Array, cells: Array, body: BodyEncoding, duration: float) -> TimeFunctions:
        still = jnp.zeros(cells.shape, genes.dtype)
        active = jnp.asarray(driven(self.passive, body), genes.dtype)[cells]
        return TimeFunctions(
            amplitude=self.amplitude * active,
            frequency=jnp.full(cells.shape, self.frequency, genes.dtype),
            phase=self._phases(genes, cells.shape),
            start=still,
            end=still,
            duration=jnp.ones((), genes.dtype),
        )

    def describe(self, genes: np.ndarray, cells: np.ndarray, body: BodyEncoding, duration: float) -> Sine:
        phase = np.asarray(self._phases(jnp.asarray(genes), cells.shape), float)
        amplitude = drawn(self.amplitude * driven(self.passive, body)[cells], cells)
        return Sine(frequency=self.frequency, amplitude=amplitude, phase=drawn(phase, cells))

    def _phases(self, genes: Array, cells: tuple[int, ...]) -> Array:
        """[rad], *cells."""
        return jnp.pi * pattern(genes, inputs_of(cells, self.mirrored), self.hidden, 1, self.initial)[0]
