"""Simulates and records the robots to be shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from vsr.arrays import CorruptFileError
from vsr.drawing.recording import Recording, recording_of
from vsr.episode import Trajectory
from vsr.experiments.config import UserError, load
from vsr.experiments.config.loading import with_settings
from vsr.experiments.devices import check_implementation
from vsr.experiments.experiment import Experiment
from vsr.experiments.memory import simulate_within_memory
from vsr.experiments.shipped import SCENE, find_config
from vsr.experiments.storage.archives import read_archives
from vsr.experiments.storage.lineage import piece_files, read_piece
from vsr.experiments.storage.robots import load_robot, robot_file
from vsr.experiments.storage.runs import Run, leading, read_run
from vsr.physics.engine import AnyModel
from vsr.scene import Scene, precision


@dataclass(frozen=True)
class Source:
    """A robot in its world, with what to call it."""

    name: str
    scene: Scene
    warnings: tuple[str, ...] = ()
    """notes for the user"""


def read_sources(
    given: Sequence[str],
    *,
    seed: int | None = None,
    generations: Sequence[int] = (),
    cells: Sequence[str] = (),
    settings: Sequence[str] = (),
) -> list[Source]:
    """The robots of files, and of each run one per generation and per cell of an archive, or its best if none is named.

    seed: of the runs, by default that with the best robot (of the generation); generations: from 0; cells: as
    `archive:i,j`, or `i,j` in the first archive; settings: values over those of the robots (`path=value`).
    """
    if (seed is not None or generations or cells) and not any(Path(name).is_dir() for name in given):
        raise UserError(
            f"{', '.join(given)}: --seed, --generation and --cell choose among a run's robots; this is no run folder"
        )
    sources = []
    paths = [find_config(name, SCENE, folders=True) for name in given]
    for path, name in zip(paths, _short_names(paths), strict=True):
        if path.is_dir():
            run = read_run(path)
            found = [_of_cell(run, name, seed, cell) for cell in dict.fromkeys(cells)]
            wanted = dict.fromkeys(generations) or (() if cells else (None,))
            found += [_of_run(run, name, seed, generation) for generation in wanted]
            sources += [replace(one, scene=with_settings(one.scene, settings, one.name)) for one in found]
        else:
            sources.append(_of_file(path, name, settings))
    return sources


def _short_names(paths: Sequence[Path]) -> list[str]:
    """Of files and folders: their own names, with as many folders before them as distinguish them."""
    whole = [found if found.is_dir() else found.with_suffix("") for found in (path.resolve() for path in paths)]

    def short(path: Path, count: int) -> str:
        return "/".join(path.parts[-count:])

    return [
        next(
            short(path, count)
            for count in range(1, len(path.parts) + 1)
            if all(short(path, count) != short(other, count) for other in whole if other != path)
        )
        for path in whole
    ]


def _of_file(path: Path, name: str, settings: Sequence[str]) -> Source:
    scene = load(path, settings)
    if isinstance(scene, Experiment):
        raise UserError(
            f"{path}: its robot is still to evolve; give vsr evolve this file, then vsr play the run folder"
        )
    return Source(name, scene)


def _of_run(run: Run, name: str, seed: int | None, generation: int | None) -> Source:
    seeds = run.experiment.seeds
    index = run.index_of(seed)
    last = run.generations - 1 if generation is None else generation
    if not 0 <= last < run.generations:
        raise UserError(f"{run.path}: there is no generation {last}; it has 0 to {run.generations - 1}")
    if seed is None:  # of the robots that are kept, as reports show it; of a generation, the one that led then
        index = leading(run) if generation is None else int(np.argmax(run.fitness[:, last]))
    chosen = seeds[index]
    if not np.isfinite(run.fitness[index, last]):
        raise UserError(f"{run.path}: seed {chosen} has no best robot: all of them failed")
    if generation is not None:
        shown = f"{name}, seed {chosen}, generation {generation}"
        return Source(shown, _of_generation(run, index, generation), run.warnings)
    file = robot_file(run.path, chosen)
    if not file.is_file():
        raise UserError(
            f"{run.path}: seed {chosen} has no best robot: there is no {file.relative_to(run.path)}; "
            f"--generation {last} looks for it in lineage/"
        )
    warnings = run.warnings
    if seed is None and index != (led := int(np.argmax(run.fitness[:, last]))):
        behind = f"{run.path}: of seed {seeds[led]}, which was better, that robot is not kept; seed {chosen} is shown"
        warnings = (*warnings, behind)
    return Source(f"{name}, seed {chosen}", load_robot(file), warnings)


def _of_cell(run: Run, name: str, seed: int | None, cell: str) -> Source:
    """The elite of a cell, from its genes."""
    index = leading(run) if seed is None else run.index_of(seed)
    archives = {archive.name: archive for archive in read_archives(run.path, run.experiment, index)}
    if not archives:
        raise UserError(f"{run.path}: --cell {cell}: its search ({run.experiment.optimizer.type}) keeps no archive")
    wanted, colon, places = cell.rpartition(":")
    archive = archives.get(wanted if colon else next(iter(archives)))
    parts = places.split(",")
    if archive is None or not all(part.strip().isdecimal() for part in parts):
        raise UserError(f"--cell {cell}: write it as archive:i,j; the archives of {run.path} are {', '.join(archives)}")
    number = archive.cell(tuple(map(int, parts)))
    if number not in archive.filled:
        raise UserError(f"--cell {cell}: this cell is empty; vsr plot {run.path} --archive shows which are not")
    scene = run.experiment.scene({part: genes[number] for part, genes in archive.genes.items()})
    assert scene is not None, "an elite has a body"
    value = run.experiment.fitness.sign * float(archive.fitness[number])
    return Source(f"{name}, {archive.name} {places}, {run.experiment.fitness.measure} {value:.4g}", scene)


def _of_generation(run: Run, index: int, generation: int) -> Scene:
    """The best robot so far at a generation, from its genes."""
    before = [file for file in piece_files(run.path) if int(file.stem) <= generation]
    genes = None
    if before:
        try:
            piece = read_piece(before[-1], len(run.experiment.seeds))
        except CorruptFileError as error:
            raise UserError(f"{error}; the robot of another --generation may still be there") from None
        if generation < piece.first + piece.count:
            genes = piece.best_genes(index, generation) or None
    scene = None if genes is None else run.experiment.scene(genes)
    if scene is None:
        raise UserError(f"{run.path}: the robot of generation {generation} is not kept in lineage/")
    return scene


@dataclass(frozen=True)
class RecordedRobot:
    """One robot with its scene and a recording of one episode, ready to be shown."""

    name: str
    scene: Scene
    recording: Recording
    measures: dict[str, float]

    @property
    def ground(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Its line [m], in 3-D at the y where the robot starts; None without ground."""
        terrain = self.scene.world.terrain
        return None if terrain is None else terrain.line_at(self.scene.task.placement.y)

    @property
    def symbols(self) -> tuple[str, ...]:
        """Of the materials."""
        return tuple(self.scene.robot.body.materials)


def record_robot(source: Source, seconds: float) -> RecordedRobot:
    """Simulate a robot for some time [s], instead of its task's time, and record it."""
    task = source.scene.task.model_copy(update={"duration": seconds})
    scene = source.scene.model_copy(update={"task": task})
    check_implementation(scene.physics)
    outcome = simulate_within_memory(source.name, scene, keep_trajectory=True)
    assert outcome.model is not None
    assert outcome.trajectory is not None
    return robot_from_trajectory(source.name, scene, outcome.model, outcome.trajectory, outcome.measures)


def robot_from_trajectory(
    name: str, scene: Scene, model: AnyModel, trajectory: Trajectory, measures: dict[str, float] | None = None
) -> RecordedRobot:
    """The recording of an episode that was simulated already."""
    with precision(scene.physics.precision):
        body, dtype = scene.robot.body, np.dtype(scene.physics.precision)
        environment = scene.world.build(dtype)
        controller = scene.robot.build_controller(dtype)
        recording = recording_of(model, trajectory, environment, body.cells, controller, scene.systems())
    return RecordedRobot(name, scene, recording, measures or {})
