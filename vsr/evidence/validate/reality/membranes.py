"""Membranes clamped all around and inflated by gas, against measured heights of the bulge.

Walmsley et al. (2007) pressed gas under silicon nitride films over square and rectangular windows
and fitted pressure over height. Here a sheet of springs closes a chamber with that pressure. Springs make a sheet of
Poisson's ratio 1/3; the film's is near 1/4. Bending is left out: the films are 3,000 times as wide as thick.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.vector import split
from vsr.evidence.validate.checks import Findings, relative
from vsr.evidence.validate.reality.published import published
from vsr.lattice import Lattice
from vsr.lattice.graph import of_graph
from vsr.lattice.springs import potential_energy
from vsr.physics.fluid import Filling, surface_of
from vsr.physics.fluid.contents import Contents
from vsr.physics.statics import equilibrium
from vsr.physics.statics.newton import matrix_free
from vsr.scene import precision

CELLS = 24
"""Across the width of a window."""
PRESSURES = (100.0, 300.0, 500.0, 700.0, 900.0)
"""[Pa], over the range that was measured."""
MICRO = 1e-6


class Film(NamedTuple):
    """A film over a window; SI units."""

    width: float
    length: float
    thickness: float
    young_modulus: float
    stress: float
    """of the flat film, the same in all directions"""


class Sheet(NamedTuple):
    """A film as springs, and the chamber that it closes."""

    lattice: Lattice
    chamber: Any
    clamped: np.ndarray


def sheet_of(film: Film, cells: int = CELLS) -> Sheet:
    """Cells of four edges and two diagonals, of the film's stiffness and stress; the rim is clamped."""
    side = film.width / cells
    nodes = cells + 1, round(film.length / side) + 1
    number = np.arange(nodes[0] * nodes[1]).reshape(nodes)
    flat = np.stack([part.ravel() for part in np.meshgrid(*map(np.arange, nodes), indexing="ij")], 1) * side
    below = np.array([[film.width / 2, film.length / 2, -film.width / 2]])
    position = np.concatenate([np.pad(flat, ((0, 0), (0, 1))), below])

    edges = [(number[:-1], number[1:]), (number[:, :-1], number[:, 1:])]
    diagonals = [(number[:-1, :-1], number[1:, 1:]), (number[1:, :-1], number[:-1, 1:])]
    pairs = [np.stack([part.ravel() for part in ends], 1) for ends in (*edges, *diagonals)]
    count = [len(part) for part in pairs]
    rigidity = film.young_modulus * film.thickness  # isotropic if diagonals are half as stiff as edges
    stiffness = rigidity * np.repeat([0.75, 0.75, 0.375, 0.375], count)
    ends = np.concatenate(pairs)
    apart = np.linalg.norm(position[ends[:, 1]] - position[ends[:, 0]], axis=1)
    strain = film.stress * (1 - 1 / 3) / film.young_modulus

    clamped = np.ones(nodes, bool)
    clamped[1:-1, 1:-1] = False
    clamped = np.append(clamped.ravel(), True)
    lattice = of_graph(
        position,
        ends,
        stiffness=stiffness,
        rest_length=apart * (1 - strain),
        mass=1.0,
        anchored=clamped,
        dtype=jnp.float64,
    )
    rim = np.concatenate([number[:, 0], number[-1, 1:], number[-2::-1, -1], number[0, -2:0:-1]])
    base = len(position) - 1
    fan = np.stack([np.full(len(rim), base), np.roll(rim, -1), rim], 1)
    low, right, up, corner = number[:-1, :-1], number[1:, :-1], number[:-1, 1:], number[1:, 1:]
    faces = [np.stack([part.ravel() for part in three], 1) for three in ((low, right, corner), (low, corner, up))]
    chamber = surface_of(np.concatenate([*faces, fan]), len(position), dtype=np.float64)
    return Sheet(lattice, chamber, clamped)


def _energy(position: Array, given: tuple[Lattice, Contents]) -> Array:
    """Of springs and of gas under pressure [J], ()."""
    lattice, gas = given
    return potential_energy(lattice.springs, split(position, 1), jnp.zeros(())) + gas.energy(position, 0.0)


SYSTEM = matrix_free(_energy)


@jax.jit
def _bulge(start: Array, free: Array, given: tuple[Lattice, Contents], width: float) -> tuple[Array, Array]:
    """Where the sheet rests, and whether that was found."""
    found = equilibrium(SYSTEM, start, free, given, size=width)
    return found.position, found.converged


def heights(film: Film, pressures: tuple[float, ...] = PRESSURES, cells: int = CELLS) -> np.ndarray:
    """Of the middle of the bulge at each pressure [m]."""
    sheet = sheet_of(film, cells)
    free = jnp.broadcast_to(jnp.asarray(~sheet.clamped, float)[:, None], sheet.lattice.rest_position.shape)

    place, risen = sheet.lattice.rest_position, []
    for pressure in pressures:
        gas = Contents(sheet.chamber, Filling(jnp.array([pressure]), jnp.zeros(1), jnp.zeros(1)))
        place, converged = _bulge(place, free, (sheet.lattice, gas), film.width)
        risen.append(float(place[:, 2].max()) if bool(converged) else float("nan"))
    return np.array(risen)


def measured_height(pressure: float, a: float, b: float) -> float:
    """Height h [m] where a h + b h³ is a pressure [Pa]; a [kPa/µm], b [kPa/µm³]."""
    roots = np.roots([b, 0, a, -pressure / 1000])
    return float(roots[np.abs(roots.imag) < 1e-9].real[0]) * MICRO


def check_membranes(cells: int = CELLS // 2) -> Findings:
    """Four films at five pressures; the uncertainty is that of the films' modulus and stress."""
    data = published()["membranes"]
    findings = Findings()
    for film in data["films"]:
        (modulus, modulus_off), (stress, stress_off) = film["young_modulus"], film["stress"]
        width, length, thickness = (MICRO * size for size in (data["width"], film["length"], film["thickness"]))
        given = Film(width, length, thickness, modulus * 1e9, stress * 1e6)
        soft = given._replace(young_modulus=(modulus - modulus_off) * 1e9)
        slack = given._replace(stress=(stress - stress_off) * 1e6)
        with precision("float64"):
            here, soft, slack = (heights(one, PRESSURES, cells) for one in (given, soft, slack))
        there = np.array([measured_height(pressure, film["a"], film["b"]) for pressure in PRESSURES])
        spread = np.hypot(soft - here, slack - here)
        note = f"{cells} cells across; uncertain by the measured modulus and stress of the film"
        for number in (0, len(PRESSURES) - 1):
            off = spread[number] / there[number]
            name = f"{film['name']}: height at {PRESSURES[number]:g} Pa"
            findings.rows.append(relative(name, here[number] / MICRO, there[number] / MICRO, 0.05 + off, "um", note))
        findings.series[f"membrane_{film['name']}"] = {
            "pressure": list(PRESSURES),
            "here": (here / MICRO).tolist(),
            "spread": (spread / MICRO).tolist(),
            "published": (there / MICRO).tolist(),
        }
    return findings
