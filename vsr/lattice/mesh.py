"""Bodies from triangle meshes (STL, OBJ, whatever trimesh reads): filled with cells, or with points at random.

What is inside is found by a vertical ray from a point: the signed count of the triangles that it crosses is 0 outside.
Where a ray meets an edge or a corner, ties are broken as if the point lay a little beside, the same for all triangles,
so no crossing is lost or counted twice. Needs the extra `mesh` for files; the rest is numpy and scipy.

Random points are spread evenly (`best_candidates`) and joined to their neighbors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jax.numpy as jnp
import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

from vsr.lattice.box import of_cells
from vsr.lattice.graph import of_graph
from vsr.lattice.model import Lattice
from vsr.lattice.moduli import Stiffness


@dataclass(frozen=True)
class Mesh:
    """A closed surface of triangles."""

    corners: np.ndarray
    """of every triangle, counterclockwise from outside [m], (triangles, 3, 3)"""

    @property
    def lowest(self) -> np.ndarray:
        """Corner of the box around it [m], (3,)."""
        return self.corners.min((0, 1))

    @property
    def highest(self) -> np.ndarray:
        """Corner of the box around it [m], (3,)."""
        return self.corners.max((0, 1))

    @property
    def volume(self) -> float:
        """Enclosed [m³]."""
        return abs(self.signed_volume)

    @property
    def signed_volume(self) -> float:
        """Enclosed [m³]; below 0 for an inner surface, which encloses a void."""
        first, second, third = np.moveaxis(self.corners, 1, 0)
        return float((np.cross(first, second) * third).sum() / 6)


def read_mesh(path: str | Path, *, scale: float = 1.0) -> Mesh:
    """A mesh from a file; scale: meters per unit of the file (0.001 for millimeters).

    Raises ImportError without the extra, FileNotFoundError, and ValueError for what is not a closed surface.
    """
    try:
        import trimesh
    except ImportError as error:
        raise ImportError("reading meshes needs trimesh: pip install 'voxel-soft-robots[mesh]'") from error
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"no mesh file {path}")
    try:
        found = trimesh.load_mesh(path, process=True)
    except Exception as error:  # trimesh raises all kinds of errors at files that are not what they seem
        reason = f"{type(error).__name__}: {error}"
        raise ValueError(f"{path}: not a mesh that can be read ({reason}); use STL or OBJ") from error
    if isinstance(found, trimesh.Scene):
        found = found.to_mesh()
    found.merge_vertices(merge_tex=True, merge_norm=True)
    if not len(found.faces):
        raise ValueError(f"{path}: no triangles")
    if not found.is_watertight:
        raise ValueError(
            f"{path}: the surface is not closed (watertight), so it has no inside; fill its holes in a mesh editor"
        )
    if not found.is_winding_consistent:
        raise ValueError(f"{path}: some triangles face inwards, others outwards; make the normals consistent")
    return Mesh(scale * np.asarray(found.triangles, float))


def surfaces(mesh: Mesh) -> list[Mesh]:
    """The closed surfaces of a mesh, each on its own: triangles that hang together by common corners."""
    _, corner = np.unique(mesh.corners.reshape(-1, 3), axis=0, return_inverse=True)
    corner = corner.reshape(-1, 3)
    links = np.concatenate([corner[:, [0, 1]], corner[:, [1, 2]]])
    size = int(corner.max()) + 1
    _, part = connected_components(coo_matrix((np.ones(len(links)), links.T), shape=(size, size)), directed=False)
    return [Mesh(mesh.corners[part[corner[:, 0]] == number]) for number in np.unique(part)]


def contains(mesh: Mesh, points: np.ndarray) -> np.ndarray:
    """Which points [m], (points, 3), are inside, (points,)."""
    order = np.argsort(points[:, 0], kind="stable")
    x, y, z = points[order].T
    winding = np.zeros(len(points), int)
    lowest, highest = mesh.corners.min(1), mesh.corners.max(1)
    # Points that a triangle's shadow can cover, by x; wider by nothing, since ties beyond its ends cannot be inside.
    offsets, ends = np.searchsorted(x, lowest[:, 0], "left"), np.searchsorted(x, highest[:, 0], "right")
    for triangle in np.flatnonzero(ends > offsets):
        span = slice(offsets[triangle], ends[triangle])
        near = (y[span] >= lowest[triangle, 1]) & (y[span] <= highest[triangle, 1]) & (z[span] <= highest[triangle, 2])
        chosen = np.flatnonzero(near) + offsets[triangle]
        if len(chosen):
            winding[chosen] += _crossings(mesh.corners[triangle], x[chosen], y[chosen], z[chosen])
    inside = np.empty(len(points), bool)
    inside[order] = winding != 0
    return inside


def cells_inside(mesh: Mesh, side: float) -> np.ndarray:
    """Which cells of a side [m] have their center inside, (levels, rows, columns), from the mesh's lowest corner."""
    if side <= 0:
        raise ValueError(f"the side of a cell must be above 0; got {side} m")
    # A little less than a whole number of cells is that number: 1 m is ten cells of 0.1 m.
    counts = np.maximum(np.ceil((mesh.highest - mesh.lowest) / side - 1e-6).astype(int), 1)
    axes = [low + side * (np.arange(size) + 0.5) for low, size in zip(mesh.lowest, counts, strict=True)]
    levels, rows, columns = np.meshgrid(*axes[::-1], indexing="ij")
    present = contains(mesh, np.stack([columns, rows, levels], -1).reshape(-1, 3)).reshape(levels.shape)
    if not present.any():
        raise ValueError(
            f"no cell of side {side:g} m has its center inside a mesh of "
            f"{' × '.join(f'{size:.3g}' for size in mesh.highest - mesh.lowest)} m; use smaller cells, or another scale"
        )
    return present


def of_mesh_cells(
    mesh: Mesh,
    side: float,
    springs: Stiffness,
    density: float,
    *,
    damping_time: float = 0.0,
    damping: float = 0.0,
    dtype: jnp.dtype | type = jnp.float32,
) -> Lattice:
    """A mesh filled with cells of a side [m]; the grid begins at the origin, not where the mesh was.

    The rest as for `of_cells`.
    """
    present = cells_inside(mesh, side)
    return of_cells(present, side, springs, density, damping_time=damping_time, damping=damping, dtype=dtype)


def of_mesh_points(
    mesh: Mesh,
    count: int,
    young_modulus: float,
    density: float,
    *,
    neighbor_count: int | None = 12,
    radius: float | None = None,
    candidates: int = 20,
    seed: int = 0,
    damping_time: float = 0.0,
    damping: float = 0.0,
    besides: np.ndarray | None = None,
    dtype: jnp.dtype | type = jnp.float32,
) -> Lattice:
    """A mesh filled with quasi-uniform random points, each joined to its nearest, where the mesh is.

    count: of points; besides: others that are nodes too, and come first [m], (points, 3); young_modulus: of the body
    [Pa]; density: of the body [kg/m³], shared equally by the points; neighbor_count, radius [m]: who is joined (see
    `neighbors`), the radius if both are given.

    All springs are rods E A / L of one cross section, A = 6 V / sum of L, which gives the body its Young's modulus if
    it deforms evenly: the sum of k L² over 6 V. Random lattices give way unevenly, so they are somewhat softer.
    """
    if count < 2:
        raise ValueError(f"a lattice needs at least 2 points; got {count}")
    random = np.random.default_rng(seed)
    draw = draw_inside(lambda points: contains(mesh, points), mesh.lowest, mesh.highest, random)
    position = best_candidates(draw, count, candidates=candidates, besides=besides)
    pairs = neighbors(position, count=neighbor_count if radius is None else None, radius=radius)
    length = np.linalg.norm(position[pairs[:, 1]] - position[pairs[:, 0]], axis=1)
    return of_graph(
        position,
        pairs,
        young_modulus=young_modulus,
        area=6 * mesh.volume / length.sum(),
        total_mass=density * mesh.volume,
        damping_time=damping_time,
        damping=damping,
        dtype=dtype,
    )


def _crossings(corners: np.ndarray, x: np.ndarray, y: np.ndarray, z: np.ndarray) -> np.ndarray:
    """-1, 0 or 1 for each point: whether a ray upwards crosses a triangle, from its front or its back."""
    sides = np.stack([_left_of(corners[i], corners[(i + 1) % 3], x, y) for i in range(3)])
    covered = (sides == sides[0]).all(0)
    if not covered.any():
        return np.zeros(len(x), int)
    normal = np.cross(corners[1] - corners[0], corners[2] - corners[0])
    if normal[2] == 0:  # seen edge-on; where rounding says it is covered, its neighbors say so as well, both ways
        return np.zeros(len(x), int)
    height = corners[0, 2] - (normal[0] * (x - corners[0, 0]) + normal[1] * (y - corners[0, 1])) / normal[2]
    return np.where(covered & (height > z), np.where(sides[0], 1, -1), 0)


def _left_of(start: np.ndarray, end: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Whether points lie left of a line seen from above, never on it.

    Always computed from the smaller end (by x, then y), so that the two triangles of an edge agree to the last bit.
    """
    swapped = (start[0], start[1]) > (end[0], end[1])
    if swapped:
        start, end = end, start
    side = (end[0] - start[0]) * (y - start[1]) - (end[1] - start[1]) * (x - start[0])
    return (side < 0) if swapped else (side >= 0)


MOST_ROUNDS = 200
"""Of drawing points in a box until enough lie inside a body; a body that fills too little of its box fails."""


def best_candidates(
    draw: Callable[[int], np.ndarray],
    count: int,
    *,
    candidates: int = 20,
    besides: np.ndarray | None = None,
) -> np.ndarray:
    """Quasi-uniform points, (count, dimension): each is the farthest from those before among some random candidates.

    draw: gives a number of random points, (number, dimension); besides: points that are there already, which come first
    in what is returned. (Mitchell's best-candidate algorithm; the cost grows
    with the square of the count.)
    """
    pool = draw(count * candidates).reshape(count, candidates, -1)
    there = np.empty((0, pool.shape[-1])) if besides is None else np.asarray(besides, float)
    chosen = np.concatenate([there, np.empty((count, pool.shape[-1]))])
    for done in range(count):
        before = len(there) + done
        apart = ((pool[done][:, None] - chosen[None, :before]) ** 2).sum(-1).min(1, initial=np.inf)
        chosen[before] = pool[done, apart.argmax()]
    return chosen


def draw_inside(
    contains: Callable[[np.ndarray], np.ndarray], lowest: np.ndarray, highest: np.ndarray, random: np.random.Generator
) -> Callable[[int], np.ndarray]:
    """A function that draws random points of a body within a box from its lowest to its highest corner."""

    def draw(count: int) -> np.ndarray:
        found: list[np.ndarray] = []
        for _ in range(MOST_ROUNDS):
            points = random.uniform(lowest, highest, (2 * count, len(lowest)))
            found.append(points[contains(points)])
            if sum(map(len, found)) >= count:
                return np.concatenate(found)[:count]
        raise ValueError(
            f"found {sum(map(len, found))} of {count} points inside in {MOST_ROUNDS} rounds: the body fills too little "
            "of the box around it"
        )

    return draw


def neighbors(position: np.ndarray, *, count: int | None = None, radius: float | None = None) -> np.ndarray:
    """Pairs of near points, each once, (pairs, 2).

    Either the nearest `count` of every point (a pair if one of the two counts the other), or all within a radius [m].
    Parts that stay apart are joined by the shortest pair between them.
    """
    if (count is None) == (radius is None):
        raise ValueError("give either the count of neighbors or a radius")
    tree = KDTree(position)
    if radius is not None:
        pairs = tree.query_pairs(radius, output_type="ndarray")
    else:
        assert count is not None
        points = np.arange(len(position))
        near = np.asarray(tree.query(position, min(count, len(position) - 1) + 1)[1]).reshape(len(position), -1)
        # A point is its own nearest, but not always the first named if others lie at the same place.
        others_first = np.argsort(near == points[:, None], axis=1, kind="stable")[:, :-1]
        near = np.take_along_axis(near, others_first, 1)
        pairs = np.stack([points.repeat(near.shape[1]), near.ravel()], 1)
    pairs = np.unique(np.sort(pairs.reshape(-1, 2), 1), axis=0)
    return _joined(position, pairs)


def _joined(position: np.ndarray, pairs: np.ndarray) -> np.ndarray:
    """Pairs that leave no part alone: the smallest part is tied to the nearest other until one is left."""
    while True:
        links = coo_matrix((np.ones(len(pairs)), pairs.T), shape=(len(position),) * 2)
        parts, part = connected_components(links, directed=False)
        if parts == 1:
            return pairs
        inside = part == np.bincount(part).argmin()
        here, there = np.flatnonzero(inside), np.flatnonzero(~inside)
        distance, nearest = map(np.asarray, KDTree(position[there]).query(position[here]))
        closest = distance.argmin()
        pairs = np.concatenate([pairs, np.sort([[here[closest], there[nearest[closest]]]], 1)])
