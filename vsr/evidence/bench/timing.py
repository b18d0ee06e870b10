"""What benchmarks share: time with a warm-up, repeats, median and spread; memory; compiling that takes its time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax.experimental.compilation_cache import compilation_cache


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


@contextlib.contextmanager
def without_compilation_cache() -> Iterator[None]:
    """While this is open no program comes from a store, JAX's or ours, so that compiling takes the time it takes."""
    enabled = jax.config.jax_enable_compilation_cache  # pyright: ignore[reportAttributeAccessIssue]
    jax.config.update("jax_enable_compilation_cache", False)
    compilation_cache.reset_cache()  # JAX asks only once whether to use its store
    try:
        yield
    finally:
        jax.config.update("jax_enable_compilation_cache", enabled)
        compilation_cache.reset_cache()


def peak_bytes(program: Any) -> int | None:
    """What a compiled program holds at most, on all its devices together, as the compiler plans it [bytes].

    Arguments, results and everything in between; not the program itself, nor what the process holds besides. None
    where the compiler does not say.
    """
    analysis = program.memory_analysis()
    if analysis is None:
        return None
    # The compiler reports one device, and all have equal shares.
    devices = len(jax.tree.leaves(program.output_shardings)[0].device_set)
    held = analysis.argument_size_in_bytes + analysis.output_size_in_bytes - analysis.alias_size_in_bytes
    return devices * (held + analysis.temp_size_in_bytes)


def device_peak_bytes() -> int | None:
    """What all devices together had in use at most since the process began, measured [bytes]; None on the CPU."""
    statistics = [device.memory_stats() or {} for device in jax.local_devices()]
    peaks = [one["peak_bytes_in_use"] for one in statistics if "peak_bytes_in_use" in one]
    return sum(peaks) if peaks else None


def bytes_shown(count: int) -> str:
    """A number of bytes for people."""
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count / 1e3:.3g} kB"
