"""The distributed controller from genes: the weights of the network that all voxels share, whatever the body."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import Field

from vsr.controllers import Distributed, Driving, VoxelNetworks, check_senses
from vsr.controllers.distributed import Hidden, Signals, layers_of, network_sizes
from vsr.controllers.driving import driving_numbers
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
from vsr.sensors import Sense


class DistributedWeights(ControllerEncoding):
    """The weights of one network that all voxels share; neighbours send each other messages.

    As many genes for small bodies as for large ones.
    """

    type: Literal["distributed"] = "distributed"
    senses: tuple[Sense, ...] = Field(min_length=1)
    """what every voxel reads"""
    signals: Signals = 1
    """numbers sent to each neighbour at every call, read by it at the next"""
    hidden: Hidden = ()
    """sizes of the hidden layers"""
    driving: Driving | None = Driving()
    """a sine of the time as further input; null for none"""
    passive: tuple[str, ...] = ()
    """symbols of materials that are not driven; they pass messages on"""
    initial: Range = (-1.0, 1.0)
    """range of the first population's genes"""

    def check(self, body: BodyEncoding) -> Complaints:
        return check_symbols(self.passive, body, "passive") + check_senses(self.senses, body.possible)

    def _sizes(self, body: BodyEncoding) -> tuple[int, ...]:
        return network_sizes(len(self.senses), self.signals, self.hidden, self.driving is not None, body.dimension)

    def gene_count(self, body: BodyEncoding) -> int:
        return sum(a * b for a, b in pairwise(self._sizes(body)))

    def sample(self, key: Array, count: int, body: BodyEncoding) -> Array:
        return uniform(key, count, self.gene_count(body), self.initial)

    def build(self, genes: Array, cells: Array, body: BodyEncoding, duration: float) -> VoxelNetworks:
        return VoxelNetworks(
            layers=layers_of(genes, self._sizes(body)),
            driving=driving_numbers(self.driving, genes.dtype) if self.driving else None,
            amplitude=jnp.asarray(driven(self.passive, body), genes.dtype)[cells],
            present=(cells >= 0).astype(genes.dtype),
            senses=self.senses,
            signals=self.signals,
        )

    def describe(self, genes: np.ndarray, cells: np.ndarray, body: BodyEncoding, duration: float) -> Distributed:
        return Distributed(
            senses=tuple(restricted(sense, cells >= 0) for sense in self.senses),
            weights=tuple(np.asarray(genes).tolist()),
            signals=self.signals,
            hidden=self.hidden,
            driving=self.driving,
            amplitude=drawn(driven(self.passive, body)[cells], cells) if self.passive else 1.0,
        )
