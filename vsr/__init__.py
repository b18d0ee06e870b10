"""Voxel-based soft robots: describe one, put it in a world, simulate it, evolve many.

Importing this package does not load jax; the first use of a name does.
"""

from importlib import import_module
from typing import Any

from vsr.display import provide

__version__ = "0.1.0"

provide("vsr.drawing.notebook")
provide("vsr.experiments.notebook")

_HOME = {
    "Body": "vsr.robot",
    "Material": "vsr.robot",
    "Sine": "vsr.controllers",
    "Development": "vsr.controllers",
    "MLP": "vsr.controllers",
    "Clock": "vsr.controllers",
    "Oscillators": "vsr.controllers",
    "Recurrent": "vsr.controllers",
    "Distributed": "vsr.controllers",
    "Hardware": "vsr.controllers",
    "Sensor": "vsr.sensors",
    "Task": "vsr.tasks",
    "Locomotion": "vsr.tasks",
    "Placement": "vsr.world.placement",
    "Object": "vsr.world.spec",
    "Robot": "vsr.world.spec",
    "World": "vsr.world.spec",
    "Physics": "vsr.scene",
    "Scene": "vsr.scene",
    "Outcome": "vsr.scene",
    "simulate": "vsr.scene",
    "Experiment": "vsr.experiments.experiment",
    "evolve": "vsr.experiments.evolve.python",
    "evaluate": "vsr.experiments.evolve.python",
    "load": "vsr.experiments.evolve.python",
    "make": "vsr.envs",
    "Flat": "vsr.terrain",
    "Uneven": "vsr.terrain",
    "Hilly": "vsr.terrain",
    "Steppy": "vsr.terrain",
    "Uphill": "vsr.terrain",
    "Downhill": "vsr.terrain",
    "Polyline": "vsr.terrain",
    "Bumpy": "vsr.terrain",
    "Heights": "vsr.terrain",
    "BlockGround": "vsr.terrain",
}

__all__ = list(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'vsr' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
