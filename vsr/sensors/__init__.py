"""What voxels feel, and how readings are made of it."""

from vsr.sensors.quantities import QUANTITIES, Quantity
from vsr.sensors.readings import Sense, empty_memory, read_trajectory, readings, remember

__all__ = ["QUANTITIES", "Quantity", "Sense", "empty_memory", "read_trajectory", "readings", "remember"]
