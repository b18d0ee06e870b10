"""What acts on bodies from outside, as arrays: gravity, ground, obstacles, drag, loads."""

from vsr.environment.model import Environment, Plane, Sphere

__all__ = ["Environment", "Plane", "Sphere"]
