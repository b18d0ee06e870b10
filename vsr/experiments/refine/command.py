"""The work of `vsr refine`: the table of a robot's, or of every seed's best robot's, robustness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import Progress
from rich.table import Table

from vsr.arrays import Damaged
from vsr.experiments.config import EVOLVED, UserError, load
from vsr.experiments.config.yaml_reader import read_yaml
from vsr.experiments.console import busy, console_for_tables, say, warn
from vsr.experiments.devices import check_implementation, prepare
from vsr.experiments.estimate import needs_of_refining, require_memory, told_if_exhausted
from vsr.experiments.experiment import Experiment
from vsr.experiments.numbers import number
from vsr.experiments.refine.plot import plot_robustness
from vsr.experiments.refine.robustness import CHANGED, CHANGES, LOST, VARIANTS, Robustness, batches_of, robustness_of
from vsr.experiments.shipped import SCENE, find_config
from vsr.experiments.storage.files import (
    read_checked_json,
    require_writable,
    target_file,
    without_nan,
    write_checked_json,
    write_json,
)
from vsr.experiments.storage.robots import load_robot, read_title, robot_file
from vsr.experiments.storage.runs import Run, read_run, trust_plugins
from vsr.scene import Scene

STORED = "refinement.json"
"""In a run folder, for its report."""
MARK = " !"
"""Behind the share of a variant that changes a robot's median a lot."""
PICTURES = (".png", ".pdf", ".svg")


@dataclass(frozen=True)
class RefineOptions:
    """As the command line gives them."""

    given: tuple[str, ...]
    factors: tuple[int, ...]
    starts: int
    json: str | None
    plot: str | None
    device: str | None
    trust_plugins: bool = False
    """whether code that files and runs bring along is run"""


@dataclass(frozen=True)
class RefinedRobot:
    """A robot to simulate again."""

    name: str
    scene: Scene | None
    """None where only its numbers are wanted"""
    measure: str
    value: float | None
    """what its file says"""
    minimised: bool = False
    """whether less is better"""


def refine(options: RefineOptions) -> None:
    """Simulate again, print the table, write what is asked for."""
    prepare(options.device)
    picture = None if options.plot is None else target_file("--plot", options.plot, PICTURES)
    report = None if options.json is None else target_file("--json", options.json, (".json",))
    if options.trust_plugins:
        trust_plugins(options.given)
    for name in options.given:
        if Path(name).is_dir():
            require_writable(Path(name), Path(name) / STORED)
    sources = {name: read_robots(find_config(name, SCENE, folders=True)) for name in dict.fromkeys(options.given)}
    _distinguish(sources)
    robots = [robot for of_source in sources.values() for robot in of_source]
    for robot in robots:
        assert robot.scene is not None
        check_implementation(robot.scene.physics)
    scenes = [robot.scene for robot in robots if robot.scene is not None]
    needs = needs_of_refining(scenes, options.starts, len(options.factors) + 2 * len(CHANGES) + len(VARIANTS))
    require_memory("vsr refine", needs)
    with told_if_exhausted(needs):
        found = measure(robots, options.factors, options.starts)
    show(robots, found)
    if report is not None:
        write_json(report, as_plain(robots, found))
    if picture is not None:
        goals = {robot.measure for robot in robots}
        label = goals.pop() if len(goals) == 1 else "measure"
        plot_robustness([robot.name for robot in robots], found, label, picture)
    first = 0
    for name, of_source in sources.items():
        own = found.some(slice(first, first + len(of_source)))
        first += len(of_source)
        if Path(name).is_dir():
            write_checked_json(Path(name) / STORED, {**as_plain(of_source, own), **stamp(read_run(name))})


def stamp(run: Run) -> dict[str, Any]:
    """What distinguishes a run's state from any other."""
    return without_nan({"generations": run.generations, "final": run.best[:, -1].tolist()})


def stored_refinement(run: Run) -> dict[str, Any] | None:
    """What was stored in a run folder; None if nothing was, or if the run has gone on since."""
    try:
        stored = read_checked_json(run.path / STORED)
        return stored if {name: stored[name] for name in stamp(run)} == stamp(run) else None
    except (Damaged, KeyError):
        return None


def _distinguish(sources: dict[str, list[RefinedRobot]]) -> None:
    """Robots of different files have different names: where short ones are alike, the paths given stand before them."""
    short = [robot.name for robots in sources.values() for robot in robots]
    for given, robots in sources.items():
        sources[given] = [
            replace(robot, name=f"{given}: {robot.name}") if short.count(robot.name) > 1 else robot for robot in robots
        ]


def read_robots(path: Path) -> list[RefinedRobot]:
    """The robot of a file, or every seed's best of a run."""
    if not path.is_dir():
        scene = load(path)
        if isinstance(scene, Experiment):
            raise UserError(f"{path}: its robot is still to evolve; give vsr evolve this file, then vsr refine the run")
        title = read_title(path)
        known = title is not None and title.measure in scene.task.known_measures()
        chosen = title.measure if title is not None and known else _usual_measure(scene)
        value = title.value if title is not None and known else None
        return [RefinedRobot(path.stem, scene, chosen, value, _is_minimised(path))]
    run = read_run(path)
    warn(run.warnings)
    robots = []
    for index, seed in enumerate(run.experiment.seeds):
        file = robot_file(run.path, seed)
        if not file.is_file() and np.isfinite(run.best[index, -1]):
            warn([f"{file}: missing, so that seed {seed} is left out"])
        if file.is_file():
            title = read_title(file)
            value = None if title is None else title.value
            goal = run.experiment.fitness
            name = f"{run.name}, seed {seed}"
            robots.append(RefinedRobot(name, load_robot(file), goal.measure, value, goal.direction == "minimise"))
    if not robots:
        raise UserError(f"{path}: it keeps no best robot yet")
    return robots


def _is_minimised(path: Path) -> bool:
    """Whether the robot of a file was evolved for a measure of which less is better, as its block says."""
    said = (read_yaml(path).data or {}).get(EVOLVED)
    experiment = said.get("experiment") if isinstance(said, dict) else None
    fitness = experiment.get("fitness") if isinstance(experiment, dict) else None
    return isinstance(fitness, dict) and fitness.get("direction") == "minimise"


def _usual_measure(scene: Scene) -> str:
    return "relative_velocity" if "relative_velocity" in scene.task.measures else scene.task.measures[0]


def measure(robots: Sequence[RefinedRobot], factors: Sequence[int], starts: int) -> Robustness:
    """Of all robots, with a progress bar."""
    scenes = [robot.scene for robot in robots if robot.scene is not None]
    measures = [robot.measure for robot in robots]
    with Progress(transient=True) as progress, busy("simulating", counting=False):
        task = progress.add_task(f"{len(robots)} robots again", total=batches_of(scenes, measures, len(factors)))
        return robustness_of(
            scenes,
            measures,
            factors=factors,
            starts=starts,
            minimised=[robot.minimised for robot in robots],
            done=lambda: progress.advance(task),
        )


def show(robots: Sequence[RefinedRobot], found: Robustness) -> None:
    """The table, and what it comes to."""
    console = console_for_tables()
    table = Table(box=None)
    for i, name in enumerate(head(found)):
        table.add_column(name, justify="left" if i == 0 else "right")
    for row in rows(robots, found):
        table.add_row(*row)
    console.print(table)
    say(summary(found))


def head(found: Robustness) -> list[str]:
    """Names of the columns."""
    medians = [f"x{factor}" for factor in found.factors]
    lost = [f"lost x{factor}" for factor in _ends(found)]
    return [
        "robot",
        "its file",
        *medians,
        f"spread x{found.factors[0]}",
        "kept",
        *lost,
        "most changed",
        *found.variants,
    ]


def _ends(found: Robustness) -> tuple[int, ...]:
    """The first factor and the last one."""
    return tuple(dict.fromkeys((found.factors[0], found.factors[-1])))


def rows(robots: Sequence[RefinedRobot], found: Robustness) -> list[list[str]]:
    """One for each robot, as text."""
    medians = [found.at(factor) for factor in found.factors]
    shown = []
    for i, robot in enumerate(robots):
        first = found.refined[i, 0]
        spread = (
            f"{number(float(np.nanmin(first)))} to {number(float(np.nanmax(first)))}"
            if np.isfinite(first).any()
            else ""
        )
        said = "" if robot.value is None else number(robot.value)
        values = [number(float(median[i])) for median in medians]
        lost = [_share(found.lost[i, found.factors.index(factor)]) for factor in _ends(found)]
        variants = [_share(kept) + (MARK if _differs(kept) else "") for kept in found.kept_by_variant[i]]
        shares = [_share(found.kept[i]), *lost, _share(found.most_changed[i]), *variants]
        shown.append([robot.name, said, *values, spread, *shares])
    return shown


def _share(value: float) -> str:
    return f"{100 * value:.0f} %" if np.isfinite(value) else ""


def _differs(kept: float | np.ndarray) -> Any:
    """Whether a variant changes the median by more than CHANGED."""
    return abs(np.asarray(kept) - 1) > CHANGED


def summary(found: Robustness) -> str:
    """In a few sentences: how many robots keep their fitness, in how many trials it is lost, and what changes it."""
    kept = found.kept[np.isfinite(found.kept)]
    if not len(kept):
        return "none could be simulated again"
    near = int((abs(kept - 1) <= 0.1).sum())
    lost = found.lost[:, -1]
    said = [
        f"with steps {found.factors[-1]} times finer the median robot keeps {100 * np.median(kept):.1f} % of its "
        f"measure, {near} of {len(found.kept)} keep it within 10 %, the worst keeps {100 * kept.min():.0f} %",
        f"{100 * np.nanmean(lost):.0f} % of all trials are then below {100 * LOST:.0f} % of the x{found.factors[0]} "
        f"median, in {int((lost > 0).sum())} of {len(lost)} robots",
    ]
    differing = zip(found.variants, _differs(found.kept_by_variant).sum(0), strict=True)
    said += [f"{changed} of {len(lost)} robots change by more than 10 % with {label}" for label, changed in differing]
    return "; ".join(said)


def as_plain(robots: Sequence[RefinedRobot], found: Robustness) -> dict[str, Any]:
    """As JSON has it."""
    named = [{"name": robot.name, "measure": robot.measure, "file": robot.value} for robot in robots]
    return without_nan({"robots": named, **found.to_plain()})
