"""Coupled phase oscillators, one in every voxel, each pulled by those at its sides (Kuramoto's model on the body):

    dθ_i/dt = 2π ν_i + K sum over neighbors j of sin(θ_j - θ_i - (φ_j - φ_i)),    control: A_i sin θ_i

from θ_i = φ_i at the beginning. With one frequency for all, every voxel goes on at its phase bias φ, as under `sine`.
Oscillators of different frequencies pull each other along: with a coupling K that is strong enough they keep step at
their mean frequency, else they drift past each other. Between two calls the phases take four Runge-Kutta steps.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from pydantic import Field

from vsr.controllers.base import ControllerSpec, PerVoxel, check_grid, from_neighbors, grid_array, sides
from vsr.robot import Body
from vsr.sensors import Sensor
from vsr.spec import Real

STEPS = 4
"""Integration steps between two calls."""
Coupling = Annotated[Real, Field(ge=0, le=20)]
"""How strongly a neighbor pulls [1/s]."""


class Phases(NamedTuple):
    """What oscillators remember."""

    ahead: Array
    """phases without their biases, θ - φ [rad], *cells"""
    time: Array
    """of the last call [s], ()"""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class CoupledOscillators:
    """One oscillator per cell; all arrays of the grid's shape but the coupling."""

    amplitude: Array
    """largest control value"""
    frequency: Array
    """[Hz]"""
    phase: Array
    """bias φ [rad]"""
    coupling: Array
    """K [1/s], ()"""
    present: Array
    """1 where there is a voxel, else 0"""

    @property
    def sensors(self) -> tuple[Sensor, ...]:
        return ()

    def first_memory(self) -> Phases:
        return Phases(jnp.zeros_like(self.phase), jnp.zeros((), self.phase.dtype))

    def decide(self, memory: Phases, time: Array, readings: Array | None) -> tuple[Array, Phases]:
        step = (time - memory.time) / STEPS

        def advanced(_: Array, ahead: Array) -> Array:
            first = self.rate(ahead)
            second = self.rate(ahead + step / 2 * first)
            third = self.rate(ahead + step / 2 * second)
            last = self.rate(ahead + step * third)
            return ahead + step / 6 * (first + 2 * second + 2 * third + last)

        ahead = jax.lax.fori_loop(0, STEPS, advanced, memory.ahead)
        ahead = ahead - 2 * jnp.pi * jnp.round(ahead / (2 * jnp.pi))  # small numbers keep their digits
        return self.amplitude * jnp.sin(ahead + self.phase), Phases(ahead, time)

    def rate(self, ahead: Array) -> Array:
        """How fast phases advance [rad/s], *cells."""
        # Two functions of every phase, rather than one of every difference.
        sine, cosine = self.present * jnp.sin(ahead), self.present * jnp.cos(ahead)
        ways = sides(ahead.ndim)
        sines, cosines = (sum(from_neighbors(part, *way) for way in ways) for part in (sine, cosine))
        return 2 * jnp.pi * self.frequency + self.coupling * (sines * cosine - cosines * sine)


class Oscillators(ControllerSpec):
    """A phase oscillator in every voxel, pulled along by those of its neighbors."""

    type: Literal["oscillators"] = "oscillators"
    phase: PerVoxel = 0.0
    """bias: the phase to which neighbors pull each other, and at which it starts [rad]"""
    frequency: PerVoxel = 1.0
    """of its own [Hz]"""
    amplitude: PerVoxel = 1.0
    """largest control value"""
    coupling: Coupling = 2.0
    """how strongly each neighbor pulls [1/s]; 0 for oscillators on their own"""
    grids: ClassVar[tuple[str, ...]] = ("phase", "frequency", "amplitude")
    """fields with a value per voxel"""

    def check(self, body: Body) -> list[tuple[tuple[str, ...], str]]:
        return [complaint for name in self.grids for complaint in check_grid(name, getattr(self, name), body)]

    def build(self, body: Body, dtype: jnp.dtype | type = jnp.float32) -> CoupledOscillators:
        own = {name: grid_array(getattr(self, name), body, dtype) for name in self.grids}
        return CoupledOscillators(
            **own, coupling=jnp.asarray(self.coupling, dtype), present=jnp.asarray(body.present, dtype)
        )
