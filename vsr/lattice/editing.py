"""Nodes and springs added to and taken from a body while it moves, without a new program and at constant cost.

A body is built once with room for more (`editable`). Unused slots lie on stacks; an edit takes one from a stack or puts
one back, and writes a few numbers: nothing depends on how large the body is, except that the row of springs at a node
has a fixed room. The functions give up their argument's memory (`donate`), so arrays are changed where they are; use
the body that comes back, not the one that went in. All of them can be used inside `jit`, `scan` and `vmap`.

What cannot be done is not done, and says so as data: the slot that comes back is -1 and `refused` counts one more.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.typing import ArrayLike

from vsr.lattice.graph import as_graph
from vsr.lattice.model import GraphSprings, Lattice, State, Wave
from vsr.lattice.motion import rest_state


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Editable:
    """A lattice with room for more, how it moves, and which slots are free."""

    lattice: Lattice
    """with `GraphSprings`"""
    state: State
    degree: Array
    """springs at every node, (nodes,)"""
    place: Array
    """where in the rows of incidence a spring's two ends stand, -1 for a free slot, (springs, 2)"""
    free_nodes: Array
    """a stack of slots, (nodes,)"""
    free_node_count: Array
    """its height, ()"""
    free_springs: Array
    """a stack of slots, (springs,)"""
    free_spring_count: Array
    """its height, ()"""
    refused: Array
    """edits that could not be made, ()"""

    @property
    def springs(self) -> GraphSprings:
        """Of the lattice."""
        return self.lattice.springs  # pyright: ignore[reportReturnType]


def editable(
    lattice: Lattice,
    state: State | None = None,
    *,
    nodes: int | None = None,
    springs: int | None = None,
    degree: int | None = None,
) -> Editable:
    """A lattice with room for some number of nodes and of springs in all, and of springs at each node.

    Each is as many as there are if not given; a grid becomes a graph. state: at rest if not given.
    """
    graph = as_graph(lattice)
    old: GraphSprings = graph.springs  # pyright: ignore[reportAssignmentType]
    node_count, spring_count = graph.mass.size, old.stiffness.size
    rows = np.asarray(old.incidence)
    room = _room("degree", degree, rows.shape[1])
    nodes, springs = _room("nodes", nodes, node_count), _room("springs", springs, spring_count)
    table = np.full((nodes, room), -1, np.int32)
    table[:node_count, : rows.shape[1]] = rows
    place = np.full((springs, 2), -1, np.int32)
    node, column = np.nonzero(table >= 0)
    place[table[node, column] // 2, table[node, column] % 2] = column
    new = GraphSprings(
        first=_longer(old.first, springs),
        second=_longer(old.second, springs),
        stiffness=_longer(old.stiffness, springs),
        rest_length=_longer(old.rest_length, springs),
        incidence=jnp.asarray(table),
        damping=None if old.damping is None else _longer(old.damping, springs),
        yield_force=None if old.yield_force is None else _longer(old.yield_force, springs, np.inf),
        wave=_longer_wave(old.wave, spring_count, springs),
    )
    whole = jnp.eye(lattice.dimension, dtype=graph.mass.dtype)
    padded = replace(
        graph,
        springs=new,
        rest_position=_longer(graph.rest_position, nodes),
        mass=_longer(graph.mass, nodes),
        inverse_mass=_longer(graph.inverse_mass, nodes),
        freedom=None if graph.freedom is None else _longer(graph.freedom, nodes).at[node_count:].set(whole),
    )
    free_nodes = _unused(np.flatnonzero(np.asarray(padded.mass) == 0), nodes)
    free_springs = _unused(np.flatnonzero(place[:, 0] < 0), springs)
    return Editable(
        lattice=padded,
        state=_padded_state(padded, lattice, state),
        degree=jnp.asarray((table >= 0).sum(1), jnp.int32),
        place=jnp.asarray(place),
        free_nodes=free_nodes[0],
        free_node_count=free_nodes[1],
        free_springs=free_springs[0],
        free_spring_count=free_springs[1],
        refused=jnp.zeros((), jnp.int32),
    )


@partial(jax.jit, donate_argnums=0)
def add_node(body: Editable, position: ArrayLike, mass: ArrayLike, velocity: ArrayLike = 0.0) -> tuple[Editable, Array]:
    """One node more, free to move: position [m], velocity [m/s], (dimension,); mass [kg]. And its slot, or -1."""
    lattice, state = body.lattice, body.state
    possible = (body.free_node_count > 0) & (jnp.asarray(mass) > 0)
    node = body.free_nodes[body.free_node_count - 1]
    at = jnp.where(possible, node, lattice.mass.size)  # beyond the end: what is written there is dropped
    whole = jnp.eye(lattice.dimension, dtype=lattice.mass.dtype)
    lattice = replace(
        lattice,
        rest_position=_set(lattice.rest_position, at, position),
        mass=_set(lattice.mass, at, mass),
        inverse_mass=_set(lattice.inverse_mass, at, 1 / jnp.asarray(mass)),
        freedom=None if lattice.freedom is None else _set(lattice.freedom, at, whole),
    )
    state = replace(state, position=_set(state.position, at, position), velocity=_set(state.velocity, at, velocity))
    return replace(
        body,
        lattice=lattice,
        state=state,
        free_node_count=body.free_node_count - possible,
        refused=body.refused + ~possible,
    ), jnp.where(possible, node, -1)


@partial(jax.jit, donate_argnums=0)
def add_spring(
    body: Editable,
    first: ArrayLike,
    second: ArrayLike,
    stiffness: ArrayLike,
    rest_length: ArrayLike | None = None,
    *,
    damping: ArrayLike = 0.0,
    yield_force: ArrayLike = np.inf,
    amplitude: ArrayLike = 0.0,
    delay: ArrayLike = 0.0,
) -> tuple[Editable, Array]:
    """One spring more between two nodes, and its slot, or -1.

    stiffness: [N/m]; rest_length: [m], as far as the nodes are apart now if not given; damping: [N s/m]; yield_force:
    [N]; amplitude and delay [s] of its wave. The last four count only if the lattice has such springs at all.

    Refused if there is no slot or no room at one of the nodes, if a node does not exist, or both are the same.
    """
    springs, state, lattice = body.springs, body.state, body.lattice
    ends = jnp.stack([jnp.asarray(first, jnp.int32), jnp.asarray(second, jnp.int32)])
    exist = (ends >= 0) & (ends < lattice.mass.size) & (lattice.mass[ends] > 0)
    roomy = body.degree[ends] < springs.incidence.shape[1]
    possible = (body.free_spring_count > 0) & (ends[0] != ends[1]) & exist.all() & roomy.all()
    spring = body.free_springs[body.free_spring_count - 1]
    at = jnp.where(possible, spring, springs.stiffness.size)
    node = jnp.where(possible, ends, lattice.mass.size)
    apart = state.position[ends[1]] - state.position[ends[0]]
    length = jnp.sqrt((apart**2).sum()) if rest_length is None else rest_length
    places = body.degree[ends]
    springs = _written(springs, at, ends, (stiffness, length, damping, yield_force, amplitude, delay))
    springs = replace(
        springs, incidence=springs.incidence.at[node, places].set(2 * spring + jnp.arange(2), mode="drop")
    )
    return replace(
        body,
        lattice=replace(lattice, springs=springs),
        state=state if state.intact is None else replace(state, intact=_set(state.intact, at, True)),
        degree=body.degree.at[node].add(1, mode="drop"),
        place=_set(body.place, at, places),
        free_spring_count=body.free_spring_count - possible,
        refused=body.refused + ~possible,
    ), jnp.where(possible, spring, -1)


@partial(jax.jit, donate_argnums=0)
def remove_spring(body: Editable, spring: ArrayLike) -> Editable:
    """Without one spring; refused if its slot is free already. -1 stands for none."""
    return _without_spring(body, jnp.asarray(spring, jnp.int32))


@partial(jax.jit, donate_argnums=0)
def remove_springs(body: Editable, springs: ArrayLike) -> Editable:
    """Without several springs, (number,), one after the other; -1 stands for none, so that the number can stay."""
    slots = jnp.asarray(springs, jnp.int32)
    return jax.lax.fori_loop(0, slots.size, lambda i, now: _without_spring(now, slots[i]), body)


@partial(jax.jit, donate_argnums=0)
def remove_node(body: Editable, node: ArrayLike) -> Editable:
    """Without one node and all springs at it; refused if its slot is free already. -1 stands for none."""
    node = jnp.asarray(node, jnp.int32)
    possible = (node >= 0) & (node < body.lattice.mass.size) & (body.lattice.mass[node] > 0)

    def springs_left(now: Editable) -> Array:
        return now.degree[node] > 0

    def without_last(now: Editable) -> Editable:
        return _without_spring(now, now.springs.incidence[node, now.degree[node] - 1] // 2)

    def without(body: Editable) -> Editable:
        body = jax.lax.while_loop(springs_left, without_last, body)
        lattice = body.lattice
        return replace(
            body,
            lattice=replace(
                lattice, mass=_set(lattice.mass, node, 0), inverse_mass=_set(lattice.inverse_mass, node, 0)
            ),
            state=replace(body.state, velocity=_set(body.state.velocity, node, 0)),
            free_nodes=_set(body.free_nodes, body.free_node_count, node),
            free_node_count=body.free_node_count + 1,
        )

    return jax.lax.cond(possible, without, partial(_refuse, unless=node == -1), body)


def _refuse(body: Editable, *, unless: Array) -> Editable:
    return replace(body, refused=body.refused + ~unless)


def _without_spring(body: Editable, spring: Array) -> Editable:
    possible = (spring >= 0) & (spring < body.springs.stiffness.size) & (body.place[spring, 0] >= 0)
    ends = jnp.stack([body.springs.first[spring], body.springs.second[spring]])
    place, last = body.place[spring], body.degree[ends] - 1
    moved = body.springs.incidence[ends, last]

    def without(body: Editable) -> Editable:
        # The last of a node's row moves to where the spring stood, so that rows have no holes.
        incidence = body.springs.incidence.at[ends, place].set(moved).at[ends, last].set(-1)
        springs = replace(body.springs, incidence=incidence)
        state = body.state
        return replace(
            body,
            lattice=replace(
                body.lattice,
                springs=_written(springs, spring, jnp.zeros_like(ends), (0, 0, 0, np.inf, 0, 0)),
            ),
            state=state if state.intact is None else replace(state, intact=_set(state.intact, spring, True)),
            degree=body.degree.at[ends].set(last),
            place=_set(body.place.at[moved // 2, moved % 2].set(place), spring, -1),
            free_springs=_set(body.free_springs, body.free_spring_count, spring),
            free_spring_count=body.free_spring_count + 1,
        )

    # A branch, so that all is read before anything is written: the compiler would otherwise keep copies to read from.
    return jax.lax.cond(possible, without, partial(_refuse, unless=spring == -1), body)


def _written(springs: GraphSprings, at: Array, ends: Array, values: tuple[ArrayLike, ...]) -> GraphSprings:
    """All numbers of one spring, but its places at the nodes."""
    stiffness, rest_length, damping, yield_force, amplitude, delay = values
    wave = springs.wave
    if wave is not None:
        wave = replace(wave, amplitude=_set(wave.amplitude, at, amplitude), delay=_set(wave.delay, at, delay))
    return replace(
        springs,
        first=_set(springs.first, at, ends[0]),
        second=_set(springs.second, at, ends[1]),
        stiffness=_set(springs.stiffness, at, stiffness),
        rest_length=_set(springs.rest_length, at, rest_length),
        damping=None if springs.damping is None else _set(springs.damping, at, damping),
        yield_force=None if springs.yield_force is None else _set(springs.yield_force, at, yield_force),
        wave=wave,
    )


def _set(array, at: Array, value: ArrayLike) -> Array:
    """One row written; none if it lies beyond the end."""
    return array.at[at].set(jnp.asarray(value).astype(array.dtype), mode="drop")


def _room(name: str, wanted: int | None, needed: int) -> int:
    if wanted is not None and wanted < needed:
        raise ValueError(f"{name}: the lattice has {needed} already; room for {wanted} is too little")
    return needed if wanted is None else wanted


def _longer(array: Array, size: int, fill: float = 0) -> Array:
    # A copy even if nothing is added: edits overwrite their argument, and the caller may still need the array.
    rest = jnp.full((size - array.shape[0], *array.shape[1:]), fill, array.dtype)
    return jnp.concatenate([array, rest]) if len(rest) else jnp.array(array, copy=True)


def _longer_wave(wave: Wave | None, springs: int, size: int) -> Wave | None:
    if wave is None:
        return None

    def listed(value) -> Array:
        return _longer(jnp.broadcast_to(value, (springs,)), size)

    return Wave(listed(wave.amplitude), jnp.array(wave.angular_frequency), listed(wave.delay), jnp.array(wave.period))


def _unused(slots: np.ndarray, size: int) -> tuple[Array, Array]:
    """A stack with the lowest slot on top, and its height."""
    stack = np.zeros(size, np.int32)
    stack[: len(slots)] = slots[::-1]
    return jnp.asarray(stack), jnp.asarray(len(slots), jnp.int32)


def _padded_state(padded: Lattice, original: Lattice, state: State | None) -> State:
    start = rest_state(padded)
    if state is None:
        return jax.tree.map(lambda part: jnp.array(part, copy=True), start)
    nodes = original.mass.size
    intact = start.intact
    if intact is not None:
        if not isinstance(original.springs, GraphSprings):
            raise ValueError("a moving grid whose springs can break cannot be edited; use as_graph before it moves")
        intact = jnp.ones_like(intact).at[: state.intact.size].set(state.intact)  # pyright: ignore
    return State(
        position=start.position.at[:nodes].set(state.position.reshape(nodes, -1)),
        velocity=start.velocity.at[:nodes].set(state.velocity.reshape(nodes, -1)),
        time=jnp.array(state.time, copy=True),
        intact=intact,
    )
