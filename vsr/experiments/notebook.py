"""Runs in notebooks: the curve and a small table."""

from __future__ import annotations

import io

import numpy as np

from vsr.display import register
from vsr.drawing.notebook import figure
from vsr.experiments.plot.curves import curve_figure
from vsr.experiments.plot.figures import paper_style, with_unit
from vsr.experiments.ranks import middle
from vsr.experiments.storage.runs import Run


def run_png(run: Run) -> bytes:
    """The best robot's measure per generation."""
    file = io.BytesIO()
    with paper_style({"savefig.dpi": 110}):
        curve_figure([run]).savefig(file, format="png")
    return file.getvalue()


def run_html(run: Run, picture: bytes | None) -> str:
    """The curve, how far the run is, and what came of it."""
    experiment = run.experiment
    sign, seeds = experiment.fitness.sign, experiment.seeds
    lead = int(np.argmax(run.fitness[:, -1]))
    rows = [
        ("run", str(run.path)),
        ("generations", f"{run.generations} of {experiment.generations}"),
        (
            "robots",
            f"{experiment.optimizer.population_size} a generation, {len(seeds)} seed{'s' if len(seeds) > 1 else ''}",
        ),
        (f"best {with_unit(experiment.fitness.measure)}", f"{_number(run.best[lead, -1])} (seed {seeds[lead]})"),
    ]
    if len(seeds) > 1:
        rows.append(("median over seeds", _number(sign * float(middle(run.fitness[:, -1])))))
    rows.append(("failed in the last generation", f"{int(run.failed[:, -1].sum())}"))
    return figure(picture, rows)


def _number(value: float) -> str:
    return f"{value:.4g}" if np.isfinite(value) else "none"


register(Run, png=run_png, html=run_html)
