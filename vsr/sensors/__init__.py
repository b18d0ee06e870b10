"""What voxels feel, and how readings are made of it."""

from vsr.sensors.quantities import QUANTITIES
from vsr.sensors.readings import Sense, empty_memory, read

__all__ = ["QUANTITIES", "Sense", "empty_memory", "read"]
