"""Granular matter: discs and balls with friction, among bodies and robots that push them and are pushed."""

from vsr.physics.grains.bodies import Body, Pose, Reaction, at_rest
from vsr.physics.grains.model import Box, GrainState
from vsr.physics.grains.motions import Fixed, Steady, driven, fixed, free
from vsr.physics.grains.system import Grains, GrainsSeen, grains_of

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
