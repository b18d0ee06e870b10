"""Lines of statistics.jsonl, one for every generation and seed; lost ones are made again from lineage."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from vsr.evo.generations import Generational
from vsr.experiments.experiment import Experiment
from vsr.experiments.files import read_json_lines
from vsr.experiments.numbers import in_ranges
from vsr.experiments.runs.checkpoints import checkpoint_files
from vsr.experiments.runs.lineage import ARRAYS, Piece, piece_files, read_pieces
from vsr.experiments.runs.settings import read_meta, run_tag

STATISTICS = "statistics.jsonl"
MOST_NAMED = 10
"""Lines that cannot be read of which each is named."""
NUMBERS = ("best", "median", "spread", "bodies", "seconds")

Row = dict[str, Any]


@dataclass(frozen=True)
class Rows:
    """What is known of a run's generations."""

    of: dict[tuple[int, int], Row]
    """by seed and generation"""
    generations: int
    """how many are known, the unknown ones between them included"""
    rebuilt: list[int] = field(default_factory=list)
    """generations of which lines were made again"""
    unknown: list[int] = field(default_factory=list)
    """generations of which some seed's line is lost"""
    damaged: list[int] = field(default_factory=list)
    """numbers of lines that could not be read, or are of another run, from 1"""


def read_rows(path: Path, experiment: Experiment, until: int | None = None) -> Rows:
    """All lines of a run in a folder, those that its checkpoints say are lost made again from lineage.

    until: to look at the generations before this one only.
    """
    end = saved_generations(path) if until is None else until  # before lines are read: a run that goes on writes more
    rows, damaged = _read(path / STATISTICS, set(experiment.seeds), until, _tag_of(path))
    there = _contiguous(rows, experiment, 0)
    if there >= end:
        return Rows(rows, there, damaged=damaged)
    more = _from_lineage(path, experiment, rows, end)
    everything = {**more, **rows}
    known = [generation for _, generation in everything if generation < end]
    last = max((g for g in set(known) if all((seed, g) in everything for seed in experiment.seeds)), default=there - 1)
    unknown = [g for g in range(there, last) if any((seed, g) not in everything for seed in experiment.seeds)]
    generations = _contiguous(everything, experiment, last + 1)
    return Rows(everything, generations, sorted({g for _, g in more}), unknown, damaged)


def warnings_of(path: Path, rows: Rows, done: str) -> list[str]:
    """What is to be said of lines that were lost or could not be read; done: what became of the latter."""
    file, more = path / STATISTICS, len(rows.damaged) - MOST_NAMED
    warnings = [f"{file}:{number}: not a whole line of this run; {done}" for number in rows.damaged[:MOST_NAMED]]
    if more > 0:
        warnings.append(f"{file}: {more:,} more such lines; {done}")
    if rows.rebuilt:
        warnings.append(
            f"{file}: {in_ranges('generation', rows.rebuilt)} lost and made again from lineage/: fitness and failed "
            "robots are as they were; diversity, reasons of failures and times are not known"
        )
    if rows.unknown:
        warnings.append(
            f"{file}: {in_ranges('generation', rows.unknown)} lost, in lineage/ too: nothing is known of them"
        )
    return warnings


def is_statistics(row: Row) -> bool:
    """Whether a line has what plots and resuming need."""
    whole = all(type(row.get(name)) is int and row[name] >= 0 for name in ("seed", "generation", "failed"))
    given = all(name in row for name in ("best", "median"))
    return whole and given and all(isinstance(row.get(name), float | int | None) for name in NUMBERS)


def figures_in(row: Row) -> dict[str, float | int | None]:
    """What a search told of itself, as far as it is numbers."""
    told = row.get("figures")
    known = told.items() if isinstance(told, dict) else ()
    return {name: value for name, value in known if isinstance(value, float | int | None)}


def _tag_of(path: Path) -> str | None:
    """What lines of a run carry; None if meta.json does not tell its settings."""
    begun = read_meta(path)[0].get("experiment")
    return run_tag(begun) if isinstance(begun, dict) else None


def _read(
    file: Path, seeds: set[int], until: int | None, run: str | None
) -> tuple[dict[tuple[int, int], Row], list[int]]:
    rows, damaged = {}, []
    for number, row in read_json_lines(file):
        if row is None or not is_statistics(row) or run not in (None, row.get("run", run)):
            damaged.append(number)
        elif row["seed"] in seeds and (until is None or row["generation"] < until):
            rows[row["seed"], row["generation"]] = row
    return rows, damaged


def _contiguous(rows: dict[tuple[int, int], Row], experiment: Experiment, start: int) -> int:
    """Until where all seeds have a line, from a generation on."""
    while all((seed, start) in rows for seed in experiment.seeds):
        start += 1
    return start


def saved_generations(path: Path) -> int:
    """How many generations have had lines, by the names of checkpoints and of pieces of lineage."""
    saved = [int(file.stem) for file in checkpoint_files(path / "checkpoints")]
    return max([0, *saved, *(int(file.stem) + 1 for file in piece_files(path))])


def _from_lineage(
    path: Path, experiment: Experiment, known: dict[tuple[int, int], Row], end: int
) -> dict[tuple[int, int], Row]:
    """Lines that are not known, as far as lineage has them."""
    whole, _ = read_pieces(path, len(experiment.seeds))
    pieces, rows = [piece for piece in whole if set(ARRAYS) <= set(piece.arrays)], {}
    for index, seed in enumerate(experiment.seeds):
        said = {row["best_id"]: row["best"] for (of, _), row in known.items() if of == seed and "best_id" in row}
        for generation, row in _rebuilt(pieces, experiment, index, said):
            if generation < end and (seed, generation) not in known:
                rows[seed, generation] = {"generation": generation, "seed": seed, **row}
    return rows


def _rebuilt(
    pieces: list[Piece], experiment: Experiment, index: int, said: dict[int, float | None]
) -> list[tuple[int, Row]]:
    """Every generation of a seed, given by its index, as lineage tells it; said: fitness of best robots by id."""
    n_pop, rows, fitness_of = experiment.ea.n_pop, [], dict(said)
    for piece in pieces:
        wanted = np.isin(
            piece.arrays["id"][index], np.concatenate([other.arrays["best_id"][index] for other in pieces])
        )
        found = zip(piece.arrays["id"][index][wanted], piece.arrays["fitness"][index][wanted], strict=True)
        fitness_of.update((int(id), _finite(value)) for id, value in found)
    survivors: np.ndarray | None = np.zeros(0, np.float32) if _keeps_the_fittest(experiment) else None
    following = 0
    for piece in pieces:
        if piece.first != following:
            survivors = None  # some of their parents are not known
        following = piece.first + piece.count
        for place in range(piece.count):
            fitness, best_id = piece.arrays["fitness"][index, place], int(piece.arrays["best_id"][index, place])
            if survivors is not None:
                survivors = np.sort(np.concatenate([survivors, fitness]))[::-1][:n_pop]
            sound = np.zeros(0) if survivors is None else survivors[np.isfinite(survivors)]
            row = {
                "best": fitness_of.get(best_id),
                "median": float(np.median(sound)) if sound.size else None,
                "failed": int((fitness == -np.inf).sum()),
                "evaluations": (piece.first + place + 1) * n_pop,
                "best_id": best_id,
                "rebuilt": True,
            }
            rows.append((piece.first + place, row))
    return rows


def _keeps_the_fittest(experiment: Experiment) -> bool:
    """Whether the fittest of all so far survive, so that lineage tells who they are."""
    return getattr(type(experiment.ea), "tell", None) is Generational.tell


def _finite(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None
