"""What voxels feel, and how readings are made of it."""

from vsr.sensors.quantities import QUANTITIES, Quantity
from vsr.sensors.readings import Sensor, empty_memory, read_trajectory, readings, remember

__all__ = ["QUANTITIES", "Quantity", "Sensor", "empty_memory", "read_trajectory", "readings", "remember"]
