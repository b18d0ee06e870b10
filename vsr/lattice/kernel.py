"""A step of a grid of nodes as one GPU kernel: a lane per node, which looks at all its neighbours.

Every spring is so computed twice, once at each end, and nothing is exchanged: what a step costs is reading up to 26
neighbours, most of them from the cache, and starting the kernel. Law, integrators and contact are the functions used
elsewhere. The ground is not known to it (lanes cannot look up heights in a table), nor is an integrator that asks for
forces more than once in a step.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from operator import and_
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton

from vsr.lattice.grid import Direction, directions, spring_shape
from vsr.lattice.integrators import FELT_AHEAD, Moving
from vsr.lattice.law import pull
from vsr.lattice.step import Acting, move
from vsr.lattice.vector import Vector, minus, plus, times
from vsr.physics.advance.contraction import contracted
from vsr.physics.advance.instructions import WARP

LANES = 128
"""Nodes of one program."""


class SpringNumbers(NamedTuple):
    """One entry per direction, each of size 1 or one per spring."""

    stiffness: tuple[Any, ...]
    rest_length: tuple[Any, ...]
    damping: tuple[Any, ...] | None


Places = tuple[SpringNumbers, Acting, int]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Known:
    """All that a kernel reads besides the motion of the nodes."""

    numbers: Array
    """what is the same for all nodes or springs"""
    tables: list[Array]
    """what is not"""
    places: Places = field(metadata={"static": True})
    """the springs, what acts, the step: of each number its place, in the tables or (-1, -2, ...) in the numbers"""


def gather_known(springs: SpringNumbers, acting: Acting, step: Array | float) -> Known:
    """Sort what must be known by whether it is the same everywhere."""
    leaves, structure = jax.tree.flatten((springs, acting, jnp.asarray(step, acting.inverse_mass.dtype)))
    numbers: list[Array] = []
    tables: list[Array] = []
    places: list[int] = []
    for leaf in leaves:
        if leaf.size == 1:
            numbers.append(leaf.reshape(-1))
            places.append(-len(numbers))
        else:
            tables.append(leaf.reshape(-1))
            places.append(len(tables) - 1)
    return Known(jnp.concatenate(numbers), tables, structure.unflatten(places))


@partial(
    jax.jit, static_argnames=("integrator", "interpret")
)  # so that it is translated once, however often it is called
def move_on_chip(known: Known, moving: Moving, *, integrator: str, interpret: bool) -> Moving:
    """What vsr.lattice.step.move does, for grids in float32."""
    nodes = moving.position[0].shape
    before = [part.reshape(-1) for part in jax.tree.leaves(moving)]
    after = pl.pallas_call(
        partial(_program, nodes, known.places, integrator, interpret),
        grid=(pl.cdiv(math.prod(nodes), LANES),),
        out_shape=[jax.ShapeDtypeStruct(part.shape, part.dtype) for part in before],
        compiler_params=triton.CompilerParams(num_warps=LANES // WARP, num_stages=1),
        interpret=interpret,
        name="move_grid",
    )(*before, known.numbers, *known.tables)
    return jax.tree.unflatten(jax.tree.structure(moving), [part.reshape(nodes) for part in after])


def _program(
    nodes: tuple[int, ...],
    places: Places,
    integrator: str,
    interpret: bool,
    *references: Any,
) -> None:
    """Move the nodes of all lanes."""
    fields = 2 * len(nodes)
    before, (numbers, *tables), after = references[:fields], references[fields:-fields], references[-fields:]
    lanes = _Lanes(nodes)

    def look_up(place: int, index: Array) -> Array:
        return numbers[-1 - place] if place < 0 else triton.load(tables[place].at[index])

    springs, acting, step = places
    own = [triton.load(part.at[lanes.index]) for part in before]
    # Velocities of neighbours are read only where something depends on them.
    read = before if springs.damping is not None or FELT_AHEAD[integrator] else before[: len(nodes)]
    neighbours = []
    for number, direction in enumerate(directions(len(nodes))):
        for end in (0, 1):
            there, spring = lanes.neighbour(direction, end)
            motion = [triton.load(part.at[there]) for part in read]
            law = [None if part is None else look_up(part[number], spring) for part in springs]
            neighbours.append((motion, law))
    compute = partial(_moved, integrator)
    if not interpret:
        compute = contracted(compute)
    acting = jax.tree.map(lambda place: look_up(place, lanes.index), acting)
    for reference, values in zip(after, compute(own, neighbours, acting, look_up(step, lanes.index)), strict=True):
        triton.store(reference.at[lanes.index], values)


class _Lanes:
    """Which node each lane has, and where its neighbours are."""

    def __init__(self, nodes: tuple[int, ...]) -> None:
        # Lanes beyond the last node all do what its own lane does.
        self.index = jnp.minimum(pl.program_id(0) * LANES + jnp.arange(LANES, dtype=jnp.int32), math.prod(nodes) - 1)
        self.nodes = nodes
        strides = _strides(nodes)
        self.place = [self.index // stride % count for stride, count in zip(strides, nodes, strict=True)]
        self.edges = [(place > 0, place < count - 1) for place, count in zip(self.place, nodes, strict=True)]

    def neighbour(self, direction: Direction, end: int) -> tuple[Array, Array]:
        """The node at the other end of a spring and the spring; the node itself where there is none.

        end: 0 if the lane's node is the spring's first, 1 if it is its second.
        """
        steps = [part if end == 0 else -part for part in reversed(direction)]
        sides = [
            behind if step > 0 else before for step, (before, behind) in zip(steps, self.edges, strict=True) if step
        ]
        exists = reduce(and_, sides)
        there = self.index + sum(step * stride for step, stride in zip(steps, _strides(self.nodes), strict=True))
        # The springs of a direction form a grid of their own, which begins where their first ends do.
        first = [max(-part, 0) + (part if end else 0) for part in reversed(direction)]
        stride = _strides(spring_shape(self.nodes, direction))
        spring = sum((place - begin) * by for place, begin, by in zip(self.place, first, stride, strict=True))
        return jnp.where(exists, there, self.index), jnp.where(exists, spring, 0)


def _moved(
    integrator: str,
    own: list[Array],
    neighbours: list[tuple[list[Array], list[Any]]],
    acting: Acting,
    step: Array,
) -> list[Array]:
    dimension = len(own) // 2
    ahead = FELT_AHEAD[integrator] * step

    def forces(moving: Moving, _: Any) -> Vector:
        force: Vector = (jnp.zeros_like(own[0]),) * dimension
        for motion, (stiffness, rest_length, damping) in neighbours:
            position, velocity = tuple(motion[:dimension]), tuple(motion[dimension:])
            if FELT_AHEAD[integrator]:
                position = plus(position, times(ahead, velocity))
            between = minus(position, moving.position)
            parting = minus(velocity, moving.velocity) if damping is not None else ()
            force = plus(force, times(pull(stiffness, rest_length, damping, between, parting), between))
        return force

    moving = Moving(tuple(own[:dimension]), tuple(own[dimension:]))
    return jax.tree.leaves(move(acting, forces, moving, step, step, integrator))


def _strides(sizes: Sequence[int]) -> list[int]:
    """From an entry of a table to the next along each of its axes."""
    return [math.prod(sizes[axis + 1 :]) for axis in range(len(sizes))]
