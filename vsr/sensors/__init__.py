"""Sensors of voxels: the quantities that they measure, and readings made of them."""

from vsr.sensors.quantities import QUANTITIES, Quantity
from vsr.sensors.readings import Sensor, empty_memory, read_trajectory, readings, remember

__all__ = ["QUANTITIES", "Quantity", "Sensor", "empty_memory", "read_trajectory", "readings", "remember"]
