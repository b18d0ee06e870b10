"""Environments for anyone's learner: pure functions, and what brax and gymnasium want (docs/do/environments.md).

Importing this registers all tasks with gymnasium, if it is installed; tasks of your own follow as they are registered.
"""

from vsr.envs.brax import BraxView
from vsr.envs.environment import Environment, Params
from vsr.envs.making import body_of_kinds, make, register
from vsr.tasks import TASKS

register()
TASKS.listeners.append(register)

__all__ = ["BraxView", "Environment", "Params", "body_of_kinds", "make", "register"]
