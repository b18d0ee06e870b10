"""`vsr bench 3d`: Titan's bouncing lattice, alone and many at once, and 3-D voxel robots.

A lattice is a cube of side 5 m of n x n x n nodes of 0.1 kg, springs of 10 kN/m between all neighbors, a plane to
bounce on, steps of 0.1 ms. What is counted is springs times steps times lattices per second of wall time.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp

from vsr.compute.implementation import chosen
from vsr.evidence.bench.benchmark import Benchmark, Metrics, Settings, compiled, costs_shown, here, time_calls
from vsr.evidence.bench.planar import BenchScene
from vsr.lattice import Environment, Lattice, Plane, State, Stiffness, advance, of_pairs, rest_state, spring_count

SIDE, STIFFNESS, MASS, STEP = 5.0, 1e4, 0.1, 1e-4


@dataclass(frozen=True)
class BenchLattice(Benchmark):
    """Cubes that bounce."""

    nodes: int
    """along every axis"""
    copies: int = 1
    """lattices that bounce at once, each from its own height"""
    steps: tuple[int, int] = (100, 5000)
    """on the CPU and on an accelerator"""

    def measure(self, settings: Settings) -> Metrics:
        steps = here(self.steps)
        lattice, environment, states = bouncing(self)

        def bounce(states: State) -> State:
            one = partial(advance, lattice, environment, step=STEP, count=steps, implementation=settings.implementation)
            return one(states) if self.copies == 1 else jax.vmap(one)(states)

        done = compiled(bounce, states)
        wall = time_calls(lambda: done.program(states), settings.repeats).wall
        springs = spring_count((self.nodes,) * 3) * self.copies
        return {
            "lattices": self.copies,
            "springs": springs,
            "steps": steps,
            "implementation": chosen(settings.implementation, jnp.float32),
            "spring_updates_per_s": springs * steps / wall["median_s"],
            **done.costs(),
            **wall,
        }

    def rows(self, metrics: Metrics) -> list[tuple[str, str]]:
        name = f"{self.name:16} {metrics['springs']:,} springs x {metrics['steps']} steps"
        return [(name, f"{metrics['spring_updates_per_s']:.3g} springs/s; {costs_shown(metrics)}")]


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


LATTICES = (
    BenchLattice("bounce-10", 10, steps=(2000, 5000)),
    BenchLattice("bounce-28", 28, steps=(100, 5000)),
    BenchLattice("bounce-50", 50, steps=(20, 2000)),
    BenchLattice("bounce-10-x100", 10, 100, steps=(20, 2000)),
    BenchLattice("bounce-10-x1000", 10, 1000, steps=(3, 500)),
)
"""Those that Titan and Cronos were measured with."""

_QUADRUPED = {"shape": [["aaaa", "aaaa", "aaaa"], ["a..a", "....", "a..a"]]}
_BOX = {"shape": [["aaaa"] * 4] * 3}
_EVOLVED = {"type": "gaussian_mixture", "grid": [5, 5, 5]}
ROBOTS = (
    BenchScene("quadruped", _QUADRUPED, 256, seconds=(1.0, 10.0)),
    BenchScene("box-4x4x3", _BOX, 256, seconds=(0.5, 10.0)),
    BenchScene("box-4x4x3", _BOX, 4096, seconds=(0.1, 10.0)),
    BenchScene("random-5x5x5", _EVOLVED, 1024, "sine_by_material", time_step=1 / 30, seconds=(0.1, 10.0)),
)
"""Voxel robots with phases, and bodies that evolve, as `vsr evolve` runs them."""
SCENES = (*LATTICES, *ROBOTS)
