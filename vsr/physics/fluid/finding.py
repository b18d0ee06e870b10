"""Chambers found in a grid of materials, inside or outside `jit`, and the membranes that close them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.grid import beside, label_components
from vsr.physics.fluid.law import NO_LIMIT, FluidNumbers
from vsr.physics.fluid.surface import SIDES
from vsr.physics.fluid.voxels import side_steps
from vsr.robot.fluid import Fluid
from vsr.robot.material import Material


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class FluidTable:
    """Fluids as columns, (materials,); rows of solid materials are of no use."""

    is_fluid: Array
    """1 for a fluid material"""
    numbers: FluidNumbers
    borrows: Array
    """1 where a membrane is as the solid voxels around the chamber are"""
    leaks: Array
    """1 where there is no membrane"""
    depth: Array
    """of 2-D bodies [m], (); 1 in 3-D"""
    places: int | None = field(metadata={"static": True})
    """for chambers; None for as many as a grid can have"""

    @staticmethod
    def of(
        materials: Sequence[Material], dimension: int, dtype: jnp.dtype | type, cells: np.ndarray | None = None
    ) -> FluidTable | None:
        """None if no material is a fluid; cells: of the only body, negative where empty."""
        fluids = [material.fluid for material in materials]
        if not any(fluids):
            return None
        rows = [_numbers(fluid or Fluid()) for fluid in fluids]

        def column(values: list) -> Array:
            return jnp.asarray(np.array(values, float), dtype)

        depths = [fluid.depth for fluid in fluids if fluid is not None]
        return FluidTable(
            is_fluid=column([fluid is not None for fluid in fluids]),
            numbers=FluidNumbers(**{f.name: column([row[f.name] for row in rows]) for f in fields(FluidNumbers)}),
            borrows=column([fluid is not None and fluid.membrane == "neighbors" for fluid in fluids]),
            leaks=column([fluid is not None and fluid.membrane == "none" for fluid in fluids]),
            depth=column([depths[0] if dimension == 2 else 1.0])[0],
            places=None if cells is None else max(chambers_needed(cells, materials), 1),
        )


def _numbers(fluid: Fluid) -> dict[str, float]:
    none = (-NO_LIMIT, NO_LIMIT)
    low_pressure, high_pressure = fluid.pressure_limits or none
    low_added, high_added = fluid.volume_limits or none
    return {
        "density": fluid.mass_density,
        "port": fluid.port,
        "by_volume": fluid.drive == "volume",
        "is_gas": fluid.kind == "gas",
        "low_pressure": low_pressure,
        "high_pressure": high_pressure,
        "low_added": low_added,
        "high_added": high_added,
        "bulk_modulus": fluid.bulk_modulus,
        "outside_pressure": fluid.outside_pressure,
    }


@dataclass(frozen=True)
class Found:
    """What is known of the fluid voxels of a grid; c stands for the axes of cells."""

    member: Array
    """1 for the voxels of each chamber, (m, c)"""
    walls: Array
    """1 for faces of fluid voxels that bound their chamber, (faces, c)"""
    membranes: Array
    """1 for those of them that a membrane closes, (faces, c)"""
    solid_beside: Array
    """1 for those of them beyond which there is a solid voxel, (faces, c)"""


def most_chambers(cells: tuple[int, ...]) -> int:
    """That a grid can have: voxels of a chamber on their own, with no face in common."""
    return math.ceil(math.prod(cells) / 2)


def chambers_needed(cells: np.ndarray, materials: Sequence[Material]) -> int:
    """How many chambers a body has; cells: index of the material, negative where empty."""
    fluids = [index for index, material in enumerate(materials) if material.fluid is not None]
    if not fluids:
        return 0
    from scipy import ndimage  # takes a quarter of a second to load, and few robots have chambers

    return sum(ndimage.label(cells == index)[1] for index in fluids)  # pyright: ignore[reportIndexIssue]


def find_chambers(cells: Array, is_fluid: Array, places: int | None) -> Found:
    """The chambers of a body, numbered by their first voxel; places: see FluidTable.

    cells: index of the material, negative where empty; is_fluid: 1 for fluid voxels, both c.
    """
    count = most_chambers(cells.shape) if places is None else places
    kind = jnp.where((cells >= 0) & (is_fluid > 0), cells, -1)
    label = label_components(kind)
    flat = label.reshape(-1)
    first = (flat == jnp.arange(flat.size)).astype(jnp.int32)
    number = (jnp.cumsum(first) - first)[jnp.minimum(flat, flat.size - 1)].reshape(kind.shape)
    fluid, dtype = kind >= 0, is_fluid.dtype
    member = fluid & (number == jnp.arange(count).reshape(-1, *(1,) * kind.ndim))
    walls, membranes, solid = [], [], []
    for axis, step in side_steps(kind.ndim):
        other = beside(kind, axis, step, -1)
        there = beside(cells, axis, step, -1) >= 0
        walls.append(fluid & (other != kind))
        membranes.append(walls[-1] & ((other >= 0) | ~there))
        solid.append(walls[-1] & (other < 0) & there)
    return Found(member.astype(dtype), *(jnp.stack(part).astype(dtype) for part in (walls, membranes, solid)))


def borrowed(found: Found, values: Array, own: Array) -> Array:
    """Mean of the values of the solid voxels around each fluid voxel's chamber, own ones where there are none, c."""
    dimension = values.ndim
    ways = side_steps(dimension)
    axes = tuple(range(1, 1 + dimension))
    around = sum(face * beside(values, *way, 0) for face, way in zip(found.solid_beside, ways, strict=True))
    total = (found.member * around).sum(axes)
    count = (found.member * found.solid_beside.sum(0)).sum(axes)
    mean = jnp.where(count > 0, total / jnp.maximum(count, 1), 0)
    wide = jnp.expand_dims(jnp.stack([mean, count]), (2, *(axis + 1 for axis in axes[1:])))
    theirs, known = (found.member * wide).sum(1)
    return jnp.where(known > 0, theirs, own)


def corners_of_faces(faces: Array) -> Array:
    """1 for corners of voxels that are in any of their marked faces, (faces, c) -> (corners, c)."""
    dimension = faces.ndim - 1
    sides = SIDES[2**dimension]
    return jnp.stack([faces[np.array([corner in side for side in sides])].max(0) for corner in range(2**dimension)])


def springs_of_faces(faces: Array, springs: Sequence[tuple[int, int, int]]) -> Array:
    """1 for springs of voxels both ends of which are in a marked face, (faces, c) -> (springs, c).

    springs: kind and both corners of each (vsr.physics.points.springs.spring_corners).
    """
    sides = SIDES[2 ** (faces.ndim - 1)]
    rows = []
    for _, first, second in springs:
        holds = np.array([first in side and second in side for side in sides])
        rows.append(faces[holds].max(0) if holds.any() else jnp.zeros_like(faces[0]))
    return jnp.stack(rows)
