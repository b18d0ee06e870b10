"""The work of `vsr check`: build and trace all that a file asks for, and simulate a few robots for a moment.

A description can be valid and yet all robots fail, as when they fall from too high. So some land before it is called
valid.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from vsr.controllers import Controller
from vsr.episode import Scenario, reset, rollout
from vsr.experiments.config import UserError, dump_yaml, load
from vsr.experiments.config.yaml import read_yaml
from vsr.experiments.devices import check_implementation
from vsr.experiments.evaluate.sets import EvaluationSet, load_set
from vsr.experiments.evolve.fitness import evaluate_all, evaluation_of
from vsr.experiments.evolve.generation import ask, most_at_once, search_shapes, tell, when_shapes
from vsr.experiments.experiment import Experiment, grid_name
from vsr.experiments.formatting import count
from vsr.experiments.landscape.command import costs
from vsr.experiments.landscape.spec import load_landscape
from vsr.experiments.memory import memory_lines, needs_of_experiment, needs_of_scene, require_memory
from vsr.experiments.perturbation import perturbations_of
from vsr.experiments.population import on_all_devices
from vsr.experiments.run_time import operations_of, seconds_of, time_lines
from vsr.experiments.shipped import EXPERIMENT, LANDSCAPE, SCENE, SET, STUDY, find_config, kind_of
from vsr.experiments.study import StudyFile, is_study, load_study
from vsr.physics.failure import Failure, failure_summary, remedies
from vsr.scene import Scene, precision
from vsr.tasks import Summary, Task
from vsr.world.spec import World

DRAWN = 64
"""Random individuals of which one should have a body, and ..."""
TRIED = 8
"""... of which this number is simulated, where that is quick."""
LANDED = 1.0
"""How long they are simulated after they should have landed [s]."""
PATIENCE = 3.0
"""Longest time that their simulation should take [s]."""
UNOPTIMIZED = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
"""For processors: compiled in a fifth of the time, as programs are that run once for a moment ..."""
SLOWER = 25.0
"""... and up to this factor slower."""


def check_file(given: str, settings: Sequence[str] = (), *, run_plugins: bool = False) -> list[tuple[str, str]]:
    """The settings of a file, as names and values; raises ConfigError with every fault."""
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
    of_trials = f"{described.aggregate} of {count(described.trials)} trials" if described.trials > 1 else "one start"
    return [
        ("set", f"{count(len(described.cases))} cases, {of_trials}"),
        *((name, ", ".join(cases)) for name, cases in axes.items()),
    ]


def _check_study(file: StudyFile, settings: Sequence[str]) -> list[tuple[str, str]]:
    """The first experiment of every file, traced; all others, and all on every scale, only built."""
    lines = [("study", file.study.title)]
    traced = {file.file(name): name for name in reversed(file.study.experiments)}
    for name in file.study.experiments:
        experiment = file.experiment(name, settings)
        if traced[file.file(name)] == name:
            with precision(experiment.physics.precision):
                _check_experiment(experiment, name, simulated=False)
        lines.append((name, _genes(experiment)))
    for scale, described in file.study.scales.items():
        names = described.experiments or tuple(file.study.experiments)
        experiments = [file.experiment(name, (*described.settings(name), *settings)) for name in names]
        evaluations = sum(len(e.seeds) * e.optimizer.population_size * e.generations for e in experiments)
        lines.append((f"scale {scale}", f"{len(names)} experiments, {count(evaluations)} evaluations"))
    return lines


def _check_experiment(experiment: Experiment, what: str, *, simulated: bool = True) -> list[tuple[str, str]]:
    """Work and needs of an experiment; what: its name in a refusal; simulated: whether robots land."""
    needs = needs_of_experiment(experiment)
    require_memory(what, needs)
    search = search_shapes(experiment)
    asked = jax.eval_shape(partial(ask, experiment), search)
    evaluate = partial(evaluate_all, experiment, most_at_once(experiment))
    genes = (asked.genes,) * len(experiment.seeds)
    program, evaluations = jax.make_jaxpr(evaluate, return_shape=True)(genes, *when_shapes(experiment))
    jax.eval_shape(partial(tell, experiment), search, asked, evaluations[0])
    seconds = seconds_of(operations_of(program))
    tried = _describe_someone(experiment)
    landed = _land(experiment, what, tried, seconds) if simulated else []
    robots = len(experiment.seeds) * experiment.optimizer.population_size
    schedule = experiment.schedule()
    return [
        ("experiment", f"{experiment.fitness.direction} {experiment.fitness.measure}"),
        ("grid", f"{grid_name(experiment)} cells of {experiment.robot.body.engine}"),
        ("genes", _genes(experiment)),
        (
            "robots in a generation",
            f"{count(robots)} ({count(experiment.optimizer.population_size)} in each of {len(experiment.seeds)} seeds)",
        ),
        ("generations", count(experiment.generations)),
        ("evaluations", count(robots * experiment.generations)),
        *_trials_text(experiment),
        *_times(schedule),
        *memory_lines(needs),
        *time_lines(seconds, experiment.generations),
        *landed,
    ]


def _trials_text(experiment: Experiment) -> list[tuple[str, str]]:
    """Simulations of every evaluation, if it is more than one episode."""
    options = experiment.evaluation
    said = [options.summary] if options.summary else []
    cost = experiment.episodes() / experiment.optimizer.population_size
    if not said and cost == 1:
        return []
    learning = experiment.learning
    said += [] if learning is None else [f"after {learning.steps} steps of learning ({learning.inheritance})"]
    lines = [("fitness", ", ".join(said))] if said else []
    lines.append(("cost of an evaluation", f"{cost:.3g} episodes in the mean"))
    if options.confirm is None:
        return lines
    last, all_of_it = len(experiment.seeds) * options.last_cost, experiment.generations * experiment.episodes()
    share = 100 * last / (len(experiment.seeds) * all_of_it)
    said = f"{options.confirmation}, {count(last)} episodes at the end: {share:.2g} % of the run"
    return [*lines, ("reported fitness", said)]


def _describe_someone(experiment: Experiment) -> list[int]:
    """Make the file of a random individual, as a checkpoint does of the best; which of those drawn have a body.

    Some genes give no body.
    """
    genes, found = _sample_robots(experiment), []
    for index in range(DRAWN):
        own = {part: np.asarray(leaf[index]) for part, leaf in genes.items()}
        if not found and (scene := experiment.scene(own)) is not None:
            dump_yaml(scene)
            found.append(index)
        elif found and experiment.robot.describe(own, experiment.task.duration) is not None:
            found.append(index)
        if len(found) == TRIED:
            break
    return found


def _sample_robots(experiment: Experiment) -> Any:
    return experiment.robot.sample(jax.random.key(0), DRAWN)


def _land(experiment: Experiment, what: str, tried: Sequence[int], seconds: float) -> list[tuple[str, str]]:
    """Let some random robots land, and report those that failed; seconds: that a generation should take."""
    if not tried:
        _report(what, {Failure.empty: DRAWN}, DRAWN, 0.0)
    episodes = experiment.episodes() * len(experiment.seeds)
    each = seconds * jax.device_count() / (episodes * experiment.task.duration)
    moment = _moment(experiment.task, experiment.world, each, len(tried))
    places = jnp.array(tried[: moment.robots])
    genes = jax.tree.map(lambda leaf: leaf[places], _sample_robots(experiment))
    short = experiment.model_copy(update={"task": _shortened(experiment.task, moment.seconds)})
    options, evaluation = experiment.evaluation, evaluation_of(short)
    dtype, grounds = jnp.dtype(experiment.physics.precision), 1 + len(options.terrains)
    start = jax.tree.map(
        lambda leaf: leaf[0], perturbations_of(options.jitter, 1, dtype, randomize=options.randomize, grounds=grounds)
    )
    at_once = math.ceil(moment.robots / jax.device_count())
    failure = _run(lambda own: on_all_devices(lambda one: evaluation(one, start).failure, own, at_once), genes)
    return _report(what, Counter(map(Failure, np.asarray(failure).tolist())), moment.robots, moment.seconds)


class _Moment(NamedTuple):
    """How many robots are simulated, and for how long."""

    robots: int
    seconds: float


def _moment(task: Task, world: World, each: float, robots: int) -> _Moment:
    """Long enough to land; each: what a simulated second of one robot should take [s]; robots: that there are."""
    fall = math.sqrt(2 * task.placement.clearance / world.gravity) if world.gravity and world.terrain else 0.0
    wanted = min(task.duration, fall + LANDED)
    slower = SLOWER if jax.default_backend() == "cpu" else 1.0
    affordable = PATIENCE * jax.device_count() / (slower * max(each, 1e-12))  # robots times seconds
    robots = max(min(robots, jax.device_count()), min(robots, int(affordable / wanted)))
    return _Moment(robots, min(wanted, max(affordable / robots, min(task.duration, 1.2 * fall))))


def _shortened(task: Task, seconds: float) -> Task:
    return task.model_copy(update={"duration": seconds})


def _run(function: Callable[..., Any], *arguments: Any) -> Any:
    """Compile quickly and call once."""
    options = UNOPTIMIZED if jax.default_backend() == "cpu" else {}
    return jax.jit(function).lower(*arguments).compile(compiler_options=options)(*arguments)


def _report(what: str, failures: Mapping[Failure, int], robots: int, seconds: float) -> list[tuple[str, str]]:
    """A line about those that failed, if some did; raises UserError if all did."""
    failures = {reason: number for reason, number in failures.items() if reason}
    said = f"{failure_summary(failures, robots)}, within {seconds:.2g} s"
    if sum(failures.values()) == robots:
        who = "its robot" if robots == 1 else "random robots"
        advice = f"what mostly helps: {remedies(failures)}"
        raise UserError(f"{what}: the description is valid, but {who} cannot be simulated: {said}; {advice}")
    none = f"{count(robots)} robot{'s' if robots > 1 else ''} for {seconds:.2g} s, none failed"
    return [("tried", said if failures else none)]


def _episode(scenario: Scenario, controller: Controller) -> Summary:
    return rollout(scenario, controller, reset(jax.random.key(0), scenario))


def _check_scene(scene: Scene, what: str) -> list[tuple[str, str]]:
    needs = needs_of_scene(scene)
    require_memory(what, needs)
    schedule = scene.schedule()
    program = jax.make_jaxpr(lambda: _episode(*scene.build()))()
    each = seconds_of(operations_of(program)) / schedule.total_time
    moment = _moment(scene.task, scene.world, each, 1)
    short = scene.model_copy(update={"task": _shortened(scene.task, moment.seconds)})
    failure = _run(lambda *built: _episode(*built).failure, *short.build())
    return [
        ("scene", f"{int(scene.robot.body.present.sum())} voxels"),
        *_times(schedule),
        *memory_lines(needs),
        *_report(what, {Failure(int(failure)): 1}, 1, moment.seconds),
    ]


def _genes(experiment: Experiment) -> str:
    body, controller = experiment.robot.body, experiment.robot.controller
    return f"{count(body.gene_count)} for the body, {count(controller.gene_count(body))} for the controller"


def _times(schedule) -> list[tuple[str, str]]:
    return [
        ("episode", f"{schedule.total_time:g} s, {schedule.steps} steps of {schedule.time_step:.4g} s"),
        ("substeps", f"{schedule.substeps} per step, {1000 * schedule.substep:.3g} ms each"),
        ("control", f"every {schedule.control_every * schedule.time_step:.4g} s"),
    ]
