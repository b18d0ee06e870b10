"""From descriptions to arrays: the systems of a world, which move there besides the robot.

Systems are grains, and the occupant "objects": rigid objects, soft ones of voxels, further robots.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax.numpy as jnp
import numpy as np

from vsr.body import Body
from vsr.physics.engine import assemble_body, engine_of
from vsr.physics.grains.bed import sand_bed
from vsr.physics.objects import Companion, Objects, Solids
from vsr.physics.objects.forms import Form, form_of, shapes_of
from vsr.terrain import BlockGround, HeightField, Sand, Terrain
from vsr.world.placement import move_rigidly, place
from vsr.world.schedule import Schedule
from vsr.world.spec import Object, OtherRobot, VoxelLike, World

DType = jnp.dtype | type
USUAL_DENSITY = {2: 4 / 9, 3: 8 / 27}
"""Of a voxel of 3 m with masses of 1 kg in its corners [kg/m², kg/m³]."""
USUAL_FRICTION = 0.5


def build_systems(world: World, voxels: VoxelLike, schedule: Schedule, dtype: DType = jnp.float32) -> dict[str, Any]:
    """What moves in a world besides robots, for robots of such voxels, by name (vsr.world.coupling.Occupant)."""
    implementation = "xla" if schedule.implementation == "xla" else "auto"
    found: dict[str, Any] = {}
    if world.is_touched:
        found["objects"] = replace(
            _build_objects(world, voxels.dimension, schedule, dtype), implementation=implementation
        )
    if not isinstance(world.terrain, Sand):
        return found
    bed = sand_bed(world.terrain, voxels.dimension, world.gravity, voxels.voxel_side, dtype)
    # Finer steps are finer for grains too: as many substeps as usual are in one of theirs.
    stride = max(1, int(world.longest_step / schedule.substep + 1e-6))
    return {"sand": replace(bed, stride=stride, implementation=implementation), **found}


def _build_objects(world: World, dimension: int, schedule: Schedule, dtype: DType) -> Objects:
    terrain = None if world.terrain is None else world.terrain.build(dtype)
    others = tuple(_other_robot(one, terrain, schedule.interval, dtype) for one in world.others)
    return Objects(
        build_solids(world.objects, dimension, dtype),
        soft_things(world.objects, dtype) + others,
        self_contact=world.self_contact,
        ground_corners=dimension == 2 and (world.ground_corners or isinstance(world.terrain, BlockGround)),
    )


def build_solids(objects: Sequence[Object], dimension: int, dtype: jnp.dtype | type = jnp.float32) -> Solids | None:
    """Rigid things as arrays; None if there are none."""
    rigid = [one for one in objects if one.shape is not None]
    if not rigid:
        return None
    forms = [form_of(one.shape.corners(dimension), one.shape.rounding) for one in rigid if one.shape is not None]
    masses = [_mass(one, form, dimension) for one, form in zip(rigid, forms, strict=True)]
    turns = np.stack([rotation_of(one, dimension) @ form.axes for one, form in zip(rigid, forms, strict=True)])

    def number(name: str, usual: float) -> jnp.ndarray:
        return jnp.asarray([usual if getattr(one, name) is None else getattr(one, name) for one in rigid], dtype)

    return Solids(
        shapes=shapes_of(forms, dtype),
        position=jnp.asarray([one.position for one in rigid], dtype),
        rotation=jnp.asarray(turns, dtype),
        velocity=jnp.asarray([one.velocity or (0.0,) * dimension for one in rigid], dtype),
        mass=jnp.asarray(masses, dtype),
        inertia=jnp.asarray([mass * form.gyration for mass, form in zip(masses, forms, strict=True)], dtype),
        friction=number("friction", USUAL_FRICTION),
        restitution=number("restitution", 0.0),
        names=tuple(one.name for one in rigid),
        fixed=tuple(one.fixed for one in rigid),
    )


def _mass(one: Object, form: Form, dimension: int) -> float:
    if one.fixed:
        return math.inf
    if one.mass is not None:
        return one.mass
    return form.volume * (USUAL_DENSITY[dimension] if one.density is None else one.density)


def rotation_of(one: Object, dimension: int) -> np.ndarray:
    """That an object is described with, as a matrix."""
    tilt, yaw = np.radians(one.tilt), np.radians(one.yaw)
    if dimension == 2:
        return _plane_turn(2, 0, 1, tilt)
    return _plane_turn(3, 0, 1, yaw) @ _plane_turn(3, 0, 2, tilt)


def _plane_turn(dimension: int, first: int, second: int, angle: float) -> np.ndarray:
    """From the first axis to the second."""
    turn = np.eye(dimension)
    turn[first, first] = turn[second, second] = math.cos(angle)
    turn[second, first], turn[first, second] = math.sin(angle), -math.sin(angle)
    return turn


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


def _other_robot(other: OtherRobot, terrain: Terrain | HeightField | None, interval: float, dtype: DType) -> Companion:
    """A further robot at its start; interval: from one control call to the next [s]."""
    robot = other.robot
    model = assemble_body(robot.body, dtype=jnp.dtype(dtype))
    state = place(model, terrain, other.placement)
    controller = robot.controller.build(robot.body, jnp.dtype(dtype))
    return Companion(model, state, controller, other.name, engine_of(model), interval)
