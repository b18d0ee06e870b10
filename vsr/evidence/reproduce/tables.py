"""A study's numbers: the table of its experiments, and all curves as CSV."""

from __future__ import annotations

import csv
import io
import lzma
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vsr.experiments.claims import Result, gain
from vsr.experiments.plot.comparison import compare
from vsr.experiments.ranks import middle, quantile
from vsr.experiments.storage.files import write_bytes, write_text

CURVES = "curves.csv.xz"


def table(results: Sequence[Result]) -> list[dict[str, Any]]:
    """One row per experiment; measures, not fitness."""
    return [_row(result) for result in results]


def _row(result: Result) -> dict[str, Any]:
    run, sign = result.run, result.sign
    final = run.fitness[:, -1]
    first = np.nan_to_num(sign * run.median[:, 0], nan=-np.inf)
    return {
        "experiment": result.name,
        "genes": run.experiment.robot.gene_count,
        "seeds": len(final),
        "population_size": run.experiment.optimizer.population_size,
        "generations": run.generations,
        "failed_seeds": int(np.isinf(final).sum()),
        "random_median": sign * float(middle(first)),
        "first_best": sign * float(middle(run.fitness[:, 0])),
        "final_best": sign * float(middle(final)),
        "worse_quartile": sign * float(quantile(final, 0.25)),
        "better_quartile": sign * float(quantile(final, 0.75)),
        "sigma": float(np.std(final[np.isfinite(final)])) if np.isfinite(final).any() else float("nan"),
        "ratio": gain(result),
        "repeats_median": float("nan") if result.typical is None else sign * float(middle(result.typical)),
    }


def pairs(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Every pair of one panel's experiments, compared at their ends."""
    if len(results) < 2:
        return []
    return [pair._asdict() for pair in compare([result.run for result in results]).pairs]


def write_csv(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    """Rows with equal keys; numbers to the seven digits that single precision has, nothing for what is no number.

    A file that ends in .xz is compressed.
    """
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({key: _cell(value) for key, value in row.items()} for row in rows)
    if path.suffix == ".xz":
        write_bytes(path, lzma.compress(text.getvalue().encode(), preset=9))
    else:
        write_text(path, text.getvalue())


def curves(results: Sequence[Result]) -> list[dict[str, Any]]:
    """Every seed's curve: one row per experiment, seed and generation; measures, not fitness.

    Reasons of failures are columns only if one of the robots failed for them, `search_best` only where the last best is
    that of fresh trials.
    """
    reasons = dict.fromkeys(name for result in results for name in result.run.failures)
    seen = [name for name in reasons if any(np.nansum(r.run.failures.get(name, 0)) > 0 for r in results)]
    confirmed = any(result.run.is_confirmed for result in results)
    return [
        {
            "experiment": result.name,
            "seed": seed,
            "generation": generation,
            "evaluations": (generation + 1) * result.run.experiment.optimizer.population_size,
            "best": float(result.run.best[i, generation]),
            **({"search_best": float(result.run.search_best[i, generation])} if confirmed else {}),
            "population_median": float(result.run.median[i, generation]),
            "failed": int(result.run.failed[i, generation]),
            **{name: float(result.run.failures[name][i, generation]) for name in seen if name in result.run.failures},
        }
        for result in results
        for i, seed in enumerate(result.run.experiment.seeds)
        for generation in range(result.run.generations)
    ]


def markdown(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> Iterator[str]:
    """The lines of a table."""
    yield f"| {' | '.join(head)} |"
    yield f"|{' --- |' * len(head)}"
    yield from (f"| {' | '.join(str(cell).replace('|', '/') for cell in row)} |" for row in rows)


def _cell(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return f"{value:.7g}" if np.isfinite(value) else ""
