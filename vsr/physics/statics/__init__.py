"""Bodies at rest: where energy is least, how that place moves with what acts on it, and the actuation for a target."""

from vsr.physics.statics.newton import Equilibrium, Settings, System, dense, equilibrium, matrix_free

__all__ = ["Equilibrium", "Settings", "System", "dense", "equilibrium", "matrix_free"]
