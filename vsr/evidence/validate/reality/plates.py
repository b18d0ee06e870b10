"""Plates moved through grains by depth and angle, against granular resistive force theory fitted to measurements.

Li, Zhang and Goldman (2013) moved thin plates through poppy seeds and glass spheres. Stress rose in proportion to
depth; how its two components depend on the plate's angle and on the direction of motion had one shape for all media,
and only the scale differed. Here plates are moved through discs, so shapes can be compared, and the scale less so.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.evidence.validate.checks import Findings, absolute
from vsr.evidence.validate.reality.published import published
from vsr.evidence.validate.sand.scenes import (
    GRAVITY,
    RADIUS,
    free_space,
    of_all,
    packed,
    radii,
    settle,
    thrown_in,
    wall,
    weight_of,
    with_body,
)
from vsr.physics.granular import Box, Grains, GrainState, driven, grains_of
from vsr.physics.granular.step import step
from vsr.sdf import Block, Moved
from vsr.terrain.sand import ROLLING

DIAMETER = 2 * RADIUS
BED = (48.0, 25.0)
"""Length, cyclic, and height of the bed of discs [diameters]."""
PLATE = (6.0, 1.0)
"""Length and thickness [diameters]; the measured plates were 4 to 6 times as long as thick."""
SPEED = 0.1
"""Of plates [m/s], a sixth of sqrt(gravity diameter)."""
DEEP = 6.0
"""Depth of the middle of plates that are moved level [diameters]."""
STEP = 0.0055 * float(np.sqrt(RADIUS / GRAVITY))
"""Within the bound for 25 layers of grains (docs/do/sand.md) [s]."""
WINDOW = 200
"""Steps that forces are averaged over."""
TRAVEL = 10.0
"""[diameters]"""
LEFT_OUT = 3.0
"""Travel until the force of a plate that starts amid grains is counted [diameters]."""


class Move(NamedTuple):
    """How a plate is moved."""

    tilt: int
    """of the plate from the level, its leading end up [degrees]: attack angle beta"""
    path: int
    """of its velocity below the level [degrees]: intrusion angle gamma"""
    depth: float = DEEP
    """of its middle at the start [diameters]; plates that go down start at the surface"""


MOVES = (
    Move(0, 90),
    Move(45, 90),
    Move(90, 90),
    Move(0, 45),
    Move(45, 45),
    Move(-45, 45),
    Move(0, 0),
    Move(45, 0),
    Move(-45, 0),
    Move(90, 0),
    Move(0, -90, 10.0),
)
DEPTHS = (3.0, 6.0, 9.0)
"""Of upright plates that are dragged [diameters]."""


def resistance(coefficients: dict[str, float], tilt: float, path: float) -> tuple[float, float]:
    """Stress over depth against the motion along x, and upwards: the published fit; angles [degrees]."""
    b, g = np.radians(tilt), np.radians(path)
    k = coefficients
    along = (
        k["C11"] * np.cos(2 * b + g) + k["C01"] * np.cos(g) + k["C-11"] * np.cos(g - 2 * b) + k["D10"] * np.sin(2 * b)
    )
    up = k["A00"] + k["A10"] * np.cos(2 * b)
    up += k["B11"] * np.sin(2 * b + g) + k["B01"] * np.sin(g) + k["B-11"] * np.sin(g - 2 * b)
    return float(along), float(up)


def exponent_of(depth: np.ndarray, force: np.ndarray) -> float:
    """Of a force over depth, from means over a few ranges of depth: single forces of grains jump down to nothing."""
    order = np.argsort(depth, kind="stable")
    parts = np.array_split(order, min(4, len(order)))
    where, mean = (np.array([values[part].mean() for part in parts]) for values in (depth, force))
    return float(np.polyfit(np.log(where), np.log(np.maximum(mean, 1e-9)), 1)[0])


def beds(packings: tuple[int, ...], friction: float = 0.5, rolling: float | None = ROLLING) -> list[Grains]:
    """Discs at rest over a floor, cyclic along x."""
    size = tuple(DIAMETER * length for length in BED)
    count = round(0.82 * BED[0] * BED[1] * 4 / np.pi)
    loose = []
    for seed in packings:
        radius = radii(count, 0.15, seed)
        loose.append(
            grains_of(
                thrown_in(count, size, radius, seed),
                radius,
                weight_of(2, radius),
                friction=friction,
                rolling=rolling,
                box=Box((0.0, 0.0), (size[0], 1.4 * size[1]), (True, False)),
                bodies=[wall(np.array([0.0, 1.0]), np.zeros(2), friction)],
                grounded=False,
            )
        )
    return settle(loose, 3.0)


def surface_of(grains: Grains) -> float:
    """Height below which a bed would be full at the density that it has amid [m]; also its bulk density [kg/m²]."""
    up = np.asarray(grains.start.position[-1])
    return float(np.quantile(up, 0.985)) + RADIUS


def bulk_density(grains: Grains) -> float:
    """Of the middle half of a bed [kg/m²]."""
    up, top = np.asarray(grains.start.position[-1]), surface_of(grains)
    inside = (up > 0.25 * top) & (up < 0.75 * top)
    mass = np.asarray(grains.mass)[np.asarray(grains.start.id)]
    return float(mass[inside].sum() / (0.5 * top * grains.box.size[0]))


def with_plate(grains: Grains, move: Move) -> Grains:
    """A plate that begins to move after the grains around it have come to rest."""
    tilt, path = np.radians(move.tilt), np.radians(move.path)
    turn = np.array([[np.cos(tilt), -np.sin(tilt)], [np.sin(tilt), np.cos(tilt)]])
    half = 0.5 * DIAMETER * np.array(PLATE)
    shape = Moved(Block(jnp.asarray(half)), jnp.zeros(2), jnp.asarray(turn))
    reach = float(np.abs(turn @ np.diag(half)).sum(1)[1])  # of its lowest corner below its middle
    height = surface_of(grains) + (reach if move.path > 0 else -move.depth * DIAMETER)
    velocity = SPEED * np.array([np.cos(path), -np.sin(path)])
    place = (0.3 * grains.box.size[0], height)
    return with_body(grains, driven(shape, place, velocity.tolist(), float(grains.friction.mean()), begin=0.3))


def _moved(grains: Grains) -> Array:
    """Mean force on the plate in each window of steps [N/m], (windows, 2)."""
    windows = round((0.3 + (TRAVEL + PLATE[0] / 2) * DIAMETER / SPEED) / STEP / WINDOW)

    def window(state: GrainState, _: None) -> tuple[GrainState, Array]:
        def one(_: Array, carry: tuple[GrainState, Array]) -> tuple[GrainState, Array]:
            now, felt = carry
            now, _robots, reactions = step(grains, free_space(), now, (), STEP)
            return now, felt + reactions[-1].impulse

        state, given = jax.lax.fori_loop(0, WINDOW, one, (state, jnp.zeros(2)))
        return state, given / (WINDOW * STEP)

    return jax.lax.scan(window, grains.rest_state(), length=windows)[1]


def slope_of(depth: np.ndarray, stress: np.ndarray) -> np.ndarray:
    """Stress over depth by least squares, a line through the origin; stress: (n, components)."""
    return (depth[:, None] * stress).sum(0) / (depth**2).sum()


def stress_over_depth(grains: Grains, move: Move, force: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both components over depth and the weight of the bed, (2,), and what they were fitted to: depths, stresses."""
    time = (np.arange(len(force)) + 0.5) * WINDOW * STEP
    way = SPEED * np.maximum(time - 0.3, 0) / DIAMETER
    plate = grains.bodies[-1]
    start = float(surface_of(grains) - plate.motion.pose(jnp.zeros(())).position[1]) / DIAMETER
    depth = start + way * np.sin(np.radians(move.path))
    used = (depth > 2) & (way < TRAVEL + PLATE[0] / 2)
    if move.path <= 0:
        used &= (way > (LEFT_OUT if move.path == 0 else 1.0)) & (way < TRAVEL)
    stress = force / (PLATE[0] * DIAMETER) / (bulk_density(grains) * GRAVITY * DIAMETER) * [-1, 1]
    return slope_of(depth[used], stress[used]), depth[used], stress[used]


def check_plates(packings: tuple[int, ...] = (1, 2)) -> Findings:
    """Eleven ways to move a plate, and an upright one at three depths."""
    data = published()["plates"]
    moves = (*MOVES, *(Move(90, 0, depth) for depth in DEPTHS if depth != DEEP))
    lying = beds(packings)
    moved = [(grains, move) for grains in lying for move in moves]
    worlds = [with_plate(grains, move) for grains, move in moved]
    fits = [
        stress_over_depth(world, move, np.asarray(force))
        for world, (_, move), force in zip(worlds, moved, of_all(_moved, worlds), strict=True)
    ]
    slopes = np.array([slope for slope, *_ in fits]).reshape(len(packings), len(moves), 2)
    scale = slopes[:, 0, 1].mean()  # a level plate pressed down
    ours = slopes[:, : len(MOVES)].mean(0) / scale
    spread = slopes[:, : len(MOVES)].std(0) / scale
    theirs = np.array([resistance(data["generic"], move.tilt, move.path) for move in MOVES])
    differ = ours - theirs
    note = (
        f"{lying[0].count} discs, friction {float(lying[0].friction.mean()):g}, plates {PLATE[0]:g} diameters long and "
        f"{PLATE[1]:g} thick, {SPEED:g} m/s, {packed(packings)}; stress over depth, a level plate pressed down being 1"
    )
    poppy, density = data["poppy_seeds_loose"], data["poppy_seeds_density"]
    real = 1e6 * resistance(poppy, 0, 90)[1] / (density * GRAVITY)
    pressed = [exponent_of(depth, stress[:, 1]) for _, depth, stress in fits[:: len(moves)]]
    upright = {move.depth: slopes[:, number, 0].mean() for number, move in enumerate(moves) if move[:2] == (90, 0)}
    depths = np.array(sorted(upright))
    dragged = exponent_of(depths, depths * np.array([upright[depth] for depth in depths]))
    alike = float(np.corrcoef(ours.ravel(), theirs.ravel())[0, 1])
    findings = Findings(
        [
            absolute("exponent of the stress over depth, pressed down", float(np.mean(pressed)), 1, 0.25, "", note),
            absolute("exponent of the stress over depth, dragged upright", dragged, 1, 0.25, "", note),
            absolute("correlation with the published shape", alike, 1, 0.15, "", note),
            absolute("root mean square difference of the shape", float(np.sqrt((differ**2).mean())), 0, 0.2, "", note),
            absolute("stress over depth and the bed's weight, pressed down", float(scale), real, None, "", note),
        ]
    )
    for move, own, other in zip(MOVES, ours, theirs, strict=True):
        for part, name in enumerate(("along", "up")):
            what = f"plate at {move.tilt}, path at {move.path} degrees: {name}"
            findings.rows.append(absolute(what, own[part], other[part], None, "", note))
    findings.series["plates"] = {
        "moves": [[move.tilt, move.path] for move in MOVES],
        "here": ours.tolist(),
        "spread": spread.tolist(),
        "published": theirs.tolist(),
        "scale": float(scale),
    }
    return findings
