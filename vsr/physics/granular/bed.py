"""Beds of grains: thrown in at random, settled, and kept, so that every robot finds the same sand.

A bed takes seconds to settle and is needed at every run: it is kept in memory, and on disk by its description.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
from collections.abc import Callable
from dataclasses import fields, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.arrays import CorruptFileError, packed, read_arrays
from vsr.environment import Environment
from vsr.physics.granular.model import SKIN, Box, GrainState, PairNumbers, pair_numbers
from vsr.physics.granular.robots import samples_needed
from vsr.physics.granular.step import step
from vsr.physics.granular.system import Grains, candidates_needed, grains_of, overflow_advice, slots_needed
from vsr.spec import InfeasibleError
from vsr.terrain.sand import Sand
from vsr.terrain.shapes import Load

VERSION = 8
"""Of how beds are made: another number, and those on disk are made anew."""
ROOM = 1.15
"""Between centers at the start, in diameters of the largest grain."""
HEADROOM = 4.0
"""Height over the sand that cells cover, in depths; grains may fly higher, only less quickly found."""
TALLEST = 60.0
"""Most that cells cover in all, in depths, unless grains are thrown in higher: a long bed is no higher than a short
one."""
AT_REST = 0.002
"""Fastest grain of a bed that lies, over the root of gravity times radius ..."""
MOST_ROUNDS = 16
"""... which is waited for in so many rounds of a quarter of the time to settle."""
BYTES_AT_A_FACE = {2: 70.0, 3: 420.0}
"""For each place on a face of a robot at which grains are looked for, and each grain that is looked at there."""
OPERATIONS_OF_A_COMPARISON = 11.0
"""Of grains while a bed settles, in plain ones; 9 to 12 were measured (two Neoverse-N1 cores) ..."""
LAUNCHES_OF_A_STEP = 130.0
"""... and operations that an accelerator begins for each step."""
PROGRAM_OF_GRAINS = 0.2e9
"""What the programs of worlds with grains take besides [bytes]."""
FIRST_CELL = 20.0
"""Where cyclic sand begins along x [m]: clear of the wall at the left end of the ground."""


Further = Callable[[Grains, GrainState, int], GrainState]
"""Grains some steps later."""


class BedCost(NamedTuple):
    """What it takes to settle a bed."""

    grains: int
    steps: int
    """at least; a bed that is not at rest then gets more"""
    bytes: float
    """of memory, in single precision"""
    compared: int
    """grains that are looked at to find the neighbors of one"""
    comparisons: float
    """with the capacity for neighbors, over all grains and steps"""


def bed_cost(sand: Sand, dimension: int, gravity: float) -> BedCost:
    """From the description alone: no array is made. What processors took was 2 to 18 % less (docs/do/sand.md)."""
    grains, ratio = sand.count(dimension), (1 - sand.spread) / (1 + sand.spread)
    slots = sand.neighbors or slots_needed(dimension, ratio)
    compared = 3 ** (dimension - 1) * (sand.candidates or candidates_needed(dimension, ratio))
    steps = math.ceil(sand.settle / sand.longest_step(gravity)) if gravity else 0
    across, high = _thrown(sand, dimension)
    box = _box(sand, dimension, across, high)
    cells = math.prod(length / ((2 + SKIN) * sand.largest) for length in box.size)
    turning = 0 if sand.rolling is None else 2 * dimension - 3
    kept = slots * (16 + 4 * dimension + 4 * turning) + 80  # before and after a step
    looked_at = compared * (4 * slots + 8)  # while neighbors are listed
    memory = grains * (3.1 * kept + looked_at) + 16 * cells
    return BedCost(grains, steps, memory, compared, float(grains) * steps * compared * slots)


def load_of_sand(sand: Sand, voxels: Any, cells: tuple[int, ...], gravity: float, dtype: Any) -> Load:
    """What sand takes of a computer, for robots of such voxels in a grid of cells."""
    bed, dimension = bed_cost(sand, voxels.dimension, gravity), voxels.dimension
    faces = 2 * sum(math.prod(cells) // along for along in cells)
    samples = samples_needed(voxels.voxel_side, sand.radius * (1 - sand.spread), dimension)
    places = faces * samples ** (dimension - 1)
    setup = OPERATIONS_OF_A_COMPARISON * bed.comparisons, LAUNCHES_OF_A_STEP * bed.steps
    return Load(
        what=f"a bed of {bed.grains:,} grains",
        parts=bed.grains,
        bytes=bed.bytes + BYTES_AT_A_FACE[dimension] * places * bed.compared,
        program=PROGRAM_OF_GRAINS,
        settings=(
            f"world.terrain.period ({sand.period:g} m)",
            f"world.terrain.depth ({sand.depth:g} m)",
            f"the number of grains by a larger world.terrain.radius ({sand.radius:g} m)",
        ),
        setup=(0.0, 0.0) if is_kept(sand, dimension, gravity, dtype) else setup,
        setup_setting=f"world.terrain.settle ({sand.settle:g} s, {bed.steps:,} steps)",
    )


def is_kept(sand: Sand, dimension: int, gravity: float, dtype: Any = jnp.float32) -> bool:
    """Whether such a bed was settled before, and is only to be read."""
    path = _kept_at(json.dumps(sand.to_plain()), dimension, gravity, jnp.dtype(dtype).name)
    return path is not None and path.is_file()


def sand_bed(sand: Sand, dimension: int, gravity: float, voxel_side: float, dtype: Any = jnp.float32) -> Grains:
    """Settled sand for robots of voxels of a side [m]."""
    settled = _settled(json.dumps(sand.to_plain()), dimension, gravity, jnp.dtype(dtype).name)
    with jax.ensure_compile_time_eval():  # beds are numbers, also for those who are being compiled
        loose = _loose(sand, dimension, dtype)
        pair = pair_numbers(loose, settled["id"], settled["neighbor"])
        lying = replace(loose.start, **jax.device_put({**settled, "pair": pair}))
        radius = np.broadcast_to(np.asarray(loose.radius), (loose.count,))[settled["id"]]
        return replace(
            loose,
            start=lying,
            contacts=sand.contacts,
            samples=samples_needed(voxel_side, sand.radius * (1 - sand.spread), dimension),
            cover=float((settled["position"][-1] + radius).max()) + sand.depth,
        )


@lru_cache(maxsize=128)
def _settled(described: str, dimension: int, gravity: float, dtype: str) -> dict[str, np.ndarray]:
    """What differs between the bed at rest and grains just thrown in, by the names of GrainState."""
    path, sand = _kept_at(described, dimension, gravity, dtype), Sand.model_validate_json(described)
    stored = _read(path)
    if stored is None or not _fits(stored, sand, dimension, dtype):
        try:
            lying = _lying(sand, dimension, gravity, dtype)
        except (MemoryError, jax.errors.JaxRuntimeError) as error:
            if isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error):
                raise InfeasibleError(_too_large(sand, dimension, gravity)) from None
            raise
        stored = {name: np.asarray(getattr(lying, name)) for name in _changing(lying)}
        _write(path, stored)
    return stored


def _too_large(sand: Sand, dimension: int, gravity: float) -> str:
    cost = bed_cost(sand, dimension, gravity)
    return (
        f"world.terrain: there is not enough memory for a bed of {cost.grains:,} grains, about {cost.bytes / 1e9:.2g} "
        f"GB; reduce period ({sand.period:g}) or depth ({sand.depth:g}), or use larger grains (radius {sand.radius:g})"
    )


def _fits(stored: dict[str, np.ndarray], sand: Sand, dimension: int, dtype: str) -> bool:
    """Whether a bed from the disk has the arrays of today's."""
    with jax.ensure_compile_time_eval():
        start = _loose(sand, dimension, dtype).start
    wanted = {name: np.shape(getattr(start, name)) for name in _changing(start)}
    return {name: value.shape for name, value in stored.items()} == wanted


def _lying(sand: Sand, dimension: int, gravity: float, dtype: str) -> GrainState:
    """Grains at rest; raises Impractical where their lists are too short."""
    with jax.ensure_compile_time_eval():
        loose = _loose(sand, dimension, dtype)
        environment = Environment(gravity=jnp.asarray(gravity, dtype), terrain=sand.build(jnp.dtype(dtype)))
    duration = sand.longest_step(gravity)
    steps = math.ceil(sand.settle / duration)
    further = settling(loose, environment, duration)
    lying = lie_down(loose, further, steps)
    for _ in range(MOST_ROUNDS):  # a last grain may still roll
        if float(np.abs(np.asarray(lying.velocity)).max()) < AT_REST * math.sqrt(gravity * sand.radius):
            break
        lying = further(loose, lying, math.ceil(0.25 * steps))
    if int(np.asarray(lying.overflow).max()):
        raise InfeasibleError(f"world.terrain: {overflow_advice(loose, lying.overflow)}")
    return replace(lying, time=np.zeros_like(np.asarray(lying.time)))


def _changing(state: GrainState) -> list[str]:
    return [
        item.name
        for item in fields(state)
        if item.name not in ("bodies", "robots", "pair") and getattr(state, item.name) is not None
    ]


def lie_down(loose: Grains, further: Further, count: int) -> GrainState:
    """Half the steps without friction, so that no towers stand, and half with it."""
    smooth, start = replace(loose, friction=np.zeros_like(loose.friction)), loose.rest_state()
    start = replace(start, pair=pairs_of(smooth, start))
    fallen = further(smooth, start, count // 2)
    return further(loose, replace(fallen, pair=pairs_of(loose, fallen)), count - count // 2)


def settling(grains: Grains, environment: Environment, duration: float) -> Further:
    """Takes grains like these some steps [s] further, however many, and whatever their friction: one program."""
    # Compiled apart and then called, for somebody may be tracing: their program must not have to settle the bed.
    start = grains.rest_state()
    start = replace(start, pair=pairs_of(grains, start))
    program = steps_further.lower(grains, environment, start, np.int32(0), duration).compile()
    return lambda grains, state, count: program(grains, environment, state, np.int32(count))


def pairs_of(grains: Grains, state: GrainState) -> PairNumbers | None:
    """By NumPy."""
    return pair_numbers(grains, np.asarray(state.id), np.asarray(state.neighbor))


@partial(jax.jit, static_argnames="duration")
def steps_further(
    grains: Grains, environment: Environment, state: GrainState, count: Array, duration: float
) -> GrainState:
    """Some more steps."""

    def resting(_: Any, state: GrainState) -> GrainState:
        return step(grains, environment, state, (), duration)[0]

    return jax.lax.fori_loop(0, count, resting, state)


def _loose(sand: Sand, dimension: int, dtype: Any) -> Grains:
    """Grains just thrown in: on a regular grid, shaken, well apart."""
    random = np.random.default_rng(sand.seed)
    count = sand.count(dimension)
    radius = sand.radius * random.uniform(1 - sand.spread, 1 + sand.spread, count) if sand.spread else sand.radius
    if sand.bed:
        random = np.random.default_rng((sand.seed, sand.bed))
        radius = random.permutation(radius) if sand.spread else radius
    across, high = _thrown(sand, dimension)
    place = np.stack(np.unravel_index(np.arange(count), (high, *across)), 1)[:, ::-1]
    box = _box(sand, dimension, across, high)
    spacing = np.array([*(sand.period / number for number in across), ROOM * 2 * sand.largest])
    start = np.array(box.low)
    shaken = random.uniform(-1, 1, place.shape) * (0.5 * spacing - sand.largest)
    position = start + (place + 0.5) * spacing + shaken
    size = np.pi * np.square(radius) if dimension == 2 else 4 / 3 * np.pi * np.power(radius, 3)
    return grains_of(
        position,
        radius,
        sand.grain_density(dimension) * size,
        friction=sand.friction,
        rolling=sand.rolling,
        box=box,
        velocity=random.normal(0, math.sqrt(9.8 * sand.radius), place.shape),
        slots=sand.neighbors,
        candidates=sand.candidates,
        dtype=jnp.dtype(dtype),
    )


def _thrown(sand: Sand, dimension: int) -> tuple[list[int], int]:
    """Places of the grid that grains are thrown in on: along each horizontal axis, and levels."""
    across = [max(1, int(sand.period / (ROOM * 2 * sand.largest)))] * (dimension - 1)
    return across, math.ceil(sand.count(dimension) / math.prod(across))


def _box(sand: Sand, dimension: int, across: list[int], high: int) -> Box:
    """What cells cover: all grains as they are thrown in, and room above."""
    room = ROOM * 2 * sand.largest
    wide = min(across[0] * room, TALLEST * sand.depth)
    return Box(
        low=(FIRST_CELL, *(-0.5 * sand.period,) * (dimension - 2), -sand.depth),
        size=(*(sand.period,) * (dimension - 1), max((1 + HEADROOM) * sand.depth, high * room, wide)),
        cyclic=(*(True,) * (dimension - 1), False),
    )


def _kept_at(described: str, dimension: int, gravity: float, dtype: str) -> Path | None:
    """None for a user without a home."""
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vsr" / "beds"
    except RuntimeError:
        return None
    whole = json.dumps([VERSION, described, dimension, gravity, dtype])
    return base / f"{hashlib.sha256(whole.encode()).hexdigest()[:24]}.npz"


def _read(path: Path | None) -> dict[str, np.ndarray] | None:
    try:
        return None if path is None else read_arrays(path).arrays
    except CorruptFileError:
        return None


def _write(path: Path | None, stored: dict[str, np.ndarray]) -> None:
    """As a whole or not at all; a home that cannot be written to only costs time."""
    if path is None:
        return
    partial_file = path.with_name(f"{path.stem}.{os.getpid()}.partial")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial_file.write_bytes(packed(stored)[0])
        partial_file.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            partial_file.unlink(missing_ok=True)
