"""Against the original simulator: find the cases in a folder of its data, run them, sum up, and draw.

The folder may hold any subset of: single/, cantilever/, contact/, contact_ccd_none/, locomotion/,
locomotion_ccd_none/, population/, population_ccd_none/, and beside them locomotion_ensembles.json and
locomotion_ensembles_ccd_none.json. Files inside may have any name; what they are follows from what they hold.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vsr.environment.model import Sticking
from vsr.evidence.validate import ValidateOptions
from vsr.evidence.validate.command import Report, Suite
from vsr.evidence.validate.original import cantilever, robots
from vsr.experiments.config import UserError

SHIPPED = Path(__file__).parents[1] / "data" / "2d-vsr-sim"
"""A small part of the reference data, in every installation."""
VARIANTS = ("", "_ccd_none")
SCAFFOLDINGS = ("E+C", "E+I+C", "E+I+X", "All")
DEFAULT_FREQUENCY = 8.0
DPI = 150


class Reference(Suite):
    """Voxel robots against the original simulator's data."""

    takes = ("plots", "reference", "sticking")

    def run(self, options: ValidateOptions, show: Callable[[Any], None], keep: Callable[[Report], None]) -> Report:
        return validate(_folder(options), show, options.sticking or "resting")

    def figures(self, report: Report, options: ValidateOptions) -> Iterator[tuple[str, Figure]]:
        """Figures 5 and 6 of the paper, with the original's points beside ours; how random robots travel."""
        if "cantilever_static" in report:
            cases = cantilever_cases(_folder(options), "final_dy_mean_rightmost_voxels")
            yield "figure5", _figure_5(cases, report["cantilever_static"]["cases"])
        if "cantilever_dynamic" in report:
            cases = cantilever_cases(_folder(options), "dy_mean_rightmost_every_step")
            yield "figure6", _figure_6(cases, report["cantilever_dynamic"]["cases"])
        if "locomotion" in report:
            yield "locomotion", _ensembles(report["locomotion"]["cases"])


def _folder(options: ValidateOptions) -> Path:
    return SHIPPED if options.reference is None else Path(options.reference)


def validate(reference: Path, say: Callable[[str], None] = lambda line: None, sticking: Sticking = "resting") -> Report:
    """Every comparison the folder has data for; sticking: which corners of masses may stick to the ground."""
    if not reference.is_dir():
        raise UserError(f"{reference}: there is no such folder of reference data")
    report: Report = {}
    memory = robots.Memory(sticking)
    for key, section in (
        ("single", _single),
        ("cantilever_static", _static),
        ("cantilever_dynamic", _dynamic),
        ("cantilever_dynamic_fine", _dynamic_fine),
        ("contact", lambda folder: _contact(folder, memory)),
        ("locomotion", lambda folder: _locomotion(folder, memory)),
        ("population", lambda folder: _population(folder, memory)),
    ):
        try:
            found = section(reference)
        except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
            raise UserError(f"{reference}: the {key} data is not laid out as expected: {_reason(error)}") from error
        if found is not None:
            report[key] = found
            say(f"{key}: {headline(key, found)}")
    if not report:
        raise UserError(
            f"{reference}: no reference data found; expected folders such as single, cantilever or population"
        )
    return report


def _reason(error: Exception) -> str:
    return f"no key {error}" if isinstance(error, KeyError) else str(error).splitlines()[0]


def headline(key: str, found: Any) -> str:
    """One line on a section."""
    if key == "population":
        return "; ".join(
            f"{entry['name']} (n = {entry['n']}): "
            + ", ".join(
                f"{name} {value:.3f}"
                for name, value in entry.items()
                if name.startswith(("spearman", "pearson")) and not name.endswith("_range")
            )
            for entry in found
        )
    figures = ", ".join(f"{name} {value:.4g}" for name, value in found.items() if isinstance(value, int | float))
    return f"{len(found['cases'])} cases, {figures}"


def read_cases(folder: Path) -> Iterator[tuple[str, Any]]:
    """Name and content of every JSON file in a folder; a CSV only if no JSON has its name."""
    if not folder.is_dir():
        return
    for path in sorted(folder.iterdir()):
        if path.suffix == ".json":
            yield path.stem, _read_json(path)
        elif path.suffix == ".csv" and not path.with_suffix(".json").exists():
            yield path.stem, [_static_row(row) for row in csv.DictReader(path.read_text().splitlines())]


def _read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: not readable as JSON: {error}") from None


def _static_row(row: dict[str, str]) -> dict[str, Any]:
    return {
        "w": int(row["w"]),
        "h": int(row["h"]),
        "springF": float(row["springF"]),
        "scaffolding": row["scaffolding"],
        "force_N": float(row.get("force_N") or 30.0),
        "final_dy_mean_rightmost_voxels": float(row["final_dy_mean_rightmost"]),
    }


def cantilever_cases(reference: Path, key: str) -> list[dict[str, Any]]:
    """Cantilever cases that hold the given result."""
    static = key == "final_dy_mean_rightmost_voxels"
    return [
        case
        for _, content in read_cases(reference / "cantilever")
        for case in (content if isinstance(content, list) else [content])
        if key in case and not (static and "dy_mean_rightmost_every_step" in case)
    ]


def _single(reference: Path) -> Report | None:
    cases = [robots.validate_single(name, case) for name, case in read_cases(reference / "single")]
    if not cases:
        return None
    return {
        "cases": cases,
        **{key: max(case[key] for case in cases) for key in ("worst_area_ratio_error", "worst_instant_error")},
    }


def _static(reference: Path) -> Report | None:
    found = cantilever_cases(reference, "final_dy_mean_rightmost_voxels")
    if not found:
        return None
    cases = cantilever.validate_static(found)
    errors = [case["relative_error"] for case in cases]
    return {
        "cases": cases,
        "median_relative_error": float(np.median(errors)),
        "p90_relative_error": float(np.percentile(errors, 90)),
    }


def _dynamic(reference: Path) -> Report | None:
    found = cantilever_cases(reference, "dy_mean_rightmost_every_step")
    if not found:
        return None
    return {"cases": cantilever.validate_dynamic(found)}


def _dynamic_fine(reference: Path) -> Report | None:
    cases = cantilever.validate_dynamic_fine(cantilever_cases(reference, "dy_mean_rightmost_at_60Hz"))
    if not cases:
        return None
    nearer = sum(case["rms_to_fine"] < case["original_rms_to_fine"] for case in cases)
    return {"cases": cases, "nearer_than_original": nearer}


def _contact(reference: Path, memory: robots.Memory) -> Report | None:
    cases = [
        robots.validate_landing(f"contact{variant}/{name}", data, memory)
        for variant in VARIANTS
        for name, data in read_cases(reference / f"contact{variant}")
    ]
    if not cases:
        return None
    passive = [case["height_error_m"] for case in cases if case["passive"]]
    return {"cases": cases, "worst_rest_height_error_m": max(passive) if passive else None}


def _locomotion(reference: Path, memory: robots.Memory) -> Report | None:
    cases = []
    for variant in VARIANTS:
        ensembles_file = reference / f"locomotion_ensembles{variant}.json"
        ensembles = _read_json(ensembles_file) if ensembles_file.exists() else {}
        for name, data in read_cases(reference / f"locomotion{variant}"):
            ensemble = ensembles.get(data["input"].get("name", name)) or ensembles.get(name)
            case = robots.validate_locomotion(f"locomotion{variant}/{name}", data, ensemble, memory)
            if case is not None:
                cases.append(case)
    if not cases:
        return None
    return {"cases": cases, "within_3_sd_or_0.05": sum(case["within_3_sd_or_0.05"] for case in cases)}


def _population(reference: Path, memory: robots.Memory) -> list[Report] | None:
    found = [
        robots.validate_population(f"population{variant}/{name}", data, memory)
        for variant in VARIANTS
        for name, data in read_cases(reference / f"population{variant}")
    ]
    return found or None


def _figure_5(cases: list[dict[str, Any]], results: list[dict[str, Any]]) -> Figure:
    """Displacement at rest over the frequency and over the scaffolding."""
    figure = Figure(figsize=(8, 3.4), layout="constrained", dpi=DPI)
    left, right = figure.subplots(1, 2)
    sizes = sorted({(case["w"], case["h"]) for case in cases})
    for number, size in enumerate(sizes):
        pairs = [(c, r) for c, r in zip(cases, results, strict=True) if (c["w"], c["h"]) == size]
        label, color = f"{size[0]}×{size[1]}", f"C{number}"
        full = sorted((c["springF"], r) for c, r in pairs if c["scaffolding"] == "All")
        _points(left, [f for f, _ in full], [r for _, r in full], label, color)
        soft = {c["scaffolding"]: r for c, r in pairs if c["springF"] == DEFAULT_FREQUENCY}
        known = [name for name in SCAFFOLDINGS if name in soft]
        _points(right, [SCAFFOLDINGS.index(name) for name in known], [soft[name] for name in known], label, color)
    left.set(xlabel="spring frequency [Hz]", ylabel="final y-displacement [m]", title="all groups")
    right.set(xlabel="scaffolding", title=f"{DEFAULT_FREQUENCY:g} Hz")
    right.set_xticks(range(len(SCAFFOLDINGS)), SCAFFOLDINGS)
    left.legend()
    return figure


def _points(axes: Axes, x: list[float], results: list[dict[str, Any]], label: str, color: str) -> None:
    axes.plot(
        x,
        [r["original_displacement_m"] for r in results],
        "o",
        mfc="none",
        ms=8,
        color=color,
        label=f"{label} original",
    )
    axes.plot(x, [r["displacement_m"] for r in results], "x-", ms=5, color=color, label=f"{label} ours")


def _figure_6(cases: list[dict[str, Any]], results: list[dict[str, Any]]) -> Figure:
    """Displacement over time after a blow."""
    figure = Figure(figsize=(9, 3.8), layout="constrained", dpi=DPI)
    left, right = figure.subplots(1, 2, sharey=True)
    number = {"left": 0, "right": 0}
    for case, result in zip(cases, results, strict=True):
        for side, axes, chosen, label in (
            ("left", left, case["scaffolding"] == "All", f"{case['springF']:g} Hz"),
            ("right", right, case["springF"] == DEFAULT_FREQUENCY, case["scaffolding"]),
        ):
            if chosen:
                color = f"C{number[side] % 8}"
                number[side] += 1
                theirs = case["dy_mean_rightmost_every_step"]
                time = [(i + 1) / 60 for i in range(len(theirs))]
                axes.plot(time[::12], theirs[::12], "o", ms=3, mfc="none", mew=0.7, color=color)
                axes.plot(time, result["path_m"], color=color, label=label)
    for axes, title in ((left, "all groups"), (right, f"{DEFAULT_FREQUENCY:g} Hz")):
        axes.set(xlabel="time [s]", title=f"{title}: lines ours, circles the original")
        axes.legend(ncols=2)
    left.set_ylabel("y-displacement [m]")
    return figure


def _ensembles(cases: list[dict[str, Any]]) -> Figure:
    """Mean and spread of travel velocity, ours and the original's."""
    figure = Figure(figsize=(8, 0.28 * len(cases) + 1.2), layout="constrained", dpi=DPI)
    axes = figure.subplots()
    for place, case in enumerate(cases):
        axes.errorbar(
            case["original_mean_m_per_s"],
            place - 0.15,
            xerr=case["original_sd_m_per_s"],
            fmt="o",
            mfc="none",
            color="C1",
        )
        axes.errorbar(case["mean_m_per_s"], place + 0.15, xerr=case["sd_m_per_s"], fmt="x", color="C0")
    axes.set_yticks(range(len(cases)), [case["name"] for case in cases], fontsize=7)
    axes.set(xlabel="travel velocity [m/s], mean ± sd: crosses ours, circles the original")
    axes.invert_yaxis()
    return figure


SUITE = Reference()
