"""A landscape as plain data: which bodies, how they are driven, where, and how long a controller is searched for."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BeforeValidator, Field, ValidationError, model_validator

from vsr.experiments.config.check import check
from vsr.experiments.config.overrides import override
from vsr.experiments.config.plugins import load_plugins, require_plugins
from vsr.experiments.config.problems import UserError
from vsr.experiments.config.yaml import read_yaml
from vsr.experiments.encodings import EvolvedRobot
from vsr.experiments.encodings.bodies import VoxelKinds
from vsr.experiments.experiment import Experiment, Fitness, read_fitness
from vsr.experiments.perturbation import MOST_TRIALS, EvaluationOptions
from vsr.robot.shape import EMPTY_SYMBOLS, drawing
from vsr.scene import Physics
from vsr.spec import Count, FileSpec, OneOf, Real, validation_error
from vsr.tasks import TASKS, Locomotion, Task
from vsr.world.spec import World

MOST_GRIDS = 30_000_000
"""Ways to fill a grid that are looked through."""
BETWEEN_ROWS = "/"


def grids(kinds: int, cells: int) -> int:
    """Ways to fill a grid; kinds: of voxels, an empty cell not counted."""
    return (kinds + 1) ** cells


def every_body(shape: tuple[int, int], active: Sequence[bool], least_active: int) -> np.ndarray:
    """Numbers of all bodies in order, (bodies,); active: of each material; least_active: voxels that are."""
    kinds = len(active)
    worth = (kinds + 1) ** np.arange(shape[0] * shape[1], dtype=np.int64)
    found = [
        _filled(np.flatnonzero(present.ravel()), worth, np.asarray(active), least_active)
        for present in outlines(shape)
        if present.sum() >= least_active
    ]
    return np.sort(np.concatenate(found)) if found else np.zeros(0, np.int64)


def outlines(shape: tuple[int, int]) -> list[np.ndarray]:
    """Where voxels may be: connected sets of cells in the first corner, each (rows, columns)."""
    found = (np.array(cells, bool).reshape(shape) for cells in product((False, True), repeat=shape[0] * shape[1]))
    return [present for present in found if present[0].any() and present[:, 0].any() and is_connected(present)]


def is_connected(present: np.ndarray) -> bool:
    """Whether there are cells, and all are connected by sides."""
    left = set(map(tuple, np.argwhere(present)))
    reached = [left.pop()] if left else []
    for row, column in reached:
        near = {(row + 1, column), (row - 1, column), (row, column + 1), (row, column - 1)} & left
        left -= near
        reached += near
    return bool(reached) and not left


def _filled(places: np.ndarray, worth: np.ndarray, active: np.ndarray, least_active: int) -> np.ndarray:
    """Numbers of all bodies of one outline, in any order."""
    numbers, driven = np.zeros(1, np.int64), np.zeros(1, np.int64)
    for place in places:
        numbers = (numbers[:, None] + worth[place] * np.arange(1, len(active) + 1)).ravel()
        driven = (driven[:, None] + active).ravel()
    return numbers[driven >= least_active]


def cells_of(numbers: np.ndarray, shape: tuple[int, int], kinds: int) -> np.ndarray:
    """Materials of bodies, -1 for an empty cell, (bodies, rows, columns), the lowest row first."""
    digits = numbers[:, None] // (kinds + 1) ** np.arange(shape[0] * shape[1], dtype=np.int64) % (kinds + 1)
    return (digits - 1).astype(np.int32).reshape(-1, *shape)


def number_of(cells: np.ndarray, kinds: int) -> int:
    """The number of a body, wherever it lies in its grid; cells: (rows, columns), -1 for an empty one."""
    rows, columns = np.nonzero(cells >= 0)
    moved = np.roll(cells, (-rows.min(), -columns.min()), (0, 1))
    return int(((moved.ravel() + 1) * (kinds + 1) ** np.arange(moved.size, dtype=np.int64)).sum())


def code_of(cells: np.ndarray, symbols: Sequence[str]) -> str:
    """A body as people write it, the top row first: `.a./aaa/a.a`."""
    return BETWEEN_ROWS.join(drawing(cells, list(symbols)))


def read_code(code: str, shape: tuple[int, int], symbols: Sequence[str]) -> np.ndarray:
    """Cells of a body, (rows, columns); raises UserError for what is no body of this grid."""
    rows = code.strip().split(BETWEEN_ROWS)
    known = {symbol: place for place, symbol in enumerate(symbols)} | dict.fromkeys(EMPTY_SYMBOLS, -1)
    sizes = f"{shape[0]} rows of {shape[1]}"
    if len(rows) > shape[0] or max(map(len, rows)) > shape[1]:
        raise UserError(f"body '{code}': at most {sizes} cells, the top row first, such as {_example(shape, symbols)}")
    if strange := [letter for row in rows for letter in row if letter not in known]:
        names = ", ".join(symbols)
        raise UserError(
            f"body '{code}': there is no material '{strange[0]}'; the materials are {names}, and . is empty"
        )
    cells = np.full(shape, -1, np.int32)
    for place, row in enumerate(reversed(rows)):
        cells[place, : len(row)] = [known[letter] for letter in row]
    if not is_connected(cells >= 0):
        raise UserError(f"body '{code}': its voxels are not connected by their sides")
    return cells


def _example(shape: tuple[int, int], symbols: Sequence[str]) -> str:
    return BETWEEN_ROWS.join([symbols[-1] * shape[1]] * shape[0])


class Landscape(FileSpec):
    """All that `vsr landscape` needs."""

    kind: Literal["landscape"] = "landscape"
    """what this file describes"""
    robot: EvolvedRobot
    """a body of type voxel_kinds, of which every filling of the grid is tried, and a controller with genes"""
    tries: Annotated[Count, Field(ge=1, le=1_000_000)]
    """controllers tried for every body in a round"""
    rounds: Annotated[Count, Field(ge=1, le=1000)] = 1
    """the first of random controllers, others of the best so far with noise"""
    sigma: Annotated[Real, Field(gt=0)] = 0.5
    """standard deviation of the noise"""
    trials: Annotated[Count, Field(ge=0, le=MOST_TRIALS)] = 8
    """fresh trials of every body's best controller, with smaller time steps as `evaluation.refine` has them by default:
    their median is what the table has as its best; 0 for the one trial of the search"""
    least_active: Annotated[Count, Field(ge=0)] = 3
    """driven voxels that a body must have"""
    seed: Annotated[Count, Field(ge=0, lt=2**32)] = 0
    """of controllers, and of the order in which bodies are tried"""
    bodies_at_once: Annotated[Count, Field(ge=1, le=1_000_000)] = 64
    """bodies that are tried together and stored in one file; an accelerator can do with thousands"""
    world: World = World()
    task: Annotated[Task, OneOf(TASKS, default="locomotion")] = Locomotion()
    physics: Physics = Physics()
    fitness: Annotated[Fitness, BeforeValidator(read_fitness, json_schema_input_type=Fitness | str)] = Fitness()
    """a measure's name, or a mapping with `measure` and `direction`"""
    plugins: tuple[str, ...] = ()
    """Python modules to import before reading the rest; they register components of your own"""

    @model_validator(mode="after")
    def _possible(self) -> Landscape:
        body, robot = self.robot.body, self.robot
        if not isinstance(body, VoxelKinds) or body.dimension != 2:
            raise validation_error(
                [(("robot", "body", "type"), "a voxel_kinds body of two axes is needed, with a gene per cell")]
            )
        issues = []
        if not robot.controller.gene_count(body):
            issues.append((("robot", "controller"), "it has no genes: there is nothing to try"))
        if grids(len(body.materials), body.possible.size) > MOST_GRIDS:
            text = f"{grids(len(body.materials), body.possible.size):.3g} ways to fill it; at most {MOST_GRIDS:.3g}"
            issues.append((("robot", "body", "grid"), f"{text}: take fewer cells or materials"))
        if not any(self.active):
            issues.append((("robot", "body", "materials"), "none of them is driven"))
        if self.least_active > body.possible.size:
            issues.append((("least_active",), f"{self.least_active} given; the grid has {body.possible.size} cells"))
        try:
            if self._experiment().task.resamples:
                issues.append((("task",), "it resamples its ground: bodies could not be compared"))
        except ValidationError as error:
            for fault in error.errors():
                own = fault.get("ctx", {}).get("complaints")
                issues += own or [(tuple(map(str, fault["loc"])), fault["msg"])]
        if issues:
            raise validation_error(issues)
        return self

    def _experiment(self) -> Experiment:
        names = ("robot", "world", "task", "physics", "fitness", "plugins")
        once = EvaluationOptions(trials=1, refine=None)
        return Experiment(**{name: getattr(self, name) for name in names}, evaluation=once)

    @property
    def experiment(self) -> Experiment:
        """How one individual is evaluated, with steps written out."""
        return self._experiment().resolved()

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the grid."""
        rows, columns = self.robot.body.possible.shape
        return rows, columns

    @property
    def symbols(self) -> tuple[str, ...]:
        """Of the materials."""
        return tuple(self.robot.body.materials)

    @property
    def active(self) -> tuple[bool, ...]:
        """Whether each material is driven."""
        passive = getattr(self.robot.controller, "passive", ())
        materials = self.robot.body.materials.items()
        return tuple(symbol not in passive and material.actuation != "none" for symbol, material in materials)

    @property
    def controllers(self) -> int:
        """Tried for every body."""
        return self.tries * self.rounds

    def bodies(self) -> np.ndarray:
        """Numbers of all bodies, (bodies,), in the order in which they are tried: any part is a fair sample."""
        numbers = every_body(self.shape, self.active, self.least_active)
        return np.random.default_rng(self.seed).permutation(numbers)


def load_landscape(path: str | Path, settings: Sequence[str] = (), *, run_plugins: bool = False) -> Landscape:
    """The landscape that a file describes; raises ConfigError with every fault in it."""
    document = read_yaml(path)
    override(document, settings)
    if run_plugins:
        load_plugins(document)
    require_plugins(document)
    return check(document, Landscape)
