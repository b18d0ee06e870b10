"""One small policy for 256 different bodies at once: an evolution strategy learns how voxels should act in Walker-v0.

python examples/train_walkers.py [--bodies 256] [--generations 60] [--steps 100] [--out curve.png]

Every body tries the policy with a step of its own added to the weights, and with the same step taken away. Bodies are
drawn at random of EvoGym's soft voxels and its horizontal and vertical actuators, in our physics.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from command_line import run, show
from scipy.ndimage import label

import vsr.envs
from vsr.evo.evolution_strategy import EvolutionStrategy, ask, start, tell

HIDDEN, CLOCK = 8, 0.5
"""Units of the hidden layer; how far the policy's clock goes in a step [rad]."""


def draw_bodies(count: int, side: int = 5) -> np.ndarray:
    """EvoGym's kinds at random, the largest piece of each; (count, side, side)."""
    random = np.random.default_rng(0)
    kinds = random.choice(5, (count, side, side), p=[0.2, 0.0, 0.2, 0.3, 0.3])
    for body in kinds:
        pieces = label(body > 0)[0]
        body[pieces != np.bincount(pieces[pieces > 0]).argmax()] = 0
    return kinds


def surroundings(kinds: np.ndarray) -> np.ndarray:
    """What every voxel of a body knows: its kind, its eight neighbors, its place; (cells, features)."""
    side = len(kinds)
    wide = np.pad(kinds > 0, 1)
    near = [wide[row : row + side, column : column + side] for row in range(3) for column in range(3)]
    place = np.meshgrid(*2 * [np.linspace(-1, 1, side)])
    return np.stack([kinds == 2, kinds == 3, kinds == 4, *near, *place], -1).reshape(side * side, -1).astype(np.float32)


def decide(genes: jax.Array, seen: jax.Array, known: jax.Array, step: jax.Array) -> jax.Array:
    """Target lengths of all voxels, 0.6 to 1.6: each swings with a size and a phase of its own, by the same rule."""
    velocity = jnp.broadcast_to(seen[:2], (len(known), 2))
    inputs = jnp.concatenate([known, velocity, jnp.ones((len(known), 1))], 1)
    first, second = jnp.split(genes, [inputs.shape[1] * HIDDEN])
    hidden = jnp.tanh(inputs @ first.reshape(-1, HIDDEN) / 2)
    clock = jnp.stack([jnp.sin(CLOCK * step), jnp.cos(CLOCK * step), 1.0])
    return 1.1 + 0.5 * jnp.tanh(hidden @ second.reshape(HIDDEN, 3) @ clock)


def main(*, bodies: int = 256, generations: int = 60, steps: int = 100, out: str = "") -> dict[str, float]:
    """Trains the policy; the curve is the mean score of all bodies under the policies that they try."""
    drawn = draw_bodies(bodies)
    env, known = vsr.make("Walker-v0", body=drawn), jnp.stack([surroundings(kinds) for kinds in drawn])
    both = jax.tree.map(lambda leaf: jnp.concatenate([leaf, leaf]), (known, env.default_params))

    def score(genes: jax.Array, known: jax.Array, params: vsr.envs.Params) -> jax.Array:
        """Sum of the rewards of one body."""
        key = jax.random.key(0)  # nothing is random in this task

        def act(now: tuple, step: jax.Array) -> tuple:
            seen, state, reward, *_ = env.step(key, now[1], decide(genes, now[0], known, step), params)
            return (seen, state), reward

        return jax.lax.scan(act, env.reset(key, params), jnp.arange(steps))[1].sum()

    @jax.jit
    def generation(climb):
        """After every body has tried its two policies; the mean score."""
        trials = ask(settings, climb), *both
        scores = jax.lax.map(lambda trial: score(*trial), trials, batch_size=env.at_once(2 * bodies))
        pairs = scores.reshape(2, bodies)
        return tell(settings, climb, (pairs - pairs.mean(0)).reshape(-1)), scores.mean()

    settings, key = EvolutionStrategy(population_size=2 * bodies, spread=0.2, rate=0.05), jax.random.key(1)
    climb, curve = start(key, jax.random.normal(key, ((known.shape[2] + 6) * HIDDEN,))), []
    for number in range(generations):
        climb, mean = generation(climb)
        curve.append(float(mean))
        print(f"{number + 1:4} {curve[-1]:8.4f}", flush=True)
    if out:
        figure, axes = plt.subplots(figsize=(5, 3), layout="constrained")
        axes.plot(range(1, generations + 1), curve)
        axes.set(xlabel="generation", ylabel="mean score", title=f"one policy, {bodies} bodies, {steps} steps")
        figure.savefig(out, dpi=100)
    numbers = {"bodies": float(bodies), "first": curve[0], "last": curve[-1], "best": max(curve)}
    show(f"{generations} generations of {2 * bodies} episodes", list(numbers.items()))
    return numbers


if __name__ == "__main__":
    run(main)
