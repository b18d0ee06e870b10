"""`vsr bench growth`: how cost grows with voxels, robots and substeps.

Three series of small scenes, in each of which one number grows and the others stay. They cross in one scene, which is
compiled and timed once. A slope is that of a straight line through the logarithms: 1 where cost grows in proportion, 0
where more costs nothing, because the device still had room.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter, NullLocator

from vsr.evidence.bench.benchmark import Benchmark, Metrics, Settings, duration, here
from vsr.evidence.bench.planar import BenchScene, box
from vsr.experiments.plot.figures import paper_style, save_figure

KEPT = ("median_s", "fastest_s", "slowest_s", "svsps", "simulated_s", "peak_bytes")
"""The metrics of every point."""
COMPILERS = 4
"""Programs compiled at the same time, if there are as many cores."""
LABELS = {"voxels": "voxels per robot", "robots": "robots", "substeps": "substeps per time step"}


@dataclass(frozen=True)
class Series(Benchmark):
    """Scenes that differ in one number, which grows; named after it."""

    scenes: tuple[tuple[BenchScene, ...], tuple[BenchScene, ...]]
    """on the CPU and on an accelerator"""

    def measure(self, settings: Settings) -> Metrics:
        """Scenes that another series has measured are not measured again."""
        scenes = {repr(scene): scene for scene in here(self.scenes)}
        new = {key: scene for key, scene in scenes.items() if key not in settings.shared}
        with ThreadPoolExecutor(min(COMPILERS, os.cpu_count() or 1)) as threads:
            ready = list(threads.map(lambda scene: scene.compile(settings), new.values()))
        for key, scene in zip(new, ready, strict=True):
            settings.shared[key] = scene.timed(settings.repeats)
        return summarize(self.name, [settings.shared[key] for key in scenes])

    def rows(self, metrics: Metrics) -> list[tuple[str, str]]:
        simulated = " to ".join(dict.fromkeys(f"{end(metrics['simulated_s']):g}" for end in (min, max)))
        what = f"{fixed_shown(metrics)}, {simulated} s simulated, {metrics['implementation']}"
        rows = [(f"growth over {self.name}", what)]
        columns = (metrics[name] for name in ("x", "s_per_simulated_s", "s_per_voxel_step", "svsps"))
        for x, cost, step, svsps in zip(*columns, strict=True):
            text = f"{duration(cost)} per simulated second, {duration(step)} per voxel step, {svsps:,.0f} SVSPS"
            rows.append((f"{x:6,.4g} {self.name}", text))
        return [*rows, ("slope", slope_shown(metrics))]


def summarize(over: str, points: Sequence[Metrics]) -> Metrics:
    """A series of scenes' metrics: lists with one entry per point, and slopes, the second of the two
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
        "fixed": {name: numbers[name][0] for name in numbers if name != over},
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


def slope_shown(series: Metrics) -> str:
    """Over all points, and of the two largest."""
    return f"{series['slope']:.2f}, at the end {series['slope_at_end']:.2f}"


def fixed_shown(series: Metrics) -> str:
    """The numbers that stay the same in a series."""
    words = {"robots": "robots", "voxels": "voxels each", "substeps": "substeps"}
    counts = series["fixed"]
    return ", ".join(f"{counts[name]:,.4g} {word}" for name, word in words.items() if name in counts)


def plot_growth(growth: Sequence[Metrics], title: str, target: Path) -> None:
    """Draw all series into a PNG, PDF or SVG, a panel each."""
    first = growth[0]
    with paper_style():
        figure = Figure(figsize=(2.8 * len(growth) + 0.5, 3.5), layout="constrained")
        panels = np.atleast_1d(figure.subplots(1, len(growth), sharey=True))
        for number, (axes, series) in enumerate(zip(panels, growth, strict=True)):
            _draw(axes, series, f"C{number}")
        panels[0].set_ylabel("computing time per simulated second [s]")
        costs = [cost for series in growth for cost in series["s_per_simulated_s"]]
        panels[0].set_ylim(min(costs) / 2, max(costs) * 1.5)
        panels[0].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if max(costs) < 100 * min(costs) else (1,)))
        panels[0].yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        panels[0].yaxis.set_minor_formatter(NullFormatter())
        panels[0].legend(loc="best", fontsize="small")
        how = f"{first['implementation']}, median of {first['repeats']} with fastest and slowest"
        figure.suptitle(f"{title}: {how}", fontsize="medium", x=0.01, ha="left")
        save_figure(figure, target)


def _draw(axes: Axes, series: Metrics, color: str) -> None:
    x, cost, simulated = (np.asarray(series[name]) for name in ("x", "s_per_simulated_s", "simulated_s"))
    extremes = [np.abs(np.asarray(series[name]) / simulated - cost) for name in ("fastest_s", "slowest_s")]
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.plot(x, cost[-1] * x / x[-1], color="0.6", lw=1, ls=(0, (4, 3)), label="in proportion", zorder=1)
    axes.errorbar(x, cost, extremes, color=color, marker="o", ms=4.5, mec="white", mew=0.7, capsize=2, clip_on=False)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(x, [f"{value:g}" for value in series["x"]])
    axes.set_xlabel(LABELS[series["over"]])
    steps = " to ".join(duration(series["s_per_voxel_step"][end]) for end in (0, -1))
    title = f"{fixed_shown(series)}\nslope {slope_shown(series)}\n{steps} per voxel step"
    axes.set_title(title, fontsize="small", loc="left", linespacing=1.4)


def _series() -> tuple[Series, ...]:
    """Few points on the CPU, which compiles each for about ten seconds."""
    cpu = BenchScene("5x4", box(5, 4), 64, seconds=(0.5, 5.0), substeps=6)
    fast = replace(cpu, robots=1024)

    def sized(middle: BenchScene, *sizes: tuple[int, int]) -> tuple[BenchScene, ...]:
        return tuple(replace(middle, name=f"{w}x{h}", body=box(w, h)) for w, h in sizes)

    def varied(name: str, middle: BenchScene, *counts: int) -> tuple[BenchScene, ...]:
        return tuple(replace(middle, **{name: count}) for count in counts)

    many = sized(fast, (2, 1), (2, 2), (4, 2), (5, 4), (8, 5), (10, 8), (16, 10))
    return (
        Series("voxels", (sized(cpu, (2, 2), (5, 4), (10, 10)), many)),
        Series("robots", (varied("robots", cpu, 1, 8, 64, 512), varied("robots", fast, *(4**n for n in range(7))))),
        Series("substeps", (varied("substeps", cpu, 2, 6, 18), varied("substeps", fast, 2, 3, 6, 12, 24, 48))),
    )


SCENES = _series()
