"""Excavation: an arm of seven joints with a bucket digs in a bed of soil (GranularGym's task of the same name).

One action is the speed of every joint, from -1 to 1 of its top speed. The arm goes where its joints take it, whatever
the soil does; its force is reported. The paper says nothing of rewards: ours is for soil that is lifted into
a volume above the bed, in the form of the bulldozer's. Walls hold the soil and let the arm through.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.linear import product
from vsr.envs.machines.cameras import Eye, eye_view
from vsr.envs.machines.grounds import (
    CANDIDATES,
    ball_mass,
    block,
    depth_of,
    floor,
    in_layers,
    moved_material,
    settled,
    walls,
)
from vsr.envs.machines.kinematic_bodies import Felt, Pacing, drive, failure_after, leading_to, nothing_felt, pacing
from vsr.episode import Transition
from vsr.physics.granular import Body, Box, Grains, GrainState, Pose, at_rest, fixed, grains_of
from vsr.physics.granular.bodies import turn_by
from vsr.physics.granular.model import each
from vsr.sdf import Capsule, Union


@dataclass(frozen=True)
class Arm:
    """A chain of joints, each with an axis in its own frame. Static."""

    base: tuple[float, float, float]
    """[m]"""
    axes: tuple[tuple[float, float, float], ...]
    """unit vectors about which joints turn"""
    offsets: tuple[tuple[float, float, float], ...]
    """of each joint in the frame of the one before, the first from the base [m]"""
    low: tuple[float, ...]
    """least angle of each joint [rad]"""
    high: tuple[float, ...]
    """greatest"""
    speed: tuple[float, ...]
    """top speed of each joint [rad/s]"""

    def poses(self, angle: Array) -> tuple[Pose, ...]:
        """Frames behind each joint, at rest; angle: of joints [rad], (joints,)."""
        place, rotation = jnp.asarray(self.base, angle.dtype), jnp.eye(3, dtype=angle.dtype)
        found = []
        for number, (axis, offset) in enumerate(zip(self.axes, self.offsets, strict=True)):
            place = place + product(rotation, jnp.asarray(offset, angle.dtype))
            rotation = product(rotation, turn_by(angle[number] * jnp.asarray(axis, angle.dtype)))
            found.append(at_rest(place, rotation))
        return tuple(found)

    def turned(self, angle: Array, action: Array, duration: float) -> Array:
        """Angles a duration [s] later; action: speeds over the top ones, from -1 to 1, (joints,)."""
        after = angle + duration * jnp.asarray(self.speed, angle.dtype) * action
        return jnp.clip(after, jnp.asarray(self.low, angle.dtype), jnp.asarray(self.high, angle.dtype))


ALONG, ACROSS = (0.0, 0.0, 1.0), (0.0, 1.0, 0.0)
UPPER, FORE, WRIST, SHOULDER = 0.4, 0.4, 0.13, 0.34
"""Lengths of an arm about as large as a Franka Emika Panda [m]."""

SEVEN_JOINTS = Arm(
    base=(0.0, 0.0, 0.0),
    axes=(ALONG, ACROSS, ALONG, ACROSS, ALONG, ACROSS, ALONG),
    offsets=(
        (0.0, 0.0, 0.0),
        (0.0, 0.0, SHOULDER),
        (0.0, 0.0, 0.5 * UPPER),
        (0.0, 0.0, 0.5 * UPPER),
        (0.0, 0.0, 0.5 * FORE),
        (0.0, 0.0, 0.5 * FORE),
        (0.0, 0.0, WRIST),
    ),
    low=(-2.9, -1.8, -2.9, 0.05, -2.9, -0.2, -2.9),
    high=(2.9, 1.8, 2.9, 2.9, 2.9, 2.65, 2.9),  # a bucket bent further would touch the forearm
    speed=(1.5, 1.5, 1.5, 1.5, 2.0, 2.0, 2.0),
)
"""Rolls and bends in turn, as common arms have them; all angles 0: straight up."""


def planar_angles(ahead: float, up: float, pitch: float, yaw: float = 0.0) -> np.ndarray:
    """Angles of SEVEN_JOINTS that take its last joint ahead of the base and up [m], pitched from the vertical [rad].

    The elbow is above. Raises ValueError for a place out of reach.
    """
    x = ahead - WRIST * math.sin(pitch)
    z = up - SHOULDER - WRIST * math.cos(pitch)
    far = math.hypot(x, z)
    if not abs(UPPER - FORE) < far < UPPER + FORE:
        raise ValueError(f"({ahead:g}, {up:g}) m with a pitch of {pitch:g} rad is out of the arm's reach")
    elbow = math.pi - math.acos((UPPER**2 + FORE**2 - far**2) / (2 * UPPER * FORE))
    shoulder = math.atan2(x, z) - math.atan2(FORE * math.sin(elbow), UPPER + FORE * math.cos(elbow))
    return np.array([yaw, shoulder, 0.0, elbow, 0.0, pitch - shoulder - elbow, 0.0])


BED = (0.25, -0.3), (0.95, 0.3)
"""Lowest and highest corner [m]; walls stand there."""
LIFT = 0.15
"""From the bed's surface to the goal above it [m] ..."""
GOAL_HEIGHT = 0.5
"""... and how high that is [m]."""
HOME = 0.6, 0.5, math.pi
"""Where the last joint is at the start: ahead, up [m], and pitch, which points down [rad]."""
CAVITY = (-0.055, -0.065, 0.04), (0.075, 0.065, 0.15)
"""Inside of the bucket in the frame of the last joint [m]; it is open towards x."""
PLATE = 0.0125
"""Half the thickness of the bucket's plates [m]."""
CLEARANCE = 1.5
"""Kept between bucket and floor or walls, in diameters of a grain, so that none is crushed there."""
LIMB = 0.045
"""Radius of the arm's links [m]."""
EYE = (1.35, 0.0, 0.75), 0.75
"""Place of the camera [m], which looks back at the arm and so far down [rad]."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Excavation:
    """All that stays as it is during an episode."""

    grains: Grains
    """with floor, walls, forearm, wrist and bucket as bodies; the bed lies at rest at their start"""
    pace: Pacing = field(metadata={"static": True})
    goal: tuple[tuple[float, ...], tuple[float, ...]] = field(metadata={"static": True})
    """lowest and highest corner [m]"""
    eye: Eye = field(default=Eye(half_angle=0.5, near=0.3, far=3.0), metadata={"static": True})


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class State:
    """All that changes."""

    grains: GrainState
    angle: Array
    """of joints [rad], (7,)"""
    felt: Felt
    """by forearm, wrist and bucket in the last interval"""
    blocked: Array
    """whether the last action was refused, since it would have taken the bucket through floor or walls, ()"""
    calls: Array
    """actions taken, ()"""
    failure: Array
    """the first that befell grains, 0 if none did (vsr.physics.failure), ()"""


class Observation(NamedTuple):
    """What the operator knows."""

    angle: Array
    """of joints [rad], (7,)"""
    depth: Array
    """from beside the bed [m], (36, 36)"""
    load: Array
    """mass of the grains in the bucket [kg], ()"""
    force: Array
    """of grains on the bucket in the last interval [N], (3,)"""


def scenario(
    count: int = 2_000,
    *,
    radius: float = 0.015,
    friction: float = 0.5,
    rolling: float | None = 0.05,
    duration: float = 20.0,
    interval: float = 0.05,
    substeps: int | None = None,
    seed: int = 1,
    slots: int | None = None,
    candidates: int = CANDIDATES,
) -> Excavation:
    """A bed of grains that lies at rest. radius [m]; duration of an episode and interval of an action [s].

    substeps: of grains in an interval; None for as many as make the bed lie still.
    """
    if count < 1 or not radius > 0:
        raise ValueError(f"a bed needs a grain and a radius above 0; got {count} and {radius:g} m")
    place = in_layers(count, radius, *BED, np.random.default_rng(seed))
    area = (BED[1][0] - BED[0][0]) * (BED[1][1] - BED[0][1])
    depth = depth_of(count, radius, area)
    goal = (*BED[0], depth + LIFT), (*BED[1], depth + LIFT + GOAL_HEIGHT)
    grains = grains_of(
        place,
        radius,
        ball_mass(radius),
        friction=friction,
        rolling=rolling,
        box=Box((*BED[0], 0.0), (BED[1][0] - BED[0][0], BED[1][1] - BED[0][1], goal[1][2]), (False, False, False)),
        bodies=[floor(friction), *walls(*BED, friction), *_links(friction)],
        grounded=False,
        slots=slots,
        candidates=candidates,
    )
    pace = pacing(duration, interval, radius, depth, substeps)
    return Excavation(settled(grains, pace, 1.0, machine=3, smooth=0.3), pace, goal)


def reset(key: Array, scenario: Excavation) -> State:
    """The bed at rest, the bucket above it, turned a little about the base as the key draws."""
    home = jnp.asarray(planar_angles(*HOME), scenario.grains.radius.dtype)
    aside = jax.random.uniform(key, (), home.dtype, -0.1, 0.1)
    return State(
        grains=scenario.grains.rest_state(),
        angle=home.at[0].add(aside),
        felt=nothing_felt(3, home.dtype),
        blocked=jnp.zeros((), bool),
        calls=jnp.zeros((), jnp.int32),
        failure=jnp.zeros((), jnp.int32),
    )


def observe(scenario: Excavation, state: State) -> Observation:
    """Joints, camera, and what is in the bucket."""
    grains = scenario.grains
    poses = links_at(state.angle)
    solids = list(zip(grains.bodies[3:], poses, strict=True))
    return Observation(
        angle=state.angle,
        depth=eye_view(scenario.eye, _eye_at(), grains, state.grains, solids),
        load=load(grains, state),
        force=state.felt.force[2],
    )


def step(scenario: Excavation, state: State, action: Array) -> tuple[State, Transition]:
    """One control interval; action: speeds of joints over their top speeds, clipped to [-1, 1], (7,)."""
    grains, pace = scenario.grains, scenario.pace
    wanted = SEVEN_JOINTS.turned(state.angle, jnp.clip(action, -1, 1), pace.interval)
    blocked = ~_allowed(wanted, CLEARANCE * 2 * grains.largest, scenario.goal[0][2])
    angle = jnp.where(blocked, state.angle, wanted)
    begin_and_end = zip(links_at(state.angle), links_at(angle), strict=True)
    poses = tuple(leading_to(first, last, pace.interval) for first, last in begin_and_end)
    came = drive(grains, state.grains, poses, pace)
    after = State(
        grains=came.grains,
        angle=angle,
        felt=came.felt,
        blocked=blocked,
        calls=state.calls + 1,
        failure=failure_after(grains, state.failure, came.grains),
    )
    failed = after.failure > 0
    return after, Transition(
        reward=jnp.where(failed, 0, moved_material(came.grains.position, *scenario.goal)),
        terminated=failed,
        truncated=after.calls >= pace.limit,
    )


def links_at(angle: Array) -> tuple[Pose, Pose, Pose]:
    """Forearm, wrist and bucket at rest; angle: of joints [rad], (7,)."""
    poses = SEVEN_JOINTS.poses(angle)
    return poses[3], poses[5], poses[6]


def load(grains: Grains, state: State) -> Array:
    """Mass of the grains whose centers are in the bucket [kg], ()."""
    bucket = links_at(state.angle)[2]
    own = product(bucket.rotation.T, state.grains.position - bucket.position[:, None])
    low, high = (jnp.array(corner)[:, None] for corner in CAVITY)
    inside = ((own > low) & (own < high)).all(0)
    return (each(grains.mass, state.grains) * inside).sum()


def _links(friction: float) -> list[Body]:
    """Forearm, wrist and bucket, each in the frame of the joint that moves it."""

    def limb(length: float) -> Capsule:
        return Capsule(jnp.zeros(3), jnp.array([0.0, 0.0, length]), jnp.asarray(LIMB))

    return [fixed(shape, (0.0, 0.0, 0.0), friction) for shape in (limb(FORE), limb(WRIST), _bucket())]


def _bucket() -> Union:
    """Five plates around the cavity."""
    (x, y, z), (x_end, y_end, z_end) = CAVITY
    middle_x, middle_z = 0.5 * (x + x_end), 0.5 * (z + z_end)
    half_x, half_z = 0.5 * (x_end - x), 0.5 * (z_end - z)
    wide = y_end + 2 * PLATE
    return Union(
        (
            block((PLATE, wide, half_z + 2 * PLATE), (x - PLATE, 0.0, middle_z)),
            block((half_x, wide, PLATE), (middle_x, 0.0, z - PLATE)),
            block((half_x + PLATE, wide, PLATE), (middle_x + PLATE, 0.0, z_end + PLATE)),  # its edge leads
            block((half_x, PLATE, half_z), (middle_x, y_end + PLATE, middle_z)),
            block((half_x, PLATE, half_z), (middle_x, y - PLATE, middle_z)),
        )
    )


def _allowed(angle: Array, clearance: float, above: float) -> Array:
    """Whether the bucket keeps a clearance from the floor, and from walls below a height, and joints stay above, ().

    clearance, above: [m].
    """
    forearm, wrist, bucket = links_at(angle)
    (x, y, z), (x_end, y_end, z_end) = CAVITY
    sides = (x - 2 * PLATE, x_end + 2 * PLATE), (y - 2 * PLATE, y_end + 2 * PLATE), (z - 2 * PLATE, z_end + 2 * PLATE)
    corners = jnp.array([(a, b, c) for a in sides[0] for b in sides[1] for c in sides[2]])
    place = bucket.position + product(corners, bucket.rotation.T)
    low, high = jnp.array(BED[0]) + clearance, jnp.array(BED[1]) - clearance
    between = ((place[:, :2] >= low) & (place[:, :2] <= high)).all(1)
    joints = jnp.stack([forearm.position[2], wrist.position[2], bucket.position[2]])
    deep = place[:, 2] < clearance
    return ((between | (place[:, 2] > above)) & ~deep).all() & (joints > LIMB + clearance).all()


def _eye_at() -> Pose:
    """The camera looks along -x and down."""
    at, down = EYE
    cosine, sine = math.cos(down), math.sin(down)
    rotation = jnp.array([[-cosine, 0.0, -sine], [0.0, -1.0, 0.0], [-sine, 0.0, cosine]])
    return at_rest(jnp.array(at), rotation)
