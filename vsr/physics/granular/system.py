"""Grains as something that moves in a world with robots (vsr.world.coupling.System)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.environment import Environment
from vsr.physics.contract import ContactBody
from vsr.physics.failure import Failure
from vsr.physics.granular.bodies import Body
from vsr.physics.granular.model import (
    CANDIDATES,
    ITERATIONS,
    SKIN,
    SLOTS,
    WIDEST_RATIO,
    Box,
    GrainModel,
    GrainState,
    in_order,
    pair_numbers,
)
from vsr.physics.granular.robots import contacts_needed, no_contacts, touched_cells
from vsr.physics.granular.step import step
from vsr.physics.telemetry import failure_of
from vsr.terrain.sand import ROLLING


class GrainsSeen(NamedTuple):
    """What a recording keeps of grains, in the order of their numbers."""

    position: Array
    """[m], (grains, dimension)"""
    velocity: Array
    """[m/s], (grains, dimension)"""
    force: Array
    """sizes of all forces on a grain in the last step, added up [N], (grains,)"""
    touched: tuple[Array, ...]
    """of each robot, 1 for voxels that grains touch, else 0, *cells"""
    overflow: Array
    """what found no place so far, as in GrainState"""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Grains(GrainModel):
    """Grains that robots walk on."""

    def rest_state(self, robots: tuple[ContactBody, ...] = ()) -> GrainState:
        return replace(self.start, robots=tuple(no_contacts(self, robot) for robot in robots))

    def step(
        self, environment: Environment, state: GrainState, robots: tuple[ContactBody, ...], duration: float
    ) -> tuple[GrainState, tuple[ContactBody, ...]]:
        state, robots, _ = step(self, environment, state, robots, duration)
        return state, robots

    def failure(self, state: GrainState) -> Array:
        moving = failure_of((state.position.sum(0),), state.velocity.T).max()
        return jnp.where((state.overflow > 0).any(), int(Failure.contact_overflow), moving)

    def seen(self, state: GrainState) -> GrainsSeen:
        return GrainsSeen(
            position=in_order(state.position, state).T,
            velocity=in_order(state.velocity, state).T,
            force=in_order(pressing(state), state),
            touched=self.touched(state),
            overflow=state.overflow,
        )

    def advice(self, seen: GrainsSeen) -> str:
        """What to do about lists that were too short in a recorded episode; nothing if none was."""
        cells = seen.touched[0].shape[1:] if seen.touched else (1,) * self.dimension
        return overflow_advice(self, seen.overflow[-1], self.contacts or contacts_needed(cells, self.samples))

    def touched(self, state: GrainState) -> tuple[Array, ...]:
        """Of each robot, 1 for voxels that grains touch, else 0, *cells."""
        return tuple(touched_cells(self, contacts) for contacts in state.robots)


def pressing(state: GrainState) -> Array:
    """Sizes of all forces on each grain in the last step, added up [N], (n,)."""
    size = lambda impulses: jnp.sqrt((impulses**2).sum(-2)).sum(0)  # noqa: E731
    total = size(state.impulse) + size(state.body_impulse)
    for contacts in state.robots:
        total = total.at[contacts.grain].add(jnp.sqrt((contacts.impulse**2).sum(0)), mode="drop")
    return total / jnp.where(state.lasted > 0, state.lasted, 1)


def slots_needed(dimension: int, ratio: float) -> int:
    """Capacity for neighbors of a grain; ratio: smallest radius over largest.

    In 2-D as many as small discs find room around a large one, at the farthest where they are listed, and one more for
    those pressed into each other; in 3-D by experience.
    """
    if dimension == 3:
        return math.ceil(SLOTS * (0.5 * (1 + 1 / ratio)) ** 2)
    return math.floor(math.pi / math.asin(ratio / (1 + ratio + SKIN))) + 1


def candidates_needed(dimension: int, ratio: float) -> int:
    """Grains to look at in each column of three cells; ratio: smallest radius over largest.

    Small grains find more room around a large one.
    """
    return math.ceil(CANDIDATES[dimension] * (0.5 * (1 + 1 / ratio)) ** dimension)


def overflow_advice(grains: GrainModel, overflow: Array, capacity: int = 0) -> str:
    """Advice where lists overflowed.

    overflow: as in GrainState; capacity: of the list of contacts of a robot.
    """
    candidates, neighbors, contacts, over = (int(number) for number in overflow)
    advice = []
    if neighbors:
        advice.append(
            f"up to {neighbors} neighbors exceeded the list: set `neighbors` to {grains.slots + neighbors} or more"
        )
    if candidates:
        wanted = grains.candidates + candidates
        advice.append(f"up to {candidates} candidates were not looked at: set `candidates` to {wanted} or more")
    if contacts:
        advice.append(
            f"{contacts} contacts with a robot exceeded the list: set `contacts` to {capacity + contacts} or more"
        )
    if over:
        advice.append(f"{over} grains too many stood over one part of a face: it is folded, or stretched too far")
    return "; ".join(advice)


def grains_of(
    position: np.ndarray | Array,
    radius: float | np.ndarray,
    mass: float | np.ndarray,
    *,
    friction: float | np.ndarray = 0.5,
    rolling: float | None = ROLLING,
    box: Box,
    velocity: np.ndarray | Array | None = None,
    bodies: Sequence[Body] = (),
    grounded: bool = True,
    slots: int | None = None,
    candidates: int | None = None,
    samples: int = 1,
    iterations: int = ITERATIONS,
    dtype: Any = jnp.float32,
) -> Grains:
    """Grains with their centers at given places [m], (grains, dimension).

    radius [m], mass [kg] and friction: of all grains, or of each; rolling: coefficient of rolling resistance, None
    for grains that do not turn, which do not conserve angular momentum; grounded: whether the environment has a
    ground. Raises ValueError for what cannot be.
    """
    host: Any = np  # JAX would compile a program for each of these arrays
    centers: Any = host.array(position, dtype).T
    dimension, count = centers.shape
    largest, smallest = float(host.max(radius)), float(host.min(radius))
    if dimension != box.dimension or dimension not in (2, 3):
        raise ValueError(f"places have {dimension} coordinates and the box {box.dimension}; both must be 2 or 3")
    if smallest <= 0 or largest / smallest > WIDEST_RATIO:
        raise ValueError(
            f"radii must be above 0 and the largest at most {WIDEST_RATIO:g} times the smallest; "
            f"got {smallest:g} to {largest:g} m"
        )
    slots = slots or slots_needed(dimension, smallest / largest)
    candidates = candidates or candidates_needed(dimension, smallest / largest)
    turning = None if rolling is None else 2 * dimension - 3
    own = host.arange(count, dtype=host.int32)
    start = GrainState(
        position=centers,
        velocity=host.zeros_like(centers) if velocity is None else host.array(velocity, dtype).T,
        spin=None if turning is None else host.zeros((turning, count), dtype),
        id=own,
        neighbor=host.tile(own, (slots, 1)),
        neighbors=host.zeros(count, host.int32),
        pair=None,
        impulse=host.zeros((slots, dimension, count), dtype),
        rolling=None if turning is None else host.zeros((slots, turning, count), dtype),
        received=host.zeros_like(centers),
        received_turning=None if turning is None else host.zeros((turning, count), dtype),
        listed_at=host.full_like(centers, host.inf),
        offsets=host.zeros(math.prod(box.cells((2 + SKIN) * largest)) + 1, host.int32),
        body_impulse=host.zeros((len(bodies) + grounded, dimension, count), dtype),
        bodies=tuple(body.motion for body in bodies if body.is_free),
        robots=(),
        time=host.zeros((), dtype),
        lasted=host.zeros((), dtype),
        overflow=host.zeros(4, host.int32),
    )
    grains = Grains(
        start=start,
        radius=host.asarray(radius, dtype),
        mass=host.asarray(mass, dtype),
        friction=host.asarray(friction, dtype),
        rolling=None if rolling is None else host.asarray(rolling, dtype),
        box=box,
        bodies=tuple(bodies),
        largest=largest,
        slots=slots,
        candidates=candidates,
        samples=samples,
        iterations=iterations,
    )
    return jax.device_put(replace(grains, start=replace(start, pair=pair_numbers(grains, own, start.neighbor))))
