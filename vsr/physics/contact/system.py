"""Objects that robots touch, as a system of a world with robots (vsr.world.coupling.System).

It knows rigid bodies, and bodies made of voxels : soft objects and further robots. It lets all of them touch
each other, the ground and the robots, and robots themselves if they are asked to.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.implementation import KERNELS, Implementation, chosen
from vsr.compute.xla import batch_last
from vsr.environment.model import Environment, as_exact
from vsr.physics.contact.broadphase import CORNER_CAPACITY, capacity_for, list_pairs, may_touch, no_pairs
from vsr.physics.contact.contact_step import Lists, Resolve, resolving, slots
from vsr.physics.contact.convex import place
from vsr.physics.contact.lattices import Lattice, joined, lattice_of, nodes_of
from vsr.physics.contact.solids import Solids, SolidState
from vsr.physics.contact.solver import Impulse
from vsr.physics.contact.voxel_bodies import ObjectMotion, VoxelBody, soft_motion
from vsr.physics.contact.voxels import ground_corners
from vsr.physics.contract import ContactBody
from vsr.physics.failure import Failure, most_severe
from vsr.physics.telemetry import EXPLOSION_SPEED, failure_of

STRIDE = 3
"""Substeps of robots from one contact step to the next: springs need short substeps, contacts do not."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ObjectState:
    """All that moves of objects."""

    solids: SolidState | None
    """None if there are none"""
    voxel_bodies: tuple[Any, ...]
    """states, each of some engine"""
    time: Array
    """[s], ()"""
    impulses: dict[str, Impulse]
    """of the last step's contacts, by list"""
    given: Array
    """impulses that vertices of robots and companions got in the last step [N s], (dimension, p)"""
    vertices: Array
    """where these vertices were after it [m], (dimension, p)"""
    lattices: tuple[Lattice, ...]
    """of robots and companions, which do not change"""
    lattice: Lattice
    """all of them as one"""
    candidates: Lists
    """what may touch voxels"""


class ObjectsSeen(NamedTuple):
    """What a recording keeps."""

    position: Array | None
    """of rigid bodies [m], (s, dimension); None if there are none"""
    rotation: Array | None
    """(s, dimension, dimension)"""
    voxel_bodies: tuple[Any, ...]
    """states"""
    touched: tuple[Array, ...]
    """of each robot, 1 for voxels that something touches, else 0, *cells"""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Objects:
    """What stays as it is."""

    solids: Solids | None = None
    voxel_bodies: tuple[VoxelBody, ...] = ()
    self_contact: bool = field(default=False, metadata={"static": True})
    """whether robots touch themselves"""
    ground_corners: bool = field(default=False, metadata={"static": True})
    """whether convex corners of the ground touch the sides of voxels (in 2-D)"""
    capacity: int | None = field(default=None, metadata={"static": True})
    """for vertices near voxels; if None, enough unless a body is crumpled up"""
    stride: int = field(default=STRIDE, metadata={"static": True})
    """substeps of robots from one contact step to the next, at most"""
    implementation: Implementation = field(default="auto", metadata={"static": True})
    """of contacts"""
    cover: ClassVar[float] = 0.0
    contact_at_vertices: ClassVar[bool] = True

    def rest_state(self, robots: tuple[ContactBody, ...] = ()) -> ObjectState:
        states = tuple(companion.start for companion in self.voxel_bodies)
        lattices = tuple(map(lattice_of, robots + self._contact_bodies(states)))
        dtype, dimension = robots[0].model.mass.dtype, robots[0].model.present.ndim
        vertices = sum(lattice.at_surface.size for lattice in lattices)
        shapes = {} if self.solids is None else slots(self.solids, vertices)
        touches = may_touch(lattices, self.self_contact) is not None
        if touches:
            shapes["voxels"] = (vertices,)
        return ObjectState(
            solids=None if self.solids is None else self.solids.rest_state(),
            voxel_bodies=states,
            time=jnp.zeros((), dtype),
            impulses={
                name: Impulse(jnp.zeros(shape, dtype), jnp.zeros((dimension, *shape), dtype))
                for name, shape in shapes.items()
            },
            given=jnp.zeros((dimension, vertices), dtype),
            vertices=nodes_of(robots + self._contact_bodies(states))[0].position,
            lattices=lattices,
            lattice=joined(lattices),
            candidates=Lists(
                no_pairs(self.capacity or capacity_for(lattices)) if touches else None,
                no_pairs(CORNER_CAPACITY) if self.ground_corners else None,
            ),
        )

    def listed(self, environment: Environment, state: ObjectState, robots: tuple[ContactBody, ...]) -> ObjectState:
        """With lists of what is near made anew: once in several steps (vsr.world.coupling)."""
        candidates, lattice = state.candidates, state.lattice
        if candidates.vertices is None and candidates.corners is None:
            return state
        nodes, _ = nodes_of(robots + self._contact_bodies(state.voxel_bodies))
        allowed = may_touch(state.lattices, self.self_contact)
        # The kernel finds vertices near voxels itself.
        if candidates.vertices is not None and allowed is not None and not self.launches(environment, state):
            surface = lattice.at_surface & nodes.exists
            pairs = _list_anew(
                nodes.position, surface, nodes.position, lattice, jnp.asarray(allowed), candidates.vertices
            )
            candidates = candidates._replace(vertices=pairs)
        terrain = as_exact(Environment(terrain=environment.terrain), nodes.position.dtype).terrain
        corners = ground_corners(terrain, nodes.position.shape[0])
        if candidates.corners is not None and corners is not None:
            candidates = candidates._replace(
                corners=_list_anew(*corners, nodes.position, lattice, None, candidates.corners)
            )
        return replace(state, candidates=candidates)

    def step(
        self, environment: Environment, state: ObjectState, robots: tuple[ContactBody, ...], duration: float
    ) -> tuple[ObjectState, tuple[ContactBody, ...]]:
        moved = tuple(
            one.moved(environment, now, state.time, duration, self.stride)
            for one, now in zip(self.voxel_bodies, state.voxel_bodies, strict=True)
        )
        around = as_exact(Environment(environment.gravity, environment.terrain), state.given.dtype)
        resolve = self._resolving(around, state, duration)
        solids, impulses, candidates, given, vertices, everyone = resolve(
            self.solids,
            around,
            state.solids,
            state.impulses,
            state.candidates,
            state.lattice,
            robots + moved,
            state.vertices,
        )
        later = replace(
            state,
            solids=solids,
            voxel_bodies=tuple(one.state for one in everyone[len(robots) :]),
            time=state.time + duration,
            impulses=impulses,
            given=given,
            vertices=vertices,
            candidates=candidates,
        )
        return later, everyone[: len(robots)]

    def _resolving(self, around: Environment, state: ObjectState, duration: float) -> Resolve:
        """All contacts of a step: by the kernel where it can run, else in plain JAX."""
        if not self.launches(around, state):
            return resolving(duration)
        from vsr.physics.contact.gpu.launch import launching

        allowed = may_touch(state.lattices, self.self_contact)
        return launching(duration, allowed, chosen(self.implementation, state.given.dtype) == "interpreted")

    def launches(self, environment: Environment, state: ObjectState) -> bool:
        """Whether its steps are launches of the kernel of contacts."""
        if chosen(self.implementation, state.given.dtype) not in KERNELS:
            return False
        from vsr.physics.contact.gpu.launch import can_launch

        return can_launch(self.solids, environment, state.candidates, state.given.shape[1])

    @property
    def names(self) -> tuple[str, ...]:
        """Of all objects, the rigid ones first."""
        rigid = () if self.solids is None else self.solids.names
        return rigid + tuple(one.name for one in self.voxel_bodies)

    def motion_of(self, state: ObjectState, name: str) -> ObjectMotion:
        """How the object of a name moves."""
        number = self.names.index(name)
        if self.solids is None or state.solids is None or number >= self.solids.count:
            rigid = 0 if self.solids is None else self.solids.count
            return soft_motion(self._contact_bodies(state.voxel_bodies)[number - rigid])
        solids = state.solids
        corner = place(self.solids.shapes, solids.position, solids.rotation).corner[:, number].T
        return ObjectMotion(
            solids.position[number],
            solids.velocity[number],
            solids.rotation[number],
            solids.spin[number],
            corner,
            jnp.ones(corner.shape[0], bool),
        )

    def failure(self, state: ObjectState, fastest: Array | float = EXPLOSION_SPEED) -> Array:
        found = [
            most_severe(one.engine.failure(one.model, one.state, fastest))
            for one in self._contact_bodies(state.voxel_bodies)
        ]
        if state.solids is not None:
            solids = state.solids
            whereabouts = solids.position.sum(-1), solids.spin.sum(-1)
            found.append(failure_of(whereabouts, solids.velocity, fastest=fastest).max())
        found += [
            jnp.where(pairs.overflow > 0, int(Failure.contact_overflow), 0)
            for pairs in state.candidates
            if pairs is not None
        ]
        return most_severe(jnp.stack(found)) if found else jnp.zeros((), jnp.int32)

    def touched(self, state: ObjectState) -> tuple[Array, ...]:
        """Of each robot, 1 for voxels that something touches, else 0, *cells."""
        sizes = [lattice.at_surface.size for lattice in state.lattices]
        parts = jnp.split((state.given != 0).any(0), np.cumsum(sizes)[:-1])
        robots = len(sizes) - len(self.voxel_bodies)
        return tuple(map(partial(_cells, dtype=state.time.dtype), parts[:robots], state.lattices))

    def seen(self, state: ObjectState) -> ObjectsSeen:
        solids = state.solids
        return ObjectsSeen(
            None if solids is None else solids.position,
            None if solids is None else solids.rotation,
            state.voxel_bodies,
            self.touched(state),
        )

    def momentum(self, state: ObjectState) -> Array:
        """Linear momentum of all objects that move [kg m/s], (dimension,)."""
        parts = [one.engine.momentum(one.model, one.state) for one in self._contact_bodies(state.voxel_bodies)]
        if self.solids is not None and state.solids is not None:
            parts.append(self.solids.momentum(state.solids))
        return sum(parts[1:], parts[0])

    def _contact_bodies(self, states: tuple[Any, ...]) -> tuple[ContactBody, ...]:
        return tuple(one.contact_body(state) for one, state in zip(self.voxel_bodies, states, strict=True))


_list_anew = batch_last(list_pairs)


def _cells(pressed: Array, lattice: Lattice, dtype: jnp.dtype) -> Array:
    """1 for voxels of which a corner is pressed, else 0, *cells."""
    return (pressed[lattice.corner_vertices].any(0) & lattice.present).astype(dtype)
