"""Robots among grains: the outer faces of their voxels touch grains, and every push has its opposite.

A face is the straight line between two corners of a voxel's hull, in 3-D the bilinear patch between four. Samples on
it, no farther apart than a grain is wide, find the grains near it by their cells; each grain belongs to the sample
whose part of the face it stands over. The contact itself is with the nearest point of the whole face, and the impulse
goes to the corners by their weights there.

What contacts give is added up in whole numbers of a small quantum, so that sums do not depend on the order in which a
GPU adds, and what grains receive is what robots lose, to the last bit.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from operator import add
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.vector import Vector, dot, join, minus, plus, split, times
from vsr.environment.surfaces import combined_friction
from vsr.physics.contract import ContactBody
from vsr.physics.granular.cells import difference, near, put_back
from vsr.physics.granular.contact import NEVER, Pairs, readiness_across, wanted_return
from vsr.physics.granular.model import RELAXATION, SLOP, GrainModel, GrainState, each
from vsr.robot.corners import corner_steps

SKIN = 0.5
"""Grains are listed up to this gap from a face, in radii; robots move faster than grains."""
SLOTS = 4
"""Grains that can stand over a sample's part of a face."""
STRETCH = 1.3
"""Faces can be longer than at rest by this factor without grains slipping past their samples."""
QUANTUM = 1e-7
"""Of the velocity that contacts with robots give to a grain [m/s]: as fine as float32 at 1 m/s, up to 200 m/s."""


class Faces(NamedTuple):
    """The faces of all cells of a grid and the samples on them; known before tracing. p samples."""

    corner: np.ndarray
    """places of the face's corners among those of all cells, (2 ** (dimension - 1), p)"""
    cell: np.ndarray
    """place of the face's cell, (p,)"""
    overflow: np.ndarray
    """place of the cell on the other side, the number of cells if there is none, (p,)"""
    outward: np.ndarray
    """1 or -1: which of the two normals leads out, (p,)"""
    at: np.ndarray
    """of the sample, from 0 to 1 along each direction of the face, (dimension - 1, p)"""
    face: np.ndarray
    """number of the face, (p,)"""
    per_side: int
    """samples along each direction"""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class RobotContacts:
    """Grains listed near a robot's faces; m contacts."""

    grain: Array
    """place of the grain among those sorted, `grains.count` where there is none, (m,)"""
    number: Array
    """its id, -1 where there is none, (m,)"""
    sample: Array
    """over which it stands, (m,)"""
    impulse: Array
    """on the grain [N s], (dimension, m)"""
    listed_at: Array
    """corners when the list was made [m], as in Hull.position"""


class Standing(NamedTuple):
    """Contacts with a robot through a step, each (m,) or a Vector of such."""

    pairs: Pairs
    corner: Array
    """places of the face's corners among those of all cells, (2 ** (dimension - 1), m)"""
    weight: Vector
    """of these corners at the point of contact"""


def samples_needed(voxel_side: float, radius: float, dimension: int) -> int:
    """Along each side of a face [m], so that no grain of a radius [m] finds a place between them."""
    return max(1, math.ceil(voxel_side * math.sqrt(dimension - 1) / (2 * radius) - 1e-6))


def contacts_needed(cells: tuple[int, ...], samples: int) -> int:
    """Capacity for grains that touch one robot: for a body that fills its grid and is buried, and then some."""
    dimension = len(cells)
    faces = 2 * sum(math.prod(cells) // size for size in cells)
    return max(32, 3 * faces * samples ** (dimension - 1))


def no_contacts(grains: GrainModel, robot: ContactBody) -> RobotContacts:
    """Before anything was listed."""
    position = robot.hull.position
    size = grains.contacts or contacts_needed(robot.model.present.shape, grains.samples)
    return RobotContacts(
        grain=jnp.full(size, grains.count, jnp.int32),
        number=jnp.full(size, -1, jnp.int32),
        sample=jnp.zeros(size, jnp.int32),
        impulse=jnp.zeros((grains.dimension, size), position.dtype),
        listed_at=jnp.full_like(position, jnp.inf),
    )


def robot_has_moved(grains: GrainModel, robot: ContactBody, contacts: RobotContacts, share: Array) -> Array:
    """Whether some corner is a share of the way from where it was listed after which a grain could be missed, ()."""
    way = robot.hull.position - contacts.listed_at
    present = (robot.model.present > 0)[None]
    most = share * (SKIN * grains.largest - grains.skin)  # grains themselves may have moved by half a skin twice
    return (((way**2).sum(-1) > most**2) & present).any()


def list_contacts(
    grains: GrainModel, state: GrainState, robot: ContactBody, contacts: RobotContacts
) -> tuple[RobotContacts, Array]:
    """Grains near a robot's faces, with the impulses that they had, and how many found no place, (4,)."""
    hull, present = robot.hull, robot.model.present.reshape(-1) > 0
    faces = _faces(robot.model.present.shape, grains.samples)
    at = tuple(jnp.asarray(part, hull.position.dtype) for part in faces.at)
    corners = _corners(hull.position, jnp.asarray(faces.corner))
    sample = _mixed(_weights(at), corners)
    tangents = _tangents(at, corners)
    outward = _outward(jnp.asarray(faces.outward, hull.position.dtype), tangents)
    exposed = present[jnp.asarray(faces.cell)] & ~jnp.append(present, False)[jnp.asarray(faces.overflow)]
    half = 0.5 / faces.per_side
    first, last = ([jnp.asarray(part) for part in ends] for ends in (faces.at < 1.5 * half, faces.at > 1 - 1.5 * half))

    def stands_over(between: Vector) -> Array:
        """Whether a grain is over this part of an open face and near enough."""
        over = jnp.broadcast_to(exposed, between[0].shape)
        for share, begins, ends in zip(_shares(between, tangents), first, last, strict=True):
            over &= ((share >= -half) | begins) & ((share < half) | ends)
        return over & (dot(between, outward) > -grains.largest)

    found = near(
        grains.box,
        grains.cells,
        state.position,
        state.offsets,
        put_back(grains.box, join(sample, 0)),
        grains.largest * math.hypot(1 + SKIN, STRETCH),
        slots=SLOTS,
        candidates=grains.candidates,
        accept=stands_over,
        missing=grains.count,
    )
    size = contacts.grain.shape[0]
    flat = found.place.reshape(-1)
    (chosen,) = jnp.nonzero(flat < grains.count, size=size, fill_value=flat.shape[0])
    chosen = chosen.astype(jnp.int32)
    grain = jnp.append(flat, jnp.int32(grains.count))[chosen]
    number = jnp.append(state.id, jnp.int32(-1))[grain]
    over = chosen % faces.cell.shape[0]
    missed = jnp.maximum((flat < grains.count).sum() - size, 0)
    contact_overflow = jnp.maximum(found.found - SLOTS, 0).max()
    listed = RobotContacts(
        grain=grain,
        number=number,
        sample=over,
        impulse=_carried(contacts, number, over, jnp.asarray(faces.face)),
        listed_at=hull.position,
    )
    return listed, jnp.stack([found.unseen, jnp.zeros_like(missed), missed, contact_overflow])


def _carried(contacts: RobotContacts, number: Array, sample: Array, face: Array) -> Array:
    """The impulses that the same grains had at the same face, (dimension, m)."""
    same = (contacts.number[:, None] == number) & (number >= 0) & (face[contacts.sample][:, None] == face[sample])
    return jnp.stack([jnp.where(same, part[:, None], 0).sum(0) for part in split(contacts.impulse, 0)])


def standing(
    grains: GrainModel, state: GrainState, robot: ContactBody, contacts: RobotContacts, duration: float
) -> Standing:
    """Contacts of listed grains and faces now."""
    hull = robot.hull
    faces = _faces(robot.model.present.shape, grains.samples)
    held = contacts.number >= 0
    place = jnp.where(held, contacts.grain, 0)
    corner = jnp.asarray(faces.corner)[:, contacts.sample]
    at = tuple(jnp.asarray(part, hull.position.dtype)[contacts.sample] for part in faces.at)
    corners = _corners(hull.position, corner)
    sample = _mixed(_weights(at), corners)
    tangents = _tangents(at, corners)
    outward = _outward(jnp.asarray(faces.outward, hull.position.dtype)[contacts.sample], tangents)
    center = tuple(part[place] for part in split(state.position, 0))
    between = difference(grains.box, center, split(put_back(grains.box, join(sample, 0)), 0))
    foot_at = tuple(jnp.clip(a + share, 0, 1) for a, share in zip(at, _shares(between, tangents), strict=True))
    weight = _weights(foot_at)
    away = minus(plus(between, sample), _mixed(weight, corners))
    distance = jnp.sqrt(jnp.maximum(dot(away, away), jnp.finfo(center[0].dtype).tiny))
    behind = dot(away, outward) < 0
    lost = ~held
    for share in foot_at:  # behind the end of a face it is the next face's matter
        lost |= behind & ((share <= 0) | (share >= 1))
    radius, mass, friction = (_of(each(part, state), place) for part in (grains.radius, grains.mass, grains.friction))
    gap = jnp.where(behind, -distance, distance) - radius
    inverse_effective_mass = _at(tuple(w * w for w in weight), hull.inverse_effective_mass.reshape(-1)[corner])
    touches = (gap < SKIN * grains.largest) & ~lost
    face = jnp.asarray(faces.face)[contacts.sample]
    together = jnp.zeros(faces.face.max() + 1, jnp.int32).at[face].add(touches)[face]
    heavy = 2 * jnp.maximum(together, 1) * inverse_effective_mass
    pairs = Pairs(
        normal=tuple(jnp.where(behind, n, a / distance) for n, a in zip(outward, away, strict=True)),
        bias=jnp.where(lost, NEVER, wanted_return(gap, SLOP * grains.largest, 1 / duration)),
        friction=combined_friction(friction, _at(weight, hull.friction.reshape(-1)[corner])),
        share=RELAXATION / (1 / mass + heavy),
        share_across=RELAXATION / (readiness_across(grains) / mass + heavy),
    )
    return Standing(pairs, corner, weight)


def speed_of_faces(robot: ContactBody, contacts: Standing) -> Vector:
    """At the points of contact [m/s]."""
    return _mixed(contacts.weight, _corners(robot.hull.velocity, contacts.corner))


def quantized(grains: GrainModel, contacts: Standing, values: Vector) -> tuple[list[Vector], Array]:
    """What each corner takes of impulses, as whole numbers, and what one of them is worth [N s]."""
    quantum = QUANTUM * jnp.mean(grains.mass)
    counts = [
        tuple(jnp.clip(jnp.round(weight * part / quantum), -1e9, 1e9).astype(jnp.int32) for part in values)
        for weight in contacts.weight
    ]
    return counts, quantum


def on_grains(grains: GrainModel, contacts: RobotContacts, counts: list[Vector], quantum: Array) -> Vector:
    """What contacts give to every grain [N s]."""
    given = jnp.stack([reduce(add, parts) for parts in zip(*counts, strict=True)], -1)
    total = jnp.zeros((grains.count, given.shape[-1]), jnp.int32).at[contacts.grain].add(given, mode="drop")
    return split(quantum * total.astype(quantum.dtype), 1)


def on_robot(robot: ContactBody, contacts: Standing, counts: list[Vector], quantum: Array) -> Array:
    """What contacts take from a robot, at the corners of its hull [N s], as in Hull.position."""
    shape = robot.hull.inverse_effective_mass.shape
    taken = jnp.concatenate([-jnp.stack(count, -1) for count in counts])
    corner = contacts.corner.reshape(-1)
    total = jnp.zeros((math.prod(shape), taken.shape[-1]), jnp.int32).at[corner].add(taken)
    return (quantum * total.astype(quantum.dtype)).reshape(*shape, -1)


def touched_cells(grains: GrainModel, contacts: RobotContacts) -> Array:
    """1 for voxels that push a grain or are pushed by one, else 0, *cells."""
    cells = contacts.listed_at.shape[1:-1]
    owner = jnp.asarray(_faces(cells, grains.samples).cell)[contacts.sample]
    pressed = ((contacts.impulse != 0).any(0) & (contacts.number >= 0)).astype(contacts.impulse.dtype)
    return jnp.zeros(math.prod(cells), pressed.dtype).at[owner].max(pressed).reshape(cells)


@lru_cache
def _faces(cells: tuple[int, ...], samples: int) -> Faces:
    dimension = len(cells)
    steps = np.array(corner_steps(dimension))
    position = steps[:, ::-1]  # the vertical is the first axis of cells and the last of space
    number = np.arange(math.prod(cells)).reshape(cells)
    places = (np.arange(samples) + 0.5) / samples
    at = np.stack([part.ravel() for part in np.meshgrid(*(places,) * (dimension - 1), indexing="ij")])
    corner, cell, overflow, outward, over, face = [], [], [], [], [], []
    for kind, (axis, side) in enumerate(itertools.product(range(dimension), (0, 1))):
        ends = np.flatnonzero(steps[:, axis] == side)
        along = [position[ends[1 << (dimension - 2 - k)]] - position[ends[0]] for k in range(dimension - 1)]
        normal = np.array([-along[0][1], along[0][0]]) if dimension == 2 else np.cross(along[0], along[1])
        out = np.zeros(dimension, int)
        out[axis] = 2 * side - 1
        padded = np.pad(number, 1, constant_values=number.size)
        window = tuple(slice(1 + step, 1 + step + size) for step, size in zip(out, cells, strict=True))
        owner = np.repeat(number.ravel(), at.shape[1])
        corner.append(ends[:, None] * number.size + owner)
        cell.append(owner)
        overflow.append(np.repeat(padded[window].ravel(), at.shape[1]))
        outward.append(np.full(owner.shape, np.sign(normal @ out[::-1])))
        over.append(np.tile(at, number.size))
        face.append(owner + kind * number.size)
    return Faces(
        corner=np.concatenate(corner, 1).astype(np.int32),
        cell=np.concatenate(cell).astype(np.int32),
        overflow=np.concatenate(overflow).astype(np.int32),
        outward=np.concatenate(outward).astype(float),
        at=np.concatenate(over, 1),
        face=np.concatenate(face).astype(np.int32),
        per_side=samples,
    )


def _weights(at: Sequence[Array]) -> Vector:
    """Of a face's corners at places on it: linear along each of its directions."""
    weights = []
    for ends in itertools.product((0, 1), repeat=len(at)):
        weights.append(math.prod((share if end else 1 - share for end, share in zip(ends, at, strict=True))))
    return tuple(weights)


def _tangents(at: Sequence[Array], corners: list[Vector]) -> tuple[Vector, ...]:
    """How places move along each direction of a face, from one end to the other [m]."""
    tangents = []
    for axis in range(len(at)):
        low, high = ([part * 0 + end if a == axis else part for a, part in enumerate(at)] for end in (0, 1))
        along = tuple(far - here for far, here in zip(_weights(high), _weights(low), strict=True))
        tangents.append(_mixed(along, corners))
    return tuple(tangents)


def _outward(sign: Array, tangents: tuple[Vector, ...]) -> Vector:
    """The unit normal out of faces."""
    if len(tangents) == 1:
        ((x, y),) = tangents
        normal = -y * sign, x * sign
    else:
        (a, b, c), (x, y, z) = tangents
        normal = (b * z - c * y) * sign, (c * x - a * z) * sign, (a * y - b * x) * sign
    return times(jax.lax.rsqrt(jnp.maximum(dot(normal, normal), 1e-20)), normal)


def _shares(between: Vector, tangents: tuple[Vector, ...]) -> list[Array]:
    """How far along each direction of the face a grain is from the sample, in lengths of the face."""
    if len(tangents) == 1:
        (along,) = tangents
        return [dot(between, along) / jnp.maximum(dot(along, along), 1e-20)]
    one, two = tangents
    aa, bb, ab = dot(one, one), dot(two, two), dot(one, two)
    a, b = dot(between, one), dot(between, two)
    whole = jnp.maximum(aa * bb - ab * ab, 1e-20)
    return [(a * bb - b * ab) / whole, (b * aa - a * ab) / whole]


def _corners(values: Array, corner: Array) -> list[Vector]:
    """Vectors of each end of faces; values: as in Hull.position; corner: (ends, faces)."""
    flat = values.reshape(-1, values.shape[-1])
    return [split(flat[place], 1) for place in corner]


def _mixed(weight: Sequence[Array], corners: list[Vector]) -> Vector:
    """What the ends of faces give at points of them, by their weights."""
    return tuple(_at(weight, parts) for parts in zip(*corners, strict=True))


def _at(weight: Sequence[Array], ends: Sequence[Array] | Array) -> Array:
    return reduce(add, (w * end for w, end in zip(weight, ends, strict=True)))


def _of(number: Array, place: Array) -> Array:
    """A number of the grains at places."""
    return number if number.ndim == 0 else number[place]
