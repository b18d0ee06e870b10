"""The work of `vsr reach`: search as a file describes, report, write JSON and a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from vsr.experiments.config.check import check
from vsr.experiments.config.overrides import override
from vsr.experiments.config.plugins import load_plugins, require_plugins
from vsr.experiments.config.yaml import read_yaml
from vsr.experiments.console import console_for_tables, say
from vsr.experiments.reach.picture import write_gif, write_html, write_png
from vsr.experiments.reach.solving import VariantResult, solve
from vsr.experiments.reach.spec import Reach
from vsr.experiments.shipped import REACH, find_config
from vsr.experiments.storage.files import json_result, replace_when_closed, target_file
from vsr.scene import precision

PICTURES = (".html", ".gif", ".png")
MOST_ROWS = 12
"""Of targets in the terminal; JSON has all."""


def run(
    file: str,
    json_file: str | None = None,
    out: str | None = None,
    settings: Sequence[str] = (),
    *,
    run_plugins: bool = False,
) -> list[VariantResult]:
    """Search; write what was asked for only when all of it is there."""
    target = None if out is None else target_file("--out", out, PICTURES)
    with json_result(json_file) as write:
        spec = load_reach(find_config(file, REACH), settings, run_plugins=run_plugins)
        with precision(spec.precision):
            found = [solve(spec, name, body) for name, body in spec.bodies().items()]
        for one in found:
            show(spec, one)
        if target is not None:
            draw = {".html": write_html, ".gif": write_gif, ".png": write_png}[target.suffix.lower()]
            with replace_when_closed(target) as partial:
                draw(Path(file).stem, spec, found, partial)
        write(as_plain(spec, found))
    return found


def load_reach(path: str | Path, settings: Sequence[str] = (), *, run_plugins: bool = False) -> Reach:
    """The description in a file; raises ConfigError with every fault, PluginRequiredError if plugins may not run."""
    document = read_yaml(path)
    override(document, settings)
    if run_plugins:
        load_plugins(document)
    require_plugins(document)
    return check(document, Reach)


def as_plain(spec: Reach, found: list[VariantResult]) -> dict[str, Any]:
    """Everything as JSON has it; SI units."""
    return {"variants": [_plain(spec, one) for one in found]}


def _plain(spec: Reach, found: VariantResult) -> dict[str, Any]:
    given = len(found.names)
    rows = [_pose_of(found, index, {"name": name}) for index, name in enumerate(found.names)]
    targets = [
        _pose_of(
            found,
            given + index,
            {
                "target_m": found.target[index].tolist(),
                "effector_m": found.effector[index].tolist(),
                "distance_m": found.distance[index].tolist(),
                "iterations": int(found.iterations[index]),
                "reached": bool(found.reached[index]),
                "arrived": bool(found.arrived[index]),
            },
        )
        for index in range(len(found.target))
    ]
    return {
        "name": found.name,
        "chambers": [
            {"symbol": symbol, "drive": "volume" if volume else "pressure", "rest_volume_m3": float(rest)}
            for symbol, volume, rest in zip(found.symbols, found.by_volume, found.rest_volume, strict=True)
        ],
        "size_m": found.size,
        "precision": spec.precision,
        "seconds": found.seconds,
        "poses": rows,
        "targets": targets,
    }


def _pose_of(found: VariantResult, row: int, more: dict[str, Any]) -> dict[str, Any]:
    return {
        **more,
        "drive": found.drive[row].tolist(),
        "pressure_Pa": found.pressure[row].tolist(),
        "volume_m3": found.volume[row].tolist(),
        "residual_N": float(found.residual[row]),
        "converged": bool(found.converged[row]),
        "depth_m": float(found.depth[row]),
        **({} if found.angle is None else {"angle_degrees": float(found.angle[row])}),
    }


def show(spec: Reach, found: VariantResult) -> None:
    """As text."""
    if found.name:
        say(found.name)
    given = len(found.names)
    table = Table(box=None)
    heads = [""] if given else []
    heads += ["target [mm]", "effector [mm]", "distance [mm]", "steps"] if len(found.target) else []
    heads += [f"{symbol} {number}" for number, symbol in enumerate(found.symbols)]
    heads += ["angle"] if found.angle is not None else []
    for head in heads:
        table.add_column(head, justify="left" if head in ("", "target [mm]", "effector [mm]") else "right")
    few = np.unique(np.linspace(0, len(found.target) - 1, min(MOST_ROWS, len(found.target))).astype(int))
    for row in [*range(given), *(given + few)]:
        table.add_row(*_cells(found, int(row), bool(given)))
    console_for_tables().print(table)
    for line in _summary(found):
        say(line)


def _cells(found: VariantResult, row: int, named: bool) -> list[str]:
    given = len(found.names)
    cells = [found.names[row] if row < given else ""] if named else []
    if len(found.target):
        index = row - given
        cells += [""] * 4 if index < 0 else _target_cells(found, index)
    for chamber in range(len(found.symbols)):
        added = 1e6 * (found.volume[row, chamber] - found.rest_volume[chamber])
        cells.append(f"{found.pressure[row, chamber]:.0f} Pa, {added:+.2f} ml")
    return cells if found.angle is None else [*cells, f"{found.angle[row]:.1f}°"]


def _target_cells(found: VariantResult, index: int) -> list[str]:
    def place(points: np.ndarray) -> str:
        return "; ".join(" ".join(f"{1e3 * part:.1f}" for part in point) for point in points)

    mark = "" if found.reached[index] else " *"
    gap = " ".join(f"{1e3 * part:.4f}" for part in found.distance[index])
    return [place(found.target[index]), place(found.effector[index]), gap + mark, str(found.iterations[index])]


def _summary(found: VariantResult) -> list[str]:
    lines = []
    if not found.converged.all():
        lines.append(f"{(~found.converged).sum()} of {len(found.converged)} poses are no equilibrium")
    lines.append(
        f"forces left {found.residual.max():.1e} N at most, {1e6 * found.depth.max():.2g} µm inside obstacles at most"
    )
    count = len(found.target)
    if count:
        lines.append(
            f"{found.reached.sum()} of {count} targets reached (* the nearest pose), "
            f"{np.median(found.iterations):.0f} steps in the median, {found.iterations.max()} at most; "
            f"{count / max(found.seconds, 1e-9):.0f} targets a second"
        )
        if not found.arrived.all():
            lines.append(f"{(~found.arrived).sum()} searches did not come to an end: give more trials or other bounds")
    return lines
