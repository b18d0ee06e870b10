"""From a grid of material indices to the arrays of a `SquareModel`, inside or outside `jit`.

Welding: the masses around a lattice vertex form a ring of up to four quadrants; those of side-adjacent voxels are
welded. So the present quadrants are one cluster, except when just two opposite ones are present: then they only
touch, and the upper one goes to the second layer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.physics.squares.geometry import (
    clusters_of_masses,
    corners_of_vertices,
    masses_of_clusters,
    vertices_of_corners,
)
from vsr.physics.squares.model import CORNER_SIGNS, SquareModel, spring_lengths
from vsr.robot.material import Material
from vsr.robot.springs import SQUARE_GROUPS


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class SquareMaterials:
    """Materials as columns, so that a voxel's material is an index. All (materials,) unless said otherwise."""

    mass_side_ratio: Array
    linear_damping: Array
    angular_damping: Array
    mass: Array
    friction: Array
    restitution: Array
    spring_frequency: Array
    spring_damping_ratio: Array
    max_area_change: Array
    """0 for a material with force actuation"""
    max_force: Array | None
    """0 for a material with area actuation; None if all are"""
    groups: Array
    """1 where the material has the group, (materials, groups)"""
    lower_limit: Array | None
    """None if no material has one"""
    upper_limit: Array | None
    """infinite where there is none; None if no material has one"""

    @staticmethod
    def of(materials: Sequence[Material], dtype: jnp.dtype | type = jnp.float32) -> SquareMaterials:
        """The table of a sequence of materials, in its order."""

        def column(values: list[float]) -> Array:
            return jnp.asarray(np.array(values), dtype)

        def used(values: list[float], unused: float) -> Array | None:
            return None if all(value == unused for value in values) else column(values)

        plain = (
            *("mass_side_ratio", "linear_damping", "angular_damping", "mass", "friction", "restitution"),
            *("spring_frequency", "spring_damping_ratio"),
        )
        by_area, by_force = ([material.actuation == kind for material in materials] for kind in ("area", "force"))
        return SquareMaterials(
            **{name: column([getattr(material, name) for material in materials]) for name in plain},
            max_area_change=column([m.max_area_change if a else 0.0 for m, a in zip(materials, by_area, strict=True)]),
            max_force=used([m.max_force if f else 0.0 for m, f in zip(materials, by_force, strict=True)], 0.0),
            groups=jnp.asarray(np.array([[m.has(group) for group in SQUARE_GROUPS] for m in materials]), dtype),
            lower_limit=used([m.lower_limit for m in materials], 0.0),
            upper_limit=used([np.inf if m.upper_limit is None else m.upper_limit for m in materials], np.inf),
        )


MOST_LAYERS = 2
"""Clusters that can meet at a vertex without sharing a side."""
CONTACT_POINTS = 5
"""Convex corners a cluster can have: four for one, two or four masses, five for three."""


def assemble(
    cells: Array,
    table: SquareMaterials,
    voxel_side: Array | float = 3.0,
    *,
    layers: int = 2,
    anchored: Array | np.ndarray | None = None,
) -> SquareModel:
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

    second = _second_layer(present, layers)
    clusters = _weld(voxel, present, second, layers, _mass_centers(present.shape, voxel_side, mass_side), inertia)
    clusters["rest_position"] = jnp.where(
        clusters["cluster_mass"][..., None] > 0, clusters["rest_position"], _vertices(present.shape, voxel_side)
    )
    clamped = jnp.zeros(second.shape, dtype) if anchored is None else jnp.asarray(anchored, dtype)
    free = (clusters["cluster_mass"] > 0) & (clusters_of_masses(clamped * present, second, layers) == 0)
    return SquareModel(
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
        **clusters,
        inverse_mass=jnp.where(free, 1 / jnp.where(free, clusters["cluster_mass"], 1), 0),
        inverse_inertia=jnp.where(free, 1 / jnp.where(free, clusters["cluster_inertia"], 1), 0),
        **_contact_points(present, second, layers, clusters["mass_offset"], mass_side, voxel),
    )


def _second_layer(present: Array, layers: int) -> Array:
    """1 for masses whose cluster is in the second layer, (4, rows, columns)."""
    if layers == 1:
        return jnp.zeros((4, *present.shape), present.dtype)
    upper = jnp.array([1, 1, 0, 0], present.dtype)[:, None, None]  # the quadrants above a vertex are corners 0 and 1
    return corners_of_vertices(_touches_at_corner(present > 0).astype(present.dtype)) * upper * present


def _weld(
    voxel: SquareMaterials, present: Array, second: Array, layers: int, center: Array, inertia: Array
) -> dict[str, Array]:
    """Mass, inertia, damping and center of every cluster, and its masses seen from there.

    voxel: each voxel's material, fields (rows, columns); center: of the masses [m], (4, rows, columns, 2); inertia: of
    a mass [kg m²], (rows, columns). Where there is no cluster, the center means nothing.
    """

    def add_up(values: Array) -> Array:
        return clusters_of_masses(jnp.broadcast_to(values * present, second.shape), second, layers)

    cluster_mass = add_up(voxel.mass)
    exists = cluster_mass > 0
    safe_mass = jnp.where(exists, cluster_mass, 1)
    middle = jnp.stack([add_up(voxel.mass * center[..., axis]) / safe_mass for axis in (0, 1)], -1)
    offset = center - masses_of_clusters(middle, second[..., None])
    parallel_axis = voxel.mass * (offset**2).sum(-1)
    cluster_inertia = add_up(inertia + parallel_axis)
    # A cluster that turns drags its masses along, so their linear damping resists its turning.
    turning_drag = add_up(inertia * voxel.angular_damping + parallel_axis * voxel.linear_damping)
    return {
        "cluster_mass": cluster_mass,
        "cluster_inertia": cluster_inertia,
        "rest_position": middle,
        "mass_offset": offset * present[..., None],
        "linear_damping": add_up(voxel.mass * voxel.linear_damping) / safe_mass,
        "angular_damping": turning_drag / jnp.where(exists, cluster_inertia, 1),
    }


def layers_needed(present: np.ndarray) -> int:
    """2 if some voxels touch only at a corner, else 1; present: True where there is a voxel, (rows, columns)."""
    a, b, c, d = present[:-1, :-1], present[:-1, 1:], present[1:, 1:], present[1:, :-1]
    return 2 if ((a & c & ~b & ~d) | (b & d & ~a & ~c)).any() else 1


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
    voxel: SquareMaterials,
) -> dict[str, Array]:
    """The convex corners of every cluster.

    Counted from the one that lies on the lattice vertex, a mass has corners 0 to 3. Corner 2 is the far one and always
    sticks out. Corner 1 lies against the quadrant before the mass and corner 3 against the one after it, so each sticks
    out only if that quadrant is not welded on, and corner 0 only if neither is.
    """

    def around_vertices(values: Array) -> Array:
        return vertices_of_corners(jnp.broadcast_to(values, second.shape))

    exists = around_vertices(present) > 0
    layer = around_vertices(second)
    to_next = exists & jnp.roll(exists, -1, 0) & (layer == jnp.roll(layer, -1, 0))
    to_previous = jnp.roll(to_next, 1, 0)
    sticks_out = exists[:, None] & jnp.stack(
        [~to_previous & ~to_next, ~to_previous, jnp.ones_like(exists), ~to_next], axis=1
    )
    own_corner = (np.arange(4)[:, None] + np.arange(4)) % 4
    signs = jnp.asarray(CORNER_SIGNS[own_corner], offset.dtype)[:, :, None, None, :]
    half = around_vertices(mass_side / 2)
    candidate = vertices_of_corners(offset)[:, None] + signs * half[:, None, ..., None]

    in_layer = layer[:, None, None] == jnp.arange(layers)[:, None, None]
    active = (sticks_out[:, :, None] & in_layer).reshape(16, layers, *exists.shape[1:])
    order = jnp.argsort(~active, axis=0, stable=True)[:CONTACT_POINTS]
    active = jnp.take_along_axis(active, order, 0)

    def chosen(values: Array) -> Array:
        """The first points in that order of values per mass and corner, (4, 4, rows+1, columns+1)."""
        flat = jnp.broadcast_to(values[:, :, None], (4, 4, *active.shape[1:])).reshape(16, *active.shape[1:])
        return jnp.take_along_axis(flat, order, 0) * active

    def per_mass(values: Array) -> Array:
        return jnp.broadcast_to(around_vertices(values)[:, None], sticks_out.shape)

    return {
        "contact_offset": jnp.stack([chosen(candidate[..., axis]) for axis in (0, 1)], -1),
        "contact_active": active,
        "contact_friction": chosen(per_mass(voxel.friction)),
        "contact_restitution": chosen(per_mass(voxel.restitution)),
    }
