"""Fluid in chambers against hydrostatics, closed forms and a paper's table; robots with chambers: fluid_robots.py.

The exact form: load against the gradient of the energy, weight, center, and neighbors that cancel. Columns: Table I of
the paper, a cavity with two sections in a column, and how errors fall with the grid.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.figure import Figure

from vsr.evidence.columns import Distribution, candidates_needed, distribute
from vsr.evidence.validate.checks import Checks, Findings, Row, absolute, relative
from vsr.evidence.validate.fluid_robots import check_laplace, check_motion, check_weight
from vsr.physics.fluid import Filling, Surface, energy, first_moment, load, surface_of, volume
from vsr.physics.fluid.shapes import Shape, block, bowl, icosphere, signed_volume, upright_ring, voxel_block

# The exact form

GRAVITY = 9.81
WATER = 1000.0


def check_loads() -> Findings:
    """Shapes of every kind of face, under pressure and full of water."""
    shapes = {
        "polygon": voxel_block(3, 4, shaken=0.2),
        "ball of 5120 triangles": icosphere(4),
        "ring of triangles": upright_ring(),
        "bent voxels": voxel_block(3, 3, 4, shaken=0.2),
    }
    return Findings([row for name, shape in shapes.items() for row in _loads(name, shape)])


def _loads(name: str, shape: Shape) -> list[Row]:
    surface, position = of_shape(shape)
    filling = Filling(*(jnp.array([value]) for value in (500.0, WATER, 0.3)))
    push = np.asarray(jax.jit(load)(surface, position, filling, GRAVITY))
    gradient = jax.jit(jax.grad(lambda place: energy(surface, place, filling, GRAVITY).sum()))(position)
    weight = WATER * GRAVITY * float(volume(surface, position)[0])
    turned = np.asarray(position)[:, 0] * push[:, -1] - np.asarray(position)[:, -1] * push[:, 0]
    note = "relative to the largest force on a node, or to the weight; pressure 500 Pa, port at 0.3 m"
    return [
        absolute(
            f"{name}: load against the gradient of the energy",
            float(np.abs(push + gradient).max() / np.abs(push).max()),
            0,
            1e-6,
            "",
            note,
        ),
        relative(f"{name}: sum of the load", -push[:, -1].sum(), weight, 1e-9, "N", note),
        absolute(f"{name}: sum across gravity", float(np.abs(push[:, :-1].sum(0)).max() / weight), 0, 1e-9, "", note),
        absolute(
            f"{name}: moment against that of the weight at the center, over the weight",
            float(turned.sum() / weight) + _center(shape),
            0,
            1e-9,
            "m",
            note,
        ),
    ]


def _center(shape: Shape) -> float:
    """Of the fluid along x [m]: its height when the body lies on its side."""
    surface, position = of_shape(shape._replace(corners=shape.corners[:, ::-1]))
    axes = np.arange(position.shape[1])
    axes[[0, -1]] = axes[[-1, 0]]  # a reflection, hence the faces turned round
    lying = position[:, axes]
    return float(first_moment(surface, lying)[0] / volume(surface, lying)[0])


def check_volumes() -> Findings:
    """Against closed forms and against each other."""
    ball, brick = icosphere(4), block((2.0, 3.0, 4.0))
    surface, position = of_shape(brick)
    full = Filling(*(jnp.array([value]) for value in (0.0, WATER, 4.0)))
    push = np.asarray(load(surface, position, full, GRAVITY))
    wall = float(push[brick.position[:, 0] == 2][:, 0].sum())
    bent = voxel_block(2, 2, 3, shaken=0.2)
    many, place = of_shape(bent)
    apart = replace(many, chamber=jnp.repeat(jnp.arange(12), 6), chambers=12)
    note = "the ball has 5120 triangles; the brick is full of water, 2 x 3 x 4 m"
    return Findings(
        [
            relative("ball: volume against tetrahedra", float(_volume(ball)), signed_volume(ball), 1e-12, "m³", note),
            relative(
                "brick: height of the center", float(first_moment(surface, position)[0] / 24), 2, 1e-12, "m", note
            ),
            relative("brick: push on a wall, ρ g h² b / 2", wall, WATER * GRAVITY * 8 * 3, 1e-12, "N", note),
            relative(
                "bent voxels: all as one against their sum",
                float(volume(many, place)[0]),
                float(volume(apart, place).sum()),
                1e-12,
                "m³",
                note,
            ),
        ]
    )


def of_shape(shape: Shape) -> tuple[Surface, jax.Array]:
    """Its surface, and where its nodes are [m]."""
    kind = jnp.zeros(()).dtype  # as the suite was asked to compute
    return surface_of(shape.corners, len(shape.position), dtype=kind), jnp.asarray(shape.position, kind)


def _volume(shape: Shape) -> jax.Array:
    return volume(*of_shape(shape))[0]


# Columns

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


# The suite


def draw(series: dict[str, Any]) -> Iterator[tuple[str, Figure]]:
    """How errors of columns fall with their number."""
    if "columns" in series:
        curves = series["columns"]
        figure = Figure(figsize=(4, 3), layout="constrained")
        panel = figure.subplots()
        for name in ("volume", "load"):
            panel.loglog(curves["grid"], curves[name], "o-", label=name)
        second = [curves["load"][0] * (curves["grid"][0] / grid) ** 2 for grid in curves["grid"]]
        panel.loglog(curves["grid"], second, "k:", label="order 2")
        panel.set(xlabel="columns along each side", ylabel="relative error")
        panel.legend()
        yield "fluid_columns", figure


SUITE = Checks(
    "fluid",
    {
        "exact volumes": check_volumes,
        "exact loads": check_loads,
        "robots, Laplace": check_laplace,
        "robots, weight": check_weight,
        "robots, motion": check_motion,
        "columns, Table I": check_table,
        "columns, a ring that stands": check_ring,
        "columns, orders": check_orders,
    },
    "float64",
    draw,
    longest_first=("columns, Table I", "exact loads"),
)
