"""Evaluation sets: tasks, terrains and faults, in every combination."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from vsr.experiments.config.check import check
from vsr.experiments.config.plugins import load_plugins, require_plugins
from vsr.experiments.config.yaml import read_yaml
from vsr.experiments.experiment import Fitness, read_fitness
from vsr.experiments.perturbation import Aggregate, Ground, InitialNoise
from vsr.randomization import DomainRandomization, Factor
from vsr.spec import Count, FileSpec, OneOf, Real, Spec, clipped, suggest, validation_error
from vsr.tasks import TASKS, Task

MOST_CASES = 10_000
Goal = Annotated[Fitness, BeforeValidator(read_fitness, json_schema_input_type=Fitness | str)]


class TaskCase(Spec):
    """A task; without one, each robot's own."""

    task: Annotated[Task, OneOf(TASKS, default="locomotion")] | None = None
    fitness: Goal | None = None
    """the measure; if absent, the one that the robot was selected for, or the task's first if it lacks that"""

    @model_validator(mode="after")
    def _measurable(self) -> TaskCase:
        if self.task is not None and self.fitness is not None:
            known, name = self.task.known_measures(), self.fitness.measure
            if name not in known:
                raise validation_error([(("fitness",), f"unknown measure '{clipped(name)}'{suggest(name, known)}")])
        return self


class GroundCase(Spec):
    """A ground; without one, each robot's own, or the task's."""

    terrain: Ground | None = None


class Fault(Spec):
    """A fault of robots or their world; by default none."""

    dead: Annotated[Count, Field(ge=0)] = 0
    """voxels that are neither driven nor feel anything, resampled in every start"""
    noise: Annotated[Real, Field(ge=0)] = 0.0
    """standard deviation of what is added to every reading at every control call, in the reading's own unit"""
    friction: Factor = 1.0
    """factor, of all masses; contact takes the geometric mean with the ground's"""
    mass: Factor = 1.0
    """factor, of all masses; springs stay as stiff as they are"""
    stiffness: Factor = 1.0
    """factor, of all springs"""
    gravity: Factor = 1.0
    """factor"""
    refine: Annotated[Count, Field(ge=1, le=64)] = 1
    """substeps are shorter by this factor"""

    @property
    def factors(self) -> DomainRandomization:
        """Quantities that are scaled."""
        given = {name: getattr(self, name) for name in DomainRandomization.model_fields}
        return DomainRandomization(**{name: (value, value) for name, value in given.items() if value != 1})


OWN_TASK, OWN_GROUND, NO_FAULT = {"its task": TaskCase()}, {"its ground": GroundCase()}, {"none": Fault()}


class EvaluationSet(FileSpec):
    """All that `vsr evaluate --on` needs."""

    kind: Literal["evaluation_set"] = "evaluation_set"
    """what this file describes"""
    fitness: Goal | None = None
    """the measure of every task without one; if absent, the one that each robot was selected for"""
    trials: Annotated[Count, Field(ge=1, le=1000)] = 1
    """simulations of every robot in every case"""
    jitter: InitialNoise = InitialNoise()
    """how they differ"""
    aggregate: Aggregate = "median"
    """aggregate over several trials; a trial that failed is worse than any other"""
    tasks: Annotated[dict[str, TaskCase], Field(min_length=1)] = OWN_TASK
    terrains: Annotated[dict[str, GroundCase], Field(min_length=1)] = OWN_GROUND
    faults: Annotated[dict[str, Fault], Field(min_length=1)] = NO_FAULT
    plugins: tuple[str, ...] = ()
    """Python modules to import before reading the rest; they register components of your own"""

    @model_validator(mode="after")
    def _countable(self) -> EvaluationSet:
        if len(self.cases) > MOST_CASES:
            raise ValueError(f"{len(self.cases):,} tasks x terrains x faults; at most {MOST_CASES:,}")
        return self

    @property
    def cases(self) -> list[tuple[str, str, str]]:
        """Names of task, terrain and fault of every case; the first is what others are compared with."""
        return [(task, ground, fault) for task in self.tasks for ground in self.terrains for fault in self.faults]

    def label(self, case: tuple[str, str, str]) -> str:
        """Name of a case: the parts that not all cases share."""
        axes = (self.tasks, self.terrains, self.faults)
        parts = [name for name, axis in zip(case, axes, strict=True) if len(axis) > 1]
        return ", ".join(parts) or case[-1]


def load_set(path: str | Path, *, run_plugins: bool = False) -> EvaluationSet:
    """The set in a file; raises ConfigError with every fault, PluginRequiredError if plugins may not run."""
    document = read_yaml(path)
    if run_plugins:
        load_plugins(document)
    require_plugins(document)
    return check(document, EvaluationSet)
