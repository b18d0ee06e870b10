"""Marchal's silicone cylinder: clamped at one end, lying horizontally, sagging; scanned by CT.

M. Marchal, J. Allard, C. Duriez, S. Cotin, "Towards a framework for assessing deformable models in medical simulation",
2008 (the truth cube's and truth cylinder's data); Cronos uses the same. The scanned silicone is nearly incompressible
(Poisson's ratio 0.49) where a lattice of springs has 1/4, and its modulus of 60 kPa makes even the exact elastica sag
too far; so the lattice's Young's modulus is calibrated on the scanned centreline, as Cronos' and Marchal's springs
were. The result with 60 kPa is reported beside it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from vsr.evidence.validate.checks import Findings, absolute, relative
from vsr.evidence.validate.lattice.bar import FIRST_MODE, clamped, relax, resting, scaled_stiffness
from vsr.lattice import Environment, Lattice, State, isotropic

DATA = Path(__file__).parents[1] / "data" / "marchal.json"
ACROSS, ALONG = 8, 38
"""cells; the diameter is not whole in cells, the length is"""
CLOSE = 0.05e-3
"""of the mean drop, where calibration ends [m]"""
TOLERANCE = 2.0
"""[mm]"""


class Cylinder(NamedTuple):
    """What was scanned."""

    radius: float
    """[m], as length"""
    length: float
    density: float
    """[kg/m³]"""
    young_modulus: float
    """[Pa], as published with the data"""
    gravity: float
    """[m/s²]"""
    centreline: np.ndarray
    """reach and drop [m] of points on the axis, the tip last, (points, 2)"""


def scanned() -> Cylinder:
    """The data, in SI units."""
    data = json.loads(DATA.read_text())
    line = 1e-3 * np.array([*data["centreline_mm"], data["tip_mm"]])
    return Cylinder(
        1e-3 * data["radius_mm"],
        1e-3 * data["length_mm"],
        data["density_kg_per_m3"],
        data["young_modulus_Pa"],
        data["gravity_m_per_s2"],
        line,
    )


class Model(NamedTuple):
    """The cylinder as cells whose middles lie inside the circle."""

    lattice: Lattice
    """with the modulus published with the data"""
    section: np.ndarray
    """which nodes of a cross section are there, (levels, rows)"""
    frequency: float
    """of the lowest mode [Hz]"""
    gyration: float
    """squared radius of gyration of the cells' section over the circle's"""


def model_of(cylinder: Cylinder, across: int = ACROSS, along: int = ALONG) -> Model:
    """Whole cells along the cylinder, so that its length is exact."""
    side = cylinder.length / along
    middle = np.arange(across) - (across - 1) / 2
    disc = np.hypot(*np.meshgrid(middle, middle)) * side <= cylinder.radius
    cells = np.repeat(disc[:, :, None], along, axis=2)
    lattice = clamped(cells, side, isotropic(cylinder.young_modulus, side, 3), cylinder.density)
    # Of the cells' middles, and of a square about its own.
    squared = side**2 * ((middle[:, None] * disc) ** 2).sum() / disc.sum() + side**2 / 12
    speed = (cylinder.young_modulus / cylinder.density) ** 0.5
    frequency = FIRST_MODE / (2 * np.pi) * speed * squared**0.5 / cylinder.length**2
    return Model(lattice, np.asarray(lattice.mass)[:, :, 1] > 0, frequency, float(squared / (cylinder.radius**2 / 4)))


def centreline(model: Model, state: State) -> np.ndarray:
    """Reach and drop of the sections' middles [m], (sections, 2)."""
    line = np.asarray(state.position)[model.section].mean(0)
    return np.stack([line[:, 0] - line[0, 0], line[0, 2] - line[:, 2]], 1)


def at_arc_lengths(line: np.ndarray, arcs: np.ndarray) -> np.ndarray:
    """Points on a line, (arcs, 2), arcs: as shares of its length."""
    arc = arc_lengths(line)
    return np.stack([np.interp(arcs, arc / arc[-1], column) for column in line.T], 1)


def arc_lengths(line: np.ndarray) -> np.ndarray:
    """From its beginning to every point."""
    return np.concatenate([[0], np.cumsum(np.linalg.norm(np.diff(line, axis=0), axis=1))])


def differences(cylinder: Cylinder, line: np.ndarray) -> np.ndarray:
    """From every scanned point to the one as far along the other line [m], (points, 2)."""
    whole = np.concatenate([np.zeros((1, 2)), cylinder.centreline])
    arc = arc_lengths(whole)
    return at_arc_lengths(line, arc[1:] / arc[-1]) - cylinder.centreline


def sag(cylinder: Cylinder, model: Model, young_modulus: float, start: State | None = None) -> State:
    """At rest; start: from where, to be there sooner."""
    factor = young_modulus / cylinder.young_modulus
    begin = resting(model.lattice) if start is None else start
    around = Environment(gravity=jnp.asarray(cylinder.gravity))
    return relax(scaled_stiffness(model.lattice, factor), around, begin).state


def calibrate(cylinder: Cylinder, model: Model, start: State) -> tuple[float, State]:
    """Young's modulus at which the centreline drops as the scanned one does in the mean [Pa]; secant method."""

    def excess(state: State) -> float:
        return float(differences(cylinder, centreline(model, state))[:, 1].mean())

    # In the logarithm of the modulus, over which the drop is nearly straight.
    last, here = np.log(cylinder.young_modulus), np.log(1.3 * cylinder.young_modulus)
    last_excess = excess(start)
    state = sag(cylinder, model, float(np.exp(here)), start)
    for _ in range(8):
        now = excess(state)
        if abs(now) < CLOSE:
            break
        last, here, last_excess = here, here - now * (here - last) / (now - last_excess), now
        state = sag(cylinder, model, float(np.exp(here)), state)
    return float(np.exp(here)), state


def check_cylinder(across: int = ACROSS, along: int = ALONG) -> Findings:
    """With the published modulus, and with the calibrated one."""
    cylinder = scanned()
    model = model_of(cylinder, across, along)
    plain = sag(cylinder, model, cylinder.young_modulus)
    modulus, fitted = calibrate(cylinder, model, plain)
    cells = f"{along}x{across}x{across} cells, squared radius of gyration {model.gyration:.3f} of the circle's"
    findings = Findings(series={"cylinder_scanned": (1e3 * cylinder.centreline).tolist()})
    tip = cylinder.centreline[-1]
    for name, state, tolerance in (
        ("calibrated", fitted, TOLERANCE),
        ("60 kPa", plain, None),
    ):
        line = centreline(model, state)
        rms = 1e3 * float(np.sqrt((differences(cylinder, line) ** 2).sum(1).mean()))
        rows = (
            absolute(f"centreline rms, {name}", rms, 0, tolerance, "mm", cells),
            absolute(f"tip reach, {name}", 1e3 * line[-1, 0], 1e3 * tip[0], None, "mm"),
            absolute(f"tip drop, {name}", 1e3 * line[-1, 1], 1e3 * tip[1], None, "mm"),
        )
        findings.rows.extend(rows)
        findings.series[f"cylinder_{name}"] = (1e3 * line).tolist()
    note = "calibrated on the centreline; published with the data: 60 kPa"
    findings.rows.append(relative("Young's modulus, calibrated", modulus / 1e3, 60.0, None, "kPa", note))
    return findings
