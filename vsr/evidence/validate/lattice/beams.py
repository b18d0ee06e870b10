"""Frequencies of beams, against theory and against eigenvalues.

Euler and Bernoulli's cantilever: the lowest frequency over length, width and height, for three integrators.

Cronos' protocol: a load on the tip that bends it by a fraction of a millimeter, damping until it rests, release,
trace. f = 3.5160/(2π) √(E I / (ρ A L⁴)), so f goes with H / L² and not with W.

Two errors oppose each other. A section of n cells is too stiff in bending by 1.15/n² (see below). Shear and
rotation, which the formula leaves out, lower the frequencies of short beams: by 1 % at L = 8 H, 2 % at 6 H, 3 % at 5 H
(Timoshenko's beam).

Beams of two cells across: how much too stiff lattices of few cells are in bending, and that theory knows it.

A bar that is bent evenly has strains in proportion to the height z over its middle, and a spring is stretched as the
strain at its midpoint says. Springs that lie level have their midpoints in the planes of nodes, the outermost half as
stiff as the others: the trapezium rule for z², which is too large by 2/n² for n cells. Those that rise have them
halfway between two planes: the midpoint rule, too small by 1/n². With T and M the parts of Young's modulus that the
two kinds bear, bending stiffness is E I (1 + c/n²), c = (2 T - M)/(T + M): 1.15 for the isotropic springs of voxels
(k1 : k2 : k3 = 2 : 1 : 3/8), 0.95 without space diagonals (k1 = k2), 0.72 for equal springs, 0.91 for springs whose
stiffness goes with 1/length. Solved bars agree to 0.4 % in frequency; they need not bend quite as evenly as that.

Natural frequencies: the generalized eigenproblem of the lattice against the spectrum of its motion.

The bar is not square and is pulled obliquely, so that bending up and down and sideways can be distinguished.
"""

from __future__ import annotations

import itertools

import numpy as np

from vsr.evidence.validate.checks import Findings, Row, absolute, relative
from vsr.evidence.validate.lattice.bar import (
    Bar,
    Oscillation,
    amplitudes,
    frequency_of_crossings,
    frequency_of_peak,
    oscillate,
)
from vsr.lattice import Lattice, Stiffness, isotropic, young_modulus
from vsr.lattice.modes import Modes, natural_modes
from vsr.lattice.moduli import poisson_ratio

INTEGRATORS = ("semi_implicit_euler", "verlet", "rk4")
DEFLECTION = 2e-4
"""of the tip under its load [m]"""
LENGTHS = tuple(Bar(height=4, width=4, length=length, room=(4, 4, 32)) for length in (20, 24, 28, 32))
WIDTHS = tuple(Bar(height=4, width=width, length=24, room=(4, 8, 24)) for width in (4, 6, 8))
HEIGHTS = tuple(Bar(height=height, width=4, length=24, room=(6, 4, 24)) for height in (4, 5, 6))
FOUR_ACROSS = 0.05


def measured_frequency(bar: Bar, integrator: str, springs: Stiffness | None = None) -> float:
    """Frequency of the oscillating tip [Hz]."""
    force = 3 * bar.bending_stiffness * DEFLECTION / bar.span**3
    path = oscillate(bar.lattice(springs), (0.0, 0.0, -force), bar.frequency, integrator=integrator)
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


# Two cells across

THIN = Bar(height=2, width=2, length=20, room=(4, 4, 20))
LONG = Bar(height=2, width=2, length=60)
"""Shear and rotation lower its frequency by less than a thousandth."""
TWO_ACROSS = 0.12
"""Against Euler and Bernoulli: what the reference gives for the springs it lists, which are not the isotropic ones."""
BY_THEORY = 0.005
REFERENCE_SPRINGS = {
    "equal springs": Stiffness(1.0, 1.0, 1.0),
    "springs as 1/length": Stiffness(1.0, 2**-0.5, 3**-0.5),
    "no space diagonals": Stiffness(1.0, 1.0, 0.0),
}
"""In any unit."""


def scaled(springs: Stiffness, bar: Bar) -> Stiffness:
    """The same ratios, with the bar's Young's modulus."""
    factor = bar.young_modulus / young_modulus(springs, bar.side, 3)
    return Stiffness(*(factor * constant for constant in springs))


def bending_excess(springs: Stiffness) -> float:
    """c of the bending stiffness E I (1 + c/n²) of n cells."""
    poisson = poisson_ratio(springs, 1.0, 3)
    level = rising = 0.0
    for steps in itertools.product((-1, 0, 1), repeat=3):
        if steps <= (0, 0, 0):  # each direction once
            continue
        x, y, z = steps
        kind = abs(x) + abs(y) + abs(z)
        # Of a unit of strain along x, with -poisson along y and z: stiffness times squared stretch.
        part = springs[kind - 1] * (x * x - poisson * (y * y + z * z)) ** 2 / kind
        level, rising = (level, rising + part) if z else (level + part, rising)
    return (2 * level - rising) / (level + rising)


def expected_frequency(bar: Bar, springs: Stiffness) -> float:
    """Of a long bar with the bending stiffness of its lattice [Hz]."""
    return bar.frequency * (1 + bending_excess(springs) / bar.height**2) ** 0.5


def solved_frequency(bar: Bar, springs: Stiffness) -> float:
    """The lowest, by eigenvalues [Hz]: nothing is integrated, so this is what the lattice has."""
    return float(natural_modes(bar.lattice(scaled(springs, bar)), 2).frequency[0])


def check_thin_beams() -> Findings:
    """Eigenvalues against theory, oscillations and eigenvalues against Euler and Bernoulli; explicit Euler."""
    own = isotropic(THIN.young_modulus, THIN.side, 3)
    rows = [
        relative(
            f"{LONG.name}, {name}, eigenvalue",
            solved_frequency(LONG, springs),
            expected_frequency(LONG, springs),
            BY_THEORY,
            "Hz",
            f"against the lattice's own bending stiffness, E I (1 + {bending_excess(springs):.2f}/n²)",
        )
        for name, springs in {"isotropic": own, **REFERENCE_SPRINGS}.items()
    ]
    note = "two cells across, against Euler and Bernoulli, with springs of the reference"
    for name, springs in REFERENCE_SPRINGS.items():
        solved = solved_frequency(THIN, springs)
        rows.append(relative(f"{THIN.name}, {name}, eigenvalue", solved, THIN.frequency, TWO_ACROSS, "Hz", note))
    swung = measured_frequency(THIN, "verlet", scaled(REFERENCE_SPRINGS["no space diagonals"], THIN))
    rows.append(relative(f"{THIN.name}, no space diagonals, verlet", swung, THIN.frequency, TWO_ACROSS, "Hz", note))
    note = "isotropic: stiffer in bending than the reference's springs, as theory says"
    for name, found in (
        ("verlet", measured_frequency(THIN, "verlet")),
        ("eigenvalue", solved_frequency(THIN, own)),
    ):
        rows.append(relative(f"{THIN.name}, isotropic, {name}", found, THIN.frequency, None, "Hz", note))
    exploded = measured_frequency(THIN, "explicit_euler")
    note = "explicit Euler gains energy until it is no number any more, before the damping ends"
    rows.append(relative(f"{THIN.name} explicit_euler", exploded, THIN.frequency, None, "Hz", note))
    return Findings(rows)


# Modes

OBLIQUE = Bar(height=4, width=3, length=20, room=(4, 4, 20))
AXES = {"sideways": 1, "up and down": 2}
SMALL_PULL, LARGE_PULL = 2e-4, 0.08
"""deflection of the tip under its load, if it were proportional [m]"""
PERIODS = 10
SAMPLES = 64
BY_EIGENVALUES = 0.005


def bending_modes(modes: Modes, axis: int) -> list[float]:
    """Frequencies of the modes in which the tip moves along an axis [Hz]; twisting and stretching do not count."""
    tip = np.abs(modes.shape[..., -1, :].mean(tuple(range(1, modes.shape.ndim - 2))))
    return [float(f) for f, moves in zip(modes.frequency, tip, strict=True) if moves[axis] > 0.5]


def pull_and_release(
    lattice: Lattice, bar: Bar, deflection: float, lowest: float, periods: int = PERIODS
) -> Oscillation:
    """Oblique load on the tip; lowest: frequency [Hz]."""
    force = 3 * bar.bending_stiffness * deflection / bar.span**3
    return oscillate(lattice, (0.0, -force, -force), lowest, integrator="verlet", free_periods=periods, samples=SAMPLES)


def check_modes(bar: Bar = OBLIQUE) -> Findings:
    """Two modes each way after a small deflection, and the lowest after a large one."""
    lattice = bar.lattice()
    modes = natural_modes(lattice, 6)
    findings = Findings()
    solved = {way: bending_modes(modes, axis)[:2] for way, axis in AXES.items()}
    for size, deflection, tolerance in (("small", SMALL_PULL, BY_EIGENVALUES), ("large", LARGE_PULL, None)):
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
