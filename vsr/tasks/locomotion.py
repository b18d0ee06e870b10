"""Locomotion: travel as far as possible along x (2D-VSR-Sim paper, section 2.5)."""

from __future__ import annotations

from typing import Any, Literal

from jax import Array

from vsr.physics.engine import engine_of
from vsr.tasks.base import Task
from vsr.world.state import WorldModel, WorldState


class Locomotion(Task):
    """Move along x for a given time; several measures may be taken at once."""

    type: Literal["locomotion"] = "locomotion"

    def reward(self, account: Any, world: WorldModel, before: WorldState, after: WorldState, action: Array) -> Array:
        """Displacement of the center along x in the step [m]."""
        model = world.robots[0]
        engine = engine_of(model)
        return engine.center(model, after.robots[0])[0] - engine.center(model, before.robots[0])[0]
