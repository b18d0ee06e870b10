"""All checks of the lattice."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from vsr.evidence.validate.lattice.beams import INTEGRATORS, check_beams
from vsr.evidence.validate.lattice.cylinder import check_cylinder
from vsr.evidence.validate.lattice.elastica import check_elastica
from vsr.evidence.validate.lattice.energy import check_energy
from vsr.evidence.validate.lattice.integrators import check_integrators
from vsr.evidence.validate.lattice.modes import check_modes
from vsr.evidence.validate.lattice.stretch import check_moduli
from vsr.evidence.validate.lattice.thin_beams import check_thin_beams
from vsr.evidence.validate.rows import Findings
from vsr.evidence.validate.sections import run_sections

SECTIONS: dict[str, Callable[[], Findings]] = {
    "moduli": check_moduli,
    "integrators": check_integrators,
    **{f"beams, {integrator}": partial(check_beams, integrator) for integrator in INTEGRATORS},
    "beams, two cells": check_thin_beams,
    "energy": check_energy,
    "modes": check_modes,
    "elastica": check_elastica,
    "cylinder": check_cylinder,
}
"""By name, in the order they are reported."""
LONGEST_FIRST = ("beams, rk4", "cylinder", "beams, verlet", "beams, semi_implicit_euler", "elastica")
"""Begun before the others, so that no core waits for a long one at the end."""


def validate_lattice(say: Callable[[str, Findings], None] = lambda name, findings: None) -> dict[str, Any]:
    """Run every section; say: called with each as its turn comes. Returns what `--json` writes."""
    return run_sections("lattice", SECTIONS, LONGEST_FIRST, "float64", say)
