"""`vsr bench 3d`: Titan's bouncing lattice, alone and many at once, and 3-D voxel robots.

A lattice is a cube of side 5 m of n x n x n nodes of 0.1 kg, springs of 10 kN/m between all neighbours, a plane to
bounce on, steps of 0.1 ms. What is counted is springs times steps times lattices per second of wall time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from vsr.compute.implementation import Implementation, chosen
from vsr.evidence.bench.planar import BenchScene
from vsr.evidence.bench.timing import device_peak_bytes, peak_bytes, timed
from vsr.lattice import Environment, Lattice, Plane, State, Stiffness, advance, of_pairs, rest_state, spring_count

SIDE, STIFFNESS, MASS, STEP = 5.0, 1e4, 0.1, 1e-4


@dataclass(frozen=True)
class BenchLattice:
    """One thing to time."""

    nodes: int
    """along every axis"""
    copies: int = 1
    """lattices that bounce at once, each from its own height"""
    steps: tuple[int, int] = (100, 5000)
    """on the CPU and on an accelerator"""

    @property
    def name(self) -> str:
        """As `--scene` takes it."""
        return f"bounce-{self.nodes}" if self.copies == 1 else f"bounce-{self.nodes}-x{self.copies}"


LATTICES = (
    BenchLattice(10, steps=(2000, 5000)),
    BenchLattice(28, steps=(100, 5000)),
    BenchLattice(50, steps=(20, 2000)),
    BenchLattice(10, 100, steps=(20, 2000)),
    BenchLattice(10, 1000, steps=(3, 500)),
)
"""Those that Titan and Cronos were measured with."""

_QUADRUPED = {"shape": [["aaaa", "aaaa", "aaaa"], ["a..a", "....", "a..a"]]}
_BOX = {"shape": [["aaaa"] * 4] * 3}
_EVOLVED = {"type": "gaussian_mixture", "grid": [5, 5, 5]}
ROBOTS = (
    BenchScene("quadruped", _QUADRUPED, 256, seconds=(1.0, 10.0)),
    BenchScene("box-4x4x3", _BOX, 256, seconds=(0.5, 10.0)),
    BenchScene("box-4x4x3", _BOX, 4096, seconds=(0.1, 10.0)),
    BenchScene("random-5x5x5", _EVOLVED, 1024, "by_material", time_step=1 / 30, seconds=(0.1, 10.0)),
)
"""Voxel robots with phases, and bodies that evolve, as `vsr evolve` runs them."""


def bench_lattice(scene: BenchLattice, repeats: int, implementation: Implementation = "auto") -> dict[str, Any]:
    """Compile and time one scene; times in seconds."""
    steps = scene.steps[0 if jax.default_backend() == "cpu" else 1]
    lattice, environment, states = bouncing(scene)

    def bounce(states: State) -> State:
        one = partial(advance, lattice, environment, step=STEP, count=steps, implementation=implementation)
        return one(states) if scene.copies == 1 else jax.vmap(one)(states)

    began = time.perf_counter()
    program = jax.jit(bounce).lower(states).compile()
    compile_s = time.perf_counter() - began
    figures = timed(lambda: program(states), repeats)
    springs = spring_count((scene.nodes,) * 3) * scene.copies
    return {
        "scene": scene.name,
        "lattices": scene.copies,
        "springs": springs,
        "steps": steps,
        "implementation": chosen(implementation, jnp.float32),
        "spring_updates_per_s": springs * steps / figures["median_s"],
        "compile_s": compile_s,
        "peak_bytes": peak_bytes(program),
        "device_peak_bytes": device_peak_bytes(),
        **figures,
    }


def bouncing(scene: BenchLattice) -> tuple[Lattice, Environment, State]:
    """The lattice, its plane, and where the copies begin (leading axis if there are several)."""
    side = SIDE / (scene.nodes - 1)
    lattice = of_pairs((scene.nodes,) * 3, side, Stiffness(STIFFNESS, STIFFNESS, STIFFNESS), MASS)
    plane = Plane(jnp.zeros(3), jnp.array([0.0, 0.0, 1.0]), friction=jnp.asarray(0.5), restitution=jnp.asarray(0.0))
    heights = 0.1 + 0.001 * jnp.arange(scene.copies)

    def raised(height):
        return rest_state(lattice, shift=jnp.stack([0 * height, 0 * height, height]))

    states = raised(heights[0]) if scene.copies == 1 else jax.vmap(raised)(heights)
    return lattice, Environment(bodies=(plane,)), states
