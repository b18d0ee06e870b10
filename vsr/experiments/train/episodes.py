"""Many policies at once through episodes of bulldozing: the only place here that maps over worlds."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.envs.machines import bulldozing
from vsr.envs.machines.bulldozing import Bulldozing, State
from vsr.experiments.train.policy import decide, features


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
    """Policies in all of some starts; genes: (individuals, genes), keys: (starts,)."""

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
