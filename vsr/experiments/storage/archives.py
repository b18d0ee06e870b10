"""Archives of elites and Pareto fronts of a run."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from vsr.arrays import CorruptFileError, Stored, read_arrays
from vsr.evo.archives import Archive
from vsr.experiments.config.problems import UserError
from vsr.experiments.experiment import Experiment
from vsr.experiments.storage.run_folder import ARCHIVE
from vsr.experiments.storage.settings import fingerprint_in_checkpoints


@dataclass(frozen=True)
class ArchiveRead:
    """One archive of one seed; c cells."""

    name: str
    settings: Archive
    fitness: np.ndarray
    """of the elites, larger is better, negative infinity where a cell is empty, (c,)"""
    descriptors: np.ndarray
    """of the elites, (c, axes)"""
    centers: np.ndarray
    """of the cells, (c, axes)"""
    genes: dict[str, np.ndarray]
    """of the elites by part, each (c, genes)"""
    id: np.ndarray
    """of the elites, (c,)"""

    @property
    def filled(self) -> np.ndarray:
        """Numbers of the cells that hold someone."""
        return np.flatnonzero(self.fitness > -np.inf)

    def cell(self, place: tuple[int, ...]) -> int:
        """The number of a cell by its place along every axis; raises UserError if there is none."""
        shape = self.settings.shape
        if len(place) != len(shape) or not all(0 <= one < most for one, most in zip(place, shape, strict=True)):
            given, sizes = ",".join(map(str, place)), " by ".join(map(str, shape))
            raise UserError(f"cell {given}: archive '{self.name}' has {sizes} cells, counted from 0 along each axis")
        return int(np.ravel_multi_index(place, shape))


@dataclass(frozen=True)
class FrontRead:
    """The population of one seed with its objectives; n individuals."""

    names: tuple[str, ...]
    """of the measures, the fitness's first"""
    values: np.ndarray
    """measures, not a number for failures, (n, objectives)"""
    front: np.ndarray
    """0 for the Pareto front, (n,)"""
    genes: dict[str, np.ndarray]
    id: np.ndarray


def read_archives(run: Path, experiment: Experiment, seed: int) -> list[ArchiveRead]:
    """All archives of the seed of this index; none if the search has none. Raises UserError if they cannot be read."""
    described = experiment.optimizer.elite_archives
    if not described:
        return []
    arrays = _read(run)
    with _reporting_strangers(run):
        return [_archive(name, settings, arrays, seed) for name, settings in described.items()]


def _archive(name: str, settings: Archive, arrays: dict[str, np.ndarray], seed: int) -> ArchiveRead:
    genes = f"{name}.members.genes."
    return ArchiveRead(
        name=name,
        settings=settings,
        fitness=arrays[f"{name}.members.fitness"][seed],
        descriptors=arrays[f"{name}.descriptors"][seed],
        centers=arrays[f"{name}.centers"][seed],
        genes={part.removeprefix(genes): arrays[part][seed] for part in arrays if part.startswith(genes)},
        id=arrays[f"{name}.members.id"][seed],
    )


def read_front(run: Path, experiment: Experiment, seed: int) -> FrontRead | None:
    """The front of the seed of this index; None if the search has none. Raises UserError if it cannot be read."""
    objectives = experiment.optimizer.front_objectives
    if not objectives:
        return None
    arrays, genes = _read(run), "population.genes."
    signs = [experiment.fitness.sign, *(objective.sign for objective in objectives)]
    with _reporting_strangers(run):
        maximized = arrays["objectives"][seed]
        return FrontRead(
            names=(experiment.fitness.measure, *(objective.measure for objective in objectives)),
            values=np.where(np.isfinite(maximized), maximized * signs, math.nan),
            front=arrays["front"][seed],
            genes={part.removeprefix(genes): arrays[part][seed] for part in arrays if part.startswith(genes)},
            id=arrays["population.id"][seed],
        )


@contextlib.contextmanager
def _reporting_strangers(run: Path) -> Iterator[None]:
    """An archive of an older version, without a label, may be another run's."""
    try:
        yield
    except (KeyError, IndexError):
        raise UserError(f"{run / ARCHIVE}: it is not this run's; vsr evolve {run} --resume writes it again") from None


def _read(run: Path) -> dict[str, np.ndarray]:
    file = run / ARCHIVE
    if not file.exists():
        raise UserError(f"{file}: there is no such file: the archive is written with the first checkpoint")
    try:
        stamp = file.stat()
        found = _arrays_of(file, stamp.st_mtime_ns, stamp.st_size)
        if None not in (known := {found.label.get("experiment"), fingerprint_in_checkpoints(run)}) and len(known) > 1:
            raise CorruptFileError(file, "it was made by a run with other settings")
        return found.arrays
    except (CorruptFileError, OSError) as error:
        damage = error if isinstance(error, CorruptFileError) else CorruptFileError(file, error)
        raise UserError(f"{damage}; vsr evolve {run} --resume writes it again") from None


@lru_cache(maxsize=1)
def _arrays_of(file: Path, modified: int, size: int) -> Stored:
    """One file has all seeds, and is read once for all of them. Raises CorruptFileError."""
    return read_arrays(file)
