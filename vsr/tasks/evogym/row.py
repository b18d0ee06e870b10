"""What one of EvoGym's tasks is: a row of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from vsr.tasks.evogym.ground import Block
from vsr.tasks.evogym.terms import End, Term


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
    tier: Literal["A", "B", "C"]
    """what it needs: ground; a free object; hanging blocks"""
    steps: int
    """of the environment until time is up"""
    start: tuple[int, int]
    """lowest left cell of the robot's grid"""
    ground: str
    """columns, see vsr.tasks.evogym.ground"""
    sees: tuple[str, ...]
    """pieces of the observation, see vsr.tasks.evogym.observation"""
    reward: tuple[Term, ...]
    """parts of a step's reward"""
    ends: tuple[End, ...] = ()
    item: ObjectRow | None = None
    """what is carried, pushed, thrown or caught"""
    blocks: tuple[Block, ...] = ()
    """that hang in the air and do not move"""
    shift: Shift | None = None
    goals: tuple[int, int, int] | None = None
    """places to go to, drawn from the first up to but not including the second until their way exceeds the third"""
    columns_instead: str | None = None
    """ground for our physics, where it is simpler: platforms as columns"""
    bound: float | None = None
    """best possible score of a full 5x5 body, where it is known"""
