"""Tasks for robots, and measures of how well they did."""

from vsr.spec import Registry
from vsr.tasks.base import Task
from vsr.tasks.climb import Balance, Climb, Escape, Jump
from vsr.tasks.evogym import EVOGYM_TASKS, NamedTask
from vsr.tasks.locomotion import FreshGround, GoAndReturn, Locomotion, SettledLocomotion
from vsr.tasks.measures import MEASURES, Summary
from vsr.tasks.objects import Carry, Push, Throw
from vsr.tasks.workspace import Workspace

OWN_TASKS: dict[str, type[Task]] = {
    kind.model_fields["type"].default: kind
    for kind in (Jump, Climb, Balance, Escape, GoAndReturn, Push, Carry, Throw, FreshGround, SettledLocomotion)
}
"""Tasks of our own besides locomotion and workspace, by their names."""
TASKS: Registry[type[Task]] = Registry(
    "task", {"locomotion": Locomotion, "workspace": Workspace, **OWN_TASKS, **EVOGYM_TASKS}
)
"""Every described task by its name."""

__all__ = [
    "EVOGYM_TASKS",
    "MEASURES",
    "OWN_TASKS",
    "TASKS",
    "Locomotion",
    "NamedTask",
    "Summary",
    "Task",
    "Workspace",
]
