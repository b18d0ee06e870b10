"""Robots as PPO's problem: from genes of bodies, and the trials of an experiment, to policies trained for them.

A policy acts on control values of all cells. What it sees, and when, is what `rollout` gives to the controller
`policy`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.controllers import PolicyNetwork
from vsr.controllers.base import clock_numbers
from vsr.controllers.policy import inputs_of
from vsr.episode import EpisodeState, Scenario, begin, read, scenario_of, step
from vsr.experiments.encodings.networks import PolicyWeights
from vsr.experiments.perturbation import Perturbation, reset_perturbed
from vsr.experiments.ppo import PPO, Problem, Step, Training, trained
from vsr.physics.engine import engine_of
from vsr.world.build import build_systems
from vsr.world.state import prepared


class Place(NamedTuple):
    """What makes an environment what it is."""

    body: Array
    """genes of the body, (genes,)"""
    trial: Perturbation
    key: Array | None
    """of what the task draws in a generation, ()"""


class World(NamedTuple):
    """An environment, ready to be acted in."""

    scenario: Scenario
    start: EpisodeState
    observation: Array
    """of the start, (inputs,)"""


def problem_of(experiment: Any) -> Problem:
    """The episodes of an experiment whose controller is a policy."""
    robot, task, policy = experiment.robot, experiment.task, experiment.robot.controller
    assert isinstance(policy, PolicyWeights)
    dtype, schedule = jnp.dtype(experiment.physics.precision), experiment.schedule()
    cells = robot.body.possible.shape
    none = jnp.zeros(0, dtype)
    clock = None if policy.clock is None else clock_numbers(policy.clock, dtype)
    reader = PolicyNetwork(none, none, (), clock, cells, policy.sensors)

    def observe(scenario: Scenario, state: EpisodeState) -> Array:
        seen = read(scenario, reader, state)
        assert seen is not None
        return inputs_of(clock, state.world.time, seen)

    def prepare(place: Place) -> World:
        environment = experiment.environment(dtype)
        if place.key is not None:
            environment = task.drawn(place.key, environment)
        model = robot.assemble(robot.body.decode(place.body), dtype, experiment.physics.integrator)
        systems = build_systems(experiment.world, robot.body, schedule, dtype)
        scenario = scenario_of(model, environment, schedule, task, policy.sensors, systems)
        scenario, state = reset_perturbed(scenario, place.trial)
        world = prepared(scenario.world, schedule.substep, schedule.implementation)
        scenario = Scenario(world, schedule, task, policy.sensors)
        # A key of plain numbers: states are kept in arrays, which keys of JAX's own type cannot be.
        start = begin(scenario, state.world.robots[0], jax.random.PRNGKey(0))
        return World(scenario, start, observe(scenario, start))

    def restart(world: World, key: Array) -> tuple[EpisodeState, Array]:
        if not task.has_random_state:
            return world.start, world.observation
        state = begin(world.scenario, world.start.world.robots[0], key)
        return state, observe(world.scenario, state)

    def act(world: World, state: EpisodeState, action: Array) -> Step:
        after, came = step(world.scenario, state, action.reshape(cells))
        seen = observe(world.scenario, after)
        return Step(after, seen, came.reward, came.terminated, came.truncated, after.failed)

    return Problem(
        prepare=prepare,
        reset=restart,
        step=act,
        inputs=policy.input_count(robot.body),
        outputs=robot.body.possible.size,
        limit=schedule.calls,
        scan=lambda world: engine_of(world.scenario.model).kernel.scan(world.scenario.model, schedule.implementation),
        cells=robot.body.possible.size,
    )


def masks_of(experiment: Any, bodies: Array) -> Array:
    """1 for cells with an actuator, (bodies, cells); bodies: genes, (bodies, ...)."""
    body = experiment.robot.body
    drives = jnp.asarray([material.actuation != "none" for material in body.materials.values()])
    cells = jax.vmap(body.decode)(bodies)
    driven = (cells >= 0) & drives[jnp.clip(cells, 0)]
    return driven.reshape(len(bodies), -1).astype(jnp.dtype(experiment.physics.precision))


def places_of(bodies: Array, trials: Perturbation, keys: Array | None, count: int, copies: int) -> Place:
    """Of several copies of each body's environment, (bodies, copies, ...), which take its trials in turn.

    bodies: genes, (bodies, ...); trials, keys: (bodies * count,), as evaluations have them.
    """
    turn = jnp.arange(copies) % count

    def shared(leaf: Array) -> Array:
        return leaf.reshape(len(bodies), count, *leaf.shape[1:])[:, turn]

    return Place(
        body=jnp.broadcast_to(bodies[:, None], (len(bodies), copies, *bodies.shape[1:])),
        trial=jax.tree.map(shared, trials),
        key=None if keys is None else shared(keys),
    )


class Tutored(NamedTuple):
    """Learners of an experiment, and all that they need."""

    training: Training
    places: Place
    """of all environments, (bodies, environments, ...)"""
    masks: Array
    trials: Place
    """of the evaluation's episodes, (bodies, trials, ...)"""


def tutored(
    experiment: Any, settings: PPO, steps: int, bodies: Array, trials: Perturbation, keys: Array | None, count: int
) -> Tutored:
    """Environments for bodies, (bodies, ...); steps: of each body's environments in all; trials: as `places_of`."""
    rounds, updates = settings.rounds(steps)
    training = Training(settings, problem_of(experiment), experiment.robot.controller.hidden, rounds * updates)
    return Tutored(
        training,
        places_of(bodies, trials, keys, count, settings.environments),
        masks_of(experiment, bodies),
        places_of(bodies, trials, keys, count, count),
    )


def learn_policies(
    experiment: Any,
    settings: PPO,
    steps: int,
    seeds: Array,
    genes: dict[str, Array],
    trials: Perturbation,
    keys: Array | None,
    count: int,
) -> Array:
    """Genes of policies after training, (size, genes), each the best of its evaluations. Pure.

    seeds: plain keys, (size, 2); genes: of individuals, (size, ...); others: as for `tutored`.
    """
    dtype = jnp.dtype(experiment.physics.precision)
    bodies, born = genes["body"].astype(dtype), genes["controller"].astype(dtype)
    school = tutored(experiment, settings, steps, bodies, trials, keys, count)
    rounds, updates = settings.rounds(steps)
    best, _ = trained(school.training, seeds, born, school.places, school.masks, school.trials, rounds, updates)
    return best.astype(genes["controller"].dtype)
