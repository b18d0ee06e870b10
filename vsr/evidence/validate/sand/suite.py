"""All checks of grains, and of robots and bodies among them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from vsr.evidence.validate.rows import Findings
from vsr.evidence.validate.sand.contacts import check_batch, check_conservation, check_incline, check_refinement
from vsr.evidence.validate.sand.heap import check_heap
from vsr.evidence.validate.sand.hourglass import PLANE, SPACE, check_hourglass
from vsr.evidence.validate.sand.rest import check_rest
from vsr.evidence.validate.sand.scenes import TURNING
from vsr.evidence.validate.sand.silo import check_silo
from vsr.evidence.validate.sand.solids import check_drag, check_plate, check_shapes
from vsr.evidence.validate.sand.walkers import check_impulses, check_standing
from vsr.evidence.validate.sections import run_sections
from vsr.terrain.sand import ROLLING

ONE = (1,)
"""A single packing, where more would take too long on two cores."""
NINE = tuple(range(1, 10))
"""Slopes of few discs differ much from packing to packing."""
SECTIONS: dict[str, Callable[[], Findings]] = {
    "incline, 2-D": partial(check_incline, 2),
    "incline, 3-D": partial(check_incline, 3),
    "refinement, 2-D": partial(check_refinement, 2),
    "refinement, 3-D": partial(check_refinement, 3),
    "conservation, 2-D": partial(check_conservation, 2),
    "conservation, 3-D": partial(check_conservation, 3),
    "batch, 2-D": partial(check_batch, 2),
    "batch, 3-D": partial(check_batch, 3),
    "bed at rest, 2-D": partial(check_rest, 2, 400, 20),
    "column at rest, 2-D": partial(check_rest, 2, 200, 5),
    "bed at rest, 3-D": partial(check_rest, 3, 600, 8),
    "silo, 2-D": partial(check_silo, 2),
    "silo, 3-D": partial(check_silo, 3, ONE),
    "hourglass, 2-D": partial(check_hourglass, PLANE),
    "heap of grains that turn, 2-D": partial(check_heap, 2, TURNING, (0.1, 0.3, 0.5), NINE),
    "heap of sand, 2-D": partial(check_heap, 2, ROLLING, (0.3, 0.5), NINE),
    "heap of grains that do not, 2-D": partial(check_heap, 2, None, (0.3, 0.5)),
    "heap of grains that turn, 3-D": partial(check_heap, 3, TURNING, (0.1, 0.3, 0.5), ONE),
    "shapes": check_shapes,
    "plate, 2-D": partial(check_plate, 2),
    "plate, 3-D": partial(check_plate, 3, ONE),
    "drag, 2-D": partial(check_drag, 2),
    "drag, 3-D": partial(check_drag, 3, ONE),
    "robots, impulses": check_impulses,
    "robots, standing": check_standing,
}
"""By name, in the order they are reported."""
LARGE: dict[str, Callable[[], Findings]] = {
    "hourglass, 3-D": partial(check_hourglass, SPACE),
    "silo, 3-D": partial(check_silo, 3),
    "heap of grains that turn, 3-D": partial(check_heap, 3, TURNING, (0.1, 0.3, 0.5, 0.8)),
    "heap of grains that do not, 3-D": partial(check_heap, 3, None, (0.3, 0.5)),
    "plate, 3-D": partial(check_plate, 3),
    "drag, 3-D": partial(check_drag, 3),
}
"""For a GPU: three packings of everything in 3-D, and the hourglass that a CPU takes an hour for."""
LONGEST_FIRST = (
    "heap of grains that turn, 2-D",
    "heap of sand, 2-D",
    "column at rest, 2-D",
    "bed at rest, 3-D",
    "hourglass, 2-D",
    "bed at rest, 2-D",
    "robots, standing",
    "heap of grains that turn, 3-D",
    "plate, 3-D",
    "drag, 3-D",
    "silo, 3-D",
)
"""Begun before the others, so that no core waits for a long one at the end."""


def validate_sand(
    say: Callable[[str, Findings], None] = lambda name, findings: None, large: bool = False
) -> dict[str, Any]:
    """Run every section; say: called with each as its turn comes. Returns what `--json` writes."""
    return run_sections("sand", LARGE if large else SECTIONS, LONGEST_FIRST, "float32", say)
