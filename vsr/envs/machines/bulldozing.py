"""Bulldozing: a tracked vehicle with a blade pushes a heap into a goal (GranularGym's task of the same name).

The vehicle goes where its tracks take it, whatever the grains do; what they do to it is in `State.felt`. One action
is (forward, turn), each from -1 to 1 of the top speeds. World, goal, cameras, number of grains, times and reward are
those of the paper and its release; vehicle and top speeds are our own.
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
from vsr.envs.machines.cameras import Eye, Sky, eye_view, sky_view
from vsr.envs.machines.grounds import (
    CANDIDATES,
    ball_mass,
    block,
    depth_of,
    floor,
    in_layers,
    moved_material,
    settled,
    share_inside,
    walls,
)
from vsr.envs.machines.kinematic_bodies import Felt, Pacing, drive, failure_after, leading_to, nothing_felt, pacing
from vsr.episode import Transition
from vsr.physics.granular import Body, Box, Grains, GrainState, Pose, at_rest, fixed, grains_of
from vsr.sdf import Union

WORLD = (-4.0, -2.0), (4.0, 2.0)
"""Lowest and highest corner [m]; walls stand there."""
CEILING = 4.0
"""Of the world, where the sky camera is [m]."""
GOAL = (1.0, -1.0), (3.0, 1.0)
"""[m]"""
HEAP = (-2.0, -0.8), (-0.4, 0.8)
"""On which grains lie at the start [m]."""
START = -3.2, 0.9
"""Of the vehicle: x, and y drawn up to so far from the middle [m]."""
TURNED = 0.5
"""At the start, at most [rad], drawn."""
TOP_SPEED = 1.0
"""Forward and backward [m/s]."""
TOP_TURN = 1.5
"""[rad/s]"""
FOOTPRINT = (-0.36, -0.4), (0.6, 0.4)
"""Of the vehicle, its blade included, in its own axes [m]."""
CLEARANCE = 2.0
"""Kept between vehicle and walls, in diameters of a grain, so that none is crushed there."""
EYE = (0.1, 0.0, 0.5), 0.35
"""Place of the camera in the vehicle's frame [m], and how far it looks down [rad]."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Bulldozing:
    """All that stays as it is during an episode."""

    grains: Grains
    """with floor, walls, hull and blade as bodies; the heap lies at rest at their start"""
    pace: Pacing = field(metadata={"static": True})
    sky: Sky = field(default=Sky(WORLD[0], WORLD[1], CEILING), metadata={"static": True})
    eye: Eye = field(default=Eye(), metadata={"static": True})


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class State:
    """All that changes."""

    grains: GrainState
    place: Array
    """of the vehicle: x, y [m] and yaw [rad], (3,)"""
    felt: Felt
    """by hull and blade in the last interval"""
    calls: Array
    """actions taken, ()"""
    failure: Array
    """the first that befell grains, 0 if none did (vsr.physics.failure), ()"""


class Observation(NamedTuple):
    """What the driver knows."""

    ego: Array
    """depth out of the windshield [m], (36, 36)"""
    sky: Array
    """depth from above [m], (72, 36), along x first"""
    place: Array
    """x, y [m] and yaw [rad], (3,)"""
    force: Array
    """that grains exerted on hull and blade together in the last interval, in the vehicle's axes [N], (3,)"""


def scenario(
    count: int = 10_000,
    *,
    radius: float = 0.02,
    friction: float = 0.5,
    rolling: float | None = None,
    duration: float = 60.0,
    interval: float = 0.1,
    substeps: int | None = None,
    seed: int = 1,
    slots: int | None = None,
    candidates: int = CANDIDATES,
) -> Bulldozing:
    """A heap of grains that lies at rest. radius [m]; duration of an episode and interval of an action [s].

    substeps: of grains in an interval; None for as many as make a heap lie still.
    """
    if count < 1 or not radius > 0:
        raise ValueError(f"a heap needs a grain and a radius above 0; got {count} and {radius:g} m")
    place = in_layers(count, radius, *HEAP, np.random.default_rng(seed))
    tall = float(place[:, 2].max()) + radius
    grains = grains_of(
        place,
        radius,
        ball_mass(radius),
        friction=friction,
        rolling=rolling,
        box=_cells(radius, tall),
        bodies=[floor(friction), *walls(*WORLD, friction), *vehicle(friction)],
        grounded=False,
        slots=slots,
        candidates=candidates,
    )
    area = (HEAP[1][0] - HEAP[0][0]) * (HEAP[1][1] - HEAP[0][1])
    pace = pacing(duration, interval, radius, depth_of(count, radius, area), substeps)
    return Bulldozing(settled(grains, pace, 1.0, machine=2, smooth=0.3), pace)


def vehicle(friction: float) -> list[Body]:
    """Hull and blade; x is forward and z up, the origin on the ground between the tracks."""
    hull = Union(
        (
            block((0.35, 0.08, 0.11), (0.0, 0.22, 0.11)),
            block((0.35, 0.08, 0.11), (0.0, -0.22, 0.11)),
            block((0.4, 0.16, 0.14), (0.05, 0.0, 0.14)),
            block((0.14, 0.15, 0.12), (-0.1, 0.0, 0.38)),
        )
    )
    blade = Union(
        (
            block((0.08, 0.3, 0.08), (0.38, 0.0, 0.08)),  # what holds it: no grain gets behind the blade
            block((0.025, 0.4, 0.15), (0.475, 0.0, 0.15)),
            block((0.06, 0.025, 0.15), (0.54, 0.375, 0.15)),
            block((0.06, 0.025, 0.15), (0.54, -0.375, 0.15)),
        )
    )
    return [fixed(shape, (0.0, 0.0, 0.0), friction) for shape in (hull, blade)]


def reset(key: Array, scenario: Bulldozing) -> State:
    """The heap at rest, and the vehicle beside it at a place that the key draws."""
    grains = scenario.grains
    aside, yaw = jax.random.uniform(key, (2,), grains.radius.dtype, -1, 1)
    place = jnp.stack([jnp.full_like(aside, START[0]), START[1] * aside, TURNED * yaw])
    return State(
        grains=grains.rest_state(),
        place=place,
        felt=nothing_felt(2, place.dtype),
        calls=jnp.zeros((), jnp.int32),
        failure=jnp.zeros((), jnp.int32),
    )


def observe(scenario: Bulldozing, state: State) -> Observation:
    """Both cameras, and where the vehicle is."""
    grains = scenario.grains
    here = pose_at(state.place)
    solids = [(body, here) for body in grains.bodies[3:]]
    around = [(body, body.motion.at) for body in grains.bodies[1:3]]
    own = product(here.rotation.T, state.felt.force.sum(0))
    return Observation(
        # The hull is behind the camera.
        ego=eye_view(scenario.eye, _eye_at(here), grains, state.grains, [solids[1], *around]),
        sky=sky_view(scenario.sky, grains, state.grains, solids),
        place=state.place,
        force=own,
    )


def step(scenario: Bulldozing, state: State, action: Array) -> tuple[State, Transition]:
    """One control interval; action: forward and turn, clipped to [-1, 1], (2,)."""
    grains, pace = scenario.grains, scenario.pace
    place = driven_to(state.place, jnp.clip(action, -1, 1), pace.interval, CLEARANCE * 2 * grains.largest)
    pose = leading_to(pose_at(state.place), pose_at(place), pace.interval)
    came = drive(grains, state.grains, (pose, pose), pace)
    after = State(
        grains=came.grains,
        place=place,
        felt=came.felt,
        calls=state.calls + 1,
        failure=failure_after(grains, state.failure, came.grains),
    )
    failed = after.failure > 0
    return after, Transition(
        reward=jnp.where(failed, 0, moved_material(came.grains.position, *GOAL)),
        terminated=failed,
        truncated=after.calls >= pace.limit,
    )


def share_in_goal(state: State) -> Array:
    """Of grains, ()."""
    return share_inside(state.grains.position, *GOAL)


def pose_at(place: Array) -> Pose:
    """Of the vehicle on the ground; place: x, y [m] and yaw [rad], (3,)."""
    x, y, yaw = place
    return at_rest(jnp.stack([x, y, jnp.zeros_like(x)]), _turned(yaw))


def driven_to(place: Array, action: Array, interval: float, clearance: float) -> Array:
    """Where tracks take the vehicle in an interval [s], on an arc, no nearer to walls than a clearance [m]; (3,)."""
    x, y, yaw = place
    way, turn = TOP_SPEED * interval * action[0], TOP_TURN * interval * action[1]
    chord = way * jnp.sinc(0.5 * turn / jnp.pi)
    towards = yaw + 0.5 * turn
    wanted = jnp.stack([x + chord * jnp.cos(towards), y + chord * jnp.sin(towards)])
    after = yaw + turn
    corners = jnp.array(
        [(a, b) for a in (FOOTPRINT[0][0], FOOTPRINT[1][0]) for b in (FOOTPRINT[0][1], FOOTPRINT[1][1])]
    )
    around = product(corners, _turned(after)[:2, :2].T)
    low = jnp.array(WORLD[0]) + clearance - around.min(0)
    high = jnp.array(WORLD[1]) - clearance - around.max(0)
    return jnp.concatenate([jnp.clip(wanted, low, high), after[None]])


def _eye_at(vehicle: Pose) -> Pose:
    """Where the camera is."""
    at, down = EYE
    cosine, sine = math.cos(down), math.sin(down)
    tilt = jnp.array([[cosine, 0, sine], [0, 1, 0], [-sine, 0, cosine]])
    return at_rest(vehicle.position + product(vehicle.rotation, jnp.array(at)), product(vehicle.rotation, tilt))


def _turned(yaw: Array) -> Array:
    """About the vertical, (3, 3)."""
    cosine, sine, zero = jnp.cos(yaw), jnp.sin(yaw), jnp.zeros_like(yaw)
    return jnp.stack(
        [
            jnp.stack([cosine, -sine, zero]),
            jnp.stack([sine, cosine, zero]),
            jnp.stack([zero, zero, zero + 1]),
        ]
    )


def _cells(radius: float, tall: float) -> Box:
    """The region of cells: as high as heaps get, for cells that nobody visits cost memory."""
    (x, y), (x_end, y_end) = WORLD
    return Box((x, y, 0.0), (x_end - x, y_end - y, max(1.5 * tall, 12 * radius)), (False, False, False))
