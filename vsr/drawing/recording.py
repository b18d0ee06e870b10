"""A recorded episode as small numpy arrays: what painters and viewers need, whatever the robot's masses are.

A robot is made of rigid *parts* (clusters of square masses, or points). Every corner of a voxel is fastened to a part
at an offset that turns with it; so a few numbers per part and moment say where everything is.

`at_rest` records a body before it moves, without any simulation.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import jax
import numpy as np
from jax import Array

from vsr.controllers import Controller, wiring
from vsr.drawing.chambers import RecordedChambers, chambers_at_rest, chambers_of
from vsr.drawing.grains import RecordedGrains, grains_of, touched_by_grains
from vsr.drawing.objects import RecordedObjects, objects_of, touched_by_objects
from vsr.environment import Environment
from vsr.episode import Trajectory
from vsr.physics.contact.system import Objects
from vsr.physics.contract import SpringEnds
from vsr.physics.engine import ENGINES, AnyModel, AnyState, engine_of
from vsr.physics.squares.model import CORNER_SIGNS
from vsr.robot.corners import RING
from vsr.robot.engine_kinds import ENGINE_KINDS
from vsr.robot.shape import Body
from vsr.sensors import read_trajectory
from vsr.world.placement import has_left

CORNER_WAYS = CORNER_SIGNS[list(RING)]
"""Where the corners of a square lie from its center, counted by their bits, (4, 2)."""

NOISE = 1e-4
"""Sensor values nearer than this to that at rest, whatever their unit, are rounding and no motion."""


@dataclass(frozen=True)
class Felt:
    """What voxels read through one of their controller's sensors."""

    label: str
    """what is read, in words"""
    unit: str
    """may be nothing"""
    at_rest: float
    """what a robot reads that does nothing"""
    value: np.ndarray
    """of the latest control call, that at rest before the first, (moments, voxels)"""
    has: np.ndarray
    """whether a voxel has this sensor, (voxels,)"""

    @property
    def reach(self) -> float:
        """How far values mostly get from that at rest, all but the farthest fiftieth; 0 if they never do."""
        away = np.abs(self.value[:, self.has] - self.at_rest)
        regular = float(np.quantile(away, 0.98) or away.max()) if away.size else 0.0
        return regular if regular > NOISE else 0.0


@dataclass(frozen=True)
class Recording:
    """One episode. Moments are equally far apart; if it failed, it ends with the last valid moment. SI units."""

    time: np.ndarray
    """[s], (moments,)"""
    position: np.ndarray
    """of the parts [m], (moments, parts, dimension)"""
    angle: np.ndarray | None
    """of the parts, without jumps [rad], (moments, parts); None for points"""
    ratio: np.ndarray
    """area or volume of the voxels over that at rest, (moments, voxels)"""
    control: np.ndarray
    """values in force, (moments, voxels)"""
    contact: np.ndarray
    """whether a voxel touches the ground, (moments, voxels)"""
    velocity: np.ndarray
    """of the voxels [m/s], (moments, voxels, dimension)"""
    part: np.ndarray
    """to which each corner of a voxel is fastened, (voxels, corners); corners counted by their bits: x, y, z"""
    offset: np.ndarray
    """of a corner's mass from its part's center [m], (voxels, corners, dimension)"""
    half_side: np.ndarray
    """half the side of a voxel's masses [m], 0 for points, (voxels,)"""
    springs: np.ndarray
    """which groups of springs a voxel has, (voxels, groups), as `Engine.spring_ends` numbers them"""
    material: np.ndarray
    """index of the voxel's material, (voxels,)"""
    place: np.ndarray
    """of the voxels in the grid, x first, (voxels, dimension)"""
    voxel_side: float
    """at rest [m]"""
    failed: bool
    """whether it ended before its time, or had left the world at its end"""
    spring_ends: tuple[SpringEnds, ...] = ()
    """the springs of a voxel that has all groups"""
    felt: tuple[Felt, ...] = ()
    """one for each sensor of its controller"""
    broken: np.ndarray | None = None
    """which of a voxel's springs have broken, as `spring_ends` counts them, (moments, voxels, springs); None if none
    can"""
    grains: RecordedGrains | None = None
    """what it walks on, if that moves"""
    objects: RecordedObjects | None = None
    """rigid objects, and ground that hangs"""
    other_robots: tuple[Recording, ...] = ()
    """soft objects and further robots"""
    chambers: RecordedChambers | None = None
    """None without fluid"""
    lacking: np.ndarray | None = None
    """which springs of its groups a fluid voxel has not, as they are in no membrane; counted like `broken`, (voxels,
    springs); None without fluid"""

    @property
    def dimension(self) -> int:
        return self.position.shape[-1]

    @cached_property
    def masses(self) -> np.ndarray:
        """Centers of the masses in all corners [m], (moments, voxels, corners, dimension)."""
        center = self.position[:, self.part]
        return center if self.angle is None else center + _turned(self.offset, self.angle[:, self.part])

    @cached_property
    def corners(self) -> np.ndarray:
        """Outer corners of the voxels [m], (moments, voxels, corners, dimension)."""
        if self.angle is None:
            return self.masses
        return self.masses + _turned(CORNER_WAYS * self.half_side[:, None, None], self.angle[:, self.part])

    @cached_property
    def mass_corners(self) -> np.ndarray:
        """Corners of the square masses [m], (moments, voxels, masses, corners, 2)."""
        assert self.angle is not None, "points have no corners"
        arms = CORNER_WAYS * self.half_side[:, None, None, None]
        return self.masses[..., None, :] + _turned(arms, self.angle[:, self.part][..., None])

    @cached_property
    def center(self) -> np.ndarray:
        """Of the robot: mean of its voxels' masses [m], (moments, dimension)."""
        return self.masses.mean((1, 2))

    @cached_property
    def strain(self) -> np.ndarray:
        """Largest relative change of the length of a voxel's edges, (moments, voxels)."""
        first, second = np.array(edges(self.dimension)).T
        length = np.linalg.norm(self.corners[:, :, second] - self.corners[:, :, first], axis=-1)
        return np.abs(length / self.voxel_side - 1).max(-1)

    def at(self, times: np.ndarray) -> Recording:
        """The same episode at other moments [s], by linear interpolation; still before its start and after its end."""
        place = np.interp(times, self.time, np.arange(len(self.time)))
        before = np.minimum(place.astype(int), max(len(self.time) - 2, 0))
        after, share = np.minimum(before + 1, len(self.time) - 1), place - before

        def between(values: np.ndarray) -> np.ndarray:
            weight = share.reshape(-1, *(1,) * (values.ndim - 1))
            return (1 - weight) * values[before] + weight * values[after]

        return replace(
            self,
            time=np.asarray(times, float),
            position=between(self.position),
            angle=None if self.angle is None else between(self.angle),
            ratio=between(self.ratio),
            velocity=between(self.velocity),
            # A control value is in force until the moment at which it is recorded.
            control=self.control[np.where(share > 0, after, before)],
            contact=self.contact[np.where(share > 0.5, after, before)],
            broken=None if self.broken is None else self.broken[np.where(share < 1 - 1e-6, before, after)],
            # A reading is the latest until the next call.
            felt=tuple(
                replace(sensor, value=sensor.value[np.where(share < 1 - 1e-6, before, after)]) for sensor in self.felt
            ),
            grains=None if self.grains is None else self.grains.over_time(between),
            objects=None if self.objects is None else self.objects.over_time(between),
            other_robots=tuple(other.at(times) for other in self.other_robots),
            chambers=None if self.chambers is None else self.chambers.over_time(between),
        )

    def moved(self, shift: np.ndarray) -> Recording:
        """All of it elsewhere [m]; shift: (moments, dimension)."""
        grains, objects = self.grains, self.objects
        return replace(
            self,
            position=self.position + shift[:, None],
            grains=None if grains is None else grains.moved(shift),
            objects=None if objects is None else objects.moved(shift),
            other_robots=tuple(other.moved(shift) for other in self.other_robots),
        )

    def cut(self, moments: int) -> Recording:
        """The first moments alone."""
        return self.at(self.time[:moments]) if moments < len(self.time) else self


def edges(dimension: int) -> list[tuple[int, int]]:
    """Pairs of corners that an edge joins."""
    return [
        (corner, corner | 1 << axis)
        for axis in range(dimension)
        for corner in range(2**dimension)
        if not corner >> axis & 1
    ]


def size_word(recordings: Iterable[Recording]) -> str:
    """What the ratios of these robots are of."""
    dimensions = {recording.dimension for recording in recordings}
    return {frozenset({2}): "area", frozenset({3}): "volume"}.get(frozenset(dimensions), "area or volume")


def recording_of(
    model: AnyModel,
    trajectory: Trajectory,
    environment: Environment,
    cells: np.ndarray,
    controller: Controller | None = None,
    systems: Mapping[str, Any] | None = None,
) -> Recording:
    """What can be seen of an episode, and with its controller what it felt.

    cells: material index of every cell, -1 where empty, as `Body.cells` has them; systems: what else moves in its
    world, by name, of which grains and objects are seen (`Scene.systems`).
    """
    present = np.asarray(model.present) > 0
    engine = engine_of(model)
    velocity, ratio, contact, diverged, gone = map(np.asarray, _seen(model, environment, trajectory.state))
    touched = _touched(trajectory)
    contact = contact if touched is None else np.maximum(contact, touched)
    grains, chambers = grains_of(trajectory, systems or {}), chambers_of(model, trajectory)
    objects = objects_of(trajectory, systems or {}, environment.terrain, engine.own_ground(model))
    other_robots = _others(model, trajectory, environment, systems or {})
    if grains is not None:
        diverged = diverged | ~grains.finite
    valid = max(int(np.argmax(diverged)), 1) if diverged.any() else len(diverged)
    fastened = engine.rigid_parts(model)
    used, part = np.unique(fastened.slot, return_inverse=True)
    state = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64)[:valid], trajectory.state)
    dimension = present.ndim
    intact, angle = engine.intact_springs(state), engine.angles(state)

    def parts(values: np.ndarray) -> np.ndarray:
        return values.reshape(valid, -1, dimension)[:, used]

    return Recording(
        time=np.asarray(trajectory.time, np.float64)[:valid],
        position=parts(state.position),
        angle=None if angle is None else np.unwrap(angle.reshape(valid, -1)[:, used], axis=0),
        ratio=ratio[:valid, present].astype(float),
        control=np.asarray(trajectory.control)[:valid, present].astype(float),
        contact=contact[:valid, present] > 0,
        velocity=velocity[:valid, present].astype(float),
        part=part.reshape(fastened.slot.shape),
        offset=fastened.offset,
        half_side=fastened.half_side,
        springs=fastened.springs,
        spring_ends=tuple(engine.spring_ends(dimension)),
        material=np.asarray(cells)[present],
        place=np.argwhere(present)[:, ::-1],
        voxel_side=float(model.voxel_side),
        failed=bool(diverged.any() | gone[-1]),
        broken=None if intact is None else np.moveaxis(intact[:, :, present] == 0, 1, 2),
        felt=(
            _felt(model, trajectory, environment, controller, valid, touched)
            if controller and controller.sensors
            else ()
        ),
        grains=None if grains is None else grains.over_time(lambda values: values[:valid]),
        objects=None if objects is None else objects.over_time(lambda values: values[:valid]),
        other_robots=tuple(other.cut(valid) for other in other_robots),
        chambers=None if chambers is None else chambers.over_time(lambda values: values[:valid]),
        lacking=fastened.lacking,
    )


def _touched(trajectory: Trajectory) -> np.ndarray | None:
    """1 for voxels of the robot that grains or objects touch, else 0, (moments, *cells); None if there are none."""
    found = [part for part in (touched_by_grains(trajectory), touched_by_objects(trajectory)) if part is not None]
    return np.maximum.reduce(found) if found else None


def _others(
    model: AnyModel, trajectory: Trajectory, environment: Environment, systems: Mapping[str, Any]
) -> list[Recording]:
    """Recordings of soft objects, of those of the robot's engine and of further robots, without their controllers."""
    found: list[tuple[Any, Any]] = [
        (own.model, own.state) for own in engine_of(model).own_bodies(model, trajectory.state)
    ]
    for name, system in systems.items():
        if isinstance(system, Objects) and trajectory.systems is not None:
            models = [one.model for one in system.voxel_bodies]
            found += zip(models, trajectory.systems[name].voxel_bodies, strict=True)
    environment, recordings = replace(environment, load=None), []
    for other, states in found:
        present = np.asarray(other.present) > 0
        control = np.zeros((len(trajectory.time), *present.shape))
        own = Trajectory(trajectory.time, states, control)  # pyright: ignore[reportArgumentType]
        recordings.append(recording_of(other, own, environment, np.where(present, 0, -1)))
    return recordings


@jax.jit  # of a function that lasts, or else every picture of an environment would compile it again
def _seen(model: AnyModel, environment: Environment, states: AnyState) -> tuple[Array, ...]:
    """Of every moment: velocities, sizes and contact of voxels, whether something diverged, whether it left."""
    engine = engine_of(model)

    def at(state: AnyState) -> tuple[Array, ...]:
        seen = engine.voxel_motion(model, environment, state)
        gone = has_left(environment.terrain, engine.center(model, state), model.voxel_side)
        return seen.velocity, seen.size_ratio, seen.contact, (engine.failure(model, state) > 0).any(), gone

    return jax.vmap(at)(states)


def _felt(
    model: AnyModel,
    trajectory: Trajectory,
    environment: Environment,
    controller: Controller,
    valid: int,
    touched: np.ndarray | None,
) -> tuple[Felt, ...]:
    """Readings, computed again from the states, which are those that the controller had.

    valid: moments kept; touched: 1 for voxels that grains touch, (moments, *cells).
    """
    sensors = controller.sensors
    present = np.asarray(model.present) > 0
    wired = wiring(sensors, present)[present]
    remake = jax.jit(partial(read_trajectory, sensors))
    values = np.asarray(remake(model, environment, trajectory.state, touched), float)[:valid, :, present]
    values[0] = [[sensor.at_rest] for sensor in sensors]
    return tuple(
        Felt(sensor.label, sensor.unit, sensor.at_rest, values[:, index], wired[:, index])
        for index, sensor in enumerate(sensors)
    )


def _turned(vector: np.ndarray, angle: np.ndarray) -> np.ndarray:
    cosine, sine = np.cos(angle), np.sin(angle)
    x, y = vector[..., 0], vector[..., 1]
    return np.stack([cosine * x - sine * y, sine * x + cosine * y], -1)


def at_rest(body: Body) -> Recording:
    """The body as it is drawn in its file; every corner of a voxel is a part of its own."""
    dimension, side = body.dimension, body.voxel_side
    cells, present = body.cells, body.present
    material = cells[present]
    of_voxels = [list(body.materials.values())[index] for index in material]
    place = np.argwhere(present)[:, ::-1]
    voxels, corners = len(place), 2**dimension
    bits = np.array([[corner >> axis & 1 for axis in range(dimension)] for corner in range(corners)])
    kind = ENGINE_KINDS[body.engine]
    half_side = np.array([0.5 * material.mass_side_ratio * side if kind.turns else 0.0 for material in of_voxels])
    groups = kind.groups_in(dimension)
    ends = tuple(ENGINES[body.engine].spring_ends(dimension))
    # Masses without groups of springs to choose from have all of them.
    springs = [
        [material.has(group) and not material.fluid for group in groups] if groups else [True] * len(ends)
        for material in of_voxels
    ]
    # A square mass lies inside the corner, a point on it.
    masses = side * (place[:, None] + bits) - (2 * bits - 1) * half_side[:, None, None]
    return Recording(
        time=np.zeros(1),
        position=masses.reshape(1, -1, dimension),
        angle=np.zeros((1, voxels * corners)) if kind.turns else None,
        ratio=np.ones((1, voxels)),
        control=np.zeros((1, voxels)),
        contact=np.zeros((1, voxels), bool),
        velocity=np.zeros((1, voxels, dimension)),
        part=np.arange(voxels * corners).reshape(voxels, corners),
        offset=np.zeros((voxels, corners, dimension)),
        half_side=half_side,
        springs=np.array(springs),
        spring_ends=ends,
        material=material,
        place=place,
        voxel_side=side,
        failed=False,
        chambers=chambers_at_rest(body),
    )
