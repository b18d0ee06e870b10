"""Keep XLA's CPU backend from computing a value again for every use.

Its kernels have one result each, and whatever is elementwise is melted into them: a value with ten uses is computed
ten times over, however costly. Its optimization barrier does nothing. What goes through a loop, though, lies in
memory. Other backends make kernels with many results and do better without. Such a loop has no gradients, so what is
to be differentiated goes without (vsr.compute.gradients).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.gradients import gradients_needed

Tree = TypeVar("Tree")


def materialize(witness: Array, values: Tree) -> Tree:
    """The same values; on the CPU each is computed once and written to memory, whatever its uses.

    witness: any number that only a running simulation knows, so that the compiler cannot see through this.
    """
    if gradients_needed() or jax.default_backend() != "cpu":
        return values
    # A loop that never runs: no number is both positive and negative, but the compiler must prepare for one.
    number = witness.reshape(-1)[0]
    impossible = (number > 0) & (number < 0)
    return jax.lax.while_loop(lambda _: impossible, _exchanged, values)


def iterate(count: int, change: Callable[[Tree], Tree], start: Tree) -> Tree:
    """`change` applied `count` times: on the CPU in a loop, elsewhere one after the other."""
    if jax.default_backend() == "cpu" and count > 1:
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
