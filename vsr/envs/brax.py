"""An environment as brax sees one: everything in one state, no reset within a step, actions between -1 and 1.

brax itself is not needed.

For many bodies make the view inside `vmap`: `jax.vmap(lambda params, key: BraxView(env, params).reset(key))`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from vsr.envs.environment import Environment, Params
from vsr.episode import EpisodeState


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class BraxState:
    """The fields of brax's state."""

    pipeline_state: EpisodeState
    obs: Array
    reward: Array
    done: Array
    """1 where the episode ended or time is up, else 0"""
    metrics: dict[str, Array] = field(default_factory=dict)
    info: dict[str, Any] = field(default_factory=dict)

    def replace(self, **changes: Any) -> BraxState:
        """With other values of some fields."""
        return replace(self, **changes)


class BraxView:
    """brax.envs.base.Env in name and behavior."""

    backend = "vsr"

    def __init__(self, env: Environment, params: Params | None = None):
        self.env, self.params = env, env.default_params if params is None else params
        self.observation_size, self.action_size = env.observation_space().shape[0], env.num_actions

    def reset(self, rng: Array) -> BraxState:
        """The first state."""
        seen, state = self.env.reset(rng, self.params)
        nothing = jnp.zeros((), seen.dtype)
        return BraxState(state, seen, nothing, nothing, {"reward": nothing}, {"truncation": nothing, "key": rng})

    def step(self, state: BraxState, action: Array) -> BraxState:
        """The state after an action, whose numbers from -1 to 1 stand for the least to the greatest."""
        key, own = jax.random.split(state.info["key"])
        bounds = self.env.action_space()
        action = bounds.low + (action + 1) / 2 * (bounds.high - bounds.low)
        seen, after, reward, ended, _ = self.env.step_env(own, state.pipeline_state, action, self.params)
        late = self.env.is_truncated(after, self.params)
        info = {**state.info, "truncation": (late & ~ended).astype(seen.dtype), "key": key}
        metrics, done = {**state.metrics, "reward": reward}, (ended | late).astype(seen.dtype)
        return replace(state, pipeline_state=after, obs=seen, reward=reward, done=done, metrics=metrics, info=info)

    @property
    def unwrapped(self) -> BraxView:
        """Itself."""
        return self
