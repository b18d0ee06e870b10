"""Mass-spring lattices in two and three dimensions, as in the Cronos and Titan papers.

Voxel robots of point masses are made of the same springs; here they are without cells, controllers and tasks.
"""

from vsr.environment.model import Environment, Plane, Sphere
from vsr.environment.obstacles import ball, floor, plane, slope
from vsr.lattice.box import of_cells, of_pairs, spring_count
from vsr.lattice.constraints import anchor, keep_in_plane, keep_on_line, loads, release
from vsr.lattice.graph import as_graph, count_springs, of_graph
from vsr.lattice.integrators import INTEGRATORS
from vsr.lattice.model import GraphSprings, GridSprings, Lattice, State, Wave
from vsr.lattice.moduli import Stiffness, isotropic, truss_stiffness, young_modulus
from vsr.lattice.motion import Energy, advance, advance_until, energy, record, rest_state
from vsr.lattice.springs import breakable, broken, broken_count, driven, peristaltic_wave
from vsr.lattice.stability import choose_step, longest_step

__all__ = [
    "INTEGRATORS",
    "Energy",
    "Environment",
    "GraphSprings",
    "GridSprings",
    "Lattice",
    "Plane",
    "Sphere",
    "State",
    "Stiffness",
    "Wave",
    "advance",
    "advance_until",
    "anchor",
    "as_graph",
    "ball",
    "breakable",
    "broken",
    "broken_count",
    "choose_step",
    "count_springs",
    "driven",
    "energy",
    "floor",
    "isotropic",
    "keep_in_plane",
    "keep_on_line",
    "loads",
    "longest_step",
    "of_cells",
    "of_graph",
    "of_pairs",
    "peristaltic_wave",
    "plane",
    "record",
    "release",
    "rest_state",
    "slope",
    "spring_count",
    "truss_stiffness",
    "young_modulus",
]
