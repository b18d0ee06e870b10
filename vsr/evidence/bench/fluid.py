"""`vsr bench fluid`: cavities by columns, and loads of many bodies in the exact form.

The benchmark times one compiled program that repeats the work for a number of rounds, so that starting it does not
count. Every round moves the bodies by a hair that depends on the last one's result, so that none can be left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.evidence.bench.benchmark import (
    Benchmark,
    Metrics,
    Settings,
    compiled,
    costs_shown,
    duration,
    here,
    time_calls,
)
from vsr.evidence.columns import candidates_needed, distribute
from vsr.physics.fluid import Filling, load, surface_of
from vsr.physics.fluid.shapes import Shape, icosphere, voxel_block

GRAVITY = 9.81
HAIR = 1e-9


@dataclass(frozen=True)
class BenchFluid(Benchmark):
    """Bodies full of fluid."""

    bodies: int
    grid: int | None = None
    """columns along each side, for balls; without it, voxels in the exact form"""
    detail: int = 4
    """times that the triangles of a ball were cut into four"""
    cells: tuple[int, ...] = (8, 3, 5)
    """voxels of a body along each axis, the vertical first"""
    chambers: int = 2
    """the voxels of a body in equal parts"""
    rounds: tuple[int, int] = (1, 200)
    """on the CPU and on an accelerator"""

    def measure(self, settings: Settings) -> Metrics:
        rounds = here(self.rounds)
        shape = voxel_block(*self.cells, shaken=0.1) if self.grid is None else icosphere(self.detail, radius=0.01)
        work = _loads(self, shape) if self.grid is None else _columns(self.grid, shape)
        start = _poses(shape, self.bodies)

        def run(place: Array) -> Array:
            return jax.lax.fori_loop(0, rounds, lambda _, now: now + HAIR * jax.vmap(work)(now)[:, None, None], place)

        done = compiled(run, start)
        wall = time_calls(lambda: done.program(start), settings.repeats).wall
        return {
            "bodies": self.bodies,
            "faces": len(shape.corners),
            "grid": self.grid,
            "rounds": rounds,
            "round_s": wall["median_s"] / rounds,
            "bodies_per_s": self.bodies * rounds / wall["median_s"],
            **done.costs(),
            **wall,
        }

    def rows(self, metrics: Metrics) -> list[tuple[str, str]]:
        grid = f", {self.grid}² columns" if self.grid else ""
        name = f"{self.name:12} {self.bodies} x {metrics['faces']:,} faces{grid}"
        each = f"{duration(metrics['round_s'])} for all; {metrics['rounds']} rounds in"
        return [(name, f"{each} {costs_shown(metrics)}")]


def _columns(grid: int, shape: Shape) -> Callable[[Array], Array]:
    """A function of the nodes of a cavity that needs its volume and all nodal shares."""
    surface = surface_of(shape.corners, len(shape.position))
    candidates = max(candidates_needed(shape.corners, place, grid) for place in np.asarray(_poses(shape, 4)))

    def work(place: Array) -> Array:
        found = distribute(surface, place, grid=grid, candidates=candidates)
        return found.volume + found.share.max() + (found.left_out + found.unpaired).astype(place.dtype)

    return work


def _loads(scene: BenchFluid, shape: Shape) -> Callable[[Array], Array]:
    """A function of the nodes of a body that needs the loads on all of them."""
    parts = len(shape.corners)
    chamber = np.arange(parts) // (2 * len(scene.cells)) * scene.chambers // (parts // (2 * len(scene.cells)))
    surface = surface_of(shape.corners, len(shape.position), chamber=chamber, chambers=scene.chambers)
    every = jnp.ones(scene.chambers, jnp.float32)
    filling = Filling(pressure=1e3 * every, density=1e3 * every, port=every)
    return lambda place: load(surface, place, filling, GRAVITY).max()


def _poses(shape: Shape, bodies: int) -> Array:
    """The same body turned about a tilted axis, a little further for each [m], (bodies, nodes, 3)."""
    from scipy.spatial.transform import Rotation

    turns = Rotation.from_rotvec(np.linspace(0, 1, bodies)[:, None] * (0.2, 0.9, 0.4)).as_matrix()
    return jnp.asarray(np.einsum("bij,nj->bni", turns, shape.position), jnp.float32)


SCENES = (
    BenchFluid("columns-30", 4, 30),
    BenchFluid("columns-200", 4, 200),
    BenchFluid("columns-500", 4, 500),
    BenchFluid("exact", 1),
    BenchFluid("exact-x1000", 1000),
)
"""Four cavities of 5120 triangles, as the paper timed them, and bodies as evolution has them."""
