"""Controllers: functions of time, oscillators, or networks of sensor readings or of a task's observation."""

from vsr.controllers.base import (
    Clock,
    Controller,
    ControllerSpec,
    Reflexive,
    Remembering,
    decide,
    first_memory,
    is_policy,
    knows_time_alone,
    observes_task,
    rate_limit,
)
from vsr.controllers.distributed import Distributed, VoxelNetworks
from vsr.controllers.hardware import Equipped, Hardware, in_trial
from vsr.controllers.mlp import MLP, Perceptron, check_sensors, spread_weights, wiring
from vsr.controllers.oscillators import CoupledOscillators, Oscillators
from vsr.controllers.policy import Policy, PolicyNetwork
from vsr.controllers.recurrent import Recurrent, RecurrentNetwork
from vsr.controllers.time_functions import Development, Sine, TimeFunctions
from vsr.spec import Registry

CONTROLLERS: Registry[type[ControllerSpec]] = Registry(
    "controller",
    {
        "sine": Sine,
        "development": Development,
        "oscillators": Oscillators,
        "mlp": MLP,
        "recurrent": Recurrent,
        "distributed": Distributed,
        "policy": Policy,
    },
)
"""Every described controller by its name."""

__all__ = [
    "CONTROLLERS",
    "MLP",
    "Clock",
    "Controller",
    "ControllerSpec",
    "CoupledOscillators",
    "Development",
    "Distributed",
    "Equipped",
    "Hardware",
    "Oscillators",
    "Perceptron",
    "Policy",
    "PolicyNetwork",
    "Recurrent",
    "RecurrentNetwork",
    "Reflexive",
    "Remembering",
    "Sine",
    "TimeFunctions",
    "VoxelNetworks",
    "check_sensors",
    "decide",
    "first_memory",
    "in_trial",
    "is_policy",
    "knows_time_alone",
    "observes_task",
    "rate_limit",
    "spread_weights",
    "wiring",
]
