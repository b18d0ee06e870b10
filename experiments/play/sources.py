"""What can be looked at: robots in files, and the best robots of runs, now or of any generation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from vsr.arrays import Damaged
from vsr.experiments.config import UserError, load
from vsr.experiments.experiment import Experiment
from vsr.experiments.runs import Run, read_run
from vsr.experiments.runs.best_robots import leading
from vsr.experiments.runs.lineage import piece_files, read_piece
from vsr.experiments.runs.robot_files import load_robot, robot_file
from vsr.scene import Scene


@dataclass(frozen=True)
class Source:
    """A robot in its world, with what to call it."""

    name: str
    scene: Scene
    warnings: tuple[str, ...] = ()
    """what whoever asked for it should know"""


def read_sources(given: Sequence[str], *, seed: int | None = None, generations: Sequence[int] = ()) -> list[Source]:
    """The robots of files, and of each run one per generation, or its best if none is named.

    seed: of the runs, by default that with the best robot (of the generation); generations: from 0.
    """
    if (seed is not None or generations) and not any(Path(name).is_dir() for name in given):
        raise UserError(
            f"{', '.join(given)}: --seed and --generation choose among a run's robots; this is no run folder"
        )
    sources = []
    paths = [Path(name) for name in given]
    for path, name in zip(paths, _short_names(paths), strict=True):
        if path.is_dir():
            run = read_run(path)
            sources += [_of_run(run, name, seed, generation) for generation in dict.fromkeys(generations) or (None,)]
        else:
            sources.append(_of_file(path, name))
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


def _of_file(path: Path, name: str) -> Source:
    scene = load(path)
    if isinstance(scene, Experiment):
        raise UserError(
            f"{path}: its robot is still to evolve; give vsr evolve this file, then vsr play the run folder"
        )
    return Source(name, scene)


def _of_run(run: Run, name: str, seed: int | None, generation: int | None) -> Source:
    seeds = run.experiment.seeds
    if seed is not None and seed not in seeds:
        raise UserError(f"{run.path}: there is no seed {seed}; its seeds are {', '.join(map(str, seeds))}")
    last = run.generations - 1 if generation is None else generation
    if not 0 <= last < run.generations:
        raise UserError(f"{run.path}: there is no generation {last}; it has 0 to {run.generations - 1}")
    if seed is not None:
        index = seeds.index(seed)
    else:  # of the robots that are kept, as reports show it; of a generation, the one that led then
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


def _of_generation(run: Run, index: int, generation: int) -> Scene:
    """The best robot so far at a generation, from its genes."""
    before = [file for file in piece_files(run.path) if int(file.stem) <= generation]
    genes = None
    if before:
        try:
            piece = read_piece(before[-1], len(run.experiment.seeds))
        except Damaged as error:
            raise UserError(f"{error}; the robot of another --generation may still be there") from None
        if generation < piece.first + piece.count:
            genes = piece.best_genes(index, generation) or None
    scene = None if genes is None else run.experiment.scene(genes)
    if scene is None:
        raise UserError(f"{run.path}: the robot of generation {generation} is not kept in lineage/")
    return scene
