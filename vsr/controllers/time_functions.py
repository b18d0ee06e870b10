"""Controllers that only know the time: phase-shifted sines, and sines that drift over the episode.

    sine:         f(t) = A sin(2π ν t + φ)
    development:  f(t) = A sin(2π ν t + φ) + a + (t / T) (b - a)

per voxel, clipped to [-1, 1] when applied (paper, sections 2.3 and 3.2).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import jax
import jax.numpy as jnp
from jax import Array

from vsr.controllers.base import ControllerSpec, PerVoxel, check_grid, grid_array
from vsr.robot import Body
from vsr.sensors import Sensor
from vsr.spec import Seconds


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TimeFunctions:
    """One time function per cell; all arrays of the grid's shape but the duration."""

    amplitude: Array
    """largest control value"""
    frequency: Array
    """[Hz]"""
    phase: Array
    """[rad]"""
    start: Array
    """offset at the start"""
    end: Array
    """offset at the end of development"""
    duration: Array
    """of the development [s], ()"""

    @property
    def sensors(self) -> tuple[Sensor, ...]:
        return ()

    def control(self, time: Array, readings: Array | None) -> Array:
        sinusoid = self.amplitude * jnp.sin(2 * jnp.pi * self.frequency * time + self.phase)
        return sinusoid + self.start + time / self.duration * (self.end - self.start)


class Sine(ControllerSpec):
    """A sine of the time for every voxel, each with its own phase."""

    type: Literal["sine"] = "sine"
    phase: PerVoxel = 0.0
    """[rad]"""
    frequency: PerVoxel = 1.0
    """[Hz]"""
    amplitude: PerVoxel = 1.0
    """largest control value"""
    grids: ClassVar[tuple[str, ...]] = ("phase", "frequency", "amplitude")
    """fields with a value per voxel"""

    def check(self, body: Body) -> list[tuple[tuple[str, ...], str]]:
        return [complaint for name in self.grids for complaint in check_grid(name, getattr(self, name), body)]

    def build(self, body: Body, dtype: jnp.dtype | type = jnp.float32) -> TimeFunctions:
        still = jnp.zeros(body.cells.shape, dtype)
        own = {name: grid_array(getattr(self, name), body, dtype) for name in self.grids}
        return TimeFunctions(**{"start": still, "end": still, **own}, duration=jnp.ones((), dtype))


class Development(Sine):
    """A sine whose offset drifts from start to end over the episode."""

    type: Literal["development"] = "development"  # pyright: ignore[reportIncompatibleVariableOverride]
    start: PerVoxel = 0.0
    """offset at t = 0 (the paper's a)"""
    end: PerVoxel = 0.0
    """offset at t = duration (the paper's b)"""
    duration: Seconds = 60.0
    """[s]"""
    grids: ClassVar[tuple[str, ...]] = (*Sine.grids, "start", "end")
    """fields with a value per voxel"""

    def build(self, body: Body, dtype: jnp.dtype | type = jnp.float32) -> TimeFunctions:
        return replace(super().build(body, dtype), duration=jnp.asarray(self.duration, dtype))
