"""The run folder: what one experiment leaves behind, and all that is needed to go on with it.

    config.yaml        the experiment with every value written out
    meta.json          versions, device, commit, command of every start; the settings once more
    statistics.bin     a record per generation, with all that curves and comparisons need
    lineage/           npz pieces: ids, parents and fitness of all individuals, and the best genes of each generation
    checkpoints/       the last two, each enough to go on
    best/              each seed's best robot, as a file that `vsr simulate` accepts
    archive.npz        the searches' archives or fronts, if they have any
    plugins/           copies of the user's own modules that the experiment depends on, if any

A folder is a run if it has meta.json and config.yaml, or results and one of both. Order of writing makes it safe to be
killed at any moment: statistics and lineage first, then the checkpoint that counts on them. What lies beyond the last
whole checkpoint is dropped on resuming and made again.

Checksums: npz files, records of statistics, meta.json and the best robots have them. A checkpoint names its generation,
the settings and the plugins it was made with and the newest piece of lineage, and every piece names the one before it.
Lost statistics and best robots are rebuilt from lineage, a lost config.yaml from meta.json.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR
from typing import IO, Any

import numpy as np

from vsr.arrays import MOST_BYTES
from vsr.experiments.config import dump_plain
from vsr.experiments.config.plugins import PLUGINS_FOLDER
from vsr.experiments.config.problems import UserError
from vsr.experiments.experiment import Experiment
from vsr.experiments.storage.checkpoints import (
    Checkpoint,
    checkpoint_files,
    load_checkpoint,
    save_arrays,
    save_checkpoint,
)
from vsr.experiments.storage.files import (
    TEMPORARY,
    open_own,
    refuse_links,
    remove_leftovers,
    write_arrays,
    write_bytes,
    write_checked_json,
    write_text,
)
from vsr.experiments.storage.lineage import ARRAYS, GENES, LINEAGE, check_lineage, piece_files
from vsr.experiments.storage.repair import is_corrupted, repair_robots, repair_statistics, set_aside
from vsr.experiments.storage.robots import BEST, Confirmed, robot_file, write_robot
from vsr.experiments.storage.settings import (
    CONFIG,
    FORMAT,
    KIND,
    META,
    RunSettings,
    config_text,
    current,
    fingerprint,
    read_meta,
    read_settings,
)
from vsr.experiments.storage.sources import Sources
from vsr.experiments.storage.statistics import (
    CONFIRMED,
    STATISTICS,
    GenerationStats,
    Header,
    header_of,
    read_statistics,
    record_of,
    write_statistics,
)

ARCHIVE = "archive.npz"
FOLDERS = (LINEAGE, "checkpoints", BEST)


@dataclass(frozen=True)
class RunStatus:
    """Where a run stands."""

    settings: RunSettings
    checkpoint: Checkpoint
    last_piece: str | None
    """check sum of the newest piece of lineage before the checkpoint, where it is known"""
    warnings: tuple[str, ...]
    """corrupted or lost parts"""

    @property
    def done(self) -> int:
        """Generations."""
        return self.checkpoint.generations

    @property
    def plugins(self) -> dict[str, str]:
        """SHA-256 of the user's own modules that the run was made with."""
        labeled = self.checkpoint.label.get("plugins", {})
        return {**(labeled if isinstance(labeled, dict) else {}), **self.settings.meta["plugins"]}


@contextlib.contextmanager
def explain_write_errors(path: Path) -> Iterator[None]:
    """A disk that is full or may not be written to is reported in one line."""
    try:
        yield
    except OSError as error:
        safe = (
            f"what was written before is whole: fix this, then vsr evolve {path} --resume"
            if is_run(path)
            else "nothing was written: give another --out"
        )
        where = error.filename2 or error.filename or path  # the former is where a file cannot be renamed to
        raise UserError(f"{where}: cannot be written: {error.strerror or error}; {safe}") from error


class RunFolder:
    """A run folder, written by one process at a time."""

    def __init__(self, path: Path, experiment: Experiment):
        self.path = path
        self.experiment = experiment
        self._begun = experiment.to_plain()
        """the settings as they were when the run began"""
        self._label: dict[str, Any] = {}
        """the run's label in checkpoints and pieces of lineage"""
        self._plugins: dict[str, str] = {}
        self._last_piece: str | None = None
        """check sum of the newest piece of lineage"""
        self._lineage: list[tuple[int, GenerationStats]] = []
        self._unsaved = 0
        """size of that lineage [bytes]"""
        self._described: dict[int, int] = {}
        """id of the individual that each seed's file in best/ holds"""
        self._statistics: IO[bytes] | None = None
        self._header: Header | None = None
        """of the open file of statistics"""
        self._lock: IO[str] | None = None

    def create(self, meta: dict[str, Any], sources: Sources) -> None:
        """Make a new run where `is_free` holds."""
        with explain_write_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self.lock()
            self.write_meta(meta)
            write_text(self.path / CONFIG, dump_plain(self._begun))  # now it is a run that can go on
            self._prepare(sources)

    def inspect(self, like: Any) -> RunStatus:
        """Where a run stands, changing nothing.

        like: the shapes of one seed's search. Raises UserError if a run has lost its checkpoints, rather than begin it
        again.
        """
        settings, folder = read_settings(self.path), self.path / "checkpoints"
        checkpoint = load_checkpoint(folder, like, len(self.experiment.seeds), settings.fingerprint)
        if checkpoint.searches is None and (checkpoint_files(folder) or len(piece_files(self.path)) > 1):
            reasons = "".join(f"\n{reason}" for reason in checkpoint.skipped)
            raise UserError(
                f"{self.path}: it has results but no whole checkpoint to go on from; keep it as it is and "
                f"start again with another --out{reasons}"
            )
        done, label = checkpoint.generations, checkpoint.label
        lost, last_piece = check_lineage(self.path, done, settings.fingerprint, label.get("lineage"))
        return RunStatus(settings, checkpoint, last_piece, (*checkpoint.skipped, *lost))

    def reopen(self, standing: RunStatus, sources: Sources) -> list[str]:
        """Make a run ready to go on; returns what had to be dropped or was fixed."""
        with explain_write_errors(self.path):
            remove_leftovers(self.path)
            for piece in piece_files(self.path):
                if int(piece.stem) >= standing.done:
                    piece.unlink()
            warnings = self.repair(standing)
            write_text(self.path / CONFIG, config_text(standing.settings.begun, self.experiment))
            self._prepare(sources)
        self._last_piece = standing.last_piece
        return warnings

    def repair(self, standing: RunStatus) -> list[str]:
        """Write again what was lost of the generations done and can be made again; returns what that was."""
        settings, warnings = standing.settings, list[str]()
        self._begun, self._label = settings.begun, {"experiment": settings.fingerprint}
        with explain_write_errors(self.path):
            if settings.config_fault:
                kept = set_aside(self.path / CONFIG)
                write_text(self.path / CONFIG, config_text(settings.begun, self.experiment))
                warnings.append(f"{settings.config_fault}; {kept}written again from {META}")
            if settings.meta_fault:
                kept = set_aside(self.path / META)
                seeds = list(self.experiment.seeds)
                self.write_meta({"seeds": seeds, "plugins": standing.plugins, **settings.meta})
                warnings.append(f"{settings.meta_fault}; {kept}begun again")
            warnings += repair_statistics(self.path, self.experiment, settings.fingerprint, standing.done)
            warnings += repair_robots(self.path, self.experiment, standing.done)
            if standing.checkpoint.searches is not None and is_corrupted(self.path / ARCHIVE):
                self._write_archive(standing.checkpoint.searches)
        return warnings

    def record(self, generation: int, stats: GenerationStats, seconds: float) -> None:
        """Append one generation's statistics; its lineage is kept until the next checkpoint."""
        self._lineage.append((generation, stats))
        self._unsaved += sum(np.asarray(getattr(stats, name)).nbytes for name in ARRAYS)
        with explain_write_errors(self.path):
            if self._statistics is None or self._header is None:
                self._statistics, self._header = self._open_statistics(tuple(stats.metrics))
            self._statistics.write(record_of(self._header, generation, stats, seconds))
            self._statistics.flush()

    def checkpoint(self, generations: int, searches: tuple[Any, ...]) -> None:
        """Make all that was recorded durable, then write the checkpoint after a number of generations."""
        with explain_write_errors(self.path):
            if self._statistics is not None:
                os.fsync(self._statistics.fileno())
            if self._lineage:
                self._write_lineage()
                self._write_best(self._lineage[-1][1])
            self._write_archive(searches)
            label = {**self._label, "plugins": self._plugins, "lineage": self._last_piece}
            save_checkpoint(self.path / "checkpoints", generations, searches, label)
        self._lineage.clear()
        self._unsaved = 0

    @property
    def is_full(self) -> bool:
        """Whether lineage since the last checkpoint is as much as one file should hold."""
        return self._unsaved > MOST_BYTES / 4

    def write_meta(self, meta: dict[str, Any]) -> None:
        """Replace what is known about the run; the settings are added."""
        with explain_write_errors(self.path):
            known = {**meta, "experiment": current(self._begun, self.experiment)}
            write_checked_json(self.path / META, {"kind": KIND, "format": FORMAT, **known})

    def close(self) -> None:
        """Let others have the folder."""
        for file in (self._statistics, self._lock):
            if file is not None:
                with contextlib.suppress(OSError):
                    file.close()

    def lock(self) -> None:
        """Keep other processes from writing; raises UserError if one already does."""
        with explain_write_errors(self.path):
            refuse_links(self.path)
            self._lock = open_own(self.path / LOCK, "a")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"{self.path}: another process is writing this run; wait for it or give another --out"
            ) from None

    def _prepare(self, sources: Sources) -> None:
        for name in FOLDERS:
            (self.path / name).mkdir(exist_ok=True)
        sources.copy_to(self.path / PLUGINS_FOLDER)
        self._plugins, self._label = sources.digests, {"experiment": fingerprint(self._begun)}
        file = self.path / STATISTICS
        if not file.exists():
            write_bytes(file, header_of(self.experiment, fingerprint(self._begun)).line())

    def _open_statistics(self, metrics: tuple[str, ...]) -> tuple[IO[bytes], Header]:
        """The file to append to, with these metrics of the search among its columns."""
        file, header = self.path / STATISTICS, header_of(self.experiment, fingerprint(self._begun), metrics)
        found = read_statistics(file)
        if found.header != header:
            write_statistics(file, found.with_header(header))
        return open_own(file, "ab"), header

    def _write_lineage(self) -> None:
        """All generations since the last checkpoint as one piece, named after the first of them."""
        first, reports = self._lineage[0][0], [report for _, report in self._lineage]

        def over_generations(values: list[np.ndarray]) -> np.ndarray:
            return np.stack(values, axis=1)

        arrays = {name: over_generations([np.asarray(getattr(report, name)) for report in reports]) for name in ARRAYS}
        for part in reports[0].best_genes:
            arrays[f"{GENES}{part}"] = over_generations([np.asarray(r.best_genes[part]) for r in reports])
        label = {**self._label, "first": first, "count": len(reports), "before": self._last_piece}
        self._last_piece = write_arrays(self.path / LINEAGE / f"{first:08d}.npz", arrays, label)

    def _write_archive(self, searches: tuple[Any, ...]) -> None:
        """The archives or fronts of all seeds, where the search has them."""
        import jax  # which readers of runs do without

        def archive_of(search: Any) -> Any:
            return self.experiment.search.summary(search).archive

        if jax.eval_shape(archive_of, searches[0]) is not None:
            save_arrays(self.path / ARCHIVE, [jax.jit(archive_of)(search) for search in searches], self._label)

    def _write_best(self, stats: GenerationStats) -> None:
        sessions = read_meta(self.path)[0]["sessions"]
        for i, seed in enumerate(self.experiment.seeds):
            found = (getattr(stats, name) for name in CONFIRMED)
            confirmed = None if stats.confirmed is None else Confirmed(*(float(values[i]) for values in found))
            known = self._described.get(seed) == int(stats.best_id[i]) and confirmed is None
            if known or not math.isfinite(stats.best[i]):
                continue
            if confirmed is not None and not math.isfinite(confirmed.fitness):
                robot_file(self.path, seed).unlink(missing_ok=True)  # no robot: it fails in most fresh trials
                continue
            genes, fitness = {part: genes[i] for part, genes in stats.best_genes.items()}, float(stats.best[i])
            id = int(stats.best_id[i])
            write_robot(self.path, self.experiment, i, genes, id, fitness, sessions, confirmed=confirmed)
            self._described[seed] = id


def is_run(path: Path) -> bool:
    """Whether a folder holds a run: with its settings twice, or with results and its settings once."""
    files = (path / CONFIG).is_file() + (path / META).is_file()
    return files == 2 or (files == 1 and _has_results(path))


def _has_results(path: Path) -> bool:
    return (path / STATISTICS).is_file() or bool(checkpoint_files(path / "checkpoints"))


def _is_folder(path: Path) -> bool:
    """Raises OSError for a path that cannot be looked up, as one too long: `Path.is_dir` hides that since 3.14."""
    try:
        return S_ISDIR(path.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False


def check_run(path: Path) -> None:
    """Raise UserError if there is no run here."""
    if not _is_folder(path):
        raise UserError(f"{path}: there is no such run folder")
    if not is_run(path):
        if _has_results(path):
            raise UserError(
                f"{path}: it has results, but {CONFIG} and {META} are gone; put back one of them, whose settings its "
                "checkpoints can be checked against"
            )
        raise UserError(f"{path}: this is not a run folder: it has no {CONFIG} or no {META}")


def is_free(path: Path) -> bool:
    """Whether a new run may be made here: nothing is there, or only what a run that died at once has left."""
    if not path.exists():
        return True
    names = [entry.name for entry in path.iterdir()] if path.is_dir() else [""]
    begun = tuple(name for name in names if name.startswith((META, CONFIG)) and name.endswith(TEMPORARY))
    return all(name in (LOCK, META, *begun) for name in names)


LOCK = "lock"
LOCKS = Path("/proc/locks")
"""Linux lists the locks of this computer here, so that the run's need not be touched: a run that starts in the moment
in which another process tries its lock would be refused."""


def is_being_written(path: Path) -> bool:
    """Whether a process of this computer is at work on a run; False also where that is not known."""
    try:
        return _is_listed(path / LOCK) if LOCKS.exists() else _is_held(path / LOCK)
    except OSError:
        return False


def _is_listed(lock: Path) -> bool:
    stat = lock.stat()
    file = f"{os.major(stat.st_dev):02x}:{os.minor(stat.st_dev):02x}:{stat.st_ino}"
    return any(file in line.split() for line in LOCKS.read_text().splitlines() if "FLOCK" in line)


def _is_held(lock: Path) -> bool:
    with lock.open() as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # given back when the file is closed
        except BlockingIOError:
            return True
    return False
