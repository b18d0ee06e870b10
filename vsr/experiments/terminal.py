"""Results of commands as tables in a terminal."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from typing import TYPE_CHECKING

import numpy as np
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from vsr.experiments.console import console_for_tables, printable, say, warn
from vsr.experiments.formatting import UNITS, count, number, pressures, volume
from vsr.experiments.plot.comparison import Comparison, Pair, Row, clearest
from vsr.experiments.shipped import USE, shipped_files

CONFIGS = "configs"
"""The shipped files, listed beside kinds of components."""

if TYPE_CHECKING:  # drawings of robots, which most tables do without
    from vsr.experiments.simulate import ChamberRange, StoredScore
    from vsr.scene import Outcome, Scene

MANY_ROWS = 200


def show_outcome(
    name: str, scene: Scene, outcome: Outcome, out: str | None, evolution: StoredScore | None = None
) -> None:
    """Measures of one simulation as a small table."""
    from vsr.experiments.simulate import chamber_ranges

    schedule = outcome.schedule
    console = console_for_tables()
    console.print(
        f"{name}: {int(scene.robot.body.present.sum())} voxels, {schedule.total_time:.2f} s, "
        f"{schedule.steps} steps of {schedule.substeps} substeps, {scene.physics.precision}",
        highlight=False,
        soft_wrap=True,
        markup=False,
    )
    table = Table(box=None, show_header=False)
    for measure, value in outcome.measures.items():
        table.add_row(measure, f"{value:.6g}", UNITS.get(measure, ""))
    if outcome.broken_springs is not None and "broken_springs" not in outcome.measures:
        table.add_row("broken_springs", str(outcome.broken_springs), "")
    console.print(table)
    _show_chambers(chamber_ranges(scene, outcome) or ())
    if outcome.failed:
        advice = f" ({outcome.advice})" if outcome.advice else ""
        console.print(f"failed: {outcome.failure.label}{advice}", style="red", markup=False)
    if evolution is not None:
        say(evolution.explained())
    if out:
        console.print(f"drawn in {out}", highlight=False, soft_wrap=True, markup=False)


def _show_chambers(chambers: Sequence[ChamberRange]) -> None:
    table = Table(box=None, show_header=False)
    for index, chamber in enumerate(chambers, 1):
        low, high = chamber.volume
        size = f"{volume(chamber.rest_volume)} at rest, {low:.2f} to {high:.2f} of that"
        table.add_row(f"chamber {index}", pressures(*chamber.pressure), size)
    if chambers:
        console_for_tables().print(table)


def show_means(measures: Mapping[str, np.ndarray]) -> None:
    """The mean of every measure over several episodes, without those that failed."""
    for name, values in measures.items():
        finite = values[[math.isfinite(value) for value in values]]
        mean = f"mean {finite.mean():.6g}" if len(finite) else "no episode without a failure"
        say(f"{name}: {mean}" + (f", {len(values) - len(finite)} failed" if len(finite) < len(values) else ""))


def show_comparison(comparison: Comparison) -> None:
    """Runs with their medians, then every pair with its test."""
    warn(comparison.warnings)
    rows = [_row_of_run(row) for row in comparison.rows]
    names = ("run", "seeds", "failed", "generations", "first", "final", "quartiles")
    what = comparison.measure if comparison.of_searches else f"best {comparison.measure}"
    _show_columns(f"{what}, median over seeds", names, rows, left=("run",))
    if not comparison.pairs:
        return
    shown, note = clearest(comparison.pairs)
    title = "Mann-Whitney, two-sided; A: chance that the first is better"
    title += f" ({note}; --json has all)" if note else ""
    head = ("first", "second", "difference", "p", "p (Holm)", "A")
    _show_columns(title, head, [_row_of_pair(pair) for pair in shown], left=("first", "second"))


def _row_of_run(row: Row) -> tuple[str, ...]:
    first, final, worse, better = map(number, (row.first, row.final, row.worse, row.better))
    return row.run, *map(count, (row.seeds, row.failed, row.generations)), first, final, f"{worse} to {better}"


def _row_of_pair(pair: Pair) -> tuple[str, ...]:
    tests = ("needs 2 seeds", "") if math.isnan(pair.p) else (f"{pair.p:.3g}", f"{pair.p_holm:.3g}")
    return pair.first, pair.second, number(pair.difference), *tests, f"{pair.effect:.2f}"


def _show_columns(title: str, head: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[str]) -> None:
    """Print a table; a long one without fitting it to the terminal, which takes a second for a thousand rows."""
    rows = [list(map(printable, row)) for row in rows]
    if len(rows) > MANY_ROWS:
        width = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        sys.stdout.write(f"{title}\n")
        for row in (head, *rows):
            cells = (
                f"{cell:<{w}}" if name in left else f"{cell:>{w}}"
                for name, cell, w in zip(head, row, width, strict=True)
            )
            sys.stdout.write(" " + "  ".join(cells).rstrip() + "\n")
        return
    table = Table(title=title, box=None, title_justify="left")
    for name in head:
        table.add_column(name, justify="left" if name in left else "right")
    for row in rows:
        table.add_row(*map(escape, row))
    console_for_tables().print(table)


def show_catalog(kind: str | None, plugins: Sequence[str], *, everything: bool = False) -> None:
    """Components of a kind, each with a line of help and its parameters; the shipped files; or the names of all."""
    from vsr.experiments import catalog
    from vsr.experiments.config.plugins import import_plugins
    from vsr.experiments.config.problems import UserError
    from vsr.spec import suggest

    import_plugins(plugins)
    if kind == CONFIGS:
        return show_configs(everything)
    if kind is not None and kind not in catalog.KINDS:
        raise UserError(f"there is no kind '{kind}'{suggest(kind, [*catalog.KINDS, CONFIGS])}")
    console = console_for_tables()
    if kind is None:
        console.print("vsr list KIND shows the components of a kind with their parameters.\n", highlight=False)
        console.print(f"[bold]{CONFIGS}[/bold]  (shipped files, by name: vsr list {CONFIGS})", highlight=False)
        for name, (where, _) in catalog.KINDS.items():
            console.print(f"[bold]{name}[/bold]  ({where})", highlight=False)
            console.print(Padding(escape(", ".join(catalog.names(name))), (0, 0, 0, 2)), highlight=False)
        return
    console.print(f"[bold]{kind}[/bold]  ({catalog.KINDS[kind][0]})", highlight=False)
    for component in catalog.components(kind):
        console.print(f"  [cyan]{component.name}[/cyan]  {escape(component.help)}", highlight=False)
        table = Table(box=None, show_header=False)
        for parameter in component.parameters:
            table.add_row("  ", *(escape(text) for text in astuple(parameter)))
        if component.parameters:
            console.print(table, highlight=False)


def show_configs(everything: bool) -> None:
    """Shipped files by command, each with what it describes; any of the commands takes the name instead of a file."""
    console = console_for_tables()
    files = shipped_files()
    shown = [file for file in files if everything or not file.is_part]
    for kind, commands in USE.items():
        table = Table(box=None, show_header=False)
        for file in shown:
            if file.kind == kind:
                table.add_row(f"  [cyan]{file.name}[/cyan]", escape(file.about))
        if table.row_count:
            console.print(f"\n[bold]{commands}[/bold]", highlight=False)
            console.print(table, highlight=False)
    if len(shown) < len(files):
        console.print(
            f"\n{len(files) - len(shown)} more, parts of studies and further experiments: vsr list {CONFIGS} --all",
            highlight=False,
        )
