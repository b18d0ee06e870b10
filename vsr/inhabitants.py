"""From descriptions to arrays: all things of a world that robots touch, and further robots in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import jax.numpy as jnp

from vsr.body import Body
from vsr.controllers import ControllerSpec
from vsr.objects import Object
from vsr.physics.engine import assemble_body, engine_of
from vsr.physics.objects import Companion, build_solids
from vsr.physics.objects.solids import Solids
from vsr.tasks import Placement, move_rigidly, place
from vsr.terrain import HeightField, Terrain

DType = jnp.dtype | type


class Described(Protocol):
    """What a description of a robot has."""

    @property
    def body(self) -> Body: ...
    @property
    def controller(self) -> ControllerSpec: ...


def rigid_things(objects: Sequence[Object], dimension: int, dtype: DType) -> Solids | None:
    """Those with a shape; None if there are none."""
    return build_solids(objects, dimension, dtype)


def soft_things(objects: Sequence[Object], dtype: DType) -> tuple[Companion, ...]:
    """Those made of voxels, at their places."""
    return tuple(_soft(one, one.body, dtype) for one in objects if one.body is not None)


def _soft(thing: Object, body: Body, dtype: DType) -> Companion:
    model = assemble_body(body, dtype=jnp.dtype(dtype))
    engine = engine_of(model)
    yaw = jnp.radians(thing.yaw) if thing.yaw else None
    state = move_rigidly(model, engine.rest_state(model), tilt=jnp.radians(thing.tilt), yaw=yaw)
    low, high = engine.bounding_box(model, state)
    shift = jnp.asarray(thing.position, low.dtype) - 0.5 * (low + high)
    velocity = None if thing.velocity is None else jnp.asarray(thing.velocity, low.dtype)
    state = move_rigidly(model, state, shift=shift, velocity=velocity)
    return Companion(model, state, None, thing.name, engine)


def other_robot(
    name: str,
    robot: Described,
    placement: Placement,
    terrain: Terrain | HeightField | None,
    interval: float,
    dtype: DType,
) -> Companion:
    """A further robot at its start; interval: from one control call to the next [s]."""
    model = assemble_body(robot.body, dtype=jnp.dtype(dtype))
    state = place(model, terrain, placement)
    controller = robot.controller.build(robot.body, jnp.dtype(dtype))
    return Companion(model, state, controller, name, engine_of(model), interval)
