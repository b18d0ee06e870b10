"""What robots are asked to do, and how well they did."""

from vsr.spec import Registry
from vsr.tasks.base import Task
from vsr.tasks.evogym import EVOGYM_TASKS, NamedTask
from vsr.tasks.locomotion import Locomotion
from vsr.tasks.measures import MEASURES
from vsr.tasks.own import OWN_TASKS
from vsr.tasks.placement import Placement, has_left, move_rigidly, place
from vsr.tasks.summary import Summary
from vsr.tasks.workspace import Workspace

TASKS: Registry[type[Task]] = Registry(
    "task", {"locomotion": Locomotion, "workspace": Workspace, **OWN_TASKS, **EVOGYM_TASKS}
)
"""Every described task by its name."""

__all__ = [
    "EVOGYM_TASKS",
    "MEASURES",
    "TASKS",
    "Locomotion",
    "NamedTask",
    "Placement",
    "Summary",
    "Task",
    "Workspace",
    "has_left",
    "move_rigidly",
    "place",
]
