"""Ours beside published scores: a row for each of their rows, a column for each of our methods."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vsr.evidence.reproduce.tables import markdown, write_csv
from vsr.experiments.claims import Result
from vsr.experiments.ranks import middle
from vsr.experiments.study import Published, Study

FILE = "published.csv"


def write_published(study: Study, results: Mapping[str, Result], folder: Path) -> Iterator[str]:
    """Write the table as CSV; yields it as Markdown, nothing for a study without published scores."""
    published = study.published
    rows = [] if published is None else _rows(study, published, results)
    if published is None or not rows:
        return
    theirs = [dict(zip(published.columns, published.rows[row["task"]], strict=True)) for row in rows]
    write_csv(folder / FILE, [{**own, **others} for own, others in zip(rows, theirs, strict=True)])
    methods = list(dict.fromkeys(row["method"] for row in rows))
    yield from ("## Beside published scores", "", published.about, "")
    yield (
        "Ours: each seed's best robot, the median of its repeats (`Best robots` below); then the median over seeds, in "
        "brackets the worst and the best seed. Bold: at least the best published score. `vanished`: seeds whose robot "
        "keeps less than half of the score that it evolved with, exploits of the physics or of one start."
    )
    yield ""
    head = ["task", *published.columns, "bound", *methods, "vanished"]
    yield from markdown(head, _lines(published, rows, methods))
    yield ""
    for method in methods:
        own = [row for row in rows if row["method"] == method and row["best_published"] is not None]
        reached = [row for row in own if row["median"] >= row["best_published"]]
        yield f"{method}: at least the best published score in {len(reached)} of {len(own)} tasks."
    yield ""


def _rows(study: Study, published: Published, results: Mapping[str, Result]) -> list[dict[str, Any]]:
    """A row of numbers for every experiment that is compared."""
    rows = []
    for name, member in study.experiments.items():
        if member.row is None or name not in results:
            continue
        result = results[name]
        evolved = result.sign * result.run.fitness[:, -1]
        scores = evolved if result.typical is None else result.sign * result.typical
        experiment = result.run.experiment
        episodes = experiment.episodes() * result.run.generations
        rows.append(
            {
                "task": member.row,
                "method": member.method,
                "best_published": published.best(member.row),
                "bound": published.bounds.get(member.row),
                "median": float(middle(scores)),
                "worst": float(scores.min()),
                "best": float(scores.max()),
                "as_evolved": float(middle(evolved)),
                "vanished": int((scores < 0.5 * evolved)[evolved > 0].sum()),
                "seeds": len(scores),
                "environment_steps": int(episodes * experiment.schedule().calls),
            }
        )
    return rows


def _lines(published: Published, rows: list[dict[str, Any]], methods: list[str]) -> Iterator[list[str]]:
    for task in dict.fromkeys(row["task"] for row in rows):
        own = {row["method"]: row for row in rows if row["task"] == task}
        bound = published.bounds.get(task)
        yield [
            task,
            *("" if score is None else _digits(score) for score in published.rows[task]),
            "" if bound is None else _digits(bound),
            *(_score(own[method]) if method in own else "" for method in methods),
            ", ".join(f"{row['vanished']} of {row['seeds']}" for row in own.values()),
        ]


def _score(row: dict[str, Any]) -> str:
    median, spread = _digits(row["median"]), f" ({_digits(row['worst'])} to {_digits(row['best'])})"
    reached = (
        row["best_published"] is not None and np.isfinite(row["median"]) and row["median"] >= row["best_published"]
    )
    return (f"**{median}**" if reached else median) + spread


def _digits(value: float) -> str:
    return f"{value:.4g}" if np.isfinite(value) else "none"
