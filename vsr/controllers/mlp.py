"""The centralised sensing controller: one multilayer perceptron for the whole robot (paper, section 2.3).

Inputs are the readings of all voxels (level by level, row by row from the lowest, left to right, each voxel's senses
in their order), then the driving value if there is one, then 1 as bias; every layer is followed by tanh; outputs are
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

from vsr.body import Body
from vsr.controllers.base import ControllerSpec, place_name
from vsr.controllers.driving import Driving, driving_numbers, driving_value
from vsr.sensors import QUANTITIES, Sense
from vsr.spec import Count, Real, Switch

RateLimit = Annotated[Real, Field(gt=0)]
"""Change of a control value in a second [1/s]."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Perceptron:
    """The network over a whole grid."""

    layers: tuple[Array, ...]
    """weights, (inputs, outputs) each; the first has cells * senses + 2 inputs (driving, bias)"""
    driving: Array
    """frequency [Hz], amplitude and phase [rad] of the driving sine, (3,)"""
    senses: tuple[Sense, ...] = field(metadata={"static": True})
    rate_limit: Array | None = None
    """how fast control values in force can change [1/s], (); `rollout` and `record` see to it, `control` does not"""

    def control(self, time: Array, readings: Array | None) -> Array:
        assert readings is not None
        drive = driving_value(self.driving, time)
        values = jnp.concatenate([jnp.moveaxis(readings, 0, -1).ravel(), jnp.stack([drive, jnp.ones_like(drive)])])
        for weights in self.layers:
            # A sum of products rather than a matrix product: libraries choose algorithms for products by timing them,
            # so that two runs of one program could differ, and the layers are too small to gain from it.
            values = jnp.tanh((values[:, None] * weights).sum(0))
        return values.reshape(readings.shape[1:])


class MLP(ControllerSpec):
    """A multilayer perceptron from all voxels' readings to all voxels' control values."""

    type: Literal["mlp"] = "mlp"
    senses: tuple[Sense, ...] = Field(min_length=1)
    """what every voxel reads"""
    weights: tuple[Real, ...]
    """flat: for each layer, for each input, for each output"""
    hidden: tuple[Annotated[Count, Field(ge=1)], ...] = ()
    """sizes of the hidden layers"""
    driving: Driving | None = Driving()
    """a sine of the time as further input; null for none"""
    legacy_angle: Switch = False
    """reproduce the original's wrong angle sensor"""
    rate_limit: RateLimit | None = None
    """how fast a control value can change [1/s]; null for any speed"""

    @property
    def used_senses(self) -> tuple[Sense, ...]:
        """The senses with the quantities that are really read."""
        return tuple(sense.legacy for sense in self.senses) if self.legacy_angle else self.senses

    def sizes(self, body: Body) -> tuple[int, ...]:
        """Neurons of every layer, inputs first."""
        voxels = int(body.present.sum())
        return (int(wiring(self.senses, body.present).sum()) + (self.driving is not None) + 1, *self.hidden, voxels)

    def weight_count(self, body: Body) -> int:
        """Number of weights needed."""
        sizes = self.sizes(body)
        return sum(a * b for a, b in pairwise(sizes))

    def check(self, body: Body) -> list[tuple[tuple[str, ...], str]]:
        complaints = check_senses(self.used_senses, body.present)
        needed = self.weight_count(body)
        if len(self.weights) != needed:
            sizes = " x ".join(map(str, self.sizes(body)))
            complaints.append((("weights",), f"{len(self.weights)} given; layers of {sizes} neurons need {needed}"))
        return complaints

    def build(self, body: Body, dtype: jnp.dtype | type = jnp.float32) -> Perceptron:
        return Perceptron(
            layers=spread_weights(
                jnp.asarray(self.weights, dtype),
                self.hidden,
                wiring(self.senses, body.present),
                self.driving is not None,
                body.present,
            ),
            driving=driving_numbers(self.driving, dtype),
            senses=self.used_senses,
            rate_limit=None if self.rate_limit is None else jnp.asarray(self.rate_limit, dtype),
        )


def check_senses(senses: Sequence[Sense], present: np.ndarray) -> list[tuple[tuple[str, ...], str]]:
    """Complaints about senses that voxels of this grid cannot have; present: True where a voxel is or may be."""
    complaints = []
    for i, sense in enumerate(senses):
        known = QUANTITIES[sense.quantity].dimensions
        if present.ndim not in known:
            own = " and ".join(f"{dimension}-D" for dimension in known)
            text = f"{sense.quantity} is only felt in {own}, and this body is in {present.ndim}-D"
            complaints.append((("senses", str(i), "quantity"), text))
        if sense.direction is not None and len(sense.direction) != present.ndim:
            text = f"{len(sense.direction)} numbers given; this body is in {present.ndim}-D and needs {present.ndim}"
            complaints.append((("senses", str(i), "direction"), text))
        for place in sense.voxels or ():
            if not _is_there(place, present):
                complaints.append((("senses", str(i), "voxels"), f"there is no voxel in {place_name(place)}"))
    return complaints


def wiring(senses: Sequence[Sense], present: np.ndarray) -> np.ndarray:
    """True where a voxel has a sense, (*cells, senses); present: True where there is a voxel."""
    wired = np.repeat(present[..., None], len(senses), -1)
    for i, sense in enumerate(senses):
        if sense.voxels is not None:
            chosen = np.zeros_like(present)
            for place in sense.voxels:
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

    wired: which voxels have which senses, (*cells, senses); present: (*cells,). Both are known before tracing; the
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
