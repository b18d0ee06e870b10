"""What people see in a terminal."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, astuple

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from experiments.comparison import Comparison
from experiments.units import UNITS
from vsr.scene import Outcome, Scene


def show_outcome(name: str, scene: Scene, outcome: Outcome, out: str | None) -> None:
    """Measures of one simulation as a small table."""
    schedule = outcome.schedule
    console = Console()
    console.print(
        f"{name}: {int(scene.robot.body.present.sum())} voxels, {schedule.total_time:.2f} s, "
        f"{schedule.steps} steps of {schedule.substeps} substeps, {scene.physics.precision}",
        highlight=False,
        soft_wrap=True,
    )
    table = Table(box=None, show_header=False)
    for measure, value in outcome.measures.items():
        table.add_row(measure, f"{value:.6g}", UNITS.get(measure, ""))
    console.print(table)
    if outcome.failed:
        console.print("failed: the state stopped being finite or exploded", style="red")
    if out:
        console.print(f"drawn in {out}", highlight=False, soft_wrap=True)


def show_pairs(title: str, pairs: Sequence[tuple[str, str]]) -> None:
    """Names and values under a title."""
    console = Console()
    console.print(title, highlight=False, soft_wrap=True, markup=False)
    table = Table(box=None, show_header=False)
    for name, value in pairs:
        table.add_row(name, escape(value))
    console.print(table)


def warn(warnings: Sequence[str]) -> None:
    """One line each, apart from results."""
    console = Console(stderr=True)
    for warning in warnings:
        console.print(f"warning: {warning}", highlight=False, soft_wrap=True, markup=False)


def show_comparison(comparison: Comparison, as_json: bool) -> None:
    """Runs with their medians, then every pair with its test."""
    console = Console()
    if as_json:
        console.print_json(json.dumps(_without_nan(asdict(comparison))))
        return
    table = Table(title=f"best {comparison.measure}, median over seeds", box=None, title_justify="left")
    for name in ("run", "seeds", "generations", "first", "final", "quartiles"):
        table.add_column(name, justify="left" if name == "run" else "right")
    for row in comparison.rows:
        numbers = f"{row.first:.4g}", f"{row.final:.4g}", f"{row.low:.4g} to {row.high:.4g}"
        table.add_row(escape(row.run), str(row.seeds), str(row.generations), *numbers)
    console.print(table)
    if not comparison.pairs:
        return
    pairs = Table(title="Mann-Whitney, two-sided; A: chance that the first is better", box=None, title_justify="left")
    for name in ("first", "second", "difference", "p", "p (Holm)", "A"):
        pairs.add_column(name, justify="left" if name in ("first", "second") else "right")
    for pair in comparison.pairs:
        tests = ("needs 2 seeds", "") if math.isnan(pair.p) else (f"{pair.p:.3g}", f"{pair.p_holm:.3g}")
        pairs.add_row(escape(pair.first), escape(pair.second), f"{pair.difference:+.4g}", *tests, f"{pair.effect:.2f}")
    console.print(pairs)


def show_catalogue(kind: str | None, plugins: Sequence[str]) -> None:
    """Components by kind, each with a line of help and its parameters."""
    from experiments import catalogue
    from experiments.config.plugins import import_plugins
    from experiments.config.problems import UserError
    from vsr.spec import suggest

    import_plugins(plugins)
    if kind is not None and kind not in catalogue.KINDS:
        raise UserError(f"there is no kind '{kind}'{suggest(kind, catalogue.KINDS)}")
    console = Console()
    for name in catalogue.KINDS if kind is None else [kind]:
        console.print(f"\n[bold]{name}[/bold]  ({catalogue.KINDS[name][0]})", highlight=False)
        for component in catalogue.components(name):
            console.print(f"  [cyan]{component.name}[/cyan]  {escape(component.help)}", highlight=False)
            table = Table(box=None, show_header=False)
            for parameter in component.parameters:
                table.add_row("  ", *(escape(text) for text in astuple(parameter)))
            if component.parameters:
                console.print(table, highlight=False)


def _without_nan(value):
    """The same with null for what is not a number, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and math.isnan(value) else value
