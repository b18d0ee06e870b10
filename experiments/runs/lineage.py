"""Who came from whom: the lineage that a run keeps, and the way from its founders to its best robot."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vsr.arrays import Damaged, read_arrays

ARRAYS = ("id", "parents", "fitness", "best_id")


@dataclass(frozen=True)
class Lineage:
    """All individuals of one seed, generation by generation."""

    id: np.ndarray
    """(generations, n_pop)"""
    parents: np.ndarray
    """ids, negative where there is none, (generations, n_pop, 2)"""
    fitness: np.ndarray
    """larger is better, negative infinity for a failure, (generations, n_pop)"""
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


def read_lineage(run: Path, seed: int) -> tuple[Lineage | None, list[str]]:
    """What is kept of the seed of this index, from the first generation on, and what could not be read.

    None if not even the first generation is kept.
    """
    pieces: list[dict[str, np.ndarray]] = []
    length, warnings = 0, []
    for file in sorted(file for file in (run / "lineage").glob("*.npz") if file.stem.isdigit()):
        if int(file.stem) != length:
            warnings.append(f"{run / 'lineage'}: generations from {length} on are missing")
            break
        try:
            stored = read_arrays(file).arrays
            piece = {name: stored[name][seed] for name in ARRAYS}
        except Damaged as error:
            warnings.append(str(error))
            break
        except (KeyError, IndexError) as error:
            warnings.append(f"{file}: not a lineage of this run ({type(error).__name__}: {error})")
            break
        pieces.append(piece)
        length += len(piece["best_id"])
    if not pieces:
        return None, warnings
    return Lineage(**{name: np.concatenate([piece[name] for piece in pieces]) for name in ARRAYS}), warnings


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
