"""A worm of springs that crawls: a wave of swelling runs along it, as in the Titan paper.

python examples/worm.py [--length 16] [--seconds 3] [--friction 0.8] [--picture worm.png]

It crawls because swollen sections press on the ground while thin ones are carried forward. Without friction it stays;
so it does if all sections swell at once.
"""

from __future__ import annotations

from pathlib import Path

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
    of_pairs,
    peristaltic_wave,
    rest_state,
)

SIDE = 0.1
"""Between neighboring nodes [m]."""


def build(length: int, width: int, *, wave_speed: float = 1.0) -> Lattice:
    """A bar of nodes, driven by Titan's wave: period 1 s, 20 rad/s, a fifth of the rest length."""
    springs = Stiffness(2000.0, 2000.0, 2000.0)
    bar = of_pairs((width, width, length), SIDE, springs, 0.05, damping_time=2e-3, damping=0.5)
    return driven(bar, peristaltic_wave(bar, amplitude=0.2, angular_frequency=20.0, period=1.0, speed=wave_speed))


def main(
    *,
    length: int = 16,
    width: int = 3,
    seconds: float = 3.0,
    friction: float = 0.8,
    wave_speed: float = 1.0,
    grid: bool = True,
    picture: str = "",
) -> dict[str, float]:
    """Lets the worm crawl and measures its speed once it has got going (after the first period).

    wave_speed: [m/s]; grid: as a grid, which is faster but takes longer to compile, or as a list of springs; picture: a
    file for five moments of the last period, seen from the side.
    """
    worm = build(length, width, wave_speed=wave_speed)
    worm = worm if grid else as_graph(worm)
    step = choose_step(worm)
    environment = Environment(bodies=(floor(3, friction=friction),))
    state = rest_state(worm)
    frames, middles = [], []
    # Five samples a period: the wave repeats every second.
    for _ in range(round(5 * seconds) + 1):
        frames.append(state)
        middles.append(float(state.position[..., 0].mean()))
        state = advance(worm, environment, state, step=step, count=round(0.2 / step))
    elapsed = float(frames[-1].time - frames[5].time)
    numbers = {
        "time step [s]": step,
        "moved in the first period [m]": middles[5] - middles[0],
        "speed after that [m/s]": (middles[-1] - middles[5]) / elapsed,
        "body lengths per second": (middles[-1] - middles[5]) / elapsed / (SIDE * (length - 1)),
        "mean height [m]": float(frames[-1].position[..., 2].mean()),
    }
    show(f"A worm of {length} × {width} × {width} nodes, friction {friction:g}", list(numbers.items()))
    if picture:
        draw(frames[-6:], Path(picture))
    return numbers


def draw(frames: list[State], path: Path) -> None:
    """The worm from the side, one strip per moment; the color is the height over the ground."""
    from matplotlib.figure import Figure

    from vsr.experiments.plot.figures import paper_style

    with paper_style():
        figure = Figure(figsize=(9, 1.4 * len(frames)), layout="constrained")
        for row, state in enumerate(frames):
            axes = figure.add_subplot(len(frames), 1, row + 1)
            x, _, z = np.asarray(state.position).reshape(-1, 3).T
            axes.scatter(x, z, c=z, s=14, cmap="viridis")
            axes.axhline(0, color="black", linewidth=0.8)
            start = np.asarray(frames[0].position)[..., 0]
            axes.set(aspect="equal", ylabel=f"{float(state.time):.1f} s\nz [m]", ylim=(-0.05, 0.5))
            axes.set_xlim(start.min() - 0.3, start.max() + 1.0)
        figure.axes[-1].set_xlabel("x [m]")
        figure.savefig(path)


if __name__ == "__main__":
    run(main)
