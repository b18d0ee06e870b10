"""What an episode has where its description says nothing: it hangs on the kind of masses, and on the task."""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from vsr.body import MASSES, Masses
from vsr.spec import Spec

S = TypeVar("S", bound=Spec)


class HasMasses(Protocol):
    """A body, or a kind of body that evolves."""

    @property
    def masses(self) -> Masses: ...


def filled(spec: S, **usual: Any) -> S:
    """The description with usual values of fields that were not given."""
    missing = {name: value for name, value in usual.items() if name not in spec.model_fields_set}
    return spec.model_copy(update=missing) if missing else spec


def with_usual(voxels: HasMasses, world: S, physics: S) -> tuple[S, S]:
    """World and physics with gravity and time steps as such masses have them: EvoGym's are in units of their own."""
    kind = MASSES[voxels.masses]
    if kind.usual_world:
        world = filled(world, **kind.usual_world)
    if kind.usual_physics:
        physics = filled(physics, **kind.usual_physics)
    return world, physics
