"""Hard robots: corners of all that can be asked for, and a seeded sample of what lies between.

All robots of a batch share their substeps, and these are what is chosen for their materials. So frequencies are found
backwards: the highest one for which exactly that number of substeps is chosen makes the hardest robot of the batch.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np

from vsr.physics.engine import ENGINES, stability_bound
from vsr.physics.substeps import choose_substeps
from vsr.robot import EngineName, Fluid, Material
from vsr.robot.engine_kinds import ENGINE_KINDS
from vsr.terrain import Sand

TIME_STEP = 1 / 60
"""[s]"""
GRAVITY = 9.8
"""[m/s²]"""
SAND = {2: Sand(radius=0.6, depth=2.4, period=24.0), 3: Sand(radius=1.0, depth=3.0, period=20.0)}
"""Coarse, by dimension."""
SLOWEST, FASTEST = 1.0, 100.0
"""Frequencies of springs [Hz]."""
CONTRAST = 1000.0
"""Greatest mass of a voxel over that of another."""
THROWN = 20.0
"""Speed of robots that are thrown at the ground [m/s]."""
SHAKEN = 2.0
"""Speeds of the masses of robots that float [m/s], at random in every direction, over a side of 3 m."""

Control = Literal["passive", "sine", "chatter", "chess"]
InitialCondition = Literal["dropped", "thrown", "floating"]
CONTROLS: tuple[Control, ...] = ("passive", "sine", "chatter", "chess")
"""No control; sines of 1 Hz with phases at random; full amplitude with a sign that flips at every call, in all voxels
alike or as on a chess board."""
INITIAL_CONDITIONS: tuple[InitialCondition, ...] = ("dropped", "thrown", "floating")
"""From 1 m over the ground; at 20 m/s; far from it without gravity, shaken."""


@dataclass(frozen=True)
class Kind:
    """Properties shared by the robots of a table's row."""

    name: str
    engine: EngineName
    grid: tuple[int, ...]
    """cells, the vertical first"""
    substeps: tuple[int, ...]
    """in a time step; a batch for each"""
    robots: int
    """of each batch"""
    duration: float
    """[s]"""
    side: float = 3.0
    """of voxels [m]"""
    ground: Literal["flat", "steps", "sand"] = "flat"
    fluid: bool = False
    """whether some voxels hold water or air"""
    coarsest: bool = False
    """whether substeps are as long as a file may ask for, at the bound of stability, and not those chosen"""

    @property
    def dimension(self) -> int:
        return len(self.grid)

    @property
    def initial_conditions(self) -> tuple[InitialCondition, ...]:
        """Sand cannot be left out of the world."""
        return INITIAL_CONDITIONS[:2] if self.ground == "sand" else INITIAL_CONDITIONS

    def substeps_of(self, materials: tuple[Material, ...]) -> int:
        """As they are chosen for these materials."""
        bound = stability_bound(self.engine, materials, self.side, self.dimension, None)
        return self.chosen(bound, materials)

    def chosen(self, bound: float, materials: tuple[Material, ...]) -> int:
        """The same, with the stability bound of the materials known [s]."""
        if self.coarsest:
            return max(1, math.ceil(TIME_STEP / bound))
        accurate = min(map(ENGINES[self.engine].accurate_substep, materials))
        if self.ground == "sand":
            accurate = min(accurate, SAND[self.dimension].longest_step(GRAVITY))
        return choose_substeps(bound, TIME_STEP, None, accurate)


@dataclass(frozen=True)
class Sample:
    """One robot and how it begins."""

    cells: np.ndarray
    """place of each voxel's material, -1 where empty, lowest first"""
    materials: tuple[Material, ...]
    control: Control
    start: InitialCondition
    tilt: float
    """[rad]"""
    seed: int
    """of phases, and of what shakes it"""


@dataclass(frozen=True)
class _Choice:
    """Parameters that make a robot hard to simulate."""

    damping: float
    contrast: float
    control: Control
    start: InitialCondition
    size: int
    """voxels"""


def samples(kind: Kind, substeps: int, seed: int = 0) -> list[Sample]:
    """A batch: half corners, half drawn between them; fewer corners where there are fewer."""
    random = np.random.default_rng([seed, substeps, *map(ord, kind.name)])
    found = [_sample(kind, substeps, choice, random, corner=True) for choice in _corners(kind, random)]
    corners = [sample for sample in found if sample is not None][: kind.robots // 2]
    drawn: list[Sample] = []
    least = _least_damping(kind, substeps)
    while len(drawn) < kind.robots - len(corners):
        sample = _sample(kind, substeps, _between(kind, least, random), random, corner=False)
        if sample is not None:
            drawn.append(sample)
    return corners + drawn


def _corners(kind: Kind, random: np.random.Generator) -> list[_Choice]:
    everything = itertools.product(
        (0.0, 1.0), (1.0, CONTRAST), CONTROLS, kind.initial_conditions, (1, math.prod(kind.grid))
    )
    choices = [_Choice(*choice) for choice in everything]
    return [choices[place] for place in random.permutation(len(choices))]


def _least_damping(kind: Kind, substeps: int) -> float:
    """Damping ratio below which not even the stiffest springs need that number of substeps."""

    def needed(damping: float) -> int:
        stiffest = Material(spring_frequency=FASTEST, spring_damping_ratio=damping, linear_damping=0.0)
        return kind.substeps_of((stiffest,))

    low, high = 0.0, 1.0
    if needed(low) >= substeps:
        return low
    while high - low > 1e-3:
        middle = (low + high) / 2
        low, high = (low, middle) if needed(middle) >= substeps else (middle, high)
    return low


def _between(kind: Kind, least_damping: float, random: np.random.Generator) -> _Choice:
    return _Choice(
        damping=random.uniform(least_damping, 1),
        contrast=CONTRAST ** random.uniform(),
        control=CONTROLS[random.integers(len(CONTROLS))],
        start=kind.initial_conditions[random.integers(len(kind.initial_conditions))],
        size=math.ceil(math.prod(kind.grid) ** random.uniform()),
    )


def _sample(kind: Kind, substeps: int, choice: _Choice, random: np.random.Generator, corner: bool) -> Sample | None:
    """None if no material with such damping needs exactly that number of substeps."""
    light = 1.0 if not kind.fluid else 250 * kind.side**kind.dimension
    fields = {
        "spring_damping_ratio": choice.damping,
        "mass": light,
        "linear_damping": 0.0 if corner else float(random.choice([0.0, 1.0])),
        "friction": float(random.choice([0.0, 100.0])),
        "restitution": float(random.choice([0.1, 1.0])),
        "actuation": "force" if random.uniform() < 0.2 else "area",
        "max_area_change": 0.2 if corner else float(random.uniform(0, 0.5)),
    }
    if ENGINE_KINDS[kind.engine].turns:
        fields["angular_damping"] = fields["linear_damping"]
    hard = _stiffest(kind, substeps, Material(**fields))
    if hard is None:
        return None
    slower = 1.0 if corner else float(random.uniform())
    soft = hard.model_copy(update={"spring_frequency": SLOWEST * (hard.spring_frequency / SLOWEST) ** slower})
    heavier = random.permutation([1.0, choice.contrast])
    pair = [
        one.model_copy(update={"mass": light * float(factor), "max_force": 1000.0 * light * float(factor)})
        for one, factor in zip((hard, soft), heavier, strict=True)
    ]
    cells = np.where(blob(random, kind.grid, choice.size), random.integers(0, 2, kind.grid), -1).astype(np.int32)
    if kind.fluid:
        pair.append(_fluid(kind, substeps, pair, random))
        cells = _with_chambers(cells, random)
    return Sample(
        cells, tuple(pair), choice.control, choice.start, random.uniform(-0.5, 0.5), int(random.integers(2**31))
    )


def _stiffest(kind: Kind, substeps: int, material: Material) -> Material | None:
    """The material with the highest frequency for which that number of substeps is chosen."""

    def tuned(frequency: float) -> Material:
        return material.model_copy(update={"spring_frequency": frequency})

    # The bound goes with the period of the springs.
    of_slowest = stability_bound(kind.engine, [tuned(SLOWEST)], kind.side, kind.dimension, None)

    def needed(frequency: float) -> int:
        return kind.chosen(of_slowest * SLOWEST / frequency, (tuned(frequency),))

    low, high = SLOWEST, FASTEST
    if needed(low) > substeps or needed(high) < substeps:
        return None
    if needed(high) == substeps:
        return tuned(high)
    while high / low > 1 + 1e-3:
        middle = math.sqrt(low * high)
        low, high = (middle, high) if needed(middle) <= substeps else (low, middle)
    return tuned(low) if needed(low) == substeps else None


def _fluid(kind: Kind, substeps: int, solids: list[Material], random: np.random.Generator) -> Material:
    """Water or air, driven by pressure or volume, as stiff as these substeps allow."""
    drive = ("pressure", "volume")[random.integers(2)]
    gas = bool(random.integers(2))
    stiff = 1e6
    while True:
        limits = {"pressure": (-0.2 * stiff, 0.2 * stiff)} if drive == "pressure" else {"added_volume": (-0.3, 0.3)}
        fluid = Fluid(
            kind="gas" if gas else "liquid",
            drive=drive,
            bulk_modulus=stiff,
            outside_pressure=stiff,
            depth=kind.side,
            **limits,  # pyright: ignore[reportArgumentType]
        )
        material = Material(fluid=fluid, mass=solids[0].mass)
        if kind.substeps_of((*solids, material)) <= substeps:
            return material
        stiff /= 2


def _with_chambers(cells: np.ndarray, random: np.random.Generator) -> np.ndarray:
    """Some voxels turned into fluid, but one solid stays at least."""
    full = np.argwhere(cells >= 0)
    if len(full) == 1:
        return cells
    wet = random.permutation(len(full))[: max(1, len(full) // 4)]
    cells = cells.copy()
    cells[tuple(full[wet].T)] = 2
    return cells


def blob(random: np.random.Generator, grid: tuple[int, ...], size: int) -> np.ndarray:
    """True for that number of cells, connected by faces and grown at random."""
    full = np.zeros(grid, bool)
    if size >= full.size:
        return ~full
    border = [tuple(int(random.integers(cells)) for cells in grid)]
    while full.sum() < size:
        cell = border.pop(int(random.integers(len(border))))
        if not full[cell]:
            full[cell] = True
            border.extend(near for near in _beside(cell, grid) if not full[near])
    return full


def _beside(cell: tuple[int, ...], grid: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for axis, step in itertools.product(range(len(grid)), (-1, 1)):
        place = cell[axis] + step
        if 0 <= place < grid[axis]:
            yield (*cell[:axis], place, *cell[axis + 1 :])
