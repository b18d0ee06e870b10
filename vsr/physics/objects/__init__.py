"""Things besides robots: rigid bodies, soft bodies and further robots."""

from vsr.physics.objects.companions import Companion, ObjectMotion
from vsr.physics.objects.occupant import STRIDE, Objects, ObjectsSeen, ObjectState
from vsr.physics.objects.solids import Solids, SolidState

__all__ = [
    "STRIDE",
    "Companion",
    "ObjectMotion",
    "ObjectState",
    "Objects",
    "ObjectsSeen",
    "SolidState",
    "Solids",
]
