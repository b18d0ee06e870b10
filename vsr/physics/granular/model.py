"""Grains: what does not change while they move (GrainModel), and what does (GrainState).

Vectors have their components first, (dimension, grains), so that grains lie side by side in memory. Grains are kept in
the order of the cells they are in; `GrainState.id` says which is which.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.implementation import Implementation

ITERATIONS = 4
"""Enough with impulses kept from the step before; cold, forty do not make a bed lie still."""
RELAXATION = 0.4
"""Share of a contact's own answer that an iteration takes: a grain has several contacts, all answering at once."""
CORRECTION = 0.2
"""Share of the depth beyond the slop that a step undoes, by moving grains apart."""
RETURN_TIME = 0.05
"""In which robots and free bodies leave the grains that they sank into [s]."""
SLOP = 0.005
"""Depth that is left alone, in radii."""
SKIN = 0.2
"""Neighbors are listed up to this gap, in radii; the list holds until a grain has moved half of it."""
SLOTS = 15
"""Neighbors of a ball among its equals that can be listed; at most 12 touch it."""
CANDIDATES = {2: 9, 3: 12}
"""Grains in three cells on top of each other that can be looked at."""
WIDEST_RATIO = 2.0
"""Largest radius over smallest: cells are made for the largest, and slots for grains about as large."""


@dataclass(frozen=True)
class Box:
    """The region that cells of equal side divide; static. Grains may leave it, where it is not cyclic."""

    low: tuple[float, ...]
    """lowest corner [m]"""
    size: tuple[float, ...]
    """[m]"""
    cyclic: tuple[bool, ...]
    """axes whose ends are one place"""

    @property
    def dimension(self) -> int:
        """2 or 3."""
        return len(self.low)

    def cells(self, side: float) -> tuple[int, ...]:
        """Cells along each axis, none narrower than a side [m]; raises ValueError where a ring has less than three."""
        counts = tuple(max(1, int(length / side)) for length in self.size)
        short = [axis for axis, ring in enumerate(self.cyclic) if ring and counts[axis] < 3]
        if short:
            raise ValueError(
                f"a cyclic box needs at least three cells of {side:g} m along each cyclic axis; "
                f"{self.size[short[0]]:g} m were given"
            )
        return counts


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class GrainModel:
    """Discs or balls with friction, and the bodies among them. SI units; numbers of all grains, or one for each."""

    start: GrainState
    """as they are at the start"""
    radius: Array
    """[m], () or (grains,) in the order of ids"""
    mass: Array
    """[kg], likewise"""
    friction: Array
    """Coulomb's coefficient, likewise; contact takes the geometric mean"""
    rolling: Array | None
    """coefficient of rolling resistance, (); None if grains do not turn"""
    box: Box = field(metadata={"static": True})
    bodies: tuple[Any, ...] = ()
    """what grains cannot enter besides the ground (vsr.physics.granular.bodies.Body)"""
    largest: float = field(default=0.0, metadata={"static": True})
    """largest radius [m]"""
    slots: int = field(default=0, metadata={"static": True})
    """neighbors of a grain that can be listed"""
    candidates: int = field(default=0, metadata={"static": True})
    """grains in three cells on top of each other that can be looked at"""
    samples: int = field(default=1, metadata={"static": True})
    """along each side of a robot's face"""
    contacts: int | None = field(default=None, metadata={"static": True})
    """grains that can be listed near a robot; None: enough for one that fills its grid and is buried"""
    stride: int = field(default=1, metadata={"static": True})
    """substeps of robots in a step of grains"""
    cover: float = field(default=0.0, metadata={"static": True})
    """how high grains lie over the ground, where robots are put down [m]"""
    iterations: int = field(default=ITERATIONS, metadata={"static": True})
    implementation: Implementation = field(default="auto", metadata={"static": True})
    """of the contacts' answers"""

    @property
    def dimension(self) -> int:
        """2 or 3."""
        return self.box.dimension

    @property
    def count(self) -> int:
        """How many grains."""
        return self.start.id.shape[-1]

    @property
    def skin(self) -> float:
        """Largest gap of listed neighbors [m]."""
        return SKIN * self.largest

    @property
    def reach(self) -> float:
        """Distance of listed neighbors [m]."""
        return 2 * self.largest + self.skin

    @property
    def cells(self) -> tuple[int, ...]:
        """Along each axis."""
        return self.box.cells(self.reach)


class PairNumbers(NamedTuple):
    """What grains and those listed have together; each (k, n)."""

    far: Array
    """radius of the grain listed [m]"""
    mass: Array
    """that a push between them has to move, m m' / (m + m') [kg]"""
    yielding: Array
    """share of the way apart that the grain takes, m' / (m + m')"""
    friction: Array | None
    """coefficient; None if it is that of all grains"""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class GrainState:
    """How grains move, in the order of cells; n grains, k slots, b bodies with the ground as the first."""

    position: Array
    """centers [m], (dimension, n)"""
    velocity: Array
    """[m/s], (dimension, n)"""
    spin: Array | None
    """[rad/s], (1 or 3, n); None if grains do not turn"""
    id: Array
    """number of each grain, (n,)"""
    neighbor: Array
    """places of the grains listed, (k, n); the grain's own where a slot is empty"""
    neighbors: Array
    """how many are listed, (n,)"""
    pair: PairNumbers | None
    """of grains and those listed; None if all are alike"""
    impulse: Array
    """from the grain listed [N s], (k, dimension, n)"""
    rolling: Array | None
    """turning impulse of rolling resistance from the grain listed [N m s], (k, 1 or 3, n)"""
    received: Array
    """from all neighbors and bodies in the last step [N s], (dimension, n)"""
    received_turning: Array | None
    """likewise about the grain's center [N m s], (1 or 3, n); None if grains do not turn"""
    listed_at: Array
    """centers when the list was made [m], (dimension, n)"""
    offsets: Array
    """where each cell began then among the grains, (cells + 1,)"""
    body_impulse: Array
    """from each body [N s], (b, dimension, n)"""
    bodies: tuple[Any, ...]
    """states of bodies that move freely"""
    robots: tuple[Any, ...]
    """contacts with each robot (vsr.physics.granular.robots)"""
    time: Array
    """[s], ()"""
    lasted: Array
    """how long the last step was, 0 before the first [s], ()"""
    overflow: Array
    """what found no place so far, the most of each, (4,): candidates and neighbors of a grain, contacts of a robot,
    grains over one sample of a robot's face"""


def pair_numbers(grains: GrainModel, number: Array | np.ndarray, listed: Array | np.ndarray) -> PairNumbers | None:
    """Of grains with these ids, (n,), and those listed, (k, n), by NumPy if they are its arrays; None if all are
    alike."""
    if all(jnp.ndim(value) == 0 for value in (grains.radius, grains.mass, grains.friction)):
        return None
    library: Any = np if isinstance(listed, np.ndarray) else jnp

    def both(value: Any) -> tuple[Any, Any]:
        value = library.asarray(value)
        own = value if value.ndim == 0 else value[number]
        return library.broadcast_to(own, listed.shape), own if own.ndim == 0 else own[listed]

    (_, far), (mass, other), (friction, rough) = map(both, (grains.radius, grains.mass, grains.friction))
    total = mass + other
    together = library.sqrt(friction * rough) if grains.friction.ndim else None
    return PairNumbers(far, mass * other / total, other / total, together)


def momentum(grains: GrainModel, state: GrainState) -> Array:
    """Linear momentum [kg m/s], (dimension,)."""
    return (each(grains.mass, state) * state.velocity).sum(-1)


def angular_momentum(grains: GrainModel, state: GrainState) -> Array:
    """About the origin, spin included [kg m²/s], (1,) in 2-D, (3,) in 3-D; of a box that is not cyclic."""
    position, velocity, mass = state.position, state.velocity, each(grains.mass, state)
    if grains.dimension == 2:
        turning = (position[0] * velocity[1] - position[1] * velocity[0])[None]
    else:
        turning = jnp.cross(position, velocity, axis=0)
    if state.spin is not None:
        turning += inertia_factor(grains.dimension) * each(grains.radius, state) ** 2 * state.spin
    return (mass * turning).sum(-1)


def inertia_factor(dimension: int) -> float:
    """Moment of inertia over mass and squared radius: of a solid disc in 2-D, of a solid ball in 3-D."""
    return 0.5 if dimension == 2 else 0.4


def each(number: Array, state: GrainState) -> Array:
    """A number of grains in the order of cells, (n,) or ()."""
    return number if jnp.ndim(number) == 0 else number[state.id]


def in_order(values: Array, state: GrainState) -> Array:
    """Values of grains in the order of their ids; along the last axis."""
    return jnp.zeros_like(values).at[..., state.id].set(values, unique_indices=True)
