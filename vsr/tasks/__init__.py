"""What robots are asked to do, and how well they did."""

from vsr.spec import Spec
from vsr.tasks.locomotion import Locomotion
from vsr.tasks.measures import MEASURES, evaluate
from vsr.tasks.placement import Placement, move_rigidly, place

TASKS: dict[str, type[Spec]] = {"locomotion": Locomotion}
"""Every described task by its name."""

__all__ = ["MEASURES", "TASKS", "Locomotion", "Placement", "evaluate", "move_rigidly", "place"]
