"""Chambers as arrays, and the law of pump and fluid: pressure at the port as a function of drive and volume.

The drive of a chamber is a pressure [Pa], or a volume [m³] that the fluid would have by itself. With V the chamber's
volume, V₀ that at rest, and outside pressure p₀:

    pressure driven   p = drive
    liquid by volume  p = K (drive - V) / V₀
    gas by volume     p = p₀ (drive / V - 1)

Pressures end at the limits, as at a relief valve. Where pressure is driven and the added volume has limits, K holds
those. The energy's derivative by the volume is -p, so that equilibria are its minima. All arrays are (chambers, ...).
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class FluidNumbers:
    """What fluids are and how they are driven; one array a number, of materials or of chambers. SI units."""

    density: Array
    """[kg/m³]"""
    port: Array
    """height in the world at which the pressure is that of the pump [m]"""
    by_volume: Array
    """1 where volume is driven, 0 where pressure is"""
    is_gas: Array
    """1 for a gas"""
    low_pressure: Array
    """[Pa], hugely negative where there is no limit"""
    high_pressure: Array
    """[Pa], huge likewise"""
    low_added: Array
    """volume over that at rest, hugely negative where there is no limit"""
    high_added: Array
    """likewise"""
    bulk_modulus: Array
    """[Pa]"""
    outside_pressure: Array
    """[Pa]"""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Chambers:
    """The chambers of one body; capacity m, some of which may be empty, c the axes of cells, n those of nodes."""

    member: Array
    """1 for the voxels of each chamber, (m, c)"""
    walls: Array
    """1 for faces of fluid voxels that bound their chamber, in the order of `SIDES`, (faces, c)"""
    numbers: FluidNumbers
    """of each chamber, (m,)"""
    rest_volume: Array
    """[m³], 0 for an empty place, (m,)"""
    depth: Array
    """of a 2-D body across its plane [m], (); 1 in 3-D"""
    fluid_mass: Array
    """of the fluid that nodes carry along; its weight acts through the walls [kg], (layers, n)"""
    follows: Array
    """1 for nodes amid the fluid, which have no mass and go where their neighbors go, (layers, n)"""
    leaks: Array
    """whether a face to the outside has no membrane, ()"""


NO_LIMIT = 1e30
"""Stands for infinity, which times an empty chamber's volume would not be a number."""
LEAST_VOLUME = 1e-3
"""Of a gas, over that at rest: less is not a chamber any more."""


def drive_of(numbers: FluidNumbers, rest_volume: Array, control: Array) -> Array:
    """The drive under control values: -1 is the highest, 0 none and 1 the lowest."""
    volume = rest_volume * (1 + _between(control, numbers.low_added, numbers.high_added))
    return jnp.where(numbers.by_volume > 0, volume, _between(control, numbers.low_pressure, numbers.high_pressure))


def _between(control: Array, low: Array, high: Array) -> Array:
    return jnp.maximum(-control, 0) * high + jnp.maximum(control, 0) * low


def pressure(numbers: FluidNumbers, rest_volume: Array, drive: Array, volume: Array) -> Array:
    """At the port, above that outside [Pa]."""
    rest = _not_nothing(rest_volume)
    by_fluid = jnp.clip(_of_fluid(numbers, rest, drive, volume), numbers.low_pressure, numbers.high_pressure)
    over, under = _beyond(numbers, rest, volume)
    by_pump = drive + numbers.bulk_modulus * (under - over) / rest
    return jnp.where(rest_volume > 0, jnp.where(numbers.by_volume > 0, by_fluid, by_pump), 0)


def energy(numbers: FluidNumbers, rest_volume: Array, drive: Array, volume: Array) -> Array:
    """Of pump and fluid without its weight [J]: minus its derivative by the volume is the pressure."""
    rest = _not_nothing(rest_volume)
    # Beyond the volume at which the pressure reaches a limit, it stays.
    smallest = _volume_at(numbers, rest, drive, numbers.high_pressure)
    largest = _volume_at(numbers, rest, drive, numbers.low_pressure)
    within = jnp.clip(volume, smallest, largest)
    held = jnp.clip(_of_fluid(numbers, rest, drive, within), numbers.low_pressure, numbers.high_pressure)
    by_fluid = _stored(numbers, rest, drive, within) - held * (volume - within)
    over, under = _beyond(numbers, rest, volume)
    by_pump = -drive * volume + numbers.bulk_modulus * (over**2 + under**2) / (2 * rest)
    return jnp.where(rest_volume > 0, jnp.where(numbers.by_volume > 0, by_fluid, by_pump), 0)


def _of_fluid(numbers: FluidNumbers, rest: Array, drive: Array, volume: Array) -> Array:
    """Pressure of what is driven by volume, without limits [Pa]."""
    gas = numbers.outside_pressure * (drive / jnp.maximum(volume, LEAST_VOLUME * rest) - 1)
    return jnp.where(numbers.is_gas > 0, gas, numbers.bulk_modulus * (drive - volume) / rest)


def _stored(numbers: FluidNumbers, rest: Array, drive: Array, volume: Array) -> Array:
    """Energy of what is driven by volume, without limits; 0 at the volume it would have by itself [J]."""
    squeezed = numbers.bulk_modulus * (drive - volume) ** 2 / (2 * rest)
    left, given = jnp.maximum(volume, LEAST_VOLUME * rest), jnp.maximum(drive, LEAST_VOLUME * rest)
    gas = numbers.outside_pressure * (left - given - given * jnp.log(left / given))
    return jnp.where(numbers.is_gas > 0, gas, squeezed)


def _volume_at(numbers: FluidNumbers, rest: Array, drive: Array, pressure: Array) -> Array:
    """At which what is driven by volume has a pressure [m³]."""
    ratio = 1 + pressure / numbers.outside_pressure
    gas = jnp.where(ratio > 0, drive / jnp.where(ratio > 0, ratio, 1), NO_LIMIT)
    liquid = drive - jnp.clip(pressure, -NO_LIMIT, NO_LIMIT) / numbers.bulk_modulus * rest
    return jnp.where(numbers.is_gas > 0, gas, liquid)


def _beyond(numbers: FluidNumbers, rest: Array, volume: Array) -> tuple[Array, Array]:
    """By how much a volume is over and under its limits [m³]."""
    over = jnp.maximum(volume - rest * (1 + numbers.high_added), 0)
    under = jnp.maximum(rest * (1 + numbers.low_added) - volume, 0)
    return over, under


def _not_nothing(rest_volume: Array) -> Array:
    return jnp.where(rest_volume > 0, rest_volume, 1)
