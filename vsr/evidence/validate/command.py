"""The work of `vsr validate`: what a suite is, and the runner that writes its report and draws its figures."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from vsr.evidence.validate import SUITES, ValidateOptions
from vsr.experiments.config import UserError
from vsr.experiments.devices import prepare
from vsr.experiments.plot.figures import paper_style
from vsr.experiments.storage.files import json_result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Report = dict[str, Any]
"""The report that `--json` writes."""


class Suite(ABC):
    """Comparisons that belong together."""

    takes: tuple[str, ...] = ()
    """fields of ValidateOptions that it understands"""

    @abstractmethod
    def run(self, options: ValidateOptions, show: Callable[[Any], None], keep: Callable[[Report], None]) -> Report:
        """Every comparison; show: prints what was found as it is found; keep: writes what there is so far."""

    def figures(self, report: Report, options: ValidateOptions) -> Iterator[tuple[str, Figure]]:
        """Draw the figures of `--plots`; yields their names."""
        yield from ()


REFUSALS = {
    "large": "has no larger checks",
    "sticking": "has no choice of it",
    "reference": "has no data of another simulator",
    "plots": "draws nothing",
}
"""Why a suite does not take an option."""


def validate_command(options: ValidateOptions) -> None:
    """Run one of SUITES; what could not be written is reported before the work, not after it."""
    suite: Suite = import_module(f"vsr.evidence.validate.{SUITES[options.suite]}").SUITE
    for name, reason in REFUSALS.items():
        if getattr(options, name) and name not in suite.takes:
            raise UserError(f"--{name}: the {options.suite} suite {reason}; leave it out")
    folder = None if options.plots is None else _folder(options.plots)
    prepare(options.device)
    console = Console()

    def show(what: Any) -> None:
        if isinstance(what, str):
            console.print(what, highlight=False, soft_wrap=True)
        else:
            console.print(what)

    with json_result(options.json) as keep:
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
