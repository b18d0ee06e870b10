"""A tower of helical gears: grains sink through it, and what leaves at the bottom comes in again at the top.

The paper's benchmark of many non-convex bodies. Gears stand one above the other in a shaft; neighbors turn opposite
ways and are twisted opposite ways, so that all carry grains down. One action is the speed of every gear, from -1 to 1
of its own pace, which is drawn at the start. The paper has no reward; here it is what flows.

Gears have involute teeth and are distances on a grid, as all bodies of GranularGym.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.envs.machines.grounds import CANDIDATES, FAR, ball_mass, depth_of, floor, in_layers
from vsr.envs.machines.kinematic_bodies import Felt, Pacing, drive, failure_after, nothing_felt, pacing
from vsr.episode import Transition
from vsr.physics.granular import Body, Box, Grains, GrainState, Pose, at_rest, fixed, grains_of
from vsr.physics.granular.bodies import turn_by
from vsr.physics.granular.passages import Passage, passage
from vsr.sdf import Cylinder, HalfSpace, Inverted, Sampled

PRESSURE_ANGLE = math.radians(20)
"""Between the push of two teeth and the common tangent: that of nearly all gears."""


@dataclass(frozen=True)
class Gear:
    """A gear about the vertical axis, its middle at the origin."""

    teeth: int = 12
    outer: float = 0.3
    """radius at the tips [m]"""
    width: float = 0.2
    """along the axis [m]"""
    helix: float = math.radians(30)
    """between teeth and axis at the pitch circle [rad]; negative: the other way round"""

    def __post_init__(self) -> None:
        if self.teeth < 4 or not (self.outer > 0 and self.width > 0 and abs(self.helix) < 1.5):
            raise ValueError(f"a gear needs 4 teeth or more, a radius and a width above 0; got {self}")

    @property
    def module(self) -> float:
        """Size of a tooth: diameter of the pitch circle over the number of teeth [m]."""
        return 2 * self.outer / (self.teeth + 2)

    @property
    def pitch(self) -> float:
        """Radius of the pitch circle [m]."""
        return self.outer - self.module

    @property
    def root(self) -> float:
        """Radius between the teeth [m]."""
        return self.pitch - 1.25 * self.module

    @property
    def twist(self) -> float:
        """Of the cross-section along the axis [rad/m]."""
        return math.tan(self.helix) / self.pitch

    def half_tooth(self, radius: np.ndarray) -> np.ndarray:
        """Half the angle that a tooth takes at a radius [rad]: its flanks are involutes of the base circle."""
        base = self.pitch * math.cos(PRESSURE_ANGLE)
        angle = np.arccos(np.minimum(base / np.maximum(radius, base), 1))  # straight below the base circle
        at_pitch = 0.5 * math.pi / self.teeth + math.tan(PRESSURE_ANGLE) - PRESSURE_ANGLE
        return np.maximum(at_pitch - (np.tan(angle) - angle), 0)

    def holds(self, point: np.ndarray) -> np.ndarray:
        """Whether points are inside; (..., 3) [m]."""
        radius = np.hypot(point[..., 0], point[..., 1])
        turn = np.arctan2(point[..., 1], point[..., 0]) - self.twist * point[..., 2]
        period = 2 * math.pi / self.teeth
        from_tooth = np.abs((turn + 0.5 * period) % period - 0.5 * period)
        flat = (radius < self.root) | ((radius < self.outer) & (from_tooth < self.half_tooth(radius)))
        return flat & (np.abs(point[..., 2]) < 0.5 * self.width)

    def surface(self, spacing: float) -> np.ndarray:
        """Points all over the surface, no farther apart than about a spacing [m], (points, 3)."""
        heights = np.linspace(-0.5, 0.5, math.ceil(self.width / spacing) + 1) * self.width
        radius, turn = self._outline(spacing)
        turns = turn + self.twist * heights[:, None]
        up = np.broadcast_to(heights[:, None], turns.shape)
        sides = np.stack([radius * np.cos(turns), radius * np.sin(turns), up], -1).reshape(-1, 3)
        across = np.arange(-self.outer, self.outer + spacing, spacing)
        x, y = (part.reshape(-1) for part in np.meshgrid(across, across))
        caps = [np.stack([x, y, np.full_like(x, end)], -1) for end in (0.5 * self.width, -0.5 * self.width)]
        within = [cap[self.holds(cap * [1, 1, 1 - 1e-9])] for cap in caps]
        return np.concatenate([sides, *within])

    def sampled(self, spacing: float, margin: float) -> Sampled:
        """Its distances on a grid up to a margin beyond its bounds [m]; exact to a fraction of the spacing."""
        from scipy.spatial import KDTree

        half = np.array([self.outer, self.outer, 0.5 * self.width]) + margin
        counts = np.ceil(half / spacing).astype(int)
        axes = [spacing * np.arange(-count, count + 1) for count in counts]
        points = np.stack(np.meshgrid(*axes, indexing="ij"), -1)
        away = KDTree(self.surface(0.4 * spacing)).query(points.reshape(-1, 3))[0].reshape(points.shape[:-1])
        value = np.where(self.holds(points), -away, away)
        low = -spacing * counts
        return Sampled(jnp.asarray(value, jnp.float32), jnp.asarray(low, jnp.float32), jnp.float32(spacing))

    def _outline(self, spacing: float) -> tuple[np.ndarray, np.ndarray]:
        """Radius and angle of points around the cross-section [m], [rad]."""
        flank = np.linspace(self.root, self.outer, math.ceil((self.outer - self.root) / spacing) + 1)
        half = self.half_tooth(flank)
        tip = np.linspace(-half[-1], half[-1], math.ceil(2 * half[-1] * self.outer / spacing) + 1)
        gap = 2 * math.pi / self.teeth - half[0]
        valley = np.linspace(half[0], gap, math.ceil((gap - half[0]) * self.root / spacing) + 1)
        radius = np.concatenate([flank, flank, np.full_like(tip, self.outer), np.full_like(valley, self.root)])
        turn = np.concatenate([half, -half, tip, valley])
        teeth = np.arange(self.teeth) * 2 * math.pi / self.teeth
        return np.tile(radius, self.teeth), (teeth[:, None] + turn).reshape(-1)


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
