"""The heavy elastica: a clamped horizontal bar that sags far under its own weight.

An inextensible bar of bending stiffness E I and weight w per length, with angle θ below the horizontal at arc length s:

    E I θ'' = -w (L - s) cos θ,   θ(0) = 0,   θ'(L) = 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from scipy.integrate import cumulative_trapezoid, solve_bvp

from vsr.evidence.validate.checks import Findings, absolute, relative
from vsr.evidence.validate.lattice.bar import Bar, relax, resting
from vsr.lattice import Environment

GRAVITY = 9.81
WEIGHT = 10.93
"""w L³ / (E I), as of Marchal's cylinder at 60 kPa"""
SLENDERNESS = 10
"""length over height"""
CELLS = (2, 4, 6)
"""across"""
TOLERANCE = 3.0
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
    rest = relax(lattice, Environment(gravity=jnp.asarray(GRAVITY)), resting(lattice))
    weight = bar.line_density * bar.span * GRAVITY
    return middle_line(np.asarray(rest.state.position), bar.span), rest.residual / weight


def middle_line(position: np.ndarray, span: float) -> Shape:
    """Means over the cross sections of a full block, against the clamp's."""
    line = position.mean((0, 1))
    return Shape((line[:, 0] - line[0, 0]) / span, (line[0, 2] - line[:, 2]) / span)


def check_elastica(cells: tuple[int, ...] = CELLS) -> Findings:
    """The finest bar is judged; coarser ones show where it goes."""
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
        tolerance = TOLERANCE if across == max(cells) else None
        findings.rows.append(absolute(f"tip of {bar.name}", 100 * off, 0, tolerance, "% of L", note))
        findings.series[f"elastica_{across}"] = {"reach": shape.reach.tolist(), "drop": shape.drop.tolist()}
    return findings
