"""Environments for anyone's learner: pure functions, and what brax and gymnasium want (docs/environments.md).

Importing this tells gymnasium, if it is installed, of all tasks.
"""

from vsr.gym.brax import BraxView
from vsr.gym.environment import Environment, Params
from vsr.gym.making import body_of_kinds, make
from vsr.gym.registration import register

register()

__all__ = ["BraxView", "Environment", "Params", "body_of_kinds", "make", "register"]
