"""EvoGym's tasks under their names: a table of rows, and one class that plays them (docs/reference/tasks.md)."""

from vsr.tasks.evogym.task import EVOGYM_TASKS, NamedTask

__all__ = ["EVOGYM_TASKS", "NamedTask"]
