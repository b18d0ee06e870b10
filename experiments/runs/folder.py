"""The run folder: what one experiment leaves behind, and all that is needed to go on with it.

    config.yaml        the experiment with every value written out
    meta.json          versions, device, commit, command of every start
    statistics.jsonl   one line per generation and seed
    lineage/           npz pieces: ids, parents and fitness of all individuals, and the best genes of each generation
    checkpoints/       the last two, each enough to go on
    best/              each seed's best robot, as a file that `vsr simulate` accepts
    archive.npz        the searches' archives or fronts, if they have any
    plugins/           copies of the user's own modules, if any

A folder is a run if it has both meta.json and config.yaml. Order of writing makes it safe to be killed at any moment:
statistics and lineage first, then the checkpoint that counts on them. What lies beyond the last whole checkpoint is
dropped on resuming and made again.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import math
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import numpy as np

from vsr.experiments.config import dump_yaml, load_experiment
from vsr.experiments.config.plugins import PLUGINS_FOLDER
from vsr.experiments.config.problems import UserError
from vsr.experiments.config.unread import missing_of
from vsr.experiments.experiment import Experiment
from vsr.experiments.files import (
    TEMPORARY,
    read_json_lines,
    remove_leftovers,
    write_arrays,
    write_json,
    write_text,
)
from vsr.experiments.runs.checkpoints import checkpoint_files, load_checkpoint, save_arrays, save_checkpoint
from vsr.experiments.runs.stats import GenerationStats
from vsr.physics.failure import REASONS

CONFIG, META, STATISTICS, LOCK = "config.yaml", "meta.json", "statistics.jsonl", "lock"
LOCKS = Path("/proc/locks")
"""Linux lists the locks of this computer here, so that the run's need not be touched: a run that starts in the moment
in which another process tries its lock would be refused."""
BEST, ARCHIVE = "best", "archive.npz"
FOLDERS = ("lineage", "checkpoints", BEST)
MAY_CHANGE = ("generations", "checkpoint_seconds")
"""What may differ when a run goes on."""


def robot_file(path: Path, seed: int) -> Path:
    """Of a seed's best robot in a run folder."""
    return path / BEST / f"seed-{seed}.yaml"


@contextlib.contextmanager
def reporting_write_faults(path: Path) -> Iterator[None]:
    """A disk that is full or may not be written to is reported in one line."""
    try:
        yield
    except OSError as error:
        safe = (
            f"what was written before is whole: mend this, then vsr evolve {path} --resume"
            if is_run(path)
            else "nothing was written: give another --out"
        )
        raise UserError(f"{path}: cannot be written: {error.strerror or error}; {safe}") from error


class RunFolder:
    """A run folder, written by one process at a time."""

    def __init__(self, path: Path, experiment: Experiment):
        self.path = path
        self.experiment = experiment
        self._lineage: list[tuple[int, GenerationStats]] = []
        self._described: dict[int, int] = {}
        """id of the individual that each seed's file in best/ holds"""
        self._statistics: IO[str] | None = None
        self._lock: IO[str] | None = None

    def create(self, meta: dict[str, Any], plugins: list[ModuleType]) -> None:
        """Make a new run where `is_free` holds."""
        with reporting_write_faults(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            self.lock()
            self.write_meta(meta)
            write_text(self.path / CONFIG, dump_yaml(self.experiment))  # now it is a run that can go on
            self._prepare(plugins)

    def inspect(self, like: Any) -> tuple[int, tuple[Any, ...] | None, list[str]]:
        """Where a run stands, changing nothing: generations done, searches (None for the start), what is damaged.

        like: the shapes of one seed's search. Raises UserError if a run has lost its checkpoints, rather than begin it
        again.
        """
        checkpoints = self.path / "checkpoints"
        done, searches, warnings = load_checkpoint(checkpoints, like, len(self.experiment.seeds))
        if searches is None and (checkpoint_files(checkpoints) or len(self._lineage_pieces()) > 1):
            raise UserError(
                f"{self.path}: it has results but no whole checkpoint to go on from; keep it as it is and "
                "start again with another --out"
            )
        return done, searches, warnings

    def reopen(self, done: int, plugins: list[ModuleType]) -> list[str]:
        """Make a run ready to go on after a number of generations; returns what had to be dropped."""
        with reporting_write_faults(self.path):
            remove_leftovers(self.path)
            warnings = self._drop_statistics_from(done)
            for piece in self._lineage_pieces():
                if int(piece.stem) >= done:
                    piece.unlink()
            write_text(self.path / CONFIG, dump_yaml(self.experiment))
            self._prepare(plugins)
        return warnings

    def record(self, generation: int, stats: GenerationStats, seconds: float) -> None:
        """Append one generation's statistics; its lineage is kept until the next checkpoint."""
        assert self._statistics is not None
        self._lineage.append((generation, stats))
        rows = (
            {
                "generation": generation,
                "seed": seed,
                "best": _finite(stats.best[i]),
                "median": _finite(stats.median[i]),
                "failed": int(stats.failed[i]),
                "failures": _by_reason(stats.failures[i]),
                "evaluations": (generation + 1) * self.experiment.ea.n_pop,
                "best_id": int(stats.best_id[i]),
                "spread": _finite(stats.spread[i]),
                "bodies": int(stats.bodies[i]),
                "seconds": round(seconds, 4),
                **_figures(stats.figures, i),
            }
            for i, seed in enumerate(self.experiment.seeds)
        )
        with reporting_write_faults(self.path):
            self._statistics.write("".join(json.dumps(row) + "\n" for row in rows))
            self._statistics.flush()

    def checkpoint(self, generations: int, searches: tuple[Any, ...]) -> None:
        """Make all that was recorded durable, then write the checkpoint after a number of generations."""
        assert self._statistics is not None
        with reporting_write_faults(self.path):
            os.fsync(self._statistics.fileno())
            if self._lineage:
                self._write_lineage()
                self._write_best(self._lineage[-1][1])
            self._write_archive(searches)
            save_checkpoint(self.path / "checkpoints", generations, searches)
        self._lineage.clear()

    def write_meta(self, meta: dict[str, Any]) -> None:
        """Replace what is known about the run."""
        with reporting_write_faults(self.path):
            write_json(self.path / META, meta)

    def close(self) -> None:
        """Let others have the folder."""
        for file in (self._statistics, self._lock):
            if file is not None:
                with contextlib.suppress(OSError):
                    file.close()

    def lock(self) -> None:
        """Keep other processes from writing; raises UserError if one already does."""
        with reporting_write_faults(self.path):
            self._lock = (self.path / LOCK).open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"{self.path}: another process is writing this run; wait for it or give another --out"
            ) from None

    def _prepare(self, plugins: list[ModuleType]) -> None:
        for name in FOLDERS:
            (self.path / name).mkdir(exist_ok=True)
        copy_plugins(plugins, self.path / PLUGINS_FOLDER)
        self._statistics = (self.path / STATISTICS).open("a", encoding="utf-8")

    def _lineage_pieces(self) -> list[Path]:
        return [piece for piece in (self.path / "lineage").glob("*.npz") if piece.stem.isdigit()]

    def _drop_statistics_from(self, done: int) -> list[str]:
        """Keep whole lines of generations before `done`; return a warning for each line that cannot be read."""
        path = self.path / STATISTICS
        kept, warnings = [], []
        for number, row in read_json_lines(path):
            if row is None:
                warnings.append(f"{path}:{number}: not a whole line; dropped")
            elif is_statistics(row) and row["generation"] < done:
                kept.append(json.dumps(row) + "\n")
        write_text(path, "".join(kept))
        return warnings

    def _write_lineage(self) -> None:
        """All generations since the last checkpoint as one piece, named after the first of them."""
        reports = [report for _, report in self._lineage]

        def over_generations(values: list[np.ndarray]) -> np.ndarray:
            return np.stack(values, axis=1)

        arrays = {
            name: over_generations([np.asarray(getattr(report, name)) for report in reports])
            for name in ("id", "parents", "fitness", "best_id")
        }
        for part in reports[0].best_genes:
            arrays[f"best_genes.{part}"] = over_generations([np.asarray(r.best_genes[part]) for r in reports])
        write_arrays(self.path / "lineage" / f"{self._lineage[0][0]:08d}.npz", arrays)

    def _write_archive(self, searches: tuple[Any, ...]) -> None:
        """The archives or fronts of all seeds, where the search has them."""
        archives = [self.experiment.ea.summary(search).archive for search in searches]
        if archives[0] is not None:
            save_arrays(self.path / ARCHIVE, archives)

    def _write_best(self, stats: GenerationStats) -> None:
        for i, seed in enumerate(self.experiment.seeds):
            if self._described.get(seed) == int(stats.best_id[i]) or not math.isfinite(stats.best[i]):
                continue
            scene = self.experiment.scene({part: np.asarray(genes[i]) for part, genes in stats.best_genes.items()})
            assert scene is not None, "a robot without a body has no finite fitness"
            goal = self.experiment.fitness
            value = goal.sign * float(stats.best[i])
            title = f"# best of seed {seed}: individual {int(stats.best_id[i])}, {goal.measure} {value:.6g}"
            meaning = self.experiment.evaluation.summary
            title += f" ({meaning})\n" if meaning else "\n"
            write_text(robot_file(self.path, seed), title + dump_yaml(scene))
            self._described[seed] = int(stats.best_id[i])


def is_run(path: Path) -> bool:
    """Whether a folder holds a run."""
    return (path / CONFIG).is_file() and (path / META).is_file()


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


def check_run(path: Path) -> None:
    """Raise UserError if there is no run here."""
    if not path.is_dir():
        raise UserError(f"{path}: there is no such run folder")
    if not is_run(path):
        raise UserError(f"{path}: this is not a run folder: it has no {CONFIG} or no {META}")


def _figures(figures: dict[str, Any], seed: int) -> dict[str, dict[str, float | None]]:
    """What the search of the seed of this index tells of itself, if it tells anything."""
    return {"figures": {name: _finite(values[seed]) for name, values in figures.items()}} if figures else {}


def _by_reason(counts: Any) -> dict[str, int]:
    """Failures by the name of their reason, without those that did not happen."""
    return {reason.name: int(number) for reason, number in zip(REASONS, counts, strict=True) if number}


def is_free(path: Path) -> bool:
    """Whether a new run may be made here: nothing is there, or only what a run that died at once has left."""
    if not path.exists():
        return True
    unborn = (LOCK, META, META + TEMPORARY, CONFIG + TEMPORARY)
    return path.is_dir() and all(entry.name in unborn for entry in path.iterdir())


def is_statistics(row: dict[str, Any]) -> bool:
    """Whether a line has what plots and resuming need."""
    whole = all(type(row.get(name)) is int for name in ("seed", "generation", "failed"))
    given = all(isinstance(row.get(name, ""), float | int | None) for name in ("best", "median"))
    return whole and given and all(isinstance(row.get(name), float | int | None) for name in ("spread", "bodies"))


def check_same_experiment(path: Path, experiment: Experiment) -> None:
    """Refuse to go on with another experiment than the folder's."""
    stored = load_experiment(path / CONFIG)
    if stored.plugins == experiment.plugins and (other := list(missing_of(stored))):
        raise UserError(f"{path}: plugin '{other[0]}' is not what it was when the run began; start again")
    differences = list(_differences(stored.to_plain(), experiment.to_plain(), ()))
    if differences:
        listed = "\n".join(f"  {name}: {old} in the run, {new} now" for name, old, new in differences)
        raise UserError(
            f"{path}: this run was made with other settings:\n{listed}\n"
            f"go on with the run's own (vsr evolve {path} --resume), or start again with another --out"
        )


def _differences(old: Any, new: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str, str]]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in {**old, **new}:
            if path or key not in MAY_CHANGE:
                yield from _differences(old.get(key), new.get(key), (*path, key))
    elif old != new:
        yield ".".join(path), _shown(old), _shown(new)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def _finite(value: Any) -> float | None:
    number = float(value)
    return number if math.isfinite(number) else None


def copy_plugins(plugins: list[ModuleType], folder: Path) -> None:
    """Keep single-file plugins with the run, so that its robots can be simulated wherever it is taken."""
    for plugin in plugins:
        source = Path(getattr(plugin, "__file__", None) or "")
        if source.name == f"{plugin.__name__}.py" and source.resolve() != (folder / source.name).resolve():
            folder.mkdir(exist_ok=True)
            write_text(folder / source.name, source.read_text(encoding="utf-8"))
