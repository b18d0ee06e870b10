"""Springs that break for good where the force in them, pull or push, exceeds what they bear."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike

from vsr.lattice.model import Lattice, State


def breakable(lattice: Lattice, yield_force: ArrayLike) -> Lattice:
    """The same lattice with springs that break above a force [N]: one number, or like the springs' stiffness.

    A state made before must be made again (`rest_state`), for it does not say which springs are whole.
    """
    springs = lattice.springs
    force = jax.tree.map(
        lambda stiffness: jnp.broadcast_to(jnp.asarray(yield_force, stiffness.dtype), stiffness.shape),
        springs.stiffness,
    )
    return replace(lattice, springs=replace(springs, yield_force=force))


def broken(lattice: Lattice, state: State) -> Array | tuple[Array, ...]:
    """True for springs that broke, shaped like `State.intact`; never where there was none."""
    if state.intact is None:
        return jax.tree.map(lambda stiffness: jnp.zeros(stiffness.shape, bool), lattice.springs.stiffness)
    return jax.tree.map(lambda whole, stiffness: ~whole & (stiffness > 0), state.intact, lattice.springs.stiffness)


def broken_count(lattice: Lattice, state: State) -> Array:
    """How many springs broke, ()."""
    return sum(part.sum() for part in jax.tree.leaves(broken(lattice, state)))  # pyright: ignore[reportReturnType]
