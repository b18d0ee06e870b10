"""Repair of a run that goes on: lost or changed statistics and files of best robots are written again."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from vsr.arrays import CorruptFileError, read_label
from vsr.evo.generations import Generational
from vsr.experiments.config.problems import UserError
from vsr.experiments.experiment import Experiment
from vsr.experiments.formatting import in_ranges
from vsr.experiments.storage.lineage import ARRAYS, Piece, read_pieces
from vsr.experiments.storage.robots import Confirmed, load_robot, read_record, robot_file, write_robot
from vsr.experiments.storage.settings import read_meta
from vsr.experiments.storage.statistics import (
    CONFIRMED,
    STATISTICS,
    Statistics,
    as_bytes,
    header_of,
    read_statistics,
    unknown_records,
    write_statistics,
)

ASIDE = ".corrupted"
"""How the names of files that could not be read end, once they are replaced."""


def repair_statistics(path: Path, experiment: Experiment, run: str, done: int) -> list[str]:
    """Keep the records of a number of generations, with lost ones rebuilt as far as lineage has them.

    run: fingerprint of the settings. Returns what was lost.
    """
    file, header, warnings = path / STATISTICS, header_of(experiment, run), list[str]()
    found = Statistics(header, unknown_records(header, 0))
    try:
        known = read_statistics(file)
        if known.header.run != run or known.header.seeds != header.seeds:
            raise CorruptFileError(file, "it was made by a run with other settings")
        found = known.with_header(replace(header, columns=known.header.columns))
    except CorruptFileError as error:
        warnings += [f"{error}; {set_aside(file)}written again"] if done else []
    records = unknown_records(found.header, done)
    records[: min(found.generations, done)] = found.records[:done]
    lost = [*(one for one in found.corrupted if one < done), *range(found.generations, done)]
    whole = Statistics(found.header, records)
    rebuilt = _rebuild(path, experiment, whole, lost) if lost else set()
    _keep_confirmed(path, experiment, whole)
    if rebuilt:
        warnings.append(
            f"{file}: {in_ranges('generation', sorted(rebuilt))} lost and rebuilt from lineage/: fitness and failed "
            "robots are as they were; diversity, reasons of failures and times are not known"
        )
    if unknown := sorted(set(lost) - rebuilt):
        warnings.append(f"{file}: {in_ranges('generation', unknown)} lost, in lineage/ too: nothing is known of them")
    if not file.is_file() or file.read_bytes() != as_bytes(whole):
        write_statistics(file, whole)
    return warnings


def _keep_confirmed(path: Path, experiment: Experiment, statistics: Statistics) -> None:
    """Fitness in fresh trials, of the last generation of a finished run only; a lost one is in the robots' files."""
    columns, values = [statistics.header.columns.index(name) for name in CONFIRMED], statistics.records["values"]
    finished, sign = len(values) == experiment.generations, experiment.fitness.sign
    values[: -1 if finished else None, columns] = np.nan
    if not finished or experiment.evaluation.confirm is None:
        return
    for index, seed in enumerate(experiment.seeds):
        if np.isnan(values[-1, columns[0], index]) and _is_whole(file := robot_file(path, seed)):
            record, _ = read_record(file)
            if record.search_score is not None:
                quartiles = (np.nan, np.nan) if record.quartiles is None else record.quartiles
                own = (record.score, *quartiles)
                values[-1, columns, index] = [-np.inf if one is None else sign * one for one in own]


def _rebuild(path: Path, experiment: Experiment, statistics: Statistics, lost: Sequence[int]) -> set[int]:
    """Fill in lost generations as far as lineage has them; returns which these are."""
    pieces, _ = read_pieces(path, len(experiment.seeds))
    pieces = [piece for piece in pieces if set(ARRAYS) <= set(piece.arrays)]
    wanted, values = set(lost), statistics.records["values"]
    columns = [statistics.header.columns.index(name) for name in ("best", "median", "failed", "best_id")]
    rebuilt = set[int]()
    for index in range(len(experiment.seeds)):
        ids, best = statistics.column("best_id")[index], statistics.column("best")[index]
        said = {int(id): float(value) for id, value in zip(ids, best, strict=True) if not np.isnan(id)}
        for generation, row in _from_lineage(pieces, experiment, index, said):
            if generation in wanted:
                values[generation, columns, index] = row
                rebuilt.add(generation)
    return rebuilt


def _from_lineage(
    pieces: Sequence[Piece], experiment: Experiment, index: int, said: dict[int, float]
) -> Iterator[tuple[int, tuple[float, float, int, int]]]:
    """Best, median, failed and best_id of every generation of a seed, given by its index.

    said: fitness of best robots by id, from statistics.
    """
    population_size, fitness_of = experiment.optimizer.population_size, dict(said)
    best_ids = [piece.arrays["best_id"][index] for piece in pieces]
    for piece in pieces:
        wanted = np.isin(piece.arrays["id"][index], np.concatenate(best_ids))
        found = zip(piece.arrays["id"][index][wanted], piece.arrays["fitness"][index][wanted], strict=True)
        fitness_of.update((int(id), float(value)) for id, value in found)
    keeps_the_fittest = (
        getattr(type(experiment.optimizer), "tell", None) is Generational.tell
    )  # so lineage decides who survives
    survivors: np.ndarray | None = np.zeros(0, np.float32) if keeps_the_fittest else None
    following = 0
    for piece in pieces:
        if piece.first != following:
            survivors = None  # some of their parents are not known
        following = piece.first + piece.count
        for place in range(piece.count):
            fitness, best_id = piece.arrays["fitness"][index, place], int(piece.arrays["best_id"][index, place])
            if survivors is not None:
                survivors = np.sort(np.concatenate([survivors, fitness]))[::-1][:population_size]
            sound = np.zeros(0) if survivors is None else survivors[np.isfinite(survivors)]
            best, median = fitness_of.get(best_id, np.nan), float(np.median(sound)) if sound.size else np.nan
            failed = int((fitness == -np.inf).sum())
            yield piece.first + place, (best if np.isfinite(best) else np.nan, median, failed, best_id)


def repair_robots(path: Path, experiment: Experiment, done: int) -> list[str]:
    """Write files of best robots again that are lost or changed; after the statistics. Returns what was lost."""
    seeds = experiment.seeds
    wrong = [index for index, seed in enumerate(seeds) if not _is_whole(robot_file(path, seed))]
    if not wrong or not done:
        return []
    pieces, _ = read_pieces(path, len(seeds))
    last = next((piece for piece in pieces if piece.first < done <= piece.first + piece.count), None)
    statistics, warnings = read_statistics(path / STATISTICS), list[str]()
    sessions = read_meta(path)[0]["sessions"]
    for index in wrong:
        genes = {} if last is None else last.best_genes(index, done - 1)
        file, best = robot_file(path, seeds[index]), statistics.column("best")[index, done - 1]
        if np.isfinite(best) and genes:
            best_id = int(statistics.column("best_id")[index, done - 1])
            confirmed = Confirmed(*(float(statistics.column(name)[index, done - 1]) for name in CONFIRMED))
            if confirmed.fitness == -np.inf:  # there is no robot, then
                continue
            known = None if np.isnan(confirmed.fitness) else confirmed
            write_robot(path, experiment, index, genes, best_id, float(best), sessions, confirmed=known)
            warnings.append(f"{file}: it was lost or changed; written again from lineage/")
    return warnings


def set_aside(file: Path) -> str:
    """Keep a copy of a file that is to be replaced, if there is one; returns words about it."""
    if not file.is_file():
        return ""
    aside = file.with_suffix(ASIDE)
    shutil.copyfile(file, aside)
    return f"kept as {aside.name}, and "


def is_corrupted(file: Path) -> bool:
    """Whether a file of arrays is not whole."""
    try:
        read_label(file)
    except CorruptFileError:
        return True
    return False


def _is_whole(file: Path) -> bool:
    try:
        load_robot(file)
    except UserError:
        return False
    return True
