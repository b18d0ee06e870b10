"""Environments of gymnasium: one (`SoftRobotEnv`), many in one program (`SoftRobotVectorEnv`), and their pictures."""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from vsr.drawing.painter import Look, Painter
from vsr.drawing.recording import recording_of
from vsr.envs.environment import Environment, Params, refuse_forked
from vsr.envs.making import make
from vsr.envs.spaces import Box
from vsr.episode import EpisodeState, Trajectory
from vsr.physics.failure import Failure
from vsr.tasks import NamedTask
from vsr.tasks.evogym.seen import OUR_STEP

try:
    import gymnasium
    from gymnasium.envs.registration import EnvSpec
except ImportError:
    raise ImportError("environments of gymnasium need it: pip install 'voxel-soft-robots[gym]'") from None


def space_of(box: Box, count: int | None = None) -> gymnasium.spaces.Box:
    """The same for gymnasium; count: of numbers, if fewer."""
    shape = box.shape if count is None else (count,)
    return gymnasium.spaces.Box(box.low, box.high, shape, np.dtype(box.dtype).type)


class LimitedSpec(EnvSpec):
    """A spec with no more steps than its environment has: gymnasium's time limit may be set beyond that."""

    def __setattr__(self, name: str, value: Any) -> None:
        limit = getattr(self, name, None) if name == "max_episode_steps" else None
        if limit is not None:
            value = limit if value is None else min(value, limit)
        super().__setattr__(name, value)


class WithLimit:
    """The part of an environment that says to gymnasium how many steps its episodes have."""

    env: Environment
    _spec: EnvSpec | None = None

    @property
    def spec(self) -> EnvSpec | None:
        """As gymnasium made it, with the limit of this very environment, which depends on body and duration."""
        return self._spec

    @spec.setter
    def spec(self, given: EnvSpec | None) -> None:
        self._spec = None
        if given is not None:
            fields: dict[str, Any] = {
                one.name: getattr(given, one.name) for one in dataclasses.fields(given) if one.init
            }
            fields["max_episode_steps"] = self.env.max_steps
            self._spec = LimitedSpec(**fields)


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
        """The first observation, and nothing more; what `randomize` names is resampled."""
        super().reset(seed=seed)
        self._key = jax.random.key(int(self.np_random.integers(2**31)))
        if self.env.randomization.given:
            self.params = _randomized(self.env, self._key, self.env.default_params)
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
        seen, self.state, reward, terminated, info = _step_one(self.env, key, self.state, whole, self.params)
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
def _randomized(env: Environment, key: Array, params: Params) -> Params:
    return env.randomized(jax.random.fold_in(key, 0), params)


@partial(jax.jit, static_argnums=0)
def _step_one(env: Environment, key: Array, state: Any, action: Array, params: Params) -> Any:
    return env.step_env(key, state, action, params)


AutoresetMode = gymnasium.vector.AutoresetMode
MODES = AutoresetMode.SAME_STEP, AutoresetMode.NEXT_STEP


class SoftRobotVectorEnv(WithLimit, gymnasium.vector.VectorEnv):
    """A task for as many bodies as environments, or for one body in all of them.

    An environment whose episode is over begins the next within the same step: the observation is the first of that,
    and the last of the old one is in `final_obs` of info, where `_final_obs` is True. With `NEXT_STEP` it does so in
    the step after, whose action it ignores.
    """

    metadata: ClassVar[dict[str, Any]] = {
        "render_modes": ["rgb_array"],
        "render_fps": 18,
        "autoreset_mode": AutoresetMode.SAME_STEP,
    }

    def __init__(
        self,
        name: str,
        num_envs: int = 1,
        render_mode: str | None = None,
        autoreset_mode: str | AutoresetMode = AutoresetMode.SAME_STEP,
        **options: Any,
    ):
        """name: of a task; options: see `vsr.make`."""
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ValueError(f"render_mode: {render_mode!r} given; it is None or 'rgb_array'")
        if autoreset_mode not in (*MODES, *(mode.value for mode in MODES)):
            known = " or ".join(repr(mode.value) for mode in MODES)
            raise ValueError(f"autoreset_mode: {autoreset_mode!r} given; it is {known}")
        self.env, self.num_envs, self.render_mode = make(name, **options), num_envs, render_mode
        self._bodies = self.env.default_params
        if not self.env.several:
            self._bodies = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (num_envs, *leaf.shape)), self._bodies)
        self.params = self._bodies
        given = self.params.max_steps_in_episode.shape[0]
        if given != num_envs:
            raise ValueError(f"body: {given} given for {num_envs} environments; give one, or one for each")
        mode = AutoresetMode(autoreset_mode)
        own = {**self.metadata, "render_fps": frames_per_second(self.env), "autoreset_mode": mode}
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
        """The first observations, (environments, numbers); what `randomize` names is resampled for each."""
        super().reset(seed=seed)
        self._key, self._steps = jax.random.key(int(self.np_random.integers(2**31))), 0
        if self.env.randomization.given:
            keys = jax.random.split(self._key, self.num_envs)
            self.params = jax.vmap(partial(_randomized, self.env))(keys, self._bodies)
        seen, self.state = _reset(self.env, self._key, self.params)
        self._seen, self._waiting = seen, np.zeros(self.num_envs, bool)
        return np.asarray(seen), {}

    def step(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Observations, rewards, terminated, truncated, info; leading axis (environments,)."""
        refuse_forked()
        if self.state is None:
            raise gymnasium.error.ResetNeeded("no episode is going on: call reset() before the first step()")
        self.env.check_action(np.shape(actions), self.num_envs)
        self._steps += 1
        key = jax.random.fold_in(self._key, self._steps)
        before = self.state, self._seen
        found = _step(self.env, key, before, jnp.asarray(actions), self.params, self._waiting)
        (self.state, self._seen), last, reward, *ends = found
        terminated, truncated = map(np.asarray, ends)
        over, said = terminated | truncated, {}
        if self.metadata["autoreset_mode"] is AutoresetMode.NEXT_STEP:
            seen, self._waiting = last, over
        else:
            seen = self._seen
            if over.any():
                final = np.full(self.num_envs, None, object)
                for number in np.flatnonzero(over):
                    final[number] = np.asarray(last[number])
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
def _step(env: Environment, key: Array, before: Any, actions: Array, params: Params, waiting: Array) -> Any:
    """State and observation of all, those of the next episode where one is over; what was seen last; reward, ends.

    before: state and observation; waiting: environments that stay as they are.
    """

    def one(key: Array, before: Any, action: Array, params: Params, waiting: Array) -> Any:
        seen, state, reward, terminated, truncated, info = env.step(key, before[0], action, params)
        came = (state, seen), info["final_observation"], reward, terminated, truncated
        stays = before, before[1], *(jnp.zeros_like(part) for part in came[2:])
        return jax.tree.map(partial(jnp.where, waiting), stays, came)

    together = jax.random.split(key, len(actions)), before, actions, params, waiting
    at_once = env.at_once(len(actions))
    if at_once < len(actions):
        return jax.lax.map(lambda own: one(*own), together, batch_size=at_once)
    return jax.vmap(one)(*together)


SIZE = 640, 420
"""Of a picture, width and height [pixels]."""
ROOM = 2.0
"""How many times the robot's grid fits into a picture, at least, either way."""


def picture(env: Environment, state: EpisodeState, params: Params, size: tuple[int, int] = SIZE) -> np.ndarray:
    """The robot on its ground, (height, width, 3), whole numbers from 0 to 255; state, params: of one body."""
    scenario = env.scenario(params)
    world = scenario.world

    def alone(tree):
        return jax.tree.map(lambda leaf: leaf[None], tree)

    other_robots = {name: alone(one.seen(state.world.systems[name])) for name, one in world.systems.items()}
    moment = Trajectory(state.world.time[None], alone(state.world.robots[0]), state.action[None], other_robots or None)
    cells = jnp.where(scenario.model.present > 0, 0, -1)
    recording = recording_of(scenario.model, moment, world.environment, np.asarray(cells), systems=world.systems)
    terrain = env.scene.world.terrain
    ground = None if terrain is None else terrain.line_at(env.task.placement.y)
    painter = Painter(recording, ground, Look(), title=env.name, size=size)
    painter.pixels_per_meter = _scale(env, painter)
    return np.asarray(painter.paint(0))


def frames_per_second(env: Environment) -> int:
    """Of a film with a picture after every step: as fast as it happens; a step of EvoGym's tasks counts as 55 ms."""
    return round(1 / (OUR_STEP if isinstance(env.task, NamedTask) else env.schedule.interval))


def _scale(env: Environment, painter: Painter) -> float:
    """Pixels of a meter: of the whole grid at rest, so that films do not zoom while a robot changes its size."""
    side = env.scene.robot.body.voxel_side
    return float(min(painter.view / (ROOM * np.array([env.cells[-1], env.cells[0]]) * side)))
