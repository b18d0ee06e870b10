"""Lattices at rest under load: moduli, a heavy bar, a silicone cylinder.

Moduli of the lattice: a block pulled along an edge, against the formulas.

The left face slides on a wall, the right one is drawn as its cells' faces share the load, all else is free. Assembled
voxel by voxel, such a block stretches evenly, so the formulas for an endless lattice hold at any size.

The heavy elastica: a clamped horizontal bar that sags far under its own weight.

An inextensible bar of bending stiffness E I and weight w per length, with angle θ below the horizontal at arc length s:

    E I θ'' = -w (L - s) cos θ,   θ(0) = 0,   θ'(L) = 0.

Marchal's silicone cylinder: clamped at one end, lying horizontally, sagging; scanned by CT.

M. Marchal, J. Allard, C. Duriez, S. Cotin, "Towards a framework for assessing deformable models in medical simulation",
2008 (the truth cube's and truth cylinder's data); Cronos uses the same. The scanned silicone is nearly incompressible
(Poisson's ratio 0.49) where a lattice of springs has 1/4, and its modulus of 60 kPa makes even the exact elastica sag
too far; so the lattice's Young's modulus is calibrated on the scanned centerline, as Cronos' and Marchal's springs
were. The result with 60 kPa is reported beside it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.integrate import cumulative_trapezoid, solve_bvp

from vsr.evidence.validate.checks import Findings, absolute, relative
from vsr.evidence.validate.lattice.bar import FIRST_MODE, Bar, clamped, end_load, relax, rest_state, scaled_stiffness
from vsr.lattice import Environment, Lattice, State, Stiffness, isotropic, of_cells
from vsr.lattice.moduli import poisson_ratio, young_modulus

# Moduli

BLOCK = 4
SIDE, DENSITY = 0.01, 1000.0
STRAIN = 1e-4
SOFT = 1e4
"""[N/m]"""
OF_MODULI = 1e-3
CONSTANTS = {
    "isotropic": isotropic(4e6, SIDE, 3),
    "equal springs": Stiffness(SOFT, SOFT, SOFT),
    "k ∝ 1/length": Stiffness(SOFT, SOFT / 2**0.5, SOFT / 3**0.5),
    "no space diagonals": Stiffness(SOFT, SOFT),
}


def sliding_block(springs: Stiffness) -> Lattice:
    """A cube whose left face can move only along its wall."""
    lattice = of_cells(np.ones((BLOCK,) * 3, bool), SIDE, springs, DENSITY, dtype=jnp.float64)
    freedom = np.broadcast_to(np.eye(3), (*lattice.mass.shape, 3, 3)).copy()
    freedom[..., 0, 0, 0] = 0
    return replace(lattice, freedom=jnp.asarray(freedom))


def measured_moduli(springs: Stiffness) -> tuple[float, float]:
    """Young's modulus [Pa] and Poisson's ratio of a small static stretch."""
    lattice = sliding_block(springs)
    guess = young_modulus(springs, SIDE, 3)
    span = BLOCK * SIDE
    stress = STRAIN * guess
    around = Environment(gravity=jnp.asarray(0.0), load=end_load(lattice, (stress * span**2, 0.0, 0.0)))
    position = np.asarray(relax(lattice, around, rest_state(lattice)).state.position)
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
        findings.rows.append(relative(f"Young's modulus, {name}", modulus / 1e6, expected, OF_MODULI, "MPa"))
        findings.rows.append(relative(f"Poisson's ratio, {name}", ratio, poisson_ratio(springs, SIDE, 3), OF_MODULI))
    return findings


# The heavy elastica

GRAVITY = 9.81
WEIGHT = 10.93
"""w L³ / (E I), as of Marchal's cylinder at 60 kPa"""
SLENDERNESS = 10
"""length over height"""
CELLS = (2, 4, 6)
"""across"""
OF_ELASTICA = 3.0
"""[% of L]"""


@dataclass(frozen=True)
class Shape:
    """A bent line, from the clamp to the tip, in lengths of the bar; all (points,)."""

    reach: np.ndarray
    drop: np.ndarray
    """downwards"""


def heavy_elastica(weight: float, points: int = 201) -> Shape:
    """Solution for w L³ / (E I)."""
    s = np.linspace(0, 1, points)
    guess = np.zeros((2, points))
    # A heavy bar is approached from a light one: the equation is far from linear.
    for load in np.linspace(0, weight, 8)[1:]:
        solution = solve_bvp(
            lambda at, y, load=load: np.stack([y[1], -load * (1 - at) * np.cos(y[0])]),
            lambda left, right: np.array([left[0], right[1]]),
            s,
            guess,
            tol=1e-8,
        )
        guess = solution.sol(s)
    angle = guess[0]
    return Shape(cumulative_trapezoid(np.cos(angle), s, initial=0), cumulative_trapezoid(np.sin(angle), s, initial=0))


def heavy_bar(across: int) -> Bar:
    """So soft that it sags as the elastica does."""
    bar = Bar(height=across, width=across, length=SLENDERNESS * across, side=0.04 / across)
    weight = bar.line_density * GRAVITY * bar.span**3
    soft = weight / WEIGHT / (bar.bending_stiffness / bar.young_modulus)
    return Bar(bar.height, bar.width, bar.length, bar.side, young_modulus=soft)


def sag(bar: Bar) -> tuple[Shape, float]:
    """Of the middle line at rest, and the largest force that was left on a node, over the bar's weight."""
    lattice = bar.lattice()
    rest = relax(lattice, Environment(gravity=jnp.asarray(GRAVITY)), rest_state(lattice))
    weight = bar.line_density * bar.span * GRAVITY
    return middle_line(np.asarray(rest.state.position), bar.span), rest.residual / weight


def middle_line(position: np.ndarray, span: float) -> Shape:
    """Means over the cross sections of a full block, against the clamp's."""
    line = position.mean((0, 1))
    return Shape((line[:, 0] - line[0, 0]) / span, (line[0, 2] - line[:, 2]) / span)


def check_elastica(cells: tuple[int, ...] = CELLS) -> Findings:
    """The bar with the highest resolution is judged; coarser ones show the convergence."""
    theory = heavy_elastica(WEIGHT)
    findings = Findings(series={"elastica_theory": {"reach": theory.reach.tolist(), "drop": theory.drop.tolist()}})
    findings.rows.append(
        relative("ODE, reach at w L³/EI = 10.93", 178 * theory.reach[-1], 111.85, 1e-3, "mm", "L = 178 mm")
    )
    findings.rows.append(
        relative("ODE, drop at w L³/EI = 10.93", 178 * theory.drop[-1], 128.45, 1e-3, "mm", "L = 178 mm")
    )
    for across in cells:
        bar = heavy_bar(across)
        shape, left = sag(bar)
        off = np.hypot(shape.reach[-1] - theory.reach[-1], shape.drop[-1] - theory.drop[-1])
        reach, drop = (
            f"{mine[-1]:.3f} for {right[-1]:.3f}"
            for mine, right in zip((shape.reach, shape.drop), (theory.reach, theory.drop), strict=True)
        )
        note = f"{bar.name}: reach {reach}, drop {drop} L; force left {left:.0e} of the weight"
        tolerance = OF_ELASTICA if across == max(cells) else None
        findings.rows.append(absolute(f"tip of {bar.name}", 100 * off, 0, tolerance, "% of L", note))
        findings.series[f"elastica_{across}"] = {"reach": shape.reach.tolist(), "drop": shape.drop.tolist()}
    return findings


# Marchal's cylinder

DATA = Path(__file__).parents[1] / "data" / "marchal.json"
ACROSS, ALONG = 8, 38
"""cells; the diameter is not whole in cells, the length is"""
CLOSE = 0.05e-3
"""of the mean drop, where calibration ends [m]"""
OF_CYLINDER = 2.0
"""[mm]"""


class Cylinder(NamedTuple):
    """The scanned parameters."""

    radius: float
    """[m], as length"""
    length: float
    density: float
    """[kg/m³]"""
    young_modulus: float
    """[Pa], as published with the data"""
    gravity: float
    """[m/s²]"""
    centerline: np.ndarray
    """reach and drop [m] of points on the axis, the tip last, (points, 2)"""


def scanned() -> Cylinder:
    """The data, in SI units."""
    data = json.loads(DATA.read_text())
    line = 1e-3 * np.array([*data["centerline_mm"], data["tip_mm"]])
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


def centerline(model: Model, state: State) -> np.ndarray:
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
    whole = np.concatenate([np.zeros((1, 2)), cylinder.centerline])
    arc = arc_lengths(whole)
    return at_arc_lengths(line, arc[1:] / arc[-1]) - cylinder.centerline


def sagged_cylinder(cylinder: Cylinder, model: Model, young_modulus: float, start: State | None = None) -> State:
    """At rest; start: from where, to be there sooner."""
    factor = young_modulus / cylinder.young_modulus
    begin = rest_state(model.lattice) if start is None else start
    around = Environment(gravity=jnp.asarray(cylinder.gravity))
    return relax(scaled_stiffness(model.lattice, factor), around, begin).state


def calibrate(cylinder: Cylinder, model: Model, start: State) -> tuple[float, State]:
    """Young's modulus at which the centerline drops as the scanned one does in the mean [Pa]; secant method."""

    def excess(state: State) -> float:
        return float(differences(cylinder, centerline(model, state))[:, 1].mean())

    # In the logarithm of the modulus, over which the drop is nearly straight.
    last, here = np.log(cylinder.young_modulus), np.log(1.3 * cylinder.young_modulus)
    last_excess = excess(start)
    state = sagged_cylinder(cylinder, model, float(np.exp(here)), start)
    for _ in range(8):
        now = excess(state)
        if abs(now) < CLOSE:
            break
        last, here, last_excess = here, here - now * (here - last) / (now - last_excess), now
        state = sagged_cylinder(cylinder, model, float(np.exp(here)), state)
    return float(np.exp(here)), state


def check_cylinder(across: int = ACROSS, along: int = ALONG) -> Findings:
    """With the published modulus, and with the calibrated one."""
    cylinder = scanned()
    model = model_of(cylinder, across, along)
    plain = sagged_cylinder(cylinder, model, cylinder.young_modulus)
    modulus, fitted = calibrate(cylinder, model, plain)
    cells = f"{along}x{across}x{across} cells, squared radius of gyration {model.gyration:.3f} of the circle's"
    findings = Findings(series={"cylinder_scanned": (1e3 * cylinder.centerline).tolist()})
    tip = cylinder.centerline[-1]
    for name, state, tolerance in (
        ("calibrated", fitted, OF_CYLINDER),
        ("60 kPa", plain, None),
    ):
        line = centerline(model, state)
        rms = 1e3 * float(np.sqrt((differences(cylinder, line) ** 2).sum(1).mean()))
        rows = (
            absolute(f"centerline rms, {name}", rms, 0, tolerance, "mm", cells),
            absolute(f"tip reach, {name}", 1e3 * line[-1, 0], 1e3 * tip[0], None, "mm"),
            absolute(f"tip drop, {name}", 1e3 * line[-1, 1], 1e3 * tip[1], None, "mm"),
        )
        findings.rows.extend(rows)
        findings.series[f"cylinder_{name}"] = (1e3 * line).tolist()
    note = "calibrated on the centerline; published with the data: 60 kPa"
    findings.rows.append(relative("Young's modulus, calibrated", modulus / 1e3, 60.0, None, "kPa", note))
    return findings
