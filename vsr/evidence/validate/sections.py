"""Checks in sections, two or more at a time, and how they are reported.

A section is a function that returns its findings. Sections share nothing, so each runs in a thread with a device of its
own: small models keep one core busy, and compiling does too.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import jax
from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

from vsr.evidence.validate.rows import Findings, Row
from vsr.scene import precision

Section = Callable[[], Findings]


def run_sections(
    suite: str,
    sections: Mapping[str, Section],
    longest_first: Sequence[str],
    kind: str,
    say: Callable[[str, Findings], None] = lambda name, findings: None,
) -> dict[str, Any]:
    """Run every section; kind: of floating-point number; say: called with each as its turn comes.

    longest_first: begun before the others, so that no core waits for a long one at the end. Returns what `--json`
    writes.
    """
    began = time.perf_counter()
    devices = jax.devices()
    free: queue.SimpleQueue = queue.SimpleQueue()
    for device in devices:
        free.put(device)

    def run(section: Section) -> tuple[Findings, float]:
        device = free.get()
        started = time.perf_counter()
        try:
            # Both belong to the thread that opens them.
            with precision(kind), jax.default_device(device):
                return section(), time.perf_counter() - started
        finally:
            free.put(device)

    with ThreadPoolExecutor(len(devices)) as pool:
        order = sorted(sections, key=lambda name: longest_first.index(name) if name in longest_first else 99)
        pending: dict[str, Future[tuple[Findings, float]]] = {name: pool.submit(run, sections[name]) for name in order}
        found, took = {}, {}
        for name in sections:
            found[name], seconds = pending[name].result()
            took[name] = round(seconds, 1)
            say(name, found[name])
    return {**report_of(suite, found, time.perf_counter() - began), "seconds_of": took}


def report_of(suite: str, found: dict[str, Findings], seconds: float) -> dict[str, Any]:
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
