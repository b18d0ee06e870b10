"""What an episode has where its description says nothing: it hangs on the kind of masses, and on the task."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from vsr.body import MASSES, Masses
from vsr.spec import Spec

S = TypeVar("S", bound=Spec)
Complaints = list[tuple[tuple[str, ...], str]]


class HasMasses(Protocol):
    """A body, or a kind of body that evolves."""

    @property
    def masses(self) -> Masses: ...
    @property
    def voxel_side(self) -> float: ...
    @property
    def dimension(self) -> int: ...


def filled(spec: S, **usual: Any) -> S:
    """The description with usual values of fields that were not given."""
    missing = {name: value for name, value in usual.items() if name not in spec.model_fields_set}
    return spec.model_copy(update=missing) if missing else spec


def with_usual(voxels: HasMasses, world: Any, task: Any, physics: Any) -> tuple[Any, Any, Any, Complaints]:
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
    interval = (physics.control_interval + 1) * physics.time_step
    return world, task.completed(voxels.voxel_side, interval), physics, complaints
