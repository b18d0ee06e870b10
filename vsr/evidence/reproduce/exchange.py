"""Winners exchanged: every seed's best robot of every experiment in the worlds of all, and what it does there.

A robot is simulated abroad just as the natives are: with the world, the task and the steps of their experiment. Its
result is the lesser of two medians over trials, with default and with the smallest time steps, so that nothing counts
which exists at one step size or in one trial only. Failures are kept, counted and worse than any other result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array
from pydantic import ValidationError

from vsr.arrays import CorruptFileError
from vsr.controllers import Controller
from vsr.episode import Scenario, record
from vsr.evidence.reproduce.gait import gait_of
from vsr.experiments.claims import GAIT, Exchange
from vsr.experiments.config.problems import UserError
from vsr.experiments.experiment import Experiment
from vsr.experiments.perturbation import InitialNoise, Perturbation, perturbations_of, reset_perturbed
from vsr.experiments.refine import stamp
from vsr.experiments.resimulate import Job, batches_of, job_of, simulate_jobs
from vsr.experiments.storage.files import read_checked_json, without_nan, write_checked_json
from vsr.experiments.storage.provenance import describe_session
from vsr.experiments.storage.robots import load_robot, robot_file
from vsr.experiments.storage.runs import Run
from vsr.physics.engine import ENGINES, assemble_body
from vsr.physics.failure import Failure
from vsr.robot import Body
from vsr.scene import Scene, precision
from vsr.world.build import build_beds

STORED = "exchange.json"
HIGHER = 1e-3
"""Largest difference in start height [m]."""
BEDS, FIRST_BED = 4, 2000
"""Beds of grains that trials alternate among, and the number of the first of them, counted from the world's."""


def exchange(
    runs: Mapping[str, Run], folder: Path, factors: Sequence[int], trials: int, say: Callable[[str], None]
) -> Exchange:
    """Simulate all in all worlds that are not stored yet; what is stored after each world outlives a kill."""
    goals = {(run.experiment.fitness.measure, run.experiment.fitness.direction) for run in runs.values()}
    if len(goals) > 1 or goals.pop()[1] != "maximize":
        raise UserError("winners cannot be exchanged: all experiments must maximize the same measure")
    identity = _identity(runs)
    stored = _stored(folder)
    if stored is None or any(stored.get(key) != value for key, value in _request(identity, factors, trials).items()):
        stored = {**_request(identity, factors, trials), "worlds": {}}
    scenes = robots_of(runs)
    stored["body"] = _bodies([None if scene is None else scene.robot.body for scene in scenes])
    lacking = {name: run.experiment for name, run in runs.items() if name not in stored["worlds"]}
    if lacking:
        say(f"{sum(scene is not None for scene in scenes)} robots in the worlds of {', '.join(lacking)}")
    for name, found in _in_worlds(scenes, lacking, factors, trials):
        stored["worlds"][name] = {**found, "made": describe_session(0)}
        write_checked_json(folder / STORED, without_nan(stored))
        say(f"the world of {name} is done")
    found = read_exchange(runs, folder)
    assert found is not None
    return found


def read_exchange(runs: Mapping[str, Run], folder: Path) -> Exchange | None:
    """The stored exchange of these very runs; None if there is none, or not all of it."""
    stored = _stored(folder)
    if stored is None or stored.get("runs") != _identity(runs) or set(stored["worlds"]) != set(runs):
        return None
    worlds = [stored["worlds"][name] for name in runs]
    return Exchange(
        names=tuple(runs),
        home=np.repeat(np.arange(len(runs)), [len(run.experiment.seeds) for run in runs.values()]),
        factors=tuple(stored["factors"]),
        measured=np.stack([np.array(world["measured"], float) for world in worlds], 1),
        failure=np.stack([np.array(world["failure"], int) for world in worlds], 1),
        gait={name: np.stack([np.array(world["gait"][name], float) for world in worlds], 1) for name in GAIT},
        body={name: np.array(values, float) for name, values in stored["body"].items()},
    )


def robots_of(runs: Mapping[str, Run]) -> list[Scene | None]:
    """Every seed's best of every run, None where all failed."""
    files = [robot_file(run.path, seed) for run in runs.values() for seed in run.experiment.seeds]
    return [load_robot(file) if file.exists() else None for file in files]


def move_to_world(scene: Scene, experiment: Experiment) -> Scene:
    """A robot as the natives of another experiment are simulated."""
    plugins = tuple(dict.fromkeys((*scene.plugins, *experiment.plugins)))
    there = experiment.resolved()
    try:
        return Scene(plugins=plugins, robot=scene.robot, world=there.world, task=there.task, physics=there.physics)
    except ValidationError as error:
        reasons = "; ".join(str(fault["msg"]) for fault in error.errors())
        raise UserError(f"winners cannot be exchanged: a robot does not fit another world: {reasons}") from None


def _identity(runs: Mapping[str, Run]) -> dict[str, Any]:
    return {name: stamp(run) for name, run in runs.items()}


def _request(identity: dict[str, Any], factors: Sequence[int], trials: int) -> dict[str, Any]:
    return {"runs": identity, "factors": list(factors), "trials": trials}


def _stored(folder: Path) -> dict[str, Any] | None:
    try:
        stored = read_checked_json(folder / STORED)
    except CorruptFileError:
        return None
    return stored if isinstance(stored.get("worlds"), dict) else None


def _bodies(bodies: Sequence[Body | None]) -> dict[str, list[float]]:
    present = [None if body is None else body.present for body in bodies]
    return {
        "voxels": [np.nan if here is None else float(here.sum()) for here in present],
        "width": [np.nan if here is None else float(here.any(0).sum()) for here in present],
        "height": [np.nan if here is None else float(here.any(1).sum()) for here in present],
    }


def _in_worlds(
    scenes: Sequence[Scene | None], worlds: Mapping[str, Experiment], factors: Sequence[int], trials: int
) -> Iterator[tuple[str, dict[str, Any]]]:
    """All robots in the worlds of experiments, as plain data, one world after the other."""
    jobs = {name: _jobs(scenes, experiment, factors, trials) for name, experiment in worlds.items()}
    found = simulate_jobs([job for own in jobs.values() for job in own])
    for name, own in jobs.items():
        yield name, _in_world([next(found) for _ in own], (len(scenes), len(factors), trials))


def _jobs(scenes: Sequence[Scene | None], experiment: Experiment, factors: Sequence[int], trials: int) -> list[Job]:
    """Every batch of robots in the world of an experiment, with time steps smaller by each factor."""
    known = [row for row, scene in enumerate(scenes) if scene is not None]
    there = [move_to_world(scene, experiment) for scene in scenes if scene is not None]
    jobs = []
    for batch in batches_of(there, [None] * len(there), _built):
        with precision(batch.precision):
            differing = _trials(trials, jnp.dtype(batch.precision), loose=experiment.world.is_loose)
        episode = _Recorded(experiment.fitness.measure)
        jobs += [job_of(batch, known, i, factor, differing, episode) for i, factor in enumerate(factors)]
    return jobs


def _in_world(found: Sequence[tuple[Job, Any]], shape: tuple[int, int, int]) -> dict[str, Any]:
    """Results of all robots in one world; shape: (robots, factors, trials)."""
    measured = np.full(shape, np.nan)
    failure = np.full(shape, int(Failure.empty))
    gait = {name: np.full(shape[0], np.nan) for name in GAIT}
    for job, (values, codes, seen) in found:
        where = np.ix_(job.rows, job.columns)
        measured[where], failure[where] = values, codes
        if job.columns == [0]:
            for name in GAIT:
                gait[name][job.rows] = _middle_of_known(seen[name][:, 0])
    return {
        "measured": _short(measured),
        "failure": failure.tolist(),
        "gait": {name: _short(values) for name, values in gait.items()},
    }


def _built(scene: Scene) -> tuple[Scenario, Controller]:
    """With as many layers as any body of the grid may need, so that all robots of a grid are simulated together."""
    if scene.robot.body.dimension != 2:
        raise UserError("winners cannot be exchanged: how they touch the ground is measured of 2-D robots only")
    scenario, controller = scene.build()
    body, engine = scene.robot.body, ENGINES[scene.robot.body.engine]
    model = assemble_body(
        body,
        dtype=jnp.dtype(scene.physics.precision),
        integrator=scene.physics.integrator,
        layers=engine.most_layers(body.dimension),
    )
    systems = scenario.world.systems
    if scene.world.is_loose:  # on beds that no robot was selected on, and on which no fitness was measured
        first = int(getattr(scene.world.terrain, "bed", 0)) + FIRST_BED
        dtype = jnp.dtype(scene.physics.precision)
        systems = build_beds(scene.world, body, scene.schedule(), dtype, range(first, first + BEDS))
    return replace(scenario, world=replace(scenario.world, robots=(model,), systems=systems)), controller


def _trials(count: int, dtype: jnp.dtype, *, loose: bool) -> Perturbation:
    higher = perturbations_of(InitialNoise(height=HIGHER), count, dtype).higher
    bed = jnp.arange(count) % BEDS if loose else None
    return Perturbation(higher=jnp.zeros(count, dtype) if higher is None else higher, bed=bed)


@dataclass(frozen=True)
class _Recorded:
    """An episode of which a measure, the failure and the gait are observed."""

    measure: str

    def __call__(
        self, robot: tuple[Scenario, Controller], trial: Perturbation, _: Any
    ) -> tuple[Array, Array, dict[str, Array]]:
        scenario, controller = robot
        scenario, first = reset_perturbed(scenario, trial)
        episode, trajectory = record(scenario, controller, first)
        seen = {**gait_of(scenario, trajectory)._asdict(), "effort": episode.mean_squared_control}
        known = {name: jnp.where(episode.failed, jnp.nan, value) for name, value in seen.items()}
        return scenario.task.evaluate(episode, (self.measure,))[self.measure], episode.failure, known


def _middle_of_known(values: np.ndarray) -> np.ndarray:
    """Median over trials of those that are numbers, (robots,)."""
    return np.array([np.median(own[np.isfinite(own)]) if np.isfinite(own).any() else np.nan for own in values])


def _short(values: np.ndarray) -> list:
    """To the seven digits that single precision has."""
    return np.vectorize(lambda value: float(f"{value:.7g}"))(values).tolist()
