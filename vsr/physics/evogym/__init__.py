"""EvoGym's point masses: its springs, limits, contact and friction, restated as arrays (docs/tasks.md)."""

from vsr.physics.evogym.ground import GroundCells
from vsr.physics.evogym.model import EvogymModel, EvogymState, Thing

__all__ = ["EvogymModel", "EvogymState", "GroundCells", "Thing"]
