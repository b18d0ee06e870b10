"""The driving value: a sine of the time as one more input of a network."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax import Array

from vsr.spec import Real, Spec


class Clock(Spec):
    """A sine of the time as one more input."""

    frequency: Real = 1.0
    """[Hz]"""
    amplitude: Real = 1.0
    """largest input"""
    phase: Real = 0.0
    """[rad]"""


def clock_numbers(clock: Clock | None, dtype: Any) -> Array:
    """Frequency [Hz], amplitude and phase [rad], (3,); an amplitude of 0 for none."""
    sine = clock or Clock(frequency=0.0, amplitude=0.0)
    return jnp.asarray([sine.frequency, sine.amplitude, sine.phase], dtype)


def clock_value(numbers: Array, time: Array) -> Array:
    """The input at a time [s], (); numbers: as above."""
    frequency, amplitude, phase = numbers
    return amplitude * jnp.sin(2 * jnp.pi * frequency * time + phase)
