"""A lattice of point masses and springs, and how it moves.

Everything is written for any number of dimensions: the dimension is the length of the last axis of positions, and the
last axis is up. A lattice is either a regular grid, whose springs lie between grid neighbors (`GridSprings`), or any
other (`GraphSprings`); the two differ only in how the springs' ends are found.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
from jax import Array


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Wave:
    """Springs whose rest lengths are sinusoids of the time: the peristaltic drive of Titan's worm.

    rest length × (1 + amplitude sin(angular_frequency t')), t' = (t - delay) mod period. As many arrays as the
    springs have, or numbers for all.
    """

    amplitude: Array | tuple[Array, ...]
    angular_frequency: Array
    """[rad/s], ()"""
    delay: Array | tuple[Array, ...]
    """[s]"""
    period: Array
    """[s], ()"""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class GridSprings:
    """Springs between neighbors of a regular grid of nodes, one array per direction (see vsr.lattice.grid).

    Directions come in the order edges, face diagonals, space diagonals. An array has one entry per spring, or size 1
    where all springs of the direction are alike; a stiffness of 0 means that there is no spring.
    """

    stiffness: tuple[Array, ...]
    """[N/m]"""
    rest_length: tuple[Array, ...]
    """[m]"""
    damping: tuple[Array, ...] | None = None
    """force over the speed at which the ends part [N s/m]; None if nothing is damped"""
    yield_force: tuple[Array, ...] | None = None
    """a larger force, either way, breaks the spring [N]; None if none can break"""
    wave: Wave | None = None

    @property
    def dimension(self) -> int:
        """Of the grid: there are (3 ** dimension - 1) / 2 directions."""
        return {1: 1, 4: 2, 13: 3}[len(self.stiffness)]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class GraphSprings:
    """Springs between any nodes; all (springs,) unless said otherwise."""

    first: Array
    """node at one end"""
    second: Array
    """node at the other end"""
    stiffness: Array
    """[N/m]; 0 for a slot without a spring"""
    rest_length: Array
    """[m]"""
    incidence: Array
    """springs at every node: 2 s for spring s's first end, 2 s + 1 for its second, -1 for none, (nodes, degree)"""
    damping: Array | None = None
    """force over the speed at which the ends part [N s/m]; None if nothing is damped"""
    yield_force: Array | None = None
    """a larger force, either way, breaks the spring [N]; None if none can break"""
    wave: Wave | None = None


Springs = GridSprings | GraphSprings


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Lattice:
    """Point masses and the springs between them. SI units; nodes: (nodes,), or (..., rows, columns) in a grid."""

    springs: Springs
    rest_position: Array
    """where the nodes are without any force [m], (*nodes, dimension)"""
    mass: Array
    """[kg], 0 for a slot without a node, (*nodes,)"""
    inverse_mass: Array
    """1 / mass, 0 for what is absent or anchored [1/kg], (*nodes,)"""
    damping: Array
    """decay rate of every velocity [1/s], ()"""
    freedom: Array | None = None
    """which directions a node may move in: projections, (*nodes, dimension, dimension); None if all are free"""

    @property
    def node_axes(self) -> int:
        """Axes of node arrays, not counting those of robots at the end."""
        return 1 if isinstance(self.springs, GraphSprings) else self.springs.dimension

    @property
    def dimension(self) -> int:
        """2 or 3."""
        return self.rest_position.shape[self.node_axes]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class State:
    """A lattice in motion."""

    position: Array
    """[m], (*nodes, dimension)"""
    velocity: Array
    """[m/s], (*nodes, dimension)"""
    time: Array
    """[s], ()"""
    intact: Array | tuple[Array, ...] | None = None
    """False for springs that broke, like the springs' stiffness; None if none can break"""
