"""A world that steps: robots, what surrounds them, and whatever else moves there. Pure arrays; `jit` and `vmap` it.

A world of one robot on its ground is moved by the robot's engine alone, on a GPU by its kernel. Where others move
too, everything takes one substep at a time and exchanges impulses (vsr.world.coupling).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from vsr.compute.implementation import Implementation
from vsr.environment import Environment
from vsr.environment.model import as_exact
from vsr.environment.surfaces import SLOP, ground
from vsr.physics.contact.overlap import depth_in_blocks, depth_in_bodies, depth_in_voxels
from vsr.physics.contact.system import Objects
from vsr.physics.contact.voxel_bodies import ObjectMotion, soft_motion
from vsr.physics.contact.voxels import points_in_blocks
from vsr.physics.contract import ContactBody
from vsr.physics.engine import engine_of
from vsr.physics.failure import Failure, most_severe
from vsr.physics.telemetry import EXPLOSION_SPEED, SHARE_OF_SIDE, Telemetry, fastest_speed, through_intervals
from vsr.world.coupling import advance_coupled, contact_bodies, own_ground

DEEPEST = SHARE_OF_SIDE
"""How deep parts of a robot may be in the ground while it moves, in sides of voxels: as far as the fastest part gets in
a substep; then the ground puts it back."""
SHALLOW = 0.02
"""How deep voxels may begin in objects, in sides of voxels: contact undoes 6 cm, of sides of 3 m, with 1.1 m/s."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class WorldModel:
    """What stays as it is while a world moves."""

    robots: tuple[Any, ...]
    """models, each of some engine"""
    environment: Environment
    """gravity, ground, fixed obstacles"""
    systems: dict[str, Any] = field(default_factory=dict)
    """what else moves, by name (vsr.world.coupling.System): objects, grains, fluid"""

    @property
    def is_coupled(self) -> bool:
        """Whether robots share the world with something that moves."""
        return len(self.robots) > 1 or bool(self.systems)

    @property
    def cover(self) -> float:
        """How high loose objects lie over the ground [m]: robots are put down on them."""
        return max((system.cover for system in self.systems.values()), default=0.0)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class WorldState:
    """A world at a moment."""

    robots: tuple[Any, ...]
    """states, in the order of the models"""
    systems: dict[str, Any]
    """states by name"""
    time: Array
    """[s], ()"""
    key: Array
    """of whatever is random"""
    given: Array | None = None
    """energy that others gave each robot during the last `advance` [J], (robots,); None if it is not counted
    (vsr.physics.energy_monitor)"""


def world_state(world: WorldModel, robots: tuple[Any, ...], key: Array) -> WorldState:
    """The first moment, with robots in given states."""
    present = contact_bodies(world.robots, robots)
    others = {name: system.rest_state(present) for name, system in world.systems.items()}
    return WorldState(robots, others, jnp.zeros((), world.robots[0].mass.dtype), key)


def prepared(world: WorldModel, substep: float, implementation: Implementation = "auto") -> WorldModel:
    """The same world, with all that `advance` would else make of it in every call: for many calls with one world."""
    ground = own_ground(world.environment)
    robots = [engine_of(model).kernel.prepared(model, ground, substep, implementation) for model in world.robots]
    return replace(world, robots=tuple(robots))


def advance(
    world: WorldModel,
    state: WorldState,
    controls: tuple[Array, ...],
    *,
    substep: float,
    count: int,
    implementation: Implementation = "auto",
) -> tuple[WorldState, tuple[Telemetry, ...]]:
    """The world after several intervals of `count` substeps [s] each, and what was seen of each robot at their ends.

    controls: for every robot one value per interval and voxel, (intervals, *cells). Raises ValueError for an
    implementation that cannot move such a world.
    """
    intervals = controls[0].shape[0]
    later = state.time + intervals * count * substep
    if not world.is_coupled:
        terrain = world.environment.terrain
        if terrain is not None and terrain.blocks is not None:
            raise ValueError("blocks of ground are felt by contact: give the world the system 'objects' (Objects())")
        (model,), (robot,), (control,) = world.robots, state.robots, controls
        robot, seen = engine_of(model).advance(
            model, world.environment, robot, control, substep=substep, count=count, implementation=implementation
        )
        return replace(state, robots=(robot,), time=later), (seen,)
    if implementation in ("fused", "differentiable"):
        raise ValueError(f"'{implementation}' cannot run: it moves one robot on its ground; use 'auto' or 'xla'")

    def interval(now: tuple[Any, Any, Any], control: Any) -> Any:
        robots, others, given = now
        robots, others, seen, given = advance_coupled(
            world.robots,
            world.environment,
            world.systems,
            robots,
            others,
            control,
            substep=substep,
            count=count,
            implementation=implementation,
            given=given,
        )
        return (robots, others, given), seen

    nothing = None if state.given is None else jnp.zeros_like(state.given)
    (robots, others, given), seen = through_intervals(interval, (state.robots, state.systems, nothing), controls)
    return replace(state, robots=robots, systems=others, time=later, given=given), seen


def touched(world: WorldModel, others: dict[str, Any], robot: int = 0) -> Array | None:
    """1 for voxels of a robot that systems touch, else 0, *cells; None if no system says so.

    others: states of all systems, by name.
    """
    said = [system.touched(others[name])[robot] for name, system in world.systems.items() if hasattr(system, "touched")]
    return reduce(jnp.maximum, said) if said else None


def motion_of(world: WorldModel, state: WorldState, name: str) -> ObjectMotion:
    """How the object of a name moves, rigid or soft; raises KeyError if there is none of that name.

    Objects are those of `World.objects`, in arrays the system "objects", and those of a robot's engine.
    """
    own = {
        one.name: ContactBody(robot.engine, one.model, one.state)
        for robot in contact_bodies(world.robots, state.robots)
        for one in robot.engine.own_bodies(robot.model, robot.state)
    }
    if name in own:
        return soft_motion(own[name])
    objects = world.systems.get("objects")
    known = () if objects is None else objects.names
    if objects is None or name not in known:
        raise KeyError(f"no object '{name}' in this world; there are: {', '.join((*known, *own)) or 'none'}")
    return objects.motion_of(state.systems["objects"], name)


def buried(world: WorldModel, state: WorldState) -> Array:
    """Whether a robot is inside the ground or an object: the failure, else 0 (vsr.physics.failure), ().

    In the ground counts the middle of a voxel. In blocks of ground, in objects and in other robots a voxel counts that
    is deeper than SHALLOW: contact would throw it out.
    """
    found = [jnp.zeros((), bool)]
    robots = contact_bodies(world.robots, state.robots)
    for number, robot in enumerate(robots):
        if robot.engine.own_contact:  # ground and objects are its engine's own
            continue
        depth = _depth_in_others(world, state, robot, robots[number + 1 :])
        found += [_in_ground(world, robot), *(part > SHALLOW * robot.model.voxel_side for part in depth)]
    return jnp.where(jnp.stack(found).any(), int(Failure.buried), 0).astype(jnp.int32)


def _in_ground(world: WorldModel, robot: ContactBody) -> Array:
    """Whether the middle of a voxel is in the ground, ()."""
    if world.environment.terrain is None:
        return jnp.zeros((), bool)
    place = robot.vertices.position
    middle = place.reshape(-1, place.shape[-1])[robot.engine.vertex_indices(robot.model)].mean(0)
    return (_ground(world, place.dtype).is_inside(middle) & (robot.model.present > 0)).any()


def _depth_in_others(
    world: WorldModel, state: WorldState, robot: ContactBody, others: tuple[ContactBody, ...]
) -> list[Array]:
    """How deep a robot is in blocks of ground, in rigid and soft objects and in other robots, each at most [m], ()."""
    found = [depth_in_voxels(robot, other) for other in others]
    terrain = _ground(world, robot.model.mass.dtype)
    if terrain is not None and terrain.blocks is not None:
        found.append(depth_in_blocks(robot, terrain.blocks))
    objects = world.systems.get("objects")
    if isinstance(objects, Objects):
        now = state.systems["objects"]
        if objects.solids is not None:
            found.append(depth_in_bodies(robot, objects.solids, now.solids))
        found += [
            depth_in_voxels(robot, one.contact_body(soft))
            for one, soft in zip(objects.voxel_bodies, now.voxel_bodies, strict=True)
        ]
    return found


def _ground(world: WorldModel, dtype: jnp.dtype) -> Any:
    """The terrain with numbers of a type."""
    return as_exact(Environment(terrain=world.environment.terrain), dtype).terrain


def pierced(world: WorldModel, state: WorldState) -> Array:
    """Whether a part of a robot is deeper in the ground than steps explain: the failure, else 0, ().

    Parts are those that the ground holds up: corners of square masses, or points. Deep is more than DEEPEST and SLOP.
    """
    if world.environment.terrain is None:
        return jnp.zeros((), jnp.int32)
    found = [jnp.zeros((), bool)]
    for robot in contact_bodies(world.robots, state.robots):
        if not robot.engine.own_contact:
            place, held = robot.engine.ground_points(robot.model, robot.state)
            deep = _depth_in_ground(world, place) > DEEPEST * robot.model.voxel_side + SLOP
            found.append((deep & held).any())
    return jnp.where(jnp.stack(found).any(), int(Failure.pierced), 0).astype(jnp.int32)


def _depth_in_ground(world: WorldModel, position: Array) -> Array:
    """Of points below the nearest surface of the ground, negative above it [m], (...); position: (..., dimension)."""
    terrain, place = _ground(world, position.dtype), jnp.moveaxis(position, -1, 0)
    depth = -ground(terrain, tuple(place)).height
    if terrain.blocks is None:
        return depth
    found = points_in_blocks(terrain.blocks, place.reshape(place.shape[0], -1))
    return jnp.maximum(depth, jnp.where(found.is_inside, found.depth, 0).reshape(depth.shape))


def failure(world: WorldModel, state: WorldState, substep: float | None = None) -> Array:
    """What befell anything in the world, 0 if nothing did (vsr.physics.failure), ().

    substep: by which it is judged what is too fast [s]; if absent, only EXPLOSION_SPEED is.
    """
    fastest: Array | float = EXPLOSION_SPEED
    if substep is not None:
        sides = jnp.stack([jnp.asarray(model.voxel_side) for model in world.robots])
        fastest = fastest_speed(sides.min(), substep)
    found = [
        most_severe(robot.engine.failure(robot.model, robot.state, fastest))
        for robot in contact_bodies(world.robots, state.robots)
    ]
    for name, system in world.systems.items():
        limit = {"fastest": fastest} if isinstance(system, Objects) else {}  # grains have substeps of their own
        found.append(system.failure(state.systems[name], **limit))
    return most_severe(jnp.stack(found))
