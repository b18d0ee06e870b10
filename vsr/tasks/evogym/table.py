"""EvoGym's 32 tasks, a row each. Names, grounds, starts, rewards, ends and observations as its version 2 has them.

Grounds are in voxels: columns written as "1x20 2x9" (height 1 over 20 columns, then 2 over 9), rectangles of fixed and
of soft voxels that are one with them, and blocks that hang in the air.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from vsr.tasks.evogym.terms import (
    End,
    Term,
    all_goals,
    area,
    beyond,
    gain,
    gain_below,
    nearer,
    next_goal,
    short_of,
    spread,
    staying,
    together,
    travel,
    turned_over,
    turning,
)


class Block(NamedTuple):
    """A rectangle of voxels: its lowest left cell and its size."""

    x: int
    y: int
    width: int
    height: int


def heights_of(columns: str) -> np.ndarray:
    """Height of the top of every column."""
    found = [re.fullmatch(r"(\d+)(?:x(\d+))?", part) for part in columns.split()]
    if not found or None in found:
        raise ValueError(f"columns are written as '1x20 2x9'; given: {columns!r}")
    return np.concatenate([np.full(int(one[2] or 1), int(one[1])) for one in found if one])


def solid_cells(heights: np.ndarray, blocks: tuple[Block, ...] = ()) -> np.ndarray:
    """True for solid cells, (rows, columns), the lowest first."""
    rows = max([int(heights.max()), *(block.y + block.height for block in blocks)])
    columns = max([len(heights), *(block.x + block.width for block in blocks)])
    solid = np.zeros((rows, columns), bool)
    solid[:, : len(heights)] = np.arange(rows)[:, None] < heights
    return with_blocks(solid, blocks)


def with_blocks(cells: np.ndarray, blocks: tuple[Block, ...], value: bool = True) -> np.ndarray:
    """Cells with those of rectangles set."""
    cells = cells.copy()
    for block in blocks:
        cells[block.y : block.y + block.height, block.x : block.x + block.width] = value
    return cells


def corner_points(solid: np.ndarray) -> np.ndarray:
    """True for corners of solid cells, one more each way."""
    corners = np.zeros(tuple(size + 1 for size in solid.shape), bool)
    for up in (0, 1):
        for right in (0, 1):
            corners[up : up + solid.shape[0], right : right + solid.shape[1]] |= solid
    return corners


class ObjectRow(NamedTuple):
    """A free object of voxels."""

    name: str
    kind: Literal["soft", "rigid"]
    x: int
    y: int
    width: int
    height: int


class Shift(NamedTuple):
    """By how many voxels objects and hanging blocks are shifted at the start, drawn uniformly, ends included."""

    x: tuple[int, int]
    y: tuple[int, int]


@dataclass(frozen=True)
class Row:
    """A task. Lengths in voxels."""

    name: str
    about: str
    difficulty: Literal["easy", "medium", "hard"]
    tier: Literal["A", "B", "C", "D", "E"]
    """what it needs: ground; a free object; hanging blocks; soft ground; overhanging walls or a heap of blocks"""
    steps: int
    """of the environment until time is up"""
    start: tuple[int, int]
    """lowest left cell of the robot's grid"""
    ground: str
    """columns, see vsr.tasks.evogym.table"""
    sees: tuple[str, ...]
    """pieces of the observation, see vsr.tasks.evogym.task"""
    reward: tuple[Term, ...]
    """parts of a step's reward"""
    ends: tuple[End, ...] = ()
    object: ObjectRow | None = None
    """what is carried, pushed, thrown or caught"""
    blocks: tuple[Block, ...] = ()
    """that hang in the air and do not move"""
    walls: tuple[Block, ...] = ()
    """fixed, and one with the columns of ground"""
    soft: tuple[Block, ...] = ()
    """soft voxels of the ground, in place of fixed ones"""
    heap: tuple[Block, ...] = ()
    """free rigid blocks, which count as ground in what a robot sees"""
    shift: Shift | None = None
    goals: tuple[int, int, int] | None = None
    """places to go to, drawn from the first up to but not including the second until their way exceeds the third"""
    columns_instead: str | None = None
    """ground for our physics, where it is simpler: platforms as columns"""
    bound: float | None = None
    """best possible score of a full 5x5 body, where it is known"""

    @property
    def ground_cells(self) -> tuple[np.ndarray, np.ndarray]:
        """True for voxels of the ground without blocks in the air, and for its soft ones, (rows, columns)."""
        solid = solid_cells(heights_of(self.ground), (*self.walls, *self.soft))
        return solid, with_blocks(np.zeros_like(solid), self.soft)


def squares(size: int, y: int, *places: int) -> tuple[Block, ...]:
    """Blocks of one size side by side: their left columns."""
    return tuple(Block(x, y, size, size) for x in places)


def upright(x: int, *runs: tuple[int, int]) -> tuple[Block, ...]:
    """Blocks one voxel wide, one above the other: their lowest rows and heights."""
    return tuple(Block(x, y, 1, height) for y, height in runs)


FALLEN_OVER = End(turned_over(), -3.0)
BETWEEN_WALLS = "10x2 1x16 10x2"
CARRIED = ("V", "object from robot", "V of object", "R")
BEAM = ("object from robot", "V", "V of object", "O of object", "R")

WALKING = (
    Row(
        "Walker-v0",
        "Walk as far as possible along flat ground.",
        *("easy", "A", 500, (1, 1), "1x100", ("V", "R"), (gain(),)),
        ends=(End(beyond(99), 1.0),),
        bound=10.55,
    ),
    Row(
        "BridgeWalker-v0",
        "Walk over a soft bridge between posts.",
        *("easy", "D", 500, (2, 5), "5 1x4 5 1x4 5 1x7 5 1x10 5 1x16 5 1x11 5x2", ("V", "O", "R"), (gain(),)),
        ends=(End(beyond(60), 1.0),),
        soft=(
            *(Block(1, 3, 4, 2), Block(6, 3, 4, 2), Block(11, 3, 7, 2), Block(19, 3, 10, 2)),
            *(Block(30, 3, 16, 2), Block(47, 3, 11, 2)),
        ),
        bound=6.55,
    ),
    Row(
        "BidirectionalWalker-v0",
        "Walk to goals left and right, one after the other.",
        *("medium", "A", 1000, (33, 1), "1x70", ("V", "R", "goal"), (next_goal(),)),
        ends=(End(all_goals(), 1.0),),
        goals=(20, 50, 100),
    ),
    Row(
        "UpStepper-v0",
        "Walk up steps of different length.",
        *("medium", "A", 600, (1, 1), "1x20 2x9 3x7 4x6 5x5 6x4 7x4 8x6 9x9", ("V", "O", "R", "F5"), (gain(),)),
        ends=(End(beyond(69), 2.0), End(turned_over(75), -3.0)),
        bound=8.55,
    ),
    Row(
        "DownStepper-v0",
        "Walk down steps of different length.",
        *("easy", "A", 500, (1, 11), "10x21 9x8 8x7 7x6 6x6 5x5 4x5 3x4 2x4 1x9", ("V", "O", "R", "F5"), (gain(),)),
        ends=(End(beyond(74), 2.0), FALLEN_OVER),
        bound=9.05,
    ),
    Row(
        "ObstacleTraverser-v0",
        "Walk over ground that becomes more and more uneven.",
        *("medium", "A", 1000, (2, 1)),
        "1x22 2 1x5 2 1x4 2x2 1x4 2 1x2 2x2 1 2 1 2 1x2 2x2 1x2 2 3 2x2 1 2 3 1 2x2 3 2 1 2x2 1x3 2 1x7",
        *(("V", "O", "R", "F5"), (gain(),)),
        ends=(End(beyond(79), 2.0), FALLEN_OVER),
        bound=9.45,
    ),
    Row(
        "ObstacleTraverser-v1",
        "Walk over very uneven ground, up to a wall.",
        *("hard", "A", 1000, (2, 4)),
        "3x2 4 3 4 3x3 2 3 2x2 3x2 2x2 1 3 4 3 2 3x2 4 3 2 3 2 3x2 2 3 4x2 2 3 4 3 4x3 2 3 4 5 4 3 4 3 4 3 2x2 3 4 3 2 "
        "3 10x2",
        *(("V", "O", "R", "F5"), (gain(),)),
        ends=(End(beyond(59), 2.0),),
        bound=7.45,
    ),
    Row(
        "Hurdler-v0",
        "Walk over tall obstacles.",
        *("hard", "A", 1000, (2, 4), "1x12 2 1x7 3 1x7 2 1x7 3x2 1x7 2 1x6 3 1x5 3 1x10 6", ("V", "O", "R", "F5")),
        (gain(),),
        ends=(FALLEN_OVER,),
    ),
    Row(
        "GapJumper-v0",
        "Jump from one floating platform to the next, all of one height.",
        *("hard", "A", 1000, (1, 6), "0x80", ("V", "O", "R", "F5"), (gain(),)),
        ends=(End(short_of(4, axis="up"), -3.0),),
        blocks=(Block(0, 5, 20, 1), Block(25, 5, 10, 1), Block(40, 5, 10, 1), Block(55, 5, 10, 1), Block(70, 5, 10, 1)),
        columns_instead="6x20 0x5 6x10 0x5 6x10 0x5 6x10 0x5 6x10",
    ),
    Row(
        "PlatformJumper-v0",
        "Jump from one floating platform to the next, of different heights.",
        *("hard", "A", 1000, (1, 6), "0x91", ("V", "O", "R", "F5"), (gain(),)),
        ends=(End(short_of(4, axis="up"), -3.0), FALLEN_OVER),
        blocks=(
            *(Block(0, 5, 20, 1), Block(21, 7, 10, 1), Block(33, 8, 10, 1), Block(46, 6, 10, 1), Block(57, 5, 10, 1)),
            *(Block(70, 6, 10, 1), Block(81, 3, 10, 1)),
        ),
        columns_instead="6x20 0 8x10 0x2 9x10 0x3 7x10 0 6x10 0x3 7x10 0 4x10",
    ),
    Row(
        "CaveCrawler-v0",
        "Crawl through a cave whose ceiling is soft and hangs low.",
        *("medium", "D", 1000, (1, 2), "1x69 10", ("V", "R", "F5", "C5"), (gain(),)),
        ends=(End(beyond(69), 1.0),),
        walls=(
            *(Block(20, 7, 1, 7), Block(21, 7, 1, 1), Block(34, 7, 35, 1)),
            *(Block(58, 6, 3, 1), Block(59, 5, 2, 1), Block(59, 4, 1, 1)),
        ),
        soft=(
            *(Block(46, 1, 5, 1), Block(21, 6, 14, 1), Block(23, 5, 10, 1), Block(25, 4, 6, 1)),
            *(Block(39, 6, 15, 1), Block(42, 5, 10, 1)),
        ),
        bound=7.55,
    ),
    Row(
        "Traverser-v0",
        "Cross a pit full of loose blocks.",
        *("hard", "E", 600, (1, 9), "0x60", ("V", "O", "R", "F5"), (gain(),)),
        ends=(End(beyond(59), 2.0),),
        walls=(
            *(Block(0, 8, 20, 1), Block(19, 0, 1, 8), Block(20, 0, 30, 1), Block(49, 1, 1, 6)),
            Block(50, 6, 10, 1),
        ),
        heap=(
            *(*squares(3, 1, 20, 24), *squares(2, 1, 27), *squares(3, 1, 31, 34), *squares(2, 1, 38)),
            *(*squares(3, 1, 41, 45), *squares(3, 4, 21), *squares(2, 4, 24), *squares(1, 4, 26), *squares(2, 4, 29)),
            *(*squares(3, 4, 31), *squares(2, 4, 34, 36), *squares(3, 4, 40), *squares(2, 4, 43), *squares(3, 4, 46)),
            *squares(2, 7, *range(20, 45, 3)),
        ),
        columns_instead="9x20 1x29 7x11",
        bound=7.55,
    ),
    Row(
        "Climber-v0",
        "Climb up between two walls.",
        *("medium", "A", 400, (1, 1), "90 1x5 90", ("V", "R"), (gain(axis="up"),)),
        ends=(End(beyond(86, axis="up"), 1.0),),
        blocks=(Block(1, 89, 5, 1),),
        columns_instead="90 1x5 90",
        bound=9.25,
    ),
    Row(
        "Climber-v1",
        "Climb up between two walls that are soft here and there.",
        *("medium", "D", 600, (1, 1), "70 1x5 70", ("V", "R"), (gain(axis="up"),)),
        ends=(End(beyond(65, axis="up"), 1.0),),
        walls=(Block(1, 69, 5, 1),),
        soft=(
            *upright(0, (11, 2), (21, 2), (27, 2), (31, 2), (35, 1), (39, 3), (45, 2), (51, 3), (60, 5)),
            *upright(6, (8, 1), (15, 3), (23, 2), (28, 2), (35, 3), (45, 2), (51, 3), (56, 4)),
        ),
        bound=7.15,
    ),
    Row(
        "Climber-v2",
        "Climb up a winding channel.",
        *("hard", "E", 1000, (1, 1), "24 1x5 20", ("V", "O", "R", "C3"), (gain(axis="up"), gain(0.2))),
        walls=(
            *(*upright(1, (23, 8)), *upright(2, (30, 5)), *upright(3, (34, 4)), *upright(4, (37, 2))),
            *(*upright(5, (38, 2)), *upright(6, (39, 2)), *upright(7, (40, 2)), Block(8, 41, 19, 1)),
            *(*upright(7, (19, 9)), *upright(8, (27, 6)), *upright(9, (32, 2)), *upright(10, (33, 2))),
            *(*upright(11, (34, 1)), Block(11, 35, 15, 1), *upright(26, (35, 6))),
        ),
    ),
)

SHAPE = (
    Row(
        "Jumper-v0",
        "Jump up on the spot.",
        *("easy", "A", 500, (32, 1), "8 1x58 8", ("V", "R", "F2"), (gain(10, axis="up"), travel(-5))),
    ),
    Row(
        "Flipper-v0",
        "Turn over again and again, counter-clockwise.",
        *("easy", "A", 600, (60, 1), "1x70", ("O", "R"), (turning(),)),
        ends=(End(short_of(1), 0.0),),
    ),
    Row(
        "Balancer-v0",
        "Stay on top of a thin pole.",
        *("easy", "A", 600, (15, 3), "5 1x16 3 1x11 5", ("O", "R"), (nearer(17), nearer(5, axis="up"))),
    ),
    Row(
        "Balancer-v1",
        "Jump onto a thin pole and stay there.",
        *("medium", "A", 600, (10, 1), "5 1x16 4 1x11 5", ("O", "R"), (nearer(17.5), nearer(6, axis="up"))),
    ),
    Row(
        "AreaMaximizer-v0",
        "Become as large as possible.",
        *("easy", "A", 600, (7, 1), BETWEEN_WALLS, ("R",), (area(10),)),
    ),
    Row(
        "AreaMinimizer-v0",
        "Become as small as possible.",
        *("medium", "A", 600, (7, 1), BETWEEN_WALLS, ("R",), (area(-10),)),
    ),
    Row(
        "WingspanMazimizer-v0",
        "Become as wide as possible.",
        *("easy", "A", 600, (7, 1), BETWEEN_WALLS, ("R",), (spread(),)),
    ),
    Row(
        "HeightMaximizer-v0",
        "Become as high as possible.",
        *("easy", "A", 500, (7, 1), BETWEEN_WALLS, ("R",), (spread(axis="up"),)),
    ),
)

OBJECTS = (
    Row(
        "Carrier-v0",
        "Carry a soft package that falls onto the robot.",
        *("easy", "B", 500, (1, 1), "1x100", CARRIED, (gain(0.5, "object"), gain(0.5), gain_below(3, 10))),
        ends=(End(beyond(99), 1.0),),
        object=ObjectRow("package", "soft", 3, 6, 3, 2),
        bound=10.5,
    ),
    Row(
        "Carrier-v1",
        "Carry a rigid package down steps to a table.",
        *("hard", "B", 1000, (1, 4), "4x24 3x3 2x21 5x2 2x10", CARRIED),
        (nearer(40), gain_below(6, 10, beyond=(20, 4))),
        object=ObjectRow("package", "rigid", 3, 10, 3, 2),
    ),
    Row(
        "Pusher-v0",
        "Push a soft package.",
        *("easy", "B", 500, (1, 1), "1x100", CARRIED, (gain(0.75, "object"), gain(0.5), together())),
        ends=(End(beyond(99), 1.0),),
        object=ObjectRow("package", "soft", 8, 1, 3, 2),
    ),
    Row(
        "Pusher-v1",
        "Drag a rigid package that lies behind the robot.",
        *("medium", "B", 600, (13, 1), "1x100", CARRIED, (gain(0.75, "object"), gain(0.5), together())),
        ends=(End(beyond(69), 1.0),),
        object=ObjectRow("package", "rigid", 8, 1, 3, 2),
    ),
    Row(
        "Thrower-v0",
        "Throw a soft package.",
        *("medium", "B", 300, (1, 1), "1x10 3 1x3 4 1x3 5 1x4 7 1x4 8 1x10 10 1x29 10", CARRIED),
        (gain(1, "object"), staying(0.25)),
        object=ObjectRow("package", "soft", 3, 7, 3, 2),
    ),
    Row(
        "Lifter-v0",
        "Lift a rigid package out of a pit.",
        *("hard", "B", 300, (2, 3), "5 3x3 1x3 3x3 5", ("V", "object from robot", "V of object", "O of object", "R")),
        (gain(10, "object", "up"), nearer(5.5, 10, "object"), gain_below(3, 20, "robot")),
        object=ObjectRow("package", "rigid", 5, 1, 1, 2),
    ),
    Row(
        "Catcher-v0",
        "Catch a package that falls from peg to peg.",
        *("hard", "C", 400, (22, 1), "1x100", BEAM, (together(), gain_below(5, 10))),
        object=ObjectRow("package", "soft", 21, 41, 3, 2),
        blocks=(Block(17, 39, 5, 1), Block(19, 25, 5, 1)),
        shift=Shift((-6, 4), (0, 5)),
    ),
    Row(
        "BeamToppler-v0",
        "Push a beam off two pegs from below.",
        *("easy", "C", 1000, (1, 1), "1x70", BEAM),
        (together(), travel(1, "object"), travel(3, "object", "up"), gain(-10, "object", "up")),
        ends=(End(short_of(2, "object"), 1.0),),
        object=ObjectRow("beam", "rigid", 29, 5, 10, 2),
        blocks=(Block(27, 4, 5, 1), Block(36, 4, 5, 1)),
    ),
    Row(
        "BeamSlider-v0",
        "Slide a beam over a row of pegs.",
        *("hard", "C", 1000, (1, 1), "1x70", BEAM, (together(), gain(1, "object"))),
        ends=(End(short_of(2, "object"), 1.0),),
        object=ObjectRow("beam", "rigid", 22, 5, 10, 2),
        blocks=(Block(20, 4, 5, 1), *(Block(x, 4, 3, 1) for x in (29, 35, 41, 49))),
    ),
)

ROWS: dict[str, Row] = {row.name: row for row in (*WALKING, *SHAPE, *OBJECTS)}
"""Every task by its name."""
