"""Points spread evenly at random, and which of them are neighbors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.spatial import KDTree

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
