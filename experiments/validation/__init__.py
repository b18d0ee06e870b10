"""Proof by numbers: our physics against data of the original simulator."""

from __future__ import annotations

import json
from pathlib import Path

from experiments.config import UserError
from experiments.validation.suite import Report, validate

SHIPPED = Path(__file__).resolve().parents[2] / "tests" / "data" / "2d-vsr-sim"
"""A small part of the reference data, in every checkout."""

__all__ = ["SHIPPED", "Report", "validate", "validate_command"]


def validate_command(reference: str | None, json_file: str | None, plots: str | None) -> None:
    """The work of `vsr validate`."""
    from rich.console import Console

    folder = SHIPPED if reference is None else Path(reference)
    for target in (json_file, plots):
        parent = None if target is None else Path(target).resolve().parent
        if parent is not None and not parent.is_dir():
            raise UserError(f"{target}: there is no folder {parent}")
    console = Console()
    report = validate(folder, lambda line: console.print(line, highlight=False, soft_wrap=True))
    if json_file is not None:
        Path(json_file).write_text(json.dumps(report, indent=2) + "\n")
    if plots is not None:
        from experiments.validation.plots import draw_figures

        for drawn in draw_figures(folder, report, Path(plots)):
            console.print(f"drawn {drawn}", highlight=False)
