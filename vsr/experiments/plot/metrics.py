"""What searches report themselves, generation by generation: coverage and score of archives, volume of fronts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from vsr.experiments.config.problems import UserError
from vsr.experiments.plot.curves import BAND_NAMES, Band, draw_curves, labels
from vsr.experiments.plot.figures import paper_style, save_figure
from vsr.experiments.storage.runs import Curves
from vsr.spec import suggest


def metrics_named(runs: Sequence[Curves], asked: str) -> list[str]:
    """Names of all figures of runs that are meant: `coverage` is that of all archives, `body.coverage` that of one.

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
    """The name of the one figure that is meant; raises UserError if there are several."""
    names = metrics_named(runs, asked)
    if len(names) > 1:
        raise UserError(f"figure '{asked}': several archives have it; give one of {', '.join(names)}")
    return names[0]


def _unknown(run: Curves, asked: str) -> str:
    if not run.metrics:
        return f"{run.path}: its search ({run.header.search}) tells no figures of itself, such as '{asked}'"
    kinds = dict.fromkeys(name.rpartition(".")[2] for name in run.metrics)
    return f"{run.path}: there is no figure '{asked}'{suggest(asked, [*run.metrics, *kinds])}"


def as_measure(run: Curves, name: str) -> Curves:
    """The run with a figure in place of its best robots' measure; more of it is better."""
    header = replace(run.header, measure=name, direction="maximize")
    return replace(run, header=header, best=run.metrics[name])


def plot_metrics(runs: Sequence[Curves], asked: str, target: Path, band: Band = "sigma") -> None:
    """One curve per run, and a panel for every archive that has such a figure."""
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
    """`body.qd_score` as people say it."""
    return name.replace(".", ": ").replace("_", " ").replace("qd ", "QD ")
