"""Neighbors of grains: candidates among grains sorted by cell, and the list of neighbors made from them.

Cells on top of each other follow each other in memory, so that the three below, at and above a point are one range: 3
ranges in 2-D, 9 in 3-D. What lies outside the box counts to its outermost cells, so nothing is lost there.

The list is made anew where a grain has moved half the skin, with the impulses carried over. Under `vmap` worlds stay
apart: none is made anew because another must be, so a world runs the same alone and among others. But the work is
skipped only when no world needs it, which a rule of its own sees to (a plain `cond` would do it every time).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_batching import custom_vmap

from vsr.compute.vector import Vector, dot, minus, split
from vsr.physics.granular.model import Box, GrainModel, GrainState, pair_numbers


class Near(NamedTuple):
    """Grains near points."""

    place: Array
    """of each grain found, (slots, points); `missing` where there are no more"""
    found: Array
    """how many were found, even if there was no place for all, (points,)"""
    unseen: Array
    """most candidates in a range that were not looked at, ()"""


def cell_of(box: Box, cells: tuple[int, ...], position: Array) -> Array:
    """Cell along each axis, (dimension, points); position: [m], (dimension, points)."""
    low = _columns(box.low, position)
    width = _columns([size / count for size, count in zip(box.size, cells, strict=True)], position)
    most = jnp.array(cells, jnp.int32)[:, None] - 1
    cell = jnp.floor((position - low) / width)
    # A failed grain may be anywhere, even nowhere: NaN must not become an index.
    cell = jnp.where(jnp.isfinite(cell), jnp.clip(cell, -1e6, 1e6), 0).astype(jnp.int32)
    ring = jnp.array(box.cyclic)[:, None]
    return jnp.where(ring, cell % (most + 1), jnp.clip(cell, 0, most))


def number_of(cells: tuple[int, ...], cell: tuple[Array, ...]) -> Array:
    """One number for each cell, the vertical changing fastest."""
    number = cell[0]
    for count, along in zip(cells[1:], cell[1:], strict=True):
        number = number * count + along
    return number


def offsets_of(cells: tuple[int, ...], number: Array) -> Array:
    """Where each cell begins among the grains, (cells + 1,); number: of each grain's cell, rising, (grains,)."""
    held = jnp.zeros(math.prod(cells) + 1, jnp.int32).at[number + 1].add(1, indices_are_sorted=True)
    return jnp.cumsum(held)


def difference(box: Box, first: Vector, second: Vector) -> Vector:
    """first - second of places in the box, the shortest way round where it is cyclic [m]."""
    parts = []
    for part, size, ring in zip(minus(first, second), box.size, box.cyclic, strict=True):
        parts.append(part - size * jnp.floor(part * (1 / size) + 0.5) if ring else part)
    return tuple(parts)


def put_back(box: Box, position: Array) -> Array:
    """Into the box, along its cyclic axes; (dimension, points)."""
    if not any(box.cyclic):
        return position
    low, size = _columns(box.low, position), _columns(box.size, position)
    ring = jnp.array(box.cyclic)[:, None]
    return jnp.where(ring, position - size * jnp.floor((position - low) / size), position)


def near(
    box: Box,
    cells: tuple[int, ...],
    grains: Array,
    offsets: Array,
    points: Array,
    reach: Array | float,
    *,
    slots: int,
    candidates: int,
    but: Array | None = None,
    accept: Callable[[Vector], Array] | None = None,
    missing: Array | int = -1,
) -> Near:
    """Grains nearer to points than a reach [m].

    grains: centers sorted by cell [m], (dimension, grains); points: (dimension, points); but: for each point a grain
    that does not count, (points,); accept: whether a grain counts, given the way to it from the point.
    """
    first, last = _ranges(box, cells, offsets, cell_of(box, cells, points))
    place = first[:, None] + jnp.arange(candidates, dtype=jnp.int32)[:, None]
    held = place < last[:, None]
    place = jnp.where(held, place, 0).reshape(-1, points.shape[1])
    there = tuple(part[place] for part in split(grains, 0))
    between = difference(box, there, split(points, 0))
    hit = held.reshape(place.shape) & (dot(between, between) < reach**2)
    if but is not None:
        hit &= place != but
    if accept is not None:
        hit &= accept(between)
    # The k-th hit is where the running count first exceeds k: found by counting, without writing anywhere.
    running = jnp.tril(jnp.ones((len(place),) * 2, jnp.float32)) @ hit.astype(jnp.float32)
    where = _counted(running, slots)
    found = running[-1].astype(jnp.int32)
    chosen = jnp.take_along_axis(place, jnp.minimum(where, len(place) - 1), 0)
    return Near(
        place=jnp.where(jnp.arange(slots)[:, None] < found, chosen, missing),
        found=found,
        unseen=jnp.maximum(last - first - candidates, 0).max(),
    )


def _counted(running: Array, slots: int) -> Array:
    """For each k, how many of a column are at most k, (slots, points); one after the other on a CPU, else at once."""
    if jax.default_backend() == "cpu":
        return jnp.stack([(running < k + 0.5).sum(0, dtype=jnp.int32) for k in range(slots)])
    most = jnp.arange(slots, dtype=running.dtype)[:, None, None] + 0.5
    return (running < most).sum(1, dtype=jnp.int32)


def _ranges(box: Box, cells: tuple[int, ...], offsets: Array, cell: Array) -> tuple[Array, Array]:
    """Of grains in the columns around cells: where each begins and ends, (columns, points)."""
    low, high = jnp.maximum(cell[-1] - 1, 0), jnp.minimum(cell[-1] + 1, cells[-1] - 1)
    first, last = [], []
    for steps in itertools.product((-1, 0, 1), repeat=box.dimension - 1):
        at, inside = [], jnp.ones(cell.shape[1:], bool)
        for along, step, count, ring in zip(cell[:-1], steps, cells, box.cyclic, strict=False):
            there = along + step
            inside &= ring | ((there >= 0) & (there < count))
            at.append(there % count)
        begin = offsets[number_of(cells, (*at, low))]
        first.append(begin)
        last.append(jnp.where(inside, offsets[number_of(cells, (*at, high)) + 1], begin))
    return jnp.stack(first), jnp.stack(last)


def _columns(numbers: Iterable[float], like: Array) -> Array:
    return jnp.array(list(numbers), like.dtype)[:, None]


SHARE, FEW = 8, 2**22
"""On a GPU, neighbor lists are rebuilt for one in SHARE worlds at a time; of few numbers in all, for all worlds
together: a turn is a hundred launches, whatever it does."""
EVERY, EARLY = 4, 0.25
"""On a GPU, worlds rebuild their lists in the same step, one in EVERY, if grains have moved by a share EARLY of what
lists allow. Few worlds then need it in other steps."""


def where_needed(change: Callable[[Any, Any], Any], needed: Array, constants: Any, state: Any) -> Any:
    """`change(constants, state)` where it is needed, (), else the state."""

    @custom_vmap
    def perhaps(needed: Array, constants: Any, state: Any) -> Any:
        if jax.default_backend() == "cpu":  # one world after the other: those that need nothing cost nothing
            single = lambda given: jax.lax.cond(given[0], change, lambda _, kept: kept, *given[1:])  # noqa: E731
            for _ in range(needed.ndim):
                single = partial(jax.lax.map, single)
            return single((needed, constants, state))
        if not needed.ndim:
            return _once(needed, partial(change, constants), state)
        return _some_at_a_time(change, needed, constants, state)

    @perhaps.def_vmap
    def rule(axis_size: int, in_batched: Any, *arguments: Any) -> tuple[Any, Any]:
        def widened(value: Array, is_batched: bool) -> Array:
            return value if is_batched else jnp.broadcast_to(value, (axis_size, *value.shape))

        result = perhaps(*jax.tree.map(widened, arguments, tuple(in_batched)))
        return result, jax.tree.map(lambda _: True, result)

    return perhaps(needed, constants, state)


def _once(needed: Array, change: Callable[[Any], Any], state: Any) -> Any:
    """A loop of one turn or none: unlike `cond`, it leaves in its place what it does not change."""
    return jax.lax.while_loop(
        lambda turn: turn[0], lambda turn: (jnp.zeros_like(turn[0]), change(turn[1])), (needed, state)
    )[1]


def _some_at_a_time(change: Callable[[Any, Any], Any], needed: Array, constants: Any, state: Any) -> Any:
    """All worlds that need it, a share of all worlds at once: as a rule few do, and the others are not touched."""
    shape, worlds = needed.shape, needed.size
    size = worlds // SHARE
    flat = lambda tree: jax.tree.map(lambda leaf: leaf.reshape(worlds, *leaf.shape[len(shape) :]), tree)  # noqa: E731
    constants = flat(constants)

    def some(turn: tuple[Array, Any]) -> tuple[Array, Any]:
        needed, state = turn
        found, chosen = jax.lax.top_k(needed.astype(jnp.int32), size)
        chosen = jnp.where(found > 0, chosen, worlds)
        picked = jax.tree.map(lambda leaf: leaf.at[chosen].get(mode="clip"), (constants, state))
        changed = jax.vmap(change)(*picked)
        after = jax.tree.map(lambda leaf, new: leaf.at[chosen].set(new, mode="drop"), state, changed)
        return needed.at[chosen].set(False, mode="drop"), after

    def all_at_once(turn: tuple[Array, Any]) -> tuple[Array, Any]:
        needed, state = turn

        def kept(old: Array, new: Array) -> Array:
            return jnp.where(needed.reshape(-1, *(1,) * (old.ndim - 1)), new, old)

        return jnp.zeros_like(needed), jax.tree.map(kept, state, jax.vmap(change)(constants, state))

    turn = some if size and max(leaf.size for leaf in jax.tree.leaves(state)) > FEW else all_at_once
    _, state = jax.lax.while_loop(lambda turn: turn[0].any(), turn, (needed.reshape(-1), flat(state)))
    return jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), state)


def allowed(state: GrainState, duration: float) -> Array:
    """Share of the way that lists allow, beyond which they are rebuilt before a step [s], ()."""
    if jax.default_backend() == "cpu":
        return jnp.ones_like(state.time)
    return jnp.where(jnp.round(state.time / duration) % EVERY == 0, EARLY, 1.0).astype(state.time.dtype)


def has_moved(grains: GrainModel, state: GrainState, share: Array) -> Array:
    """Whether some grain is a share of half a skin from where it was listed, ()."""
    way = minus(split(state.position, 0), split(state.listed_at, 0))
    return (dot(way, way) > (share * 0.5 * grains.skin) ** 2).any()


def listed(grains: GrainModel, state: GrainState) -> GrainState:
    """The same grains, sorted and listed anew; robots' contacts are left as they were."""
    box, cells = grains.box, grains.cells
    position = put_back(box, state.position)
    own = jnp.arange(grains.count, dtype=jnp.int32)
    number, order = jax.lax.sort((number_of(cells, tuple(cell_of(box, cells, position))), own), num_keys=1)
    position = jnp.stack([part[order] for part in split(position, 0)])
    offsets = offsets_of(cells, number)
    found = near(
        box,
        cells,
        position,
        offsets,
        position,
        grains.reach,
        slots=grains.slots,
        candidates=grains.candidates,
        but=own,
        missing=own,
    )
    before = jnp.where(found.place == own, -1, order[found.place])
    kept = state.neighbor[:, order]
    missed = jnp.maximum(found.found - grains.slots, 0).max()
    overflow = jnp.stack([found.unseen, missed, jnp.zeros_like(missed), jnp.zeros_like(missed)])

    def carried(impulses: Array) -> Array:
        """From the slot that the same neighbor had."""
        impulses, total = impulses[..., order], jnp.zeros_like(impulses)
        for slot in range(grains.slots):
            total += jnp.where((kept[slot] == before)[:, None], impulses[slot], 0)
        return total

    def sorted_(values: Array | None) -> Array | None:
        """Row by row: a gather of columns would make XLA keep the array the other way round in memory."""
        if values is None or not values.size:
            return values
        rows = [row[order] for row in values.reshape(-1, values.shape[-1])]
        return jnp.stack(rows).reshape(values.shape)

    return replace(
        state,
        position=position,
        velocity=sorted_(state.velocity),
        spin=sorted_(state.spin),
        id=state.id[order],
        neighbor=found.place,
        neighbors=jnp.minimum(found.found, grains.slots).astype(jnp.int32),
        pair=pair_numbers(grains, state.id[order], found.place),
        impulse=carried(state.impulse),
        rolling=None if state.rolling is None else carried(state.rolling),
        received=sorted_(state.received),
        received_turning=sorted_(state.received_turning),
        listed_at=position,
        offsets=offsets,
        body_impulse=sorted_(state.body_impulse),
        overflow=jnp.maximum(state.overflow, overflow.astype(state.overflow.dtype)),
    )
