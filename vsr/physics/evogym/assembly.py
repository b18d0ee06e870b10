"""From a grid of kinds of voxels to a body, inside or outside `jit`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.lattice.box import grid_positions
from vsr.physics.evogym.law import ACTUATOR, RIGID, SIDE, SOFT
from vsr.physics.evogym.model import EvogymModel, outer_edges
from vsr.physics.points.assembly import layer_of_corners
from vsr.physics.points.geometry import nodes_of_corners
from vsr.robot.material import Material


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class EvogymMaterials:
    """Kinds of voxels as columns, (kinds,) each."""

    edge: Array
    """stiffness of an edge"""
    diagonal: Array
    """stiffness of a diagonal"""
    gives: Array
    """1 for kinds whose edges are as soft as they are: all but rigid and fixed ones"""
    rigid: Array
    horizontal: Array
    vertical: Array
    fixed: Array

    @staticmethod
    def of(materials: Sequence[Material], dtype: jnp.dtype | type = jnp.float32) -> EvogymMaterials:
        """The table of a sequence of materials, in its order."""
        return _table(["rigid" if one.rigid else one.actuation for one in materials], dtype)


KINDS = ("rigid", "none", "horizontal", "vertical", "fixed")
"""EvoGym's 1 to 5 in its order: rigid, soft, horizontal and vertical actuators, fixed."""


def kinds_table(dtype: jnp.dtype | type = jnp.float32) -> EvogymMaterials:
    """The table of all kinds, in the order of KINDS, for objects that are no robots."""
    return _table(list(KINDS), dtype)


def _table(kinds: list[str], dtype: jnp.dtype | type) -> EvogymMaterials:
    constants = {"rigid": RIGID, "fixed": RIGID, "none": SOFT, "horizontal": ACTUATOR, "vertical": ACTUATOR}

    def column(values: list) -> Array:
        return jnp.asarray(np.array(values, float), dtype)

    return EvogymMaterials(
        edge=column([constants[kind].edge for kind in kinds]),
        diagonal=column([constants[kind].diagonal for kind in kinds]),
        gives=column([kind not in ("rigid", "fixed") for kind in kinds]),
        **{name: column([kind == name for kind in kinds]) for name in ("rigid", "horizontal", "vertical", "fixed")},
    )


def assemble_evogym(
    cells: Array,
    table: EvogymMaterials,
    voxel_side: Array | float = SIDE,
    *,
    layers: int,
    integrator: str | None = None,
    anchored: Array | np.ndarray | None = None,
) -> EvogymModel:
    """The model of any body on a grid; see vsr.physics.contract.Engine.assemble."""
    dtype, there = table.edge.dtype, cells >= 0
    present = there.astype(dtype)
    layer = layer_of_corners(there, layers).astype(dtype)
    corners = (4, *cells.shape)
    index = jnp.clip(cells, 0, table.edge.shape[0] - 1)
    voxel: EvogymMaterials = jax.tree.map(lambda column: column[index] * present, table)
    exists = (nodes_of_corners(jnp.broadcast_to(present, corners), layer, 2) > 0).astype(dtype)
    clamped = jnp.broadcast_to(voxel.fixed, corners)
    if anchored is not None:
        clamped = clamped + jnp.asarray(anchored, dtype) * present
    free = nodes_of_corners(clamped, layer, 2) == 0
    unit = jnp.asarray(grid_positions([size + 1 for size in cells.shape], 1.0), dtype)
    side = jnp.asarray(voxel_side, dtype)
    outer = outer_edges(there)
    return EvogymModel(
        present=present,
        mass=jnp.ones_like(present),
        voxel_side=side,
        layer=layer,
        rest_position=unit * side,
        node_mass=exists,
        inverse_mass=exists * free,
        friction=jnp.zeros_like(exists),
        restitution=jnp.zeros_like(exists),
        stiffness=_stiffness(voxel, outer),
        horizontal=voxel.horizontal,
        vertical=voxel.vertical,
        rigid=voxel.rigid,
        outer=outer.astype(dtype),
    )


def _stiffness(voxel: EvogymMaterials, outer: Array) -> Array:
    """Of the springs that voxels count, (6, c): a shared edge is counted by the upper or the right voxel.

    The softer kind has the edge between two; of two soft kinds the one that comes later, read row by row from the top.
    """

    def shared(earlier: Array, later: Array, earlier_gives: Array, later_gives: Array) -> Array:
        rigid = jnp.asarray(RIGID.edge, earlier.dtype)
        return jnp.where(later_gives > 0, later, jnp.where(earlier_gives > 0, earlier, rigid))

    below, below_gives = _before(voxel.edge, 0), _before(voxel.gives, 0)
    left, left_gives = _before(voxel.edge, 1), _before(voxel.gives, 1)
    there = voxel.edge > 0
    bottom = shared(voxel.edge, below, voxel.gives, below_gives)
    leftmost = shared(left, voxel.edge, left_gives, voxel.gives)
    own = [bottom, voxel.edge * outer[1], voxel.edge * outer[2], leftmost, voxel.diagonal, voxel.diagonal]
    return jnp.stack([constant * there for constant in own])


def _before(values: Array, axis: int) -> Array:
    """Of the cell below or to the left, 0 where there is none."""
    return jnp.roll(values, 1, axis).at[(0,) if axis == 0 else (slice(None), 0)].set(0)
