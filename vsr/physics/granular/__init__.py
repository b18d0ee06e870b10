"""Granular matter: discs and balls with friction, among bodies and robots that push them and are pushed."""

from vsr.physics.granular.bodies import Body, Fixed, Pose, Reaction, Steady, at_rest, driven, fixed, free
from vsr.physics.granular.model import Box, GrainState
from vsr.physics.granular.system import Grains, GrainsSeen, grains_of

__all__ = [
    "Body",
    "Box",
    "Fixed",
    "GrainState",
    "Grains",
    "GrainsSeen",
    "Pose",
    "Reaction",
    "Steady",
    "at_rest",
    "driven",
    "fixed",
    "free",
    "grains_of",
]
