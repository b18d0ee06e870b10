"""Chambers of fluid as they are seen: which voxels they are of, how large they are, and their pressure as a color."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import jax
import numpy as np

from vsr.drawing.colors import PRESSURE, SUCTION, Scale
from vsr.drawing.outlines import FACES
from vsr.episode import Trajectory
from vsr.physics.contract import ChambersSeen
from vsr.physics.engine import AnyModel, engine_of
from vsr.robot.shape import Body

KILO = 1000.0
"""Pascals from which on scales are in kilopascals."""
NO_SUCTION = 0.02
"""Lowest pressures nearer to 0 than this share of the highest are no suction."""


@dataclass(frozen=True)
class RecordedChambers:
    """Fluid over time. SI units."""

    pressure: np.ndarray
    """at the port, above that outside [Pa], (moments, chambers)"""
    volume: np.ndarray
    """over that at rest, (moments, chambers)"""
    rest_volume: np.ndarray
    """[m³], (chambers,)"""
    chamber: np.ndarray
    """to which a voxel belongs, -1 for a solid one, (voxels,)"""

    @cached_property
    def is_fluid(self) -> np.ndarray:
        """(voxels,)."""
        return self.chamber >= 0

    @property
    def voxel_pressure(self) -> np.ndarray:
        """What each voxel's chamber has, 0 in solid ones [Pa], (moments, voxels)."""
        return np.where(self.is_fluid, self.pressure[:, self.chamber], 0)

    def over_time(self, change: Callable[[np.ndarray], np.ndarray]) -> RecordedChambers:
        """At other moments; change: what makes values of those, along the first axis."""
        return replace(self, pressure=change(self.pressure), volume=change(self.volume))


def chambers_of(model: AnyModel, trajectory: Trajectory) -> RecordedChambers | None:
    """Those of an episode, None without fluid, in the order of their first voxels."""
    seen_of = partial(engine_of(model).chambers, model)
    episode = trajectory.state, trajectory.control
    if jax.eval_shape(seen_of, *jax.tree.map(lambda leaf: leaf[0], episode)) is None:
        return None
    constant = ChambersSeen(pressure=0, volume_ratio=0, rest_volume=None, member=None)  # pyright: ignore[reportArgumentType]
    seen: ChambersSeen = jax.jit(jax.vmap(seen_of, out_axes=constant))(*episode)  # pyright: ignore[reportAssignmentType]
    rest_volume = np.asarray(seen.rest_volume, float)
    there = rest_volume > 0
    if not there.any():
        return None
    member = np.asarray(seen.member)[there][:, np.asarray(model.present) > 0] > 0
    return RecordedChambers(
        pressure=np.asarray(seen.pressure, float)[:, there],
        volume=np.asarray(seen.volume_ratio, float)[:, there],
        rest_volume=rest_volume[there],
        chamber=np.where(member.any(0), member.argmax(0), -1),
    )


def chambers_at_rest(body: Body) -> RecordedChambers | None:
    """Those of a body before it moves, None without fluid."""
    materials, present = list(body.materials.values()), body.present
    number = np.full(body.cells.shape, -1)
    for index, material in enumerate(materials):
        if material.fluid is not None:
            from scipy import ndimage  # takes a quarter of a second to load, and few robots have chambers

            labels = np.asarray(ndimage.label(body.cells == index)[0])  # pyright: ignore[reportIndexIssue]
            number = np.where(labels > 0, labels + number.max(), number)
    if number.max() < 0:
        return None
    chamber = number[present]
    first = [int(np.argmax(chamber == label)) for label in range(number.max() + 1)]
    order = np.argsort(np.argsort(first))
    chamber = np.where(chamber >= 0, order[chamber], -1)
    count = np.bincount(chamber[chamber >= 0])
    depth = 1.0
    if body.dimension == 2:
        depth = next(material.fluid.depth for material in materials if material.fluid is not None)
    return RecordedChambers(
        pressure=np.zeros((1, len(count))),
        volume=np.ones((1, len(count))),
        rest_volume=count * body.voxel_side**body.dimension * depth,
        chamber=chamber,
    )


def walls(chamber: np.ndarray, place: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Faces or, in 2-D, sides of fluid voxels that bound their chamber: voxel, (walls,), and corners, (walls, 2 or 4).

    chamber: of the voxels, -1 for solid ones; place: of the voxels in the grid, x first, (voxels, dimension).
    """
    known = {tuple(spot): number for spot, number in zip(place.tolist(), chamber.tolist(), strict=True)}
    voxel, corners = [], []
    for (axis, way), outline in sides(place.shape[1]).items():
        for index, spot in enumerate(place.tolist()):
            spot[axis] += way
            if chamber[index] >= 0 and known.get(tuple(spot), -1) != chamber[index]:
                voxel.append(index)
                corners.append(outline)
    return np.array(voxel, int), np.array(corners, int).reshape(len(corners), -1)


def sides(dimension: int) -> dict[tuple[int, int], tuple[int, ...]]:
    """Corners of a voxel's faces, or of its sides in 2-D, by the axis along which they look and the way."""
    if dimension == 3:
        return dict(FACES)
    return {(0, -1): (0, 2), (0, 1): (1, 3), (1, -1): (0, 1), (1, 1): (2, 3)}


def pressure_scale(given: Iterable[RecordedChambers | None]) -> Scale | None:
    """One for all robots that are shown side by side, None without fluid: up to the largest pressure, either way.

    Below 0 it has colors of its own, where there is suction.
    """
    pressures = [chambers.pressure for chambers in given if chambers is not None]
    if not pressures:
        return None
    low, high = min(float(one.min()) for one in pressures), max(float(one.max()) for one in pressures)
    most = _rounded_up(max(high, -low)) or 1.0
    below = SUCTION if -low > NO_SUCTION * most else ()
    scaled = most >= KILO
    return Scale(
        f"pressure of fluid [{'kPa' if scaled else 'Pa'}]",
        (-most if below else 0.0, most),
        (*below, *PRESSURE),
        per=KILO if scaled else 1.0,
    )


def _rounded_up(value: float) -> float:
    """To two digits."""
    if value <= 0:
        return 0.0
    step = 10.0 ** (np.floor(np.log10(value)) - 1)
    return float(f"{np.ceil(value / step - 1e-6) * step:.6g}")
