"""Figures 5 and 6 of the paper, with the original's points beside ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vsr.evidence.validate.suite import Report, cantilever_cases
from vsr.experiments.plot.figures import paper_style

SCAFFOLDINGS = ("E+C", "E+I+C", "E+I+X", "All")
DEFAULT_FREQUENCY = 8.0


def draw_figures(reference: Path, report: Report, folder: Path) -> list[Path]:
    """Every figure the report has data for."""
    folder.mkdir(exist_ok=True)
    drawn = []
    with paper_style():
        if "cantilever_static" in report:
            cases = cantilever_cases(reference, "final_dy_mean_rightmost_voxels")
            drawn.append(_figure_5(cases, report["cantilever_static"]["cases"], folder / "figure5.png"))
        if "cantilever_dynamic" in report:
            cases = cantilever_cases(reference, "dy_mean_rightmost_every_step")
            drawn.append(_figure_6(cases, report["cantilever_dynamic"]["cases"], folder / "figure6.png"))
        if "locomotion" in report:
            drawn.append(_ensembles(report["locomotion"]["cases"], folder / "locomotion.png"))
    return drawn


def _figure_5(cases: list[dict[str, Any]], results: list[dict[str, Any]], path: Path) -> Path:
    """Displacement at rest over the frequency and over the scaffolding."""
    figure = Figure(figsize=(8, 3.4), layout="constrained")
    left, right = figure.subplots(1, 2)
    sizes = sorted({(case["w"], case["h"]) for case in cases})
    for number, size in enumerate(sizes):
        pairs = [(c, r) for c, r in zip(cases, results, strict=True) if (c["w"], c["h"]) == size]
        label, colour = f"{size[0]}×{size[1]}", f"C{number}"
        full = sorted((c["springF"], r) for c, r in pairs if c["scaffolding"] == "All")
        _points(left, [f for f, _ in full], [r for _, r in full], label, colour)
        soft = {c["scaffolding"]: r for c, r in pairs if c["springF"] == DEFAULT_FREQUENCY}
        known = [name for name in SCAFFOLDINGS if name in soft]
        _points(right, [SCAFFOLDINGS.index(name) for name in known], [soft[name] for name in known], label, colour)
    left.set(xlabel="spring frequency [Hz]", ylabel="final y-displacement [m]", title="all groups")
    right.set(xlabel="scaffolding", title=f"{DEFAULT_FREQUENCY:g} Hz")
    right.set_xticks(range(len(SCAFFOLDINGS)), SCAFFOLDINGS)
    left.legend()
    figure.savefig(path)
    return path


def _points(axes: Axes, x: list[float], results: list[dict[str, Any]], label: str, colour: str) -> None:
    axes.plot(
        x,
        [r["original_displacement_m"] for r in results],
        "o",
        mfc="none",
        ms=8,
        color=colour,
        label=f"{label} original",
    )
    axes.plot(x, [r["displacement_m"] for r in results], "x-", ms=5, color=colour, label=f"{label} ours")


def _figure_6(cases: list[dict[str, Any]], results: list[dict[str, Any]], path: Path) -> Path:
    """Displacement over time after a blow."""
    figure = Figure(figsize=(9, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True)
    number = {"left": 0, "right": 0}
    for case, result in zip(cases, results, strict=True):
        for side, axes, chosen, label in (
            ("left", left, case["scaffolding"] == "All", f"{case['springF']:g} Hz"),
            ("right", right, case["springF"] == DEFAULT_FREQUENCY, case["scaffolding"]),
        ):
            if chosen:
                colour = f"C{number[side] % 8}"
                number[side] += 1
                theirs = case["dy_mean_rightmost_every_step"]
                time = [(i + 1) / 60 for i in range(len(theirs))]
                axes.plot(time[::12], theirs[::12], "o", ms=3, mfc="none", mew=0.7, color=colour)
                axes.plot(time, result["path_m"], color=colour, label=label)
    for axes, title in ((left, "all groups"), (right, f"{DEFAULT_FREQUENCY:g} Hz")):
        axes.set(xlabel="time [s]", title=f"{title}: lines ours, circles the original")
        axes.legend(ncols=2)
    left.set_ylabel("y-displacement [m]")
    figure.savefig(path)
    return path


def _ensembles(cases: list[dict[str, Any]], path: Path) -> Path:
    """Mean and spread of travel velocity, ours and the original's."""
    figure = Figure(figsize=(8, 0.28 * len(cases) + 1.2), layout="constrained")
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
    figure.savefig(path)
    return path
