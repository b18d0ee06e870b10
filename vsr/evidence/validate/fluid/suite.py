"""All checks of fluid in chambers, and the figure of how errors of columns fall."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from matplotlib.figure import Figure

from vsr.evidence.validate.checks import Checks
from vsr.evidence.validate.fluid.exact import check_loads, check_volumes
from vsr.evidence.validate.fluid.grids import check_orders, check_ring, check_table
from vsr.evidence.validate.fluid.robots import check_laplace, check_motion, check_weight


def draw(series: dict[str, Any]) -> Iterator[tuple[str, Figure]]:
    """How errors of columns fall with their number."""
    if "columns" in series:
        curves = series["columns"]
        figure = Figure(figsize=(4, 3), layout="constrained")
        panel = figure.subplots()
        for name in ("volume", "load"):
            panel.loglog(curves["grid"], curves[name], "o-", label=name)
        second = [curves["load"][0] * (curves["grid"][0] / grid) ** 2 for grid in curves["grid"]]
        panel.loglog(curves["grid"], second, "k:", label="order 2")
        panel.set(xlabel="columns along each side", ylabel="relative error")
        panel.legend()
        yield "fluid_columns", figure


SUITE = Checks(
    "fluid",
    {
        "exact volumes": check_volumes,
        "exact loads": check_loads,
        "robots, Laplace": check_laplace,
        "robots, weight": check_weight,
        "robots, motion": check_motion,
        "columns, Table I": check_table,
        "columns, a ring that stands": check_ring,
        "columns, orders": check_orders,
    },
    "float64",
    draw,
    longest_first=("columns, Table I", "exact loads"),
)
