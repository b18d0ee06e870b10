"""Things besides robots: rigid bodies, soft bodies and further robots."""

from vsr.physics.objects.solids import Solids, SolidState
from vsr.physics.objects.system import STRIDE, Objects, ObjectsSeen, ObjectState
from vsr.physics.objects.voxel_bodies import ObjectMotion, VoxelBody

__all__ = [
    "STRIDE",
    "ObjectMotion",
    "ObjectState",
    "Objects",
    "ObjectsSeen",
    "SolidState",
    "Solids",
    "VoxelBody",
]
