"""A landscape as plain data: which bodies, how they are driven, where, and how long a controller is searched for."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from pydantic import BeforeValidator, Field, ValidationError, model_validator

from vsr.experiments.config.check import check
from vsr.experiments.config.overrides import override
from vsr.experiments.config.plugins import load_plugins, require_plugins
from vsr.experiments.config.yaml import read_yaml
from vsr.experiments.encodings import EvolvedRobot
from vsr.experiments.encodings.bodies import VoxelKinds
from vsr.experiments.experiment import Experiment, Fitness, read_fitness
from vsr.experiments.landscape.bodies import MOST_GRIDS, every_body, grids
from vsr.scene import Physics
from vsr.spec import Count, FileSpec, OneOf, Real, validation_error
from vsr.tasks import TASKS, Locomotion, Task
from vsr.world.spec import World


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
                issues.append((("task",), "it draws its ground anew: bodies could not be compared"))
        except ValidationError as error:
            for fault in error.errors():
                own = fault.get("ctx", {}).get("complaints")
                issues += own or [(tuple(map(str, fault["loc"])), fault["msg"])]
        if issues:
            raise validation_error(issues)
        return self

    def _experiment(self) -> Experiment:
        names = ("robot", "world", "task", "physics", "fitness", "plugins")
        return Experiment(**{name: getattr(self, name) for name in names})

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
    """What a file describes; raises ConfigError with every fault in it."""
    document = read_yaml(path)
    override(document, settings)
    if run_plugins:
        load_plugins(document)
    require_plugins(document)
    return check(document, Landscape)
