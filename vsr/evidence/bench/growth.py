"""`vsr bench growth`: how cost grows with voxels, robots and substeps.

Three series of small scenes, in each of which one number grows and the others stay. They cross in one scene, which is
compiled and timed once. A slope is that of a straight line through the logarithms: 1 where cost grows in proportion, 0
where more costs nothing, because the device still had room.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, Literal

import jax
import numpy as np

from vsr.compute.implementation import Implementation
from vsr.evidence.bench.planar import BenchScene, box, compile_scene, time_scene

Quantity = Literal["voxels", "robots", "substeps"]
QUANTITIES: tuple[Quantity, ...] = ("voxels", "robots", "substeps")
KEPT = ("median_s", "fastest_s", "slowest_s", "svsps", "simulated_s", "peak_bytes")
"""What is reported of every point."""
COMPILERS = 4
"""Programs compiled at the same time, if there are as many cores."""


@dataclass(frozen=True)
class Series:
    """Scenes that differ in one number, which grows."""

    over: Quantity
    scenes: tuple[BenchScene, ...]


def series_for(on_cpu: bool) -> tuple[Series, ...]:
    """Three series for a device; few points on the CPU, which compiles each for about ten seconds."""
    middle = BenchScene("5x4", box(5, 4), 64 if on_cpu else 1024, seconds=(0.5, 5.0), substeps=6)
    sizes = (2, 2), (5, 4), (10, 10)
    robots = 1, 8, 64, 512
    substeps = 2, 6, 18
    if not on_cpu:
        sizes = (2, 1), (2, 2), (4, 2), (5, 4), (8, 5), (10, 8), (16, 10)
        robots = tuple(4**power for power in range(7))
        substeps = 2, 3, 6, 12, 24, 48
    return (
        Series("voxels", tuple(replace(middle, name=f"{w}x{h}", body=box(w, h)) for w, h in sizes)),
        Series("robots", tuple(replace(middle, robots=count) for count in robots)),
        Series("substeps", tuple(replace(middle, substeps=count) for count in substeps)),
    )


def bench_growth(
    series: Sequence[Series], repeats: int, implementation: Implementation = "auto"
) -> Iterator[dict[str, Any]]:
    """The figures of one series after the other."""
    scenes: list[BenchScene] = []
    for scene in (scene for one in series for scene in one.scenes):
        if scene not in scenes:
            scenes.append(scene)
    with ThreadPoolExecutor(min(COMPILERS, os.cpu_count() or 1)) as threads:
        compiled = list(threads.map(lambda scene: compile_scene(scene, implementation), scenes))
    figures: dict[int, dict[str, Any]] = {}
    for one in series:
        numbers = [scenes.index(scene) for scene in one.scenes]
        for number in numbers:
            if number not in figures:
                figures[number] = time_scene(compiled[number], repeats)
        yield summarise(one.over, [figures[number] for number in numbers])


def summarise(over: Quantity, points: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A series of scenes' figures: lists with one entry per point, and slopes, the second of the two
    largest points alone. Voxels are those of one robot, and all robots of a point have the same number."""
    numbers = {
        "voxels": [point["voxels"] // point["robots"] for point in points],
        "robots": [point["robots"] for point in points],
        "substeps": [point["substeps"] for point in points],
    }
    cost = [point["median_s"] / point["simulated_s"] for point in points]
    return {
        "over": over,
        "x": numbers[over],
        "fixed": {name: numbers[name][0] for name in QUANTITIES if name != over},
        "implementation": points[0]["implementation"],
        "repeats": points[0]["repeats"],
        **{name: [point[name] for point in points] for name in KEPT},
        "s_per_simulated_s": cost,
        "s_per_voxel_step": [1 / point["svsps"] for point in points],
        "slope": slope(numbers[over], cost),
        "slope_at_end": slope(numbers[over][-2:], cost[-2:]),
    }


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """The exponent p of the power law y ~ x^p that fits best, by least squares of logarithms."""
    log_x, log_y = np.log(x), np.log(y)
    deviation = log_x - log_x.mean()
    return float(deviation @ log_y / (deviation @ deviation))


def device_series() -> tuple[Series, ...]:
    """Those for the device that jax computes on."""
    return series_for(jax.default_backend() == "cpu")
