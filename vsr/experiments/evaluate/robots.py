"""Robots to evaluate: of files, best of runs, or elites of archives; those of one shape together as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vsr.body import Material
from vsr.experiments.config import UserError
from vsr.experiments.console import warn
from vsr.experiments.devices import check_implementation
from vsr.experiments.estimate import needs_of_scene, require_memory
from vsr.experiments.experiment import Experiment, Fitness
from vsr.experiments.population import stack
from vsr.experiments.refine.command import RefinedRobot, read_robots
from vsr.experiments.storage.archives import ArchiveRead, read_archives, read_front
from vsr.experiments.storage.runs import Run, read_run
from vsr.physics.engine import assemble_body
from vsr.scene import Physics, Scene, precision
from vsr.tasks import Task
from vsr.world.spec import VoxelLike, World


@dataclass(frozen=True)
class Flock:
    """Robots whose arrays have one shape, and who come from one world."""

    names: tuple[str, ...]
    sources: tuple[int, ...]
    """which of the given runs and files each is from"""
    models: Any
    """with a leading axis (robots,)"""
    controllers: Any
    voxels: VoxelLike
    """what all of them are made of"""
    materials: tuple[Material, ...]
    cells: tuple[int, ...]
    """of the grid"""
    world: World
    task: Task
    physics: Physics
    goal: Fitness
    """what they were selected for"""

    @property
    def size(self) -> int:
        return len(self.names)


def read_flocks(paths: Sequence[Path], elites: bool) -> list[Flock]:
    """All robots of runs and files; raises UserError for what has none."""
    flocks = []
    for source, path in enumerate(paths):
        if elites:
            flocks += _elites(path, source)
        else:
            flocks += _of_scenes(list(read_scenes(path)), source)
    return flocks


def read_scenes(path: Path) -> Iterator[tuple[str, Scene, Fitness]]:
    """The robot of a file or the best of a run: names, scenes, and what they were selected for."""
    for robot in read_robots(path):
        assert robot.scene is not None
        check_implementation(robot.scene.physics)
        require_memory(robot.name, needs_of_scene(robot.scene, recorded=False))
        yield robot.name, robot.scene, _goal(robot)


def _goal(robot: RefinedRobot) -> Fitness:
    return Fitness(measure=robot.measure, direction="minimise" if robot.minimised else "maximise")


def _of_scenes(robots: Sequence[tuple[str, Scene, Fitness]], source: int) -> list[Flock]:
    """By the shapes of their arrays and by their worlds."""
    alike: dict[Any, list[tuple[str, Scene, Any]]] = {}
    for name, scene, goal in robots:
        dtype, body = jnp.dtype(scene.physics.precision), scene.robot.body
        with precision(scene.physics.precision):
            model = assemble_body(body, dtype=dtype, integrator=scene.physics.integrator)
            arrays = model, scene.robot.build_controller(dtype)
        leaves, structure = jax.tree.flatten(arrays)
        shapes = tuple((leaf.shape, leaf.dtype) for leaf in leaves)
        plain = tuple(map(repr, (scene.world, scene.task, scene.physics, scene.schedule(), goal)))
        alike.setdefault((structure, shapes, plain), []).append((name, scene, arrays))
    goals = {name: goal for name, _, goal in robots}
    flocks = []
    for members in alike.values():
        names, scenes, arrays = zip(*members, strict=True)
        with precision(scenes[0].physics.precision):
            flocks.append(flock_of(names, scenes, goals[names[0]], source, stack(arrays)))
    return flocks


def flock_of(names: Sequence[str], scenes: Sequence[Scene], goal: Fitness, source: int, arrays: Any) -> Flock:
    """Robots of one kind; arrays: models and controllers, each with a leading axis (robots,)."""
    first = scenes[0]
    used = {repr(material): material for scene in scenes for material in scene.robot.body.materials.values()}
    return Flock(
        names=tuple(names),
        sources=(source,) * len(names),
        models=arrays[0],
        controllers=arrays[1],
        voxels=first.robot.body,
        materials=tuple(used.values()),
        cells=first.robot.body.cells.shape,
        world=first.world,
        task=first.task,
        physics=first.physics,
        goal=goal,
    )


def _elites(path: Path, source: int) -> list[Flock]:
    """Of all seeds and archives of a run, each individual once; or its best compromises."""
    if not path.is_dir():
        raise UserError(f"{path}: --elites is for runs; a robot's file has one robot: leave it out")
    run = read_run(path)
    warn(run.warnings)
    experiment = run.experiment
    check_implementation(experiment.physics)
    names, genes = [], []
    for index, seed in enumerate(experiment.seeds):
        for where, own in _kept(run, index):
            names.append(f"{run.name}, seed {seed}, {where}")
            genes.append(own)
    if not names:
        raise UserError(f"{path}: its search ({experiment.ea.type}) keeps no elites; leave out --elites for its best")
    # NumPy's: one program that joins tens of thousands of arrays takes JAX minutes to build.
    together = {part: np.stack([own[part] for own in genes]) for part in genes[0]}
    return [_decoded(experiment, names, together, source)]


def _kept(run: Run, seed: int) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Where every elite of the seed of this index is, and its genes."""
    known: set[int] = set()
    for archive in read_archives(run.path, run.experiment, seed):
        for cell in archive.filled:
            if int(archive.id[cell]) not in known:
                known.add(int(archive.id[cell]))
                yield f"{archive.name}:{_place(archive, int(cell))}", _row(archive.genes, cell)
    front = read_front(run.path, run.experiment, seed)
    for place in [] if front is None else np.flatnonzero((front.front == 0) & np.isfinite(front.values).all(1)):
        assert front is not None
        yield f"individual {front.id[place]}", _row(front.genes, int(place))


def _place(archive: ArchiveRead, cell: int) -> str:
    return ",".join(str(int(one)) for one in np.unravel_index(cell, archive.settings.shape))


def _row(genes: dict[str, np.ndarray], place: int) -> dict[str, np.ndarray]:
    return {part: own[place] for part, own in genes.items()}


def _decoded(experiment: Experiment, names: list[str], genes: Any, source: int) -> Flock:
    """All elites as arrays at once."""
    dtype, physics = jnp.dtype(experiment.physics.precision), experiment.resolved().physics
    with precision(experiment.physics.precision):
        build = jax.jit(
            jax.vmap(lambda own: experiment.robot.build(own, experiment.task.duration, dtype, physics.integrator))
        )
        models, controllers = build(jax.tree.map(jnp.asarray, genes))
    body = experiment.robot.body
    return Flock(
        names=tuple(names),
        sources=(source,) * len(names),
        models=models,
        controllers=controllers,
        voxels=body,
        materials=tuple(body.materials.values()),
        cells=body.possible.shape,
        world=experiment.world,
        task=experiment.task,
        physics=physics,
        goal=experiment.fitness,
    )
