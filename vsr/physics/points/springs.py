"""The springs of single voxels: every corner is joined to every other one.

A voxel's corners lie along axes of length two. The corner that a spring leads to is found by turning some of these
axes round: one for an edge, two for a face diagonal, three for a space diagonal. So all springs of all voxels take a
few operations on whole arrays.

Springs break for good where the force in them, pull or push, exceeds the limit of their material. As in lattices
(vsr.lattice.springs) the elastic force counts, and each voxel's springs break on their own: an edge that four voxels
share is four springs. Bodies of which no material can break know nothing of all this.
"""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.vector import Vector, dot, minus
from vsr.compute.xla import materialize
from vsr.lattice.law import pull, still_intact
from vsr.physics.points.model import PointModel, PointState

Axes = tuple[int, ...]
Sides = Array | tuple[Array, ...]
"""That springs pull voxels towards [m]: one for all axes, or one for each axis of cells, (c, ...)."""


def turns(dimension: int) -> list[Axes]:
    """The axes to turn round for each class of springs: edges first, then face diagonals, then space diagonals."""
    counts = range(1, dimension + 1)
    return [axes for count in counts for axes in itertools.combinations(range(dimension), count)]


def spring_corners(dimension: int) -> list[tuple[int, int, int]]:
    """Kind and both corners of every spring of a voxel, class by class as in `turns`; corners by their bits.

    Kinds: 0 for edges, 1 for face diagonals, 2 for space diagonals.
    """
    found = []
    for axes in turns(dimension):
        across = sum(1 << dimension - 1 - axis for axis in axes)
        for first in range(2**dimension):
            if not first >> dimension - 1 - axes[0] & 1:  # springs begin at the half of the corners with 0 there
                found.append((len(axes) - 1, first, first ^ across))
    return found


def rest_length(side: Sides, axes: Axes) -> Array:
    """Of springs that turn some axes round [m], (c, ...): the diagonal of a box of these sides."""
    if isinstance(side, tuple):
        return side[axes[0]] if len(axes) == 1 else jnp.sqrt(sum(side[axis] ** 2 for axis in axes))  # pyright: ignore
    return side * len(axes) ** 0.5


def voxel_forces(
    stiffness: Array,
    damping: Array,
    side: Sides,
    position: Vector,
    velocity: Vector,
    intact: tuple[Array, ...] | None = None,
) -> Vector:
    """Force of a voxel's springs on its corners [N], (2, ..., 2, c, ...).

    stiffness, damping: of its kinds of springs [N/m, N s/m], (kinds, c, ...); side: that they pull it towards [m], (c,
    ...); position and velocity: of its corners, (2, ..., 2, c, ...); intact: of each class of springs, in the order of
    `turns`, 0 or False for those that are not there or broke (see vsr.physics.points.springs), None if all are.
    """
    dimension = len(position)
    witness = position[0]
    pulls = []
    for number, axes in enumerate(turns(dimension)):
        kind = len(axes) - 1
        between, parting = (_half(_across(field, axes), axes) for field in (position, velocity))
        wide = (None,) * dimension
        length = rest_length(side, axes)
        constants = stiffness[kind][wide], damping[kind][wide]
        if intact is not None:
            constants = constants[0] * intact[number], constants[1] * intact[number]
        pulls.append(pull(constants[0], length[wide], constants[1], between, parting))
    pulls = materialize(witness, tuple(pulls))
    whole = tuple(_whole(half, axes) for half, axes in zip(pulls, turns(dimension), strict=True))
    whole = materialize(witness, whole)
    return tuple(
        sum(strength * _across((part,), axes)[0] for strength, axes in zip(whole, turns(dimension), strict=True))  # pyright: ignore[reportReturnType]
        for part in position
    )


def voxel_tensions(stiffness: Array, side: Sides, position: Vector) -> tuple[Array, ...]:
    """Elastic force of a voxel's springs [N], positive if stretched, for each class in the order of `turns`.

    Shapes as for `voxel_forces`; a class of springs has length one along the first axis it turns round.
    """
    dimension = len(position)
    wide = (None,) * dimension
    return tuple(
        stiffness[len(axes) - 1][wide] * (length - rest_length(side, axes)[wide])
        for axes, length in zip(turns(dimension), spring_lengths(position), strict=True)
    )


def spring_lengths(position: Vector) -> tuple[Array, ...]:
    """Of a voxel's springs [m], for each class in the order of `turns`; shapes as for `voxel_tensions`."""
    found = []
    for axes in turns(len(position)):
        between = _half(_across(position, axes), axes)
        squared = dot(between, between)
        # A length of 0, as voxels without corners have it, has no gradient.
        found.append(jnp.where(squared > 0, jnp.sqrt(jnp.where(squared > 0, squared, 1)), 0))
    return tuple(found)


def _across(field: Vector, axes: Axes) -> Vector:
    """What the corner across has more than a corner."""
    return minus(tuple(jax.lax.rev(part, axes) for part in field), field)


def _half(field: Vector, axes: Axes) -> Vector:
    """Each spring once: the half of the corners at which the springs begin."""
    return tuple(jax.lax.slice_in_dim(part, 0, 1, axis=axes[0]) for part in field)


def _whole(half: Array, axes: Axes) -> Array:
    """A value per spring at both of its corners."""
    return jnp.concatenate([half, jax.lax.rev(half, axes[1:]) if axes[1:] else half], axes[0])


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
