"""Fluid in closed chambers: volume, height of its center, energy, and the load on the walls.

A chamber is bounded by faces over the nodes of a body. With n the unit vector out of the fluid, Gauss gives

    V = ∫ z n_z dA,    M = ∫ z dV = ∫ z²/2 n_z dA,    E = -p V + ρ g (M - z_port V)

and the force on node i is -∂E/∂x_i = ∫ N_i (p - ρ g (z - z_port)) n dA: the pressure of a fluid at rest, on side walls
too. All integrands are polynomials over a face, and a few points integrate them without error. Faces are segments in
2-D, triangles or quadrilaterals in 3-D. A quadrilateral is the bilinear patch between its corners, the face of a
trilinear voxel: it has no diagonal to choose, its edges are straight so that neighbors leave no gap, and seen from the
other side it is the same patch, so that two voxels with a common face enclose what both enclose.

Inertia, flow and sloshing of the fluid are not modeled. One body; use `vmap` for many.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Surface:
    """Walls of the chambers of one body; made by `surface_of`.

    Bodies that differ in `chamber` and `weight` only share one compilation.
    """

    corners: Array
    """nodes of every face, (faces, corners): in 2-D with the fluid to the left, in 3-D counter-clockwise as seen from
    outside the fluid"""
    incident: Array
    """for every node its places among the flattened corners, filled up with their number, (nodes, most)"""
    chamber: Array
    """which chamber a face bounds, from 0, (faces,)"""
    weight: Array
    """1, or 0 for a face that is not there, (faces,)"""
    depth: Array
    """of a 2-D body across its plane [m], (); 1 and without meaning in 3-D"""
    chambers: int = field(metadata={"static": True})

    @property
    def dimension(self) -> int:
        return 2 if self.corners.shape[1] == 2 else 3


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Filling:
    """What chambers hold; each (chambers,)."""

    pressure: Array
    """at the port, above that outside [Pa]"""
    density: Array
    """[kg/m³]; 0 for a gas without weight"""
    port: Array
    """height of the port, where the pressure is known [m]"""


def surface_of(
    corners: ArrayLike,
    nodes: int,
    *,
    chamber: ArrayLike = 0,
    weight: ArrayLike = 1.0,
    chambers: int = 1,
    depth: float = 1.0,
    dtype: np.dtype | type = np.float32,
) -> Surface:
    """Faces as chambers; see Surface. nodes: of the body, whether or not a face has them; depth: [m], of 2-D bodies.

    Raises ValueError if a chamber is not closed.
    """
    faces = np.asarray(corners, np.int32)
    if faces.ndim != 2 or faces.shape[1] not in (2, 3, 4):
        raise ValueError(f"corners has shape {faces.shape}; give (faces, 2), (faces, 3) or (faces, 4)")
    if faces.size and not (faces.min() >= 0 and faces.max() < nodes):
        raise ValueError(f"corners names nodes {faces.min()} to {faces.max()}; there are nodes 0 to {nodes - 1}")
    number = np.broadcast_to(np.asarray(chamber, np.int32), len(faces))
    if number.size and not (number.min() >= 0 and number.max() < chambers):
        raise ValueError(f"chamber is {number.min()} to {number.max()}; there are chambers 0 to {chambers - 1}")
    present = np.broadcast_to(np.asarray(weight, dtype), len(faces))
    gaps = open_edges(faces, number, present)
    if gaps:
        what = "end" if faces.shape[1] == 2 else "edge"
        raise ValueError(
            f"{gaps} {what}s of faces meet no other; chambers must be closed, faces all turned the same way"
        )
    return Surface(
        corners=jnp.asarray(faces),
        incident=jnp.asarray(_incident(faces, nodes)),
        chamber=jnp.asarray(number),
        weight=jnp.asarray(present),
        depth=jnp.asarray(depth if faces.shape[1] == 2 else 1.0, dtype),
        chambers=chambers,
    )


def open_edges(corners: np.ndarray, chamber: np.ndarray, weight: np.ndarray) -> int:
    """How many edges (in 2-D: nodes) of chambers are not passed as often one way as the other; 0 if all are closed."""
    start, end = corners, np.roll(corners, -1, 1)
    if corners.shape[1] == 2:
        ends, sign = corners[..., None], np.array([1.0, -1.0])
    else:
        ends = np.stack([np.minimum(start, end), np.maximum(start, end)], -1)
        sign = np.sign(end - start)
    owner = np.broadcast_to(chamber[:, None, None], (*corners.shape, 1))
    keys = np.concatenate([owner, ends], -1).reshape(corners.size, -1)
    found, place = np.unique(keys, axis=0, return_inverse=True)
    balance = np.bincount(place.reshape(-1), (sign * weight[:, None]).reshape(-1), len(found))
    return int((np.abs(balance) > 1e-6).sum())


def voxel_faces(corners: np.ndarray) -> np.ndarray:
    """The faces of voxels, each as Surface wants it, (voxels · 2 dimension, 2 or 4).

    corners: nodes of every voxel, numbered by their bits (vsr.robot.corners), (voxels, 4 or 8). A voxel is closed by
    its own faces, and those between two voxels of a chamber cancel, so any set of voxels is a chamber: repeat its
    number and presence for the faces of each.
    """
    faces = SIDES[corners.shape[1]]
    return corners[:, faces].reshape(-1, faces.shape[1])


def volume(surface: Surface, position: Array) -> Array:
    """Of the fluid [m³], (chambers,); position: of the nodes [m], (nodes, dimension)."""
    points = _points(surface, position)
    return _by_chamber(surface, (points.height - _level(points)) * points.area[..., -1])


def first_moment(surface: Surface, position: Array) -> Array:
    """Volume times height of its center, ∫ z dV [m⁴], (chambers,); position: of the nodes [m], (nodes, dimension)."""
    points = _points(surface, position)
    level = _level(points)
    over, up = points.height - level, points.area[..., -1]
    return _by_chamber(surface, over**2 / 2 * up) + level * _by_chamber(surface, over * up)


def energy(surface: Surface, position: Array, filling: Filling, gravity: Array | float) -> Array:
    """-p V + ρ g (M - z_port V) of every chamber [J], (chambers,); gravity: [m/s²], ()."""
    points = _points(surface, position)
    over = points.height - filling.port[surface.chamber][:, None]
    lifted = _by_chamber(surface, over**2 / 2 * points.area[..., -1])
    return filling.density * gravity * lifted - filling.pressure * volume(surface, position)


def load(surface: Surface, position: Array, filling: Filling, gravity: Array | float) -> Array:
    """Force of the fluid on every node [N], (nodes, dimension): minus the gradient of the energy of all chambers.

    Its sum is the weight of the fluid, which acts at the fluid's center.
    """
    points = _points(surface, position)
    number = surface.chamber
    depth = filling.port[number][:, None] - points.height
    pressure = filling.pressure[number][:, None] + (filling.density * gravity)[number][:, None] * depth
    push = (pressure * surface.weight[:, None])[..., None] * points.area
    return at_nodes(surface, _blend(points.shape.T[..., None], push))


def at_nodes(surface: Surface, at_corners: Array) -> Array:
    """Values of the corners of faces added up at nodes, (faces, corners, ...) -> (nodes, ...), always in one order."""
    flat = at_corners.reshape(-1, *at_corners.shape[2:])
    padded = jnp.concatenate([flat, jnp.zeros_like(flat[:1])])
    return padded[surface.incident].sum(1)


class _Points(NamedTuple):
    """Where integrands are taken, p on every face."""

    shape: np.ndarray
    """share of every corner at a point, (p, corners)"""
    height: Array
    """[m], (faces, p)"""
    area: Array
    """of wall that a point stands for, along the normal out of the fluid [m²], (faces, p, dimension)"""


def _points(surface: Surface, position: Array) -> _Points:
    rule = RULES[surface.corners.shape[1]]
    corner = position[surface.corners]
    kind = position.dtype
    height = _blend(rule.shape[..., None], corner[..., -1:])[..., 0]
    tangents = [_blend(gradient[..., None], corner) for gradient in rule.gradient]
    across = jnp.cross(tangents[0], tangents[1]) if len(tangents) == 2 else _to_the_right(tangents[0])
    return _Points(rule.shape, height, across * (surface.depth * rule.share).astype(kind))


def _blend(shares: np.ndarray, values: Array) -> Array:
    """Values of corners at the points of faces, (p, corners, 1) and (faces, corners, n) -> (faces, p, n).

    With shares transposed, what acts at points goes back to corners. A sum in plain words: matrix products are rounded
    to ten bits on some GPUs, and reductions this short are slow.
    """
    shares = shares.astype(values.dtype)
    return sum(shares[:, corner] * values[:, None, corner] for corner in range(shares.shape[1]))  # pyright: ignore[reportReturnType]


def _to_the_right(along: Array) -> Array:
    """The vector a quarter turn to the right of one in 2-D."""
    return jnp.stack([along[..., 1], -along[..., 0]], -1)


def _level(points: _Points) -> Array:
    """A height amid the faces, from which heights are taken so that a high place costs no digits [m], ()."""
    return jax.lax.stop_gradient(points.height.mean())


def _by_chamber(surface: Surface, values: Array) -> Array:
    """Sums over the points of the faces of each chamber, (faces, p) -> (chambers,), always in one order."""
    of_face = surface.weight * values.sum(1)
    mine = surface.chamber == jnp.arange(surface.chambers)[:, None]
    return jnp.where(mine, of_face, 0).sum(1)


class _Rule(NamedTuple):
    """Points on a face, with equal shares of the unit face."""

    shape: np.ndarray
    """share of every corner at a point, (p, corners)"""
    gradient: np.ndarray
    """of the shares along each coordinate of the face, (dimension - 1, p, corners)"""
    share: float


def _gauss() -> np.ndarray:
    """Two points that integrate cubics over [0, 1]."""
    return 0.5 + np.array([-1, 1]) / np.sqrt(12)


def _segment() -> _Rule:
    """Squares of heights ask for degree 2, and two points have 3."""
    u = _gauss()
    return _Rule(np.stack([1 - u, u], 1), np.array([[[-1.0, 1.0]] * 2]), 1 / 2)


def _triangle() -> _Rule:
    """Squares of heights ask for degree 2, which these three points have; tangents span twice the area."""
    gradient = np.array([[[-1.0, 1.0, 0.0]] * 3, [[-1.0, 0.0, 1.0]] * 3])
    return _Rule((np.ones((3, 3)) + 3 * np.eye(3)) / 6, gradient, 1 / 6)


def _quadrilateral() -> _Rule:
    """Squares of heights times the area ask for degree 3 along each side, which two points have."""
    u, v = (grid.reshape(-1, 1) for grid in np.meshgrid(_gauss(), _gauss(), indexing="ij"))
    shape = np.concatenate([(1 - u) * (1 - v), u * (1 - v), u * v, (1 - u) * v], 1)
    gradient = np.stack([np.concatenate([v - 1, 1 - v, v, -v], 1), np.concatenate([u - 1, -u, u, 1 - u], 1)])
    return _Rule(shape, gradient, 1 / 4)


RULES = {2: _segment(), 3: _triangle(), 4: _quadrilateral()}
"""By the number of corners."""
SIDES = {
    4: np.array([[0, 1], [1, 3], [3, 2], [2, 0]]),
    8: np.array([[0, 4, 6, 2], [1, 3, 7, 5], [0, 1, 5, 4], [2, 6, 7, 3], [0, 2, 3, 1], [4, 5, 7, 6]]),
}
"""Corners of the faces of a voxel, by the number of its corners."""


def _incident(corners: np.ndarray, nodes: int) -> np.ndarray:
    """See Surface."""
    order = np.argsort(corners.reshape(-1), kind="stable")
    sizes = np.bincount(corners.reshape(-1), minlength=nodes)
    most = max(int(sizes.max(initial=0)), 1)
    rank = np.arange(corners.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    table = np.full((nodes, most), corners.size, np.int32)
    table[np.repeat(np.arange(nodes), sizes), rank] = order
    return table
