"""The work of `vsr report`: one page about runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from vsr.experiments.config.problems import UserError
from vsr.experiments.console import busy
from vsr.experiments.plot.curves import check_one_goal, labels
from vsr.experiments.report.findings import find_out
from vsr.experiments.report.page import report_page
from vsr.experiments.storage.files import target_file, write_text
from vsr.experiments.storage.runs import Run, read_run

REPORT = "report.html"


def report(given: Sequence[str], out: str | None) -> tuple[Path, tuple[str, ...]]:
    """Read the runs and write the page; returns where it is, and what was left out or could not be read."""
    paths, warnings = _once(given)
    with busy("reading runs"):
        runs = [read_run(path) for path in paths]
    check_one_goal(runs)
    target = target_file("--out", out or str(runs[0].path / REPORT if len(runs) == 1 else REPORT), (".html", ".htm"))
    return target, (*warnings, *write_report(runs, target))


def _once(given: Sequence[str]) -> tuple[list[str], list[str]]:
    """Folders without those that were named before, whichever way; and what is left out."""
    known: dict[Path, str] = {}
    warnings = []
    for name in given:
        folder = Path(os.path.realpath(name))  # Path.resolve raises for a link to itself
        if folder in known:
            reason = "it was given twice" if known[folder] == name else f"it is the same folder as {known[folder]}"
            warnings.append(f"{name}: {reason}; it is reported once")
        else:
            known[folder] = name
    return list(known.values()), list(dict.fromkeys(warnings))


def write_report(runs: Sequence[Run], target: Path) -> tuple[str, ...]:
    """The whole page, or nothing; returns what could not be read of the runs."""
    with busy("writing the report"):
        found = [find_out(run, label) for run, label in zip(runs, labels(runs), strict=True)]
        page = report_page(found)
    try:
        write_text(target, page)
    except OSError as error:
        raise UserError(f"{target}: cannot be written: {error.strerror or error}") from None
    return tuple(warning for one in found for warning in one.warnings)
