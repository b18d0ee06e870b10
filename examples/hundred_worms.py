"""A hundred worms at once, each with its own friction and its own frequency: one program, one call.

python examples/hundred_worms.py [--worms 100] [--length 10] [--seconds 2]
"""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from command_line import run, show
from worm import build

from vsr.lattice import Environment, State, advance, as_graph, choose_step, driven, floor, rest_state


def main(*, worms: int = 100, length: int = 10, width: int = 2, seconds: float = 2.0) -> dict[str, float]:
    """Half of the worms have no friction; frequencies go from 5 to 40 rad/s."""
    worm = as_graph(build(length, width))
    wave = worm.springs.wave
    assert wave is not None
    frictions = jnp.where(jnp.arange(worms) % 2 == 0, 0.8, 0.0)
    frequencies = jnp.linspace(5.0, 40.0, worms)
    step = choose_step(worm)

    @jax.vmap
    def crawl(friction: jax.Array, frequency: jax.Array) -> State:
        own = driven(worm, replace(wave, angular_frequency=frequency))
        environment = Environment(bodies=(floor(3, friction=friction),))
        return advance(own, environment, rest_state(own), step=step, count=round(seconds / step))

    state = jax.jit(crawl)(frictions, frequencies)
    speed = np.asarray((state.position - worm.rest_position)[..., 0].mean(1)) / seconds
    gripping = np.asarray(frictions) > 0
    best = int(np.argmax(speed))
    numbers = {
        "springs of all": float(worms * worm.springs.stiffness.size),
        "mean speed with friction [m/s]": float(speed[gripping].mean()),
        "fastest [m/s]": float(speed[best]),
        "at a frequency of [rad/s]": float(frequencies[best]),
        "largest speed without friction [m/s]": float(np.abs(speed[~gripping]).max()),
    }
    show(f"{worms} worms of {length} × {width} × {width} nodes", list(numbers.items()))
    return numbers


if __name__ == "__main__":
    run(main)
