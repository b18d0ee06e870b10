"""The recurrent controller from genes: its weights, for one body or over the whole grid of bodies that evolve."""

from __future__ import annotations

from typing import Literal

import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import Field

from vsr.controllers import Clock, Recurrent, RecurrentNetwork, check_sensors, wiring
from vsr.controllers.base import clock_numbers
from vsr.controllers.recurrent import Neurons, Unit, kept, spread, weights_needed
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
from vsr.sensors import Sensor


class RecurrentWeights(ControllerEncoding):
    """The weights of a network whose hidden neurons remember, from all voxels' readings to all control values.

    With a body that evolves the network spans the whole grid, as that of `mlp` does.
    """

    type: Literal["recurrent"] = "recurrent"
    sensors: tuple[Sensor, ...] = Field(min_length=1)
    """what every voxel reads"""
    hidden: Neurons = 8
    """neurons that remember"""
    unit: Unit = "elman"
    """how they remember: elman, or gated (minimal gated units)"""
    clock: Clock | None = Clock()
    """a sine of the time as further input; null for none"""
    passive: tuple[str, ...] = ()
    """symbols of materials that are not driven"""
    initial: Range = (-1.0, 1.0)
    """range of the first population's genes"""

    def check(self, body: BodyEncoding) -> Complaints:
        return check_symbols(self.passive, body, "passive") + check_sensors(self.sensors, body.possible)

    def gene_count(self, body: BodyEncoding) -> int:
        wired = wiring(self.sensors, body.possible)
        return weights_needed(self.hidden, self.unit, wired, self.clock is not None, body.possible)

    def sample(self, key: Array, count: int, body: BodyEncoding) -> Array:
        return uniform(key, count, self.gene_count(body), self.initial)

    def build(self, genes: Array, cells: Array, body: BodyEncoding, duration: float) -> RecurrentNetwork:
        inward, gate, outward = self._spread(genes, body)
        active = jnp.asarray(driven(self.passive, body), genes.dtype)[cells].ravel()
        # No weights, no output: tanh(0) = 0.
        return RecurrentNetwork(inward, gate, outward * active, clock_numbers(self.clock, genes.dtype), self.sensors)

    def describe(self, genes: np.ndarray, cells: np.ndarray, body: BodyEncoding, duration: float) -> Recurrent:
        present = cells >= 0
        wired = wiring(self.sensors, present)
        inputs, outputs = kept(self.hidden, wired, self.clock is not None, present)
        inward, gate, outward = (
            None if part is None else np.asarray(part) for part in self._spread(jnp.asarray(genes), body)
        )
        assert inward is not None
        assert outward is not None
        outward = outward * driven(self.passive, body)[cells].ravel().astype(outward.dtype)
        blocks = [inward[inputs], *([] if gate is None else [gate[inputs]]), outward[:, outputs]]
        return Recurrent(
            sensors=tuple(restricted(sensor, present) for sensor in self.sensors),
            weights=tuple(np.concatenate([block.ravel() for block in blocks]).tolist()),
            hidden=self.hidden,
            unit=self.unit,
            clock=self.clock,
        )

    def _spread(self, genes: Array, body: BodyEncoding) -> tuple[Array, Array | None, Array]:
        """Weights as matrices over the whole grid."""
        wired = wiring(self.sensors, body.possible)
        return spread(genes, self.hidden, self.unit, wired, self.clock is not None, body.possible)
