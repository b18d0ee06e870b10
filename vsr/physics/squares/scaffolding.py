"""The scaffolding of a voxel: which springs there are, and their lengths at rest.

Corners run round the voxel (vsr.robot.corners.RING): 0 south-west, 1 south-east, 2 north-east, 3 north-west. Side k
joins corner k to corner k+1, so side 0 is the bottom. Seen from side k, every mass has an *along* axis (from corner k
to k+1) and an *inward* axis (to the voxel's middle), both turned by the mass's own angle. The first mass of a side
holds its springs at +along and the second at -along; what tells the four springs of a side apart is on which inward
side each end is fastened:

    external (-, -)    internal (+, +)    cross (-, +) and (+, -)

The central cross joins the centers of opposite masses. That is 4 x 4 + 2 = 18 springs (2D-VSR-Sim, Figure 1).
"""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.robot.corners import RING, corner_steps
from vsr.robot.springs import SQUARE_GROUPS, Group

CORNER_CELLS = tuple(corner_steps(2)[corner] for corner in RING)
"""(row, column) of each corner's lattice vertex, counted from the voxel's own row and column."""

CORNER_SIGNS = np.array([(2 * column - 1, 2 * row - 1) for row, column in CORNER_CELLS])
"""Where each corner lies from the voxel's center, (corner, xy)."""

SIDE_ALONG = np.array([(1, 0), (0, 1), (-1, 0), (0, -1)])
"""Direction from the first to the second mass of each side, (side, xy)."""


SIDE_SPRINGS = (
    (-1, -1, SQUARE_GROUPS.index(Group.side_external), 0),
    (+1, +1, SQUARE_GROUPS.index(Group.side_internal), 0),
    (-1, +1, SQUARE_GROUPS.index(Group.side_cross), 1),
    (+1, -1, SQUARE_GROUPS.index(Group.side_cross), 1),
)
"""Springs of one side: inward sign at the first and second mass, group index, kind of length."""

LENGTH_KINDS = ("parallel", "cross", "central")


def spring_lengths(voxel_side: Array | float, mass_side: Array | float) -> Array:
    """Lengths of the three kinds of spring in a square voxel.

    voxel_side: side of the voxel [m]; mass_side: side of its masses [m]. Any equal shapes (...).
    Returns (3, ...) in the order of LENGTH_KINDS [m], never below zero.
    """
    gap = jnp.maximum(voxel_side - 2 * mass_side, 0.0)
    return jnp.stack(
        [
            gap,
            jnp.sqrt(mass_side**2 + gap**2),
            jnp.maximum(voxel_side - mass_side, 0.0) * math.sqrt(2),
        ]
    )


def drawn_springs() -> list[tuple[int, int, int, int, int]]:
    """Springs of a voxel: group, mass and its corner, mass and its corner, by their bits; corner -1 is the center."""
    ways = CORNER_SIGNS[list(RING)]

    def by_bits(way: np.ndarray) -> int:
        return int((way == ways).all(1).argmax())

    found = [(3, 0, -1, 3, -1), (3, 1, -1, 2, -1)]
    for side, along in enumerate(SIDE_ALONG):
        inward = np.array([-along[1], along[0]])
        first, second = (by_bits(CORNER_SIGNS[corner % 4]) for corner in (side, side + 1))
        for sign_first, sign_second, group, _ in SIDE_SPRINGS:
            found.append(
                (group, first, by_bits(along + sign_first * inward), second, by_bits(-along + sign_second * inward))
            )
    return found
