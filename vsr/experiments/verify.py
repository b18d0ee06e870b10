"""The work of `vsr verify`: replay robots and confirm the scores that are written in their files.

Robots that are computed together are rounded by the same program, which another number of robots, or another shape of a
network, need not give. So the robot goes back to its place in a population of the same size, the others being copies of
it. Where device or versions are others, the last digits are not to be had, and it is evaluated alone.
"""

from __future__ import annotations

import json
import math
import shlex
import sys
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
from vsr.experiments.estimate import needs_of_experiment, needs_of_scene, require_memory
from vsr.experiments.evolve.evaluation import asks_when, evaluate_all
from vsr.experiments.evolve.generation import asked_genes, compile_evolution
from vsr.experiments.experiment import Experiment
from vsr.experiments.files import without_nan
from vsr.experiments.population import robots_at_once
from vsr.experiments.refine import robustness_of
from vsr.experiments.runs import read_run
from vsr.experiments.runs.meta import describe_start, differences
from vsr.experiments.runs.records import Record, experiment_of, hashes_of, is_made_by, read_record
from vsr.experiments.runs.robot_files import load_robot, robot_file
from vsr.experiments.runs.trust import trust_plugins
from vsr.experiments.sources import sources_of
from vsr.scene import Scene, precision

TOLERANCE = 0.01
"""How far a measure may be from the score, as a share of it, where device or versions are others."""
NEARBY, MICROMETRE = 16, 1e-6
"""Trials that tell whether a gait is chaotic, and by how much they differ at most [m]."""


@dataclass(frozen=True)
class VerifyOptions:
    """As the command line gives them."""

    given: tuple[str, ...]
    tolerance: float = TOLERANCE
    json: bool = False
    device: str | None = None
    trust_plugins: bool = False


@dataclass(frozen=True)
class Claim:
    """A robot and what is said of it."""

    record: Record
    experiment: Experiment
    """in which it evolved"""
    exactly: bool
    """whether device and versions are those of its evolution"""


@dataclass(frozen=True)
class Read:
    """A file as it was read."""

    file: Path
    record: Record
    scene: Scene
    changed: tuple[str, ...]
    """parts that are not those that evolved"""
    claim: Claim | None
    """None if a part was changed"""
    otherwise: tuple[str, ...]
    """what of device and versions is not as it was"""


@dataclass(frozen=True)
class Verdict:
    """What became of one file."""

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
    """least and greatest measure from starts that differ by a micrometre, where the score was not confirmed"""

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
    robots = read_all(options.given)
    with busy("compiling and replaying", counting=False):
        verdicts = judge(robots, options.tolerance)
    if options.json:
        plain = {"tolerance": options.tolerance, "robots": [as_plain(verdict) for verdict in verdicts]}
        sys.stdout.write(json.dumps(without_nan(plain), indent=2) + "\n")
    else:
        show(verdicts)
    return 0 if all(verdict.confirmed for verdict in verdicts) else 1


def read_all(given: Sequence[str]) -> list[Read]:
    """Robots of files as they are given, of runs all the best; raises UserError with everything that cannot be read."""
    now, robots, faults = describe_start(0), {}, []
    for name in given:
        try:
            for file in _best_of(Path(name)) if Path(name).is_dir() else [Path(name)]:
                robots[file] = read(file, now)
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


def read(file: Path, now: dict[str, Any]) -> Read:
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
    claim = None if changed else Claim(record, experiment, not otherwise)
    require_memory(str(file), needs_of_scene(scene, recorded=False) if otherwise else needs_of_experiment(experiment))
    return Read(file, record, scene, tuple(changed), claim, tuple(otherwise))


def judge(robots: Sequence[Read], tolerance: float) -> list[Verdict]:
    """All of them, with a progress bar."""
    claims = [robot.claim for robot in robots if robot.claim is not None]
    with Progress(console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(f"{len(claims)} robots again", total=len(claims))
        again = iter(replay(claims, lambda: progress.advance(task)))
    found = [None if robot.claim is None else next(again) for robot in robots]
    verdicts = [_verdict(robot, value, tolerance) for robot, value in zip(robots, found, strict=True)]
    doubtful = [place for place, verdict in enumerate(verdicts) if _may_be_chaos(robots[place], verdict)]
    if doubtful:
        for place, ends in zip(doubtful, _nearby([robots[place] for place in doubtful]), strict=True):
            verdicts[place] = _explained(verdicts[place], ends)
    return verdicts


def _verdict(robot: Read, again: float | None, tolerance: float) -> Verdict:
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


def _may_be_chaos(robot: Read, verdict: Verdict) -> bool:
    """Whether a difference may come from rounding: of a measure of the episode, on another device or version."""
    known = robot.record.measure in robot.scene.task.known_measures()
    return robot.claim is not None and not verdict.confirmed and bool(robot.otherwise) and known


def _nearby(robots: Sequence[Read]) -> list[tuple[float, float]]:
    """Least and greatest measure of every robot from starts that hardly differ; infinite if all of them fail."""
    scenes, measures = [robot.scene for robot in robots], [robot.record.measure for robot in robots]
    found = robustness_of(scenes, measures, factors=(1,), trials=NEARBY, height=MICROMETRE, changes=(), variants=())
    values = np.where(np.isfinite(found.refined[:, 0]), found.refined[:, 0], np.nan)
    return [
        (float(np.nanmin(own)), float(np.nanmax(own))) if np.isfinite(own).any() else (math.inf, math.inf)
        for own in values
    ]


def _explained(verdict: Verdict, nearby: tuple[float, float]) -> Verdict:
    low, high = nearby
    if not math.isfinite(low):
        return verdict
    ends = f"{NEARBY} starts that differ by at most a micrometre give {low:.4g} to {high:.4g}"
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


def replay(claims: Sequence[Claim], done: Callable[[], None] = lambda: None) -> list[float]:
    """The measure of every robot, not a number where it failed; done: called after each robot."""
    found = [float("nan")] * len(claims)
    for places in _alike(claims):
        members = [claims[place] for place in places]
        with precision(members[0].experiment.physics.precision):
            for chosen, values in _evaluated(members):
                for member, value in zip(chosen, values, strict=True):
                    found[places[member]] = value
                    done()
    return found


def _alike(claims: Sequence[Claim]) -> list[list[int]]:
    """Places of those that one program can evaluate."""
    kinds: list[tuple[Claim, list[int]]] = []
    for place, claim in enumerate(claims):
        for first, places in kinds:
            if first.exactly == claim.exactly and first.experiment == claim.experiment:
                places.append(place)
                break
        else:
            kinds.append((claim, [place]))
    return [places for _, places in kinds]


def _evaluated(members: Sequence[Claim]) -> Iterator[tuple[list[int], list[float]]]:
    """Places and measures of robots, as many at a time as go together."""
    evaluate, seats, populations, n_pop = _program(members)
    sign = members[0].experiment.fitness.sign
    waiting = list(range(len(members)))
    while waiting:
        chosen = _together(members, seats, waiting)
        told = [_when(members, [place for place in chosen if seats[place][0] == one]) for one in range(populations)]
        genes = tuple(
            _population(members, {seats[place][1]: place for place in chosen if seats[place][0] == one}, n_pop)
            for one in range(populations)
        )
        when = (tuple(told),) if asks_when(members[0].experiment) else ()
        found = [np.asarray(evaluation.fitness) for evaluation in evaluate(genes, *when)]
        yield chosen, [sign * _fitness(members[place], found[seats[place][0]], seats[place][1]) for place in chosen]
        waiting = [place for place in waiting if place not in chosen]


Seat = tuple[int, int]
"""In which of the populations, and where in it."""


def _program(members: Sequence[Claim]) -> tuple[Callable[..., tuple[Evaluation, ...]], list[Seat], int, int]:
    """What evaluates populations, everyone's seat in them, their number and their size."""
    experiment = members[0].experiment
    if members[0].exactly:
        n_pop = experiment.ea.n_pop
        seats = [(one.record.place, one.record.individual % n_pop) for one in members]
        return compile_evolution(experiment).evaluate, seats, len(experiment.seeds), n_pop
    robots = robots_at_once(len(members) * experiment.evaluation.starts, experiment.robot.body.possible.size)
    everyone = [(place, 0) for place in range(len(members))]
    return jax.jit(partial(evaluate_all, experiment, robots)), everyone, len(members), 1


def _together(members: Sequence[Claim], seats: Sequence[Seat], waiting: Sequence[int]) -> list[int]:
    """Robots that are evaluated at once: no two on one seat.

    Where leaders are looked at again, no two in one population either: nobody else is to lead there. Nor where starts
    are drawn anew in every generation, as there is one for all.
    """
    options = members[0].experiment.evaluation
    alone = options.refine is not None or asks_when(members[0].experiment)
    taken: dict[Any, int] = {}
    for place in waiting:
        taken.setdefault(seats[place][0] if alone else seats[place], place)
    return list(taken.values())


def _when(members: Sequence[Claim], chosen: Sequence[int]) -> Any:
    """Seed and generation of the robot in a population, or of anyone."""
    record = members[chosen[0] if chosen else 0].record
    return jnp.array([record.seed, record.generation], jnp.uint32)


def _population(members: Sequence[Claim], at: dict[int, int], n_pop: int) -> Genes:
    """Genes of a population; at: which robots sit where. Everywhere else are copies of the first of them."""
    filling = members[next(iter(at.values()), 0)].record

    def part(name: str, kind: Any) -> Any:
        genes = np.tile(np.asarray(filling.genes[name], kind), (n_pop, 1))
        for seat, place in at.items():
            genes[seat] = members[place].record.genes[name]
        return jnp.asarray(genes)

    return {name: part(name, shape.dtype) for name, shape in asked_genes(members[0].experiment)[0].items()}


def _fitness(claim: Claim, fitness: np.ndarray, seat: int) -> float:
    """Of one robot, larger is better, not a number if it failed; fitness: of its population.

    Where leaders are looked at again, it hangs in the last digit on a robot's rank among them, which nobody knows any
    more. All of the population are copies of this one, on all ranks: the nearest to what was said is it.
    """
    if claim.experiment.evaluation.refine is None:
        value = fitness[seat]
    else:
        said = claim.experiment.fitness.sign * claim.record.score
        known = fitness[np.isfinite(fitness)]
        value = known[np.argmin(abs(known - said))] if known.size else np.nan
    return float(value) if np.isfinite(value) else float("nan")
