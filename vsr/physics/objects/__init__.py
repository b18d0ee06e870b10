"""Things besides robots: rigid bodies, soft bodies, further robots, and simple balls."""

from vsr.physics.objects.balls import Balls, BallState
from vsr.physics.objects.companions import Companion, ObjectMotion
from vsr.physics.objects.occupant import STRIDE, Objects, ObjectsSeen, ObjectState
from vsr.physics.objects.solids import Solids, SolidState

__all__ = [
    "STRIDE",
    "BallState",
    "Balls",
    "Companion",
    "ObjectMotion",
    "ObjectState",
    "Objects",
    "ObjectsSeen",
    "SolidState",
    "Solids",
]
