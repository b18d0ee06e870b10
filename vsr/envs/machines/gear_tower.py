"""A tower of helical gears: grains sink through it, and what leaves at the bottom comes in again at the top.

The paper's benchmark of many non-convex bodies. Gears stand one above the other in a shaft; neighbors turn opposite
ways and are twisted opposite ways, so that all carry grains down. One action is the speed of every gear, from -1 to 1
of its own pace, which is drawn at the start. The paper has no reward; here it is what flows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.envs.machines.gears import Gear
from vsr.envs.machines.grounds import CANDIDATES, FAR, ball_mass, depth_of, floor, in_layers
from vsr.envs.machines.kinematic_bodies import Felt, Pacing, drive, failure_after, nothing_felt, pacing
from vsr.episode import Transition
from vsr.physics.granular import Body, Box, Grains, GrainState, Pose, at_rest, fixed, grains_of
from vsr.physics.granular.bodies import turn_by
from vsr.physics.granular.passages import Passage, passage
from vsr.sdf import Cylinder, HalfSpace, Inverted

OUTLET = 0.12
"""Height of the room below the gears, from which grains are taken [m]."""
APART = 0.1
"""Between gears, and between the lowest and the outlet [m]."""
GAP = 4.0
"""Between gears and shaft, in radii of a grain."""
INLET = 0.16
"""Height of the inlet [m]."""
TOP_SPIN = 4.0
"""Of a gear [rad/s]."""
SLOWEST = 0.25
"""Pace of a gear, in top spins, at least; drawn."""
LEVELS = 16
"""Into which the tower is divided where the filling is observed."""
INSIDE = 100.0
"""Reward for as many grains as there are that flow through."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class GearTower:
    """All that stays as it is during an episode."""

    grains: Grains
    """with floor, shaft and gears as bodies, stacked above the gears at their start"""
    passage: Passage
    height: Array
    """of each gear's middle [m], (gears,)"""
    pace: Pacing = field(metadata={"static": True})
    top: float = field(metadata={"static": True})
    """of the tower [m]"""

    @property
    def gears(self) -> int:
        """How many."""
        return self.height.shape[0]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class State:
    """All that changes."""

    grains: GrainState
    angle: Array
    """of each gear [rad], (gears,)"""
    spin: Array
    """of each gear under an action of 1, with its direction [rad/s], (gears,)"""
    felt: Felt
    """by each gear in the last interval"""
    flowed: Array
    """grains that have gone through so far, ()"""
    calls: Array
    """actions taken, ()"""
    failure: Array
    """the first that befell grains, 0 if none did (vsr.physics.failure), ()"""


class Observation(NamedTuple):
    """What is known of the tower."""

    angle: Array
    """of each gear [rad], (gears,)"""
    torque: Array
    """of grains on each gear about its axis in the last interval [N m], (gears,)"""
    filling: Array
    """share of grains at each level, the lowest first, (levels,)"""


def scenario(
    gears: int = 3,
    count: int = 4_000,
    *,
    gear: Gear | None = None,
    radius: float = 0.02,
    friction: float = 0.3,
    rolling: float | None = 0.02,
    duration: float = 20.0,
    interval: float = 0.05,
    substeps: int | None = None,
    seed: int = 1,
    slots: int | None = None,
    candidates: int = CANDIDATES,
) -> GearTower:
    """Grains stacked over a number of gears. radius [m]; duration of an episode and interval of an action [s].

    substeps: of grains in an interval; None for as many as make the filling lie still.
    """
    if gears < 1 or count < 1 or not radius > 0:
        raise ValueError(f"a tower needs a gear, a grain and a radius above 0; got {gears}, {count} and {radius:g} m")
    gear = Gear() if gear is None else gear
    shaft = gear.outer + GAP * radius
    height = OUTLET + APART + 0.5 * gear.width + np.arange(gears) * (gear.width + APART)
    above = float(height[-1]) + 0.5 * gear.width + radius
    depth = depth_of(count, radius, math.pi * shaft**2)
    side = shaft / math.sqrt(2) - radius
    place = in_layers(count, radius, (-side, -side), (side, side), np.random.default_rng(seed))
    place[:, 2] += above
    top = max(above + 1.1 * depth, float(place[:, 2].max())) + INLET
    grains = grains_of(
        place,
        radius,
        ball_mass(radius),
        friction=friction,
        rolling=rolling,
        box=Box((-shaft, -shaft, 0.0), (2 * shaft, 2 * shaft, top), (False, False, False)),
        bodies=_bodies(gear, height, shaft, radius, friction),
        grounded=False,
        slots=slots,
        candidates=candidates,
    )
    pace = pacing(duration, interval, radius, depth, substeps)
    outlet = HalfSpace(jnp.array([0.0, 0.0, 1.0]), jnp.asarray(OUTLET))
    back = passage(grains, outlet, (-side, -side, top - INLET), (side, side, top))
    return GearTower(grains, back, jnp.asarray(height, jnp.float32), pace, top)


def reset(key: Array, scenario: GearTower) -> State:
    """Grains stacked over the gears, whose paces the key draws; they fall."""
    pace = jax.random.uniform(key, (scenario.gears,), scenario.height.dtype, SLOWEST, 1)
    return State(
        grains=scenario.grains.rest_state(),
        angle=jnp.zeros_like(pace),
        spin=TOP_SPIN * pace * _ways(scenario.gears),
        felt=nothing_felt(scenario.gears, pace.dtype),
        flowed=jnp.zeros((), jnp.int32),
        calls=jnp.zeros((), jnp.int32),
        failure=jnp.zeros((), jnp.int32),
    )


def observe(scenario: GearTower, state: State) -> Observation:
    """Gears, and how full the tower is."""
    level = jnp.clip(jnp.floor(LEVELS * state.grains.position[2] / scenario.top), 0, LEVELS - 1)
    filling = (level == jnp.arange(LEVELS)[:, None]).mean(1)
    return Observation(angle=state.angle, torque=state.felt.torque[:, 2], filling=filling)


def step(scenario: GearTower, state: State, action: Array) -> tuple[State, Transition]:
    """One control interval; action: speeds of gears over their own, clipped to [-1, 1], (gears,)."""
    pace, spin = scenario.pace, state.spin * jnp.clip(action, -1, 1)
    came = drive(scenario.grains, state.grains, poses_of(scenario, state, spin), pace, scenario.passage)
    after = State(
        grains=came.grains,
        angle=state.angle + pace.interval * spin,
        spin=state.spin,
        felt=came.felt,
        flowed=state.flowed + came.passed,
        calls=state.calls + 1,
        failure=failure_after(scenario.grains, state.failure, came.grains),
    )
    failed = after.failure > 0
    return after, Transition(
        reward=jnp.where(failed, 0, INSIDE * came.passed / scenario.grains.count),
        terminated=failed,
        truncated=after.calls >= pace.limit,
    )


def poses_of(scenario: GearTower, state: State, spin: Array) -> tuple[Pose, ...]:
    """Of all gears, with a spin for each [rad/s], (gears,)."""
    zero, found = jnp.zeros_like(state.angle[0]), []
    for number in range(scenario.gears):
        turned = turn_by(jnp.stack([zero, zero, state.angle[number]]))
        rest = at_rest(jnp.stack([zero, zero, scenario.height[number]]), turned)
        found.append(replace(rest, spin=jnp.stack([zero, zero, spin[number]])))
    return tuple(found)


def _bodies(gear: Gear, height: np.ndarray, shaft: float, radius: float, friction: float) -> list[Body]:
    """Floor, shaft, and gears twisted in turn."""
    right = gear.sampled(0.5 * radius, 2 * radius)
    left = type(right)(right.value[:, ::-1], right.low, right.spacing)  # seen in a mirror
    tube = fixed(Inverted(Cylinder(jnp.asarray(shaft), jnp.asarray(FAR))), (0.0, 0.0, 0.0), friction)
    stacked = [fixed((right, left)[number % 2], (0.0, 0.0, float(z)), friction) for number, z in enumerate(height)]
    return [floor(friction), tube, *stacked]


def _ways(gears: int) -> Array:
    """Direction in which each gear turns so that its teeth lead down."""
    return 1.0 - 2.0 * (jnp.arange(gears) % 2)
