"""Defaults of an episode: what its description leaves out depends on voxels, their masses and side, and on the task."""

from __future__ import annotations

from typing import Any, TypeVar

from vsr.body import MASSES
from vsr.spec import Spec
from vsr.world.spec import VoxelLike

S = TypeVar("S", bound=Spec)
P = TypeVar("P", bound=Spec)
Complaints = list[tuple[tuple[str, ...], str]]


def filled(spec: S, **usual: Any) -> S:
    """The description with usual values of fields that were not given."""
    missing = {name: value for name, value in usual.items() if name not in spec.model_fields_set}
    return spec.model_copy(update=missing) if missing else spec


def in_proportion(length: float, voxels: VoxelLike) -> float:
    """A length that is meant for voxels of the default side, for voxels of another [m]."""
    return length * (voxels.voxel_side / MASSES[voxels.masses].usual_side)


def _placed(placement: P, voxels: VoxelLike) -> P:
    """A fall of a metre is a third of a voxel's default side; voxels of 3 cm would be turned inside out by it."""
    return filled(placement, clearance=in_proportion(type(placement).model_fields["clearance"].default, voxels))


def with_usual(voxels: VoxelLike, world: Any, task: Any, physics: Any) -> tuple[Any, Any, Any, Complaints]:
    """World, task and physics with all that masses and task settle, and complaints about what was given against it.

    EvoGym's masses are in units of their own, and its tasks bring ground, things, start and time steps.
    """
    kind = MASSES[voxels.masses]
    brought = task.brings(voxels.masses, voxels.voxel_side, voxels.dimension)
    physics = filled(filled(physics, **brought.physics), **kind.usual_physics)
    complaints = [
        (("world", name), "the task brings its own: leave it out, or use a task that does not, such as locomotion")
        for name, value in brought.world.items()
        if name in world.model_fields_set and getattr(world, name) != value
    ]
    world = filled(world.model_copy(update=dict(brought.world)), **kind.usual_world)
    others = tuple(one.model_copy(update={"placement": _placed(one.placement, one.robot.body)}) for one in world.others)
    if others != world.others:
        world = world.model_copy(update={"others": others})
    interval = (physics.control_interval + 1) * physics.time_step
    task = task.completed(voxels.voxel_side, interval)
    placement = _placed(task.placement, voxels)
    return world, task.model_copy(update={"placement": placement}), physics, complaints
