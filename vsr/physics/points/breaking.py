"""Springs of voxels that break for good where the force in them, pull or push, exceeds what their material bears.

As in lattices (vsr.lattice.springs) the elastic force counts, and each voxel's springs break on their own: an edge
that four voxels share is four springs. Bodies of which no material can break know nothing of all this.
"""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array

from vsr.compute.vector import Vector
from vsr.lattice.law import still_intact
from vsr.physics.points.model import PointModel, PointState
from vsr.physics.points.springs import Sides, turns, voxel_tensions


def spring_count(dimension: int) -> int:
    """Of one voxel with all groups of springs: 6 in 2-D, 28 in 3-D."""
    return len(turns(dimension)) * 2 ** (dimension - 1)


def all_intact(model: PointModel) -> Array | None:
    """The state of springs of which none has broken; None if none can."""
    if model.yield_force is None:
        return None
    return jnp.ones((spring_count(model.dimension), *model.present.shape), bool)


def by_class(intact: Array, dimension: int) -> tuple[Array, ...]:
    """(springs, c, ...) as `voxel_forces` takes it: an array for each class of springs."""
    classes = intact.reshape(len(turns(dimension)), -1, *intact.shape[1:])
    shapes = [tuple(1 if axis == axes[0] else 2 for axis in range(dimension)) for axes in turns(dimension)]
    return tuple(part.reshape(*shape, *intact.shape[1:]) for part, shape in zip(classes, shapes, strict=True))


def of_classes(classes: tuple[Array, ...], dimension: int) -> Array:
    """What `by_class` undoes."""
    return jnp.concatenate([part.reshape(2 ** (dimension - 1), *part.shape[dimension:]) for part in classes])


def break_overloaded(
    model: PointModel, yield_force: Array, side: Sides, corner: Vector, intact: tuple[Array, ...]
) -> tuple[Array, ...]:
    """Which springs, by class, are still whole; side: target of the voxels [m], c; corner: (2, ..., 2, c)."""
    forces = voxel_tensions(model.stiffness, side, corner)
    if model.springs is not None:  # what a fluid voxel does not have cannot break
        there = by_class(model.springs, model.dimension)
        forces = tuple(force * exists for force, exists in zip(forces, there, strict=True))
    return tuple(still_intact(whole, force, yield_force) for whole, force in zip(intact, forces, strict=True))


def broken_springs(model: PointModel, state: PointState) -> Array:
    """How many springs each voxel has lost, c."""
    if state.intact is None:
        return jnp.zeros(model.present.shape, jnp.int32)
    return (~state.intact).sum(0)
