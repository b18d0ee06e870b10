"""All checks of fluid in chambers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vsr.evidence.validate.fluid.exact import check_loads, check_volumes
from vsr.evidence.validate.fluid.grids import check_orders, check_ring, check_table
from vsr.evidence.validate.fluid.robots import check_laplace, check_motion, check_weight
from vsr.evidence.validate.rows import Findings
from vsr.evidence.validate.sections import run_sections

SECTIONS: dict[str, Callable[[], Findings]] = {
    "exact volumes": check_volumes,
    "exact loads": check_loads,
    "robots, Laplace": check_laplace,
    "robots, weight": check_weight,
    "robots, motion": check_motion,
    "columns, Table I": check_table,
    "columns, a ring that stands": check_ring,
    "columns, orders": check_orders,
}
"""By name, in the order they are reported."""
LONGEST_FIRST = ("columns, Table I", "exact loads")
"""Begun before the others, so that no core waits for a long one at the end."""


def validate_fluid(say: Callable[[str, Findings], None] = lambda name, findings: None) -> dict[str, Any]:
    """Run every section; say: called with each as its turn comes. Returns what `--json` writes."""
    return run_sections("fluid", SECTIONS, LONGEST_FIRST, "float64", say)
