"""The work of `vsr check`: build and trace all that a file asks for, without running it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import jax
import numpy as np

from vsr.controllers import Controller
from vsr.episode import Scenario, reset, rollout
from vsr.experiments.config import UserError, dump_yaml, load
from vsr.experiments.config.yaml_reader import read_yaml
from vsr.experiments.devices import check_implementation
from vsr.experiments.estimate import (
    memory_lines,
    needs_of_experiment,
    needs_of_scene,
    operations_of,
    require_memory,
    seconds_of,
)
from vsr.experiments.evaluate.sets import EvaluationSet, load_set
from vsr.experiments.evolve.evaluation import evaluate_all
from vsr.experiments.evolve.generation import ask, most_at_once, search_shapes, tell, when_shapes
from vsr.experiments.experiment import Experiment, grid_name
from vsr.experiments.landscape.command import costs
from vsr.experiments.landscape.spec import load_landscape
from vsr.experiments.numbers import count, lasting
from vsr.experiments.reproduce.reading import StudyFile, is_study, load_study
from vsr.experiments.shipped import EXPERIMENT, LANDSCAPE, SCENE, SET, STUDY, find_config, kind_of
from vsr.scene import Scene, precision
from vsr.tasks import Summary

TRIED = 8
"""Random individuals of which one should have a body."""


def check_file(given: str, settings: Sequence[str] = (), *, run_plugins: bool = False) -> list[tuple[str, str]]:
    """What would be run, as names and values; raises ConfigError with every fault."""
    path = find_config(given, EXPERIMENT, SCENE, STUDY, SET, LANDSCAPE)
    kind = kind_of(read_yaml(path).data)
    if kind == SET:
        return _check_set(load_set(path, run_plugins=run_plugins), path, settings)
    if kind == LANDSCAPE:
        landscape = load_landscape(path, settings, run_plugins=run_plugins)
        check_implementation(landscape.physics)
        with precision(landscape.physics.precision):
            return costs(landscape)
    if is_study(path):
        return _check_study(load_study(path, run_plugins=run_plugins), settings)
    described = load(path, settings, run_plugins=run_plugins)
    check_implementation(described.physics)
    with precision(described.physics.precision):
        if isinstance(described, Experiment):
            return _check_experiment(described, given)
        return _check_scene(described, given)


def _check_set(described: EvaluationSet, path: Path, settings: Sequence[str]) -> list[tuple[str, str]]:
    if settings:
        raise UserError(f"{path}: --set is for experiments and scenes; change the file")
    axes = {"tasks": described.tasks, "terrains": described.terrains, "faults": described.faults}
    of_starts = f"{described.take} of {count(described.starts)} starts" if described.starts > 1 else "one start"
    return [
        ("set", f"{count(len(described.cases))} cases, {of_starts}"),
        *((name, ", ".join(cases)) for name, cases in axes.items()),
    ]


def _check_study(file: StudyFile, settings: Sequence[str]) -> list[tuple[str, str]]:
    """Every experiment as its file has it, traced; then on every scale, only built."""
    lines = [("study", file.study.title)]
    for name in file.study.experiments:
        experiment = file.experiment(name, settings)
        with precision(experiment.physics.precision):
            lines.append((name, dict(_check_experiment(experiment, name))["genes"]))
    for scale, described in file.study.scales.items():
        names = described.experiments or tuple(file.study.experiments)
        experiments = [file.experiment(name, (*described.settings(name), *settings)) for name in names]
        evaluations = sum(len(e.seeds) * e.ea.n_pop * e.generations for e in experiments)
        lines.append((f"scale {scale}", f"{len(names)} experiments, {count(evaluations)} evaluations"))
    return lines


def _check_experiment(experiment: Experiment, what: str) -> list[tuple[str, str]]:
    """What an experiment would do and need; what: how it is called in a refusal."""
    needs = needs_of_experiment(experiment)
    require_memory(what, needs)
    search = search_shapes(experiment)
    asked = jax.eval_shape(partial(ask, experiment), search)
    evaluate = partial(evaluate_all, experiment, most_at_once(experiment))
    genes = (asked.genes,) * len(experiment.seeds)
    program, evaluations = jax.make_jaxpr(evaluate, return_shape=True)(genes, *when_shapes(experiment))
    jax.eval_shape(partial(tell, experiment), search, asked, evaluations[0])
    _describe_someone(experiment)
    robots = len(experiment.seeds) * experiment.ea.n_pop
    schedule = experiment.schedule()
    return [
        ("experiment", f"{experiment.fitness.direction} {experiment.fitness.measure}"),
        ("grid", f"{grid_name(experiment)} cells of {experiment.robot.body.masses}"),
        ("genes", _genes(experiment)),
        (
            "robots in a generation",
            f"{count(robots)} ({count(experiment.ea.n_pop)} for each of {len(experiment.seeds)} seeds)",
        ),
        ("generations", count(experiment.generations)),
        ("evaluations", count(robots * experiment.generations)),
        *_starts(experiment),
        *_times(schedule),
        *memory_lines(needs),
        *_duration(experiment, seconds_of(operations_of(program))),
    ]


def _duration(experiment: Experiment, seconds: float) -> list[tuple[str, str]]:
    """How long a run should take, from the time of a generation [s]."""
    device = f"{count(jax.device_count())} {jax.default_backend()} device{'s' if jax.device_count() > 1 else ''}"
    whole = f"about {lasting(seconds * experiment.generations)}, after compiling"
    return [("time of a generation", f"about {lasting(seconds)} on {device}"), ("time of the run", whole)]


def _starts(experiment: Experiment) -> list[tuple[str, str]]:
    """What is simulated for every evaluation, if it is more than one episode."""
    said = [experiment.evaluation.summary] if experiment.evaluation.summary else []
    cost = experiment.episodes() / experiment.ea.n_pop
    if not said and cost == 1:
        return []
    learning = experiment.learning
    said += [] if learning is None else [f"after {learning.steps} steps of learning ({learning.inheritance})"]
    lines = [("fitness", ", ".join(said))] if said else []
    return [*lines, ("cost of an evaluation", f"{cost:.3g} episodes in the mean")]


def _describe_someone(experiment: Experiment) -> None:
    """Make the file of a random individual, as a checkpoint does of the best; some genes give no body."""
    genes = experiment.robot.sample(jax.random.key(0), TRIED)
    for index in range(TRIED):
        scene = experiment.scene({part: np.asarray(leaf[index]) for part, leaf in genes.items()})
        if scene is not None:
            dump_yaml(scene)
            return


def _episode(scenario: Scenario, controller: Controller) -> Summary:
    return rollout(scenario, controller, reset(jax.random.key(0), scenario))


def _check_scene(scene: Scene, what: str) -> list[tuple[str, str]]:
    needs = needs_of_scene(scene)
    require_memory(what, needs)
    schedule = scene.schedule()
    jax.eval_shape(lambda: _episode(*scene.build()))
    return [("scene", f"{int(scene.robot.body.present.sum())} voxels"), *_times(schedule), *memory_lines(needs)]


def _genes(experiment: Experiment) -> str:
    body, controller = experiment.robot.body, experiment.robot.controller
    return f"{count(body.gene_count)} for the body, {count(controller.gene_count(body))} for the controller"


def _times(schedule) -> list[tuple[str, str]]:
    return [
        ("episode", f"{schedule.total_time:g} s, {schedule.steps} steps of {schedule.time_step:.4g} s"),
        ("substeps", f"{schedule.substeps} per step, {1000 * schedule.substep:.3g} ms each"),
        ("control", f"every {schedule.steps_per_call * schedule.time_step:.4g} s"),
    ]
