"""Many environments of gymnasium's kind at once: one program, one body each."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.envs.environment import Environment, Params, refuse_forked
from vsr.envs.gymnasium_spaces import WithLimit, gymnasium, space_of
from vsr.envs.making import make
from vsr.envs.picture import frames_per_second, picture

SAME_STEP = gymnasium.vector.AutoresetMode.SAME_STEP


class SoftRobotVectorEnv(WithLimit, gymnasium.vector.VectorEnv):
    """A task for as many bodies as environments, or for one body in all of them.

    An environment whose episode is over begins the next within the same step: the observation is the first of that,
    and the last of the old one is in `final_obs` of info, where `_final_obs` is True.
    """

    metadata: ClassVar[dict[str, Any]] = {
        "render_modes": ["rgb_array"],
        "render_fps": 18,
        "autoreset_mode": SAME_STEP,
    }

    def __init__(self, name: str, num_envs: int = 1, render_mode: str | None = None, **options: Any):
        """name: of a task; options: see `vsr.make`."""
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode: {render_mode!r} given; it is None or 'rgb_array'")
        self.env, self.num_envs, self.render_mode = make(name, **options), num_envs, render_mode
        self.params = self.env.default_params
        if not self.env.several:
            self.params = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (num_envs, *leaf.shape)), self.params)
        given = self.params.max_steps_in_episode.shape[0]
        if given != num_envs:
            raise ValueError(f"body: {given} given for {num_envs} environments; give one, or one for each")
        own = {**self.metadata, "render_fps": frames_per_second(self.env)}
        self.metadata = own  # pyright: ignore[reportAttributeAccessIssue]
        self.single_observation_space = space_of(self.env.observation_space())
        self.single_action_space = space_of(self.env.action_space())
        batched = gymnasium.vector.utils.batch_space
        self.observation_space = batched(self.single_observation_space, num_envs)
        self.action_space = batched(self.single_action_space, num_envs)
        self.state: Any = None

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """The first observations, (environments, numbers)."""
        super().reset(seed=seed)
        self._key, self._steps = jax.random.key(int(self.np_random.integers(2**31))), 0
        seen, self.state = _reset(self.env, self._key, self.params)
        return np.asarray(seen), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Observations, rewards, terminated, truncated, info; leading axis (environments,)."""
        refuse_forked()
        if self.state is None:
            raise gymnasium.error.ResetNeeded("no episode is going on: call reset() before the first step()")
        self.env.check_action(np.shape(actions), self.num_envs)
        self._steps += 1
        key = jax.random.fold_in(self._key, self._steps)
        seen, self.state, reward, *ends, info = _step(self.env, key, self.state, jnp.asarray(actions), self.params)
        terminated, truncated = map(np.asarray, ends)
        over, said = terminated | truncated, {}
        if over.any():
            last, final = np.asarray(info["final_observation"]), np.full(self.num_envs, None, object)
            for number in np.flatnonzero(over):
                final[number] = last[number]
            said = {"final_obs": final, "_final_obs": over}
        return np.asarray(seen), np.asarray(reward, np.float64), terminated, truncated, said

    def render(self) -> tuple[np.ndarray, ...] | None:
        """Pictures of the present moments, if that is what `render_mode` says."""
        if self.render_mode is None:
            gymnasium.logger.warn("make the environment with render_mode='rgb_array' to have pictures")
            return None
        return tuple(picture(self.env, *_one(number, (self.state, self.params))) for number in range(self.num_envs))


def _one(number: int, of_all: Any) -> Any:
    """What belongs to one environment."""
    return jax.tree.map(lambda leaf: leaf[number], of_all)


@partial(jax.jit, static_argnums=0)
def _reset(env: Environment, key: Array, params: Params) -> Any:
    keys = jax.random.split(key, params.max_steps_in_episode.shape[0])
    return jax.vmap(env.reset)(keys, params)


@partial(jax.jit, static_argnums=0)
def _step(env: Environment, key: Array, state: Any, actions: Array, params: Params) -> Any:
    together = jax.random.split(key, len(actions)), state, actions, params
    at_once = env.at_once(len(actions))
    if at_once < len(actions):
        return jax.lax.map(lambda one: env.step(*one), together, batch_size=at_once)
    return jax.vmap(env.step)(*together)
