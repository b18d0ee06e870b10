"""Chambers of a body of voxels as arrays."""

from __future__ import annotations

from dataclasses import dataclass

import jax
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
    """The chambers of one body; m places, some of which may be empty, c the axes of cells, n those of nodes."""

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
