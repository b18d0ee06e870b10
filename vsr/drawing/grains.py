"""Grains that robots walk on, as they are seen: where, how fast, and in which colors.

A bed of sand repeats itself (`vsr.terrain.sand`): what is simulated is one of many copies. Wherever the robot gets,
pictures show the copies around it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vsr.drawing.colors import GRAINS, GrainQuantity, Scale
from vsr.episode import Trajectory
from vsr.physics.granular import Grains, GrainsSeen


@dataclass(frozen=True)
class RecordedGrains:
    """Discs or balls over time. SI units."""

    position: np.ndarray
    """of the centers, without jumps where a bed begins again [m], (moments, grains, dimension)"""
    speed: np.ndarray
    """[m/s], (moments, grains)"""
    force: np.ndarray
    """sizes of all forces on a grain, added up [N], (moments, grains)"""
    radius: np.ndarray
    """[m], (grains,)"""
    period: np.ndarray
    """after which they repeat along each axis [m], 0 where they do not, (dimension,)"""

    @property
    def finite(self) -> np.ndarray:
        """Whether all places are numbers, (moments,)."""
        return np.asarray(np.isfinite(self.position).all((1, 2)))

    def over_time(self, change: Callable[[np.ndarray], np.ndarray]) -> RecordedGrains:
        """At other moments; change: what makes values of those, along the first axis."""
        return replace(self, position=change(self.position), speed=change(self.speed), force=change(self.force))

    def moved(self, shift: np.ndarray) -> RecordedGrains:
        """Elsewhere [m], (moments, dimension)."""
        return replace(self, position=self.position + shift[:, None])

    def copies(self, moment: int, low: Sequence[float], high: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
        """All copies between two places: which grain each is, (copies,), and its center [m], (copies, dimension).

        low, high: [m], along the axes that repeat, which are the first.
        """
        place = self.position[moment]
        grain = np.arange(len(place))
        for axis, period in enumerate(self.period):
            if not period:
                continue
            first = low[axis] + (place[:, axis] - low[axis]) % period
            along = first[:, None] + np.arange(np.ceil((high[axis] - low[axis]) / period)) * period
            kept, which = np.nonzero(along <= high[axis])
            place, grain = place[kept], grain[kept]
            place[:, axis] = along[kept, which]
        return grain, place

    def values(self, quantity: GrainQuantity, moment: int) -> np.ndarray:
        """What they are colored by, (grains,)."""
        return {"height": self.position[..., -1], "speed": self.speed, "force": self.force}[quantity][moment]


def grains_of(trajectory: Trajectory, systems: Mapping[str, Any]) -> RecordedGrains | None:
    """Those of an episode, None if there are none; systems: of its world, by name."""
    found = [(name, system) for name, system in systems.items() if isinstance(system, Grains)]
    if not found or trajectory.systems is None:
        return None
    name, grains = found[0]
    seen, box = trajectory.systems[name], grains.box
    position = np.array(seen.position, np.float64)
    period = np.where(box.cyclic, box.size, 0.0)
    for axis in np.flatnonzero(period):
        position[..., axis] = np.unwrap(position[..., axis], axis=0, period=period[axis])
    return RecordedGrains(
        position=position,
        speed=np.linalg.norm(np.asarray(seen.velocity, np.float64), axis=-1),
        force=np.asarray(seen.force, np.float64),
        radius=np.broadcast_to(np.asarray(grains.radius, np.float64), position.shape[1:2]),
        period=period,
    )


def touched_by_grains(trajectory: Trajectory) -> np.ndarray | None:
    """1 for voxels of the robot that grains touch, else 0, (moments, *cells); None if there are no grains."""
    seen = [part for part in (trajectory.systems or {}).values() if isinstance(part, GrainsSeen)]
    return np.asarray(seen[0].touched[0]) if seen else None


def grain_scale(beds: Iterable[RecordedGrains | None], quantity: GrainQuantity) -> Scale | None:
    """One for all beds that are shown side by side; None if there is none.

    Heights: from the lowest to the surface; forces: up to what few grains exceed.
    """
    given = [bed for bed in beds if bed is not None]
    if not given:
        return None
    if quantity == "speed":
        return GRAINS[quantity]
    if quantity == "force":
        most = max(float(np.quantile(bed.force, 0.98)) for bed in given)
        return replace(GRAINS[quantity], ends=(0.0, float(f"{max(most, 1e-6):.1e}")))
    height = [bed.position[0, :, -1] for bed in given]
    # A few grains lie on top of the others.
    ends = [min(float(one.min()) for one in height), max(float(np.quantile(one, 0.98)) for one in height)]
    low, high = np.floor(10 * ends[0]) / 10, np.ceil(10 * ends[1]) / 10
    return replace(GRAINS[quantity], ends=(float(low), float(max(high, low + 0.1))))
