"""Timing: a warm-up, repeats, median and spread."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np


def timed(function: Callable[[], Any], repeats: int) -> dict[str, Any]:
    """Time a function of arrays after one call that does not count [s]."""
    jax.block_until_ready(function())
    seconds = []
    for _ in range(repeats):
        began = time.perf_counter()
        jax.block_until_ready(function())
        seconds.append(time.perf_counter() - began)
    return spread(seconds)


def spread(seconds: list[float]) -> dict[str, Any]:
    """Median and extremes."""
    return {
        "repeats": len(seconds),
        "median_s": float(np.median(seconds)),
        "fastest_s": float(min(seconds)),
        "slowest_s": float(max(seconds)),
    }


def shown(figures: dict[str, Any]) -> str:
    """The same for people."""
    extremes = f"{figures['fastest_s']:.4g} to {figures['slowest_s']:.4g}"
    return f"{figures['median_s']:.4g} s (median of {figures['repeats']}; {extremes})"
