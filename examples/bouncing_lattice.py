"""Titan's benchmark: a cube of springs, side 5 m, falls on the ground, bounces and comes to rest.

python examples/bouncing_lattice.py [--nodes 10] [--seconds 1.0] [--damping-time 0.002]
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from command_line import run, show

from vsr.lattice import (
    Environment,
    Stiffness,
    advance,
    as_graph,
    count_springs,
    energy,
    floor,
    of_pairs,
    rest_state,
    young_modulus,
)

SIDE, STIFFNESS, MASS, STEP = 5.0, 1e4, 0.1, 1e-4
"""Of the cube [m], of every spring [N/m], of every node [kg]; time step [s]."""
GRAVITY = 9.81


def main(
    *,
    nodes: int = 10,
    seconds: float = 1.0,
    height: float = 0.5,
    damping_time: float = 0.0,
    samples: int = 20,
    grid: bool = True,
) -> dict[str, float]:
    """Drops the cube from a height [m] and watches its energy.

    With damping_time [s] (a spring's damping over its stiffness) it comes to rest; grid: as a grid, which is faster but
    takes longer to compile, or as a list of springs.
    """
    spacing = SIDE / (nodes - 1)
    springs = Stiffness(STIFFNESS, STIFFNESS, STIFFNESS)
    cube = of_pairs((nodes,) * 3, spacing, springs, MASS, damping_time=damping_time)
    cube = cube if grid else as_graph(cube)
    environment = Environment(gravity=GRAVITY, bodies=(floor(3, friction=0.5),))
    state = rest_state(cube, shift=jnp.array([0.0, 0.0, height]))
    count = round(seconds / STEP / samples)
    measure = jax.jit(energy)
    energies = [measure(cube, environment, state)]
    for _ in range(samples):
        state = advance(cube, environment, state, step=STEP, count=count, integrator="verlet")
        energies.append(measure(cube, environment, state))
    total = np.array([float(sample.total) for sample in energies])
    top = float(state.position[..., 2].max())
    # A block under its own weight is shorter by ρ g H² / 2 E.
    density = MASS / spacing**3
    sag = density * GRAVITY * SIDE**2 / (2 * young_modulus(springs, spacing, 3))
    numbers = {
        "springs": float(count_springs(cube)),
        "energy at first [J]": float(total[0]),
        "energy at last [J]": float(total[-1]),
        "largest gain [J]": float(np.diff(total).max(initial=0.0)),
        "kinetic energy at last [J]": float(energies[-1].kinetic),
        "lowest node [m]": float(state.position[..., 2].min()),
        "shorter by, at last [mm]": 1e3 * (SIDE - top),
        "a block at rest: by [mm]": 1e3 * sag,
    }
    show(f"A cube of {nodes}³ nodes for {seconds:g} s on {jax.default_backend()}", list(numbers.items()))
    return numbers


if __name__ == "__main__":
    run(main)
