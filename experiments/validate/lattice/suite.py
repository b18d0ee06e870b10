"""All checks of the lattice, two or more at a time, and how they are reported.

A section is a function that returns its findings. Sections share nothing, so each runs in a thread with a device of its
own: small lattices keep one core busy, and compiling does too.
"""

from __future__ import annotations

import queue
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import Any

import jax
from rich.box import SIMPLE
from rich.markup import escape
from rich.table import Table

from experiments.validate.lattice.beams import INTEGRATORS, check_beams
from experiments.validate.lattice.cylinder import check_cylinder
from experiments.validate.lattice.elastica import check_elastica
from experiments.validate.lattice.energy import check_energy
from experiments.validate.lattice.integrators import check_integrators
from experiments.validate.lattice.modes import check_modes
from experiments.validate.lattice.rows import Findings, Row
from experiments.validate.lattice.stretch import check_moduli
from experiments.validate.lattice.thin_beams import check_thin_beams
from vsr.scene import precision

SECTIONS: dict[str, Callable[[], Findings]] = {
    "moduli": check_moduli,
    "integrators": check_integrators,
    **{f"beams, {integrator}": partial(check_beams, integrator) for integrator in INTEGRATORS},
    "beams, two cells": check_thin_beams,
    "energy": check_energy,
    "modes": check_modes,
    "elastica": check_elastica,
    "cylinder": check_cylinder,
}
"""By name, in the order they are reported."""
LONGEST_FIRST = ("beams, rk4", "cylinder", "beams, verlet", "beams, semi_implicit_euler", "elastica")
"""Begun before the others, so that no core waits for a long one at the end."""


def validate_lattice(say: Callable[[str, Findings], None] = lambda name, findings: None) -> dict[str, Any]:
    """Run every section; say: called with each as its turn comes. Returns what `--json` writes."""
    began = time.perf_counter()
    devices = jax.devices()
    free: queue.SimpleQueue = queue.SimpleQueue()
    for device in devices:
        free.put(device)

    def run(section: Callable[[], Findings]) -> Findings:
        device = free.get()
        try:
            # Both belong to the thread that opens them.
            with precision("float64"), jax.default_device(device):
                return section()
        finally:
            free.put(device)

    with ThreadPoolExecutor(len(devices)) as pool:
        order = sorted(SECTIONS, key=lambda name: LONGEST_FIRST.index(name) if name in LONGEST_FIRST else 99)
        pending: dict[str, Future[Findings]] = {name: pool.submit(run, SECTIONS[name]) for name in order}
        found = {}
        for name in SECTIONS:
            found[name] = pending[name].result()
            say(name, found[name])
    return report_of(found, time.perf_counter() - began)


def report_of(found: dict[str, Findings], seconds: float) -> dict[str, Any]:
    """All rows, how many passed, which did not, and the curves."""
    rows = [{"section": section, **row.as_dict()} for section, findings in found.items() for row in findings.rows]
    judged = [row for row in rows if row["passed"] is not None]
    return {
        "suite": "lattice",
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
