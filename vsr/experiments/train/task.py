"""`vsr train TASK`: policies for one body by PPO, into a folder with curve, robot and film.

A training is an experiment whose one individual learns: so its robot's file is one that `vsr verify` replays. All
policies, all copies of their environments and the updates between two evaluations are one program on the device.
"""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vsr.envs.making import DEFAULT_BODY
from vsr.experiments.config import UserError, load_scene
from vsr.experiments.config.check import check
from vsr.experiments.config.overrides import override
from vsr.experiments.config.yaml import Document
from vsr.experiments.console import busy, say
from vsr.experiments.convert.evogym_files import read_npz
from vsr.experiments.devices import check_implementation, prepare
from vsr.experiments.evolve.fitness import FIRST_LOOK, draw
from vsr.experiments.evolve.generation import compile_evolution
from vsr.experiments.experiment import Experiment
from vsr.experiments.memory import needs_of_experiment, require_memory
from vsr.experiments.options import TrainOptions
from vsr.experiments.policies import tutored
from vsr.experiments.population import everywhere
from vsr.experiments.ppo import Learner
from vsr.experiments.shipped import SCENE, find_config
from vsr.experiments.stopping import graceful_shutdown, on_interrupt
from vsr.experiments.storage.files import write_json, write_text
from vsr.experiments.storage.provenance import describe_session
from vsr.experiments.storage.robots import robot_text
from vsr.experiments.train.folder import SETTINGS, Row, Stopped, TrainingFolder, open_folder
from vsr.experiments.train.pictures import plot_curve
from vsr.robot import KINDS
from vsr.robot.kinds import SYMBOLS
from vsr.scene import precision, simulate
from vsr.tasks import TASKS, NamedTask, Task

ROBOT, FILM = "robot.yaml", "film.gif"
BLOCK = ("hhhhh", "hhhhh", "hhhhh", "vv.vv", "vv.vv")
"""The body for EvoGym's tasks where none is given: a two-legged block of EvoGym's actuators."""
OPTIONS = {
    "body": None,
    "engine": None,
    "steps": 1_000_000,
    "environments": None,
    "preset": None,
    "seeds": None,
    "settings": (),
    "trials": 1,
}
"""Options of tasks, and their defaults."""
SENSORS = ("area_ratio", "contact", "rotated_velocity_x", "rotated_velocity_y")
"""What every voxel reads where a task shows nothing of its own."""


def train_task(options: TrainOptions) -> None:
    """Train, then write the robot, the curve and a film; raises UserError for what cannot be."""
    given = {name: default if (own := getattr(options, name)) is None else own for name, default in OPTIONS.items()}
    experiment = experiment_of(options, given)
    learning = experiment.learning
    assert learning is not None
    if options.seed is not None and options.seeds is not None:
        raise UserError("--seed and --seeds: give one of them")
    seeds = (options.seed or 0,) if options.seeds is None else tuple(range(options.seeds))
    plain = experiment.to_plain()
    if not learning.ppo.anneal:  # a rate that falls must know the end
        plain["learning"].pop("environment_steps")
    lasting = {"task": options.what, "seeds": list(seeds), "experiment": plain}
    folder = open_folder(options.out, options.resume, lasting)
    prepare(options.device)
    check_implementation(experiment.physics)
    require_memory("vsr train", needs_of_experiment(experiment))
    with precision(experiment.physics.precision):
        learners, genes = _trained(experiment, seeds, folder, lasting)
        _conclude(experiment, seeds, folder, learners, genes, film=options.film)


def experiment_of(options: TrainOptions, given: dict[str, Any]) -> Experiment:
    """What is trained, as an experiment; given: options of tasks with their defaults."""
    name = options.what
    shows = TASKS[name].observation is not Task.observation
    ppo = {key: given[key] for key in ("preset", "environments") if given[key] is not None}
    data = {
        "robot": {
            "body": _body(name, given["body"], given["engine"]),
            "controller": {"type": "policy", **({} if shows else {"sensors": list(SENSORS)})},
        },
        "task": {"type": name},
        "evaluation": {"trials": given["trials"], "aggregate": "mean", "refine": None},
        "learning": {"method": "ppo", "environment_steps": given["steps"], "ppo": ppo},
        "optimizer": {"type": "random_search", "population_size": 1},
        "generations": 1,
        "seeds": 1,
    }
    measure = TASKS[name].model_fields["measures"].default[0]
    document = Document(f"vsr train {name}", {**data, "fitness": measure})
    override(document, given["settings"])
    found = check(document, Experiment)
    always = {
        "learning.method": "ppo",
        "robot.controller.type": "policy",
        "robot.controller.shared": False,
        "generations": 1,
    }
    for part, fixed in always.items():
        if _at(found, part) != fixed:
            shown = str(fixed).lower()
            raise UserError(f"--set {part}: it is {shown} in a training; vsr evolve runs other experiments")
    return found


def _at(experiment: Experiment, path: str) -> Any:
    found: Any = experiment
    for name in path.split("."):
        found = getattr(found, name, None)
    return found


def _body(task: str, given: str | None, engine: str | None) -> dict[str, Any]:
    """A body as plain data: of a file, drawn, or the default."""
    if given is None:
        evogym = issubclass(TASKS[task], NamedTask) and (engine is None or engine in KINDS)
        return _drawn(BLOCK if evogym else DEFAULT_BODY, engine)
    suffix = Path(given).suffix.lower()
    if suffix == ".npz":
        found = read_npz(Path(given), engine or "points", task)
        for lost in found.lost:
            say(f"{given}: not carried over: {lost}")
        return found.scene["robot"]["body"]
    if "/" in given and not suffix:
        return _drawn(tuple(given.split("/")), engine)
    body = load_scene(find_config(given, SCENE)).robot.body
    if engine not in (None, body.engine):
        raise UserError(f"--engine {engine}: the body in {given} is of {body.engine}: leave it out, or change the file")
    return body.to_plain()


def _drawn(rows: tuple[str, ...], engine: str | None) -> dict[str, Any]:
    """A drawing as a body: of EvoGym's kinds if all its symbols are theirs."""
    if set("".join(rows)) <= {*SYMBOLS, "."}:
        engine = engine or "points"
        if engine in KINDS:
            materials = {symbol: material.to_plain() for symbol, material in KINDS[engine].items()}
            return {"shape": list(rows), "engine": engine, "materials": materials}
    return {"shape": list(rows), **({} if engine is None else {"engine": engine})}


def _trained(
    experiment: Experiment, seeds: tuple[int, ...], folder: TrainingFolder, lasting: dict[str, Any]
) -> tuple[Learner, dict[str, Any]]:
    """Learners after all rounds, each of which is stored, and the genes that they began with."""
    learning, count = experiment.learning, len(seeds)
    assert learning is not None
    settings, dtype = learning.ppo, jnp.dtype(experiment.physics.precision)
    rounds, updates = settings.rounds(learning.environment_steps)
    first = [experiment.robot.sample(jax.random.key(seed), 1) for seed in seeds]
    genes = jax.tree.map(lambda *leaves: jnp.concatenate(leaves).astype(dtype), *first)
    trials = draw(experiment, experiment.evaluation.trials, count, None, FIRST_LOOK)
    school = tutored(
        experiment, settings, learning.environment_steps, genes["body"], trials.trials, trials.keys, trials.count
    )
    keys = jax.vmap(jax.random.PRNGKey)(jnp.asarray(seeds, jnp.uint32))
    training = school.training
    begin = jax.jit(lambda keys, policies: training.start(keys, policies, school.places))
    learners = jax.device_put(folder.restore(begin(keys, genes["controller"])), everywhere())
    write_json(folder.path / SETTINGS, {**lasting, "numbers": genes["controller"].shape[1]})
    say(
        f"{count} {'policy' if count == 1 else 'policies'} of {genes['controller'].shape[1]:,} numbers, "
        f"{settings.environments} environments each, {rounds * updates * settings.steps:,} steps, of "
        f"{experiment.schedule().calls} in an episode"
    )
    # Arrays that came from a program lie elsewhere than others, and jit would compile for both.
    turn = jax.jit(partial(training.round, updates=updates), out_shardings=everywhere(), donate_argnums=0)
    told = jax.device_put((school.places, school.masks, school.trials), everywhere())
    if len(folder.curve) < rounds:
        with on_interrupt(folder.standing("rounds")), busy("compiling", counting=False):
            turn = turn.lower(learners, *told).compile()
    for number in range(len(folder.curve), rounds):
        with on_interrupt(folder.standing("rounds")):
            began = time.perf_counter()
            learners, scores = jax.block_until_ready(turn(learners, *told))
            row = _row((number + 1) * updates * settings.steps, scores, learners, time.perf_counter() - began)
            with graceful_shutdown() as stop:  # files that belong together
                folder.store(learners, row)
        say(_progress(row))
        if stop:
            raise Stopped(folder.standing("rounds"))
    return learners, genes


def _row(steps: int, scores: Any, learners: Learner, seconds: float) -> Row:
    """Numbers of one round, null for what is not one."""

    def known(values: Any) -> list[float | None]:
        return [float(value) if np.isfinite(value) else None for value in np.asarray(values, float)]

    return {
        "environment_steps": steps,
        "score": known(scores),
        "best": known(learners.best_score),
        "seconds": round(seconds, 3),
    }


def _progress(row: Row) -> str:
    def text(values: list[float | None]) -> str:
        there = [value for value in values if value is not None]
        if not there:
            return "failed"
        return f"{max(there):.3f}" if len(values) == 1 else f"{np.median(there):.3f} (median), {max(there):.3f} (best)"

    now, best = text(row["score"]), text(row["best"])
    return f"{row['environment_steps']:,} steps: score {now}, so far {best}, {row['seconds']:.1f} s"


def _conclude(
    experiment: Experiment,
    seeds: tuple[int, ...],
    folder: TrainingFolder,
    learners: Learner,
    genes: dict[str, Any],
    *,
    film: bool,
) -> None:
    """Write the best robot, with the score that its own replay gives, the curve and the film."""
    best = int(np.argmax(np.asarray(learners.best_score)))
    chosen = {"body": np.asarray(genes["body"][best]), "controller": np.asarray(learners.best[best])}
    alone = experiment.model_copy(update={"learning": None, "seeds": (seeds[best],)})
    with busy("compiling and replaying", counting=False):
        (evaluation,) = compile_evolution(alone).evaluate(({part: own[None] for part, own in chosen.items()},))
    fitness = float(evaluation.fitness[0])
    if not np.isfinite(fitness):
        raise UserError(f"{folder.path}: no policy came through an episode; train for longer (--steps, --resume)")
    write_text(folder.path / ROBOT, robot_text(alone, 0, chosen, 0, fitness, [describe_session(0)]))
    steps = [row["environment_steps"] for row in folder.curve]
    scores = np.array([[np.nan if value is None else value for value in row["score"]] for row in folder.curve])
    so_far = np.array([[np.nan if value is None else value for value in row["best"]] for row in folder.curve])
    several = len(seeds) > 1
    lines = {
        "median score" if several else "score": np.nanmedian(scores, 1).tolist(),
        "best so far": np.nanmax(so_far, 1).tolist(),
    }
    plot_curve(folder.path / "curve.png", steps, lines, "environment steps", "score")
    if film:
        from vsr.experiments.simulate import draw as draw_film

        scene = alone.scene(chosen)
        assert scene is not None
        draw_film(experiment.task.type, scene, simulate(scene, keep_trajectory=True), folder.path / FILM)  # pyright: ignore[reportAttributeAccessIssue]
    sign = experiment.fitness.sign
    say(f"{experiment.fitness.measure} {sign * fitness:.4g}, written to {folder.path}; vsr play {folder.path / ROBOT}")
