"""Programs that XLA makes fast: values computed once (`materialize`), robots on the last axis (`batch_last`), and loops
around kernels (`repeat`).

XLA's CPU backend computes a value again for every use. Its kernels have one result each, and whatever is elementwise is
melted into them: a value with ten uses is computed ten times over, however costly. Its optimization barrier does
nothing. What goes through a loop, though, lies in memory. Other backends make kernels with many results and do better
without. Such a loop has no gradients, so what is to be differentiated goes without (vsr.compute.gradients).

With robots on the last axis lattice neighbors are far apart and robots lie side by side in memory, which is fast.

A turn of a loop costs a GPU more than a launch, so `repeat` makes several launches in one turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_batching import custom_vmap

from vsr.compute.gradients import gradients_needed

Tree = TypeVar("Tree")
_in_kernel = ContextVar("_in_kernel", default=False)


@contextmanager
def tracing_a_kernel() -> Iterator[None]:
    """Functions of a GPU kernel are traced, wherever that may be."""
    token = _in_kernel.set(True)
    try:
        yield
    finally:
        _in_kernel.reset(token)


def in_kernel() -> bool:
    """Whether a function of a GPU kernel is traced."""
    return _in_kernel.get()


def for_cpu() -> bool:
    """Whether it is XLA's CPU backend that compiles, and no kernel is traced."""
    return jax.default_backend() == "cpu" and not in_kernel()


def materialize(witness: Array, values: Tree) -> Tree:
    """The same values; on the CPU each is computed once and written to memory, whatever its uses.

    witness: any number that only a running simulation knows, so that the compiler cannot see through this.
    """
    if gradients_needed() or not for_cpu():
        return values
    # A loop that never runs: no number is both positive and negative, but the compiler must prepare for one.
    number = witness.reshape(-1)[0]
    impossible = (number > 0) & (number < 0)
    return jax.lax.while_loop(lambda _: impossible, _exchanged, values)


def iterate(count: int, change: Callable[[Tree], Tree], start: Tree) -> Tree:
    """`change` applied `count` times: on the CPU in a loop, elsewhere one after the other."""
    if count > 1 and for_cpu():
        return jax.lax.fori_loop(0, count, lambda _, now: change(now), start)
    for _ in range(count):
        start = change(start)
    return start


def _exchanged(values: Tree) -> Tree:
    """Each value in the place of another of its kind, which is quickly compiled, or changed if there is no other."""
    leaves, structure = jax.tree.flatten(values)
    kinds: dict[tuple[tuple[int, ...], Any], list[int]] = {}
    for place, leaf in enumerate(leaves):
        kinds.setdefault((leaf.shape, leaf.dtype), []).append(place)
    for places in kinds.values():
        moved = (
            [leaves[place] for place in (*places[1:], places[0])] if len(places) > 1 else [_changed(leaves[places[0]])]
        )
        for place, value in zip(places, moved, strict=True):
            leaves[place] = value
    return structure.unflatten(leaves)


def _changed(values: Array) -> Array:
    return ~values if values.dtype == jnp.bool_ else -values


def batch_last(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, compiled; each `vmap` of it hands all arrays over with one more axis at their end."""
    batched = custom_vmap(function)

    @batched.def_vmap
    def rule(axis_size: int, in_batched: Any, *arguments: Any) -> tuple[Any, Any]:
        def to_end(value: Array, is_batched: bool) -> Array:
            return jnp.moveaxis(value, 0, -1) if is_batched else value[..., None]

        result = batched(*jax.tree.map(to_end, arguments, tuple(in_batched)))

        def to_front(value: Array) -> Array:
            full = jnp.broadcast_to(value, (*value.shape[:-1], axis_size))
            return jnp.moveaxis(full, -1, 0)

        return jax.tree.map(to_front, result), jax.tree.map(lambda _: True, result)

    return jax.jit(batched)


TOGETHER = 8
"""Launches in one turn of a loop."""


def repeat(
    one: Callable[[Array | int, Any], Any], first: Array | int, last: Array | int, start: Any, together: int = TOGETHER
) -> Any:
    """`one(number, now)` for all numbers from the first up to the last, `together` of them in one turn of a loop."""
    if isinstance(first, int) and isinstance(last, int) and last - first <= 2 * together:
        for number in range(first, last):
            start = one(number, start)
        return start

    def turn(number: Array | int, now: Any) -> Any:
        for further in range(together):
            now = one(first + number * together + further, now)
        return now

    turns = (last - first) // together
    start = jax.lax.fori_loop(0, turns, turn, start)
    begun = first + turns * together
    if isinstance(begun, int) and isinstance(last, int):
        for number in range(begun, last):
            start = one(number, start)
        return start
    return jax.lax.fori_loop(begun, last, one, start)
