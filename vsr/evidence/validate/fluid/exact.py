"""The exact form: load against the gradient of the energy, weight, centre, and neighbours that cancel."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np

from vsr.evidence.validate.checks import Findings, Row, absolute, relative
from vsr.physics.chambers import Filling, Surface, energy, first_moment, load, surface_of, volume
from vsr.physics.chambers.shapes import Shape, block, icosphere, signed_volume, upright_ring, voxel_block

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
            f"{name}: moment against that of the weight at the centre, over the weight",
            float(turned.sum() / weight) + _centre(shape),
            0,
            1e-9,
            "m",
            note,
        ),
    ]


def _centre(shape: Shape) -> float:
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
                "brick: height of the centre", float(first_moment(surface, position)[0] / 24), 2, 1e-12, "m", note
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
