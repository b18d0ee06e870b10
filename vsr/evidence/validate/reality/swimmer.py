"""A body that swims through grains by a traveling wave, against a robot and a lizard that do.

Maladen, Ding, Umbanhowar and Goldman (2011) measured the wave efficiency of a robot under plastic grains: its speed
over that of the wave along its body. It undulates level, so the grains around it bear the same pressure everywhere.
Here two rows of voxels bend a body amid discs that a heavy lid presses: a level layer seen from above, in which
nothing can flow over the body. The lid weighs more than the discs, so that pressure hardly grows with depth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.environment import Environment
from vsr.evidence.validate.checks import Findings, absolute
from vsr.evidence.validate.reality.published import published
from vsr.evidence.validate.sand.scenes import GRAVITY, RADIUS, radii, settle, thrown_in, wall, weight_of
from vsr.physics.engine import ENGINES, assemble_body
from vsr.physics.granular import Box, Grains, fixed, free, grains_of
from vsr.physics.granular.robots import samples_needed
from vsr.robot import Body, Material
from vsr.sdf import Block, HalfSpace
from vsr.terrain.sand import ROLLING
from vsr.world.coupling import advance_coupled
from vsr.world.placement import move_rigidly
from vsr.world.state import WorldModel, world_state

DIAMETER = 2 * RADIUS
SIDE = 1.5 * DIAMETER
"""Of a voxel [m]; the body is two wide."""
ROOM = 24.0
"""Length of the bed beyond that of the body, along which it is cyclic [diameters]."""
HEIGHT = 44.0
"""Of the bed, as it is filled [diameters]."""
LID = 40.0
"""Height of grains that would weigh as much as the lid [diameters]."""
WEAK = 0.5
"""Gravity over that of the earth."""
FREQUENCY = 0.5
"""Of the wave [Hz]; its grains are as little inertial as those of the robot."""
RAMP = 1.5
"""Cycles through which the wave grows; a sudden start turns the body away."""
PER_CYCLE = 32
"""Frames."""
ENGINE = ENGINES["points"]


@dataclass(frozen=True)
class Swim:
    """What is varied."""

    bending: float = 0.2
    """largest change of length of a row of voxels at full control, as a share"""
    voxels: int = 32
    """in each of two rows"""
    friction: float = 0.5
    """of grains with grains"""
    skin: float = 0.3
    """of grains with the body"""
    step: float = 2.5e-4
    """[s]"""
    packing: int = 1
    cycles: float = 3.5


class Swum(NamedTuple):
    """How a body swam."""

    efficiency: float
    """speed over that of the wave"""
    lengths: float
    """body lengths a cycle"""
    steepness: float
    """amplitude over wavelength"""


def swam(track: np.ndarray, per_cycle: int, length: float, cycles: int = 2) -> Swum:
    """From the last whole cycles of a midline that bears one wave, head first, (frames, points, 2), and its length."""
    last = track[-1 - cycles * per_cycle :]
    heading = (last[1:, 0] - last[1:, -1]).mean(0)
    wavelength = float(np.linalg.norm(heading))
    heading = heading / wavelength
    way = last[-1].mean(0) - last[0].mean(0)
    across = last[1:] @ np.array([-heading[1], heading[0]])
    amplitude = np.sqrt(2) * (across - across.mean(1, keepdims=True)).std()
    advance = float(way @ heading) / cycles
    return Swum(advance / wavelength, advance / length, float(amplitude) / wavelength)


def body_of(swim: Swim) -> Body:
    """Two rows of voxels, which change their length along the body."""
    row = "a" * swim.voxels
    material = Material(
        young_modulus=2e7,
        density=850.0,  # of the bed, so that it neither floats nor sinks
        actuation="horizontal",
        max_area_change=swim.bending,
        friction=swim.skin**2 / swim.friction,  # contact takes the geometric mean
    )
    return Body(shape=(row, row), materials={"a": material}, voxel_side=SIDE, engine="points")


def bed_around(swim: Swim) -> tuple[Grains, np.ndarray]:
    """Grains under a lid around a hole for the body, and where its middle is [m]."""
    length, width = swim.voxels * SIDE, 2 * SIDE
    size = length + ROOM * DIAMETER, HEIGHT * DIAMETER
    middle = np.array([0.5, 0.58]) * size  # it turns downwards a little
    count = round(0.8 * (size[0] * size[1] - length * width) / (np.pi * RADIUS**2))
    radius = np.asarray(radii(count, 0.15, swim.packing))
    place = thrown_in(count, size, radius, swim.packing)
    away = np.abs(place - middle) > 0.5 * np.array([length, width]) + DIAMETER
    place, radius = place[away.any(1)], radius[away.any(1)]
    floor = wall(np.array([0.0, 1.0]), np.zeros(2), swim.friction)
    half = 0.5 * jnp.array([length, width]) + 0.2 * DIAMETER
    grains = grains_of(
        place,
        radius,
        weight_of(2, radius),
        friction=swim.friction,
        rolling=ROLLING,
        box=Box((0.0, 0.0), (size[0], 2 * size[1]), (True, False)),
        bodies=[floor, fixed(Block(half), middle.tolist())],
        grounded=False,
        samples=samples_needed(SIDE, RADIUS, 2),
    )
    (grains,) = settle([grains], 3.0)
    top = float(grains.start.position[1].max()) + 1.2 * RADIUS
    weight = 1000.0 * size[0] * LID * DIAMETER
    lid = free(HalfSpace(jnp.array([0.0, -1.0]), jnp.zeros(())), (0.0, top), weight, 1e12, friction=0.0)
    start = replace(grains.start, bodies=(lid.motion,), body_impulse=jnp.zeros_like(grains.start.body_impulse))
    return replace(grains, bodies=(floor, lid), start=start), middle


class Record(NamedTuple):
    """What is kept of a swim."""

    track: np.ndarray
    """midline, head first [m], (frames, points, 2)"""
    outline: np.ndarray
    """all nodes at the end [m], (3, points, 2)"""
    grains: np.ndarray
    """their centers at the end [m], (grains, 2)"""
    radius: np.ndarray
    """[m], (grains,)"""
    period: float
    """of the bed along x [m]"""
    overflow: int


def swim_through(swim: Swim) -> Record:
    """A wave from the head to the tail, whose amplitude grows at first."""
    grains, middle = bed_around(swim)
    model = assemble_body(body_of(swim))
    rest = ENGINE.rest_state(model)
    robot = move_rigidly(model, rest, shift=jnp.asarray(middle) - ENGINE.center(model, rest))
    environment = Environment(gravity=jnp.asarray(WEAK * GRAVITY), terrain=None)
    world = WorldModel((model,), environment, {"grains": grains})
    state = world_state(world, (robot,), jax.random.key(0))
    along = (jnp.arange(swim.voxels) + 0.5) / swim.voxels
    sides = jnp.array([[1.0], [-1.0]])
    count = round(1 / FREQUENCY / PER_CYCLE / swim.step)

    def frame(carry: tuple, cycle: Array) -> tuple[tuple, Array]:
        control = jnp.clip(cycle / RAMP, 0, 1) * sides * jnp.sin(2 * jnp.pi * (cycle - along))

        def one(_: Array, now: tuple) -> tuple:
            robots, systems = now
            robots, systems, *_rest = advance_coupled(
                world.robots, world.environment, world.systems, robots, systems, (control,), substep=swim.step, count=1
            )
            return robots, systems

        carry = jax.lax.fori_loop(0, count, one, carry)
        return carry, carry[0][0].position[0, 1]

    # The lid presses for half a cycle before the body moves.
    cycle = jnp.arange(-PER_CYCLE // 2, round(PER_CYCLE * swim.cycles) + 1) / PER_CYCLE
    start = state.robots, state.systems
    (robots, systems), track = jax.jit(lambda carry: jax.lax.scan(frame, carry, cycle))(start)
    seen = systems["grains"]
    return Record(
        np.asarray(track),
        np.asarray(robots[0].position[0]),
        np.asarray(seen.position).T,
        np.asarray(grains.radius)[np.asarray(seen.id)],
        grains.box.size[0],
        int(seen.overflow.max()),
    )


CASES = {
    "default": (Swim(), Swim(packing=2)),
    "gentler wave": (Swim(bending=0.16),),
    "slick skin": (Swim(skin=0.1),),
    "slick grains": (Swim(friction=0.2),),
    "half steps": (Swim(step=1.25e-4),),
}
"""Swims by name; the second in another packing."""


def check_swimmer(cases: Mapping[str, Sequence[Swim]] = CASES) -> Findings:
    """The robot's efficiency, and how it changes with friction."""
    data = published()["swimmer"]
    found: dict[str, list[Swum]] = {}
    records: list[Record] = []
    for name, swims in cases.items():
        found[name] = []
        for swim in swims:
            records.append(swim_through(swim))
            found[name].append(swam(records[-1].track, PER_CYCLE, swim.voxels * SIDE))
    first = found["default"]
    efficiency = {name: float(np.mean([one.efficiency for one in several])) for name, several in found.items()}
    base = efficiency["default"]
    middle, _ = data["robot_efficiency"]
    note = (
        f"{len(records[0].grains)} discs under a lid, friction {Swim.friction:g}, with the body {Swim.skin:g}; body of "
        f"2 x {Swim.voxels} voxels, {Swim.voxels * SIDE / DIAMETER:g} by {2 * SIDE / DIAMETER:g} diameters, "
        f"{FREQUENCY:g} Hz, last 2 of {Swim.cycles} cycles, mean of {len(first)} packings"
    )
    lengths, steepness = (float(np.mean([getattr(one, name) for one in first])) for name in ("lengths", "steepness"))
    spread = float(np.std([one.efficiency for one in first]))
    slick, smooth = efficiency["slick skin"] - base, base - efficiency["slick grains"]
    overflow = max(record.overflow for record in records)
    clear = min(float(record.track[..., 1].min()) for record in records) / DIAMETER
    findings = Findings(
        [
            absolute("wave efficiency", base, middle, None, "", note),
            absolute("its standard deviation over packings", spread, 0, None, "", note),
            absolute("body lengths a cycle", lengths, data["robot_most_lengths_a_cycle"], None, "", note),
            absolute("amplitude over wavelength", steepness, data["steepness_of_most_speed"], 0.06, "", note),
            absolute("rise of efficiency with a slick skin, at least 0", min(0.0, slick), 0, 0.0, "", note),
            absolute("rise of efficiency with rough grains, at least 0", min(0.0, smooth), 0, 0.0, "", note),
            absolute("change of efficiency with half the step", efficiency["half steps"] - base, 0, 0.05, "", note),
            absolute("grains that found no place in a list", overflow, 0, 0, "", note),
            absolute("depth of the body below the floor", min(0.0, clear - 1.5), 0, 0.0, "diameters", note),
        ]
    )
    for name, several in found.items():
        for one in several:
            findings.rows.append(absolute(f"efficiency, {name}", one.efficiency, middle, None, "", note))
    findings.series["swimmer"] = {
        "published": data["robot_efficiency"],
        "cases": {name: [one.efficiency for one in several] for name, several in found.items()},
        "steepness": {name: [one.steepness for one in several] for name, several in found.items()},
        "frame": frame_of(records[0]),
    }
    return findings


def frame_of(record: Record) -> dict[str, Any]:
    """The end of a swim as a figure needs it, in diameters, with the body amid the bed."""
    rows = record.outline
    outline = np.concatenate([rows[0], rows[1:, -1], rows[2, -2::-1], rows[1:2, 0]])
    way = record.track.mean(1)
    left = float(outline[:, 0].mean()) - 0.5 * record.period
    return {
        "grains": (record.grains / DIAMETER).round(3).tolist(),
        "radius": (record.radius / DIAMETER).round(3).tolist(),
        "outline": (outline / DIAMETER).round(3).tolist(),
        "way": (way / DIAMETER).round(3).tolist(),
        "left": left / DIAMETER,
        "period": record.period / DIAMETER,
    }
