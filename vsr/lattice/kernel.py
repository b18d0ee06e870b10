"""A step of many nodes as one GPU kernel (`Launcher`), and the springs of a regular grid in its lanes.

There is a lane for every node. It reads the motion of its neighbors from memory, most of it in fact from the cache,
computes the forces of its springs, and moves its node; so every spring is computed at both of its ends, nothing is
exchanged within a launch, and the next launch is what all wait for. Integrators and contact are the functions used
elsewhere (vsr.lattice.step); the springs are those of a `Neighborhood`.

An integrator that asks for forces more than once in a step is not known here.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from operator import and_
from typing import Any, NamedTuple, Protocol

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.gpu.language import WARP, Table, kernel_call, load, power_of_two, program_id, store
from vsr.compute.vector import Vector, minus, plus, times
from vsr.lattice.grid import Direction, directions, spring_shape
from vsr.lattice.integrators import FORCE_EVALUATION_OFFSET, NodeState
from vsr.lattice.law import pull
from vsr.lattice.step import StepInputs, move
from vsr.terrain.surface import by_numbers

MOST_LANES = 128
"""Nodes of one program."""

LookUp = Callable[[Any, Array], Array]
"""From the place of a table, or of a number, and an index to the entry."""
Look = Callable[[Array], NodeState]
"""From nodes to their motion as others feel it; without velocities where nothing depends on them."""


class Neighborhood(Protocol):
    """The springs of a kernel; hashable, for it is part of the program."""

    @property
    def nodes(self) -> int:
        """How many there are."""
        ...

    def force(self, node: Array, moving: NodeState, springs: Any, look_up: LookUp, look: Look) -> Vector:
        """Of all springs on the nodes of all lanes [N].

        node: of each lane; moving: how it moves; springs: the places of what is known of them. One spring after the
        other should be read and computed, so that a lane need not keep all of them at a time.
        """
        ...


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class LaneOrder:
    """Which lane has which node: absent ones last, so that whole programs have nothing to do and touch no memory."""

    node: Array
    """of each lane, (nodes,)"""
    count: Array
    """of nodes that are there, (1,)"""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class KernelInputs:
    """All that a kernel reads besides the motion of the nodes."""

    numbers: Array
    """what is the same everywhere, (numbers,)"""
    tables: tuple[Array, ...]
    """what is not, flat"""
    places: tuple[Any, StepInputs, int] = field(metadata={"static": True})
    """the springs, what acts, the step: for each its place, in the tables or (-1, -2, ...) in the numbers"""
    shapes: tuple[tuple[int, ...], ...] = field(metadata={"static": True})
    """of the tables, before they were flat"""
    order: LaneOrder | None = None
    """None if lanes are in the order of the nodes, all of which are there"""


def present_first(present: Array) -> LaneOrder:
    """present: whether a node is there; any shape."""
    there = present.reshape(-1)
    before = jnp.cumsum(there)
    lane = jnp.where(there, before - 1, before[-1] + jnp.cumsum(~there) - 1)
    node = jnp.zeros(there.size, jnp.int32).at[lane].set(jnp.arange(there.size, dtype=jnp.int32), unique_indices=True)
    return LaneOrder(node, before[-1:].astype(jnp.int32))


def gather_known(springs: Any, inputs: StepInputs, step: Array | float, order: LaneOrder | None = None) -> KernelInputs:
    """Sort what must be known by whether it is the same everywhere."""
    around = inputs.environment
    line = None if around.terrain is None else around.terrain.line
    if line is not None and line.convex:
        inputs = inputs._replace(environment=replace(around, terrain=by_numbers(line)))
    leaves, structure = jax.tree.flatten((springs, inputs, jnp.asarray(step, inputs.inverse_mass.dtype)))
    numbers: list[Array] = []
    tables: list[Array] = []
    places: list[int] = []
    for leaf in leaves:
        if leaf.size == 1 and jnp.issubdtype(leaf.dtype, jnp.floating):
            numbers.append(leaf.reshape(-1))
            places.append(-len(numbers))
        elif leaf.size == 0:  # springs that a thin grid does not have; nobody looks them up
            places.append(0)
        else:
            tables.append(leaf)
            places.append(len(tables) - 1)
    shapes = tuple(table.shape for table in tables)
    flat = tuple(table.reshape(-1) for table in tables)
    return KernelInputs(jnp.concatenate(numbers), flat, structure.unflatten(places), shapes, order)


@dataclass(frozen=True)
class Known:
    """KernelInputs as a program reads them."""

    numbers: Table
    tables: Sequence[Table]
    shapes: tuple[tuple[int, ...], ...]

    def look_up(self, place: int, index: Array) -> Array:
        """The number, or an entry of the flat table, at a place."""
        return self.numbers[-1 - place] if place < 0 else load(self.tables[place].at[index])

    def of_nodes(self, inputs: StepInputs, node: Array) -> StepInputs:
        """What acts on the nodes of lanes; inputs: the places of it."""
        around, terrain = inputs.environment, inputs.environment.terrain
        inputs = inputs._replace(environment=replace(around, terrain=None))
        acts = jax.tree.map(lambda place: self.look_up(place, node), inputs)
        ground = jax.tree.map(self._whole, terrain)
        return acts._replace(environment=replace(acts.environment, terrain=ground))

    def _whole(self, place: int) -> Any:
        return self.numbers[-1 - place] if place < 0 else Entries(self.tables[place], self.shapes[place])


@dataclass(frozen=True)
class Entries:
    """A table with the axes of an array, as the functions of a terrain read it."""

    table: Table
    shape: tuple[int, ...]

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, indices: Any) -> Array:
        indices = indices if isinstance(indices, tuple) else (indices,)
        return load(self.table.at[sum(index * by for index, by in zip(indices, strides(self.shape), strict=True))])

    def reshape(self, *_: Any) -> Entries:
        """Itself: there are no axes of robots to take away."""
        return self


class Launcher:
    """Steps of one length under one integrator."""

    def __init__(
        self,
        neighborhood: Neighborhood,
        inputs: StepInputs,
        step: Array | float,
        integrator: str,
        *,
        by_velocity: bool,
        interpret: bool,
    ) -> None:
        """by_velocity: whether forces depend on the neighbors' velocities."""
        self.neighborhood, self.inputs, self.step, self.integrator = neighborhood, inputs, step, integrator
        self.by_velocity, self.interpret = by_velocity, interpret

    def known(self, springs: Any, order: LaneOrder | None = None) -> KernelInputs:
        """What `move` needs; gather it once if the springs stay as they are."""
        return gather_known(springs, self.inputs, self.step, order)

    def move(self, known: KernelInputs, moving: NodeState, spare: NodeState | None = None) -> NodeState:
        """The motion one step later.

        spare: where nodes have an order, a motion that is no longer needed, for instance the one before; its memory is
        used again, and absent nodes stay as they are in it.
        """
        assert (known.order is None) == (spare is None), "a spare motion goes with an order of the nodes"
        return _launch(
            known,
            moving,
            spare,
            neighborhood=self.neighborhood,
            integrator=self.integrator,
            by_velocity=self.by_velocity,
            interpret=self.interpret,
        )


# Compiled, so that it is translated once, however often it is called.
@partial(jax.jit, static_argnames=("neighborhood", "integrator", "by_velocity", "interpret"))
def _launch(
    known: KernelInputs,
    moving: NodeState,
    spare: NodeState | None,
    *,
    neighborhood: Neighborhood,
    integrator: str,
    by_velocity: bool,
    interpret: bool,
) -> NodeState:
    shape, nodes = moving.position[0].shape, neighborhood.nodes
    lanes = min(MOST_LANES, max(WARP, power_of_two(nodes)))
    before = [part.reshape(-1) for part in jax.tree.leaves(moving)]
    ordered = (
        () if known.order is None else (known.order.node, known.order.count, *map(jnp.ravel, jax.tree.leaves(spare)))
    )
    compute = partial(_program, neighborhood, len(moving.position), known.places, known.shapes, integrator, by_velocity)
    after = kernel_call(
        partial(_in_order, compute, nodes, lanes, len(before))
        if ordered
        else partial(_all_nodes, compute, nodes, lanes),
        programs=-(-nodes // lanes),
        lanes=lanes,
        results=before,
        aliases={2 + index: index for index in range(len(before) if ordered else 0)},
        interpret=interpret,
        name="move_nodes",
    )(*ordered, *before, known.numbers, *known.tables)
    return jax.tree.unflatten(jax.tree.structure(moving), [part.reshape(shape) for part in after])


def _all_nodes(compute: Callable[..., None], nodes: int, lanes: int, *references: Any) -> None:
    """A program in which every lane has a node to move."""
    compute(_lanes(nodes, lanes), *references)


def _in_order(
    compute: Callable[..., None], nodes: int, lanes: int, fields: int, node: Any, count: Any, *references: Any
) -> None:
    """A program that moves the nodes that are there, and leaves those that are not; the spare motion comes first."""
    lane, works = _lanes(nodes, lanes), program_id() * lanes < count[0]
    jax.lax.cond(works, lambda: compute(load(node.at[lane]), *references[fields:]), lambda: None)


def _lanes(nodes: int, lanes: int) -> Array:
    """Numbers of a program's lanes; those beyond the last node all do what its own lane does."""
    return jnp.minimum(program_id() * lanes + jnp.arange(lanes, dtype=jnp.int32), nodes - 1)


def _program(
    neighborhood: Neighborhood,
    dimension: int,
    places: tuple[Any, StepInputs, int],
    shapes: tuple[tuple[int, ...], ...],
    integrator: str,
    by_velocity: bool,
    node: Array,
    *references: Any,
) -> None:
    """Move the nodes of all lanes; node: of each."""
    fields = 2 * dimension
    before, (numbers, *tables), after = references[:fields], references[fields:-fields], references[-fields:]
    known = Known(numbers, tables, shapes)
    springs, inputs, step_place = places
    step = known.look_up(step_place, node)
    # Velocities of neighbors are read only where something depends on them.
    wanted = before if by_velocity or FORCE_EVALUATION_OFFSET[integrator] else before[:dimension]

    def motion_of(nodes: Array, parts: Sequence[Any]) -> NodeState:
        values = [load(part.at[nodes]) for part in parts]
        return NodeState(tuple(values[:dimension]), tuple(values[dimension:]))

    felt = partial(felt_motion, integrator, step)
    own = motion_of(node, before)
    force = neighborhood.force(node, felt(own), springs, known.look_up, lambda there: felt(motion_of(there, wanted)))
    moved = moved_by(integrator, force, own, known.of_nodes(inputs, node), step)
    for reference, values in zip(after, jax.tree.leaves(moved), strict=True):
        store(reference.at[node], values)


def felt_motion(integrator: str, step: Array, moving: NodeState) -> NodeState:
    """The motion with which springs act in a step."""
    share = FORCE_EVALUATION_OFFSET[integrator]
    return moving._replace(position=plus(moving.position, times(share * step, moving.velocity))) if share else moving


def moved_by(integrator: str, force: Vector, own: NodeState, inputs: StepInputs, step: Array) -> NodeState:
    """The motion one step later; force: of springs and the like [N]."""
    return move(inputs, lambda *_: force, own, step, step, integrator)


class SpringNumbers(NamedTuple):
    """One entry per direction, each of size 1 or one per spring."""

    stiffness: tuple[Any, ...]
    rest_length: tuple[Any, ...]
    damping: tuple[Any, ...] | None


@dataclass(frozen=True)
class GridNeighborhood:
    """Up to 8 neighbors in 2-D, 26 in 3-D."""

    shape: tuple[int, ...]
    """nodes along each axis, x last"""

    @property
    def nodes(self) -> int:
        """How many there are."""
        return math.prod(self.shape)

    def force(
        self,
        node: Array,
        moving: NodeState,
        springs: SpringNumbers,
        look_up: LookUp,
        look: Look,
    ) -> Vector:
        """See vsr.lattice.kernel.Neighborhood."""
        place = places_of(node, self.shape)
        force: Vector = tuple(jnp.zeros_like(part) for part in moving.position)
        for number, direction in enumerate(directions(len(self.shape))):
            if 0 in spring_shape(self.shape, direction):  # a grid one node thick has no springs across
                continue
            for end in (0, 1):
                there, spring = self._across(node, place, direction, end)
                numbers: list[Any] = [None if part is None else look_up(part[number], spring) for part in springs]
                force = _pulled(force, there != node, moving, look(there), *numbers)
        return force

    def _across(self, node: Array, place: list[Array], direction: Direction, end: int) -> tuple[Array, Array]:
        """The node at the other end of a spring, the node itself where there is none, and the spring.

        end: 0 if the lane's node is the spring's first, 1 if it is its second.
        """
        steps = [part if end == 0 else -part for part in reversed(direction)]
        exists = are_in_grid(place, steps, self.shape)
        there = node + sum(step * stride for step, stride in zip(steps, strides(self.shape), strict=True))
        # The springs of a direction form a grid of their own, which begins where their first ends do.
        first = [max(-part, 0) + (part if end else 0) for part in reversed(direction)]
        stride = strides(spring_shape(self.shape, direction))
        spring = sum((at - begin) * by for at, begin, by in zip(place, first, stride, strict=True))
        return jnp.where(exists, there, node), jnp.where(exists, spring, 0)


def _pulled(
    force: Vector,
    exists: Array,
    moving: NodeState,
    other: NodeState,
    stiffness: Array,
    rest_length: Array,
    damping: Array | None,
) -> Vector:
    """The force with that of one spring more, if it exists [N]; other: the motion of its other end.

    A node is not trusted to be at distance 0 from itself: compilers may round the two motions differently.
    """
    between = minus(other.position, moving.position)
    parting = minus(other.velocity, moving.velocity) if damping is not None else ()
    strength = pull(stiffness, rest_length, damping, between, parting)
    return plus(force, times(jnp.where(exists, strength, 0), between))


def strides(shape: Sequence[int]) -> list[int]:
    """From an entry of a table to the next along each of its axes."""
    return [math.prod(shape[axis + 1 :]) for axis in range(len(shape))]


def places_of(index: Array, shape: Sequence[int]) -> list[Array]:
    """Where along each axis of a table an entry is."""
    return [index // stride % size for stride, size in zip(strides(shape), shape, strict=True)]


def are_in_grid(place: Sequence[Array], steps: Sequence[int], shape: Sequence[int]) -> Array:
    """Whether a step of -1, 0 or 1 along each axis, not all 0, leads to another entry of a table."""
    return reduce(
        and_,
        [
            at + step < size if step > 0 else at + step >= 0
            for at, step, size in zip(place, steps, shape, strict=True)
            if step
        ],
    )
