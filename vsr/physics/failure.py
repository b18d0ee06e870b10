"""Failures of a simulation: numbers in arrays, names for people."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array


class Failure(IntEnum):
    """What befell a robot first; of what befell it at once, the reason with the smallest number counts."""

    none = 0
    empty = 1
    """it has no voxels"""
    not_finite = 2
    """its state was not a number, or infinite"""
    exploded = 3
    """a mass moved more than a quarter of a voxel's side in one substep, which no steps follow"""
    inverted = 4
    """a voxel was inside out, or had no area (in 3-D no volume) left"""
    left_world = 5
    """it had fallen through the ground at the end"""
    contact_overflow = 6
    """grains had more neighbors than the capacity of the lists, so some were not felt"""
    leaking = 7
    """a chamber of fluid has a face to the outside and no membrane there"""
    buried = 8
    """it began inside the ground or an object, as where it is too wide for a shaft: what throws it out is no gait"""
    gained_energy = 9
    """it had more energy than it can have received, where materials hardly damp (vsr.physics.energy_monitor)"""

    pierced = 10
    """a part of it was deeper in the ground than steps can explain: it had slipped through a wall or been pressed in"""

    @property
    def label(self) -> str:
        """For people: 'not finite'."""
        return "left the world" if self is Failure.left_world else self.name.replace("_", " ")

    @property
    def meaning(self) -> str:
        """What it is, in one line."""
        return _EXPLAINED[self][0]

    @property
    def remedy(self) -> str:
        """What mostly helps."""
        return _EXPLAINED[self][1]


_SOFTER = "fall from less high (task.placement.clearance), use stiffer materials, or take more physics.substeps"
_SHORTER = "take more physics.substeps, or use softer materials that damp more"
_EXPLAINED = {
    Failure.none: ("it did not fail", ""),
    Failure.empty: ("it has no voxels", "let genes fill more cells"),
    Failure.not_finite: ("its state was infinite or not a number", _SHORTER),
    Failure.exploded: ("a mass moved more than a quarter of a voxel's side in one substep", _SHORTER),
    Failure.inverted: ("a voxel was turned inside out", _SOFTER),
    Failure.left_world: ("it fell through the ground", _SOFTER),
    Failure.contact_overflow: (
        "grains had more neighbors than their lists hold",
        "raise neighbors, candidates or contacts of world.terrain; `vsr simulate` of one robot says which",
    ),
    Failure.leaking: ("a chamber of fluid is open to the outside", "leave out `membrane: none`, or close the chamber"),
    Failure.buried: (
        "it began inside the ground or an object",
        "change task.placement, make room in the ground, or move the object (task.at, position in world.objects, "
        "placement in world.other_robots); EvoGym's tasks have fixed places, which smaller bodies fit",
    ),
    Failure.pierced: (
        "a part of it was deeper in the ground than steps can explain",
        "take more physics.substeps, thicker walls, or less force",
    ),
    Failure.gained_energy: (
        "it gained energy that nothing gave it",
        "take more physics.substeps, or materials that damp more",
    ),
}

REASONS = tuple(reason for reason in Failure if reason)
"""All that can befall a robot."""


def by_reason(numbers: Any) -> dict[Failure, int]:
    """How many robots failed for each reason that occurs; numbers: as `counted` gives them, (..., reasons)."""
    sums = np.nansum(np.reshape(numbers, (-1, len(REASONS))), 0)
    return {reason: int(number) for reason, number in zip(REASONS, sums, strict=True) if number}


def failure_summary(failures: Mapping[Failure, int], robots: int) -> str:
    """How many of the robots failed, and why, the most frequent reason first: '3 of 8 failed: inverted 3 (...)'."""
    found = sorted(((reason, number) for reason, number in failures.items() if number), key=lambda item: -item[1])
    reasons = ", ".join(f"{reason.label} {number:,} ({reason.meaning})" for reason, number in found)
    return f"{sum(number for _, number in found):,} of {robots:,} failed{': ' if reasons else ''}{reasons}"


def remedies(failures: Mapping[Failure, int]) -> str:
    """What mostly helps against all of them, the most frequent first."""
    found = sorted((reason for reason, number in failures.items() if number), key=lambda reason: -failures[reason])
    return "; or ".join(dict.fromkeys(reason.remedy for reason in found))


def first_of(before: Array, later: Array) -> Array:
    """The failure that stands: an earlier one is kept."""
    return jnp.where(before > 0, before, later)


def most_severe(failures: Array) -> Array:
    """Of all that befell parts of a robot or world, the one that counts, 0 if nothing did, (); failures: any shape."""
    nothing = len(Failure)
    least = jnp.where(failures > 0, failures, nothing).min()
    return jnp.where(least < nothing, least, 0)


def empty_or(present: Array, otherwise: Array) -> Array:
    """The failure of a body without voxels, or another; present: 1 where there is a voxel."""
    return jnp.where(present.sum() == 0, int(Failure.empty), otherwise).astype(jnp.int32)


def counted(failure: Array) -> Array:
    """How many robots each of REASONS befell, (reasons,); failure: (robots,)."""
    return (failure[:, None] == jnp.array([int(reason) for reason in REASONS])).sum(0)
