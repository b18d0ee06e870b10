"""Natural frequencies: the generalised eigenproblem of the lattice against the spectrum of its motion.

The bar is not square and is pulled obliquely, so that bending up and down and sideways can be distinguished.
"""

from __future__ import annotations

import numpy as np

from vsr.evidence.validate.checks import Findings, relative
from vsr.evidence.validate.lattice.bar import Bar, Swing, swing
from vsr.evidence.validate.lattice.spectrum import amplitudes, frequency_of_peak
from vsr.lattice import Lattice
from vsr.lattice.modes import Modes, natural_modes

BAR = Bar(height=4, width=3, length=20, room=(4, 4, 20))
AXES = {"sideways": 1, "up and down": 2}
SMALL, LARGE = 2e-4, 0.08
"""deflection of the tip under its load, if it were proportional [m]"""
PERIODS = 10
SAMPLES = 64
TOLERANCE = 0.005


def bending_modes(modes: Modes, axis: int) -> list[float]:
    """Frequencies of the modes in which the tip moves along an axis [Hz]; twisting and stretching do not count."""
    tip = np.abs(modes.shape[..., -1, :].mean(tuple(range(1, modes.shape.ndim - 2))))
    return [float(f) for f, moves in zip(modes.frequency, tip, strict=True) if moves[axis] > 0.5]


def pull_and_release(lattice: Lattice, bar: Bar, deflection: float, lowest: float, periods: int = PERIODS) -> Swing:
    """Oblique load on the tip; lowest: frequency [Hz]."""
    force = 3 * bar.bending_stiffness * deflection / bar.span**3
    return swing(lattice, (0.0, -force, -force), lowest, integrator="verlet", free_periods=periods, samples=SAMPLES)


def check_modes(bar: Bar = BAR) -> Findings:
    """Two modes each way after a small deflection, and the lowest after a large one."""
    lattice = bar.lattice()
    modes = natural_modes(lattice, 6)
    findings = Findings()
    solved = {way: bending_modes(modes, axis)[:2] for way, axis in AXES.items()}
    for size, deflection, tolerance in (("small", SMALL, TOLERANCE), ("large", LARGE, None)):
        path = pull_and_release(lattice, bar, deflection, float(modes.frequency[0]))
        time, tip = path.time[path.free], path.tip[path.free]
        reach = f"tip {1000 * np.linalg.norm(path.tip[~path.free][-1]):.3g} mm off, L = {1000 * bar.span:g} mm"
        for way, axis in AXES.items():
            for number, expected in enumerate(solved[way], start=1):
                measured = frequency_of_peak(time, tip[:, axis], expected)
                findings.rows.append(
                    relative(
                        f"mode {number} {way}, {size}",
                        measured,
                        expected,
                        tolerance,
                        "Hz",
                        f"{size}: {bar.name}, {reach}",
                    )
                )
            frequency, strength = amplitudes(time, tip[:, axis])
            shown = frequency < 1.3 * solved[way][1]
            findings.series[f"spectrum_{size}_{axis}"] = {
                "frequency": frequency[shown].tolist(), "strength": strength[shown].tolist(), "solved": solved[way]
            }  # fmt: skip
    return findings
