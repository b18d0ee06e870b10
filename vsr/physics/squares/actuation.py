"""What a control value does to a voxel: new rest lengths (area actuation) or forces on its masses.

Control +1 shrinks a voxel, -1 enlarges it. Every array may have further axes at the end.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from vsr.physics.actuation import inward_force
from vsr.physics.squares.model import SquareModel
from vsr.physics.squares.springs import Forces, Masses


def rest_lengths(model: SquareModel, control: Array) -> Array:
    """Rest length of each kind of spring [m], (kinds, rows, columns, ...), linear in the control on either side.

    control: in [-1, 1], (rows, columns, ...). The ends are the lengths in a voxel of side l sqrt(1 -+ ρ), so the
    paper's l sqrt(1 - f ρ) holds at f = -1, 0 and 1, and the original's straight lines hold between.
    """
    shrunk, rest, enlarged = model.spring_length
    return rest - jnp.maximum(control, 0) * (rest - shrunk) + jnp.maximum(-control, 0) * (enlarged - rest)


def add_actuation_forces(model: SquareModel, masses: Masses, control: Array, forces: Forces) -> Forces:
    """Add the forces of voxels with force actuation."""
    if model.max_force is None:
        return forces
    force_x, force_y = inward_force(control * model.max_force, (masses.x, masses.y), (0,))
    return forces._replace(x=forces.x + force_x, y=forces.y + force_y)
