"""The folder of a landscape: its settings, a file for every part that is done, and the table of all of them.

A part is written whole or not at all, and holds what it would hold if nothing had ever been stopped.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vsr.arrays import CorruptFileError, read_arrays
from vsr.experiments.config import dump_plain
from vsr.experiments.config.problems import UserError
from vsr.experiments.landscape.bodies import cells_of, code_of, number_of, read_code
from vsr.experiments.landscape.searching import Found
from vsr.experiments.landscape.spec import Landscape, load_landscape
from vsr.experiments.storage.files import digest_of, open_own, refuse_links, remove_leftovers, write_arrays, write_text
from vsr.experiments.storage.run_folder import LOCK

SETTINGS, PARTS, TABLE = "landscape.yaml", "parts", "table.npz"
COLUMNS = ("number", "best", "typical", "controller", "failed")
"""Of a part; see Table."""


@dataclass(frozen=True)
class Table:
    """Bodies that were tried, in the order of their numbers; n of them."""

    landscape: Landscape
    total: int
    """bodies that there are"""
    number: np.ndarray
    """of the body, see landscape.bodies, (n,)"""
    best: np.ndarray
    """measure with the best controller, not a number if all failed, (n,)"""
    typical: np.ndarray
    """measure with a random controller, in the median, not a number if that failed, (n,)"""
    controller: np.ndarray
    """genes of the best controller, (n, genes)"""
    failed: np.ndarray
    """controllers that failed, (n,)"""

    @property
    def size(self) -> int:
        return len(self.number)

    @property
    def cells(self) -> np.ndarray:
        """Materials, -1 for an empty cell, (n, rows, columns)."""
        return cells_of(self.number, self.landscape.shape, len(self.landscape.symbols))

    @property
    def fitness(self) -> np.ndarray:
        """Larger is better, negative infinity if all failed, (n,)."""
        return np.nan_to_num(self.landscape.fitness.sign * self.best, nan=-np.inf)

    @property
    def order(self) -> np.ndarray:
        """Places of bodies, the fittest first, (n,)."""
        return np.argsort(-self.fitness, kind="stable")

    def code(self, place: int) -> str:
        """A body as people write it."""
        cells = cells_of(self.number[place : place + 1], self.landscape.shape, len(self.landscape.symbols))[0]
        return code_of(cells, self.landscape.symbols)

    def place(self, code: str) -> int:
        """Where a body stands; raises UserError if it is none of these, or was not tried."""
        landscape = self.landscape
        cells = read_code(code, landscape.shape, landscape.symbols)
        active = int(np.array([*landscape.active, False])[cells].sum())
        if active < landscape.least_active:
            raise UserError(f"body '{code}': {active} driven voxels; all here have at least {landscape.least_active}")
        number = number_of(cells, len(landscape.symbols))
        place = int(np.searchsorted(self.number, number))
        if place == self.size or self.number[place] != number:
            raise UserError(f"body '{code}': not among the {self.size:,} of {self.total:,} bodies that were tried")
        return place


def fingerprint(landscape: Landscape) -> str:
    """Of all that results depend on."""
    plain = landscape.to_plain() | {"physics": landscape.experiment.physics.to_plain()}
    return digest_of(plain)


class Folder:
    """Where a landscape is stored while it is made."""

    def __init__(self, path: Path, landscape: Landscape):
        self.path, self.landscape, self._mark = path, landscape, fingerprint(landscape)

    def begin(self) -> None:
        """Make the folder, or see that it is of these settings; raises UserError if not."""
        if self.path.exists() and not (self.path / SETTINGS).is_file() and any(self.path.iterdir()):
            raise UserError(f"{self.path}: this is no landscape's folder; give another --out")
        if (self.path / SETTINGS).is_file():
            if fingerprint(load_landscape(self.path / SETTINGS)) != self._mark:
                raise UserError(f"{self.path}: it was begun with other settings; give another --out")
        else:
            (self.path / PARTS).mkdir(parents=True, exist_ok=True)
            plain = self.landscape.to_plain() | {"physics": self.landscape.experiment.physics.to_plain()}
            write_text(self.path / SETTINGS, dump_plain(plain))

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """While it is open, no other process writes here; raises UserError if one does."""
        refuse_links(self.path)
        with open_own(self.path / LOCK, "a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UserError(f"{self.path}: another process is at work on it; wait, or give another --out") from None
            remove_leftovers(self.path)
            yield

    def file(self, part: int) -> Path:
        return self.path / PARTS / f"{part:06d}.npz"

    def has(self, part: int) -> bool:
        """Whether a part is done; one that is corrupted is not."""
        try:
            return read_part(self.file(part), self._mark) is not None
        except CorruptFileError:
            return False

    def write(self, part: int, numbers: np.ndarray, found: Found) -> None:
        sign = self.landscape.fitness.sign
        columns = {
            "number": numbers,
            "best": _measure(sign, np.asarray(found.fitness)),
            "typical": _measure(sign, np.asarray(found.typical)),
            "controller": np.asarray(found.genes),
            "failed": np.asarray(found.failed),
        }
        write_arrays(self.file(part), columns, {"landscape": self._mark, "part": part})

    def read(self) -> Table:
        """All that is done."""
        return read_folder(self.path)

    def write_table(self) -> Table:
        """One file for others: plain npz, with the settings in its label."""
        table = self.read()
        codes = [code_of(cells, self.landscape.symbols) for cells in table.cells]
        columns = {
            "code": np.array(codes),
            **{name: getattr(table, name) for name in COLUMNS},
            "tries": np.full(table.size, self.landscape.controllers),
        }
        label = {"landscape": table.landscape.to_plain(), "total": table.total}
        write_arrays(self.path / TABLE, columns, label)
        return table


def _measure(sign: float, fitness: np.ndarray) -> np.ndarray:
    return np.where(np.isfinite(fitness), sign * fitness, math.nan).astype(np.float32)


def read_part(file: Path, mark: str) -> dict[str, np.ndarray] | None:
    """Columns of a part; None if there is no such file. Raises Damaged."""
    if not file.is_file():
        return None
    stored = read_arrays(file)
    if stored.label.get("landscape") != mark or set(stored.arrays) != set(COLUMNS):
        raise CorruptFileError(file, "it belongs to other settings")
    return stored.arrays


def read_table(given: str | Path) -> Table:
    """Of a folder, or of a table alone; raises UserError or Damaged."""
    path = Path(given)
    if path.is_dir():
        return read_folder(path)
    if not path.is_file():
        raise UserError(f"{path}: there is no such file")
    stored = read_arrays(path)
    if "landscape" not in stored.label or not set(COLUMNS) <= set(stored.arrays):
        raise UserError(f"{path}: this is no table of a landscape")
    landscape = Landscape.model_validate(stored.label["landscape"])
    return Table(landscape, stored.label["total"], **{name: stored.arrays[name] for name in COLUMNS})


def read_folder(path: Path) -> Table:
    """All parts that are done and whole; without any, the table, with which folders are passed on."""
    if not (path / SETTINGS).is_file():
        raise UserError(f"{path}: there is no {SETTINGS} in it; this is no landscape's folder")
    landscape = load_landscape(path / SETTINGS)
    mark, parts = fingerprint(landscape), []
    for file in sorted((path / PARTS).glob("*.npz")):
        with contextlib.suppress(CorruptFileError):  # it is made again when the landscape goes on
            parts.append(read_part(file, mark))
    parts = [part for part in parts if part is not None]
    if not parts and (path / TABLE).is_file():
        return read_table(path / TABLE)
    if not parts:
        raise UserError(f"{path}: no part of it is done yet; vsr landscape FILE --out {path} goes on")
    columns = {name: np.concatenate([part[name] for part in parts]) for name in COLUMNS}
    order = np.argsort(columns["number"])
    return Table(landscape, len(landscape.bodies()), **{name: column[order] for name, column in columns.items()})
