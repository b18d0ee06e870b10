"""The list of neighbours: made anew where a grain has moved half the skin, with the impulses carried over.

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
from vsr.physics.grains.cells import cell_of, near, number_of, put_back, starts_of
from vsr.physics.grains.model import GrainModel, GrainState, pair_numbers


def where_needed(change: Callable[[Any, Any], Any], needed: Array, constants: Any, state: Any) -> Any:
    """`change(constants, state)` where it is needed, (), else the state."""

    @custom_vmap
    def perhaps(needed: Array, constants: Any, state: Any) -> Any:
        def one(need: Array, constants: Any, state: Any) -> Any:
            return jax.tree.map(lambda new, old: jnp.where(need, new, old), change(constants, state), state)

        def all_at_once(state: Any) -> Any:
            many = one
            for _ in range(needed.ndim):
                many = jax.vmap(many)
            return many(needed, constants, state)

        if jax.default_backend() == "cpu":  # one world after the other: those that need nothing cost nothing
            single = lambda given: jax.lax.cond(given[0], change, lambda _, kept: kept, *given[1:])  # noqa: E731
            for _ in range(needed.ndim):
                single = partial(jax.lax.map, single)
            return single((needed, constants, state))
        return jax.lax.cond(needed.any(), all_at_once, lambda state: state, state)

    @perhaps.def_vmap
    def rule(axis_size: int, in_batched: Any, *arguments: Any) -> tuple[Any, Any]:
        def widened(value: Array, is_batched: bool) -> Array:
            return value if is_batched else jnp.broadcast_to(value, (axis_size, *value.shape))

        result = perhaps(*jax.tree.map(widened, arguments, tuple(in_batched)))
        return result, jax.tree.map(lambda _: True, result)

    return perhaps(needed, constants, state)


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
    position, starts = position[:, order], starts_of(cells, number)
    found = near(
        box,
        cells,
        position,
        starts,
        position,
        grains.reach,
        slots=grains.slots,
        candidates=grains.candidates,
        but=own,
        missing=own,
    )
    before = jnp.where(found.place == own, -1, order[found.place])
    kept = state.neighbour[:, order]
    missed = jnp.maximum(found.found - grains.slots, 0).max()
    beyond = jnp.stack([found.unseen, missed, jnp.zeros_like(missed)])

    def carried(impulses: Array) -> Array:
        """From the slot that the same neighbour had."""
        impulses, total = impulses[..., order], jnp.zeros_like(impulses)
        for slot in range(grains.slots):
            total += jnp.where((kept[slot] == before)[:, None], impulses[slot], 0)
        return total

    return replace(
        state,
        position=position,
        velocity=state.velocity[:, order],
        spin=None if state.spin is None else state.spin[:, order],
        id=state.id[order],
        neighbour=found.place,
        pair=pair_numbers(grains, state.id[order], found.place),
        impulse=carried(state.impulse),
        rolling=None if state.rolling is None else carried(state.rolling),
        listed_at=position,
        starts=starts,
        body_impulse=state.body_impulse[..., order],
        beyond=jnp.maximum(state.beyond, beyond.astype(state.beyond.dtype)),
    )


def relisted(grains: GrainModel, state: GrainState) -> GrainState:
    """With a list that holds for the next step."""
    return where_needed(listed, has_moved(grains, state), grains, state)
