"""The Python entry: `vsr.evolve`, `vsr.evaluate` and `vsr.load` do what the commands do, and return objects."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from rich.console import Console

from vsr.experiments.config import load as load_file
from vsr.experiments.config import load_experiment, load_scene, parse_experiment
from vsr.experiments.config.problems import UserError, worded_for_python
from vsr.experiments.devices import check_implementation, prepare
from vsr.experiments.evolve.command import require_free, run_experiment
from vsr.experiments.evolve.display import Display, PlainLines, Progress
from vsr.experiments.experiment import Experiment
from vsr.experiments.memory import needs_of_scene, require_memory
from vsr.experiments.perturbation import MOST_TRIALS, InitialNoise, perturbations_of, rollout_from
from vsr.experiments.resimulate import batches_of, job_of, simulate_jobs
from vsr.experiments.shipped import EXPERIMENT, SCENE, find_config, source_of
from vsr.experiments.storage.robots import load_robot, robot_file
from vsr.experiments.storage.run_folder import is_run
from vsr.experiments.storage.runs import Run, as_frame, read_run, trust_plugins
from vsr.experiments.storage.sources import with_registered
from vsr.physics.failure import Failure
from vsr.scene import Scene, precision
from vsr.spec import Spec
from vsr.tasks import MEASURES, TASKS
from vsr.tasks.measures import PYTHON, Combined

GIVEN = "experiment"
"""What messages call one that is not from a file."""
FitnessFunction = Callable[[Mapping[str, Array]], Any]
"""From the measures of one episode, by name, to its fitness, ()."""


@worded_for_python()
def evolve(
    experiment: Experiment | Mapping[str, Any] | str | Path,
    *,
    fitness: FitnessFunction | None = None,
    settings: Mapping[str, Any] | None = None,
    seeds: int | Sequence[int] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    on_generation: Callable[[Progress], object] | None = None,
    quiet: bool = False,
    device: str | None = None,
) -> Run:
    """Run an experiment to its end: the same robots, folder and digits as by `vsr evolve`.

    In a notebook the curve grows and the best robot so far moves while it runs.

    Args:
        experiment: a description, what its file would hold, a file, or the name of a shipped one.
        fitness: a function from the measures of an episode, by name, to one number, more of which is better:
            `lambda measures: measures["relative_velocity"] - 0.1 * measures["average_squared_control"]`.
            JAX traces it, so use `jax.numpy` and no `if` on values. It takes the place of the experiment's fitness.
            Run folders hold its text but not the function: give it again to resume or to load the run.
        settings: values over those of the experiment, by path: `{"optimizer.population_size": 64}`.
        seeds: how many, from 0, or which.
        out: the run's folder, by default a new one among temporary files.
        resume: go on with the run in `out`.
        on_generation: called after every generation with its `Progress`.
        quiet: show no progress.
        device: "cpu" or "gpu"; by default a GPU if there is one.

    Returns:
        The run: statistics, best robots, `plot`, `report`, `table`, `archives`.

    Raises:
        UserError: with what to do. After Ctrl-C the run is saved, and can go on with `resume`.
    """
    changes = dict(settings or {})
    if fitness is not None:
        changes["fitness"] = {"measure": register_fitness(fitness)}
    described, given, source = _described(experiment, changes, seeds)
    _require_measures(described)
    described = with_registered(described.resolved())
    path = Path(tempfile.mkdtemp(prefix="vsr-")) / GIVEN if out is None else Path(out)
    require_free(path, described, resume)
    prepare(device)
    shown = _display(described, path, quiet)
    lines = isinstance(shown, PlainLines) and not quiet  # a panel shows by itself what takes long
    run_experiment(
        described,
        path,
        given=given,
        source=source,
        resume=resume,
        display=_Watched(shown, on_generation),
        waiting=None if lines else shown.say,
    )
    return read_run(path)


@worded_for_python()
def load(
    path: str | Path, *, fitness: FitnessFunction | None = None, run_plugins: bool = False
) -> Run | Scene | Experiment:
    """What a folder or a file holds.

    Args:
        path: a run's folder, or the file of a robot in its scene or of an experiment; or a shipped one's name.
        fitness: the function that the run evolved with, if its fitness was one in Python.
        run_plugins: run the code of the plugins that it names.

    Returns:
        A run, a scene, or an experiment.

    Raises:
        UserError: with every fault, and what to do.
    """
    if fitness is not None:
        register_fitness(fitness)
    if run_plugins:
        trust_plugins([path])
    if is_run(Path(path)):
        return read_run(path)
    return load_file(find_config(path, SCENE, EXPERIMENT), run_plugins=run_plugins)


# Fitness as a function in Python


def register_fitness(function: FitnessFunction) -> str:
    """Make a function of measures a measure; returns its name. Raises UserError if it cannot be one."""
    own = getattr(function, "__name__", "")
    name = PYTHON + (own if own.isidentifier() else "fitness")
    known = {*MEASURES, *(measure for task in TASKS.values() for measure in task.own_measures)} - {name}
    asked: list[str] = []
    try:
        values = dict.fromkeys(sorted(known), jax.ShapeDtypeStruct((), jnp.float32))
        found = jax.eval_shape(lambda measures: jnp.asarray(function(_Asked(measures, asked))), values)
    except jax.errors.ConcretizationTypeError:
        raise UserError(f"{name}: it decides by the value of a measure: use jnp.where instead of `if`") from None
    except _UnknownMeasureError as error:
        raise UserError(f"{name}: there is no measure '{error}'; there are {', '.join(sorted(known))}") from None
    if found.shape != ():
        raise UserError(f"{name}: it returns an array {found.shape}; a fitness is one number")
    if not asked:
        raise UserError(f"{name}: it reads no measure, so that all robots would be equally fit")
    MEASURES.pop(name, None)  # a function may be changed and given again
    MEASURES[name] = Combined(function, frozenset(asked))
    return name


class _UnknownMeasureError(KeyError):
    def __str__(self) -> str:
        return str(self.args[0])


class _Asked(Mapping[str, Array]):
    """All measures, which notes those that are read."""

    def __init__(self, values: Mapping[str, Array], asked: list[str]):
        self._values, self._asked = values, asked

    def __getitem__(self, name: str) -> Array:
        if name not in self._values:
            raise _UnknownMeasureError(name)
        self._asked.append(name)
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def _require_measures(experiment: Experiment) -> None:
    """Raise UserError if the function that the fitness is reads what the task does not measure."""
    name = experiment.fitness.measure
    known = experiment.task.known_measures()
    missing = sorted(getattr(known.get(name), "reads", frozenset()) - set(known))
    if missing:
        raise UserError(f"{name}: this task has no {' and no '.join(missing)}; it measures {', '.join(known)}")


# Many robots at once


@dataclass(frozen=True)
class Measured:
    """Measures of many robots."""

    names: tuple[str, ...]
    """of the robots"""
    measures: dict[str, np.ndarray]
    """by name, in SI units, (robots, trials); not a number where an episode failed or its task does not measure it"""
    failures: np.ndarray
    """why an episode is no use, a `vsr.physics.failure.Failure`, 0 for none, (robots, trials)"""

    def __getitem__(self, measure: str) -> np.ndarray:
        """A measure of all robots, (robots, trials)."""
        return self.measures[measure]

    def __len__(self) -> int:
        return len(self.names)

    def table(self) -> Any:
        """As columns, an entry for every robot and trial: a pandas.DataFrame, or arrays by name where no pandas is."""
        robots, trials = self.failures.shape
        columns = {
            "robot": np.repeat(np.array(self.names, object), trials),
            "trial": np.tile(np.arange(trials), robots),
            **{name: values.reshape(-1) for name, values in self.measures.items()},
            "failure": np.array([Failure(int(one)).name for one in self.failures.reshape(-1)], object),
        }
        return as_frame(columns)


@worded_for_python()
def evaluate(
    robots: Scene | Run | str | Path | Sequence[Scene | Run | str | Path],
    *,
    trials: int = 1,
    device: str | None = None,
    on_episodes: Callable[[int], None] | None = None,
) -> Measured:
    """Simulate many robots in their scenes, all whose grids and worlds are alike in one batch.

    Args:
        robots: scenes, files, names of shipped scenes, and runs, of which every seed's best robot is taken.
        trials: episodes of each robot. The first is undisturbed, as by `vsr.simulate`; in the others it falls from up
            to a millimeter higher (in proportion to its voxels), which shows whether a gait is luck.
        device: "cpu" or "gpu"; by default a GPU if there is one.
        on_episodes: called after every batch with the number of its episodes.

    Returns:
        The measures that each task asks for, by name, (robots, trials) each.

    Raises:
        UserError: with what to do.
    """
    if not 1 <= trials <= MOST_TRIALS:
        raise UserError(f"trials: {trials} given; from 1 to {MOST_TRIALS}")
    given = [robots] if isinstance(robots, (Scene, Run, str, Path)) else list(robots)
    named = [one for index, robot in enumerate(given) for one in _scenes_of(robot, index)]
    if not named:
        raise UserError("robots: none given")
    prepare(device)
    scenes = [scene for _, scene in named]
    for name, scene in named:
        check_implementation(scene.physics)
        require_memory(name, needs_of_scene(scene, recorded=False))
    batches = batches_of(scenes, [scene.task.measures for scene in scenes], Scene.build)
    jobs, everyone = [], range(len(scenes))
    for batch in batches:
        scene = scenes[batch.rows[0]]
        with precision(batch.precision):
            jitter = InitialNoise().for_voxels(scene.robot.body)
            starts = perturbations_of(jitter, trials, jnp.dtype(batch.precision))
        jobs.append(job_of(batch, everyone, 0, 1, starts, _measure_all))
    failures = np.zeros((len(scenes), trials), int)
    measures: dict[str, np.ndarray] = {}
    for job, (own, failure) in simulate_jobs(jobs, on_episodes or (lambda episodes: None)):
        failures[job.rows] = failure[:, 0]
        for name, values in own.items():
            measures.setdefault(name, np.full(failures.shape, np.nan))[job.rows] = values[:, 0]
    return Measured(tuple(name for name, _ in named), measures, failures)


def _measure_all(robot: Any, trial: Any, shared: Any) -> Any:
    """All that the task measures, and the failure, of one episode."""
    scenario, controller = robot
    episode = rollout_from(scenario, controller, trial)
    return scenario.task.evaluate(episode), episode.failure


def _scenes_of(robot: Scene | Run | str | Path, index: int) -> list[tuple[str, Scene]]:
    """Each with a name."""
    if isinstance(robot, Scene):
        return [(f"robot {index}", robot)]
    if isinstance(robot, Run) or is_run(Path(robot)):
        run = robot if isinstance(robot, Run) else read_run(robot)
        files = {seed: robot_file(run.path, seed) for seed in run.seeds}
        found = [(f"{run.name}, seed {seed}", load_robot(file)) for seed, file in files.items() if file.is_file()]
        if not found:
            raise UserError(f"{run.path}: it keeps no best robot yet")
        return found
    return [(Path(robot).stem, load_scene(find_config(robot, SCENE)))]


# Parts of evolve


def _described(
    experiment: Experiment | Mapping[str, Any] | str | Path,
    settings: Mapping[str, Any],
    seeds: int | Sequence[int] | None,
) -> tuple[Experiment, str, str]:
    """The experiment, what messages call it and where it is from."""
    changes = [f"{path}={json.dumps(value)}" for path, value in settings.items()]
    if seeds is not None:
        changes.append(f"seeds={json.dumps(seeds if isinstance(seeds, int) else list(seeds))}")
    if isinstance(experiment, (str, Path)):
        file = find_config(experiment, EXPERIMENT)
        return load_experiment(file, changes, run_plugins=True), str(experiment), source_of(file)
    plain = experiment.to_plain() if isinstance(experiment, Experiment) else dict(experiment)
    text = json.dumps(plain, default=Spec.to_plain)
    return parse_experiment(text, f"<{GIVEN}>", changes, run_plugins=True), GIVEN, "Python"


def _display(experiment: Experiment, path: Path, quiet: bool) -> Display:
    """A panel that is redrawn in a notebook, lines elsewhere."""
    if not quiet:
        from vsr.experiments.notebook import in_notebook, open_panel

        if in_notebook():
            return open_panel(experiment, path)
    return PlainLines(experiment, Console(quiet=quiet))


class _Watched:
    """A display that calls a function after every generation too."""

    def __init__(self, shown: Display, on_generation: Callable[[Progress], object] | None):
        self.shown, self.on_generation = shown, on_generation

    def say(self, text: str) -> None:
        self.shown.say(text)

    def show(self, progress: Progress) -> None:
        self.shown.show(progress)
        if self.on_generation is not None:
            self.on_generation(progress)

    def close(self) -> None:
        self.shown.close()
