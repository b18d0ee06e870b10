"""Bodies at rest: where energy is least, how that place moves with what acts on it."""

from vsr.physics.equilibrium.newton import Equilibrium, Settings, System, equilibrium
from vsr.physics.equilibrium.solvers import dense, matrix_free

__all__ = ["Equilibrium", "Settings", "System", "dense", "equilibrium", "matrix_free"]
