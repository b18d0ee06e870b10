"""Every robot in every case of a set: robots by shape, the cases that suit them, trials with faults, the table.

Robots of one shape, in all trials, with all faults and on all grounds that share a program, are one job.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.controllers import Controller, decide, first_memory, is_policy, observes_task
from vsr.episode import rollout, scenario_of
from vsr.experiments.config import UserError
from vsr.experiments.console import warn
from vsr.experiments.devices import check_implementation
from vsr.experiments.evaluate.sets import EvaluationSet, Fault
from vsr.experiments.experiment import Fitness
from vsr.experiments.memory import explain_out_of_memory, needs_of_scene, require_memory
from vsr.experiments.perturbation import Perturbation, perturbations_of, reset_perturbed
from vsr.experiments.resimulate import Job, StoredRobot, Table, batches_of, read_robots, resimulate
from vsr.experiments.storage.archives import read_archives, read_front
from vsr.experiments.storage.runs import Run, read_run
from vsr.physics.engine import ENGINES, assemble_body, stability_bound
from vsr.robot import Material
from vsr.scene import Physics, Scene, check_episode, observed_numbers, plan, precision, whole_strides
from vsr.sensors import Sensor
from vsr.tasks import Task
from vsr.terrain import together
from vsr.world.build import build_systems
from vsr.world.defaults import apply_defaults
from vsr.world.schedule import Schedule
from vsr.world.spec import VoxelLike, World

DRAWS = 20_251
"""The seed of dead voxels and of noise."""


# Robots


@dataclass(frozen=True)
class RobotGroup:
    """Robots whose arrays have one shape, and who come from one world."""

    names: tuple[str, ...]
    source: int
    """which of the given runs and files they are from"""
    arrays: Any
    """models and controllers, each with a leading axis (robots,)"""
    voxels: VoxelLike
    """experiment or scene that all of them are built from"""
    materials: tuple[Material, ...]
    cells: tuple[int, ...]
    """of the grid"""
    world: World
    task: Task
    physics: Physics
    goal: Fitness
    """fitness measure of their selection"""

    @property
    def size(self) -> int:
        return len(self.names)


def read_groups(paths: Sequence[Path], elites: bool, settings: Sequence[str] = ()) -> list[RobotGroup]:
    """All robots of runs and files, with values set over theirs; raises UserError for what has none."""
    if elites and settings:
        raise UserError(f"--set {settings[0]}: with --elites robots are as they evolved; leave one of them out")
    groups = []
    for source, path in enumerate(paths):
        groups += _elites(path, source) if elites else _by_shape(read_whole(path, settings), source)
    return groups


def read_whole(path: Path, settings: Sequence[str] = ()) -> list[StoredRobot]:
    """The robot of a file or the best of a run, if they can be simulated here; raises UserError if not."""
    robots = read_robots(path, settings)
    for robot in robots:
        check_implementation(robot.scene.physics)
        require_memory(robot.name, needs_of_scene(robot.scene, recorded=False))
    return robots


def _by_shape(robots: Sequence[StoredRobot], source: int) -> list[RobotGroup]:
    """By the shapes of their arrays and by their worlds."""
    scenes = [robot.scene for robot in robots]
    kinds = [
        tuple(map(repr, (scene.world, scene.task, scene.physics, scene.schedule(), robot.goal)))
        for robot, scene in zip(robots, scenes, strict=True)
    ]
    batches = batches_of(scenes, kinds, _built)
    return [group_of([robots[row] for row in batch.rows], source, batch.arrays) for batch in batches]


def _built(scene: Scene) -> tuple[Any, Controller]:
    dtype = jnp.dtype(scene.physics.precision)
    integrator = scene.physics.integrator
    model = assemble_body(scene.robot.body, dtype=dtype, integrator=integrator, layers=scene.layers())
    return model, scene.robot.build_controller(dtype)


def group_of(robots: Sequence[StoredRobot], source: int, arrays: Any) -> RobotGroup:
    """Robots of one kind; arrays: models and controllers, each with a leading axis (robots,)."""
    scenes = [robot.scene for robot in robots]
    first = scenes[0]
    used = {repr(material): material for scene in scenes for material in scene.robot.body.materials.values()}
    return RobotGroup(
        names=tuple(robot.name for robot in robots),
        source=source,
        arrays=arrays,
        voxels=first.robot.body,
        materials=tuple(used.values()),
        cells=first.robot.body.cells.shape,
        world=first.world,
        task=first.task,
        physics=first.physics,
        goal=robots[0].goal,
    )


def _elites(path: Path, source: int) -> list[RobotGroup]:
    """Of all seeds and archives of a run, each individual once; or its Pareto front."""
    if not path.is_dir():
        raise UserError(f"{path}: --elites is for runs; a robot's file has one robot: leave it out")
    run = read_run(path)
    warn(run.warnings)
    experiment = run.experiment
    check_implementation(experiment.physics)
    found = [
        (f"{run.name}, seed {seed}, {where}", genes)
        for index, seed in enumerate(experiment.seeds)
        for where, genes in _elites_of_seed(run, index)
    ]
    if not found:
        raise UserError(
            f"{path}: its search ({experiment.optimizer.type}) keeps no elites; leave out --elites for its best"
        )
    # NumPy's: one program that joins tens of thousands of arrays takes JAX minutes to build.
    genes = {part: np.stack([own[part] for _, own in found]) for part in found[0][1]}
    robot, physics = experiment.robot, experiment.resolved().physics
    dtype = jnp.dtype(physics.precision)
    build = partial(robot.build, duration=experiment.task.duration, dtype=dtype, integrator=physics.integrator)
    with precision(physics.precision):
        arrays = jax.jit(jax.vmap(build))(jax.tree.map(jnp.asarray, genes))
    group = RobotGroup(
        names=tuple(name for name, _ in found),
        source=source,
        arrays=arrays,
        voxels=robot.body,
        materials=tuple(robot.body.materials.values()),
        cells=robot.body.possible.shape,
        world=experiment.world,
        task=experiment.task,
        physics=physics,
        goal=experiment.fitness,
    )
    return [group]


def _elites_of_seed(run: Run, seed: int) -> Iterator[tuple[str, dict[str, np.ndarray]]]:
    """Where every elite of the seed of this index is, and its genes."""
    known: set[int] = set()
    for archive in read_archives(run.path, run.experiment, seed):
        for cell in archive.filled:
            if int(archive.id[cell]) not in known:
                known.add(int(archive.id[cell]))
                place = ",".join(map(str, np.unravel_index(int(cell), archive.settings.shape)))
                yield f"{archive.name}:{place}", {part: own[cell] for part, own in archive.genes.items()}
    front = read_front(run.path, run.experiment, seed)
    if front is not None:
        for row in np.flatnonzero((front.front == 0) & np.isfinite(front.values).all(1)):
            yield f"individual {front.id[row]}", {part: own[row] for part, own in front.genes.items()}


# Cases that suit robots


@dataclass(frozen=True)
class Setting:
    """One task on one ground, for robots of one kind."""

    names: tuple[str, str]
    """of task and terrain"""
    world: World
    task: Task
    physics: Physics
    goal: Fitness

    @property
    def program(self) -> Any:
        """Parts shared by settings that are simulated together: all but the ground, if that is of one kind."""
        ground = self.world.terrain
        kind = ground if ground is None or ground.is_loose else ground.in_3d
        rest = self.world.model_copy(update={"terrain": None})
        return self.names[0], repr((kind, rest, self.task, self.physics, self.goal))


def settle(group: RobotGroup, described: EvaluationSet, names: tuple[str, str]) -> Setting | str:
    """A task on a ground for robots, or why that cannot be."""
    case, ground = described.tasks[names[0]], described.terrains[names[1]].terrain
    voxels, task = group.voxels, case.task or group.task
    goal = case.fitness or described.fitness
    if goal is None:
        goal = group.goal if group.goal.measure in task.known_measures() else Fitness(measure=task.measures[0])
    # The robots' world, without what another task than theirs brings itself, or what theirs brought.
    kind = voxels.engine, voxels.voxel_side, voxels.dimension
    brought = set(group.task.overrides(*kind).world) | set(task.overrides(*kind).world)
    own: dict[str, Any] = {name: getattr(group.world, name) for name in group.world.model_fields_set - brought}
    if ground is not None:
        own["terrain"] = ground
    world = World(**own)
    task = task.model_copy(update={"measures": (goal.measure,)})
    world, task, physics, against = apply_defaults(voxels, world, task, group.physics)
    at_home = apply_defaults(voxels, group.world, group.task, group.physics)[0]
    objects_are_new = world.is_touched and not at_home.is_touched
    if objects_are_new and physics.substeps is not None and ENGINES[voxels.engine].fixed_substep is None:
        # Evolution has chosen substeps for a world without objects: contacts divide them.
        physics = physics.model_copy(update={"substeps": whole_strides(physics.substeps)})
    against += check_episode(voxels, group.materials, group.cells, world, task, physics)
    if goal.measure not in task.known_measures():
        against.append((("fitness",), f"this task does not measure '{goal.measure}'"))
    if not against and observes_task(group.arrays[1]):
        against += _against_policies(group, world, task, physics)
    if against:
        return "; ".join(f"{'.'.join(path)}: {reason}" for path, reason in against)
    return Setting(names, world, task, physics, goal)


def _against_policies(
    group: RobotGroup, world: World, task: Task, physics: Physics
) -> list[tuple[tuple[str, ...], str]]:
    """Why policies that were trained for one task cannot act in another, if so."""
    voxels = group.voxels
    layers = ENGINES[voxels.engine].most_layers(voxels.dimension)
    own, _, own_physics, _ = apply_defaults(voxels, group.world, group.task, group.physics)
    known = observed_numbers(voxels, own, group.task, own_physics, layers)
    shown = observed_numbers(voxels, world, task, physics, layers)
    if known == shown:
        return []
    return [(("task",), f"it shows {shown} numbers, and the policies were trained for {known}")]


def unfit(group: RobotGroup, setting: Setting, fault: Fault) -> str:
    """Why robots cannot have a fault; empty if they can."""
    engine, factors = ENGINES[group.voxels.engine], fault.factors
    if fault.refine > 1 and engine.fixed_substep is not None:
        return f"refine: {group.voxels.engine} masses have substeps of one length only"
    constant = [name for name in factors.scaled if name not in engine.scales]
    if constant:
        return f"{group.voxels.engine} masses have no {' and no '.join(constant)} of their own"
    if factors.gravity is not None and setting.world.is_loose:
        return "gravity: sand has settled in that of its world"
    if engine.fixed_substep is not None:
        return ""
    materials = [factors.stiffened(material) for material in group.materials]
    voxels, physics = group.voxels, setting.physics
    bound = stability_bound(voxels.engine, materials, voxels.voxel_side, voxels.dimension, physics.integrator)
    substep = plan(voxels, group.materials, setting.world, setting.task, physics).substep / fault.refine
    if substep > bound:
        return f"springs so quick need {substep / bound:.2g} times shorter substeps: give this fault a larger `refine`"
    return ""


# Trials with faults


class Trials(NamedTuple):
    """Simulations that differ in data only, (trials,) each."""

    start: Perturbation
    dead: Array
    """how many voxels"""
    order: Array
    """in which voxels die, (trials, *cells)"""
    noise: Array
    """of readings, in their units"""
    number: Array
    """for whatever is random"""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class FaultyController:
    """A controller of a robot with faults."""

    own: Controller
    alive: Array
    """0 for dead voxels, *cells"""
    noise: Array
    """()"""
    number: Array
    """()"""

    @property
    def sensors(self) -> tuple[Sensor, ...]:
        return self.own.sensors

    @property
    def is_policy(self) -> bool:
        return is_policy(self.own)

    @property
    def observes_task(self) -> bool:
        return observes_task(self.own)

    @property
    def rate_limit(self) -> Array | None:
        return getattr(self.own, "rate_limit", None)

    def first_memory(self) -> Any:
        return first_memory(self.own)

    def decide(self, memory: Any, time: Array, readings: Array | None) -> tuple[Array, Any]:
        if readings is not None:
            key = jax.random.fold_in(jax.random.key(DRAWS), self.number)
            key = jax.random.fold_in(key, jax.lax.bitcast_convert_type(time.astype(jnp.float32), jnp.uint32))
            felt = readings + self.noise * jax.random.normal(key, readings.shape, readings.dtype)
            # A task shows the same of dead voxels as of others.
            readings = felt if self.observes_task else felt * self.alive
        values, memory = decide(self.own, memory, time, readings)
        return self.alive * values, memory


def trials_of(
    described: EvaluationSet,
    faults: Sequence[Fault],
    grounds: int,
    voxels: VoxelLike,
    cells: tuple[int, ...],
    dtype: jnp.dtype,
) -> Trials:
    """All trials of all faults on several grounds, (grounds * faults * trials,), the grounds first."""
    trials, count = described.trials, grounds * len(faults) * described.trials
    regular = perturbations_of(described.jitter.for_voxels(voxels), trials, dtype)

    def of_trial(values: Array | None, otherwise: float) -> np.ndarray:
        own = np.full(trials, otherwise) if values is None else np.asarray(values)
        return np.tile(own, grounds * len(faults))

    def of_fault(values: Sequence[float]) -> np.ndarray:
        return np.tile(np.repeat(np.asarray(values, float), trials), grounds)

    mass, stiffness, friction, gravity = (
        of_fault([getattr(fault, name) for fault in faults]) for name in ("mass", "stiffness", "friction", "gravity")
    )
    numbers = {
        "higher": of_trial(regular.higher, 0.0),
        "frequency": of_trial(regular.frequency, 1.0) * np.sqrt(stiffness / mass),
        "damping": of_trial(regular.damping, 1.0),
        "friction": of_trial(regular.friction, 1.0) * friction,
        "mass": mass,
        "gravity": gravity,
    }
    ground = jnp.repeat(jnp.arange(grounds), len(faults) * trials) if grounds > 1 else None
    of_trials = np.tile(np.arange(trials), grounds * len(faults))
    orders = [np.random.default_rng([DRAWS, start]).permutation(int(np.prod(cells))) for start in range(trials)]
    return Trials(
        start=Perturbation(**{name: jnp.asarray(values, dtype) for name, values in numbers.items()}, ground=ground),
        dead=jnp.asarray(of_fault([fault.dead for fault in faults]), jnp.int32),
        order=jnp.asarray(np.stack(orders)[of_trials].reshape(count, *cells), jnp.int32),
        noise=jnp.asarray(of_fault([fault.noise for fault in faults]), dtype),
        number=jnp.asarray(of_trials, jnp.uint32),
    )


def apply_faults(controller: Controller, present: Array, trial: Trials) -> FaultyController:
    """A controller in one trial; present: 1 where there is a voxel, *cells."""
    here = present > 0
    place = jnp.where(here, trial.order, present.size)
    rank = (place.reshape(-1, 1) > place.reshape(1, -1)).sum(1).reshape(place.shape)
    alive = here & (rank >= trial.dead)
    return FaultyController(controller, alive.astype(present.dtype), trial.noise * 1, trial.number)


# The table


@dataclass(frozen=True)
class Matrix(Table):
    """Results of robots in cases: cases are the variations."""

    robots: tuple[str, ...] = ()
    sources: tuple[int, ...] = ()
    """of the robots, among the runs and files given"""
    measures: np.ndarray = field(default_factory=lambda: np.empty((0, 0), object))
    """name of what was measured, empty where a case does not suit a robot, (robots, cases)"""

    @property
    def suits(self) -> np.ndarray:
        """Where robots were simulated, (robots, cases)."""
        return self.measures != ""

    @property
    def kept(self) -> np.ndarray:
        """Over what the robot reached in the first case, where both are of one measure, (robots, cases).

        0 for a failure; not a number where there is nothing for comparison.
        """
        same = (self.measures == self.measures[:, :1]) & self.suits
        return np.where(same, super().kept, np.nan)


@dataclass(frozen=True)
class Combination:
    """Robots and cases that one program simulates."""

    group: RobotGroup
    rows: range
    """numbers of the robots"""
    settings: tuple[Setting, ...]
    """that differ in their grounds only"""
    faults: tuple[str, ...]
    refine: int

    @property
    def episodes(self) -> int:
        """In each trial of a case."""
        return self.group.size * len(self.settings) * len(self.faults)

    def cases(self, described: EvaluationSet) -> list[int]:
        """Their numbers, the grounds first."""
        known = {case: number for number, case in enumerate(described.cases)}
        return [known[*setting.names, fault] for setting in self.settings for fault in self.faults]

    def job(self, described: EvaluationSet) -> Job:
        """All trials of all of them as arrays."""
        group, setting = self.group, self.settings[0]
        dtype = jnp.dtype(setting.physics.precision)
        with precision(setting.physics.precision):
            schedule = plan(group.voxels, group.materials, setting.world, setting.task, setting.physics)
            systems = build_systems(setting.world, group.voxels, schedule, dtype)
            environment = setting.world.build(dtype)
            if len(self.settings) > 1:
                grounds = [one.world.terrain.build(dtype) for one in self.settings if one.world.terrain is not None]
                environment = replace(environment, terrain=together(grounds))
            faults = [described.faults[name] for name in self.faults]
            trials = trials_of(described, faults, len(self.settings), group.voxels, group.cells, dtype)
        return Job(
            rows=self.rows,
            columns=self.cases(described),
            robots=group.arrays,
            trials=trials,
            episode=InCase(replace(schedule, substeps=self.refine * schedule.substeps), setting.task),
            cells=int(np.prod(group.cells)),
            precision=setting.physics.precision,
            shared=(environment, systems),
        )


@dataclass(frozen=True)
class InCase:
    """An episode of which the task's first measure is observed."""

    schedule: Schedule
    task: Task

    def __call__(self, robot: tuple[Any, Controller], trial: Trials, shared: Any) -> Array:
        (model, controller), (environment, systems), task = robot, shared, self.task
        scenario = scenario_of(model, environment, self.schedule, task, controller.sensors, systems)
        scenario, start = reset_perturbed(scenario, trial.start)
        episode = rollout(scenario, apply_faults(controller, model.present, trial), start)
        return task.evaluate(episode, task.measures[:1])[task.measures[0]]


def combinations_of(groups: Sequence[RobotGroup], described: EvaluationSet) -> tuple[list[Combination], list[str]]:
    """All programs to run, and what is left out and why."""
    found, left, first = [], {}, 0
    for group in groups:
        rows = range(first, first + group.size)
        first += group.size
        alike: dict[Any, list[Setting]] = {}
        for names in ((task, ground) for task in described.tasks for ground in described.terrains):
            setting = settle(group, described, names)
            if isinstance(setting, str):
                left.setdefault((*names, setting), []).append(group)
            else:
                alike.setdefault(setting.program, []).append(setting)
        for settings in alike.values():
            for factor in dict.fromkeys(fault.refine for fault in described.faults.values()):
                reasons = {
                    name: unfit(group, settings[0], fault)
                    for name, fault in described.faults.items()
                    if fault.refine == factor
                }
                for name, reason in reasons.items():
                    if reason:
                        left.setdefault((settings[0].names[0], name, reason), []).append(group)
                if names := tuple(name for name, reason in reasons.items() if not reason):
                    found.append(Combination(group, rows, tuple(settings), names, factor))
    everyone = sum(group.size for group in groups)
    left_out = []
    for (task, other, reason), whose in left.items():
        count = sum(group.size for group in whose)
        who = "all" if count == everyone else f"{count} of {everyone}"
        left_out.append(f"{task}, {other}: left out for {who} robots: {reason}")
    return found, left_out


def evaluate(
    groups: Sequence[RobotGroup],
    described: EvaluationSet,
    combinations: Sequence[Combination],
    done: Callable[[int], None],
) -> Matrix:
    """All robots in all cases; done: called with the number of episodes that were simulated since."""
    shape = sum(group.size for group in groups), len(described.cases)
    measures, sign = np.full(shape, "", dtype=object), np.ones(shape)
    with explain_out_of_memory(()):
        jobs = [one.job(described) for one in combinations]
        values = resimulate(jobs, (*shape, described.trials), done)
    for one, job in zip(combinations, jobs, strict=True):
        goal, where = one.settings[0].goal, np.ix_(job.rows, job.columns)
        measures[where], sign[where] = goal.measure, goal.sign
    return Matrix(
        values,
        sign,
        described.aggregate,
        robots=tuple(name for group in groups for name in group.names),
        sources=tuple(group.source for group in groups for _ in group.names),
        measures=measures,
    )
