"""The folder of a landscape: its settings, a file for every part that is done, and the table of all of them.

A part is written whole or not at all, and holds what it would hold if nothing had ever been stopped.
"""

from __future__ import annotations

import contextlib
import fcntl
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import ValidationError

from vsr.arrays import CorruptFileError, read_arrays
from vsr.experiments.config import dump_plain
from vsr.experiments.config.problems import UserError
from vsr.experiments.evolve.fitness import FRESH, evaluation_of
from vsr.experiments.experiment import Experiment
from vsr.experiments.landscape.spec import Landscape, cells_of, code_of, load_landscape, number_of, read_code
from vsr.experiments.perturbation import EvaluationOptions, aggregate_trials, perturbations_of
from vsr.experiments.population import on_all_devices, robots_at_once
from vsr.experiments.run_time import operations_of, seconds_of
from vsr.experiments.storage.files import digest_of, open_own, refuse_links, remove_leftovers, write_arrays, write_text
from vsr.experiments.storage.run_folder import LOCK


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class BodyResults:
    """Results of bodies, one per entry of the leading axis."""

    fitness: Array
    """of the best controller so far, larger is better, negative infinity if all failed, (bodies,)"""
    typical: Array
    """median fitness of the random controllers, in which a failure is worse than any other, (bodies,)"""
    genes: Array
    """of the best controller, (bodies, genes)"""
    failed: Array
    """controllers that failed, (bodies,)"""


def rounds_of(landscape: Landscape) -> Callable[[Array, Array, BodyResults, Array], BodyResults]:
    """The compiled function of one round: from bodies' genes, their numbers, what is known and which round it is."""
    return jax.jit(partial(_round, landscape, landscape.experiment))


def search(landscape: Landscape, numbers: np.ndarray, one_round: Callable[..., BodyResults]) -> BodyResults:
    """All rounds for some bodies, as many as are tried at once or fewer."""
    size = landscape.bodies_at_once
    filled = np.concatenate([numbers, np.repeat(numbers[:1], size - len(numbers))])  # one program for all
    bodies, low, high = _arguments(landscape, filled)
    found = unknown(landscape)
    for number in range(landscape.rounds):
        found = one_round(bodies, (low, high), found, jnp.int32(number))
    return jax.tree.map(lambda leaf: np.asarray(leaf)[: len(numbers)], found)


def held_out_of(landscape: Landscape) -> Callable[[Array, Array], Array]:
    """The compiled function from bodies' and controllers' genes to their fitness in fresh trials, (bodies,)."""
    return jax.jit(partial(_held_out, landscape, landscape.experiment))


def confirm(
    landscape: Landscape, numbers: np.ndarray, found: BodyResults, held_out: Callable[[Array, Array], Array]
) -> BodyResults:
    """The same with the fitness of best controllers in fresh trials, if there are any."""
    if not landscape.trials:
        return found
    missing = landscape.bodies_at_once - len(numbers)
    which = np.concatenate([np.arange(len(numbers)), np.zeros(missing, int)])  # one program for all
    bodies, *_ = _arguments(landscape, numbers[which])
    fitness = held_out(bodies, jnp.asarray(found.genes)[which])
    return replace(found, fitness=np.asarray(fitness)[: len(numbers)])


def seconds_of_part(landscape: Landscape) -> float:
    """How long one part of bodies should take, without compiling, from the operations of the traced program."""
    shapes = jax.eval_shape(lambda: (*_arguments(landscape, np.ones(landscape.bodies_at_once, np.int64)),))
    known = jax.eval_shape(partial(unknown, landscape))
    program = partial(_round, landscape, landscape.experiment)
    traced = jax.make_jaxpr(program)(shapes[0], shapes[1:], known, jax.ShapeDtypeStruct((), jnp.int32))
    seconds = landscape.rounds * seconds_of(operations_of(traced))
    if landscape.trials:
        again = jax.make_jaxpr(partial(_held_out, landscape, landscape.experiment))(shapes[0], known.genes)
        seconds += seconds_of(operations_of(again))
    return seconds


def unknown(landscape: Landscape) -> BodyResults:
    """Before the first round."""
    size = landscape.bodies_at_once
    genes = landscape.robot.controller.gene_count(landscape.robot.body)
    worst = jnp.full(size, -jnp.inf)
    return BodyResults(worst, worst, jnp.zeros((size, genes)), jnp.zeros(size, jnp.int32))


def _arguments(landscape: Landscape, numbers: np.ndarray) -> tuple[Array, Array, Array]:
    """Genes of bodies, and their numbers as two words of 32 bits."""
    cells = cells_of(numbers, landscape.shape, len(landscape.symbols))
    genes = jnp.asarray(cells.reshape(len(numbers), -1) + 1, jnp.float32)
    return genes, jnp.asarray(numbers & 0xFFFFFFFF, jnp.uint32), jnp.asarray(numbers >> 32, jnp.uint32)


def _round(
    landscape: Landscape,
    experiment: Experiment,
    bodies: Array,
    numbers: tuple[Array, Array],
    known: BodyResults,
    number: Any,
) -> BodyResults:
    """One round of all bodies."""
    controller, body = landscape.robot.controller, landscape.robot.body
    size, tries = len(bodies), landscape.tries

    def drawn(low: Array, high: Array, best: Array) -> Array:
        key = jax.random.fold_in(jax.random.key(landscape.seed), low)
        key = jax.random.fold_in(jax.random.fold_in(key, high), number)
        near = best + landscape.sigma * jax.random.normal(key, (tries, best.size))
        return jnp.where(number == 0, controller.sample(key, tries, body), near)

    tried = jax.vmap(drawn)(*numbers, known.genes)
    robots = {"body": jnp.repeat(bodies, tries, 0), "controller": tried.reshape(size * tries, -1)}
    at_once = robots_at_once(size * tries, body.possible.size)
    evaluated = on_all_devices(evaluation_of(experiment), robots, at_once)
    sound = jnp.isfinite(evaluated.fitness) & ~evaluated.failed
    fitness = jnp.where(sound, evaluated.fitness, -jnp.inf).reshape(size, tries)
    leader = jnp.argmax(fitness, 1)
    best = jnp.take_along_axis(fitness, leader[:, None], 1)[:, 0]
    better = best > known.fitness
    genes = jnp.take_along_axis(tried, leader[:, None, None], 1)[:, 0]
    lower, upper = jnp.sort(fitness, 1)[:, (tries - 1) // 2], jnp.sort(fitness, 1)[:, tries // 2]
    return BodyResults(
        fitness=jnp.where(better, best, known.fitness),
        typical=jnp.where(number == 0, 0.5 * lower + 0.5 * upper, known.typical),
        genes=jnp.where(better[:, None], genes, known.genes),
        failed=known.failed + (~sound).reshape(size, tries).sum(1),
    )


def _held_out(landscape: Landscape, experiment: Experiment, bodies: Array, controllers: Array) -> Array:
    """Median fitness of bodies with their best controllers in fresh trials, a failure worse than any other."""
    count, body = landscape.trials, landscape.robot.body
    options = EvaluationOptions(jitter=experiment.evaluation.jitter)
    again = options.for_voxels(body).refine
    factor = 1 if again is None else again.factor
    trials = perturbations_of(options.fresh_jitter, count, jnp.dtype(experiment.physics.precision), after=FRESH)
    trials = jax.tree.map(lambda leaf: jnp.tile(leaf, len(bodies)), trials)
    genes = {"body": bodies, "controller": controllers}
    robots = jax.tree.map(lambda leaf: jnp.repeat(leaf, count, 0), genes)
    at_once = robots_at_once(len(bodies) * count, body.possible.size)
    evaluation = evaluation_of(experiment, factor)
    evaluated = on_all_devices(lambda robot: evaluation(*robot), (robots, trials), at_once)
    sound = jnp.isfinite(evaluated.fitness) & ~evaluated.failed
    return aggregate_trials("median", jnp.where(sound, evaluated.fitness, -jnp.inf).reshape(-1, count))


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
    """measure with the best controller, in the median of fresh trials, not a number if it failed, (n,)"""
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

    def write(self, part: int, numbers: np.ndarray, found: BodyResults) -> None:
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
    """Columns of a part; None if there is no such file. Raises CorruptFileError."""
    if not file.is_file():
        return None
    stored = read_arrays(file)
    if stored.label.get("landscape") != mark or set(stored.arrays) != set(COLUMNS):
        raise CorruptFileError(file, "it belongs to other settings")
    return stored.arrays


def read_table(given: str | Path) -> Table:
    """Of a folder, or of a table alone; raises UserError or CorruptFileError."""
    path = Path(given)
    if path.is_dir():
        return read_folder(path)
    if not path.is_file():
        raise UserError(f"{path}: there is no such file")
    stored = read_arrays(path)
    if "landscape" not in stored.label or not set(COLUMNS) <= set(stored.arrays):
        raise UserError(f"{path}: this is no table of a landscape")
    try:
        landscape = Landscape.model_validate(stored.label["landscape"])
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise UserError(f"{path}: made by another version: its settings have {where}: {first['msg']}") from None
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
