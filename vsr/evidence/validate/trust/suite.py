"""Hard robots by the thousand: which are broken, by what was seen of them, and the table of what was reported.

Nothing that is reported counts for what is broken.
"""

from __future__ import annotations

import math
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich.box import SIMPLE
from rich.table import Table

from vsr.evidence.validate import ValidateOptions
from vsr.evidence.validate.command import Report, Suite
from vsr.evidence.validate.trust.batches import batch_of, calls_of, episodes, layers_of, schedule_of, surroundings
from vsr.evidence.validate.trust.robots import TIME_STEP, Kind, Sample, samples
from vsr.evidence.validate.trust.watching import Watch
from vsr.physics.failure import Failure

Scale = Literal["tiny", "quick", "full"]
SILICONE = 0.03
"""Side of voxels with chambers [m]."""

SCALES: dict[Scale, tuple[Kind, ...]] = {
    "tiny": (Kind("points, 2-D", "points", (2, 2), (2,), 24, 2.0),),
    "quick": (
        Kind("squares", "squares", (4, 4), (2, 33), 64, 6.0),
        Kind("squares, coarsest steps", "squares", (4, 4), (2,), 64, 6.0, coarsest=True),
        Kind("points, 2-D", "points", (4, 4), (2, 27), 64, 6.0),
        Kind("points, 3-D", "points", (3, 3, 3), (2, 50), 48, 4.0),
        Kind("chambers, 2-D", "points", (4, 4), (27,), 32, 4.0, side=SILICONE, fluid=True),
        Kind("chambers, 3-D", "points", (2, 2, 3), (50,), 16, 2.0, side=SILICONE, fluid=True),
        Kind("squares on sand", "squares", (3, 3), (9,), 16, 3.0, ground="sand"),
        Kind("squares, ten minutes", "squares", (2, 2), (6,), 16, 600.0),
    ),
    "full": (
        Kind("squares", "squares", (20, 20), (1, 2, 9, 33, 81), 192, 60.0),
        Kind("squares, coarsest steps", "squares", (20, 20), (2, 9), 192, 60.0, coarsest=True),
        Kind("squares, ten minutes", "squares", (20, 20), (2, 33), 192, 600.0),
        Kind("squares on steps", "squares", (8, 8), (2, 33), 192, 60.0, ground="steps"),
        Kind("squares on sand", "squares", (4, 4), (9, 33), 64, 30.0, ground="sand"),
        Kind("points, 2-D", "points", (20, 20), (1, 2, 9, 27, 53), 192, 60.0),
        Kind("points, 2-D, coarsest steps", "points", (20, 20), (2, 9), 192, 60.0, coarsest=True),
        Kind("points on sand, 2-D", "points", (4, 4), (9,), 64, 30.0, ground="sand"),
        Kind("points, 3-D", "points", (5, 8, 10), (1, 2, 9, 50, 100), 192, 60.0),
        Kind("points, 3-D, coarsest steps", "points", (5, 8, 10), (2, 9), 192, 60.0, coarsest=True),
        Kind("points, 3-D, ten minutes", "points", (5, 8, 10), (9, 50), 192, 600.0),
        Kind("points on steps, 3-D", "points", (3, 4, 4), (9,), 192, 60.0, ground="steps"),
        Kind("points on sand, 3-D", "points", (2, 2, 2), (9,), 32, 20.0, ground="sand"),
        Kind("chambers, 2-D", "points", (8, 8), (9, 27), 96, 60.0, side=SILICONE, fluid=True),
        Kind("chambers, 2-D, ten minutes", "points", (8, 8), (9,), 96, 600.0, side=SILICONE, fluid=True),
        Kind("chambers, 3-D", "points", (3, 4, 4), (50,), 96, 20.0, side=SILICONE, fluid=True),
    ),
}
"""Sizes of the suite; `tiny` is for tests, `full` for a GPU. Batches that differ only in how long they last, or in
their materials, share a program, whose compilation takes longer than most simulations."""
QUICKLY_COMPILED: dict[str, dict[str, str | bool]] = {"gpu": {"xla_gpu_autotune_level": "0"}}
"""Options of the compiler: it is not to try out which of several programs is the fastest."""


SUNK = 0.1
"""Depth of a mass in the ground, over the side of a voxel."""
FAST = 0.25
"""Way of a mass in one substep, over the side of a voxel: with more, steps cannot follow it."""
DRIFTED = 1e-3
"""Momentum that a floating robot may gain, over the sizes of all masses' momenta; rounding comes on top."""
RISEN, RAISED = 0.6, 0.5
"""Shares of the largest energy that are spurious, and that a robot has beyond what it can have (`Watch`): with
more it is broken."""
RISES, RAISES = 0.3, 0.05
"""With less of both a simulation is correct. Between the bounds a report counts as neither missed nor needless."""
UNSEEN = (Failure.contact_overflow, Failure.leaking)
"""Failures that are counted where they happen and cannot be seen from outside: whoever reports one is right."""
CALL = 2
"""Time steps from one control call to the next."""


@dataclass(frozen=True)
class RobotVerdict:
    """One simulated robot."""

    robot: Sample
    reported: Failure
    broken: tuple[str, ...]
    """failures that the monitor observed"""
    unsure: bool
    """whether its energy lies between what is fine and what is broken"""
    creased: bool
    """whether a corner of a voxel was inside out, the voxel as a whole not"""
    seen: dict[str, float]

    @property
    def unreported(self) -> bool:
        """Whether something is wrong that nobody would know of."""
        return bool(self.broken) and self.reported is Failure.none

    @property
    def needless(self) -> bool:
        """Whether it is reported, and nothing is wrong."""
        unsure = self.reported in UNSEEN or (self.reported is Failure.gained_energy and self.unsure)
        return bool(self.reported) and not self.broken and not unsure


def judge(kind: Kind, substeps: int, robots: Sequence[Sample], failure: np.ndarray, watch: Watch) -> list[RobotVerdict]:
    """Every robot of a batch."""
    return [
        _judged(
            kind,
            substeps,
            robot,
            Failure(int(failure[place])),
            {name: float(values[place]) for name, values in vars(watch).items()},
        )
        for place, robot in enumerate(robots)
    ]


def _judged(kind: Kind, substeps: int, robot: Sample, reported: Failure, seen: dict[str, float]) -> RobotVerdict:
    broken = []
    if not seen["finite"]:
        broken.append("not finite")
    if not seen["least_size"] > 0:
        broken.append("inside out")
    if not seen["fastest"] * TIME_STEP / substeps <= FAST * kind.side:
        broken.append("too fast for its steps")
    broken += _faults_of_energy(kind, seen)
    if not seen["deepest"] <= SUNK * kind.side:
        broken.append("sunk")
    damped = any(material.linear_damping > 0 for material in robot.materials)
    if robot.start == "floating" and not damped and not seen["drift"] <= _drift_allowed(substeps, robot, seen):
        broken.append("momentum without a source")
    creased = seen["least_corner"] <= 0 < seen["least_size"]
    unsure = seen["risen"] > RISES or seen["raised"] > RAISES
    return RobotVerdict(robot, reported, tuple(broken), unsure, creased, seen)


def _faults_of_energy(kind: Kind, seen: dict[str, float]) -> list[str]:
    # Grains that are pressed hold energy which is not seen; they may give back what they took.
    if kind.ground == "sand":
        return [] if seen["gained"] <= RISEN else ["spurious energy gain"]
    broken = []
    # Near the bound of stability, energy oscillates without limit while none is gained.
    if not kind.coarsest and not seen["risen"] <= RISEN:
        broken.append("spurious energy gain")
    if not seen["raised"] <= RAISED:
        broken.append("too high or too fast")
    return broken


def _mass(robot: Sample) -> float:
    """Of all masses in the corners of voxels, also of those that neighbors share [kg]."""
    engine = [robot.materials[index].mass for index in robot.cells[robot.cells >= 0].tolist()]
    return 2**robot.cells.ndim * sum(engine)


def _drift_allowed(substeps: int, robot: Sample, seen: dict[str, float]) -> float:
    """Momentum that a floating robot may gain [kg m/s]: a share of its masses' momenta, and what rounding adds up to.

    Impulses of springs are rounded to 24 bits in every substep, and are no larger than the momentum that goes with the
    largest energy, also that which a change of control gives them and dampers take away before the next call; these
    errors are as often of one sign as of the other.
    """
    added = 2 * seen["calls"] * CALL * substeps
    energy = seen["scale"] + seen["work"] / max(seen["calls"], 1)
    rounded = float(np.finfo(np.float32).eps) * math.sqrt(added * _mass(robot) * energy)
    return DRIFTED * seen["pushing"] + rounded


@dataclass(frozen=True)
class Batch:
    """Results of robots that share an engine and their substeps."""

    kind: Kind
    substeps: int
    robots: list[RobotVerdict]
    seconds: float
    """that their simulation took, without compiling"""

    @property
    def reported(self) -> Counter[Failure]:
        return Counter(robot.reported for robot in self.robots if robot.reported)

    @property
    def unreported(self) -> list[RobotVerdict]:
        return [robot for robot in self.robots if robot.unreported]

    @property
    def needlessly(self) -> list[RobotVerdict]:
        """Reported, though nothing was seen to be wrong."""
        return [robot for robot in self.robots if robot.needless]

    def _most(self, name: str) -> float:
        """The largest share of energy that is not accounted for (`Watch`) of robots without a failure."""
        return max((robot.seen[name] for robot in self.robots if not robot.reported), default=0.0)

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        doubtful = [described(robot) for robot in self.unreported + self.needlessly]
        return {
            "kind": self.kind.name,
            "grid": list(self.kind.grid),
            "substeps": self.substeps,
            "duration": self.kind.duration,
            "robots": len(self.robots),
            "reported": {reason.name: count for reason, count in sorted(self.reported.items())},
            "broken": dict(Counter(reason for robot in self.robots for reason in robot.broken)),
            "unreported": len(self.unreported),
            "reported_though_fine": len(self.needlessly),
            "creased": sum(robot.creased and not robot.reported for robot in self.robots),
            "risen": self._most("risen"),
            "raised": self._most("raised"),
            "seconds": round(self.seconds, 1),
            "doubtful": doubtful,
        }


def described(judged: RobotVerdict) -> dict[str, Any]:
    """A robot for JSON, so that it can be found again."""
    robot = judged.robot
    return {
        "reported": judged.reported.name,
        "broken": list(judged.broken),
        "voxels": int((robot.cells >= 0).sum()),
        "cells": robot.cells.tolist(),
        "control": robot.control,
        "start": robot.start,
        "tilt": robot.tilt,
        "seed": robot.seed,
        "materials": [material.model_dump(mode="json", exclude_defaults=True) for material in robot.materials],
        "seen": judged.seen,
    }


def validate_trust(
    scale: Scale = "quick", seed: int = 0, say: Callable[[Batch, dict[str, Any]], None] = lambda batch, report: None
) -> dict[str, Any]:
    """Simulate and judge all batches of a scale; returns the report; say: called with each result and all so far."""
    began = time.perf_counter()
    done: list[Batch] = []
    wanted = _wanted(SCALES[scale])

    def report() -> dict[str, Any]:
        rows = [batch.as_dict() for batch in sorted(done, key=lambda one: wanted.index((one.kind, one.substeps)))]
        total = {name: sum(row[name] for row in rows) for name in ("robots", "unreported", "reported_though_fine")}
        seconds, left = round(time.perf_counter() - began, 1), len(wanted) - len(done)
        about = {"suite": "trust", "scale": scale, "seed": seed, "seconds": seconds, "batches_left": left}
        return {**about, **total, "batches": rows}

    for batch in run_batches(SCALES[scale], seed):
        done.append(batch)
        say(batch, report())
    return report()


def _wanted(kinds: Sequence[Kind]) -> list[tuple[Kind, int]]:
    return [(kind, substeps) for kind in kinds for substeps in kind.substeps]


def run_batches(kinds: Sequence[Kind], seed: int) -> Iterator[Batch]:
    """Batches that share a program one after the other, programs as they are ready; others are compiled meanwhile."""
    robots = {(kind, substeps): samples(kind, substeps, seed) for kind, substeps in _wanted(kinds)}
    layers = {_world(kind): 1 for kind in kinds}
    for (kind, _), batch in robots.items():
        layers[_world(kind)] = max(layers[_world(kind)], layers_of(kind, batch))
    sharing: dict[Any, list[tuple[Kind, int]]] = {}
    for kind, substeps in robots:
        sharing.setdefault((_world(kind), kind.robots, substeps), []).append((kind, substeps))
    # Those that take the longest first, so that the device has work while others are compiled.
    longest_first = sorted(sharing.values(), key=lambda share: -sum(kind.duration for kind, _ in share))
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
        ready = [
            pool.submit(_compiled, [(*one, robots[one]) for one in share], layers[_world(share[0][0])])
            for share in longest_first
        ]
        for future in as_completed(ready):
            yield from map(_run, future.result())


def _world(kind: Kind) -> tuple[Any, ...]:
    """Properties that batches must share to share a program, besides substeps and number of robots."""
    return kind.engine, kind.grid, kind.side, kind.ground, kind.fluid


class _Ready(NamedTuple):
    kind: Kind
    substeps: int
    robots: list[Sample]
    program: Callable[..., Any]
    arguments: tuple[Any, ...]


def _compiled(share: Sequence[tuple[Kind, int, list[Sample]]], layers: int) -> list[_Ready]:
    """Batches as arrays, with the program that simulates them all."""
    ready: list[_Ready] = []
    program = None
    for kind, substeps, robots in share:
        schedule = schedule_of(substeps)
        ground, systems, floor = surroundings(kind, schedule)
        batch = batch_of(kind, robots, floor, layers=layers)
        arguments = batch, ground, systems, jnp.asarray(calls_of(kind), jnp.int32)
        if program is None:
            options = QUICKLY_COMPILED.get(jax.default_backend())
            program = episodes.lower(*arguments, schedule).compile(compiler_options=options)
        ready.append(_Ready(kind, substeps, robots, program, arguments))
    return ready


def _run(ready: _Ready) -> Batch:
    started = time.perf_counter()
    failure, watch = jax.device_get(ready.program(*ready.arguments))
    took = time.perf_counter() - started
    judged = judge(ready.kind, ready.substeps, ready.robots, np.asarray(failure), watch)
    return Batch(ready.kind, ready.substeps, judged, took)


class Trust(Suite):
    """Hard robots, of which none may be broken and not reported as failed."""

    takes = ("large",)

    def run(self, options: ValidateOptions, show: Callable[[Any], None], keep: Callable[[Report], None]) -> Report:
        scale: Scale = "full" if options.large else "quick"
        batches: list[Batch] = []

        def say(batch: Batch, so_far: Report) -> None:
            batches.append(batch)
            keep(so_far)
            took = f"{len(batch.robots)} robots in {batch.seconds:.1f} s"
            show(f"[dim]{batch.kind.name}, {batch.substeps} substeps: {took}[/dim]")

        report = validate_trust(scale, say=say)
        batches.sort(key=lambda batch: (SCALES[scale].index(batch.kind), batch.substeps))
        show(table_of(batches))
        color, wrong = ("red" if report["unreported"] else "green"), report["unreported"]
        total = f"{report['robots']} robots in {report['seconds']:.0f} s; broken and not reported: {wrong}"
        show(f"[{color}]{total}[/{color}]")
        for batch in batches:
            for judged in batch.unreported:
                what = f"{batch.kind.name}, {batch.substeps} substeps: {', '.join(judged.broken)}"
                show(f"[red]unreported[/red] {what}: {judged.robot.control}, {judged.robot.start}")
        return report


def table_of(batches: list[Batch]) -> Table:
    """A line for every batch."""
    table = Table(title="Reliability of failure reports", title_justify="left", title_style="bold", box=SIMPLE)
    table.add_column("robots", overflow="fold")
    for column in ("steps", "number", "reported", "not reported", "needlessly", "creased"):
        table.add_column(column, justify="right")
    for batch in batches:
        row = batch.as_dict()
        reasons = ", ".join(f"{count} {reason.label}" for reason, count in sorted(batch.reported.items())) or "-"
        numbers = (row["unreported"], row["reported_though_fine"], row["creased"])
        table.add_row(batch.kind.name, str(batch.substeps), str(row["robots"]), reasons, *map(str, numbers))
    return table


SUITE = Trust()
