"""EvoGym's point masses: its springs, limits, contact and friction, restated as arrays (docs/reference/tasks.md)."""

from vsr.physics.evogym.model import EvogymModel, EvogymObject, EvogymState, GroundCells

__all__ = ["EvogymModel", "EvogymObject", "EvogymState", "GroundCells"]
