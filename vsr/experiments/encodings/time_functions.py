"""Controllers of time alone from genes: phases, development, and drives fixed by material."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, Literal, TypeVar

import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.controllers import Development, Sine, TimeFunctions
from vsr.controllers.base import ControllerSpec
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
from vsr.spec import Real, Seconds, Spec

Numbers = TypeVar("Numbers", Array, np.ndarray)


class Drive(Spec):
    """How all voxels of one material are driven."""

    frequency: Real = 1.0
    """[Hz]"""
    amplitude: Real = 1.0
    """largest control value; 0 for a passive material"""
    phase: Real = 0.0
    """[rad]"""


PAPER_DRIVES = {"h": Drive(amplitude=0.0), "s": Drive(amplitude=0.0), "a": Drive(), "b": Drive(frequency=-1.0)}


class SineByMaterial(ControllerEncoding):
    """Every material has its own sine; nothing of it evolves, so the body is all that does."""

    type: Literal["sine_by_material"] = "sine_by_material"
    drives: dict[str, Drive] = PAPER_DRIVES
    """by the material's symbol; one that is not named is passive"""

    def check(self, body: BodyEncoding) -> Complaints:
        return check_symbols(tuple(self.drives), body, "drives")

    def gene_count(self, body: BodyEncoding) -> int:
        return 0

    def sample(self, key: Array, count: int, body: BodyEncoding) -> Array:
        return jnp.zeros((count, 0))

    def build(self, genes: Array, cells: Array, body: BodyEncoding, duration: float) -> TimeFunctions:
        still = jnp.zeros(cells.shape, genes.dtype)
        own = {name: jnp.asarray(self._column(body, name), genes.dtype)[cells] for name in Drive.model_fields}
        return TimeFunctions(**own, start=still, end=still, duration=jnp.ones((), genes.dtype))

    def describe(self, genes: np.ndarray, cells: np.ndarray, body: BodyEncoding, duration: float) -> Sine:
        frequency, amplitude, phase = (
            drawn(self._column(body, name)[cells], cells) for name in ("frequency", "amplitude", "phase")
        )
        return Sine(frequency=frequency, amplitude=amplitude, phase=phase)

    def _column(self, body: BodyEncoding, name: str) -> np.ndarray:
        """One of the drives' numbers for every material, (materials,)."""
        passive = Drive(amplitude=0.0)
        return np.array([getattr(self.drives.get(symbol, passive), name) for symbol in body.materials])


class _EvolvedTimeFunctions(ControllerEncoding):
    """Genes for every voxel that can be, row by row from the bottom: as many as there are `evolved` numbers.

    The frequency of all voxels may be one more gene, the last.
    """

    frequency: Real = 1.0
    """of all voxels [Hz]"""
    frequencies: Range | None = None
    """lowest and highest [Hz], if the frequency of all voxels evolves too, as one more gene; replaces `frequency`"""
    amplitude: Real = 1.0
    """largest control value of the sine"""
    passive: tuple[str, ...] = ()
    """symbols of materials that are not driven"""
    initial: Range = FULL_TURN
    """range of the first population's genes"""
    evolved: ClassVar[tuple[str, ...]]
    """meaning of a voxel's genes, in their order"""

    def check(self, body: BodyEncoding) -> Complaints:
        return check_symbols(self.passive, body, "passive")

    def gene_count(self, body: BodyEncoding) -> int:
        return int(body.possible.sum()) * len(self.evolved) + (self.frequencies is not None)

    def sample(self, key: Array, count: int, body: BodyEncoding) -> Array:
        return uniform(key, count, self.gene_count(body), self.initial)

    def build(self, genes: Array, cells: Array, body: BodyEncoding, duration: float) -> TimeFunctions:
        per_voxel, frequency = self._read(genes)
        active = jnp.asarray(driven(self.passive, body), genes.dtype)[cells]
        still = jnp.zeros(cells.shape, genes.dtype)
        grids = {name: still.at[body.possible].set(per_voxel[:, i]) * active for i, name in enumerate(self.evolved)}
        return TimeFunctions(
            **{"start": still, "end": still, **grids},
            amplitude=self.amplitude * active,
            frequency=jnp.full(cells.shape, frequency, genes.dtype),
            duration=jnp.asarray(self._lifetime(duration), genes.dtype),
        )

    def describe(self, genes: np.ndarray, cells: np.ndarray, body: BodyEncoding, duration: float) -> ControllerSpec:
        per_voxel, frequency = self._read(genes)
        active = driven(self.passive, body)[cells]
        grids = {}
        for i, name in enumerate(self.evolved):
            grid = np.zeros(cells.shape)
            grid[body.possible] = per_voxel[:, i]
            grids[name] = drawn(grid * active, cells)
        return self._described(float(frequency), drawn(self.amplitude * active, cells), grids, duration)

    def _read(self, genes: Numbers) -> tuple[Numbers, Numbers | float]:
        """The voxels' numbers, (voxels, evolved), and the frequency of all [Hz].

        The initial range of the gene is the range of frequencies; genes beyond it count as its ends.
        """
        if self.frequencies is None:
            return genes.reshape(-1, len(self.evolved)), self.frequency
        (first, last), (lowest, highest) = self.initial, self.frequencies
        frequency = lowest + (highest - lowest) / (last - first) * (genes[-1] - first)
        return genes[:-1].reshape(-1, len(self.evolved)), frequency.clip(lowest, highest)

    def _lifetime(self, duration: float) -> float:
        return 1.0

    @abstractmethod
    def _described(
        self, frequency: float, amplitude: tuple, grids: dict[str, tuple], duration: float
    ) -> ControllerSpec: ...


class EvolvedSine(_EvolvedTimeFunctions):
    """A sine per voxel whose phase evolves."""

    type: Literal["sine"] = "sine"
    evolved: ClassVar[tuple[str, ...]] = ("phase",)

    def _described(self, frequency: float, amplitude: tuple, grids: dict[str, tuple], duration: float) -> Sine:
        return Sine(frequency=frequency, amplitude=amplitude, phase=grids["phase"])


class EvolvedDevelopment(_EvolvedTimeFunctions):
    """A sine per voxel whose phase evolves, as do the offsets between which it drifts over the episode."""

    type: Literal["development"] = "development"
    duration: Seconds | None = None
    """of the drift [s]; by default the task's duration"""
    evolved: ClassVar[tuple[str, ...]] = ("phase", "start", "end")

    def _lifetime(self, duration: float) -> float:
        return duration if self.duration is None else self.duration

    def _described(self, frequency: float, amplitude: tuple, grids: dict[str, tuple], duration: float) -> Development:
        return Development(
            frequency=frequency,
            amplitude=amplitude,
            phase=grids["phase"],
            start=grids["start"],
            end=grids["end"],
            duration=self._lifetime(duration),
        )


def drawn(grid: np.ndarray, cells: np.ndarray) -> tuple:
    """A grid of numbers as files have it: top row (in 3-D top level) first, nothing in empty cells."""
    if cells.ndim == 1:
        return tuple(value if index >= 0 else None for value, index in zip(grid.tolist(), cells, strict=True))
    return tuple(drawn(*part) for part in zip(grid[::-1], cells[::-1], strict=True))
