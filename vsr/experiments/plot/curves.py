"""Fitness curves: the best robot's measure per generation, median over seeds with a band."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from vsr.experiments.config.problems import UserError
from vsr.experiments.plot.figures import paper_style, save_figure, with_unit
from vsr.experiments.ranks import middle, quantile
from vsr.experiments.storage.runs import Curves
from vsr.spec import suggest

if TYPE_CHECKING:  # matplotlib takes a second to load
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Band = Literal["sigma", "quartiles"]
MOST_POINTS = 2000
"""Of a line, twice as many as a figure is wide in pixels or so; of longer ones, ups and downs are kept."""
BAND_NAMES = {"sigma": "one standard deviation", "quartiles": "quartiles"}


def check_one_goal(runs: Sequence[Curves]) -> None:
    """Refuse to put different objects side by side."""
    goals = {f"{run.header.direction} {run.header.measure}" for run in runs}
    if len(goals) > 1:
        raise UserError(f"these runs cannot be compared: they have different goals ({', '.join(sorted(goals))})")


def plot_runs(runs: Sequence[Curves], target: Path, band: Band = "sigma") -> None:
    """Draw one curve per run into a PNG, PDF or SVG."""
    with paper_style():
        save_figure(curve_figure(runs, band), target)


def curve_figure(runs: Sequence[Curves], band: Band = "sigma") -> Figure:
    """One curve per run; to be made and saved in the style of figures."""
    from matplotlib.figure import Figure

    check_one_goal(runs)
    figure = Figure(figsize=(5.2, 3.4), layout="constrained")
    axes = figure.subplots()
    draw_curves(axes, runs, labels(runs), band)
    axes.set_ylabel(goal(runs[0]))
    if any(len(run.seeds) > 1 for run in runs):
        axes.set_title(f"median over seeds and {BAND_NAMES[band]}", fontsize="small", loc="left")
    return figure


def draw_curves(axes: Axes, runs: Sequence[Curves], names: Sequence[str], band: Band = "sigma") -> None:
    """One curve per run into a plot."""
    from matplotlib.ticker import MaxNLocator

    for run, name in zip(runs, names, strict=True):
        _draw(axes, run, name, band)
    axes.set_xlabel("generation")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlim(0, max(max(run.generations for run in runs) - 1, 1))
    if len(runs) > 1:
        axes.legend()


def goal(run: Curves) -> str:
    """Label of the measure of curves."""
    return f"best {with_unit(run.header.measure)}"


def spread(run: Curves, band: Band) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The search's median over seeds, and the band's two edges; not a number where too many seeds had failed.

    A failed seed is worse than any other. The standard deviation is that of the seeds at hand, not an estimate for all.
    """
    sign, fitness, best = run.header.sign, run.search_fitness, run.search_best
    center = sign * middle(fitness)
    if band == "quartiles":
        edges = sign * quantile(fitness, 0.25), sign * quantile(fitness, 0.75)
    else:
        finite = np.isfinite(best)
        count = np.maximum(finite.sum(0), 1)
        mean = np.where(finite, best, 0).sum(0) / count
        sigma = np.sqrt((np.where(finite, best - mean, 0) ** 2).sum(0) / count)
        edges = center - sigma, center + sigma
    center, low, high = (np.where(np.isfinite(line), line, np.nan) for line in (center, *edges))
    return center, low, high


def thin(*lines: np.ndarray) -> np.ndarray:
    """Places at which equally long lines are drawn: all, or in each of many parts where any is lowest and highest."""
    length = len(lines[0])
    if length <= MOST_POINTS:
        return np.arange(length)
    part = -(-4 * length // MOST_POINTS)
    chosen = [np.array([0, length - 1])]
    for line in lines:
        padded = np.concatenate([line, np.full(-length % part, line[-1])]).reshape(-1, part)
        known = np.isfinite(padded)
        lowest = np.where(known, padded, np.inf).argmin(1)
        highest = np.where(known, padded, -np.inf).argmax(1)
        chosen += [lowest + part * np.arange(len(padded)), highest + part * np.arange(len(padded))]
    return np.unique(np.minimum(np.concatenate(chosen), length - 1))


def labels(runs: Sequence[Curves]) -> list[str]:
    """A short name for each run: its folder's, or the whole path where folders share a name."""
    names = [run.name for run in runs]
    count = Counter(names)
    return [name if count[name] == 1 else str(run.path) for run, name in zip(runs, names, strict=True)]


def _draw(axes: Axes, run: Curves, label: str, band: Band) -> None:
    center, low, high = spread(run, band)
    shown = thin(center, low, high)
    (line,) = axes.plot(shown, center[shown], label=label)
    if run.best.shape[0] > 1:
        axes.fill_between(shown, low[shown], high[shown], color=line.get_color(), alpha=0.2, lw=0)
    if run.is_confirmed and np.isfinite(last := run.header.sign * float(middle(run.fitness[:, -1]))):
        axes.plot(run.generations - 1, last, "o", ms=4, color=line.get_color(), clip_on=False)


def metrics_named(runs: Sequence[Curves], asked: str) -> list[str]:
    """Names of all metrics of runs that are meant: `coverage` is that of all archives, `body.coverage` that of one.

    Raises UserError if a run lacks it.
    """
    found: dict[str, None] = {}
    for run in runs:
        own = [name for name in run.metrics if asked in (name, name.rpartition(".")[2])]
        if not own:
            raise UserError(_unknown(run, asked))
        found.update(dict.fromkeys(own))
    for run in runs:
        if missing := [name for name in found if name not in run.metrics]:
            raise UserError(_unknown(run, missing[0]))
    return list(found)


def one_metric(runs: Sequence[Curves], asked: str) -> str:
    """The name of the one metric that is meant; raises UserError if there are several."""
    names = metrics_named(runs, asked)
    if len(names) > 1:
        raise UserError(f"metric '{asked}': several archives have it; give one of {', '.join(names)}")
    return names[0]


def _unknown(run: Curves, asked: str) -> str:
    if not run.metrics:
        return f"{run.path}: its search ({run.header.search}) reports no metrics of itself, such as '{asked}'"
    kinds = dict.fromkeys(name.rpartition(".")[2] for name in run.metrics)
    return f"{run.path}: there is no metric '{asked}'{suggest(asked, [*run.metrics, *kinds])}"


def as_measure(run: Curves, name: str) -> Curves:
    """The run with a metric in place of its best robots' measure; more of it is better."""
    header = replace(run.header, measure=name, direction="maximize")
    return replace(run, header=header, best=run.metrics[name], search_best=run.metrics[name])


def plot_metrics(runs: Sequence[Curves], asked: str, target: Path, band: Band = "sigma") -> None:
    """One curve per run, and a panel for every archive that has such a metric."""
    from matplotlib.figure import Figure

    names = metrics_named(runs, asked)
    with paper_style():
        figure = Figure((4.6 * len(names) + 0.6, 3.4), layout="constrained")
        for axes, name in zip(figure.subplots(1, len(names), squeeze=False)[0], names, strict=True):
            draw_curves(axes, [as_measure(run, name) for run in runs], labels(runs), band)
            axes.set_ylabel(in_words(name))
        if any(len(run.seeds) > 1 for run in runs):
            figure.suptitle(f"median over seeds and {BAND_NAMES[band]}", fontsize="small", x=0.01, ha="left")
        save_figure(figure, target)


def in_words(name: str) -> str:
    """`body.qd_score` as text for people."""
    return name.replace(".", ": ").replace("_", " ").replace("qd ", "QD ")
