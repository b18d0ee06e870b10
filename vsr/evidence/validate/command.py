"""The work of `vsr validate`: run a suite, write its report and draw its figures."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from rich.console import Console

from vsr.evidence.validate import SUITES
from vsr.evidence.validate.suite import Options, Report, Suite
from vsr.experiments.config import UserError
from vsr.experiments.files import target_file, without_nan, write_json
from vsr.experiments.plot.figures import paper_style

REFUSALS = {
    "large": "has no larger checks",
    "scale": "has one scale",
    "sticking": "has no choice of it",
    "reference": "has no data of another simulator",
    "plots": "draws nothing",
}
"""Why a suite does not take an option."""


def validate_command(options: Options) -> None:
    """Run one of SUITES; what could not be written is reported before the work, not after it."""
    suite: Suite = import_module(f"vsr.evidence.validate.{SUITES[options.suite]}").SUITE
    for name, reason in REFUSALS.items():
        if getattr(options, name) and name not in suite.takes:
            raise UserError(f"--{name}: the {options.suite} suite {reason}; leave it out")
    target = None if options.json_file is None else target_file("--json", options.json_file)
    folder = None if options.plots is None else _folder(options.plots)
    console = Console()

    def show(what: Any) -> None:
        if isinstance(what, str):
            console.print(what, highlight=False, soft_wrap=True)
        else:
            console.print(what)

    def keep(report: Report) -> None:
        if target is not None:
            write_json(target, without_nan(report))

    report = suite.run(options, show, keep)
    keep(report)
    if folder is not None:
        folder.mkdir(exist_ok=True)
        with paper_style():
            for name, figure in suite.figures(report, options):
                figure.savefig(folder / f"{name}.png", dpi="figure")
                show(f"drawn {folder / name}.png")


def _folder(plots: str) -> Path:
    parent = Path(plots).resolve().parent
    if not parent.is_dir():
        raise UserError(f"--plots {plots}: there is no folder {parent}")
    if Path(plots).is_file():
        raise UserError(f"--plots {plots}: this is a file; give a folder")
    return Path(plots)
