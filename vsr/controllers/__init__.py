"""How control values are made: functions of time, or networks of what the robot feels."""

from vsr.controllers.base import Controller, ControllerSpec
from vsr.controllers.mlp import MLP, Driving, Perceptron, check_senses, spread_weights, wiring
from vsr.controllers.time_functions import Development, Sine, TimeFunctions

CONTROLLERS: dict[str, type[ControllerSpec]] = {"sine": Sine, "development": Development, "mlp": MLP}
"""Every described controller by its name."""

__all__ = [
    "CONTROLLERS",
    "MLP",
    "Controller",
    "ControllerSpec",
    "Development",
    "Driving",
    "Perceptron",
    "Sine",
    "TimeFunctions",
    "check_senses",
    "spread_weights",
    "wiring",
]
