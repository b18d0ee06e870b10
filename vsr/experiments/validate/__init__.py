"""Proof by numbers: our physics against data of the original simulator, other parts against theory and measurement."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from vsr.environment.model import Sticking
from vsr.experiments.config import UserError
from vsr.experiments.storage.files import target_file, without_nan
from vsr.experiments.validate.suite import Report, validate

SHIPPED = Path(__file__).parent / "data" / "2d-vsr-sim"
"""A small part of the reference data, in every installation."""

__all__ = ["SHIPPED", "Report", "validate", "validate_command"]


def validate_command(
    suite: str,
    reference: str | None,
    json_file: str | None,
    plots: str | None,
    large: bool = False,
    scale: str | None = None,
    sticking: Sticking | None = None,
) -> None:
    """The work of `vsr validate`."""
    from rich.console import Console

    if large and suite != "sand":
        raise UserError(f"--large: the {suite} suite has no larger checks; leave it out")
    if scale is not None and suite != "trust":
        raise UserError(f"--scale: the {suite} suite has one scale; leave it out")
    if suite != "2d":
        if sticking is not None:
            raise UserError(f"--sticking: the {suite} suite has no choice of it; leave it out")
        if reference is not None:
            raise UserError(f"--reference: the {suite} suite has no data of another simulator; leave it out")
        if suite == "trust" and plots is not None:
            raise UserError("--plots: the trust suite draws nothing; leave it out")
        _check_targets(json_file, plots)
        if suite == "trust":
            from vsr.experiments.validate.trust.report import report_trust

            return report_trust(scale or "quick", json_file)  # pyright: ignore[reportArgumentType]
        return _report_suite(suite, json_file, plots, large)
    folder = SHIPPED if reference is None else Path(reference)
    _check_targets(json_file, plots)
    console = Console()
    report = validate(folder, lambda line: console.print(line, highlight=False, soft_wrap=True), sticking or "resting")
    if json_file is not None:
        Path(json_file).write_text(json.dumps(without_nan(report), indent=2, allow_nan=False) + "\n")
    if plots is not None:
        from vsr.experiments.validate.plots import draw_figures

        for drawn in draw_figures(folder, report, Path(plots)):
            console.print(f"drawn {drawn}", highlight=False, soft_wrap=True)


def _report_suite(suite: str, json_file: str | None, plots: str | None, large: bool) -> None:
    """Run a suite of checks in sections, whose targets have been checked."""
    from rich.console import Console

    from vsr.experiments.validate.sections import table_of

    if suite == "lattice":
        from vsr.experiments.validate.lattice.plots import draw_figures
        from vsr.experiments.validate.lattice.suite import validate_lattice as validate_all
    elif suite == "fluid":
        from vsr.experiments.validate.fluid.plots import draw_figures
        from vsr.experiments.validate.fluid.suite import validate_fluid as validate_all
    else:
        from vsr.experiments.validate.sand.plots import draw_figures
        from vsr.experiments.validate.sand.suite import validate_sand

        validate_all = partial(validate_sand, large=large)
    console = Console()
    report = validate_all(lambda name, findings: console.print(table_of(name, findings)))
    console.print(
        f"{report['passed']} of {report['judged']} figures reached in {report['seconds']:.0f} s", highlight=False
    )
    for missed in report["missed"]:
        console.print(f"[red]missed[/red] {missed}", highlight=False, soft_wrap=True)
    if json_file is not None:
        Path(json_file).write_text(json.dumps(without_nan(report), indent=2, allow_nan=False) + "\n")
    if plots is not None:
        for drawn in draw_figures(report["series"], Path(plots)):
            console.print(f"drawn {drawn}", highlight=False, soft_wrap=True)


def _check_targets(json_file: str | None, plots: str | None) -> None:
    """What could not be written is reported before the work, not after it."""
    if json_file is not None:
        target_file("--json", json_file)
    if plots is not None and not Path(plots).resolve().parent.is_dir():
        raise UserError(f"--plots {plots}: there is no folder {Path(plots).resolve().parent}")
    if plots is not None and Path(plots).is_file():
        raise UserError(f"--plots {plots}: this is a file; give a folder")
