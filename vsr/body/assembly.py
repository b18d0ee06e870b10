"""From a grid of material indices to the arrays of a `Model`, inside or outside `jit`.

Welding: the masses around a lattice vertex form a ring of up to four quadrants; those of side-adjacent voxels are
welded. So the present quadrants are one cluster, except when just two opposite ones are present: then they only
touch, and the upper one goes to the second layer.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.body.material import MaterialTable
from vsr.physics.scaffolding import CORNER_SIGNS, spring_lengths
from vsr.body.shape import Body
from vsr.physics.exchange import clusters_of_masses, corners_of_vertices, masses_of_clusters, vertices_of_corners
from vsr.physics.model import Model

CONTACT_POINTS = 5
"""Convex corners a cluster can have: four for one, two or four masses, five for three."""


def assemble_body(body: Body, *, dtype: jnp.dtype | type = jnp.float32, anchored: np.ndarray | None = None) -> Model:
    """The model of one described body, with a second layer only if its shape needs one."""
    layers = 2 if bool(_touches_at_corner(jnp.asarray(body.present)).any()) else 1
    table = MaterialTable.of(list(body.materials.values()), dtype)
    return assemble(jnp.asarray(body.cells), table, body.voxel_side, layers=layers, anchored=anchored)


def assemble(
    cells: Array,
    table: MaterialTable,
    voxel_side: Array | float = 3.0,
    *,
    layers: int = 2,
    anchored: Array | np.ndarray | None = None,
) -> Model:
    """The model of any body on a grid.

    cells: material index, negative where empty, (rows, columns), bottom row first; voxel_side: [m];
    layers: 2 for any body, 1 if no two voxels of it touch only at a corner; anchored: True for masses fixed in
    space (with all that is welded to them), (4, rows, columns).
    """
    dtype = table.mass.dtype
    present = (cells >= 0).astype(dtype)
    index = jnp.clip(cells, 0, table.mass.shape[0] - 1)
    voxel_side = jnp.asarray(voxel_side, dtype)
    voxel = jax.tree.map(lambda column: jnp.moveaxis(column[index], (0, 1), (-2, -1)), table)
    mass_side = voxel.mass_side_ratio * voxel_side
    inertia = voxel.mass * mass_side**2 / 6

    touching = _touches_at_corner(present > 0)
    upper = jnp.array([1, 1, 0, 0], dtype)[:, None, None]  # quadrants above the vertex are corners 0 and 1
    second = corners_of_vertices(touching.astype(dtype)) * upper * present if layers == 2 else 0 * upper * present

    def add_up(values: Array) -> Array:
        return clusters_of_masses(values * present, second, layers)

    center = _mass_centers(present.shape, voxel_side, mass_side)
    cluster_mass = add_up(jnp.broadcast_to(voxel.mass, second.shape))
    exists = cluster_mass > 0
    safe_mass = jnp.where(exists, cluster_mass, 1)
    rest_position = jnp.stack([add_up(voxel.mass * center[..., axis]) / safe_mass for axis in (0, 1)], -1)
    rest_position = jnp.where(exists[..., None], rest_position, _vertices(present.shape, voxel_side))
    offset = center - jnp.stack([masses_of_clusters(rest_position[..., axis], second) for axis in (0, 1)], -1)
    swing = voxel.mass * (offset**2).sum(-1)
    cluster_inertia = add_up(inertia + swing)
    safe_inertia = jnp.where(exists, cluster_inertia, 1)
    held = jnp.zeros(second.shape, dtype) if anchored is None else jnp.asarray(anchored, dtype)
    free = exists & (add_up(held) == 0)

    return Model(
        present=present,
        mass=voxel.mass,
        inertia=inertia,
        half_side=mass_side / 2,
        voxel_side=voxel_side,
        angular_frequency=2 * jnp.pi * voxel.spring_frequency,
        damping_ratio=voxel.spring_damping_ratio,
        groups=voxel.groups * present,
        spring_length=jnp.stack(
            [
                spring_lengths(voxel_side * jnp.sqrt(1 + change * voxel.max_area_change), mass_side)
                for change in (-1, 0, 1)
            ]
        ),
        max_force=None if voxel.max_force is None else voxel.max_force * present,
        lower_limit=None if voxel.lower_limit is None else voxel.lower_limit * mass_side,
        upper_limit=None if voxel.upper_limit is None else voxel.upper_limit * (voxel_side - mass_side),
        in_second_layer=second,
        mass_offset=offset,
        rest_position=rest_position,
        cluster_mass=cluster_mass,
        cluster_inertia=cluster_inertia,
        inverse_mass=jnp.where(free, 1 / safe_mass, 0),
        inverse_inertia=jnp.where(free, 1 / safe_inertia, 0),
        linear_damping=add_up(voxel.mass * voxel.linear_damping + 0 * second) / safe_mass,
        # A rigid cluster that turns also drags its masses along, so their linear damping turns into torque.
        angular_damping=add_up(inertia * voxel.angular_damping + swing * voxel.linear_damping) / safe_inertia,
        **_contact_points(present, second, layers, offset, mass_side, voxel.friction, voxel.restitution),
    )


def _touches_at_corner(present: Array) -> Array:
    """True at vertices where just two opposite voxels meet, (rows+1, columns+1)."""
    corners = jnp.broadcast_to(present, (4, *present.shape))
    a, b, c, d = vertices_of_corners(corners)
    return (a & c & ~b & ~d) | (b & d & ~a & ~c)


def _vertices(shape: tuple[int, ...], voxel_side: Array) -> Array:
    rows, columns = shape
    x, y = jnp.meshgrid(jnp.arange(columns + 1) * voxel_side, jnp.arange(rows + 1) * voxel_side)
    return jnp.stack([x, y], -1)


def _mass_centers(shape: tuple[int, ...], voxel_side: Array, mass_side: Array) -> Array:
    """(4, rows, columns, 2) with the grid's lower left corner at the origin [m]."""
    rows, columns = shape
    x, y = jnp.meshgrid((jnp.arange(columns) + 0.5) * voxel_side, (jnp.arange(rows) + 0.5) * voxel_side)
    reach = (voxel_side - mass_side) / 2
    signs = jnp.asarray(CORNER_SIGNS, reach.dtype)
    return jnp.stack([x, y], -1) + signs[:, None, None, :] * reach[..., None]


def _contact_points(
    present: Array,
    second: Array,
    layers: int,
    offset: Array,
    mass_side: Array,
    friction: Array,
    restitution: Array,
) -> dict[str, Array]:
    """The convex corners of every cluster.

    Mass k of a voxel has its own corners c; corner k lies on the lattice vertex, corner k+2 is the far one and
    always sticks out; corner k+1 lies against quadrant k-1 of the vertex and corner k-1 against quadrant k+1,
    so each of these sticks out only if that quadrant is not welded on.
    """
    around = vertices_of_corners(jnp.broadcast_to(present, second.shape))
    layer = vertices_of_corners(second)
    rows = [([], [], [], []) for _ in range(layers)]
    for k in range(4):
        r_offset = vertices_of_corners(offset)[k]
        half = vertices_of_corners(jnp.broadcast_to(mass_side / 2, second.shape))[k]
        grip = vertices_of_corners(jnp.broadcast_to(friction, second.shape))[k]
        bounce = vertices_of_corners(jnp.broadcast_to(restitution, second.shape))[k]
        before, after = (_welded(around, layer, k, (k + turn) % 4) for turn in (-1, 1))
        sticks_out = {
            k: ~before & ~after,
            (k + 1) % 4: ~before,
            (k + 2) % 4: jnp.ones_like(before),
            (k + 3) % 4: ~after,
        }
        for corner in range(4):
            arm = jnp.asarray(CORNER_SIGNS[corner], half.dtype) * half[..., None]
            for level in range(layers):
                here = (around[k] > 0) & (layer[k] == level)
                for values, value in zip(
                    rows[level], (here & sticks_out[corner], r_offset + arm, grip, bounce), strict=True
                ):
                    values.append(value)
    active, place, grip, bounce = (
        jnp.stack([jnp.stack(rows[level][item]) for level in range(layers)], 1) for item in range(4)
    )
    order = jnp.argsort(~active, axis=0, stable=True)[:CONTACT_POINTS]
    active = jnp.take_along_axis(active, order, 0)
    return {
        "contact_offset": jnp.take_along_axis(place, order[..., None], 0) * active[..., None],
        "contact_active": active,
        "contact_friction": jnp.take_along_axis(grip, order, 0) * active,
        "contact_restitution": jnp.take_along_axis(bounce, order, 0) * active,
    }


def _welded(around: Array, layer: Array, quadrant: int, neighbour: int) -> Array:
    return (around[quadrant] > 0) & (around[neighbour] > 0) & (layer[quadrant] == layer[neighbour])
