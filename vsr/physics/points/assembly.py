"""From a grid of material indices to a body of point masses, inside or outside `jit`, in 2-D and 3-D.

Each voxel owns its springs and an equal mass in every corner; voxels that share a face share its nodes, and masses,
stiffness and damping add up. So an edge between four voxels is four times as stiff as one on its own, and surfaces
are as soft as they should be. At a vertex, voxels that hang together by faces around it share a node; parts that only
touch there get nodes of their own, in other layers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.lattice.box import grid_positions, voxels_of_a_spring
from vsr.lattice.moduli import isotropic
from vsr.physics.fluid.finding import (
    FluidTable,
    Found,
    borrowed,
    corners_of_faces,
    find_chambers,
    springs_of_faces,
)
from vsr.physics.fluid.law import Chambers
from vsr.physics.points.geometry import corners_of_nodes, nodes_of_corners
from vsr.physics.points.model import DEFAULT_INTEGRATOR, PointModel
from vsr.physics.points.springs import spring_corners
from vsr.robot.corners import corner_steps
from vsr.robot.material import Material
from vsr.robot.springs import POINT_GROUPS


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PointMaterials:
    """Materials as columns for voxels of one size. All (materials,) unless said otherwise."""

    mass: Array
    """in each corner [kg]"""
    stiffness: Array
    """a voxel's own [N/m], (materials, kinds)"""
    damping: Array
    """a voxel's own [N s/m], (materials, kinds)"""
    stretch: Array
    """length over that at rest when shrunk and enlarged, (materials, 2)"""
    driven: Array | None
    """1 for axes of cells along which controls change lengths, (materials, dimension); None if along all or none"""
    max_force: Array | None
    """0 for a material with area actuation; None if all are"""
    linear_damping: Array
    friction: Array
    restitution: Array
    yield_force: Array | None
    """infinite for a material whose springs never break; None if no material's do"""
    fluid: FluidTable | None
    """None if no material is a fluid"""

    @staticmethod
    def of(
        materials: Sequence[Material],
        voxel_side: float,
        dimension: int,
        dtype: jnp.dtype | type = jnp.float32,
        cells: np.ndarray | None = None,
    ) -> PointMaterials:
        """The table of a sequence of materials, in its order; cells: see `Engine.table`."""

        def column(values: list) -> Array:
            return jnp.asarray(np.array(values, float), dtype)

        constants = [spring_constants(material, voxel_side, dimension) for material in materials]
        forces = [material.max_force if material.actuation == "force" else 0.0 for material in materials]
        forces = [0.0 if material.fluid else force for material, force in zip(materials, forces, strict=True)]
        driven = [driven_axes(material, dimension) for material in materials]
        changes = [
            [(1 + sign * material.max_area_change) ** (1 / max(axes.sum(), 1)) if axes.any() else 1 for sign in (-1, 1)]
            for material, axes in zip(materials, driven, strict=True)
        ]
        limits = [np.inf if material.yield_force is None else material.yield_force for material in materials]
        return PointMaterials(
            mass=column([corner_mass(material, voxel_side, dimension) for material in materials]),
            stiffness=column([stiffness for stiffness, _ in constants]),
            damping=column([damping for _, damping in constants]),
            stretch=column(changes),
            driven=None if all(axes.all() or not axes.any() for axes in driven) else column(driven),
            max_force=column(forces) if any(forces) else None,
            yield_force=column(limits) if np.isfinite(limits).any() else None,
            fluid=FluidTable.of(materials, dimension, dtype, cells),
            **{
                name: column([getattr(material, name) for material in materials])
                for name in ("linear_damping", "friction", "restitution")
            },
        )


def driven_axes(material: Material, dimension: int) -> np.ndarray:
    """True for axes of cells, the vertical first, along which a control value changes the length of a voxel."""
    vertical = np.arange(dimension) == 0
    axes = {"area": np.ones(dimension, bool), "vertical": vertical, "horizontal": ~vertical}
    return axes.get("none" if material.fluid is not None else material.actuation, np.zeros(dimension, bool))


def corner_mass(material: Material, voxel_side: float, dimension: int) -> float:
    """Mass in each corner of a voxel [kg]."""
    if material.density is None:
        return material.mass
    return material.density * voxel_side**dimension / 2**dimension


def spring_constants(material: Material, voxel_side: float, dimension: int) -> tuple[np.ndarray, np.ndarray]:
    """Stiffness [N/m] and damping [N s/m] of a voxel's own edges, face and space diagonals, each (kinds,).

    Either every spring has the material's frequency on the two corner masses at its ends, or all together make an
    isotropic solid of the material's Young's modulus.
    """
    mass = corner_mass(material, voxel_side, dimension)
    has = np.array([material.has(group) for group in POINT_GROUPS[:dimension]], float)
    if material.young_modulus is None:
        omega = 2 * math.pi * material.spring_frequency
        stiffness = 0.5 * mass * omega**2 * has
    else:
        whole = isotropic(material.young_modulus, voxel_side, dimension)[:dimension]
        stiffness = has * [constant / voxels_of_a_spring(kind, dimension) for kind, constant in enumerate(whole)]
    return stiffness, 2 * material.spring_damping_ratio * np.sqrt(stiffness * 0.5 * mass)


def assemble_points(
    cells: Array,
    table: PointMaterials,
    voxel_side: Array | float,
    *,
    layers: int,
    integrator: str | None = None,
    anchored: Array | np.ndarray | None = None,
) -> PointModel:
    """The model of any body on a grid.

    cells: material index, negative where empty, (rows, columns) or (levels, rows, columns), lowest first; voxel_side:
    [m]; layers: see `layers_needed` and `most_layers`; anchored: True for corners whose node is fixed,
    (corners, *cells).
    """
    dimension, dtype = cells.ndim, table.mass.dtype
    present = (cells >= 0).astype(dtype)
    layer = layer_of_corners(cells >= 0, layers).astype(dtype)
    corners = (2**dimension, *cells.shape)
    voxel = _of_voxels(table, cells)
    springs, found = None, None
    if voxel.fluid is not None:
        found = find_chambers(cells, voxel.fluid.is_fluid * present, voxel.fluid.places)
        voxel = _with_membranes(voxel, found)
    corner_masses = jnp.broadcast_to(voxel.mass * present, corners)
    if found is not None:
        corner_masses = corner_masses * _of_membranes(voxel, corners_of_faces(found.membranes))
        springs = _of_membranes(voxel, springs_of_faces(found.membranes, spring_corners(dimension)))

    def add_up(values: Array) -> Array:
        return nodes_of_corners(values, layer, dimension)

    mass = add_up(corner_masses)
    safe = jnp.where(mass > 0, mass, 1)
    clamped = jnp.zeros(corners, dtype) if anchored is None else jnp.asarray(anchored, dtype)
    free = (mass > 0) & (add_up(clamped * present) == 0)
    side = jnp.asarray(voxel_side, dtype)
    unit = jnp.asarray(grid_positions([size + 1 for size in cells.shape], 1.0), dtype)
    within = None if found is None else _chambers(voxel, found, side, layer, mass)
    total = mass if within is None else mass + within.fluid_mass
    return PointModel(
        present=present,
        mass=voxel.mass,
        voxel_side=side,
        stiffness=voxel.stiffness * present,
        damping=voxel.damping * present,
        stretch=voxel.stretch,
        driven=voxel.driven,
        max_force=None if voxel.max_force is None else voxel.max_force * present,
        layer=layer,
        rest_position=unit * side,
        node_mass=total,
        inverse_mass=jnp.where(free, 1 / jnp.where(mass > 0, total, 1), 0),
        linear_damping=add_up(corner_masses * voxel.linear_damping) / safe,
        friction=add_up(corner_masses * voxel.friction) / safe,
        restitution=add_up(corner_masses * voxel.restitution) / safe,
        yield_force=voxel.yield_force,
        springs=springs,
        chambers=within,
        dimension=dimension,
        integrator=integrator or DEFAULT_INTEGRATOR,
    )


def _of_voxels(table: PointMaterials, cells: Array) -> PointMaterials:
    """The table with a row for every cell, axes of cells last, (materials, ...) -> (..., c)."""
    axes, last = tuple(range(cells.ndim)), tuple(range(-cells.ndim, 0))
    index = jnp.clip(cells, 0, table.mass.shape[0] - 1)

    def of_cells(column: Array) -> Array:
        return column if column.ndim == 0 else jnp.moveaxis(column[index], axes, last)

    return jax.tree.map(of_cells, table)


def _with_membranes(voxel: PointMaterials, found: Found) -> PointMaterials:
    """Fluid voxels with the springs and masses of their membranes, as the solid voxels around have them if asked."""
    assert voxel.fluid is not None
    borrows = voxel.fluid.borrows * voxel.fluid.is_fluid > 0

    def taken(values: Array) -> Array:
        return jnp.where(borrows, borrowed(found, values, values), values)

    return replace(
        voxel,
        mass=taken(voxel.mass),
        stiffness=jnp.stack([taken(kind) for kind in voxel.stiffness]),
        damping=jnp.stack([taken(kind) for kind in voxel.damping]),
    )


def _of_membranes(voxel: PointMaterials, marked: Array) -> Array:
    """1 for what a voxel has: everything of a solid one, of a fluid one what is marked, nothing without membrane."""
    assert voxel.fluid is not None
    return jnp.where(voxel.fluid.is_fluid > 0, marked * (1 - voxel.fluid.leaks), 1)


def _chambers(voxel: PointMaterials, found: Found, side: Array, layer: Array, mass: Array) -> Chambers:
    """The chambers as arrays; mass: of nodes without fluid [kg], (layers, n)."""
    fluid, dimension = voxel.fluid, found.walls.ndim - 1
    assert fluid is not None
    axes = tuple(range(1, 1 + dimension))
    count = found.member.sum(axes)

    def of_chamber(values: Array) -> Array:
        return (found.member * values).sum(axes) / jnp.maximum(count, 1)

    numbers = jax.tree.map(of_chamber, fluid.numbers)
    # Empty places have moduli, too, because laws divide by them.
    numbers = replace(
        numbers,
        bulk_modulus=jnp.where(count > 0, numbers.bulk_modulus, 1),
        outside_pressure=jnp.where(count > 0, numbers.outside_pressure, 1),
    )
    rest_volume = count * side**dimension * fluid.depth
    # Fluid goes along with the walls, so the corners of its voxels that are nodes of walls share its mass.
    in_wall = corners_of_nodes((mass > 0).astype(mass.dtype), layer, dimension)
    shares = (found.member[:, None] * in_wall).sum((1, *(axis + 1 for axis in axes)))
    share = numbers.density * rest_volume / jnp.maximum(shares, 1)
    of_voxel = (found.member * jnp.expand_dims(share, axes)).sum(0)
    is_fluid = found.member.sum(0)
    touches = nodes_of_corners(jnp.broadcast_to(is_fluid, in_wall.shape), layer, dimension)
    return Chambers(
        member=found.member,
        walls=found.walls,
        numbers=numbers,
        rest_volume=rest_volume,
        depth=fluid.depth,
        fluid_mass=nodes_of_corners(in_wall * of_voxel, layer, dimension),
        follows=((mass == 0) & (touches > 0)).astype(mass.dtype),
        leaks=(found.membranes.max(0) * fluid.leaks * is_fluid).max() > 0,
    )


def most_layers(dimension: int) -> int:
    """Parts that can meet at a vertex without sharing a face: two in 2-D, four in 3-D."""
    return 2 ** (dimension - 1)


def layers_needed(present: np.ndarray) -> int:
    """Layers that a body needs; present: True where there is a voxel."""
    return int(_parts_at_corners(present, np)[:, present].max(initial=0)) + 1


def layer_of_corners(present: Array, layers: int) -> Array:
    """1 for the layer of each corner's node, (layers, corners, *cells); corners of empty cells see the first."""
    part = jnp.where(present, _parts_at_corners(present, jnp), 0)
    return part[None] == jnp.arange(layers).reshape(-1, *(1,) * part.ndim)


def _parts_at_corners(present: Any, library: Any) -> Any:
    """Which of the parts that meet at its vertex each voxel corner belongs to, counted from 0, (corners, *cells).

    library: numpy, which also works while jax traces, or jax.numpy.
    """
    steps, cells = corner_steps(present.ndim), present.shape
    corners = len(steps)
    # The voxel of which a vertex is corner k lies k's steps before it.
    around: Any = sum(
        library.pad(present, [(step, 1 - step) for step in corner]).astype(np.int32) << k
        for k, corner in enumerate(steps)
    )
    patterns = library.stack(
        [around[tuple(slice(step, step + size) for step, size in zip(corner, cells, strict=True))] for corner in steps]
    )
    first = np.arange(corners).reshape(-1, *(1,) * present.ndim) << corners
    return library.asarray(_parts_by_pattern(present.ndim).reshape(-1))[first + patterns]


@cache
def _parts_by_pattern(dimension: int) -> np.ndarray:
    """The same for all voxels that may be around a vertex, a bit for each, (corners, patterns)."""
    corners = 2**dimension
    own, nobody = np.arange(corners, dtype=np.int32)[:, None], corners
    here = (np.arange(2**corners) >> own) & 1 > 0
    label = np.where(here, own, nobody)
    for _ in range(corners - 1):  # a part's smallest number has gone round all of it after this many steps at most
        smallest = np.minimum.reduce([label, *(label[own[:, 0] ^ (1 << axis)] for axis in range(dimension))])
        label = np.where(here, smallest, nobody)
    first = here & (label == own)
    before = np.cumsum(first, 0, dtype=np.int32) - first
    return np.take_along_axis(before, np.minimum(label, corners - 1), 0)
