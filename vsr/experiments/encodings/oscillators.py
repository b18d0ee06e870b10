"""Coupled oscillators from genes: a phase bias, a frequency and an amplitude for every voxel, and their coupling."""

from __future__ import annotations

from typing import Literal, TypeVar

import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import field_validator

from vsr.controllers import CoupledOscillators, Oscillators
from vsr.controllers.oscillators import Coupling
from vsr.experiments.encodings.base import (
    FULL_TURN,
    BodyEncoding,
    Complaints,
    ControllerEncoding,
    Range,
    check_symbols,
    driven,
    uniform,
)
from vsr.experiments.encodings.time_functions import drawn
from vsr.spec import Real

Numbers = TypeVar("Numbers", Array, np.ndarray)
PER_VOXEL = ("phase", "frequency", "amplitude")


class EvolvedOscillators(ControllerEncoding):
    """A phase oscillator per voxel: phase biases evolve; so do frequencies, amplitudes and coupling, given ranges.

    Genes of every voxel that can be, row by row from the bottom: its phase, then its frequency, then its amplitude, as
    far as they evolve. The coupling is the last gene.
    """

    type: Literal["oscillators"] = "oscillators"
    frequencies: Range | None = (0.5, 2.0)
    """lowest and highest [Hz], each voxel its own; null for `frequency` in all"""
    frequency: Real = 1.0
    """of all voxels [Hz], if `frequencies` is null"""
    amplitudes: Range | None = (0.0, 1.0)
    """least and greatest, each voxel its own; null for `amplitude` in all"""
    amplitude: Real = 1.0
    """of all voxels, if `amplitudes` is null"""
    couplings: Range | None = None
    """weakest and strongest [1/s], if the coupling evolves too, as one more gene; replaces `coupling`"""
    coupling: Coupling = 2.0
    """how strongly each neighbor pulls [1/s]"""
    passive: tuple[str, ...] = ()
    """symbols of materials that are not driven; their oscillators pull all the same"""
    initial: Range = FULL_TURN
    """range of the first population's genes; it stands for the whole of every range above"""

    @field_validator("couplings")
    @classmethod
    def _within(cls, bounds: tuple[float, float] | None) -> tuple[float, float] | None:
        if bounds is not None and not (bounds[0] >= 0 and bounds[1] <= 20):
            raise ValueError("couplings are from 0 to 20 1/s")
        return bounds

    def check(self, body: BodyEncoding) -> Complaints:
        return check_symbols(self.passive, body, "passive")

    @property
    def _ranges(self) -> dict[str, tuple[float, float] | None]:
        """Meaning of a voxel's genes, in their order: the range of their values, None for the gene itself."""
        evolved = {"frequency": self.frequencies, "amplitude": self.amplitudes}
        return {"phase": None, **{name: bounds for name, bounds in evolved.items() if bounds is not None}}

    def gene_count(self, body: BodyEncoding) -> int:
        return int(body.possible.sum()) * len(self._ranges) + (self.couplings is not None)

    def sample(self, key: Array, count: int, body: BodyEncoding) -> Array:
        return uniform(key, count, self.gene_count(body), self.initial)

    def build(self, genes: Array, cells: Array, body: BodyEncoding, duration: float) -> CoupledOscillators:
        of_voxels, coupling = self._read(genes)
        active = jnp.asarray(driven(self.passive, body), genes.dtype)[cells]
        grids = {name: jnp.full(cells.shape, getattr(self, name, 0.0), genes.dtype) for name in PER_VOXEL}
        grids |= {name: grids[name].at[body.possible].set(values) for name, values in of_voxels.items()}
        return CoupledOscillators(
            **{**grids, "amplitude": grids["amplitude"] * active},
            coupling=jnp.asarray(coupling, genes.dtype),
            present=(cells >= 0).astype(genes.dtype),
        )

    def describe(self, genes: np.ndarray, cells: np.ndarray, body: BodyEncoding, duration: float) -> Oscillators:
        of_voxels, coupling = self._read(genes)
        grids = {name: np.full(cells.shape, getattr(self, name, 0.0)) for name in PER_VOXEL}
        for name, values in of_voxels.items():
            grids[name][body.possible] = values
        grids["amplitude"] = grids["amplitude"] * driven(self.passive, body)[cells]
        phase, frequency, amplitude = (drawn(grids[name], cells) for name in PER_VOXEL)
        return Oscillators(phase=phase, frequency=frequency, amplitude=amplitude, coupling=float(coupling))

    def _read(self, genes: Numbers) -> tuple[dict[str, Numbers], Numbers | float]:
        """Numbers of all voxels by name, (voxels,) each, and the coupling [1/s].

        The initial range of a gene is the whole range of its value; genes beyond it count as its ends.
        """
        coupling = self.coupling
        if self.couplings is not None:
            genes, coupling = genes[:-1], self._within_range(genes[-1], self.couplings)
        columns = genes.reshape(-1, len(self._ranges))
        return {
            name: columns[:, i] if bounds is None else self._within_range(columns[:, i], bounds)
            for i, (name, bounds) in enumerate(self._ranges.items())
        }, coupling

    def _within_range(self, genes: Numbers, bounds: tuple[float, float]) -> Numbers:
        (first, last), (lowest, highest) = self.initial, bounds
        return (lowest + (highest - lowest) / (last - first) * (genes - first)).clip(lowest, highest)
