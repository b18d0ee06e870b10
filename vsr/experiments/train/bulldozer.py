"""A small network that drives a bulldozer by what it sees: features of the observation and one hidden layer."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.envs.machines import bulldozing
from vsr.envs.machines.bulldozing import CEILING, GOAL, WORLD, Bulldozing, Observation, State
from vsr.envs.machines.kinematic_bodies import GRAVITY

HIDDEN = 16
COARSE = 12, 6
"""Cells of the map from above that the network gets."""
FRONT = 3, 3
"""Cells of the picture out of the windshield."""
TALL = 0.3
"""Unit of heights in the features [m]."""
OUTPUTS = 2


def features(scenario: Bulldozing, seen: Observation) -> Array:
    """Of order 1, (features,): coarse maps, where the vehicle, the goal and the material outside it are."""
    x, y, yaw = seen.place
    height = jnp.minimum(CEILING - seen.sky, TALL) / TALL
    outside, middle = _outside(scenario, height)
    goal = jnp.array([0.5 * (a + b) for a, b in zip(*GOAL, strict=True)])
    weight = scenario.grains.count * scenario.grains.mass * GRAVITY
    return jnp.concatenate(
        [
            _pooled(height, COARSE).reshape(-1),
            _pooled(seen.ego, FRONT).reshape(-1) / scenario.eye.far,
            jnp.stack([x / WORLD[1][0], y / WORLD[1][1], jnp.cos(yaw), jnp.sin(yaw)]),
            _towards(seen.place, goal),
            _towards(seen.place, middle),
            jnp.stack([outside, jnp.tanh(seen.force[0] / weight), jnp.ones_like(x)]),
        ]
    )


def gene_count(feature_count: int) -> int:
    """Weights of the network; features have a constant, the hidden layer gets its own."""
    return feature_count * HIDDEN + (HIDDEN + 1) * OUTPUTS


def first_genes(key: Array, feature_count: int) -> Array:
    """A network that stands still and can learn: random hidden units, outputs of 0."""
    hidden = jax.random.normal(key, (feature_count * HIDDEN,)) / jnp.sqrt(feature_count)
    return jnp.concatenate([hidden, jnp.zeros((HIDDEN + 1) * OUTPUTS)])


def decide(genes: Array, inputs: Array) -> Array:
    """Forward and turn, each between -1 and 1, (2,)."""
    split = len(inputs) * HIDDEN
    hidden = jnp.tanh(inputs @ genes[:split].reshape(len(inputs), HIDDEN))
    return jnp.tanh(jnp.append(hidden, 1.0) @ genes[split:].reshape(HIDDEN + 1, OUTPUTS))


def _pooled(picture: Array, cells: tuple[int, int]) -> Array:
    """Means over equal blocks."""
    rows, columns = (size // count for size, count in zip(picture.shape, cells, strict=True))
    return picture.reshape(cells[0], rows, cells[1], columns).mean((1, 3))


def _outside(scenario: Bulldozing, height: Array) -> tuple[Array, Array]:
    """How much lies outside the goal over what lies anywhere, (), and the middle of that [m], (2,)."""
    x, y = jnp.meshgrid(*scenario.sky.middles(), indexing="ij")
    (low_x, low_y), (high_x, high_y) = GOAL
    out = height * ~((x > low_x) & (x < high_x) & (y > low_y) & (y < high_y))
    total = jnp.maximum(out.sum(), 1e-3)
    return total / jnp.maximum(height.sum(), 1e-3), jnp.stack([(out * x).sum(), (out * y).sum()]) / total


def _towards(place: Array, target: Array) -> Array:
    """Ahead and to the left of the vehicle, over half the world's length, (2,)."""
    way, yaw = target - place[:2], place[2]
    ahead = jnp.cos(yaw) * way[0] + jnp.sin(yaw) * way[1]
    left = jnp.cos(yaw) * way[1] - jnp.sin(yaw) * way[0]
    return jnp.stack([ahead, left]) / WORLD[1][0]


class Outcome(NamedTuple):
    """Of episodes."""

    reward: Array
    """mean over steps, (individuals,); -inf where some episode failed"""
    share: Array
    """of grains that are in the goal at the end, mean over episodes, (individuals,)"""
    failed: Array
    """episodes that failed, (individuals,)"""


class Film(NamedTuple):
    """Of one episode; leading axis (steps + 1,)."""

    position: Array
    """of grains [m], (3, grains)"""
    place: Array
    """of the vehicle: x, y [m] and yaw [rad], (3,)"""
    reward: Array
    """of the step that led there, ()"""


@jax.jit
def evaluate(scenario: Bulldozing, genes: Array, keys: Array) -> Outcome:
    """Policies in all trials; genes: (individuals, genes), keys: (trials,)."""

    def one(genes: Array, key: Array) -> Outcome:
        last, reward = _rolled(scenario, genes, key)
        return Outcome(reward, bulldozing.share_in_goal(last), last.failure > 0)

    every = jax.vmap(jax.vmap(one, (None, 0)), (0, None))(genes, keys)
    failed = every.failed.sum(1)
    # A failure is worse than any reward, also where rewards are negative.
    return Outcome(jnp.where(failed > 0, -jnp.inf, every.reward.mean(1)), every.share.mean(1), failed)


@jax.jit
def record(scenario: Bulldozing, genes: Array, key: Array) -> Film:
    """One policy in one start, with all that a film needs."""
    start = bulldozing.reset(key, scenario)

    def act(state: State, _: None) -> tuple[State, Film]:
        after, reward = _acted(scenario, genes, state)
        return after, Film(after.grains.position, after.place, reward)

    _, later = jax.lax.scan(act, start, length=scenario.pace.limit)
    first = Film(start.grains.position, start.place, jnp.zeros_like(later.reward[0]))
    return jax.tree.map(lambda now, then: jnp.concatenate([now[None], then]), first, later)


def _rolled(scenario: Bulldozing, genes: Array, key: Array) -> tuple[State, Array]:
    """The last state, and the mean reward of all steps."""
    act = partial(_acted, scenario, genes)
    last, rewards = jax.lax.scan(
        lambda state, _: act(state), bulldozing.reset(key, scenario), length=scenario.pace.limit
    )
    return last, rewards.mean()


def _acted(scenario: Bulldozing, genes: Array, state: State) -> tuple[State, Array]:
    action = decide(genes, features(scenario, bulldozing.observe(scenario, state)))
    after, transition = bulldozing.step(scenario, state, action)
    return after, transition.reward
