"""What a case is for robots of one kind: which world, task and steps, or why it does not suit them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vsr.experiments.evaluate.robots import Flock
from vsr.experiments.evaluate.sets import EvaluationSet, Fault, TaskCase
from vsr.experiments.evaluation import EvaluationOptions, Ground
from vsr.experiments.experiment import Fitness
from vsr.physics.engine import ENGINES, stability_bound
from vsr.scene import Physics, check_episode, plan, whole_strides
from vsr.tasks import Task
from vsr.terrain import Sand
from vsr.world.defaults import with_usual
from vsr.world.spec import World


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
        """What settings share that are simulated together: all but the ground, if that is of one kind."""
        ground = self.world.terrain
        kind = ground if ground is None or isinstance(ground, Sand) else ground.in_3d
        rest = self.world.model_copy(update={"terrain": None})
        return self.names[0], repr((kind, rest, self.task, self.physics, self.goal))


def settle(flock: Flock, described: EvaluationSet, names: tuple[str, str]) -> Setting | str:
    """A task on a ground for robots, or why that cannot be."""
    case, ground = described.tasks[names[0]], described.terrains[names[1]].terrain
    task = case.task or flock.task
    world = _world(flock, task, ground)
    goal = _goal(flock, described, case, task)
    task = task.model_copy(update={"measures": (goal.measure,)})
    world, task, physics, against = with_usual(flock.voxels, world, task, flock.physics)
    if world.is_touched and not _is_touched_at_home(flock) and ENGINES[flock.voxels.masses].fixed_substep is None:
        physics = _for_meetings(physics)
    against += check_episode(flock.voxels, flock.materials, flock.cells, world, task, physics)
    if goal.measure not in task.known_measures():
        against.append((("fitness",), f"this task does not measure '{goal.measure}'"))
    if against:
        return "; ".join(f"{'.'.join(path)}: {reason}" for path, reason in against)
    return Setting(names, world, task, physics, goal)


def _is_touched_at_home(flock: Flock) -> bool:
    """Whether there are things in the robots' own world, with what their task brings."""
    return with_usual(flock.voxels, flock.world, flock.task, flock.physics)[0].is_touched


def _for_meetings(physics: Physics) -> Physics:
    """With as many substeps, which evolution may have chosen for a world without things, as meetings divide."""
    substeps = physics.substeps
    return physics if substeps is None else physics.model_copy(update={"substeps": whole_strides(substeps)})


def _world(flock: Flock, task: Task, ground: Ground | None) -> World:
    """The robots' world, without what another task than theirs brings itself, or what theirs brought."""
    own = {name: getattr(flock.world, name) for name in flock.world.model_fields_set}
    kind = flock.voxels.masses, flock.voxels.voxel_side, flock.voxels.dimension
    brought = set(flock.task.brings(*kind).world) | set(task.brings(*kind).world)
    kept = {name: value for name, value in own.items() if name not in brought}
    return World(**{**kept, **({} if ground is None else {"terrain": ground})})


def _goal(flock: Flock, described: EvaluationSet, case: TaskCase, task: Task) -> Fitness:
    """What is measured."""
    asked = case.fitness or described.fitness
    if asked is not None:
        return asked
    return flock.goal if flock.goal.measure in task.known_measures() else Fitness(measure=task.measures[0])


def unfit(flock: Flock, setting: Setting, fault: Fault) -> str:
    """Why robots cannot have a fault; empty if they can."""
    engine, factors = ENGINES[flock.voxels.masses], fault.factors
    if fault.refine > 1 and engine.fixed_substep is not None:
        return f"refine: {flock.voxels.masses} masses have substeps of one length only"
    constant = [name for name in factors.scaled if name not in engine.scales]
    if constant:
        return f"{flock.voxels.masses} masses have no {' and no '.join(constant)} of their own"
    if factors.gravity is not None and isinstance(setting.world.terrain, Sand):
        return "gravity: sand has settled in that of its world"
    if engine.fixed_substep is not None:
        return ""
    options = EvaluationOptions(starts=2, vary=factors)
    materials = [options.stiffened(material) for material in flock.materials]
    voxels, physics = flock.voxels, setting.physics
    bound = stability_bound(voxels.masses, materials, voxels.voxel_side, voxels.dimension, physics.integrator)
    substep = plan(voxels, flock.materials, setting.world, setting.task, physics).substep / fault.refine
    if substep > bound:
        return f"springs so quick need {substep / bound:.2g} times shorter substeps: give this fault a larger `refine`"
    return ""


def fitting(flock: Flock, setting: Setting, faults: Sequence[tuple[str, Fault]]) -> tuple[list[str], dict[str, str]]:
    """Names of the faults that robots can have, and why they cannot have others."""
    reasons = {name: unfit(flock, setting, fault) for name, fault in faults}
    return [name for name, reason in reasons.items() if not reason], {
        n: reason for n, reason in reasons.items() if reason
    }
