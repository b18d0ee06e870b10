"""Things that robots touch, as something that moves in a world with robots (vsr.physics.coupled.Occupant).

It knows rigid bodies, soft bodies made of voxels and further robots (companions), and it lets all of them touch each
other, the ground and the robots. Companions move by their engine, as robots do.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.vector import join, split
from vsr.environment import Environment
from vsr.physics.collision.convex import place as place_shapes
from vsr.physics.collision.lattices import Lattice, joined, lattice_of, nodes_of, pushed_by
from vsr.physics.collision.meetings import bodies_meet, bodies_on_ground, corners_in_voxels, nodes_in_bodies
from vsr.physics.collision.sides import Nodes, Speeds
from vsr.physics.collision.solver import Contact, Impulse, no_impulse, solve
from vsr.physics.contract import Engine, Met
from vsr.physics.failure import gravest
from vsr.physics.objects.solids import Solids, SolidState, moved
from vsr.physics.telemetry import failure_of

ITERATIONS = 4
"""Passes over all contacts in a substep."""


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
            impulses={name: no_impulse(shape, dimension, dtype) for name, shape in shapes.items()},
            pressed=tuple(jnp.zeros(lattice.at_surface.shape, bool) for lattice in lattices[: len(robots)]),
            lattices=lattices,
        )

    def step(
        self, environment: Environment, state: ObjectState, robots: tuple[Met, ...], duration: float
    ) -> tuple[ObjectState, tuple[Met, ...]]:
        everyone = robots + self._companions_moved(environment, state, duration)
        nodes, velocity = nodes_of(everyone)
        lattice = joined(state.lattices)
        still = tuple(jnp.zeros_like(part) for part in velocity)
        now = Speeds(velocity, still, (), ())
        solids, contacts = state.solids, {}
        if self.solids is not None and solids is not None:
            solids = self._fallen(solids, environment, duration)
            now = now._replace(bodies=split(solids.velocity, 1), spin=split(solids.spin, 1))
            contacts = _solid_contacts(self.solids, solids, environment, nodes, lattice)
        start = tuple(state.impulses[name] for name in contacts)
        after, found = solve(now, tuple(contacts.values()), start, ITERATIONS)
        if solids is not None:
            solids = replace(solids, velocity=join(after.bodies, 1), spin=join(after.spin, 1))
            solids = moved(solids, duration)
        everyone = pushed_by(everyone, after.given)
        later = ObjectState(
            solids=solids,
            companions=tuple(one.state for one in everyone[len(robots) :]),
            time=state.time + duration,
            impulses={**state.impulses, **dict(zip(contacts, found, strict=True))},
            pressed=_pressed(after, state.pressed),
            lattices=state.lattices,
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
        corner = jnp.stack([part[number] for part in placed.corner], -1)
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

    def _fallen(self, solids: SolidState, environment: Environment, duration: float) -> SolidState:
        """Rigid bodies after a step [s] of gravity."""
        assert self.solids is not None
        weight = jnp.where(jnp.asarray(self.solids.fixed), 0, duration * environment.gravity)
        return replace(solids, velocity=solids.velocity.at[:, -1].add(-weight))


def _slots(solids: Solids, vertices: int) -> dict[str, tuple[int, ...]]:
    """How many contacts each group has."""
    corners = solids.shapes.corner.shape[1]
    rounds, fixed = solids.shapes.round, solids.fixed
    count = len(rounds)
    pairs = [(a, b) for a in range(count) for b in range(a + 1, count) if not (fixed[a] and fixed[b])]
    flat = sum(not (rounds[a] or rounds[b]) for a, b in pairs)
    return {
        "ground": (len(solids.free) * corners,),
        "flat pairs": (2 * flat,),
        "round pairs": (len(pairs) - flat,),
        "corners": (len(solids.flat) * corners,),
        "vertices": (count, vertices),
    }


def _solid_contacts(
    solids: Solids, state: SolidState, environment: Environment, nodes: Nodes, lattice: Lattice
) -> dict[str, Contact]:
    """Of rigid bodies with everything, by group."""
    bodies, shapes = solids.bodies(state), solids.shapes
    placed = place_shapes(shapes, state.position, state.rotation)
    found = {}
    if environment.terrain is not None and len(solids.free):
        found["ground"] = bodies_on_ground(bodies, placed, environment, solids.free, shapes.round)
    found |= bodies_meet(bodies, placed, shapes.round, solids.fixed)
    if len(solids.flat):
        found["corners"] = corners_in_voxels(nodes, lattice, bodies, placed, solids.flat)
    counts = lattice.at_surface & nodes.exists
    found["vertices"] = nodes_in_bodies(nodes, counts, bodies, placed, shapes.round)
    return found


def _pressed(after: Speeds, like: tuple[Array, ...]) -> tuple[Array, ...]:
    """Vertices of each robot that got an impulse."""
    any_push = jnp.stack([jnp.abs(part) for part in after.given]).sum(0) > 0
    bounds = np.cumsum([0, *(part.shape[0] for part in like)])
    return tuple(any_push[a:b] for a, b in pairwise(bounds))


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
