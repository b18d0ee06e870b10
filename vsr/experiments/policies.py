"""Robots as PPO's problem: from genes of bodies, and the trials of an experiment, to policies trained for them.

A policy acts on control values of all cells. What it sees, and when, is what `rollout` gives to the controller
`policy`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from vsr.controllers import PolicyNetwork
from vsr.controllers.base import clock_numbers
from vsr.controllers.policy import inputs_of
from vsr.episode import EpisodeState, Scenario, begin, read, scenario_of, step
from vsr.experiments.encodings.networks import PolicyWeights, SharedPolicy, filled_in
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
    made_of: Array
    """further inputs of a policy that is shared: what the body is made of; none of others"""


def problem_of(experiment: Any) -> Problem:
    """The episodes of an experiment whose controller is a policy."""
    robot, task, policy = experiment.robot, experiment.task, experiment.robot.controller
    assert isinstance(policy, PolicyWeights)
    dtype, schedule = jnp.dtype(experiment.physics.precision), experiment.schedule()
    cells = robot.body.possible.shape
    none = jnp.zeros(0, dtype)
    clock = None if policy.clock is None else clock_numbers(policy.clock, dtype)
    reader = PolicyNetwork(none, none, (), clock, cells, policy.sensors)

    def observe(scenario: Scenario, state: EpisodeState, made_of: Array) -> Array:
        seen = read(scenario, reader, state)
        assert seen is not None
        return jnp.concatenate([inputs_of(clock, state.world.time, seen), made_of])

    def prepare(place: Place) -> World:
        environment = experiment.environment(dtype)
        if place.key is not None:
            environment = task.drawn(place.key, environment)
        cells = robot.body.decode(place.body)
        made_of = policy.body_inputs(cells, robot.body).astype(dtype) if policy.shared else none
        model = robot.assemble(cells, dtype, experiment.physics.integrator)
        systems = build_systems(experiment.world, robot.body, schedule, dtype)
        scenario = scenario_of(model, environment, schedule, task, policy.sensors, systems)
        scenario, state = reset_perturbed(scenario, place.trial)
        world = prepared(scenario.world, schedule.substep, schedule.implementation)
        scenario = Scenario(world, schedule, task, policy.sensors)
        # A key of plain numbers: states are kept in arrays, which keys of JAX's own type cannot be.
        start = begin(scenario, state.world.robots[0], jax.random.PRNGKey(0))
        return World(scenario, start, observe(scenario, start, made_of), made_of)

    def restart(world: World, key: Array) -> tuple[EpisodeState, Array]:
        if not task.has_random_state:
            return world.start, world.observation
        state = begin(world.scenario, world.start.world.robots[0], key)
        return state, observe(world.scenario, state, world.made_of)

    def act(world: World, state: EpisodeState, action: Array) -> Step:
        after, came = step(world.scenario, state, action.reshape(cells))
        seen = observe(world.scenario, after, world.made_of)
        return Step(after, seen, came.reward, came.terminated, came.truncated, after.failed)

    return Problem(
        prepare=prepare,
        reset=restart,
        step=act,
        inputs=policy.input_count(robot.body) + (policy.body_count(robot.body) if policy.shared else 0),
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
    searches: int,
) -> Array:
    """Genes of policies after training, (size, genes): each the best of its evaluations, or, of one round or a shared
    policy, the last. Pure.

    seeds: plain keys, (size, 2); genes: of individuals, (size, ...); searches: how many there are, whose individuals
    follow each other; others: as for `tutored`.
    """
    dtype, (rounds, updates) = jnp.dtype(experiment.physics.precision), settings.rounds(steps)
    bodies, born = genes["body"].astype(dtype), genes["controller"].astype(dtype)
    if experiment.robot.controller.shared:
        size = len(bodies) // searches
        copies = places_of(bodies, trials, keys, count, settings.environments // size)
        learned = learn_together(experiment, settings, size * rounds * updates, seeds, born, copies, searches)
    else:
        training, places, masks, last = tutored(experiment, settings, steps, bodies, trials, keys, count)
        if rounds == 1:
            learners = training.start(seeds, born, places)
            learned = training.policies(training.updated(learners, places, masks, updates))
        else:
            learned, _ = trained(training, seeds, born, places, masks, last, rounds, updates)
    return learned.astype(genes["controller"].dtype)


def learn_together(
    experiment: Any, settings: PPO, updates: int, seeds: Array, born: Array, copies: Place, searches: int
) -> Array:
    """As `learn_policies`, of one policy for all individuals of a search, who take its environments in turn.

    It goes on from the policy among them that has learned from most updates. born: genes of controllers, (size, genes);
    copies: of every individual's environment, (size, copies, ...).
    """
    robot, bodies, dtype = experiment.robot, copies.body[:, 0], born.dtype
    policy, outputs = robot.controller, robot.body.possible.size
    problem, own = problem_of(experiment), policy.own_count(robot.body)

    def of_searches(leaf: Array) -> Array:
        return leaf.reshape(searches, -1, *leaf.shape[1:])

    def fresh(shared: SharedPolicy) -> SharedPolicy:
        """Actions are random at first."""
        first = jnp.full(outputs, math.log(settings.deviation), dtype)
        return shared._replace(log_deviation=jnp.where(shared.updates > 0, shared.log_deviation, first))

    def eldest(numbers: Array) -> SharedPolicy:
        last = numbers[jnp.argmax(numbers[:, -1]), own:]
        return fresh(SharedPolicy.of(last, problem.inputs, policy.hidden, outputs))

    shared = jax.vmap(eldest)(of_searches(born))
    # Environments of a search: all its bodies, then all again, in the next trial.
    places = jax.tree.map(
        lambda leaf: jnp.swapaxes(of_searches(leaf), 1, 2).reshape(searches, -1, *leaf.shape[2:]), copies
    )
    masks = jnp.tile(of_searches(masks_of(experiment, bodies)), (1, copies.body.shape[1], 1))
    training = Training(settings, problem, policy.hidden, updates)
    learners = training.start(of_searches(seeds)[:, 0], shared.policy, places, (shared.critic, shared.log_deviation))
    learners, _ = jax.lax.scan(lambda now, _: (training.update(now, places, masks), None), learners, length=updates)

    networks = learners.networks
    after = SharedPolicy(training.policies(learners), networks.critic, networks.log_deviation, shared.updates + updates)

    def individual(body: Array, shared: SharedPolicy) -> Array:
        made_of = policy.body_inputs(robot.body.decode(body), robot.body).astype(dtype)
        mine = filled_in(shared.policy, made_of, policy.input_count(robot.body), policy.hidden, outputs)
        return jnp.concatenate([mine, shared.joined()])

    grown = jax.vmap(lambda bodies, shared: jax.vmap(lambda body: individual(body, shared))(bodies))
    return grown(of_searches(bodies), after).reshape(born.shape)
