"""What acts on bodies from outside: gravity, ground, obstacles, drag, loads. One class for every engine."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.vector import split
from vsr.terrain.base import AnyTerrain


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Plane:
    """A half-space that nodes cannot enter."""

    point: Array
    """on the surface [m], (dimension,)"""
    normal: Array
    """unit vector out of the body, (dimension,)"""
    friction: Array
    """coefficient, ()"""
    restitution: Array
    """coefficient, ()"""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Sphere:
    """A ball (in 2-D: a disc) that nodes cannot enter."""

    center: Array
    """[m], (dimension,)"""
    radius: Array
    """[m], ()"""
    friction: Array
    """coefficient, ()"""
    restitution: Array
    """coefficient, ()"""


class Contents(Protocol):
    """A load that goes along with the nodes, and has an energy (vsr.physics.fluid.contents)."""

    def load(self, position: Array, gravity: Array | float) -> Array:
        """Force on every node [N]; position: [m], both (*nodes, dimension)."""
        ...

    def energy(self, position: Array, gravity: Array | float) -> Array:
        """[J], ()."""
        ...


Sticking = Literal["in_contact", "resting", "approaching"]
"""Which corners of square masses friction may bring to rest on the ground (vsr.physics.squares.contact)."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Environment:
    """What acts on a body from outside and is not moved by it."""

    gravity: Array | float = 9.81
    """downward acceleration [m/s²], ()"""
    terrain: AnyTerrain | None = None
    """ground with friction and restitution, or None; a line is the same for all y"""
    load: Array | None = None
    """external force on each node, or on each cluster of square masses [N], (*nodes, dimension)"""
    drag: Array | float | None = None
    """force on a node over its squared speed [N s²/m²], () or (*nodes,); None for none"""
    bodies: tuple[Plane | Sphere, ...] = ()
    """fixed obstacles"""
    contents: Contents | None = None
    """fluid that presses on the nodes of a lattice from inside; robots have chambers of their own"""
    sticking: Sticking = field(default="resting", metadata={"static": True})
    """which corners of square masses may stick"""


def as_exact(environment: Environment, dtype: jnp.dtype) -> Environment:
    """The same as arrays; real numbers of the given type, others as they are."""

    def exact(value: Array | float) -> Array:
        array = jnp.asarray(value)
        return array.astype(dtype) if jnp.issubdtype(array.dtype, jnp.floating) else array

    return jax.tree.map(exact, environment)


def by_components(environment: Environment) -> Environment:
    """The same without its load, and with points and normals of obstacles as tuples of numbers, for inner loops."""
    bodies = tuple(
        replace(body, point=split(body.point, 0), normal=split(body.normal, 0))
        if isinstance(body, Plane)
        else replace(body, center=split(body.center, 0))
        for body in environment.bodies
    )
    return replace(environment, load=None, bodies=bodies)
