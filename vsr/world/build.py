"""From descriptions to arrays: the systems of a world, which move there besides the robot.

Systems are grains, and the system "objects": rigid objects, soft ones of voxels, further robots.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from vsr.physics.contact.convex import Form, form_of, shapes_of
from vsr.physics.contact.solids import Solids
from vsr.physics.contact.system import Objects
from vsr.physics.contact.voxel_bodies import VoxelBody
from vsr.physics.engine import assemble_body, engine_of
from vsr.robot import Body
from vsr.terrain import AnyTerrain
from vsr.world.placement import move_rigidly, place
from vsr.world.schedule import Schedule
from vsr.world.spec import Object, OtherRobot, VoxelLike, World

DType = jnp.dtype | type
DEFAULT_DENSITY = {2: 4 / 9, 3: 8 / 27}
"""Of a voxel of 3 m with masses of 1 kg in its corners [kg/m², kg/m³]."""
DEFAULT_FRICTION = 0.5


def build_systems(world: World, voxels: VoxelLike, schedule: Schedule, dtype: DType = jnp.float32) -> dict[str, Any]:
    """What moves in a world besides robots, for robots of such voxels, by name (vsr.world.coupling.System)."""
    found: dict[str, Any] = {}
    if world.terrain is not None:
        found |= world.terrain.systems(voxels, world.gravity, schedule.substep, dtype)
    if world.is_touched:
        found["objects"] = _build_objects(world, voxels.dimension, schedule, dtype)
    implementation = "xla" if schedule.implementation == "xla" else "auto"
    return {
        name: replace(system, implementation=implementation) if hasattr(system, "implementation") else system
        for name, system in found.items()
    }


def build_beds(
    world: World, voxels: VoxelLike, schedule: Schedule, dtype: DType, numbers: Sequence[int]
) -> dict[str, Any]:
    """The same with several beds of grains (`Sand.bed`), along a leading axis of all their arrays.

    A bed is chosen by `chosen_bed`. All reach equally high, so that robots are put down alike.
    """
    assert world.terrain is not None
    each = []
    for number in numbers:
        terrain = world.terrain.model_copy(update={"bed": number})
        each.append(build_systems(world.model_copy(update={"terrain": terrain}), voxels, schedule, dtype))
    highest = max(systems["sand"].cover for systems in each)
    beds = [replace(systems["sand"], cover=highest) for systems in each]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *beds)  # JAX would compile a program for each array
    with jax.ensure_compile_time_eval():  # beds are numbers, also for those who are being compiled
        return {**each[0], "sand": jax.device_put(stacked)}


def chosen_bed(systems: dict[str, Any], number: Any) -> dict[str, Any]:
    """With one of several beds; number: its place among them, ()."""
    return {**systems, "sand": jax.tree.map(lambda leaf: leaf[number], systems["sand"])}


def _build_objects(world: World, dimension: int, schedule: Schedule, dtype: DType) -> Objects:
    terrain = None if world.terrain is None else world.terrain.build(dtype)
    others = tuple(_other_robot(one, terrain, schedule.interval, dtype) for one in world.other_robots)
    return Objects(
        build_solids(world.objects, dimension, dtype),
        soft_objects(world.objects, dtype) + others,
        self_contact=world.self_contact,
        ground_corners=dimension == 2
        and (world.ground_corners or (world.terrain is not None and world.terrain.needs_contact)),
    )


def build_solids(objects: Sequence[Object], dimension: int, dtype: jnp.dtype | type = jnp.float32) -> Solids | None:
    """Rigid objects as arrays; None if there are none."""
    rigid = [one for one in objects if one.shape is not None]
    if not rigid:
        return None
    forms = [form_of(one.shape.corners(dimension), one.shape.rounding) for one in rigid if one.shape is not None]
    masses = [_mass(one, form, dimension) for one, form in zip(rigid, forms, strict=True)]
    turns = np.stack([rotation_of(one, dimension) @ form.axes for one, form in zip(rigid, forms, strict=True)])

    def number(name: str, default: float) -> jnp.ndarray:
        return jnp.asarray([default if getattr(one, name) is None else getattr(one, name) for one in rigid], dtype)

    return Solids(
        shapes=shapes_of(forms, dtype),
        position=jnp.asarray([one.position for one in rigid], dtype),
        rotation=jnp.asarray(turns, dtype),
        velocity=jnp.asarray([one.velocity or (0.0,) * dimension for one in rigid], dtype),
        mass=jnp.asarray(masses, dtype),
        inertia=jnp.asarray([mass * form.gyration for mass, form in zip(masses, forms, strict=True)], dtype),
        friction=number("friction", DEFAULT_FRICTION),
        restitution=number("restitution", 0.0),
        names=tuple(one.name for one in rigid),
        fixed=tuple(one.fixed for one in rigid),
    )


def _mass(one: Object, form: Form, dimension: int) -> float:
    if one.fixed:
        return math.inf
    if one.mass is not None:
        return one.mass
    return form.volume * (DEFAULT_DENSITY[dimension] if one.density is None else one.density)


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


def soft_objects(objects: Sequence[Object], dtype: DType) -> tuple[VoxelBody, ...]:
    """Those made of voxels, at their places."""
    return tuple(_soft(one, one.body, dtype) for one in objects if one.body is not None)


def _soft(described: Object, body: Body, dtype: DType) -> VoxelBody:
    model = assemble_body(body, dtype=jnp.dtype(dtype))
    engine = engine_of(model)
    yaw = jnp.radians(described.yaw) if described.yaw else None
    state = move_rigidly(model, engine.rest_state(model), tilt=jnp.radians(described.tilt), yaw=yaw)
    low, high = engine.bounding_box(model, state)
    shift = jnp.asarray(described.position, low.dtype) - 0.5 * (low + high)
    velocity = None if described.velocity is None else jnp.asarray(described.velocity, low.dtype)
    state = move_rigidly(model, state, shift=shift, velocity=velocity)
    return VoxelBody(model, state, None, described.name, engine)


def _other_robot(other: OtherRobot, terrain: AnyTerrain | None, interval: float, dtype: DType) -> VoxelBody:
    """A further robot at its start; interval: from one control call to the next [s]."""
    robot = other.robot
    model = assemble_body(robot.body, dtype=jnp.dtype(dtype))
    state = place(model, terrain, other.placement)
    controller = robot.controller.build(robot.body, jnp.dtype(dtype))
    return VoxelBody(model, state, controller, other.name, engine_of(model), interval)
