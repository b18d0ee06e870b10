"""Names of the groups of springs that a voxel may have."""

from __future__ import annotations

from enum import StrEnum


class Group(StrEnum):
    """A group of springs that a material may have.

    The first four are between square masses, the others between points.
    """

    side_external = "side_external"
    side_internal = "side_internal"
    side_cross = "side_cross"
    central_cross = "central_cross"
    edges = "edges"
    face_diagonals = "face_diagonals"
    space_diagonals = "space_diagonals"


SQUARE_GROUPS = (Group.side_external, Group.side_internal, Group.side_cross, Group.central_cross)
"""Those between square masses."""
POINT_GROUPS = (Group.edges, Group.face_diagonals, Group.space_diagonals)
"""Those between point masses; there are no space diagonals in 2-D."""
