"""Beams of two cells across: how much too stiff lattices of few cells are in bending, and that theory knows it.

A bar that is bent evenly has strains in proportion to the height z over its middle, and a spring is stretched as the
strain at its midpoint says. Springs that lie level have their midpoints in the planes of nodes, the outermost half as
stiff as the others: the trapezium rule for z², which is too large by 2/n² for n cells. Those that rise have them
halfway between two planes: the midpoint rule, too small by 1/n². With T and M the parts of Young's modulus that the
two kinds bear, bending stiffness is E I (1 + c/n²), c = (2 T - M)/(T + M): 1.15 for the isotropic springs of voxels
(k1 : k2 : k3 = 2 : 1 : 3/8), 0.95 without space diagonals (k1 = k2), 0.72 for equal springs, 0.91 for springs whose
stiffness goes with 1/length. Solved bars agree to 0.4 % in frequency; they need not bend quite as evenly as that.
"""

from __future__ import annotations

import itertools

from vsr.evidence.validate.checks import Findings, relative
from vsr.evidence.validate.lattice.bar import Bar
from vsr.evidence.validate.lattice.beams import measured_frequency
from vsr.lattice import Stiffness, isotropic, young_modulus
from vsr.lattice.modes import natural_modes
from vsr.lattice.moduli import poisson_ratio

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
    """Eigenvalues against theory, swings and eigenvalues against Euler and Bernoulli; explicit Euler."""
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
