"""What voxels feel, and how readings are made of it."""

from vsr.sensors.quantities import QUANTITIES, unit_of
from vsr.sensors.readings import Sense, empty_memory, read, read_life

__all__ = ["QUANTITIES", "Sense", "empty_memory", "read", "read_life", "unit_of"]
