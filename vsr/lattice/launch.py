"""A step of many nodes as one GPU kernel: what all such kernels share.

There is a lane for every node. It reads the motion of its neighbours from memory, most of it in fact from the cache,
computes the forces of its springs, and moves its node; so every spring is computed at both of its ends, nothing is
exchanged within a launch, and the next launch is what all wait for. Integrators and contact are the functions used
elsewhere (vsr.lattice.step); the springs are those of a `Neighbourhood`.

An integrator that asks for forces more than once in a step is not known here, nor is ground with so many segments that
they must be looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from vsr.lattice.integrators import FELT_AHEAD, Moving
from vsr.lattice.step import Acting, meet_obstacles, move
from vsr.lattice.vector import Vector, plus, times
from vsr.physics.advance.contraction import contracted
from vsr.physics.advance.instructions import WARP
from vsr.terrain.surface import Terrain

MOST_LANES = 128
"""Nodes of one program."""

LookUp = Callable[[Any, Array], Array]
"""From the place of a table, or of a number, and an index to the entry."""


class Neighbourhood(Protocol):
    """The springs of a kernel; hashable, for it is part of the program."""

    @property
    def nodes(self) -> int:
        """How many there are."""
        ...

    def read(self, node: Array, motion: Sequence[Any], springs: Any, look_up: LookUp) -> Any:
        """What the lanes must know to compute forces, as lanes.

        node: of each lane; motion: references to the components of the nodes' positions, and of their velocities where
        those are wanted; springs: the places of what is known of them.
        """
        ...

    def forces(self, read: Any, seen: Callable[[Sequence[Array]], tuple[Vector, Vector]], moving: Moving) -> Vector:
        """Of all springs on the nodes [N].

        read: what `read` gave; seen: from what was read of a neighbour's motion to the position at which it is felt,
        and its velocity; moving: the nodes' own motion.
        """
        ...


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Order:
    """Which lane has which node: absent ones last, so that whole programs have nothing to do but to pass them on."""

    node: Array
    """of each lane, (nodes,)"""
    count: Array
    """of nodes that are there, (1,)"""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Known:
    """All that a kernel reads besides the motion of the nodes."""

    numbers: Array
    """what is the same everywhere, (numbers,)"""
    tables: tuple[Array, ...]
    """what is not, flat"""
    places: tuple[Any, Acting, int] = field(metadata={"static": True})
    """the springs, what acts, the step: for each its place, in the tables or (-1, -2, ...) in the numbers"""
    order: Order | None = None
    """None if lanes are in the order of the nodes, all of which are there"""


def present_first(present: Array) -> Order:
    """present: whether a node is there; any shape."""
    there = present.reshape(-1)
    before = jnp.cumsum(there)
    lane = jnp.where(there, before - 1, before[-1] + jnp.cumsum(~there) - 1)
    node = jnp.zeros(there.size, jnp.int32).at[lane].set(jnp.arange(there.size, dtype=jnp.int32), unique_indices=True)
    return Order(node, before[-1:].astype(jnp.int32))


def gather_known(springs: Any, acting: Acting, step: Array | float, order: Order | None = None) -> Known:
    """Sort what must be known by whether it is the same everywhere."""
    leaves, structure = jax.tree.flatten((springs, acting, jnp.asarray(step, acting.inverse_mass.dtype)))
    numbers: list[Array] = []
    tables: list[Array] = []
    places: list[int] = []
    for leaf in leaves:
        if leaf.size == 1:
            numbers.append(leaf.reshape(-1))
            places.append(-len(numbers))
        elif leaf.size == 0:  # springs that a thin grid does not have; nobody looks them up
            places.append(0)
        else:
            tables.append(leaf.reshape(-1))
            places.append(len(tables) - 1)
    return Known(jnp.concatenate(numbers), tuple(tables), structure.unflatten(places), order)


class Launcher:
    """Steps of one length under one integrator."""

    def __init__(
        self,
        neighbourhood: Neighbourhood,
        acting: Acting,
        step: Array | float,
        integrator: str,
        *,
        by_velocity: bool,
        interpret: bool,
    ) -> None:
        """by_velocity: whether forces depend on the neighbours' velocities."""
        self.neighbourhood, self.acting, self.step, self.integrator = neighbourhood, acting, step, integrator
        self.by_velocity, self.interpret = by_velocity, interpret
        around = acting.surroundings
        if isinstance(around.terrain, Terrain) and around.terrain.convex:
            in_kernel = replace(around, terrain=_by_numbers(around.terrain))
        else:
            in_kernel = replace(around, bodies=() if around.terrain else around.bodies, terrain=None)
        self.in_kernel = acting._replace(surroundings=in_kernel)
        self.looks_up = in_kernel.terrain is None and around.terrain is not None
        """whether obstacles are met after the launch, not in it"""

    def known(self, springs: Any, order: Order | None = None) -> Known:
        """What `move` wants to know; gather it once if the springs stay as they are."""
        return gather_known(springs, self.in_kernel, self.step, order)

    def move(self, known: Known, moving: Moving) -> Moving:
        """The motion one step later."""
        moved = _launch(
            known,
            moving,
            neighbourhood=self.neighbourhood,
            integrator=self.integrator,
            by_velocity=self.by_velocity,
            interpret=self.interpret,
        )
        return meet_obstacles(self.acting, moved, moving, self.step, self.integrator) if self.looks_up else moved


# Compiled, so that it is translated once, however often it is called.
@partial(jax.jit, static_argnames=("neighbourhood", "integrator", "by_velocity", "interpret"))
def _launch(
    known: Known, moving: Moving, *, neighbourhood: Neighbourhood, integrator: str, by_velocity: bool, interpret: bool
) -> Moving:
    shape, nodes = moving.position[0].shape, neighbourhood.nodes
    lanes = min(MOST_LANES, max(WARP, pl.next_power_of_2(nodes)))
    before = [part.reshape(-1) for part in jax.tree.leaves(moving)]
    order = () if known.order is None else (known.order.node, known.order.count)
    compute = partial(_program, neighbourhood, len(moving.position), known.places, integrator, by_velocity, interpret)
    after = pl.pallas_call(
        partial(_in_order if order else _all_nodes, compute, neighbourhood.nodes, lanes, 2 * len(moving.position)),
        grid=(pl.cdiv(nodes, lanes),),
        out_shape=[jax.ShapeDtypeStruct(part.shape, part.dtype) for part in before],
        compiler_params=triton.CompilerParams(num_warps=lanes // WARP, num_stages=1),
        interpret=interpret,
        name="move_nodes",
    )(*order, *before, known.numbers, *known.tables)
    return jax.tree.unflatten(jax.tree.structure(moving), [part.reshape(shape) for part in after])


def _all_nodes(compute: Callable[..., None], nodes: int, lanes: int, fields: int, *references: Any) -> None:
    """A program in which every lane has a node to move."""
    compute(_lanes(nodes, lanes), *references)


def _in_order(
    compute: Callable[..., None], nodes: int, lanes: int, fields: int, node: Any, count: Any, *references: Any
) -> None:
    """A program that moves the nodes that are there, and passes on those that are not."""
    mine = triton.load(node.at[_lanes(nodes, lanes)])
    works = pl.program_id(0) * lanes < count[0]

    @pl.when(works)
    def _() -> None:
        compute(mine, *references)

    @pl.when(~works)
    def _() -> None:
        for before, after in zip(references[:fields], references[-fields:], strict=True):
            triton.store(after.at[mine], triton.load(before.at[mine]))


def _lanes(nodes: int, lanes: int) -> Array:
    """Numbers of a program's lanes; those beyond the last node all do what its own lane does."""
    return jnp.minimum(pl.program_id(0) * lanes + jnp.arange(lanes, dtype=jnp.int32), nodes - 1)


def _program(
    neighbourhood: Neighbourhood,
    dimension: int,
    places: tuple[Any, Acting, int],
    integrator: str,
    by_velocity: bool,
    interpret: bool,
    node: Array,
    *references: Any,
) -> None:
    """Move the nodes of all lanes; node: of each."""
    fields = 2 * dimension
    before, (numbers, *tables), after = references[:fields], references[fields:-fields], references[-fields:]

    def look_up(place: int, index: Array) -> Array:
        return numbers[-1 - place] if place < 0 else triton.load(tables[place].at[index])

    springs, acting, step = places
    # Velocities of neighbours are read only where something depends on them.
    wanted = before if by_velocity or FELT_AHEAD[integrator] else before[:dimension]
    loaded = (
        [triton.load(part.at[node]) for part in before],
        neighbourhood.read(node, wanted, springs, look_up),
        jax.tree.map(lambda place: look_up(place, node), acting),
        look_up(step, node),
    )
    compute = partial(_moved, neighbourhood, dimension, integrator)
    moved = (compute if interpret else contracted(compute))(*loaded)
    for reference, values in zip(after, jax.tree.leaves(moved), strict=True):
        triton.store(reference.at[node], values)


def _moved(
    neighbourhood: Neighbourhood,
    dimension: int,
    integrator: str,
    own: list[Array],
    read: Any,
    acting: Acting,
    step: Array,
) -> Moving:
    ahead = FELT_AHEAD[integrator] * step

    def seen(motion: Sequence[Array]) -> tuple[Vector, Vector]:
        position, velocity = tuple(motion[:dimension]), tuple(motion[dimension:])
        return plus(position, times(ahead, velocity)) if FELT_AHEAD[integrator] else position, velocity

    def forces(moving: Moving, _: Any) -> Vector:
        return neighbourhood.forces(read, seen, moving)

    return move(acting, forces, Moving(tuple(own[:dimension]), tuple(own[dimension:])), step, step, integrator)


def _by_numbers(terrain: Terrain) -> Any:
    """A convex terrain, which is a few lines, by the numbers of its lines."""
    return jax.tree.map(lambda value: tuple(value) if value.ndim else value, replace(terrain, cell_segment=None))
