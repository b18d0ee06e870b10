"""Proof by numbers: the mass-spring lattice against beam theory, conservation laws, eigenvalues and a CT scan."""

from __future__ import annotations

import json
from pathlib import Path


def validate_lattice_command(json_file: str | None, plots: str | None) -> None:
    """The work of `vsr validate --suite lattice`, whose targets have been checked."""
    from rich.console import Console

    from experiments.files import without_nan
    from experiments.validate.lattice.suite import table_of, validate_lattice

    console = Console()
    report = validate_lattice(lambda name, findings: console.print(table_of(name, findings)))
    console.print(
        f"{report['passed']} of {report['judged']} figures reached in {report['seconds']:.0f} s", highlight=False
    )
    for missed in report["missed"]:
        console.print(f"[red]missed[/red] {missed}", highlight=False, soft_wrap=True)
    if json_file is not None:
        Path(json_file).write_text(json.dumps(without_nan(report), indent=2, allow_nan=False) + "\n")
    if plots is not None:
        from experiments.validate.lattice.plots import draw_figures

        for drawn in draw_figures(report["series"], Path(plots)):
            console.print(f"drawn {drawn}", highlight=False, soft_wrap=True)
