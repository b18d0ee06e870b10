"""Things that robots touch, as something that moves in a world with robots (vsr.physics.coupled.Occupant).

It knows rigid bodies, soft bodies made of voxels and further robots (companions), and it lets all of them touch each
other, the ground and the robots. Companions move by their engine, as robots do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.batch_last import batch_last
from vsr.compute.materialize import materialize
from vsr.environment.model import Environment, as_exact
from vsr.physics.collision.convex import place as place_shapes
from vsr.physics.collision.lattices import Lattice, joined, lattice_of, nodes_of, pushed_by
from vsr.physics.collision.meetings import (
    bodies_meet,
    bodies_on_ground,
    corners_in_voxels,
    moving_pairs,
    together,
    vertices_in_bodies,
    vertices_in_voxels,
)
from vsr.physics.collision.near import NearPairs, list_pairs, may_touch, no_pairs, places_for
from vsr.physics.collision.rows import beside, widened
from vsr.physics.collision.sides import Nodes, Speeds
from vsr.physics.collision.solver import Contact, Impulse, no_impulse, solve
from vsr.physics.contract import Engine, Met
from vsr.physics.failure import Failure, gravest
from vsr.physics.objects.solids import Solids, SolidState, moved
from vsr.physics.telemetry import failure_of

ITERATIONS = 4
"""Passes over all contacts with rigid bodies in a step."""
ITERATIONS_OF_VOXELS = 2
"""Passes over contacts of voxels with voxels, where nothing is stacked."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Companion:
    """A soft thing, or another robot."""

    model: Any
    start: Any
    """its first state"""
    controller: Any | None
    """that reads no senses; None for what is passive"""
    name: str = field(metadata={"static": True})
    engine: Engine = field(metadata={"static": True})
    interval: float = field(default=1.0, metadata={"static": True})
    """from one control call to the next [s]"""

    def control(self, time: Array) -> Array:
        """Control values in force at a time [s], *cells; 0 before the first call."""
        model = self.model
        if self.controller is None:
            return jnp.zeros_like(model.present)
        call = jnp.floor(time / self.interval + 1e-4)
        values = jnp.clip(self.controller.control(call * self.interval, None), -1, 1) * model.present
        return jnp.where(call > 0, values, 0)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ObjectState:
    """All that moves of objects."""

    solids: SolidState | None
    """None if there are none"""
    companions: tuple[Any, ...]
    """states, each of some engine"""
    time: Array
    """[s], ()"""
    impulses: dict[str, Impulse]
    """of the last step's contacts, by group"""
    pressed: tuple[Array, ...]
    """of each robot, True for vertices that something touches, (p,)"""
    lattices: tuple[Lattice, ...]
    """of robots and companions, which do not change"""
    lattice: Lattice
    """all of them as one"""
    pairs: NearPairs | None
    """vertices and voxels of robots that may touch; None if none do"""


class ObjectMotion(NamedTuple):
    """How one object moves as a whole."""

    position: Array
    """of its centre [m], (dimension,)"""
    velocity: Array
    """of its centre [m/s], (dimension,)"""
    rotation: Array
    """from its own axes to the world's; of a soft one the best fit to its deformed voxels, (dimension, dimension)"""
    spin: Array
    """[rad/s], (1,) in 2-D, (3,) in 3-D; of a soft one that of the rigid body with its angular momentum"""
    vertices: Array
    """its corners [m], those of voxels if it is soft, (v, dimension)"""
    exists: Array
    """False for places without a corner, (v,)"""

    @property
    def angle(self) -> Array:
        """By which it is turned, in 3-D from x to up [rad], from -pi to pi, ()."""
        return jnp.arctan2(self.rotation[-1, 0], self.rotation[0, 0])


class ObjectsSeen(NamedTuple):
    """What a recording keeps."""

    position: Array | None
    """of rigid bodies [m], (s, dimension); None if there are none"""
    rotation: Array | None
    """(s, dimension, dimension)"""
    companions: tuple[Any, ...]
    """states"""
    touched: tuple[Array, ...]
    """of each robot, 1 for voxels that something touches, else 0, (cells,)"""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Objects:
    """What stays as it is."""

    solids: Solids | None = None
    companions: tuple[Companion, ...] = ()
    self_contact: bool = field(default=False, metadata={"static": True})
    """whether robots touch themselves"""
    places: int | None = field(default=None, metadata={"static": True})
    """for vertices near voxels; if None, enough unless a body is crumpled up"""
    stride: ClassVar[int] = 1
    cover: ClassVar[float] = 0.0

    def rest_state(self, robots: tuple[Met, ...] = ()) -> ObjectState:
        solids = None if self.solids is None else self.solids.rest_state()
        states = tuple(companion.start for companion in self.companions)
        everyone = robots + self._met(states)
        lattices = tuple(map(lattice_of, everyone))
        dtype = robots[0].model.mass.dtype
        dimension = robots[0].model.present.ndim
        vertices = sum(lattice.at_surface.size for lattice in lattices)
        shapes = {} if self.solids is None else _slots(self.solids, vertices)
        return ObjectState(
            solids=solids,
            companions=states,
            time=jnp.zeros((), dtype),
            impulses={
                name: Impulse(jnp.zeros(shape, dtype), jnp.zeros((dimension, *shape), dtype))
                for name, shape in shapes.items()
            },
            pressed=tuple(jnp.zeros(lattice.at_surface.shape, bool) for lattice in lattices[: len(robots)]),
            lattices=lattices,
            lattice=joined(lattices),
            pairs=None if may_touch(lattices, self.self_contact) is None else no_pairs(self.places or places_for(lattices)),
        )

    def listed(self, state: ObjectState, robots: tuple[Met, ...]) -> ObjectState:
        """With lists made anew: once in several steps (vsr.physics.coupled)."""
        allowed = may_touch(state.lattices, self.self_contact)
        if allowed is None or state.pairs is None:
            return state
        nodes, _ = nodes_of(robots + self._met(state.companions))
        return replace(state, pairs=_list_anew(nodes, state.lattice, jnp.asarray(allowed), state.pairs))

    def step(
        self, environment: Environment, state: ObjectState, robots: tuple[Met, ...], duration: float
    ) -> tuple[ObjectState, tuple[Met, ...]]:
        everyone = robots + self._companions_moved(environment, state, duration)
        nodes, velocity = nodes_of(everyone)
        environment = as_exact(Environment(environment.gravity, environment.terrain), velocity.dtype)
        resolve = _batched(duration)
        solids, impulses, given = resolve(
            self.solids, environment, state.solids, state.impulses, state.pairs, state.lattice, nodes, velocity
        )
        everyone = pushed_by(everyone, given)
        later = replace(
            state,
            solids=solids,
            companions=tuple(one.state for one in everyone[len(robots) :]),
            time=state.time + duration,
            impulses=impulses,
            pressed=_pressed(given, state.pressed),
        )
        return later, everyone[: len(robots)]

    @property
    def names(self) -> tuple[str, ...]:
        """Of all things, the rigid ones first."""
        rigid = () if self.solids is None else self.solids.names
        return rigid + tuple(one.name for one in self.companions)

    def motion_of(self, state: ObjectState, name: str) -> ObjectMotion:
        """How the thing of a name moves."""
        number = self.names.index(name)
        if self.solids is None or state.solids is None or number >= self.solids.count:
            place = number - (0 if self.solids is None else self.solids.count)
            return soft_motion(self._met(state.companions)[place])
        solids = state.solids
        placed = place_shapes(self.solids.shapes, solids.position, solids.rotation)
        corner = placed.corner[:, number].T
        return ObjectMotion(
            solids.position[number],
            solids.velocity[number],
            solids.rotation[number],
            solids.spin[number],
            corner,
            jnp.ones(corner.shape[0], bool),
        )

    def failure(self, state: ObjectState) -> Array:
        found = [gravest(one.engine.failure(one.model, one.state)) for one in self._met(state.companions)]
        if state.solids is not None:
            solids = state.solids
            found.append(failure_of((solids.position.sum(-1), solids.spin.sum(-1)), solids.velocity).max())
        if state.pairs is not None:
            found.append(jnp.where(state.pairs.beyond > 0, int(Failure.crowded), 0))
        return gravest(jnp.stack(found)) if found else jnp.zeros((), jnp.int32)

    def touched(self, state: ObjectState) -> tuple[Array, ...]:
        """Of each robot, 1 for voxels that something touches, else 0, *cells."""
        pairs = zip(state.pressed, state.lattices, strict=False)
        return tuple(_cells(pressed, lattice) for pressed, lattice in pairs)

    def seen(self, state: ObjectState) -> ObjectsSeen:
        solids = state.solids
        return ObjectsSeen(
            None if solids is None else solids.position,
            None if solids is None else solids.rotation,
            state.companions,
            self.touched(state),
        )

    def _met(self, states: tuple[Any, ...]) -> tuple[Met, ...]:
        return tuple(Met(one.engine, one.model, state) for one, state in zip(self.companions, states, strict=True))

    def _companions_moved(self, environment: Environment, state: ObjectState, duration: float) -> tuple[Met, ...]:
        """Companions a step [s] later, before they touch anything but the ground."""
        after = []
        for one, now in zip(self.companions, state.companions, strict=True):
            control = one.control(state.time)[None]
            options: dict[str, Any] = {"substep": duration, "count": 1, "implementation": "xla"}
            moved_on, _ = one.engine.advance(one.model, environment, now, control, **options)
            after.append(Met(one.engine, one.model, moved_on))
        return tuple(after)


@lru_cache(maxsize=64)
def _batched(duration: float) -> Callable[..., Any]:
    """`_resolve` for steps of one duration [s], with its batching rule."""
    return batch_last(partial(_resolve, duration=duration))


_list_anew = batch_last(list_pairs)


def _resolve(
    solids: Solids | None,
    environment: Environment,
    state: SolidState | None,
    impulses: dict[str, Impulse],
    pairs: NearPairs | None,
    lattice: Lattice,
    nodes: Nodes,
    velocity: Array,
    *,
    duration: float,
) -> tuple[SolidState | None, dict[str, Impulse], Array]:
    """All contacts of a step [s]: rigid bodies after it, the impulses of contacts, and those that vertices got.

    Every array may have further axes at the end.
    """
    moving = nodes.position, velocity, state, impulses
    position, velocity, state, impulses = widened(moving, velocity.ndim - 2)
    nodes, velocity = materialize(velocity, (nodes._replace(position=position), velocity))
    state = None if state is None or solids is None else _fallen(solids, state, environment, duration)
    now, contacts = _speeds(velocity, state), {}
    if solids is not None and state is not None:
        contacts = _solid_contacts(solids, state, environment, nodes, lattice)
    contacts = materialize(velocity, contacts)
    after, found = solve(now, list(contacts.values()), [impulses[name] for name in contacts], ITERATIONS)
    if pairs is not None:  # seldom is anything near, and then nothing is computed
        near = partial(_among_voxels, nodes, lattice, pairs)
        after = jax.lax.cond(pairs.counts.any(), near, lambda now: now, after)
    if state is not None:
        turned = replace(state, velocity=jnp.swapaxes(after.bodies, 0, 1), spin=jnp.swapaxes(after.spin, 0, 1))
        state = moved(turned, duration)
    found = dict(zip(contacts, found, strict=True))
    return state, {name: found.get(name, kept) for name, kept in impulses.items()}, after.given


def _among_voxels(nodes: Nodes, lattice: Lattice, pairs: NearPairs, now: Speeds) -> Speeds:
    """After contacts of voxels with each other."""
    contact = materialize(now.nodes, vertices_in_voxels(nodes, lattice, pairs))
    return solve(now, [contact], [no_impulse(contact)], ITERATIONS_OF_VOXELS)[0]


def _fallen(solids: Solids, state: SolidState, environment: Environment, duration: float) -> SolidState:
    """Rigid bodies after a step [s] of gravity."""
    weight = beside(~np.array(solids.fixed, bool), state.velocity[:, 0], 1) * duration * environment.gravity
    return replace(state, velocity=state.velocity.at[:, -1].add(-weight))


def _speeds(velocity: Array, solids: SolidState | None) -> Speeds:
    """How everything moves before contacts; velocity: of the vertices of robots [m/s], (dimension, p)."""
    dimension = velocity.shape[0]
    still = jnp.zeros_like(velocity)
    if solids is None:
        return Speeds(velocity, still, velocity[:, :0], velocity[: 2 * dimension - 3, :0])
    return Speeds(velocity, still, jnp.swapaxes(solids.velocity, 0, 1), jnp.swapaxes(solids.spin, 0, 1))


def _slots(solids: Solids, vertices: int) -> dict[str, tuple[int, ...]]:
    """How many contacts each group has whose impulses are kept."""
    dimension, corners = solids.shapes.dimension, solids.shapes.corner.shape[1]
    flat, mixed = moving_pairs(solids.shapes.round, solids.fixed)
    places = 2 if dimension == 2 else 3 * solids.shapes.outline.shape[2] + 1
    return {
        "bodies": (len(solids.free) * corners + places * len(flat) + len(mixed),),
        "corners": (len(solids.flat) * corners,),
        "vertices": (solids.count, vertices),
    }


def _solid_contacts(
    solids: Solids, state: SolidState, environment: Environment, nodes: Nodes, lattice: Lattice
) -> dict[str, Contact]:
    """Of rigid bodies with everything, by group."""
    bodies, shapes = solids.bodies(state), solids.shapes
    placed = materialize(state.position, place_shapes(shapes, state.position, state.rotation))
    found, rigid = {}, []
    if len(solids.free):
        rigid.append(bodies_on_ground(nodes, bodies, placed, environment.terrain, solids.free, shapes.round))
    rigid += bodies_meet(nodes, bodies, placed, shapes.round, solids.fixed)
    if rigid:
        found["bodies"] = together(rigid)
    if len(solids.flat):
        found["corners"] = corners_in_voxels(nodes, lattice, bodies, placed, solids.flat)
    counts = lattice.at_surface & nodes.exists
    found["vertices"] = vertices_in_bodies(nodes, counts, bodies, placed, shapes.round)
    return found


def _pressed(given: Array, like: tuple[Array, ...]) -> tuple[Array, ...]:
    """Vertices of each robot that got an impulse; given: (dimension, p)."""
    any_push = (given != 0).any(0)
    bounds = np.cumsum([0, *(part.shape[0] for part in like)])
    return tuple(any_push[a:b] for a, b in zip(bounds[:-1], bounds[1:], strict=True))


def _cells(pressed: Array, lattice: Lattice) -> Array:
    """1 for voxels of which a corner is pressed, else 0, *cells."""
    return (pressed[lattice.places].any(0) & lattice.present).astype(jnp.float32)


def soft_motion(body: Met) -> ObjectMotion:
    """Of a body made of voxels: its vertices, all of them alike, as one thing."""
    vertices, rest = body.vertices, body._replace(state=body.engine.rest_state(body.model)).vertices
    dimension = vertices.position.shape[-1]
    exists = vertices.exists.reshape(-1)
    share = exists / jnp.maximum(exists.sum(), 1)

    def about_mean(values: Array) -> tuple[Array, Array]:
        flat = values.reshape(-1, dimension)
        mean = (share[:, None] * flat).sum(0)
        return mean, jnp.where(exists[:, None], flat - mean, 0)

    position, here = about_mean(vertices.position)
    velocity, pace = about_mean(vertices.velocity)
    _, home = about_mean(rest.position)
    turning = _moments(here, pace).sum(0)
    if dimension == 2:
        spin = turning / jnp.maximum((here**2).sum(), 1e-12)
        sine, cosine = _moments(home, here).sum(), (home * here).sum()
        size = jax.lax.rsqrt(jnp.maximum(sine**2 + cosine**2, 1e-20))
        sine, cosine = size * sine, size * cosine
        rotation = jnp.array([[cosine, -sine], [sine, cosine]])
    else:
        spread = (here**2).sum() * jnp.eye(3) - here.T @ here
        spin = jnp.linalg.solve(spread + 1e-9 * jnp.eye(3), turning)
        left, _, right = jnp.linalg.svd(here.T @ home)
        sign = jnp.sign(jnp.linalg.det(left @ right))
        rotation = (left * jnp.array([1.0, 1.0, 0.0]) + left * jnp.array([0.0, 0.0, 1.0]) * sign) @ right
    return ObjectMotion(position, velocity, rotation, spin, vertices.position.reshape(-1, dimension), exists)


def _moments(lever: Array, push: Array) -> Array:
    if lever.shape[-1] == 3:
        return jnp.cross(lever, push)
    return (lever[:, 0] * push[:, 1] - lever[:, 1] * push[:, 0])[:, None]
