"""A body before it moves, as a recording of one moment: drawn without any simulation."""

from __future__ import annotations

import numpy as np

from vsr.drawing.chambers import chambers_at_rest
from vsr.drawing.recording import Recording
from vsr.physics.engine import ENGINES
from vsr.robot.engine_kinds import ENGINE_KINDS
from vsr.robot.shape import Body


def at_rest(body: Body) -> Recording:
    """The body as it is drawn in its file; every corner of a voxel is a part of its own."""
    dimension, side = body.dimension, body.voxel_side
    cells, present = body.cells, body.present
    material = cells[present]
    of_voxels = [list(body.materials.values())[index] for index in material]
    place = np.argwhere(present)[:, ::-1]
    voxels, corners = len(place), 2**dimension
    bits = np.array([[corner >> axis & 1 for axis in range(dimension)] for corner in range(corners)])
    kind = ENGINE_KINDS[body.engine]
    half_side = np.array([0.5 * material.mass_side_ratio * side if kind.turns else 0.0 for material in of_voxels])
    groups = kind.groups_in(dimension)
    ends = tuple(ENGINES[body.engine].spring_ends(dimension))
    # Masses without groups of springs to choose from have all of them.
    springs = [
        [material.has(group) and not material.fluid for group in groups] if groups else [True] * len(ends)
        for material in of_voxels
    ]
    # A square mass lies inside the corner, a point on it.
    masses = side * (place[:, None] + bits) - (2 * bits - 1) * half_side[:, None, None]
    return Recording(
        time=np.zeros(1),
        position=masses.reshape(1, -1, dimension),
        angle=np.zeros((1, voxels * corners)) if kind.turns else None,
        ratio=np.ones((1, voxels)),
        control=np.zeros((1, voxels)),
        contact=np.zeros((1, voxels), bool),
        velocity=np.zeros((1, voxels, dimension)),
        part=np.arange(voxels * corners).reshape(voxels, corners),
        offset=np.zeros((voxels, corners, dimension)),
        half_side=half_side,
        springs=np.array(springs),
        spring_ends=ends,
        material=material,
        place=place,
        voxel_side=side,
        failed=False,
        chambers=chambers_at_rest(body),
    )
