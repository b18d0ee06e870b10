"""EvoGym's constants, in its own units: 0.1 a voxel, 1 a point, 0.003 a step of the environment.

They restate a specification read from its source (version 2.0.0). `vsr validate --suite evogym` compares with traces of
that program (docs/reference/tasks.md).
"""

from __future__ import annotations

from typing import NamedTuple

SIDE = 0.1
"""Of a voxel."""
GRAVITY = 110.0
SUBSTEP = 1e-4
"""Springs relax by a share of their strain in every substep, so no other length of it is the same physics."""
SUBSTEPS = 30
"""In one step of an environment."""
STEP = SUBSTEP * SUBSTEPS
DRAG = 0.1
"""Force on a point over its velocity."""

RELAXATION = 0.006
"""Share of the way to their goal by which rest lengths lie off the present length, anew in every substep."""
SHORTEST, LONGEST = 0.75, 1.25
"""Of any spring, over its length at rest."""
PULLED_BACK = 0.8
"""Share of what is beyond that, taken back after a substep."""
RIGID_SHORTEST, RIGID_LONGEST = 0.97, 1.03
"""Of the edges of rigid voxels."""
RIGID_PULLED_BACK = 0.5
"""Likewise; twice for an edge between two rigid voxels."""

SMALLEST_TARGET, LARGEST_TARGET = 0.6, 1.6
"""Of a driven edge, over its length at rest, at full control."""

CONTACT = 2.1e6
"""Force over depth."""
CONTACT_OFFSET = 0.005
"""Added to every depth."""
CONTACT_DAMPING = 140.0
"""Force over speed along the normal."""
FRICTION = 240.0
"""Most friction over the normal force ..."""
FRICTION_SCALE = 0.2
"""... and the speed over the normal force at which tanh bends."""
PARALLEL = 1e-4
"""Edges whose cross product is smaller do not cross."""
FLOOR = 1.4e7
"""Below height 0 there is a floor: force over depth."""
FLOOR_FRICTION = 2.0
"""Most friction there over the normal force."""


class Constants(NamedTuple):
    """Of a kind of voxel."""

    edge: float
    """of its edges"""
    diagonal: float
    """of its diagonals"""


RIGID = Constants(3e8 / 3.5, 1.5e8 / 3.5)
ACTUATOR = Constants(6e7, 3e7)
SOFT = Constants(5e7, 1.25e7)
