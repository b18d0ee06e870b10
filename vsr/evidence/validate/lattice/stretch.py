"""Moduli of the lattice: a block pulled along an edge, against the formulas.

The left face slides on a wall, the right one is drawn as its cells' faces share the load, all else is free. Assembled
voxel by voxel, such a block stretches evenly, so the formulas for an endless lattice hold at any size.
"""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np

from vsr.evidence.validate.checks import Findings, relative
from vsr.evidence.validate.lattice.bar import end_load, relax, resting
from vsr.lattice import Environment, Lattice, Stiffness, isotropic, of_cells
from vsr.lattice.moduli import poisson_ratio, young_modulus

CELLS = 4
SIDE, DENSITY = 0.01, 1000.0
STRAIN = 1e-4
SOFT = 1e4
"""[N/m]"""
TOLERANCE = 1e-3
CONSTANTS = {
    "isotropic": isotropic(4e6, SIDE, 3),
    "equal springs": Stiffness(SOFT, SOFT, SOFT),
    "k ∝ 1/length": Stiffness(SOFT, SOFT / 2**0.5, SOFT / 3**0.5),
    "no space diagonals": Stiffness(SOFT, SOFT),
}


def sliding_block(springs: Stiffness) -> Lattice:
    """A cube whose left face can move only along its wall."""
    lattice = of_cells(np.ones((CELLS,) * 3, bool), SIDE, springs, DENSITY, dtype=jnp.float64)
    freedom = np.broadcast_to(np.eye(3), (*lattice.mass.shape, 3, 3)).copy()
    freedom[..., 0, 0, 0] = 0
    return replace(lattice, freedom=jnp.asarray(freedom))


def measured_moduli(springs: Stiffness) -> tuple[float, float]:
    """Young's modulus [Pa] and Poisson's ratio of a small static stretch."""
    lattice = sliding_block(springs)
    guess = young_modulus(springs, SIDE, 3)
    span = CELLS * SIDE
    stress = STRAIN * guess
    around = Environment(gravity=jnp.asarray(0.0), load=end_load(lattice, (stress * span**2, 0.0, 0.0)))
    position = np.asarray(relax(lattice, around, resting(lattice)).state.position)
    length = position[..., -1, 0].mean() - position[..., 0, 0].mean()
    width = position[:, -1, :, 1].mean() - position[:, 0, :, 1].mean()
    strain = length / span - 1
    return float(stress / strain), float(-(width / span - 1) / strain)


def check_moduli() -> Findings:
    """Four choices of spring constants."""
    findings = Findings()
    for name, springs in CONSTANTS.items():
        modulus, ratio = measured_moduli(springs)
        expected = young_modulus(springs, SIDE, 3) / 1e6
        findings.rows.append(relative(f"Young's modulus, {name}", modulus / 1e6, expected, TOLERANCE, "MPa"))
        findings.rows.append(relative(f"Poisson's ratio, {name}", ratio, poisson_ratio(springs, SIDE, 3), TOLERANCE))
    return findings
