"""A study's winners looked at again: in fresh trials, for exploits of their physics, and in other engines' physics.

Time steps of EvoGym's physics are of one length: its constants (how far rest lengths follow in a step, how far lengths
are pulled back) belong to them, and there is no limit to converge to. So smaller time steps mean another engine here,
whose results do converge: the same robot on the same task in our physics, with its time steps and with halved ones.

What is found stands beside the best robots, one file an experiment, so that a study can be taken in pieces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.arrays import CorruptFileError
from vsr.controllers import Controller
from vsr.controllers.hardware import in_trial
from vsr.episode import Scenario, Trajectory, record, scenario_of
from vsr.evidence.reproduce.exploits import RULES, exploits_of
from vsr.evidence.reproduce.robots import draw_strip, own_file, title_of
from vsr.experiments.config import UserError, dump_plain, parse_scene
from vsr.experiments.convert.other_physics import in_other_physics
from vsr.experiments.perturbation import MOST_TRIALS, InitialNoise, Perturbation, perturbations_of, reset_perturbed
from vsr.experiments.play.recordings import robot_from_trajectory
from vsr.experiments.refine import MeasureEpisode, stamp
from vsr.experiments.resimulate import Job, aggregate, batches_of, job_of, simulate_jobs
from vsr.experiments.storage.files import read_checked_json, without_nan, write_checked_json, write_text
from vsr.experiments.storage.provenance import describe_session
from vsr.experiments.storage.robots import load_robot, robot_file
from vsr.experiments.storage.runs import Run
from vsr.physics.engine import ENGINES, assemble_body, engine_of
from vsr.scene import Scene, precision

SMALLER = 2
"""By which time steps are smaller, in engines that know others."""
TRIALS = 4
"""In each other physics, at most."""
AFTER = 3 * MOST_TRIALS
"""Trials come after those that searches select and confirm on."""


@dataclass(frozen=True)
class Elsewhere:
    """Scores of an experiment's winners in other physics."""

    engine: str
    factor: int
    """by which time steps are smaller"""
    measured: np.ndarray
    """not a number for a failure or a seed without a robot, (seeds, trials)"""
    reason: str = ""
    """why there are none, if so"""

    @property
    def name(self) -> str:
        return self.engine if self.factor == 1 else f"{self.engine}, time steps {self.factor} times smaller"


@dataclass(frozen=True)
class Checked:
    """What is known of an experiment's winners."""

    engine: str
    """in which they evolved"""
    repeats: np.ndarray
    """the measure in trials of their own physics, the first one unperturbed, (seeds, trials)"""
    broken: np.ndarray
    """which rules of exploits it breaks there, (seeds, trials, rules)"""
    elsewhere: tuple[Elsewhere, ...]

    @property
    def exploits(self) -> np.ndarray:
        """Rules that a robot breaks in more than half of its trials, (seeds, rules)."""
        return self.broken.mean(1) > 0.5


def read_checked(run: Run, folder: Path, name: str) -> Checked | None:
    """What `check_winners` has stored for this very run, or None."""
    try:
        stored = read_checked_json(folder / f"{name}.json")
        if {key: stored[key] for key in stamp(run)} != stamp(run):
            return None
        return Checked(
            run.experiment.robot.body.engine,
            np.array(stored["repeats"], float),
            np.array(stored["exploits"], bool),
            tuple(
                Elsewhere(one["engine"], one["factor"], np.array(one["measured"], float), one["reason"])
                for one in stored["elsewhere"]
            ),
        )
    except (CorruptFileError, ValueError, KeyError, TypeError):
        return None


def check_winners(run: Run, folder: Path, name: str, repeats: int, engines: Sequence[str]) -> None:
    """Leave NAME.yaml, NAME.png and NAME.json in a folder, unless they are there: the best robot, its strip of frames,
    and what became of every seed's.

    repeats: trials in their own physics; engines: others to try.
    """
    known = read_checked(run, folder, name)
    if known is not None and known.repeats.shape[1] == repeats:
        return
    files = [robot_file(run.path, seed) for seed in run.experiment.seeds]
    scenes = {i: load_robot(file) for i, file in enumerate(files) if file.exists()}  # without those that all failed
    measure, own = run.experiment.fitness.measure, run.experiment.robot.body.engine
    best = int(np.argmax(run.fitness[:, -1]))
    jobs = _jobs(list(scenes), list(scenes.values()), 1, repeats, _Watched(measure))
    there: list[tuple[Elsewhere, list[Job]]] = []
    for engine, factor in _ways(own, engines):
        count = min(repeats, TRIALS)
        found = Elsewhere(engine, factor, np.full((len(files), count), np.nan))
        try:
            others = _same_steps([_converted(scene, engine, f"seed {i}") for i, scene in scenes.items()])
            there.append((found, _jobs(list(scenes), others, factor, count, MeasureEpisode(measure))))
        except UserError as error:
            there.append((replace(found, reason=str(error)), []))
    results = simulate_jobs([*jobs, *(job for _, of_one in there for job in of_one)])
    values, broken = np.full((len(files), repeats), np.nan), np.zeros((len(files), repeats, len(RULES)), bool)
    folder.mkdir(parents=True, exist_ok=True)
    for _ in jobs:
        job, (measured, corner, trajectories) = next(results)
        values[job.rows] = measured[:, 0]
        for row, corners in zip(job.rows, corner[:, 0], strict=True):
            broken[row] = _broken(scenes[row], corners)
            if row == best:
                place = list(job.rows).index(row)
                shown = jax.tree.map(lambda leaf, place=place: leaf[place, 0, 0], trajectories)
                model = jax.tree.map(lambda leaf, place=place: leaf[place], job.robots[0].model)
                draw_strip(
                    robot_from_trajectory(f"{name}, seed {run.experiment.seeds[best]}", scenes[best], model, shown),
                    folder / f"{name}.png",
                )
    for found, of_one in there:
        for _ in of_one:
            job, measured = next(results)
            found.measured[job.rows] = measured[:, 0]
    if best in scenes:
        title = title_of(run, best, values[best].tolist(), None)
        write_text(folder / f"{name}.yaml", title + own_file(run, best))
    stored = {
        **stamp(run),
        "best_seed": run.experiment.seeds[best],
        "repeats": values.tolist(),
        "rules": list(RULES),
        "exploits": broken.tolist(),
        "elsewhere": [{**vars(found), "measured": found.measured.tolist()} for found, _ in there],
        "made": describe_session(0),
    }
    write_checked_json(folder / f"{name}.json", without_nan(stored))


def _ways(own: str, engines: Sequence[str]) -> list[tuple[str, int]]:
    """Engines and factors of time steps that are not those of the run itself."""
    every = [
        (engine, factor)
        for engine in dict.fromkeys((own, *engines))
        for factor in ((1, SMALLER) if ENGINES[engine].fixed_substep is None else (1,))
    ]
    return every[1:]


def _converted(scene: Scene, engine: str, where: str) -> Scene:
    if scene.robot.body.engine == engine:
        return scene
    return parse_scene(dump_plain(in_other_physics(scene, engine, where).scene), where)


def _same_steps(scenes: Sequence[Scene]) -> list[Scene]:
    """With as many substeps as the stiffest of them needs, so that one program serves all."""
    most = max((scene.schedule().substeps for scene in scenes), default=1)
    return [
        scene.model_copy(update={"physics": scene.physics.model_copy(update={"substeps": most})}) for scene in scenes
    ]


def _jobs(rows: Sequence[int], scenes: Sequence[Scene], factor: int, trials: int, episode: Any) -> list[Job]:
    jobs = []
    for batch in batches_of(scenes, [None] * len(scenes), _built):
        with precision(batch.precision):
            jitter = InitialNoise().for_voxels(scenes[batch.rows[0]].robot.body)
            jobs.append(job_of(batch, rows, 0, factor, _trials(jitter, trials, jnp.dtype(batch.precision)), episode))
    return jobs


def _built(scene: Scene) -> tuple[Scenario, Controller]:
    """With as many layers as any body of the grid may need, so that all robots are simulated together."""
    dtype, body = jnp.dtype(scene.physics.precision), scene.robot.body
    layers = ENGINES[body.engine].most_layers(body.dimension)
    model = assemble_body(body, dtype=dtype, integrator=scene.physics.integrator, layers=layers)
    controller = scene.robot.build_controller(dtype)
    environment, schedule = scene.world.build(dtype), scene.schedule()
    return scenario_of(model, environment, schedule, scene.task, controller.sensors, scene.systems()), controller


def _trials(jitter: InitialNoise, count: int, dtype: jnp.dtype) -> Perturbation:
    """The undisturbed one first, and fresh ones."""
    drawn = perturbations_of(jitter, count, dtype, after=AFTER)
    return jax.tree.map(lambda leaf: leaf.at[0].set(0), drawn)


@dataclass(frozen=True)
class _Watched:
    """An episode of which a measure and all that moves are observed."""

    measure: str

    def __call__(
        self, robot: tuple[Scenario, Controller], trial: Perturbation, _: Any
    ) -> tuple[Array, Array, Trajectory]:
        scenario, controller = robot
        scenario, first = reset_perturbed(scenario, trial)
        if trial.number is not None:
            controller = in_trial(controller, trial.number)
        episode, trajectory = record(scenario, controller, first)
        engine, environment = engine_of(scenario.model), scenario.world.environment
        corner = jax.vmap(lambda state: engine.voxel_motion(scenario.model, environment, state).corner)
        measured = scenario.task.evaluate(episode, (self.measure,))[self.measure]
        return measured, corner(trajectory.state), trajectory


def _broken(scene: Scene, corners: np.ndarray) -> np.ndarray:
    """Rules that a robot's trials break, (trials, rules): none in physics that converges."""
    body = scene.robot.body
    if ENGINES[body.engine].fixed_substep is None:
        return np.zeros((len(corners), len(RULES)), bool)
    model = scene.build()[0].model
    ground = engine_of(model).own_ground(model)
    if ground is None:
        return np.zeros((len(corners), len(RULES)), bool)
    solid, present = np.asarray(ground.solid), np.asarray(body.present)
    return np.stack([exploits_of(one / body.voxel_side, present, solid) for one in corners])


# Tables


def transfer_rows(results: Mapping[str, tuple[Run, Checked]], tasks: Mapping[str, tuple[str, str]]) -> list[dict]:
    """A row for every experiment and physics; tasks: task and method of experiments."""
    rows = []
    for name, (run, checked) in results.items():
        sign = run.experiment.fitness.sign
        own = aggregate(checked.repeats, sign)
        columns = [Elsewhere(checked.engine, 1, checked.repeats), *checked.elsewhere]
        for one in columns:
            scores = aggregate(one.measured, sign)
            known = np.isfinite(own) & np.isfinite(scores)
            task, method = tasks[name]
            rows.append(
                {
                    "task": task,
                    "method": method,
                    "evolved_in": checked.engine,
                    "replayed_in": one.name,
                    "robots": int(known.sum()),
                    "score_at_home": _median(own[known]),
                    "score": _median(scores[known]),
                    "keep_nine_tenths": int((scores[known] >= own[known] - 0.1 * abs(own[known])).sum()),
                    "keep_half": int((scores[known] >= own[known] - 0.5 * abs(own[known])).sum()),
                    "failed": int((np.isfinite(own) & ~np.isfinite(scores)).sum()) if not one.reason else 0,
                    "reason": one.reason,
                }
            )
    return rows


def exploit_rows(results: Mapping[str, tuple[Run, Checked]], tasks: Mapping[str, tuple[str, str]]) -> list[dict]:
    """A row for every winner that breaks a rule."""
    return [
        {
            "task": tasks[name][0],
            "method": tasks[name][1],
            "seed": run.experiment.seeds[seed],
            "score": float(aggregate(checked.repeats, run.experiment.fitness.sign)[seed]),
            "rules": "; ".join(rule for rule, broken in zip(RULES, checked.exploits[seed], strict=True) if broken),
            "trials": f"{int(checked.broken[seed].any(-1).sum())} of {checked.broken.shape[1]}",
        }
        for name, (run, checked) in results.items()
        for seed in np.flatnonzero(checked.exploits.any(-1))
    ]


def _median(values: np.ndarray) -> float:
    return float(np.median(values)) if values.size else float("nan")
