"""Defaults of an episode: what its description leaves out depends on voxels, their masses and side, and on the task."""

from __future__ import annotations

from typing import Any, TypeVar

from vsr.robot import ENGINE_KINDS
from vsr.spec import Spec
from vsr.world.spec import VoxelLike

S = TypeVar("S", bound=Spec)
P = TypeVar("P", bound=Spec)
Complaints = list[tuple[tuple[str, ...], str]]


def filled(spec: S, **default: Any) -> S:
    """The description with default values of fields that were not given."""
    missing = {name: value for name, value in default.items() if name not in spec.model_fields_set}
    return spec.model_copy(update=missing) if missing else spec


def in_proportion(length: float, voxels: VoxelLike) -> float:
    """A length that is meant for voxels of the default side, for voxels of another [m]."""
    return length * (voxels.voxel_side / ENGINE_KINDS[voxels.engine].default_side)


def _placed(placement: P, voxels: VoxelLike) -> P:
    """A fall of a meter is a third of a voxel's default side; voxels of 3 cm would be turned inside out by it."""
    return filled(placement, clearance=in_proportion(type(placement).model_fields["clearance"].default, voxels))


def apply_defaults(voxels: VoxelLike, world: Any, task: Any, physics: Any) -> tuple[Any, Any, Any, Complaints]:
    """World, task and physics with all that masses and task settle, and complaints about what was given against it.

    EvoGym's masses are in units of their own, and its tasks bring ground, objects, start and time steps.
    """
    kind = ENGINE_KINDS[voxels.engine]
    brought = task.overrides(voxels.engine, voxels.voxel_side, voxels.dimension)
    physics = filled(filled(physics, **brought.physics), **kind.default_physics)
    issues = [
        (("world", name), "the task brings its own: leave it out, or use a task that does not, such as locomotion")
        for name, value in brought.world.items()
        if name in world.model_fields_set and getattr(world, name) != value
    ]
    world = filled(world.model_copy(update=dict(brought.world)), **kind.default_world)
    other_robots = tuple(
        one.model_copy(update={"placement": _placed(one.placement, one.robot.body)}) for one in world.other_robots
    )
    if other_robots != world.other_robots:
        world = world.model_copy(update={"other_robots": other_robots})
    interval = physics.control_every * physics.time_step
    task = task.resolved(voxels.voxel_side, interval)
    placement = _placed(task.placement, voxels)
    return world, task.model_copy(update={"placement": placement}), physics, issues
