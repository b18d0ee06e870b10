"""Columns: Table I of the paper, a cavity with two sections in a column, and how errors fall with the grid."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from vsr.evidence.columns import Distribution, candidates_needed, distribute
from vsr.evidence.validate.checks import Findings, absolute, relative
from vsr.evidence.validate.fluid.exact import of_shape
from vsr.physics.chambers import Filling, load
from vsr.physics.chambers.shapes import Shape, bowl, icosphere, signed_volume, upright_ring

TABLE_1 = {30: 4.1835, 50: 4.1828, 100: 4.1804, 200: 4.1799, 500: 4.1798}
"""Columns along each side, and the paper's volume of a ball of radius 1 cm and 5120 triangles [cm³]."""
GRIDS = (25, 50, 100, 200, 400)


def in_columns(shape: Shape, grid: int, sections: int = 1) -> Distribution:
    """A cavity by columns, none left out."""
    surface, position = of_shape(shape)
    needed = candidates_needed(shape.corners, shape.position, grid)
    return jax.jit(partial(distribute, surface, grid=grid, candidates=needed, sections=sections))(position)


def check_table() -> Findings:
    """The ball of Table I."""
    ball = icosphere(4)
    found = {grid: in_columns(ball, grid) for grid in TABLE_1}
    lost = sum(int(one.left_out) + int(one.unpaired) for one in found.values())
    note = f"its exact volume is {signed_volume(ball):.5f} cm³; columns not looked at or without a pair: {lost}"
    return Findings(
        [
            absolute(f"volume with {grid}² columns", float(one.volume), TABLE_1[grid], 1e-4, "cm³", note)
            for grid, one in found.items()
        ]
    )


def check_ring() -> Findings:
    """A ring that stands has two sections in its middle columns; the paper's rabbit is not ours to ship."""
    ring = upright_ring()
    found, alone = in_columns(ring, 200, 2), in_columns(ring, 200, 1)
    note = f"ring of {len(ring.corners)} triangles, 200² columns"
    return Findings(
        [
            relative("volume, two sections a column", float(found.volume), signed_volume(ring), 1e-4, "m³", note),
            absolute("hits without a pair, two sections", float(found.unpaired), 0, 0, "", note),
            relative("one section too few is reported (1: yes)", float(alone.unpaired > 0), 1, 0, "", note),
        ]
    )


def check_orders() -> Findings:
    """How fast volume and nodal load approach the exact ones."""
    shape = bowl(3)
    surface, position = of_shape(shape)
    open_at_the_top = Filling(*(jnp.array([value]) for value in (0.0, 1.0, 0.0)))
    exact = -np.asarray(load(surface, position, open_at_the_top, 1.0))[:, 2]
    shares = [np.asarray(in_columns(shape, grid).share) for grid in GRIDS]
    volumes = [float(abs(share.sum() / exact.sum() - 1)) for share in shares]
    loads = [float(np.linalg.norm(share - exact) / np.linalg.norm(exact)) for share in shares]
    note = (
        f"bowl of {len(shape.corners)} triangles with its port at the lid, {GRIDS[0]}² to {GRIDS[-1]}² columns; "
        "midpoints have order 2, with scatter from triangle to triangle"
    )
    return Findings(
        [
            absolute("order of the nodal load", _order(loads), 2, 0.5, "", note),
            absolute("order of the volume", _order(volumes), 2, 0.5, "", note),
            absolute(
                f"error of the nodal load at {GRIDS[-2]}² (share, root mean square)", loads[-2], 0, 1e-3, "", note
            ),
        ],
        {"columns": {"grid": list(GRIDS), "volume": volumes, "load": loads}},
    )


def _order(errors: list[float]) -> float:
    """Slope over the number of columns along a side."""
    return float(-np.polyfit(np.log(GRIDS), np.log(errors), 1)[0])
