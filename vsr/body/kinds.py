"""EvoGym's kinds of voxels as materials: rigid, soft, horizontal and vertical actuators, by the first letter.

For its own masses they are what the program has. For our points they are springs of three stiffnesses, of which
actuators drive the horizontal or the vertical edges.
"""

from __future__ import annotations

from vsr.body.masses import Masses
from vsr.body.material import Material

SYMBOLS = "rshv"
"""EvoGym's 1 to 4; 0 is an empty cell."""

KINDS: dict[Masses, dict[str, Material]] = {
    "points": {
        "r": Material(spring_frequency=25.0, actuation="none"),
        "s": Material(spring_frequency=5.0, actuation="none"),
        "h": Material(actuation="horizontal", max_area_change=0.25),
        "v": Material(actuation="vertical", max_area_change=0.25),
    },
    "evogym": {
        "r": Material(rigid=True, actuation="none"),
        "s": Material(actuation="none"),
        "h": Material(actuation="horizontal"),
        "v": Material(actuation="vertical"),
    },
}
"""For every kind of masses that can be driven along one direction; actuators change edges by a quarter either way."""

USUAL: dict[Masses, dict[str, Material]] = {
    "squares": {"a": Material()},
    "points": {"a": Material()},
    "evogym": KINDS["evogym"],
}
"""The materials of a body that names none."""
