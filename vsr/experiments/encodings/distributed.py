"""The distributed controller from genes: the weights of the network that all voxels share, whatever the body."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import Field

from vsr.controllers import Clock, Distributed, VoxelNetworks, check_sensors
from vsr.controllers.base import clock_numbers
from vsr.controllers.distributed import Hidden, Signals, layers_of, network_sizes
from vsr.experiments.encodings.base import (
    BodyEncoding,
    Complaints,
    ControllerEncoding,
    Range,
    check_symbols,
    driven,
    restricted,
    uniform,
)
from vsr.experiments.encodings.time_functions import drawn
from vsr.sensors import Sensor


class DistributedWeights(ControllerEncoding):
    """The weights of one network that all voxels share; neighbors send each other messages.

    As many genes for small bodies as for large ones.
    """

    type: Literal["distributed"] = "distributed"
    sensors: tuple[Sensor, ...] = Field(min_length=1)
    """what every voxel reads"""
    signals: Signals = 1
    """numbers sent to each neighbor at every call, read by it at the next"""
    hidden: Hidden = ()
    """sizes of the hidden layers"""
    clock: Clock | None = Clock()
    """a sine of the time as further input; null for none"""
    passive: tuple[str, ...] = ()
    """symbols of materials that are not driven; they pass messages on"""
    initial: Range = (-1.0, 1.0)
    """range of the first population's genes"""

    def check(self, body: BodyEncoding) -> Complaints:
        return check_symbols(self.passive, body, "passive") + check_sensors(self.sensors, body.possible)

    def _sizes(self, body: BodyEncoding) -> tuple[int, ...]:
        return network_sizes(len(self.sensors), self.signals, self.hidden, self.clock is not None, body.dimension)

    def gene_count(self, body: BodyEncoding) -> int:
        return sum(a * b for a, b in pairwise(self._sizes(body)))

    def sample(self, key: Array, count: int, body: BodyEncoding) -> Array:
        return uniform(key, count, self.gene_count(body), self.initial)

    def build(self, genes: Array, cells: Array, body: BodyEncoding, duration: float) -> VoxelNetworks:
        return VoxelNetworks(
            layers=layers_of(genes, self._sizes(body)),
            clock=clock_numbers(self.clock, genes.dtype) if self.clock else None,
            amplitude=jnp.asarray(driven(self.passive, body), genes.dtype)[cells],
            present=(cells >= 0).astype(genes.dtype),
            sensors=self.sensors,
            signals=self.signals,
        )

    def describe(self, genes: np.ndarray, cells: np.ndarray, body: BodyEncoding, duration: float) -> Distributed:
        return Distributed(
            sensors=tuple(restricted(sensor, cells >= 0) for sensor in self.sensors),
            weights=tuple(np.asarray(genes).tolist()),
            signals=self.signals,
            hidden=self.hidden,
            clock=self.clock,
            amplitude=drawn(driven(self.passive, body)[cells], cells) if self.passive else 1.0,
        )
