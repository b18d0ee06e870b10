"""The work of `vsr verify`: replay robots and confirm the scores that are written in their files.

Robots that are computed together are rounded by the same program, which another number of robots, or another shape of a
network, need not give. So the robot goes back to its place in a population of the same size, the others being copies of
it. Where device or versions are others, the last digits are not to be had, and it is evaluated alone.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from vsr.evo import Evaluation
from vsr.experiments.config import UserError, load_scene
from vsr.experiments.console import busy, cell, console_for_tables, say, warn
from vsr.experiments.devices import check_implementation, prepare
from vsr.experiments.encodings import Genes
from vsr.experiments.evolve.fitness import (
    confirm_leaders,
    confirmed,
    depends_on_generation,
    evaluate_all,
    fresh_trials,
)
from vsr.experiments.evolve.generation import asked_genes, compile_evolution, copies_of_best
from vsr.experiments.experiment import Experiment
from vsr.experiments.memory import needs_of_experiment, needs_of_scene, require_memory
from vsr.experiments.options import VerifyOptions
from vsr.experiments.population import robots_at_once
from vsr.experiments.refine import robustness_of
from vsr.experiments.storage.files import json_result
from vsr.experiments.storage.provenance import describe_session, differences
from vsr.experiments.storage.robots import (
    Record,
    experiment_of,
    hashes_of,
    is_made_by,
    load_robot,
    read_record,
    robot_file,
)
from vsr.experiments.storage.runs import read_run, trust_plugins
from vsr.experiments.storage.sources import sources_of
from vsr.scene import Scene, precision

NEARBY, MICROMETER = 16, 1e-6
"""Trials that show whether a gait is chaotic, and their largest difference [m]."""


@dataclass(frozen=True)
class StoredRobot:
    """A robot and the score in its file."""

    file: Path
    record: Record
    scene: Scene
    experiment: Experiment
    """in which it evolved"""
    changed: tuple[str, ...] = ()
    """parts that are not those that evolved; such a robot is not replayed"""
    otherwise: tuple[str, ...] = ()
    """changes of device and versions; if there are none, all digits can be reproduced"""


@dataclass(frozen=True)
class Verdict:
    """The result for one file."""

    file: str
    measure: str
    score: float
    """in the file"""
    again: float | None
    """now; not a number if it failed, None if it was not replayed because the file was changed"""
    confirmed: bool
    exact: bool
    """whether all digits are the same"""
    reason: str
    """in words"""
    changed: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()
    nearby: tuple[float, float] | None = None
    """least and greatest measure from trials that differ by a micrometer, where the score was not confirmed"""

    @property
    def difference(self) -> float:
        """Of now, as a share of the score; not a number where there is none."""
        known = self.again is not None and math.isfinite(self.again)
        return math.nan if not known else _share(self.again or 0.0, self.score)


def verify(options: VerifyOptions) -> int:
    """Replay, print; returns the exit code: 0 if all scores are confirmed, else 1."""
    prepare(options.device)
    if options.trust_plugins:
        trust_plugins(options.given)
    with json_result(options.json) as write:
        robots = read_all(options.given)
        with busy("compiling and replaying", counting=False):
            verdicts = judge(robots, options.tolerance)
        show(verdicts)
        write({"tolerance": options.tolerance, "robots": [as_plain(verdict) for verdict in verdicts]})
    return 0 if all(verdict.confirmed for verdict in verdicts) else 1


def read_all(given: Sequence[str]) -> list[StoredRobot]:
    """Robots of files as they are given, of runs all the best; raises UserError with everything that cannot be read."""
    now, robots, faults = describe_session(0), {}, []
    for name in given:
        try:
            for file in _best_of(Path(name)) if Path(name).is_dir() else [Path(name)]:
                robots[file] = load_claim(file, now)
        except UserError as error:
            faults.append(str(error))
    if faults:
        raise UserError("\n".join(faults))
    return list(robots.values())


def _best_of(path: Path) -> Iterator[Path]:
    """Files of a run's best robots, which must be as the run wrote them."""
    run = read_run(path)
    warn(run.warnings)
    files = [robot_file(path, seed) for seed in run.experiment.seeds]
    missing = [
        file for file, best in zip(files, run.best[:, -1], strict=True) if np.isfinite(best) and not file.exists()
    ]
    warn([f"{file}: missing, so that this robot is left out" for file in missing])
    there = [file for file in files if file.exists()]
    if not there:
        raise UserError(f"{path}: it keeps no best robot yet")
    for file in there:
        load_robot(file)
        yield file


def load_claim(file: Path, now: dict[str, Any]) -> StoredRobot:
    """A file; now: device and versions of this process. Raises UserError if it cannot be read."""
    record, document = read_record(file)
    scene = load_scene(file)
    experiment = experiment_of(record, document)
    check_implementation(experiment.physics)
    made = hashes_of(document.data)
    changed = [name for name in type(made).model_fields if getattr(made, name) != getattr(record.hashes, name)]
    with precision(experiment.physics.precision):
        if not changed and not is_made_by(record, scene, experiment):
            changed = ["genes"]
    otherwise = differences(record.made_with, now) if record.made_with else ["device and versions are not in the file"]
    module = sources_of(experiment).changed_since(record.made_with.get("plugins", {}))
    if module is not None:
        otherwise.append(f"module '{module}', of a plugin or imported by one, is not what it was")
    require_memory(str(file), needs_of_scene(scene, recorded=False) if otherwise else needs_of_experiment(experiment))
    return StoredRobot(file, record, scene, experiment, tuple(changed), tuple(otherwise))


def judge(robots: Sequence[StoredRobot], tolerance: float) -> list[Verdict]:
    """All of them, with a progress bar."""
    unchanged = [robot for robot in robots if not robot.changed]
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"{len(unchanged)} robots again", total=len(unchanged))
        again = iter(replay(unchanged, lambda: progress.advance(task)))
    found = [None if robot.changed else next(again) for robot in robots]
    verdicts = [_verdict(robot, value, tolerance) for robot, value in zip(robots, found, strict=True)]
    doubtful = [place for place, verdict in enumerate(verdicts) if _may_be_chaos(robots[place], verdict)]
    if doubtful:
        for place, ends in zip(doubtful, _nearby([robots[place] for place in doubtful]), strict=True):
            verdicts[place] = _explained(verdicts[place], ends)
    return verdicts


def _verdict(robot: StoredRobot, again: float | None, tolerance: float) -> Verdict:
    record = robot.record
    exact = again == record.score
    near = again is not None and abs(_share(again, record.score)) <= tolerance
    if again is None:
        reason = f"not confirmed: {_in_words(robot.changed)}"
    elif exact:
        reason = "confirmed, all digits"
    elif not math.isfinite(again):
        reason = "not confirmed: the simulation failed"
    else:
        by = f"{100 * abs(_share(again, record.score)):.2g} % {'more' if again > record.score else 'less'}"
        reason = f"confirmed, {by}" if near else f"not confirmed, {by}"
    return Verdict(
        file=str(robot.file),
        measure=record.measure,
        score=record.score,
        again=again,
        confirmed=near,
        exact=exact,
        reason=reason,
        changed=robot.changed,
        otherwise=robot.otherwise,
    )


def _share(again: float, score: float) -> float:
    """By how much a number differs, as a share; infinite where nothing is no share of it."""
    if again == score:
        return 0.0
    return (again - score) / abs(score) if score else math.inf


def _in_words(changed: Sequence[str]) -> str:
    if "genes" in changed:
        return "its genes do not make this robot"
    return f"its {' and '.join(changed)} {'are' if len(changed) > 1 else 'is'} not what the score was reached with"


def _may_be_chaos(robot: StoredRobot, verdict: Verdict) -> bool:
    """Whether a difference may come from rounding: of a measure of the episode, on another device or version."""
    known = robot.record.measure in robot.scene.task.known_measures()
    return not robot.changed and not verdict.confirmed and bool(robot.otherwise) and known


def _nearby(robots: Sequence[StoredRobot]) -> list[tuple[float, float]]:
    """Least and greatest measure of every robot from trials that hardly differ; infinite if all of them fail."""
    scenes, measures = [robot.scene for robot in robots], [robot.record.measure for robot in robots]
    found = robustness_of(scenes, measures, factors=(1,), trials=NEARBY, height=MICROMETER, changes=(), variants=())
    values = np.where(np.isfinite(found.refined[:, 0]), found.refined[:, 0], np.nan)
    return [
        (float(np.nanmin(own)), float(np.nanmax(own))) if np.isfinite(own).any() else (math.inf, math.inf)
        for own in values
    ]


def _explained(verdict: Verdict, nearby: tuple[float, float]) -> Verdict:
    low, high = nearby
    if not math.isfinite(low):
        return verdict
    ends = f"{NEARBY} trials that differ by at most a micrometer give {low:.4g} to {high:.4g}"
    chaotic = low <= verdict.score <= high
    meaning = "its gait is chaotic, and the score one draw of it" if chaotic else "rounding does not explain it"
    return replace(verdict, reason=f"{verdict.reason}; {ends}: {meaning}", nearby=nearby)


def as_plain(verdict: Verdict) -> dict[str, Any]:
    """As JSON has it."""
    return {**vars(verdict), "difference": verdict.difference}


def show(verdicts: Sequence[Verdict]) -> None:
    """A table, then what of device and versions is not as it was."""
    table = Table(box=None)
    for name in ("robot", "measure", "in the file", "here", "verdict"):
        table.add_column(name, justify="right" if name in ("in the file", "here") else "left", overflow="fold")
    for verdict in verdicts:
        again = "" if verdict.again is None else f"{verdict.again:.9g}" if math.isfinite(verdict.again) else "failed"
        row = (verdict.file, verdict.measure, f"{verdict.score:.9g}", again, verdict.reason)
        table.add_row(*map(cell, row))
    console_for_tables().print(table)
    for otherwise in dict.fromkeys(verdict.otherwise for verdict in verdicts if verdict.otherwise):
        own = [shlex.quote(verdict.file) for verdict in verdicts if verdict.otherwise == otherwise]
        whose = "" if len(own) == len(verdicts) else f" ({', '.join(own)})"
        say(f"not as when it evolved{whose}: {'; '.join(otherwise)}")
    confirmed = sum(verdict.confirmed for verdict in verdicts)
    say(f"{confirmed} of {len(verdicts)} confirmed, {sum(verdict.exact for verdict in verdicts)} with all digits")


# Replay


def replay(robots: Sequence[StoredRobot], done: Callable[[], None] = lambda: None) -> list[float]:
    """The measure of every robot, not a number where it failed; done: called after each robot."""
    alike: list[list[int]] = []  # that one program can evaluate
    for place, robot in enumerate(robots):
        for places in alike:
            first = robots[places[0]]
            if _way(first) == _way(robot) and first.experiment == robot.experiment:
                places.append(place)
                break
        else:
            alike.append([place])
    found = [math.nan] * len(robots)
    for places in alike:
        members = [robots[place] for place in places]
        with precision(members[0].experiment.physics.precision):
            evaluated = _evaluated if members[0].record.search_score is None else _confirmed_again
            for chosen, values in evaluated(members):
                for member, value in zip(chosen, values, strict=True):
                    found[places[member]] = value
                    done()
    return found


Slot = tuple[int, int]
"""In which of the populations, and where in it."""


def _evaluated(members: Sequence[StoredRobot]) -> Iterator[tuple[list[int], list[float]]]:
    """Places and measures of robots, as many at a time as go together."""
    experiment = members[0].experiment
    evaluate, slots, populations, size = _program(members)
    waiting = list(range(len(members)))
    while waiting:
        chosen = _together(experiment, slots, waiting)
        genes, when = [], []
        for population in range(populations):
            own = {slots[place][1]: members[place].record for place in chosen if slots[place][0] == population}
            first = next(iter(own.values()), members[0].record)
            genes.append(_population(experiment, first, own, size))
            when.append(jnp.array([first.seed, first.generation], jnp.uint32))
        told = (tuple(when),) if depends_on_generation(experiment) else ()
        found = [np.asarray(evaluation.fitness) for evaluation in evaluate(tuple(genes), *told)]
        yield chosen, [_measure(members[place], found[slots[place][0]], slots[place][1]) for place in chosen]
        waiting = [place for place in waiting if place not in chosen]


def _program(members: Sequence[StoredRobot]) -> tuple[Callable[..., tuple[Evaluation, ...]], list[Slot], int, int]:
    """The evaluation of populations, each robot's slot in them, their number and their size."""
    experiment = members[0].experiment
    if not members[0].otherwise:
        population_size = experiment.optimizer.population_size
        slots = [(one.record.place, one.record.individual % population_size) for one in members]
        return compile_evolution(experiment).evaluate, slots, len(experiment.seeds), population_size
    robots = robots_at_once(len(members) * experiment.evaluation.trials, experiment.robot.body.possible.size)
    slots = [(place, 0) for place in range(len(members))]
    return jax.jit(partial(evaluate_all, experiment, robots)), slots, len(members), 1


def _together(experiment: Experiment, slots: Sequence[Slot], waiting: Sequence[int]) -> list[int]:
    """Robots that are evaluated at once: no two in one slot.

    Where leaders are re-checked, no two in one population either: nobody else is to lead there. Nor where trials are
    resampled in every generation, as there is one generation for all.
    """
    alone = experiment.evaluation.refine is not None or depends_on_generation(experiment)
    taken: dict[Any, int] = {}
    for place in waiting:
        taken.setdefault(slots[place][0] if alone else slots[place], place)
    return list(taken.values())


def _way(robot: StoredRobot) -> tuple[bool, bool]:
    """How a score is made again: on another device or version, and as that of fresh trials."""
    return bool(robot.otherwise), robot.record.search_score is not None


def _confirmed_again(members: Sequence[StoredRobot]) -> Iterator[tuple[list[int], list[float]]]:
    """Places and measures of robots whose scores are those of fresh trials, as many at a time as go together."""
    experiment, waiting = members[0].experiment, list(range(len(members)))
    alone = bool(members[0].otherwise)
    look = _last_look(experiment, len(members)) if alone else compile_evolution(experiment).confirm
    if look is None:
        raise UserError(f"{members[0].file}: evolved.search_score: this experiment confirms nothing")
    while waiting:
        at: dict[int, int] = {}  # by the place of a population, the robot in it
        for place in waiting:
            at.setdefault(place if alone else members[place].record.place, place)
        populations = len(members) if alone else len(experiment.seeds)
        records = [members[at.get(number, waiting[0])].record for number in range(populations)]
        shapes = asked_genes(experiment)[0]
        best: dict[str, Any] = {
            name: np.stack([record.numbers(name).astype(shape.dtype) for record in records])
            for name, shape in shapes.items()
        }
        found, _, _ = confirmed(experiment, look(best))
        sign = experiment.fitness.sign
        yield list(at.values()), [sign * float(one) if np.isfinite(one := found[key]) else math.nan for key in at]
        waiting = [place for place in waiting if place not in at.values()]


def _last_look(experiment: Experiment, robots: int) -> Callable[[Genes], list[Any]] | None:
    """The last look at a number of robots, each alone, where the digits of the run are not to be had."""
    refine = experiment.evaluation.refine
    if refine is None or experiment.evaluation.confirm is None:
        return None
    at_once = robots_at_once(robots * refine.trials, experiment.robot.body.possible.size)
    program = jax.jit(partial(confirm_leaders, experiment, at_once))
    unknown = Evaluation(fitness=jnp.zeros(1), failed=jnp.zeros(1, bool), failure=jnp.zeros(1, jnp.int32))

    def look(best: Genes) -> list[Any]:
        genes = copies_of_best(best, robots, 1)
        return [program(genes, (unknown,) * robots, trials)[1] for trials in fresh_trials(experiment, robots, 1)]

    return look


def _population(experiment: Experiment, first: Record, at: dict[int, Record], size: int) -> Genes:
    """Genes of a population; at: which robots are in which slots. In all others are copies of the first."""
    genes = {}
    for name, shape in asked_genes(experiment)[0].items():
        part = np.tile(first.numbers(name).astype(shape.dtype), (size, 1))
        for slot, record in at.items():
            part[slot] = record.numbers(name)
        genes[name] = jnp.asarray(part)
    return genes


def _measure(robot: StoredRobot, fitness: np.ndarray, slot: int) -> float:
    """Of one robot, not a number if it failed; fitness: of its population.

    Where leaders are re-checked, the last digit depends on a robot's rank among them, which nobody knows any more. All
    of the population are copies of this one, on all ranks: it is the nearest to the stored score.
    """
    sign, value = robot.experiment.fitness.sign, fitness[slot]
    if robot.experiment.evaluation.refine is not None:
        known = fitness[np.isfinite(fitness)]
        value = known[np.argmin(abs(known - sign * robot.record.score))] if known.size else np.nan
    return sign * float(value) if np.isfinite(value) else math.nan
