"""A swarm of cubes that crawls as one: each swells in its turn, thin springs hold them together.

python examples/swarm.py [--columns 5] [--rows 2] [--nodes 3] [--seconds 3]

The springs of the cubes have a diameter of 1 mm, those between the cubes, in the planes of their tops and bottoms, one
of 0.4 mm, so they are 0.16 times as stiff at the same length (k = E A / L), as in the Titan paper.

The drive is turned up over the first second: springs that all at once have another rest length throw the cubes up, and
as nothing but the thin springs keeps them apart, they land in each other.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from command_line import run, show

from vsr.lattice import (
    Environment,
    Lattice,
    State,
    Stiffness,
    advance,
    as_graph,
    choose_step,
    driven,
    floor,
    of_graph,
    of_pairs,
    peristaltic_wave,
    rest_state,
)

SIDE, GAP = 0.1, 0.1
"""Between nodes of a cube, and between cubes [m]."""
MODULUS, THICK, THIN = 2.5e8, 1.0e-3, 0.4e-3
"""Young's modulus [Pa] and diameters of the springs within and between cubes [m]."""


def build(columns: int, rows: int, nodes: int, *, linked: bool = True) -> tuple[Lattice, np.ndarray]:
    """The swarm, and which cube every node belongs to, (nodes,)."""
    cube = as_graph(of_pairs((nodes,) * 3, SIDE, Stiffness(1.0, 1.0, 1.0), 1.0))
    inner = np.stack([cube.springs.first, cube.springs.second], 1)
    corner, size = np.asarray(cube.rest_position, float), cube.mass.size
    pitch = SIDE * (nodes - 1) + GAP
    places = [(pitch * column, pitch * row, 0.0) for row in range(rows) for column in range(columns)]
    position = np.concatenate([corner + place for place in places])
    owner = np.repeat(np.arange(len(places)), size)
    pairs = np.concatenate([inner + size * number for number in range(len(places))])
    thick = np.full(len(pairs), THICK)
    if linked:
        between = links(position, owner, SIDE * (nodes - 1))
        pairs = np.concatenate([pairs, between])
        thick = np.concatenate([thick, np.full(len(between), THIN)])
    swarm = of_graph(
        position,
        pairs,
        young_modulus=MODULUS,
        area=np.pi * thick**2 / 4,
        mass=0.05,
        damping_time=2e-3,
        damping=0.5,
    )
    # Two whole swings a period, so that nothing jumps when the next begins.
    return driven(swarm, peristaltic_wave(swarm, amplitude=0.15, angular_frequency=4 * np.pi, period=1.0)), owner


def links(position: np.ndarray, owner: np.ndarray, height: float) -> np.ndarray:
    """Pairs across gaps, straight and diagonal, among the nodes of tops and of bottoms, (pairs, 2)."""
    found = []
    for level in (0.0, height):
        chosen = np.flatnonzero(np.isclose(position[:, 2], level))
        apart = np.abs(position[chosen, None, :2] - position[None, chosen, :2])
        near = (apart < 1.01 * max(GAP, SIDE)).all(-1) & (owner[chosen, None] < owner[None, chosen])
        first, second = np.nonzero(near)
        found.append(np.stack([chosen[first], chosen[second]], 1))
    return np.concatenate(found)


def begin(swarm: Lattice, environment: Environment, step: float, stages: int = 10) -> State:
    """The swarm after a second in which its drive is turned up; the amplitude is data, so one program serves all."""
    wave, state = swarm.springs.wave, rest_state(swarm)
    assert wave is not None
    for stage in range(1, stages + 1):
        softer = driven(swarm, replace(wave, amplitude=wave.amplitude * (stage / stages)))
        state = advance(softer, environment, state, step=step, count=round(1 / stages / step))
    return state


def middles(state: State, owner: np.ndarray) -> np.ndarray:
    """Of all cubes [m], (cubes, 3)."""
    position = np.asarray(state.position)
    return np.stack([position[owner == cube].mean(0) for cube in range(owner.max() + 1)])


def main(
    *, columns: int = 5, rows: int = 2, nodes: int = 3, seconds: float = 3.0, friction: float = 0.8, linked: bool = True
) -> dict[str, float]:
    """Lets the swarm crawl; linked: whether the cubes are held together at all."""
    swarm, owner = build(columns, rows, nodes, linked=linked)
    step = choose_step(swarm)
    environment = Environment(bodies=(floor(3, friction=friction),))
    state = begin(swarm, environment, step)
    end = advance(swarm, environment, state, step=step, count=round(seconds / step))
    moved = middles(end, owner) - middles(state, owner)
    spread = np.ptp(middles(end, owner) - middles(rest_state(swarm), owner), axis=0)
    numbers = {
        "cubes": float(columns * rows),
        "nodes": float(swarm.mass.size),
        "springs": float(swarm.springs.stiffness.size),
        "moved [m]": float(moved[:, 0].mean()),
        "the slowest cube moved [m]": float(moved[:, 0].min()),
        "the fastest cube moved [m]": float(moved[:, 0].max()),
        "speed [m/s]": float(moved[:, 0].mean()) / seconds,
        "out of place [m]": float(spread[:2].max()),
    }
    show(f"A swarm of {columns} × {rows} cubes for {seconds:g} s", list(numbers.items()))
    return numbers


if __name__ == "__main__":
    run(main)
