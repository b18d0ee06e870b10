"""Euler and Bernoulli's cantilever: the lowest frequency over length, width and height, for three integrators.

Cronos' protocol: a load on the tip that bends it by a fraction of a millimetre, damping until it rests, release,
trace. f = 3.5160/(2π) √(E I / (ρ A L⁴)), so f goes with H / L² and not with W.

Two errors oppose each other. A section of n cells is too stiff in bending by 1.15/n² (see thin_beams.py). Shear and
rotation, which the formula leaves out, lower the frequencies of short beams: by 1 % at L = 8 H, 2 % at 6 H, 3 % at 5 H
(Timoshenko's beam).
"""

from __future__ import annotations

import numpy as np

from vsr.evidence.validate.checks import Findings, Row, absolute, relative
from vsr.evidence.validate.lattice.bar import Bar, swing
from vsr.evidence.validate.lattice.spectrum import frequency_of_crossings
from vsr.lattice import Stiffness

INTEGRATORS = ("semi_implicit_euler", "verlet", "rk4")
DEFLECTION = 2e-4
"""of the tip under its load [m]"""
LENGTHS = tuple(Bar(height=4, width=4, length=length, room=(4, 4, 32)) for length in (20, 24, 28, 32))
WIDTHS = tuple(Bar(height=4, width=width, length=24, room=(4, 8, 24)) for width in (4, 6, 8))
HEIGHTS = tuple(Bar(height=height, width=4, length=24, room=(6, 4, 24)) for height in (4, 5, 6))
FOUR_ACROSS = 0.05


def measured_frequency(bar: Bar, integrator: str, springs: Stiffness | None = None) -> float:
    """Of the swinging tip [Hz]."""
    force = 3 * bar.bending_stiffness * DEFLECTION / bar.span**3
    path = swing(bar.lattice(springs), (0.0, 0.0, -force), bar.frequency, integrator=integrator)
    return frequency_of_crossings(path.time[path.free], path.tip[path.free, 2])


def exponent(over: list[float], frequencies: list[float]) -> float:
    """Of the power law through some points."""
    return float(np.polyfit(np.log(over), np.log(frequencies), 1)[0])


def check_beams(integrator: str) -> Findings:
    """Every beam with one integrator, and the exponents of length, width and height."""
    bars = (*LENGTHS, *WIDTHS, *HEIGHTS)
    found = {bar: measured_frequency(bar, integrator) for bar in bars}
    rows = [
        relative(
            bar.name,
            found[bar],
            bar.frequency,
            FOUR_ACROSS,
            "Hz",
        )
        for bar in {bar.name: bar for bar in bars}.values()
    ]
    rows += exponent_rows(found)
    series = {
        axis: [
            {"size": getattr(bar, axis) * bar.side, "measured": found[bar], "expected": bar.frequency} for bar in group
        ]
        for axis, group in (("length", LENGTHS), ("width", WIDTHS), ("height", HEIGHTS))
    }
    return Findings(rows, {f"beams_{integrator}": series})


def exponent_rows(found: dict[Bar, float]) -> list[Row]:
    """Power laws through the frequencies; a spread for the width, over which they should not change."""
    rows = []
    for axis, group, expected, tolerance in (("length", LENGTHS, -2, 0.1), ("height", HEIGHTS, 1, 0.2)):
        cells = [float(getattr(bar, axis)) for bar in group]
        rows.append(
            absolute(f"exponent of {axis}", exponent(cells, [found[bar] for bar in group]), expected, tolerance)
        )
    wide = [found[bar] for bar in WIDTHS]
    rows.append(relative(f"width {WIDTHS[-1].width} to {WIDTHS[0].width} cells", wide[-1], wide[0], 0.02, "Hz"))
    return rows
