"""Grains in containers, and what flows out of them: silo, hourglass, heap.

A silo: walls carry what the floor does not (Janssen), and both together carry the weight.

As in the experiments, the floor is let down a little, so that friction at the walls is awake: how much it carries after
grains were only thrown in is a matter of how.

Grains that flow out of a hole in the floor (Beverloo's law).

Beverloo, Leniger and van de Velde (1961): the rate is C rho sqrt(g) (D - k d)^p through a hole of width D, of grains of
diameter d; p = 5/2 for a round hole, 3/2 for a slit or in 2-D.

The slope that grains are left in when a gate is let down before them and they pour over the edge of a ledge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.compute.vector import Vector
from vsr.evidence.validate.checks import Findings, absolute
from vsr.evidence.validate.sand.scenes import (
    GRAVITY,
    PACKINGS,
    RADIUS,
    STEP,
    TURNING,
    container,
    free_space,
    in_container,
    live,
    of_all,
    packed,
    radii,
    settle,
    thrown_in,
    wall,
    weight_of,
)
from vsr.physics.granular import Box, Grains, GrainState, driven, fixed, grains_of
from vsr.physics.granular.step import step
from vsr.sdf import Ball, Block
from vsr.terrain.sand import ROLLING

# Silo

FILLINGS = {2: (150, 300, 600), 3: (200, 400, 800)}
"""Grains in silos of equal width."""
WIDTH = {2: 10, 3: 5}
"""Of the silo, in diameters."""
FILLED = 2.5
"""When the floor begins to move [s]."""
LET_DOWN = 1.5
"""How long it has moved when loads are taken [s] ..."""
WEIGHED = 0.5
"""... for so long [s]."""
LOWERED = 0.02
"""How fast it is let down [m/s]."""


def check_silo(dimension: int, packings: Sequence[int] = PACKINGS) -> Findings:
    """Three fillings of a silo with rough walls: floor and walls against the weight, and what the floor bears."""
    unit = "N/m" if dimension == 2 else "N"
    note = (
        f"{dimension}-D, {WIDTH[dimension]} diameters wide, grains that turn, friction 0.5 everywhere, floor let down "
        f"by {1000 * LOWERED:g} mm/s, {packed(packings)}"
    )
    findings, floors, weights = Findings(), [], []
    for count in FILLINGS[dimension]:
        worlds = [silo(dimension, count, seed) for seed in packings]
        weight = np.array([float(jnp.sum(world.mass)) * GRAVITY for world in worlds])
        pushes = np.stack([np.asarray(found) for found in of_all(_loads, worlds)])
        worst = np.abs(pushes.sum(1) / weight - 1).max()
        name = f"floor + walls against the weight, {count} grains, worst packing"
        findings.rows.append(absolute(name, 100 * worst, 0, 1.0, "%", note))
        floors.append(pushes[:, 0])
        weights.append(weight)
    loads, weight = np.stack(floors), np.stack(weights).mean(1)
    mean = loads.mean(1)
    findings.rows += [
        absolute(f"floor's share of the weight, fullest, {dimension}-D", mean[2] / weight[2], 0, 0.5, "", note),
        absolute(
            f"floor's share of what the last doubling added, {dimension}-D",
            (mean[2] - mean[1]) / (weight[2] - weight[1]),
            0,
            0.25,
            "",
            note,
        ),
        absolute(
            f"floor's share of what the first doubling added, {dimension}-D",
            (mean[1] - mean[0]) / (weight[1] - weight[0]),
            0,
            None,
            "",
            note,
        ),
        absolute(
            f"standard deviation of the floor's load, fullest, over its mean, {dimension}-D",
            loads[2].std() / mean[2],
            0,
            None,
            "",
            note,
        ),
    ]
    findings.series[f"silo_{dimension}d"] = {
        "weight": weight.tolist(),
        "floor": mean.tolist(),
        "spread": loads.std(1).tolist(),
        "unit": unit,
    }
    return findings


def silo(dimension: int, count: int, seed: int) -> Grains:
    """Grains to be thrown into a silo, whose floor is the first body."""
    width = 2 * RADIUS * WIDTH[dimension] * 1.06
    levels = count / (0.8 * WIDTH[dimension] ** (dimension - 1))
    size = (*(width,) * (dimension - 1), 2 * RADIUS * (1.5 * levels + 4))
    grains = in_container(dimension, count, size, friction=0.5, seed=seed, rolling=TURNING)
    down = (*(0.0,) * (dimension - 1), -LOWERED)
    floor = driven(grains.bodies[0].shape, (0.0,) * dimension, down, 0.5, begin=FILLED)
    return replace(grains, bodies=(floor, *grains.bodies[1:]))


def _loads(grains: Grains) -> jnp.ndarray:
    """Mean vertical forces on the floor and on all walls [N], (2,)."""
    lived = live(
        grains,
        FILLED + LET_DOWN + WEIGHED,
        smooth=0.5 * FILLED,
        last=WEIGHED,
        observe=lambda before, now, reactions: jnp.stack([-felt.impulse[-1] / STEP for felt in reactions]),
    )
    return jnp.stack([lived.mean[0], lived.mean[1:].sum()])


# Hourglass

LOST = 1.4
"""Of the width that does not count, in diameters (Beverloo's k)."""
LEVELS = 8
"""At which grains that fell are put back, a diameter apart, one after the other ..."""
DROPPED = 1.0
"""... with this speed [m/s], so that they are gone when the next come."""
FAR = 2.0
"""Half of how far a plate reaches from its hole [m]."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class PiercedPlate:
    """A wide level plate about the origin with a hole: a slit in 2-D, round in 3-D."""

    half: Array
    """half the hole's width [m], (); below 0 there is none"""
    thick: Array
    """half the plate's thickness [m], ()"""

    def distance(self, point: Vector) -> Array:
        *level, up = point
        away = Ball(jnp.zeros(())).distance(tuple(level)) - self.half - FAR
        return Block(jnp.stack([jnp.full_like(self.thick, FAR), self.thick])).distance((away, up))


@dataclass(frozen=True)
class Hourglass:
    """How large it is."""

    dimension: int
    holes: tuple[float, ...]
    """widths, in diameters"""
    width: float
    """of the box, in diameters: at least 2.5 times the widest hole (Mankoc et al. 2007)"""
    count: int
    """grains: enough for a filling 1.2 times as high as the box is wide"""
    packings: Sequence[int] = PACKINGS
    seconds: float = 1.5
    """how long grains are counted [s], half a second after the hole was opened"""


PLANE = Hourglass(2, (6.5, 8.0, 10.0, 12.0), 30.0, 1150)
SPACE = Hourglass(3, (6.0, 6.7, 7.4, 8.0), 20.0, 11000)
"""A hole of 5 diameters is blocked within half a second in each of three packings, as one in 2-D below 6.5."""
EXPONENT = {2: (1.5, 0.2), 3: (2.5, 0.3)}
"""Of the law, and how far from it we may be."""


def check_hourglass(size: Hourglass) -> Findings:
    """The rate of flow over the width of the hole."""
    dimension, holes = size.dimension, np.array(size.holes)
    lying = settle([_closed(size, seed) for seed in size.packings], 1.5)
    worlds = [_opened(world, hole) for world in lying for hole in holes]
    rates = np.array(of_all(lambda world: _rate(world, size.seconds), worlds)).reshape(len(lying), len(holes))
    expected, tolerance = EXPONENT[dimension]
    # By an arch, at some time: next to nothing of what the law makes of the flow through the widest hole.
    blocked = rates < 0.1 * rates[:, -1:] * ((holes - LOST) / (holes[-1] - LOST)) ** expected
    kept = rates[~blocked.any(1)]
    powers = np.polyfit(np.log(holes - LOST), np.log(kept).T, 1)[0] if len(kept) else np.array([np.nan])
    dense = {2: 0.82, 3: 0.58}[dimension] * 1000
    law = dense * np.sqrt(GRAVITY) * (2 * RADIUS * (holes[-1] - LOST)) ** expected
    constant = rates[:, -1].mean() * weight_of(dimension) / law
    note = (
        f"{dimension}-D, {size.count} grains that turn, friction 0.3, box of {size.width:g} diameters, holes of "
        f"{holes[0]:g} to {holes[-1]:g} less {LOST:g}; what falls is put back on top; {packed(size.packings)}"
    )
    findings = Findings(
        [
            absolute(f"exponent of the rate of flow, {dimension}-D", powers.mean(), expected, tolerance, "", note),
            absolute(f"its standard deviation over packings, {dimension}-D", powers.std(), 0, None, "", note),
            absolute(f"holes that were blocked, {dimension}-D", blocked.sum(), 0, 0, "", note),
            absolute(f"Beverloo's C at the widest hole, {dimension}-D", constant, 0.58, None, "", note),
        ]
    )
    findings.series[f"hourglass_{dimension}d"] = {
        "hole": list(size.holes),
        "rate": rates.mean(0).tolist(),
        "spread": rates.std(0).tolist(),
        "exponent": float(powers.mean()),
    }
    return findings


def _closed(size: Hourglass, seed: int) -> Grains:
    """Grains thrown on the plate without its hole."""
    dimension, diameter = size.dimension, 2 * RADIUS
    width = diameter * size.width
    across = size.width ** (dimension - 1)
    high = diameter * (1.8 * size.count / across + LEVELS + 4)
    level = (width,) * (dimension - 1)
    radius, thick = radii(size.count, 0.15, seed), 0.5 * RADIUS
    middle = (*(0.5 * width,) * (dimension - 1), -thick)
    plate = fixed(PiercedPlate(jnp.asarray(-1.0), jnp.asarray(thick)), middle, 0.5)
    return grains_of(
        thrown_in(size.count, (*level, high), radius, seed),
        radius,
        weight_of(dimension, radius),
        friction=0.3,
        rolling=TURNING,  # grains that cannot turn block such holes
        box=Box((*(0.0,) * (dimension - 1), -0.3), (*level, high + 0.3), (False,) * dimension),
        bodies=[plate, *container((*level, high), 0.5)[1:]],
        grounded=False,
    )


def _opened(grains: Grains, hole: float) -> Grains:
    plate, *walls = grains.bodies
    pierced = replace(plate, shape=replace(plate.shape, half=jnp.asarray(RADIUS * hole, jnp.float32)))
    return replace(grains, bodies=(pierced, *walls))


def _rate(grains: Grains, seconds: float) -> Array:
    """Grains that fall through in a second, ()."""
    dimension, diameter = grains.dimension, 2 * RADIUS
    top = grains.start.position[-1].max() + diameter
    width = jnp.asarray(grains.box.size[:-1])
    # Places that fill a line or a square evenly, however many there are.
    ratio = jnp.array([0.618034] if dimension == 2 else [0.754878, 0.569840])
    on_a_level = 8 * (dimension - 1)
    begin = round(0.5 / STEP)

    def one(number: Array, carry: tuple[GrainState, Array, Array]) -> tuple[GrainState, Array, Array]:
        state, before, counted = carry
        state, _, _ = step(grains, free_space(), state, (), STEP)
        fell = state.position[-1] < -0.2
        order = before + jnp.cumsum(fell)
        high = top + diameter * (order // on_a_level % LEVELS)
        level = width[:, None] * (0.1 + 0.8 * jnp.mod(order * ratio[:, None], 1.0))
        place = jnp.concatenate([level, high[None]])
        dropped = jnp.zeros((dimension, 1)).at[-1].set(-DROPPED)
        state = replace(
            state,
            position=jnp.where(fell, place, state.position),
            velocity=jnp.where(fell, dropped, state.velocity),
        )
        lost = fell.sum()
        return state, before + lost, counted + jnp.where(number >= begin, lost, 0)

    none = jnp.zeros((), jnp.int32)
    count = begin + round(seconds / STEP)
    _, _, counted = jax.lax.fori_loop(0, count, one, (grains.rest_state(), none, none))
    return counted / ((count - begin) * STEP)


# Heap

FALLING = 1.5
"""After which the top of the gate is down at that of the filling [s] ..."""
SINKING = 0.4
"""... as it sinks at this speed all the time [m/s]."""
RESTING = 1.0
"""After it is down [s]."""
ACCEPTED = {(2, TURNING): (12.0, 22.0), (3, TURNING): (17.0, 27.0), (2, ROLLING): (25.0, 35.0)}
"""Slopes at friction 0.5 by dimension and rolling resistance [degrees]: our choice, lower for grains that roll; no
measured sand was compared."""
KINDS = {None: "still", TURNING: "turning", ROLLING: "sand"}


@dataclass(frozen=True)
class Ledge:
    """Sizes in diameters."""

    dimension: int
    count: int
    long: float
    """from the wall at the back to the edge"""
    high: float
    """of the filling, about"""
    pit: tuple[float, float]
    """length and depth of where grains fall"""
    wide: float = 4.2
    """in 3-D, across: cyclic, so that there are no walls"""


LEDGES = {
    2: Ledge(2, 330, 16.0, 20.0, (24.0, 16.0)),
    3: Ledge(3, 650, 14.0, 10.0, (16.0, 11.0)),
}


def check_heap(
    dimension: int, rolling: float | None, frictions: Sequence[float], packings: Sequence[int] = PACKINGS
) -> Findings:
    """Steeper with more friction, and within the accepted slopes."""
    ledge = LEDGES[dimension]
    worlds = [_filled(ledge, friction, rolling, seed) for seed in packings for friction in frictions]
    seconds = FALLING + 2 * RADIUS * ledge.high / SINKING + RESTING
    ends = of_all(lambda world: live(world, seconds, smooth=0.5 * FALLING).state.position, worlds)
    slopes = np.array([_slope(ledge, np.asarray(end)) for end in ends]).reshape(len(packings), len(frictions))
    mean, spread = slopes.mean(0), slopes.std(0)
    turning = "do not turn" if rolling is None else f"turn, rolling resistance {rolling:g}"
    note = f"{dimension}-D, {ledge.count} grains that {turning}, {packed(packings)}"
    rows = []
    for friction, slope, deviation in zip(frictions, mean, spread, strict=True):
        rows.append(absolute(f"slope at friction {friction:g}, {dimension}-D", slope, 0, None, "°", note))
        if len(packings) > 1:
            rows.append(absolute("its standard deviation over packings", deviation, 0, None, "°", note))
    if rolling is not None:  # who cannot turn stands in towers, and how steep is a matter of chance
        upto = frictions.index(0.5) + 1
        low, high = ACCEPTED[dimension, rolling]
        rises = min(0.0, float(np.diff(mean[:upto]).min()))
        rows += [
            absolute(f"least rise from friction to friction up to 0.5, {dimension}-D", rises, 0, 0.0, "°", note),
            absolute(
                f"slope at friction 0.5 against {low:g} to {high:g}°, {dimension}-D",
                mean[upto - 1],
                0.5 * (low + high),
                0.5 * (high - low),
                "°",
                note,
            ),
        ]
        if len(frictions) > upto:
            name = f"fall of the slope beyond friction 0.5, {dimension}-D"
            rows.append(absolute(name, max(0.0, float(mean[upto - 1] - mean[upto:].min())), 0, 1.0, "°", note))
    findings = Findings(rows)
    findings.series[f"heap_{dimension}d_{KINDS[rolling]}"] = {
        "friction": list(frictions),
        "slope": mean.tolist(),
        "spread": spread.tolist(),
    }
    return findings


def _filled(ledge: Ledge, friction: float, rolling: float | None, seed: int) -> Grains:
    """Grains to be thrown on a ledge, between a wall and a gate; beyond the gate is a pit."""
    dimension, diameter = ledge.dimension, 2 * RADIUS
    across = (diameter * ledge.wide,) * (dimension - 2)
    long, high = diameter * ledge.long, diameter * ledge.high
    pit, deep = diameter * ledge.pit[0], diameter * ledge.pit[1]
    tall, gate = 3.0 * high, high + SINKING * FALLING
    radius = radii(ledge.count, 0.15, seed)
    nowhere = (0.0,) * (dimension - 2)
    aside, up = np.eye(dimension)[0], np.eye(dimension)[-1]
    bodies = [
        fixed(Block(jnp.array([long, *across, deep])), (0.0, *nowhere, -deep), friction),
        wall(aside, np.zeros(dimension), friction),
        wall(up, -deep * up, friction),
        wall(-aside, (long + pit) * aside, friction),
        driven(
            Block(jnp.array([RADIUS, *across, 0.5 * gate])),
            (long + RADIUS, *nowhere, 0.5 * gate),
            (0.0, *nowhere, -SINKING),
            0.0,
        ),
    ]
    return grains_of(
        thrown_in(ledge.count, (long, *across, tall), radius, seed),
        radius,
        weight_of(dimension, radius),
        friction=friction,
        rolling=rolling,
        box=Box((0.0, *nowhere, -deep), (long + pit, *across, deep + tall), (False, *(True,) * (dimension - 2), False)),
        bodies=bodies,
        grounded=False,
    )


def _slope(ledge: Ledge, position: np.ndarray) -> float:
    """Of the surface between two diameters from the wall and two from the edge [degrees]; position: (dimension, n)."""
    diameter = 2 * RADIUS
    bins = diameter * np.arange(2, ledge.long - 2)
    x, up = position[0], position[-1]
    top = np.array([up[(x >= b) & (x < b + diameter)].max(initial=0.0) for b in bins])
    return float(np.degrees(np.arctan(-np.polyfit(bins, top, 1)[0])))
