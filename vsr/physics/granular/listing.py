"""The list of neighbors: made anew where a grain has moved half the skin, with the impulses carried over.

Under `vmap` worlds stay apart: none is made anew because another must be, so a world runs the same alone and among
others. But the work is skipped only when no world needs it, which a rule of its own sees to (a plain `cond` would do it
every time).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_batching import custom_vmap

from vsr.compute.vector import dot, minus, split
from vsr.physics.granular.cells import cell_of, near, number_of, offsets_of, put_back
from vsr.physics.granular.model import GrainModel, GrainState, pair_numbers

SHARE = 8
"""One in so many worlds is listed anew at once on a GPU."""


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
    size = max(1, worlds // SHARE)
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

    _, state = jax.lax.while_loop(lambda turn: turn[0].any(), some, (needed.reshape(-1), flat(state)))
    return jax.tree.map(lambda leaf: leaf.reshape(*shape, *leaf.shape[1:]), state)


def has_moved(grains: GrainModel, state: GrainState) -> Array:
    """Whether some grain is half a skin from where it was listed, ()."""
    way = minus(split(state.position, 0), split(state.listed_at, 0))
    return (dot(way, way) > (0.5 * grains.skin) ** 2).any()


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
