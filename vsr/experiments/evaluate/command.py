"""The work of `vsr evaluate`: robots in all cases of a set, as a table, as JSON, as a heat map."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from vsr.experiments.config import UserError
from vsr.experiments.console import busy, cell, console_for_tables, say, warn
from vsr.experiments.devices import prepare
from vsr.experiments.evaluate.matrix import Matrix, combinations_of, evaluate, read_groups
from vsr.experiments.evaluate.sets import EvaluationSet, load_set
from vsr.experiments.formatting import count, number
from vsr.experiments.options import EvaluateOptions
from vsr.experiments.plot.figures import FORMATS, paper_style, save_figure, with_unit
from vsr.experiments.shipped import SCENE, SET, find_config
from vsr.experiments.storage.files import json_result, target_file, without_nan
from vsr.experiments.storage.runs import trust_plugins

if TYPE_CHECKING:  # it takes a second to load
    from matplotlib.axes import Axes

MOST_COLUMNS = 8
"""Runs and files with a column each; of more there is one for all."""
MOST_NUMBERS = 120
"""Cells of a panel in which numbers are written."""
MOST_NAMES = 40
"""Robots that are named; of more the panels stand side by side."""
FEW_ROWS = 8
WIDE, HIGH = 0.46, 0.26
"""Of a cell [inches]."""


def evaluate_command(options: EvaluateOptions) -> None:
    """Simulate, print, write what is asked for."""
    prepare(options.device)
    picture = None if options.plot is None else target_file("--plot", options.plot, FORMATS)
    if options.trust_plugins:
        trust_plugins(options.given)
    with json_result(options.json) as write:
        _evaluate(options, picture, write)


def _evaluate(options: EvaluateOptions, picture: Path | None, write: Callable[[Any], None]) -> None:
    described = load_set(find_config(options.on, SET), run_plugins=options.trust_plugins)
    given = tuple(dict.fromkeys(options.given))
    paths = [find_config(name, SCENE, folders=True) for name in given]
    groups = read_groups(paths, options.elites, options.settings)
    combinations, left_out = combinations_of(groups, described)
    warn(left_out)
    if not combinations:
        raise UserError(f"{options.on}: none of its cases suits these robots")
    total = sum(one.episodes for one in combinations) * described.trials
    with Progress(console=Console(stderr=True), transient=True) as progress, busy("simulating", counting=False):
        task = progress.add_task(f"{count(total)} episodes", total=total)
        found = evaluate(groups, described, combinations, lambda more: progress.advance(task, more))
    show(given, described, found)
    write(as_plain(given, described, found, left_out))
    if picture is not None:
        plot_matrix(described, found, picture)


def show(given: Sequence[str], described: EvaluationSet, found: Matrix) -> None:
    """A row for every case: of each run or file the median over its robots; of one alone also its extremes."""
    sources = [np.array(found.sources) == number for number in range(len(given))]
    alone = len(given) == 1 or len(given) > MOST_COLUMNS
    columns = (
        [("median", np.ones(len(found.robots), bool))] if alone else list(zip(map(_short, given), sources, strict=True))
    )
    head = [name for name, _ in columns] + (["worst", "best"] if alone and len(found.robots) > 1 else [])
    table = Table(box=None)
    for name in ("case", "measure", *head, "kept", "failed"):
        table.add_column(cell(name), justify="left" if name in ("case", "measure") else "right", overflow="fold")
    for place, case in enumerate(described.cases):
        if not found.suits[:, place].any():
            continue
        cells = [middle(found, place, members) for _, members in columns]
        cells += extremes(found, place) if alone and len(found.robots) > 1 else []
        measures = dict.fromkeys(found.measures[found.suits[:, place], place])
        row = (described.label(case), ", ".join(measures), *cells, kept_text(found, place), failed_text(found, place))
        table.add_row(*map(cell, row))
    console_for_tables().print(table)
    say(summary(described, found))


def _short(name: str) -> str:
    path = Path(name)
    return path.resolve().name if path.is_dir() else path.stem


def middle(found: Matrix, case: int, members: np.ndarray) -> str:
    """Median over robots, in which a failure is worse than any other."""
    members = members & found.suits[:, case]
    if not members.any():
        return ""
    signs, taken = found.sign[members, case], found.aggregated[members, case]
    fitness = np.where(np.isfinite(taken), signs * taken, -np.inf)
    return number(float(signs[0] * np.median(fitness)))


def extremes(found: Matrix, case: int) -> list[str]:
    """Of robots that did not fail, the worst and the best."""
    fitness = (found.sign * found.aggregated)[:, case]
    known = fitness[np.isfinite(fitness)]
    sign = found.sign[found.suits[:, case], case][0]
    return [number(float(sign * known.min())), number(float(sign * known.max()))] if known.size else ["", ""]


def kept_text(found: Matrix, case: int) -> str:
    """Median over robots of what is left of the first case."""
    known = found.kept[:, case]
    known = known[np.isfinite(known)]
    return f"{100 * np.median(known):.0f} %" if known.size else ""


def failed_text(found: Matrix, case: int) -> str:
    """How many robots."""
    return count(int((found.suits[:, case] & ~np.isfinite(found.aggregated[:, case])).sum()))


def summary(described: EvaluationSet, found: Matrix) -> str:
    """In one line."""
    shape = " x ".join(
        f"{len(axis)} {name}{'s' if len(axis) > 1 else ''}"
        for name, axis in (("task", described.tasks), ("terrain", described.terrains), ("fault", described.faults))
    )
    trials = f"{described.aggregate} of {described.trials} trials" if described.trials > 1 else "one trial each"
    robots = f"{count(len(found.robots))} robot{'s' if len(found.robots) > 1 else ''}"
    return f"{robots}, {shape}, {trials}; kept: over the first case, median over robots"


def as_plain(given: Sequence[str], described: EvaluationSet, found: Matrix, left_out: Sequence[str]) -> dict[str, Any]:
    """As JSON has it."""
    taken, kept_of = found.aggregated, found.kept  # of all robots at once
    return without_nan(
        {
            "set": described.to_plain(),
            "sources": list(given),
            "cases": [dict(zip(("task", "terrain", "fault"), case, strict=True)) for case in described.cases],
            "robots": [
                {
                    "name": name,
                    "source": given[source],
                    "measures": found.measures[place].tolist(),
                    "taken": taken[place].tolist(),
                    "kept": kept_of[place].tolist(),
                    "trials": found.values[place].tolist(),
                }
                for place, (name, source) in enumerate(zip(found.robots, found.sources, strict=True))
            ],
            "left_out": list(left_out),
        }
    )


# The heat map


def plot_matrix(described: EvaluationSet, found: Matrix, target: Path) -> None:
    """Colors are the measure if there is one for all, else what is kept of each robot's first case."""
    from matplotlib.figure import Figure

    panels = panels_of(described, found)
    columns = max(len(cases) for _, cases, _ in panels)
    measures = set(found.measures[found.suits])
    values = found.aggregated if len(measures) == 1 else found.kept
    rows, below = len(found.robots), len(found.robots) <= FEW_ROWS
    scale: dict[str, float] = dict(zip(("vmin", "vmax"), _ends(values), strict=True))
    with paper_style({"axes.grid": False}):
        size = np.array([WIDE * columns + 0.3, min(HIGH * rows, 9) + 0.35]) * (
            (1, len(panels)) if below else (len(panels), 1)
        )
        figure = Figure((float(size[0]) + 2.4, float(size[1]) + 0.9), layout="constrained")
        places = figure.subplots(*((len(panels), 1) if below else (1, len(panels))), squeeze=False).reshape(-1)
        for axes, (title, cases, names) in zip(places, panels, strict=True):
            drawn = _panel(axes, values[:, cases], found.suits[:, cases], scale)
            axes.set_title(title, fontsize="small", loc="left")
            last = axes is places[-1] or not below
            axes.set_xticks(range(len(cases)), names if last else [""] * len(cases), rotation=45, ha="right")
            named = rows <= MOST_NAMES and (below or axes is places[0])
            axes.set_yticks(range(rows) if named else [], found.robots if named else [])
        label = with_unit(next(iter(measures))) if len(measures) == 1 else "share of the first case"
        figure.colorbar(drawn, ax=places.tolist(), label=label)
        save_figure(figure, target)


def panels_of(described: EvaluationSet, found: Matrix) -> list[tuple[str, list[int], list[str]]]:
    """Title, numbers of the cases and names of the columns of every panel with a case that suits someone."""
    axes = [
        axis for axis, names in enumerate((described.tasks, described.terrains, described.faults)) if len(names) > 1
    ]
    across = axes[-1] if axes else 2
    panels: dict[str, tuple[list[int], list[str]]] = {}
    for place, case in enumerate(described.cases):
        if found.suits[:, place].any():
            title = ", ".join(case[axis] for axis in axes if axis != across)
            numbers, names = panels.setdefault(title, ([], []))
            numbers.append(place)
            names.append(case[across])
    return [(title, numbers, names) for title, (numbers, names) in panels.items()]


def _ends(values: np.ndarray) -> tuple[float, float]:
    known = values[np.isfinite(values)]
    return (float(known.min()), float(known.max())) if known.size else (0.0, 1.0)


def _panel(axes: Axes, values: np.ndarray, suits: np.ndarray, scale: dict[str, Any]) -> Any:
    drawn = axes.imshow(np.ma.masked_invalid(values), aspect="auto", cmap="viridis", interpolation="nearest", **scale)
    axes.set_facecolor("0.9")
    if values.size <= MOST_NUMBERS:
        for (row, column), value in np.ndenumerate(values):
            if suits[row, column]:
                red, green, blue, _ = drawn.to_rgba(value) if np.isfinite(value) else (0.9, 0.9, 0.9, 1)
                color = "white" if 0.3 * red + 0.59 * green + 0.11 * blue < 0.5 else "black"
                text = f"{value:.2g}" if np.isfinite(value) else number(value)
                axes.text(column, row, text, ha="center", va="center", fontsize=6, color=color)
    return drawn
