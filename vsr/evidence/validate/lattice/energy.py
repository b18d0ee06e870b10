"""Energy after release: what is exchanged between springs, height and motion must not grow or shrink.

The scale is the largest kinetic energy after the release. Drift is the slope of a line through the total, times one
second; oscillation is the largest distance from that line. Semi-implicit Euler keeps a neighbouring energy that
differs by h/2 times the power of the forces, so its total swings with an amplitude that goes with h and does not drift.
"""

from __future__ import annotations

import numpy as np

from vsr.evidence.validate.checks import Findings, absolute
from vsr.evidence.validate.lattice.bar import Bar, Swing, swing

BAR = Bar(height=4, width=4, length=20, room=(4, 4, 20))
DEFLECTION = 0.01
"""of the tip under its load [m]"""
SHARE_OF_BOUND = 0.5
"""Steps over the longest stable ones, as `choose_step` has it."""
DRIFT = 0.1
"""[%]"""


def swing_with_gravity(bar: Bar, integrator: str, seconds: float) -> Swing:
    """Release under gravity, traced for some time after it [s]."""
    force = 3 * bar.bending_stiffness * DEFLECTION / bar.span**3
    return swing(
        bar.lattice(),
        (0.0, 0.0, -force),
        bar.frequency,
        integrator=integrator,
        gravity=9.81,
        free_periods=int(np.ceil(seconds * bar.frequency)),
        share_of_bound=SHARE_OF_BOUND,
    )


def drift_and_oscillation(path: Swing) -> tuple[float, float]:
    """Of the total after release [%/s, %], against the largest kinetic energy."""
    total, scale = path.energy[path.free].sum(1), path.energy[path.free, 0].max()
    time = path.time[path.free]
    line = np.polyfit(time, total, 1)
    return float(100 * line[0] / scale), float(100 * np.abs(total - np.polyval(line, time)).max() / scale)


def check_energy(bar: Bar = BAR, seconds: float = 1.0) -> Findings:
    """Verlet and semi-implicit Euler at the default step."""
    findings = Findings()
    for integrator in ("verlet", "semi_implicit_euler"):
        path = swing_with_gravity(bar, integrator, seconds)
        drift, oscillation = drift_and_oscillation(path)
        note = f"{bar.name}, step {1e6 * path.step:.1f} µs"
        findings.rows.append(absolute(f"drift in 1 s {integrator}", drift, 0, DRIFT, "%", note))
        asked = DRIFT if integrator == "verlet" else None
        findings.rows.append(absolute(f"oscillation {integrator}", oscillation, 0, asked, "%", note))
        findings.series[f"energy_{integrator}"] = {"time": path.time.tolist(), "energy": path.energy.tolist()}
    return findings
