"""Results of a sweep's runs: a table, a CSV file and a figure."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from rich.table import Table

from vsr.experiments.config.problems import UserError
from vsr.experiments.console import cell, console_for_tables
from vsr.experiments.formatting import count, number
from vsr.experiments.plot.comparison import Row, describe
from vsr.experiments.plot.curves import plot_runs
from vsr.experiments.ranks import middle
from vsr.experiments.storage.files import write_text
from vsr.experiments.storage.run_folder import is_run
from vsr.experiments.storage.runs import Curves, read_curves
from vsr.experiments.sweep.folder import Sweep, saved_generations

SUMMARY, CURVES = "summary.csv", "fitness.png"
MOST_CURVES = 10
"""As many as the eye can distinguish."""
FINISHED = "finished"


@dataclass(frozen=True)
class Line:
    """One run of a sweep."""

    name: str
    values: tuple[str, ...]
    state: str
    measure: str
    run: Curves | None
    """None if no generation is finished"""
    row: Row | None
    warnings: tuple[str, ...] = ()
    """lost or corrupted parts"""


def summarize(sweep: Sweep, states: Mapping[str, str]) -> list[Line]:
    """Every run as it stands; states: of runs, from the queue."""
    lines = []
    for combination, experiment in zip(sweep.combinations, sweep.experiments, strict=True):
        name = combination.name
        path, run, warnings = sweep.run(name), None, ()
        saved = saved_generations(path)
        if is_run(path):
            try:
                run = read_curves(path)
                warnings = run.warnings
            except UserError as error:
                warnings = (str(error),) if saved else ()  # or else no generation is finished yet
        if saved >= experiment.generations:
            state = FINISHED
        elif name in states:
            state = states[name]
        else:
            state = f"{saved} of {experiment.generations} generations" if is_run(path) else "not begun"
        row = describe(run, name) if run is not None else None
        lines.append(Line(name, combination.values, state, experiment.fitness.measure, run, row, warnings))
    return lines


def write_summary(sweep: Sweep, lines: list[Line]) -> list[str]:
    """Write the CSV file and the figure into the sweep's folder; returns the lines to print."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    numbers = ("seeds", "failed", "generations", "first", "final", "worse", "better")
    writer.writerow(["run", *(axis.path for axis in sweep.axes), "state", "measure", *numbers])
    for line in lines:
        values = [getattr(line.row, name) for name in numbers] if line.row else [""] * len(numbers)
        cells = ["" if isinstance(value, float) and not np.isfinite(value) else value for value in values]
        writer.writerow([line.name, *line.values, line.state, line.measure, *cells])
    try:
        write_text(sweep.path / SUMMARY, text.getvalue())
    except OSError as error:
        raise UserError(f"{sweep.path / SUMMARY}: cannot be written: {error.strerror or error}") from None
    return [f"summary: {sweep.path / SUMMARY}", *_draw(sweep, [line.run for line in lines if line.run is not None])]


def _draw(sweep: Sweep, runs: list[Curves]) -> list[str]:
    if not runs:
        return []
    goals = [(run.header.measure, run.header.direction) for run in runs]
    if any(goal != goals[0] for goal in goals):
        return ["no figure: the runs have different goals"]
    best = sorted(runs, key=lambda run: -float(middle(run.fitness[:, -1])))[:MOST_CURVES]
    plot_runs(best if len(runs) > MOST_CURVES else runs, sweep.path / CURVES)
    which = f" (the {MOST_CURVES} best of {len(runs)})" if len(runs) > MOST_CURVES else ""
    return [f"fitness curves: {sweep.path / CURVES}{which}"]


def show_sweep(paths: Sequence[str], lines: Sequence[Line]) -> None:
    """The runs of a sweep with what varies, how they stand, and their best."""
    measures = sorted({line.measure for line in lines})
    table = Table(title=f"best {' or '.join(measures)}, median over seeds", box=None, title_justify="left")
    for name in (*paths, "state", "generations", "first", "best"):
        table.add_column(cell(name), justify="right" if name in ("generations", "first", "best") else "left")
    for line in lines:
        row = line.row
        numbers = (count(row.generations), number(row.first), number(row.final)) if row else ("0", "", "")
        table.add_row(*map(cell, line.values), cell(line.state), *numbers)
    console_for_tables().print(table)
