"""A world that steps: robots, what surrounds them, and whatever else moves there. Pure arrays; `jit` and `vmap` it.

A world of one robot on its ground is moved by the robot's engine alone, on a GPU by its kernel. Where other things move
too, everything takes one substep at a time and exchanges impulses (vsr.physics.coupled).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from vsr.body import MASSES
from vsr.compute.implementation import Implementation
from vsr.environment import Environment
from vsr.environment.model import as_exact
from vsr.physics.coupled import advance_coupled, met, own_ground
from vsr.physics.engine import engine_of
from vsr.physics.failure import Failure, gravest
from vsr.physics.objects import ObjectMotion
from vsr.physics.telemetry import Telemetry, through_intervals
from vsr.terrain import Blocks
from vsr.terrain.seeing import is_inside


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class WorldModel:
    """What stays as it is while a world moves."""

    robots: tuple[Any, ...]
    """models, each of some engine"""
    environment: Environment
    """gravity, ground, fixed obstacles"""
    occupants: dict[str, Any] = field(default_factory=dict)
    """what else moves, by name (vsr.physics.coupled.Occupant): objects, grains, fluid"""

    @property
    def is_coupled(self) -> bool:
        """Whether robots share the world with something that moves."""
        return len(self.robots) > 1 or bool(self.occupants)

    @property
    def cover(self) -> float:
        """How high loose things lie over the ground [m]: robots are put down on them."""
        return max((occupant.cover for occupant in self.occupants.values()), default=0.0)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class WorldState:
    """A world at a moment."""

    robots: tuple[Any, ...]
    """states, in the order of the models"""
    occupants: dict[str, Any]
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
    present = met(world.robots, robots)
    others = {name: occupant.rest_state(present) for name, occupant in world.occupants.items()}
    return WorldState(robots, others, jnp.zeros((), world.robots[0].mass.dtype), key)


def prepared(world: WorldModel, substep: float, implementation: Implementation = "auto") -> WorldModel:
    """The same world, with all that `advance` would else make of it in every call: for many calls with one world."""
    ground = own_ground(world.environment)
    robots = [engine_of(model).prepared(model, ground, substep, implementation) for model in world.robots]
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
        if isinstance(world.environment.terrain, Blocks):
            raise ValueError("blocks of ground are felt by contact: give the world the occupant 'objects' (Objects())")
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
            world.occupants,
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
    (robots, others, given), seen = through_intervals(interval, (state.robots, state.occupants, nothing), controls)
    return replace(state, robots=robots, occupants=others, time=later, given=given), seen


def touched(world: WorldModel, others: dict[str, Any], robot: int = 0) -> Array | None:
    """1 for voxels of a robot that occupants touch, else 0, *cells; None if no occupant says so.

    others: states of all occupants, by name.
    """
    said = [
        occupant.touched(others[name])[robot]
        for name, occupant in world.occupants.items()
        if hasattr(occupant, "touched")
    ]
    return reduce(jnp.maximum, said) if said else None


def motion_of(world: WorldModel, state: WorldState, name: str) -> ObjectMotion:
    """How the object of a name moves, rigid or soft; raises KeyError if there is none of that name.

    Objects are those of `World.objects`; in arrays they are the occupant "objects".
    """
    objects = world.occupants.get("objects")
    known = () if objects is None else objects.names
    if objects is None or name not in known:
        raise KeyError(f"no object '{name}' in this world; there are: {', '.join(known) or 'none'}")
    return objects.motion_of(state.occupants["objects"], name)


def buried(world: WorldModel, state: WorldState) -> Array:
    """Whether the middle of a robot's voxel is inside the ground: the failure, else 0 (vsr.physics.failure), ()."""
    terrain = world.environment.terrain
    if terrain is None:
        return jnp.zeros((), jnp.int32)
    found = []
    for model, robot in zip(world.robots, state.robots, strict=True):
        if MASSES[model.engine].has_things:  # its ground is its engine's own
            continue
        engine = engine_of(model)
        place = engine.vertices(model, robot).position
        middle = place.reshape(-1, place.shape[-1])[engine.vertex_places(model)].mean(0)
        ground = as_exact(Environment(terrain=terrain), place.dtype).terrain
        assert ground is not None
        inside = is_inside(ground, middle)
        found.append(jnp.where((inside & (model.present > 0)).any(), int(Failure.buried), 0))
    return gravest(jnp.stack(found)).astype(jnp.int32) if found else jnp.zeros((), jnp.int32)


def failure(world: WorldModel, state: WorldState) -> Array:
    """What befell anything in the world, 0 if nothing did (vsr.physics.failure), ()."""
    robots = [
        gravest(engine_of(model).failure(model, robot)) for model, robot in zip(world.robots, state.robots, strict=True)
    ]
    others = [occupant.failure(state.occupants[name]) for name, occupant in world.occupants.items()]
    return gravest(jnp.stack([*robots, *others]))
