"""The table of `vsr validate --suite trust`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from vsr.experiments.storage.files import without_nan, write_json
from vsr.experiments.validate.trust.suite import SCALES, Batch, Scale, validate_trust


def report_trust(scale: Scale, json_file: str | None) -> None:
    """Run a scale, show every batch as it ends, then the table."""
    console = Console()
    batches: list[Batch] = []

    def say(batch: Batch, so_far: dict[str, Any]) -> None:
        batches.append(batch)
        write(so_far)
        line = f"{batch.kind.name}, {batch.substeps} substeps: {len(batch.robots)} robots in {batch.seconds:.1f} s"
        console.print(line, style="dim", highlight=False)

    def write(report: dict[str, Any]) -> None:
        if json_file is not None:
            write_json(Path(json_file), without_nan(report))

    report = validate_trust(scale, say=say)
    write(report)
    batches.sort(key=lambda batch: (SCALES[scale].index(batch.kind), batch.substeps))
    console.print(table_of(batches))
    console.print(
        f"{report['robots']} robots in {report['seconds']:.0f} s; broken and not reported: {report['unreported']}",
        style="red" if report["unreported"] else "green",
        highlight=False,
    )
    for batch in batches:
        for judged in batch.unreported:
            what = ", ".join(judged.broken)
            text = f"{batch.kind.name}, {batch.substeps} substeps: {what}: {judged.robot.control}, {judged.robot.start}"
            console.print(f"[red]unreported[/red] {text}", highlight=False, soft_wrap=True)


def table_of(batches: list[Batch]) -> Table:
    """A line for every batch."""
    table = Table(title="What can be believed", title_justify="left", title_style="bold", box=SIMPLE)
    table.add_column("robots", overflow="fold")
    for column in ("steps", "number", "reported", "not reported", "needlessly", "creased"):
        table.add_column(column, justify="right")
    for batch in batches:
        row = batch.as_dict()
        reasons = ", ".join(f"{count} {reason.label}" for reason, count in sorted(batch.reported.items())) or "-"
        numbers = (row["unreported"], row["reported_though_fine"], row["creased"])
        table.add_row(batch.kind.name, str(batch.substeps), str(row["robots"]), reasons, *map(str, numbers))
    return table
