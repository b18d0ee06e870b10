"""An environment as pure functions, with the signatures of gymnax 1.0. `jit` and `vmap` them at will.

The body is in `params`, so `vmap` over params is `vmap` over bodies:

    env = vsr.make("Walker-v0", body=bodies)
    params = env.default_params
    observation, state = jax.vmap(env.reset)(keys, params)
    observation, state, reward, terminated, truncated, info = jax.vmap(env.step)(keys, state, action, params)

Nothing here knows gymnax, brax or gymnasium.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax._src import xla_bridge  # nothing public says whether JAX has begun without beginning it

from vsr.envs.randomization import Randomization
from vsr.envs.spaces import Box, action_space, box, controls_of, in_drawn_order
from vsr.episode import (
    FARTHEST,
    EpisodeState,
    Scenario,
    begin,
    observe,
    observe_task,
    reset,
    scenario_of,
    step,
    within_bounds,
)
from vsr.physics.engine import ENGINES, AnyModel
from vsr.randomization import SCALED, engine_factors
from vsr.robot import Body
from vsr.scene import Scene, plan
from vsr.sensors import Sensor
from vsr.tasks import Task
from vsr.world.build import build_systems
from vsr.world.state import prepared

CELLS_IN_CACHE = 1600
"""Of all environments that a CPU moves together: 64 walkers of 5x5 squares took a seventh less time each than 32, and a
third less than 96, on a core with 1 MB of cache."""
PAIRS_IN_CACHE = 800
"""The same where voxels of a robot are looked at two by two, which needs more room."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Params:
    """What one body brings to an environment; with a leading axis, what several bring."""

    model: AnyModel
    """the body, assembled and prepared for its world; for another one give `params_of` another body"""
    start: EpisodeState
    """its first state; if the task draws at random, before that"""
    first_observation: Array
    """of that state, (numbers,)"""
    observation_mask: Array
    """False for numbers that this body does not have and that are 0, (numbers,)"""
    action_mask: Array
    """False for cells without an actuator, whose numbers do nothing, (cells,)"""
    max_steps_in_episode: Array
    """()"""
    drawn: dict[str, Array] = field(default_factory=dict)
    """what differs from other copies (vsr.envs.randomization), () each: factors, delay, deviations of noise. `delay`
    and noise may be replaced; for all others see `Environment.varied`"""

    def replace(self, **changes: Any) -> Params:
        """With other values of some fields."""
        return replace(self, **changes)


class Environment:
    """A task for bodies of one grid and the same materials. Two that say the same share their compiled programs."""

    def __init__(
        self,
        name: str,
        scene: Scene,
        bodies: Sequence[Body],
        sensors: tuple[Sensor, ...],
        several: bool,
        max_steps: int | None = None,
        randomization: Randomization | None = None,
    ):
        """scene: of the first body; sensors: what is observed of every voxel, if not what the task shows; several:
        whether params have a leading axis for bodies; max_steps: of an episode, if fewer than the task has;
        randomization: how copies may differ."""
        refuse_forked()
        randomization = Randomization() if randomization is None else randomization
        self._made_with = name, scene, tuple(bodies), sensors, several, max_steps, randomization
        body = scene.robot.body
        self.name, self.scene, self.sensors, self.several = name, scene, sensors, several
        self.materials = list(body.materials.values())
        self.used = sorted({int(index) for one in bodies for index in np.unique(one.cells[one.present])})
        self.dtype = jnp.dtype(scene.physics.precision)
        self.randomization = self._checked(randomization)
        planned = [self.materials[index] for index in self.used]
        planned += [randomization.stiffened(one) for one in planned] if randomization.scaled else []
        self.schedule = plan(body, planned, scene.world, scene.task, scene.physics)
        self.max_steps = self._limit(max_steps)
        self._surroundings = scene.world.build(self.dtype)
        self._systems = build_systems(scene.world, body, self.schedule, self.dtype)
        self._engine = ENGINES[body.engine]
        self.layers = max(self._engine.layers_needed(one.present) for one in bodies)
        # Room for chambers depends on the body if there is but one; nothing else does, so programs serve all bodies.
        single = not several and any(material.fluid is not None for material in self.materials)
        cells = body.cells if single else None
        self._table = self._engine.table(self.materials, body.voxel_side, body.dimension, self.dtype, cells)
        plain = {"world": scene.world, "task": scene.task, "physics": scene.physics}
        self._identity = json.dumps(
            {
                **{name: spec.to_plain() for name, spec in plain.items()},
                "sensors": [sensor.to_plain() for sensor in sensors],
                "body": {**body.to_plain(), "shape": body.cells.tolist() if single else body.cells.shape},
                "schedule": str(self.schedule),
                "layers": self.layers,
                "max_steps": self.max_steps,
                "randomization": randomization.to_plain(),
            }
        )
        self.default_params = self.params_of(bodies if several else body)

    def __hash__(self) -> int:
        return hash(self._identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Environment) and self._identity == other._identity

    def __copy__(self) -> Environment:
        return self  # nothing of it ever changes

    def __deepcopy__(self, memo: dict[int, Any]) -> Environment:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        return Environment, self._made_with

    @property
    def task(self) -> Task:
        """With all that it leaves open filled in."""
        return self.scene.task

    @property
    def cells(self) -> tuple[int, ...]:
        """Of the grid, the lowest first."""
        return self.scene.robot.body.cells.shape

    def _limit(self, given: int | None) -> int:
        """Steps of an episode, if fewer are asked for than the task has, or not."""
        own = self.schedule.calls
        if given is not None and not 1 <= given <= own:
            raise ValueError(
                f"max_episode_steps: {given} given; it is from 1 to {own}, as many as the task's `duration` has: "
                "give a longer one [s] for more steps"
            )
        return own if given is None else given

    def _checked(self, given: Randomization) -> Randomization:
        """What the engine and the world can vary."""
        engine = ENGINES[self.scene.robot.body.engine]
        constant = [name for name in given.scaled if name not in engine.scales]
        if constant:
            kind = self.scene.robot.body.engine
            raise ValueError(f"randomize: {kind} masses have no {' and no '.join(constant)} of their own")
        if given.gravity is not None and self.scene.world.is_loose:
            raise ValueError("randomize.gravity: sand has settled in that of its world")
        return given

    # bodies

    def params_of(self, bodies: Body | Sequence[Body]) -> Params:
        """Params of a body, or of several with a leading axis: of the same grid, materials and kind of masses.

        Raises ValueError for others.
        """
        given = [bodies] if isinstance(bodies, Body) else list(bodies)
        for number, body in enumerate(given):
            self._check(body, number)
        cells = np.stack([body.cells for body in given])
        return _params(self, cells[0]) if isinstance(bodies, Body) else jax.vmap(partial(_params, self))(cells)

    def params_of_cells(self, cells: Array) -> Params:
        """Params of any body on the grid, also inside `jit` and `vmap`; cells: as `Body.cells` has them.

        Nothing is checked. Only materials of the bodies that the environment was made with may be in it, because time
        steps are short enough for those; voxels may touch at nothing but a corner only if some do in one of them.
        """
        return _params(self, cells)

    def _check(self, body: Body, number: int) -> None:
        own, which = self.scene.robot.body, f"body {number}"
        if body.cells.shape != own.cells.shape:
            raise ValueError(f"{which}: its grid is {body.cells.shape}, that of the others {own.cells.shape}; pad it")
        for name in ("engine", "voxel_side", "materials"):
            if getattr(body, name) != getattr(own, name):
                raise ValueError(f"{which}: its {name} is not that of the first; all bodies need the same")
        new = sorted({int(index) for index in np.unique(body.cells[body.present])} - set(self.used))
        if new:
            symbols = ", ".join(list(body.materials)[index] for index in new)
            raise ValueError(f"{which}: no body known to this environment has {symbols}; give it to `make` too")
        if self._engine.layers_needed(body.present) > self.layers:
            raise ValueError(
                f"{which}: some voxels touch at nothing but a corner, as in no body known to this environment; "
                "give it to `make` too"
            )

    def _assembled(self, cells: Array) -> Params:
        body, integrator = self.scene.robot.body, self.scene.physics.integrator
        model = self._engine.assemble(cells, self._table, body.voxel_side, layers=self.layers, integrator=integrator)
        drives = jnp.asarray([material.actuation != "none" for material in self.materials])
        driven = (cells >= 0) & drives[jnp.clip(cells, 0)]
        return self._begun(model, in_drawn_order(driven, len(self.cells)), {})

    def _begun(self, model: AnyModel, action_mask: Array, drawn: dict[str, Array]) -> Params:
        """model: not prepared yet."""
        scenario = self._scenario(model, drawn)
        model = prepared(scenario.world, self.schedule.substep, self.schedule.implementation).robots[0]
        # A key of plain numbers: trainers copy params while they trace, which keys of JAX's own type do not survive.
        start = self._with_pending(reset(jax.random.PRNGKey(0), scenario))
        seen, there = self._observed(scenario, start)
        return Params(
            model=model,
            start=start,
            first_observation=seen,
            observation_mask=there,
            action_mask=action_mask,
            max_steps_in_episode=jnp.asarray(self.max_steps, jnp.int32),
            drawn=drawn,
        )

    # copies that differ

    def randomized(self, key: Array, params: Params) -> Params:
        """One body's params with everything drawn that `randomize` names; also inside `jit` and `vmap`."""
        return self.varied(params, **self.randomization.draw(key, self.dtype))

    def varied(self, params: Params, **values: Array | float) -> Params:
        """One body's params with other values: factors (friction, mass, stiffness, gravity), `delay` [steps],
        `action_noise`, `observation_noise`; also inside `jit` and `vmap`.

        Values have to be within the intervals of `randomize`, for which time steps are short enough; nobody checks.
        """
        allowed = self.randomization.given
        if unknown := [name for name in values if name not in allowed]:
            raise ValueError(
                f"{unknown[0]}: this environment does not vary it; make it with randomize={{'{unknown[0]}': (.., ..)}}"
            )
        drawn = {
            name: jnp.asarray(value, jnp.int32 if name == "delay" else self.dtype) for name, value in values.items()
        }
        scaled = [name for name in drawn if name in SCALED]
        if not scaled:
            return params.replace(drawn={**params.drawn, **drawn})
        if again := [name for name in params.drawn if name in SCALED]:
            raise ValueError(f"{again[0]}: these params are varied already; begin with those of a body")
        factors = {"frequency": 1.0, "damping": 1.0, "friction": 1.0, **engine_factors(drawn)}
        model = self._engine.scaled(params.model, **factors)
        return self._begun(model, params.action_mask, {**params.drawn, **drawn})

    def _with_pending(self, state: EpisodeState) -> EpisodeState:
        most = self.randomization.most_delay
        return state if most == 0 else replace(state, pending=jnp.zeros((most, *self.cells), self.dtype))

    def scenario(self, params: Params) -> Scenario:
        """All that stays as it is while a body acts."""
        return self._scenario(params.model, params.drawn)

    def _scenario(self, model: AnyModel, drawn: Mapping[str, Array]) -> Scenario:
        around = self._surroundings
        if "gravity" in drawn:
            around = replace(around, gravity=drawn["gravity"] * around.gravity)
        return scenario_of(model, around, self.schedule, self.task, self.sensors, self._systems)

    def _observed(self, scenario: Scenario, state: EpisodeState) -> tuple[Array, Array]:
        """The observation, and which numbers are there, (numbers,) each."""
        if not self.sensors:
            return observe_task(scenario, state)
        seen = in_drawn_order(observe(scenario, state), len(self.cells))
        present = in_drawn_order(scenario.model.present > 0, len(self.cells))
        return within_bounds(seen.reshape(-1)), jnp.broadcast_to(present, seen.shape).reshape(-1)

    # gymnax's functions

    def reset(self, key: Array, params: Params | None = None) -> tuple[Array, EpisodeState]:
        """The first observation, (numbers,), and the first state of an episode."""
        refuse_forked()
        return _reset(self, key, self._given(params))

    def step(
        self, key: Array, state: EpisodeState, action: Array, params: Params | None = None
    ) -> tuple[Array, EpisodeState, Array, Array, Array, dict[str, Array]]:
        """Observation, state, reward, terminated, truncated and info after an action, (numbers of all cells,).

        Where the episode is over, observation and state are the first ones of the next; `final_observation` in info is
        what was seen before that.
        """
        refuse_forked()
        return _step(self, key, state, action, self._given(params))

    def reset_env(self, key: Array, params: Params) -> tuple[Array, EpisodeState]:
        """`reset` without `jit`."""
        if not self.task.has_random_state:
            return self._with_noise(key, params.first_observation, params), params.start
        scenario = self.scenario(params)
        # The robot is where it was put, whatever the task draws: so it need not be placed again.
        state = self._with_pending(begin(scenario, params.start.world.robots[0], key))
        return self._with_noise(key, self._observed(scenario, state)[0], params), state

    def _with_noise(self, key: Array, observation: Array, params: Params) -> Array:
        if "observation_noise" not in params.drawn:
            return observation
        noise = jax.random.normal(jax.random.fold_in(key, 1), observation.shape, observation.dtype)
        return within_bounds(observation + params.drawn["observation_noise"] * noise * params.observation_mask)

    def _in_force(self, key: Array, state: EpisodeState, control: Array, params: Params) -> tuple[EpisodeState, Array]:
        """Control values of this step, and the state in which later ones wait."""
        if "action_noise" in params.drawn:
            noise = jax.random.normal(jax.random.fold_in(key, 2), control.shape, control.dtype)
            control = control + params.drawn["action_noise"] * noise
        if state.pending is None:
            return state, control
        waiting = jnp.concatenate([control[None], state.pending])
        delay = jnp.clip(params.drawn.get("delay", 0), 0, len(state.pending))
        return replace(state, pending=waiting[:-1]), waiting[delay]

    def step_env(
        self, key: Array, state: EpisodeState, action: Array, params: Params
    ) -> tuple[Array, EpisodeState, Array, Array, dict[str, Array]]:
        """Observation, state, reward, terminated and info of the episode that is, even if it is over."""
        self.check_action(jnp.shape(action))
        scenario = self.scenario(params)
        state, control = self._in_force(key, state, controls_of(self.task, action, self.cells), params)
        state, came = step(scenario, state, control)
        seen = self._with_noise(key, self._observed(scenario, state)[0], params)
        info = {"discount": 1 - came.terminated.astype(self.dtype), "failure": state.failure}
        return seen, state, came.reward, came.terminated, info

    def check_action(self, shape: tuple[int, ...], *leading: int) -> None:
        """Raise ValueError unless an action has the shape that it should have; leading: axes before its own."""
        wanted = (*leading, self.num_actions)
        if shape != wanted:
            raise ValueError(f"action: shape {shape} given; it is {wanted}, one number for every cell of the grid")

    def is_truncated(self, state: EpisodeState, params: Params) -> Array:
        """Whether time is up, ()."""
        return state.calls >= params.max_steps_in_episode

    def action_space(self, params: Params | None = None) -> Box:
        """The same for all bodies of the grid."""
        return action_space(self.task, self.cells, self.dtype)

    def observation_space(self, params: Params | None = None) -> Box:
        """The same for all bodies of the grid."""
        count = self.default_params.first_observation.shape[-1]
        return box(-FARTHEST, FARTHEST, (count,), self.dtype)

    @property
    def num_actions(self) -> int:
        """Numbers of an action."""
        return self.action_space().shape[0]

    def at_once(self, count: int) -> int:
        """How many of some environments to move together: on a CPU as many as stay in a core's cache, else all."""
        if jax.default_backend() != "cpu":
            return count
        most = PAIRS_IN_CACHE if self._engine.own_contact else CELLS_IN_CACHE
        return min(count, max(1, most // math.prod(self.cells)))

    def _given(self, params: Params | None) -> Params:
        if params is None and self.several:
            raise ValueError("this environment has several bodies: give `params`, one body's, as `vmap` does")
        return self.default_params if params is None else params


_FORKED = False
"""Whether this process is the fork of one in which JAX had begun."""


def refuse_forked() -> None:
    """Raise RuntimeError where JAX would wait for ever: for its threads, which a fork does not have."""
    if _FORKED:
        raise RuntimeError(
            "this process was forked from one that uses JAX, where JAX does not work: start processes with `spawn`, "
            'for instance gymnasium.make_vec(..., vectorization_mode="async", vector_kwargs={"context": "spawn"})'
        )


def _after_fork() -> None:
    global _FORKED
    _FORKED = _FORKED or xla_bridge.backends_are_initialized()


if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(after_in_child=_after_fork)


@partial(jax.jit, static_argnums=0)
def _params(env: Environment, cells: Array) -> Params:
    return env._assembled(cells)


@partial(jax.jit, static_argnums=0)
def _reset(env: Environment, key: Array, params: Params) -> tuple[Array, EpisodeState]:
    return env.reset_env(key, params)


@partial(jax.jit, static_argnums=0)
def _step(
    env: Environment, key: Array, state: EpisodeState, action: Array, params: Params
) -> tuple[Array, EpisodeState, Array, Array, Array, dict[str, Array]]:
    """With gymnax's use of the key, and its reset within the step."""
    for_step, for_reset = jax.random.split(key)
    seen, after, reward, terminated, info = env.step_env(for_step, state, action, params)
    truncated = env.is_truncated(after, params)
    over = terminated | truncated
    first = env.reset_env(for_reset, params)
    shown, state = jax.tree.map(lambda new, old: jnp.where(over, new, old), first, (seen, after))
    info = {**info, "terminated": terminated, "truncated": truncated, "final_observation": seen}
    return shown, state, reward, terminated, truncated, info
