"""All checks of grains, and of robots and bodies among them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from experiments.validate.rows import Findings
from experiments.validate.sand.contacts import check_conservation, check_incline
from experiments.validate.sand.flow import check_heap, check_hourglass
from experiments.validate.sand.rest import check_rest
from experiments.validate.sand.silo import check_silo
from experiments.validate.sand.solids import check_drag, check_plate, check_shapes
from experiments.validate.sand.walkers import check_impulses, check_standing
from experiments.validate.sections import run_sections

SECTIONS: dict[str, Callable[[], Findings]] = {
    "incline, 2-D": partial(check_incline, 2),
    "incline, 3-D": partial(check_incline, 3),
    "conservation, 2-D": partial(check_conservation, 2),
    "conservation, 3-D": partial(check_conservation, 3),
    "bed at rest, 2-D": partial(check_rest, 2, 400, 20),
    "column at rest, 2-D": partial(check_rest, 2, 200, 5),
    "bed at rest, 3-D": partial(check_rest, 3, 600, 8),
    "silo": check_silo,
    "hourglass": check_hourglass,
    "heap, grains that turn": partial(check_heap, 0.1),
    "heap, grains that do not": partial(check_heap, None),
    "shapes": check_shapes,
    "plate": check_plate,
    "drag": check_drag,
    "robots, impulses": check_impulses,
    "robots, standing": check_standing,
}
"""By name, in the order they are reported."""
LONGEST_FIRST = ("bed at rest, 3-D", "robots, standing", "hourglass", "heap, grains that turn", "bed at rest, 2-D")
"""Begun before the others, so that no core waits for a long one at the end."""


def validate_sand(say: Callable[[str, Findings], None] = lambda name, findings: None) -> dict[str, Any]:
    """Run every section; say: called with each as its turn comes. Returns what `--json` writes."""
    return run_sections("sand", SECTIONS, LONGEST_FIRST, "float32", say)
