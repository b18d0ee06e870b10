"""The lineage of a run: parents of all individuals, and the path from its founders to its best robot."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from vsr.arrays import CorruptFileError, read_arrays, read_label
from vsr.experiments.formatting import in_ranges
from vsr.experiments.storage.files import numbered_files

LINEAGE = "lineage"
ARRAYS, GENES = ("id", "parents", "fitness", "best_id"), "best_genes."


@dataclass(frozen=True)
class Lineage:
    """All individuals of one seed, generation by generation."""

    id: np.ndarray
    """(generations, population_size)"""
    parents: np.ndarray
    """ids, negative where there is none, (generations, population_size, 2)"""
    fitness: np.ndarray
    """larger is better, negative infinity for a failure, (generations, population_size)"""
    best_id: np.ndarray
    """of the best so far, (generations,)"""


@dataclass(frozen=True)
class Ancestor:
    """One individual on the way."""

    id: int
    generation: int
    """in which it was made"""
    fitness: float
    parents: tuple[int, ...]
    """ids; two of them after crossover, one after mutation, none for a founder"""


@dataclass(frozen=True)
class Descent:
    """How the best robot came about."""

    line: tuple[Ancestor, ...]
    """from a founder to the best; each is the fitter parent of the next"""
    ancestors: int
    """all of them, by every parent, without the best itself"""
    founders: int
    """ancestors without parents; the best itself if it has none"""
    generations: int
    """of which the lineage is kept"""


@dataclass(frozen=True)
class Piece:
    """The lineage of some generations of all seeds, as one file keeps it."""

    file: Path
    first: int
    """generation"""
    count: int
    """of generations"""
    arrays: dict[str, np.ndarray]
    """(seeds, generations, ...): those named in ARRAYS, and the best genes by their parts under `best_genes.`"""
    label: dict[str, Any]
    """`first`, `count`, `experiment` (fingerprint of the settings), `before` (check sum of the piece before)"""
    digest: str

    def best_genes(self, index: int, generation: int) -> dict[str, np.ndarray]:
        """Of the best robot so far of a seed, given by its index; empty if they were not kept."""
        place, parts = generation - self.first, [name for name in self.arrays if name.startswith(GENES)]
        return {name.removeprefix(GENES): self.arrays[name][index, place] for name in parts}


def piece_files(run: Path) -> list[Path]:
    """The first generations first."""
    return numbered_files(run / LINEAGE)


def read_piece(file: Path, seeds: int) -> Piece:
    """One file; raises CorruptFileError if it is incomplete, or does not match its name."""
    stored = read_arrays(file)
    first = _checked_first(file, stored.label)
    shapes = {array.shape[:2] for array in stored.arrays.values()}
    if len(shapes) != 1 or len(shape := shapes.pop()) != 2 or shape[0] != seeds:
        raise CorruptFileError(file, f"it is not the lineage of {seeds} seed{'s' if seeds > 1 else ''}")
    return Piece(file, first, shape[1], stored.arrays, stored.label, stored.digest)


def read_pieces(run: Path, seeds: int) -> tuple[list[Piece], list[str]]:
    """All that is whole, and what is not."""
    pieces, warnings = list[Piece](), []
    for file in piece_files(run):
        try:
            piece = read_piece(file, seeds)
            if pieces and pieces[-1].first + pieces[-1].count == piece.first:
                _check_order(file, piece.label, pieces[-1].digest)
            pieces.append(piece)
        except CorruptFileError as error:
            warnings.append(str(error))
    return pieces, warnings


def check_lineage(run: Path, done: int, experiment: str, newest: str | None) -> tuple[list[str], str | None]:
    """Corrupted or missing parts of the lineage of a number of generations, and the check sum of its last piece.

    experiment: fingerprint of the run's settings; newest: check sum of the last piece, where the checkpoint has it.
    """
    files = [file for file in piece_files(run) if int(file.stem) < done]
    ends = [*(int(file.stem) for file in files[1:]), done]
    warnings, lacking, reached, before = [], list[int](), 0, None
    for file, end in zip(files, ends, strict=False):  # there may be no files at all
        first = int(file.stem)
        lacking += range(reached, first)
        try:
            label, digest = read_label(file)
            _checked_first(file, label)
            _check_order(file, label, before if first == reached else None)
            if label.get("experiment") != experiment:
                raise CorruptFileError(file, "it was made by a run with other settings")
            if first + label["count"] == done and newest not in (None, digest):
                raise CorruptFileError(file, "it is not the one that the checkpoint was written with")
        except CorruptFileError as error:
            warnings.append(str(error))
            lacking += range(first, end)
            before, reached = None, end
        else:
            before, reached = digest, first + label["count"]
    lacking += range(reached, done)
    if lacking:
        warnings.append(
            f"{run / LINEAGE}: {in_ranges('generation', lacking)} missing or corrupted: their ancestors and robots are "
            "lost; the search itself goes on as it was"
        )
    return warnings, before


def _checked_first(file: Path, label: dict[str, Any]) -> int:
    first = int(file.stem)
    if not all(type(label.get(name)) is int for name in ("first", "count")):
        raise CorruptFileError(file, "it is no piece of lineage")
    if label["first"] != first:
        raise CorruptFileError(file, f"it begins with generation {label['first']}: copied or renamed")
    return first


def _check_order(file: Path, label: dict[str, Any], before: str | None) -> None:
    """before: check sum of the piece that ends where this one begins, where it is known."""
    if None not in (before, label.get("before")) and before != label["before"]:
        raise CorruptFileError(file, "it does not follow the piece before it: one of them was replaced")


def read_lineage(run: Path, index: int, seeds: int, saved: int = 0) -> tuple[Lineage | None, list[str]]:
    """Lineage of the seed of this index, from the first generation on, and the parts that could not be read.

    seeds: how many the run has; saved: generations of its newest checkpoint, whose lineage is written before it. None
    if not even the first generation is kept.
    """
    pieces, warnings = read_pieces(run, seeds)
    kept: list[Piece] = []
    length = 0
    for piece in pieces:
        if piece.first != length or not set(ARRAYS) <= set(piece.arrays):
            break
        kept.append(piece)
        length += piece.count
    if length < saved or len(kept) < len(pieces) or (not kept and warnings):
        warnings.append(f"{run / LINEAGE}: generations from {length} on are missing")
    if not kept:
        return None, warnings
    joined = {name: np.concatenate([piece.arrays[name][index] for piece in kept]) for name in ARRAYS}
    return Lineage(**joined), warnings


def descent_of_best(lineage: Lineage) -> Descent | None:
    """The way to the last generation's best; None if nobody is known by its id."""
    known = lineage.id.ravel()
    order = np.argsort(known)
    ordered = known[order]

    def find(id: int) -> Ancestor | None:
        place = int(np.searchsorted(ordered, id))
        if place == len(ordered) or ordered[place] != id:
            return None
        generation, index = divmod(int(order[place]), lineage.id.shape[1])
        parents = tuple(int(parent) for parent in lineage.parents[generation, index] if parent >= 0)
        return Ancestor(id, generation, float(lineage.fitness[generation, index]), parents)

    best = find(int(lineage.best_id[-1]))
    if best is None:
        return None
    everyone, pending = {best.id: best}, [best]
    while pending:
        for id in pending.pop().parents:
            if id not in everyone and (found := find(id)) is not None:
                everyone[id] = found
                pending.append(found)
    line = [best]
    while parents := [everyone[id] for id in line[-1].parents if id in everyone]:
        line.append(max(parents, key=lambda parent: parent.fitness))
    founders = sum(not ancestor.parents for ancestor in everyone.values())
    return Descent(tuple(line[::-1]), len(everyone) - 1, founders, len(lineage.best_id))
