"""Lattices of springs at rest, grids or not, under weight, loads and contact, by products with vectors alone."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.vector import split
from vsr.environment.model import Environment, as_exact, by_components
from vsr.lattice.model import Lattice, State
from vsr.lattice.springs import potential_energy
from vsr.physics.statics.contact import Wall, wall_energy
from vsr.physics.statics.newton import Equilibrium, Settings, equilibrium, matrix_free

Given = tuple[Lattice, Environment, State, Wall | None]


def lattice_energy(position: Array, given: Given) -> Array:
    """[J], (); position: (*nodes, dimension)."""
    lattice, environment, state, wall = given
    place = split(position, lattice.node_axes)
    total = potential_energy(lattice.springs, place, state.time, state.intact)
    total = total + environment.gravity * (lattice.mass * place[-1]).sum()
    if environment.load is not None:
        total = total - (environment.load * position).sum()
    if wall is not None:
        there = lattice.mass > 0
        total = total + jnp.where(there, wall_energy(by_components(environment), wall, place), 0).sum()
    return total


@partial(jax.jit, static_argnames=("settings",))
def rest(
    lattice: Lattice,
    environment: Environment,
    start: State,
    *,
    wall: Wall | None = None,
    settings: Settings | None = None,
) -> Equilibrium:
    """Where a lattice rests, next to a start; rest lengths are those of the start's time.

    wall: how hard ground and obstacles are; None to leave them out.
    """
    environment = as_exact(environment, lattice.mass.dtype)
    free = (lattice.inverse_mass > 0).astype(lattice.mass.dtype)
    there = free[..., None]
    if lattice.freedom is None:
        freedom = jnp.broadcast_to(there, lattice.rest_position.shape)
    else:
        freedom = there[..., None] * lattice.freedom
    span = jnp.where(lattice.mass[..., None] > 0, lattice.rest_position, jnp.nan)
    size = (jnp.nanmax(span, tuple(range(span.ndim - 1))) - jnp.nanmin(span, tuple(range(span.ndim - 1)))).max()
    given = lattice, environment, start, wall
    return equilibrium(matrix_free(lattice_energy), start.position, freedom, given, size=size, settings=settings)
