"""Square masses as the kernel has them, from one launch to the next.

Between two launches something may meet a robot (vsr.world.coupling). What it reads of the robot is made of this table
when it is read, and impulses are written into it; a SquareState would be taken apart and put together each time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
from jax import Array

from vsr.physics.squares.model import SquareState
from vsr.physics.telemetry import Telemetry

PLACE, ROTATION, VELOCITY, SPIN, HEIGHT, FAILURE, FIELDS = slice(0, 2), slice(2, 4), slice(4, 6), 6, 7, 8, 9
"""Rows of the table, and how many."""
OUT_OF_THE_WAY = 1e6
"""Height of clusters that do not exist [m]."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PackedSquares:
    """Has what a SquareState has."""

    table: Array
    """x, y, cosine, sine, velocity x and y, spin, and telemetry, of all clusters and, last, of none, (9, cells + 1)"""
    clusters: tuple[int, ...] = field(metadata={"static": True})
    """layers, rows+1, columns+1"""

    @property
    def position(self) -> Array:
        return self._vectors(PLACE)

    @property
    def rotation(self) -> Array:
        return self._vectors(ROTATION)

    @property
    def velocity(self) -> Array:
        return self._vectors(VELOCITY)

    @property
    def spin(self) -> Array:
        return self.table[SPIN, :-1].reshape(self.clusters)

    @property
    def seen(self) -> Telemetry:
        """At the end of the last launch."""
        height, failure = (self.table[row, :-1].reshape(self.clusters) for row in (HEIGHT, FAILURE))
        return Telemetry(height, failure.astype(jnp.int32))

    def moving(self, velocity: Array, spin: Array) -> PackedSquares:
        """In the same place, with another velocity and spin."""
        rows = [jnp.moveaxis(velocity, -1, 0).reshape(2, -1), spin.reshape(1, -1)]
        return replace(self, table=self.table.at[VELOCITY.start : SPIN + 1, :-1].set(jnp.concatenate(rows)))

    def shifted(self, position: Array, rotation: Array) -> PackedSquares:
        """In another place, with the same velocity and spin."""
        rows = [jnp.moveaxis(part, -1, 0).reshape(2, -1) for part in (position, rotation)]
        return replace(self, table=self.table.at[PLACE.start : ROTATION.stop, :-1].set(jnp.concatenate(rows)))

    def unpacked(self) -> SquareState:
        return SquareState(self.position, self.rotation, self.velocity, self.spin)

    def _vectors(self, rows: slice) -> Array:
        return jnp.moveaxis(self.table[rows, :-1].reshape(2, *self.clusters), 0, -1)


def packed(state: SquareState) -> PackedSquares:
    """A state as the kernel reads it; what does not exist keeps its place and is seen as nothing."""
    vectors = jnp.concatenate([state.position, state.rotation, state.velocity], -1)
    motion = jnp.concatenate([jnp.moveaxis(vectors, -1, 0), state.spin[None]]).reshape(HEIGHT, -1)
    none = jnp.asarray([0, OUT_OF_THE_WAY, 1, 0, 0, 0, 0], motion.dtype)
    motion = jnp.concatenate([motion, none[:, None]], 1)
    return PackedSquares(jnp.pad(motion, ((0, FIELDS - HEIGHT), (0, 0))), state.spin.shape)
