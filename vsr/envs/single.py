"""One environment of gymnasium's kind."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import jax
import numpy as np
from jax import Array

from vsr.envs.environment import Environment, Params, refuse_forked
from vsr.envs.gymnasium_spaces import WithLimit, gymnasium, space_of
from vsr.envs.making import make
from vsr.envs.picture import frames_per_second, picture
from vsr.physics.failure import Failure


class SoftRobotEnv(WithLimit, gymnasium.Env):
    """A task for one body; `reset` begins an episode, nothing does so on its own.

    Observations and actions have a number for everything that the body's grid can hold. With `padded=False` there are
    only those that the body has, as in EvoGym.
    """

    metadata: ClassVar[dict[str, Any]] = {"render_modes": ["rgb_array"], "render_fps": 18}

    def __init__(self, name: str, render_mode: str | None = None, padded: bool = True, **options: Any):
        """name: of a task; options: see `vsr.make`."""
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode: {render_mode!r} given; it is None or 'rgb_array'")
        self.env = make(name, **options)
        if self.env.several:
            raise ValueError("body: several given; this is an environment of one: use gymnasium.make_vec")
        self.params, self.render_mode = self.env.default_params, render_mode
        own = {**self.metadata, "render_fps": frames_per_second(self.env)}
        self.metadata = own  # pyright: ignore[reportAttributeAccessIssue]
        masks = self.params.observation_mask, self.params.action_mask
        self._sees, self._acts = (np.asarray(mask) | padded for mask in masks)
        self.observation_space = space_of(self.env.observation_space(), int(self._sees.sum()))
        self.action_space = space_of(self.env.action_space(), int(self._acts.sum()))
        self.state: Any = None
        self._over = True

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        """The first observation, and nothing more."""
        super().reset(seed=seed)
        self._key = jax.random.key(int(self.np_random.integers(2**31)))
        seen, self.state = self.env.reset(self._key, self.params)
        self._over = False
        return np.asarray(seen)[self._sees], {}

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Observation, reward, terminated, truncated; `failure` in info says why a simulation is no use."""
        refuse_forked()
        if self._over:
            raise gymnasium.error.ResetNeeded("the episode is over, or none has begun: call reset() before step()")
        if np.shape(action) != self.action_space.shape:
            raise ValueError(f"action: shape {np.shape(action)} given; it is {self.action_space.shape}")
        whole = np.ones(self._acts.shape, self.action_space.dtype)
        whole[self._acts] = action
        key = jax.random.fold_in(self._key, int(self.state.calls))
        seen, self.state, reward, terminated, info = _step(self.env, key, self.state, whole, self.params)
        truncated = bool(self.env.is_truncated(self.state, self.params))
        self._over = bool(terminated) or truncated
        failure = Failure(int(info["failure"]))
        said = {} if failure is Failure.none else {"failure": failure.name}
        return np.asarray(seen)[self._sees], float(reward), bool(terminated), truncated, said

    def close(self) -> None:
        """Nothing is held open; the episode is over."""
        self._over = True

    def render(self) -> np.ndarray | None:
        """A picture of the present moment, (height, width, 3), if that is what `render_mode` says."""
        if self.render_mode is None:
            gymnasium.logger.warn("make the environment with render_mode='rgb_array' to have pictures")
            return None
        return picture(self.env, self.state, self.params)


@partial(jax.jit, static_argnums=0)
def _step(env: Environment, key: Array, state: Any, action: Array, params: Params) -> Any:
    return env.step_env(key, state, action, params)
