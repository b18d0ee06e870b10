"""Checks against theory and measurement: a number beside what it should be, and suites of such checks.

A check is a function that returns its findings. Checks share nothing, so each runs in a thread with a device of its
own: small models keep one core busy, and compiling does too.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import jax
from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

from vsr.evidence.validate import ValidateOptions
from vsr.evidence.validate.command import Report, Suite
from vsr.scene import precision

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Row:
    """One metric against its expected value."""

    name: str
    measured: float
    expected: float
    error: float
    """of the measured value, as a share of the expected one or in its unit; see error_unit"""
    tolerance: float | None
    """the largest error that passes; None if the metric is only reported"""
    unit: str
    """of measured and expected"""
    error_unit: str
    """of error and tolerance: "relative" or a unit"""
    note: str = ""

    @property
    def passed(self) -> bool | None:
        """Not a number never passes; None if nothing was asked."""
        return None if self.tolerance is None else bool(abs(self.error) <= self.tolerance)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**vars(self), "passed": self.passed}


@dataclass
class Findings:
    """Of one section: rows, and the curves that plots draw."""

    rows: list[Row] = field(default_factory=list)
    series: dict[str, Any] = field(default_factory=dict)


def relative(
    name: str, measured: float, expected: float, tolerance: float | None, unit: str = "", note: str = ""
) -> Row:
    """The error is a share of the expected value."""
    return Row(
        name, float(measured), float(expected), float(measured / expected - 1), tolerance, unit, "relative", note
    )


def absolute(
    name: str, measured: float, expected: float, tolerance: float | None, unit: str = "", note: str = ""
) -> Row:
    """The error is a difference."""
    return Row(name, float(measured), float(expected), float(measured - expected), tolerance, unit, unit, note)


Check = Callable[[], Findings]


@dataclass(frozen=True)
class Checks(Suite):
    """A suite of checks, in the order they are reported."""

    name: str
    checks: Mapping[str, Check]
    kind: str
    """of floating-point number"""
    draw: Callable[[dict[str, Any]], Iterator[tuple[str, Figure]]]
    """figures of the curves that are there, with the names of their files"""
    longest_first: tuple[str, ...] = ()
    """begun before the others, so that no core waits for a long one at the end"""
    large: Mapping[str, Check] | None = None
    """instead of the others with `--large`"""

    @property
    def takes(self) -> tuple[str, ...]:
        return ("plots",) if self.large is None else ("plots", "large")

    def run(self, options: ValidateOptions, show: Callable[[Any], None], keep: Callable[[Report], None]) -> Report:
        checks = self.large if options.large and self.large is not None else self.checks
        began = time.perf_counter()
        found: dict[str, Findings] = {}
        took: dict[str, float] = {}
        for name, (findings, seconds) in self._run(checks):
            found[name], took[name] = findings, round(seconds, 1)
            show(table_of(name, findings))
            keep({**report_of(self.name, found, time.perf_counter() - began), "seconds_of": took})
        report = {**report_of(self.name, found, time.perf_counter() - began), "seconds_of": took}
        show(f"{report['passed']} of {report['judged']} metrics within bounds in {report['seconds']:.0f} s")
        for missed in report["missed"]:
            show(f"[red]missed[/red] {missed}")
        return report

    def _run(self, checks: Mapping[str, Check]) -> Iterator[tuple[str, tuple[Findings, float]]]:
        """Findings of each as its turn comes, and how long it took [s]."""
        devices = jax.devices()
        free: queue.SimpleQueue = queue.SimpleQueue()
        for device in devices:
            free.put(device)

        def run(check: Check) -> tuple[Findings, float]:
            device = free.get()
            started = time.perf_counter()
            try:
                # Both belong to the thread that opens them.
                with precision(self.kind), jax.default_device(device):
                    return check(), time.perf_counter() - started
            finally:
                free.put(device)

        first = self.longest_first
        with ThreadPoolExecutor(len(devices)) as pool:
            order = sorted(checks, key=lambda name: first.index(name) if name in first else len(first))
            pending = {name: pool.submit(run, checks[name]) for name in order}
            for name in checks:
                yield name, pending[name].result()

    def figures(self, report: Report, options: ValidateOptions) -> Iterator[tuple[str, Figure]]:
        return self.draw(report["series"])


def report_of(suite: str, found: dict[str, Findings], seconds: float) -> Report:
    """All rows, how many passed, which did not, and the curves."""
    rows = [{"section": section, **row.as_dict()} for section, findings in found.items() for row in findings.rows]
    judged = [row for row in rows if row["passed"] is not None]
    return {
        "suite": suite,
        "seconds": round(seconds, 1),
        "judged": len(judged),
        "passed": sum(row["passed"] for row in judged),
        "missed": [f"{row['section']}: {row['name']}" for row in judged if not row["passed"]],
        "rows": rows,
        "series": {name: curve for findings in found.values() for name, curve in findings.series.items()},
    }


def table_of(name: str, findings: Findings) -> Table:
    """A section as the user sees it, in 80 columns."""
    notes = list(dict.fromkeys(row.note for row in findings.rows if row.note))
    table = Table(
        title=name, title_justify="left", title_style="bold", caption=escape("\n".join(notes)), caption_justify="left"
    )
    table.box = SIMPLE
    table.add_column("check", overflow="fold")
    for column in ("measured", "expected", "error", "allowed", ""):
        table.add_column(column, justify="right", no_wrap=True)
    for row in findings.rows:
        verdict = {True: "[green]passed[/green]", False: "[red]MISSED[/red]", None: "reported"}[row.passed]
        unit = f" [{row.unit}]" if row.unit else ""
        table.add_row(escape(row.name + unit), *_figures(row), verdict)
    return table


def _figures(row: Row) -> tuple[str, str, str, str]:
    share = row.error_unit == "relative"
    error = f"{100 * row.error:+.2f} %" if share else f"{row.error:+.2g}"
    allowed = "" if row.tolerance is None else f"{100 * row.tolerance:g} %" if share else f"{row.tolerance:g}"
    return f"{row.measured:.5g}", f"{row.expected:.5g}", error, allowed
