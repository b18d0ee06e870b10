"""Inverse statics: the actuation that brings points of a body to targets."""

from vsr.physics.reaching.reach import Bounds, Effectors, Pose, Reached, ReachSettings, pose_at, reach, track

__all__ = ["Bounds", "Effectors", "Pose", "ReachSettings", "Reached", "pose_at", "reach", "track"]
