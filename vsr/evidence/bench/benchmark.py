"""The parts that all benchmarks share: times with a warm-up, median and spread; memory; texts for people."""

from __future__ import annotations

import contextlib
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

import jax
import numpy as np
from jax.experimental.compilation_cache import compilation_cache

from vsr.compute.implementation import Implementation

Metrics = dict[str, Any]
"""Measurements as JSON holds them; times in seconds, memory in bytes."""
T = TypeVar("T")


@dataclass(frozen=True)
class Settings:
    """How to measure."""

    repeats: int = 3
    """timed calls after one that does not count"""
    implementation: Implementation = "auto"
    device: str | None = None
    """as `--device` takes it"""
    shared: dict[str, Any] = field(default_factory=dict)
    """measurements that scenes of one run share"""


@dataclass(frozen=True)
class Benchmark(ABC):
    """One scene to time."""

    name: str
    """as `--scene` takes it"""
    everywhere: bool = field(default=True, kw_only=True)
    """or on a CPU only if it is named"""

    @abstractmethod
    def measure(self, settings: Settings) -> Metrics:
        """Compile and time."""

    @abstractmethod
    def rows(self, metrics: Metrics) -> list[tuple[str, str]]:
        """The same for people: what was timed, and what it came to."""


def on_cpu() -> bool:
    return jax.default_backend() == "cpu"


def here(pair: tuple[T, T]) -> T:
    """Of a value for the CPU and one for accelerators, that of the device at hand."""
    return pair[0 if on_cpu() else 1]


# Times


class Times(NamedTuple):
    """Of repeated calls: repeats, median, fastest and slowest [s]."""

    wall: Metrics
    cpu: Metrics
    """of all cores that this process used"""


def time_calls(function: Callable[[], Any], repeats: int) -> Times:
    """Time a function of arrays after one call that does not count."""
    jax.block_until_ready(function())
    wall, cpu = [], []
    for _ in range(repeats):
        began = time.perf_counter(), time.process_time()
        jax.block_until_ready(function())
        wall.append(time.perf_counter() - began[0])
        cpu.append(time.process_time() - began[1])
    return Times(spread(wall), spread(cpu))


def spread(seconds: list[float]) -> Metrics:
    """Median and extremes."""
    return {
        "repeats": len(seconds),
        "median_s": float(np.median(seconds)),
        "fastest_s": float(min(seconds)),
        "slowest_s": float(max(seconds)),
    }


class Compiled(NamedTuple):
    """A program, ready to be timed."""

    program: Any
    compile_s: float

    def costs(self) -> Metrics:
        """Of compiling [s], and memory [bytes]; to be asked after the program ran."""
        return {
            "compile_s": self.compile_s,
            "peak_bytes": peak_bytes(self.program),
            "device_peak_bytes": device_peak_bytes(),
        }


def compiled(function: Callable[..., Any], *arguments: Any) -> Compiled:
    """Trace, lower and compile a function of arrays for these."""
    began = time.perf_counter()
    program = jax.jit(function).lower(*arguments).compile()
    return Compiled(program, time.perf_counter() - began)


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


# Memory


def peak_bytes(program: Any) -> int | None:
    """Peak memory of a compiled program, on all its devices together, as the compiler plans it [bytes].

    Arguments, results and everything in between; not the program itself, nor what the process holds besides. None
    where the compiler does not report it.
    """
    analysis = program.memory_analysis()
    if analysis is None:
        return None
    # The compiler reports one device, and all have equal shares.
    devices = len(jax.tree.leaves(program.output_shardings)[0].device_set)
    held = analysis.argument_size_in_bytes + analysis.output_size_in_bytes - analysis.alias_size_in_bytes
    return devices * (held + analysis.temp_size_in_bytes)


def device_peak_bytes() -> int | None:
    """Peak memory of all devices together since the process began, measured [bytes]; None on the CPU."""
    statistics = [device.memory_stats() or {} for device in jax.local_devices()]
    peaks = [one["peak_bytes_in_use"] for one in statistics if "peak_bytes_in_use" in one]
    return sum(peaks) if peaks else None


# For people


def times_shown(metrics: Metrics) -> str:
    """Median and extremes."""
    extremes = f"{metrics['fastest_s']:.4g} to {metrics['slowest_s']:.4g}"
    return f"{metrics['median_s']:.4g} s (median of {metrics['repeats']}; {extremes})"


def costs_shown(metrics: Metrics) -> str:
    """Times, compiling, memory and implementation, as far as they are known."""
    memory = f", {bytes_shown(metrics['peak_bytes'])}" if metrics["peak_bytes"] else ""
    implementation = f"; {metrics['implementation']}" if "implementation" in metrics else ""
    return f"{times_shown(metrics)}; compile {metrics['compile_s']:.1f} s{memory}{implementation}"


def bytes_shown(count: int) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count / 1e3:.3g} kB"


def duration(seconds: float) -> str:
    """A time with three digits and a unit that suits it."""
    units = ("s", 1.0), ("ms", 1e-3), ("µs", 1e-6), ("ns", 1e-9)
    unit, size = next((pair for pair in units if seconds >= pair[1]), units[-1])
    return f"{seconds / size:#.3g}".rstrip(".") + f" {unit}"
