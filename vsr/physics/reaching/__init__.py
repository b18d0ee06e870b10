"""Inverse statics: the actuation that brings points of a body to targets."""

from vsr.physics.reaching.reach import (
    Bounds,
    Effectors,
    Pose,
    Reached,
    ReachSettings,
    bounds_of,
    pose_at,
    reach,
    track,
)

__all__ = ["Bounds", "Effectors", "Pose", "ReachSettings", "Reached", "bounds_of", "pose_at", "reach", "track"]
