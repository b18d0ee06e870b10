"""Mass-spring lattices in two and three dimensions, as in the Cronos and Titan papers.

Voxel robots of point masses are made of the same springs; here they are without cells, controllers and tasks.
"""

from vsr.lattice.box import of_cells, of_pairs, peristaltic_wave, spring_count
from vsr.lattice.integrators import INTEGRATORS
from vsr.lattice.model import GraphSprings, GridSprings, Lattice, Plane, Sphere, State, Surroundings, Wave
from vsr.lattice.moduli import Stiffness, isotropic, truss_stiffness, young_modulus
from vsr.lattice.motion import Energy, advance, advance_until, energy, rest_state
from vsr.lattice.stability import choose_step, longest_step

__all__ = [
    "INTEGRATORS",
    "Energy",
    "GraphSprings",
    "GridSprings",
    "Lattice",
    "Plane",
    "Sphere",
    "State",
    "Stiffness",
    "Surroundings",
    "Wave",
    "advance",
    "advance_until",
    "choose_step",
    "energy",
    "isotropic",
    "longest_step",
    "of_cells",
    "of_pairs",
    "peristaltic_wave",
    "rest_state",
    "spring_count",
    "truss_stiffness",
    "young_modulus",
]
