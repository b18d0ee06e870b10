"""Loops around kernels: several launches in one turn, because a turn costs a GPU more than a launch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
from jax import Array

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
