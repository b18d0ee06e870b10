"""What is left of published winners: the fitness in a run against the median of fresh trials of the same robot.

    python examples/winners.py [--results docs/results] [--picture winners.png]

Reads `final` and `repeats` of the best/*.json files that `vsr reproduce` writes: each seed's best robot, and 16 trials
of it on which nobody was selected.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from command_line import run, show

STUDIES = "body", "devo", "sensing", "control"
NEAR, FAR = 0.03, 0.10


def ratios(results: Path) -> dict[str, np.ndarray]:
    """Fitness in the run over the median of fresh trials, by experiment, (seeds,)."""
    found = {}
    for study in STUDIES:
        for file in sorted((results / study / "best").glob("*.json")):
            stored = json.loads(file.read_text(encoding="utf-8"))
            found[file.stem] = np.array(stored["final"]) / np.median(stored["repeats"], axis=1)
    return found


def main(*, results: str = "docs/results", picture: str = "") -> dict[str, float]:
    """Count winners by how far their number is from what repeats.

    results: the folder of studies; picture: a file for all winners.
    """
    found = ratios(Path(results))
    every = np.concatenate(list(found.values()))
    numbers = {
        "winners": len(every),
        "within 3 %": int((abs(every - 1) <= NEAR).sum()),
        "more than 3 % above": int((every > 1 + NEAR).sum()),
        "more than 10 % above": int((every > 1 + FAR).sum()),
        "more than 3 % below": int((every < 1 - NEAR).sum()),
        "worst, above by": float(every.max() - 1),
    }
    show("Fitness in the run against the median of fresh trials", list(numbers.items()))
    if picture:
        draw(found, Path(picture))
    return numbers


def draw(found: dict[str, np.ndarray], path: Path) -> None:
    """A row for every experiment, a dot for every seed's winner."""
    from matplotlib.figure import Figure

    from vsr.experiments.plot.figures import paper_style, save_figure

    with paper_style():
        figure = Figure(figsize=(5.2, 3.4), layout="constrained")
        axes = figure.add_subplot()
        axes.axvspan(-100 * NEAR, 100 * NEAR, color="0.9", label="within 3 %")
        axes.axvline(0, color="black", linewidth=0.8)
        for row, name in enumerate(reversed(found)):
            above = 100 * (found[name] - 1)
            axes.scatter(above, np.full(len(above), row), s=18, color="#d55e00", alpha=0.6, linewidths=0)
        axes.set_yticks(range(len(found)), [name.replace("_", " ") for name in reversed(found)])
        axes.set_xlabel("fitness in the run above the median of 16 fresh trials [%]")
        axes.legend(loc="lower right")
        save_figure(figure, path)


if __name__ == "__main__":
    run(main)
