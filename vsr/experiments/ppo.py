"""Proximal policy optimization (Schulman et al. 2017) of many policies at once, each for a body of its own.

Every learner has a network for its actions, another for values, and several copies of its environment. An update
collects some steps from all copies, estimates advantages (GAE, Schulman et al. 2016), and improves both networks by
some epochs of minibatches on the clipped objective. All learners take part in one program, and nothing in it goes to
the host.

What is left out: a value loss that is clipped, and policies that depend on what they did before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from pydantic import Field, model_validator

from vsr.controllers.policy import join_policy, normalized, split_policy
from vsr.experiments.encodings.networks import first_layers
from vsr.experiments.population import on_all_devices, robots_at_once
from vsr.spec import Count, Real, Spec, Switch, unknown_names

EPSILON = 1e-5
"""Of Adam, as PPO has it everywhere."""
SMALL = 1e-8
"""Added to variances and deviations that are divided by."""
LARGEST_REWARD = 10.0
"""Scaled rewards end here, either way."""
PRIOR = 1e-4
"""Observations that mean 0 and deviation 1 count for, before there are any. Those of a policy that has learned before
count for as many as it learns from now."""
LOG_2_PI = math.log(2 * math.pi)

Share = Annotated[Real, Field(ge=0, le=1)]
Positive = Annotated[Real, Field(gt=0, le=1e6)]
Weight = Annotated[Real, Field(ge=0, le=1e6)]
Size = Annotated[Count, Field(ge=1, le=1_000_000)]

PRESETS: dict[str, dict[str, Any]] = {
    "evogym": {
        "environments": 1,
        "horizon": 128,
        "epochs": 4,
        "minibatches": 32,
        "rate": 2.5e-4,
        "discount": 0.99,
        "trace": 0.95,
        "clip": 0.1,
        "value_weight": 0.5,
        "entropy_weight": 0.01,
        "gradient_norm": 0.5,
        "deviation": 2.0,
        "anneal": False,
        "normalize": False,
        "scale_rewards": False,
        "evaluate_every": 781,
    },
    "macd": {
        "environments": 1,
        "horizon": 128,
        "epochs": 4,
        "minibatches": 4,
        "rate": 2.5e-4,
        "discount": 0.99,
        "trace": 0.95,
        "clip": 0.1,
        "value_weight": 0.5,
        "entropy_weight": 0.01,
        "gradient_norm": 0.5,
        "deviation": 0.4,
        "fixed_deviation": True,
        "anneal": True,
        "normalize": True,
        "scale_rewards": True,
        "evaluate_every": 50,
    },
}
"""Published settings: of EvoGym 2's own scripts (one environment, minibatches of 4 steps, an evaluation every 100,000
steps), and of MACD (one environment, rate falling to 0). There an action is a length over that at rest, less 1, and its
deviation 1 or 0.2: a control value of 1 is a length of 0.6, one of -1 a length of 1.6, so half of ours."""


class PPO(Spec):
    """How a policy learns."""

    preset: Literal["evogym", "macd"] | None = None
    """published settings, which those given beside it change"""
    environments: Size = 32
    """copies of the environment that every policy acts in"""
    horizon: Size = 64
    """steps of each between two updates"""
    epochs: Annotated[Count, Field(ge=1, le=1000)] = 4
    """how often an update uses each step"""
    minibatches: Size = 8
    """parts that an epoch is cut into"""
    rate: Positive = 1e-3
    """of Adam"""
    anneal: Switch = False
    """whether the rate falls to 0 in a straight line"""
    discount: Share = 0.99
    """of the reward of the next step"""
    trace: Share = 0.95
    """λ of advantages: 0 for one step, 1 for all to the end"""
    clip: Positive = 0.2
    """largest change of an action's probability that pays"""
    value_weight: Weight = 0.5
    """of the mean squared error of values"""
    entropy_weight: Weight = 0.0
    """of what keeps actions random"""
    gradient_norm: Positive = 0.5
    """longest gradient"""
    deviation: Positive = 0.5
    """of actions at the beginning; a control value is between -1 and 1"""
    fixed_deviation: Switch = False
    """whether it stays so"""
    normalize: Switch = True
    """whether observations are normalized by their running mean and deviation"""
    scale_rewards: Switch = True
    """whether rewards are divided by the running deviation of their discounted sums"""
    evaluate_every: Size = 10
    """updates between two episodes without randomness, of which the best counts"""

    @model_validator(mode="before")
    @classmethod
    def _from_preset(cls, given: Any) -> Any:
        given = {"preset": given} if isinstance(given, str) else given
        if not isinstance(given, Mapping) or given.get("preset") is None:
            return given
        if given["preset"] not in PRESETS:
            raise unknown_names([str(given["preset"])], PRESETS, "preset")
        return {**PRESETS[given["preset"]], **given}

    @model_validator(mode="after")
    def _divides(self) -> PPO:
        if self.steps % self.minibatches:
            raise ValueError(
                f"minibatches: {self.minibatches} given; {self.environments} environments times a horizon of "
                f"{self.horizon} are {self.steps} steps, which they must divide"
            )
        return self

    @property
    def steps(self) -> int:
        """Of an update, in all copies of the environment."""
        return self.environments * self.horizon

    def rounds(self, steps: int) -> tuple[int, int]:
        """Rounds that at least as many environment steps take, and updates of each; an evaluation ends each round."""
        updates = max(1, math.ceil(steps / self.steps))
        every = min(self.evaluate_every, updates)
        return math.ceil(updates / every), every


# What is learned from


class Step(NamedTuple):
    """What came of a step in an environment."""

    state: Any
    """after it, of the same episode"""
    observation: Array
    """(inputs,)"""
    reward: Array
    terminated: Array
    """whether the episode is over for good, ()"""
    truncated: Array
    """whether its time is up, ()"""
    failed: Array
    """whether the simulation was no use, ()"""


@dataclass(frozen=True)
class Problem:
    """What policies act in, as pure functions of one environment."""

    reset: Callable[[Any, Array], tuple[Any, Array]]
    """from a world and a key to a state and an observation"""
    step: Callable[[Any, Any, Array], Step]
    """from world, state and action, (outputs,)"""
    inputs: int
    outputs: int
    limit: int
    """steps of an episode"""
    prepare: Callable[[Any], Any] = lambda place: place
    """from a place, any pytree that makes an environment what it is, to its world, once for many steps"""
    scan: Callable[[Any], Callable[..., Any]] = lambda world: jax.lax.scan
    """how steps in a world run one after the other"""
    cells: int = 1
    """that are simulated in one environment; a processor core takes fewer environments of many cells at once"""


class Moments(NamedTuple):
    """Running mean and variance."""

    count: Array
    mean: Array
    variance: Array

    @property
    def deviation(self) -> Array:
        return jnp.sqrt(self.variance + SMALL)


class Networks(NamedTuple):
    """What gradients change."""

    actor: tuple[Array, ...]
    critic: tuple[Array, ...]
    log_deviation: Array
    """of actions, (outputs,)"""


class Pair(NamedTuple):
    """Both networks side by side, so that a GPU has half as much to launch."""

    layers: tuple[Array, ...]
    """the actor's and the critic's, whose outputs are filled up by zeros, which stay so: (2, inputs + 1, outputs)"""
    log_deviation: Array


class Learner(NamedTuple):
    """One policy in training; with a leading axis (learners,), many."""

    networks: Networks
    adam: Any
    seen: Moments
    """observations, (inputs,)"""
    returned: Moments
    """discounted sums of rewards, ()"""
    key: Array
    updates: Array
    """made so far, ()"""
    states: Any
    """of the environments, (environments, ...)"""
    observations: Array
    """(environments, inputs)"""
    sums: Array
    """of discounted rewards in every environment, (environments,)"""
    best: Array
    """its best policy so far, (numbers,)"""
    best_score: Array
    """()"""


class Collected(NamedTuple):
    """Steps of one environment, (horizon, ...) each."""

    observation: Array
    action: Array
    reward: Array
    sum: Array
    """of discounted rewards"""
    terminated: Array
    over: Array
    """whether the episode ended, for either reason"""
    following: Array
    """the observation after the step, of the same episode"""


# Networks


def forward(layers: tuple[Array, ...], values: Array) -> Array:
    """What a network gives, (..., outputs); values: (..., inputs)."""
    for number, weights in enumerate(layers):
        values = values @ weights[:-1] + weights[-1]
        values = jnp.tanh(values) if number < len(layers) - 1 else values
    return values


def paired(networks: Networks) -> Pair:
    def both(actor: Array, critic: Array) -> Array:
        return jnp.stack([actor, jnp.pad(critic, ((0, 0), (0, actor.shape[1] - critic.shape[1])))])

    return Pair(tuple(map(both, networks.actor, networks.critic)), networks.log_deviation)


def unpaired(pair: Pair) -> Networks:
    """What `paired` did, undone."""
    *hidden, last = (layer[1] for layer in pair.layers)
    return Networks(tuple(layer[0] for layer in pair.layers), (*hidden, last[:, :1]), pair.log_deviation)


def forward_both(layers: tuple[Array, ...], values: Array) -> Array:
    """What both networks give, (2, steps, outputs); values: (steps, inputs)."""
    values = jnp.einsum("si,nio->nso", with_one(values), layers[0])
    for weights in layers[1:]:
        values = jnp.einsum("nsi,nio->nso", with_one(jnp.tanh(values)), weights)
    return values


def with_one(values: Array) -> Array:
    """Beside each row of values a 1, for the last row of weights."""
    return jnp.concatenate([values, jnp.ones_like(values[..., :1])], -1)


def log_probability(mean: Array, log_deviation: Array, action: Array, mask: Array) -> Array:
    """Of actions, (...,); mask: 1 for outputs that do something."""
    scaled = (action - mean) * jnp.exp(-log_deviation)
    return (mask * (-0.5 * scaled**2 - log_deviation - 0.5 * LOG_2_PI)).sum(-1)


def entropy(log_deviation: Array, mask: Array) -> Array:
    """Of the distribution of actions, (...,)."""
    return (mask * (log_deviation + 0.5 * (1 + LOG_2_PI))).sum(-1)


# Estimates


def advantages_of(
    rewards: Array, values: Array, following: Array, terminated: Array, over: Array, discount: float, trace: float
) -> Array:
    """Generalized advantage estimates, (horizon, ...).

    following: value of the observation after each step, of the same episode, so that an episode whose time was up is
    worth what would have come; what terminated is worth nothing more.
    """
    errors = rewards + discount * following * (1 - terminated) - values

    def back(later: Array, now: tuple[Array, Array]) -> tuple[Array, Array]:
        error, over = now
        later = error + discount * trace * (1 - over) * later
        return later, later

    # Several turns at once: on a GPU each would be a launch or more.
    return jax.lax.scan(back, jnp.zeros_like(errors[0]), (errors, over), reverse=True, unroll=16)[1]


def with_batch(moments: Moments, values: Array, axes: tuple[int, ...]) -> Moments:
    """Moments that include more values."""
    count = math.prod(values.shape[axis] for axis in axes)
    mean, variance = values.mean(axes), values.var(axes)
    total = moments.count + count
    apart = mean - moments.mean
    squares = moments.variance * moments.count + variance * count + apart**2 * moments.count * count / total
    return Moments(total, moments.mean + apart * count / total, squares / total)


class Minibatch(NamedTuple):
    """Steps that a gradient is of, (steps, ...) each."""

    inputs: Array
    """normalized observations"""
    action: Array
    log_probability: Array
    """of the action when it was taken"""
    advantage: Array
    target: Array
    """of values"""
    mask: Array | None = None
    """1 for outputs that do something, (steps, outputs); None where they are the same in all steps"""


def loss_of(settings: PPO, networks: Pair, part: Minibatch, mask: Array) -> Array:
    """The clipped objective with its value and entropy terms, ()."""
    inputs, action, old, advantage, target, own = part
    mask = mask if own is None else own
    advantage = (advantage - advantage.mean()) / (advantage.std() + SMALL)
    mean, values = forward_both(networks.layers, inputs)
    ratio = jnp.exp(log_probability(mean, networks.log_deviation, action, mask) - old)
    gain = jnp.minimum(ratio * advantage, jnp.clip(ratio, 1 - settings.clip, 1 + settings.clip) * advantage)
    error = values[..., 0] - target
    random = entropy(networks.log_deviation, mask).mean()
    return -gain.mean() + settings.value_weight * (error**2).mean() - settings.entropy_weight * random


# Learning


@dataclass(frozen=True)
class Training:
    """Learners of a problem; all functions are pure, of learners with a leading axis."""

    settings: PPO
    problem: Problem
    hidden: tuple[int, ...] = (64, 64)
    total: int = 1
    """updates after which an annealed rate is 0"""

    def optimizer(self) -> Any:
        """Adam of clipped gradients, at a rate of -1."""
        import optax  # an extra

        return optax.chain(optax.clip_by_global_norm(self.settings.gradient_norm), optax.scale_by_adam(eps=EPSILON))

    def start(
        self, keys: Array, policies: Array, places: Any, kept: tuple[tuple[Array, ...], Array] | None = None
    ) -> Learner:
        """Learners from policies as flat numbers, (learners, numbers); places: (learners, environments, ...); kept:
        layers of networks for values and logarithms of deviations that they go on with, (learners, ...)."""
        problem, settings = self.problem, self.settings

        def one(key: Array, numbers: Array, places: Any, own: Any) -> Learner:
            rest, critic, resets = jax.random.split(key, 3)
            mean, deviation, actor = split_policy(numbers, problem.inputs, self.hidden, problem.outputs)
            if own is None:
                own = (
                    tuple(first_layers(critic, problem.inputs, self.hidden, 1, 1.0)),
                    jnp.full(problem.outputs, math.log(settings.deviation), numbers.dtype),
                )
            networks = Networks(actor, *own)
            nothing = jnp.zeros((), numbers.dtype)
            # What a policy has learned to read stays as it was: or else its first steps alone would change every input.
            known = ((mean != 0) | (deviation != 1)).any() * float(self.total * settings.steps)
            states, observations = jax.vmap(lambda place, key: problem.reset(problem.prepare(place), key))(
                places, jax.random.split(resets, settings.environments)
            )
            return Learner(
                networks=networks,
                adam=self.optimizer().init(networks),
                seen=Moments(nothing + PRIOR + known, mean, deviation**2),
                returned=Moments(nothing + PRIOR, nothing, nothing + 1),
                key=rest,
                updates=jnp.zeros((), jnp.int32),
                states=states,
                observations=observations,
                sums=jnp.zeros(settings.environments, numbers.dtype),
                best=numbers,
                best_score=jnp.full((), -jnp.inf, numbers.dtype),
            )

        return jax.vmap(one)(keys, policies, places, kept)

    def policies(self, learners: Learner) -> Array:
        """As they are now, as flat numbers, (learners, numbers)."""
        return jax.vmap(lambda one: join_policy(one.seen.mean, one.seen.deviation, one.networks.actor))(learners)

    def round(self, learners: Learner, places: Any, masks: Array, trials: Any, updates: int) -> tuple[Learner, Array]:
        """Learners after some updates and an evaluation, and their scores in that, (learners,).

        masks: 1 for outputs that do something, (learners, outputs), or of every environment, (learners, environments,
        outputs); trials: places of the evaluation's episodes, (learners, trials, ...).
        """
        return self.judge(self.updated(learners, places, masks, updates), trials)

    def updated(self, learners: Learner, places: Any, masks: Array, updates: int) -> Learner:
        """Learners after some updates."""
        return jax.lax.scan(lambda now, _: (self.update(now, places, masks), None), learners, length=updates)[0]

    def judge(self, learners: Learner, trials: Any) -> tuple[Learner, Array]:
        """Learners with their best policies, if the present ones are better, and the scores of these."""
        now = self.policies(learners)
        scores = self.scores(now, trials)
        better = scores > learners.best_score
        best = jnp.where(better[:, None], now, learners.best)
        return learners._replace(best=best, best_score=jnp.where(better, scores, learners.best_score)), scores

    def scores(self, policies: Array, trials: Any) -> Array:
        """Mean sum of rewards of policies without randomness, (learners,); negative infinity if some trial failed."""
        count = jax.tree.leaves(trials)[0].shape[1]

        def one(robot: tuple[Array, Any]) -> Array:
            numbers, place = robot
            return self._score(numbers, place)

        robots = jnp.repeat(policies, count, 0), _joined(trials)
        return on_all_devices(one, robots, self._at_once(len(robots[0]))).reshape(-1, count).mean(1)

    def _score(self, numbers: Array, place: Any) -> Array:
        problem = self.problem
        world = problem.prepare(place)
        mean, deviation, layers = split_policy(numbers, problem.inputs, self.hidden, problem.outputs)

        def act(now: tuple[Any, Array, Array, Array], _: None) -> tuple[tuple[Any, Array, Array, Array], None]:
            state, observation, score, over = now
            came = problem.step(world, state, forward(layers, normalized(observation, mean, deviation)))
            earned = jnp.where(came.failed, -jnp.inf, came.reward)
            score = jnp.where(over, score, score + earned)
            return (came.state, came.observation, score, over | came.terminated | came.truncated), None

        state, observation = problem.reset(world, jax.random.PRNGKey(0))
        first = state, observation, jnp.zeros((), numbers.dtype), jnp.zeros((), bool)
        return problem.scan(world)(act, first, length=problem.limit)[0][2]

    def update(self, learners: Learner, places: Any, masks: Array) -> Learner:
        """Learners after one update; places: of all environments, (learners, environments, ...)."""
        count = learners.updates.shape[0]
        keys = jax.vmap(partial(jax.random.split, num=3))(learners.key)
        learners = learners._replace(key=keys[:, 0])
        learners, collected = self._collect(learners, places, keys[:, 1])
        if count == 1:  # shared out among devices, it would only be made twice
            return jax.vmap(self._learn)(learners, collected, masks, keys[:, 2])
        told = learners._replace(states=None), collected, masks, keys[:, 2]
        share = math.ceil(count / jax.device_count())
        at_once = share if jax.default_backend() != "cpu" else 1
        return on_all_devices(lambda own: self._learn(*own), told, at_once)._replace(states=learners.states)

    def _at_once(self, environments: int) -> int:
        """Environments that a device moves together."""
        return robots_at_once(environments, self.problem.cells)

    def _collect(self, learners: Learner, places: Any, keys: Array) -> tuple[Learner, Collected]:
        """Steps of all environments, (learners, environments, horizon, ...), in groups that share a network."""
        count, settings = keys.shape[0], self.settings
        at_once = self._at_once(count * settings.environments)
        group = math.gcd(settings.environments, at_once) if jax.default_backend() == "cpu" else settings.environments
        group = math.gcd(group, math.ceil(settings.environments / jax.device_count()))
        groups = settings.environments // group
        keys = jax.vmap(partial(jax.random.split, num=settings.environments))(keys)
        environments = places, learners.states, learners.observations, learners.sums, keys

        def grouped(leaf: Array) -> Array:
            return leaf.reshape(count * groups, group, *leaf.shape[2:])

        def apart(leaf: Array) -> Array:
            return leaf.reshape(count, settings.environments, *leaf.shape[2:])

        shared = learners.networks, learners.seen
        shared = jax.tree.map(lambda leaf: jnp.repeat(leaf, groups, 0), shared)

        def several(own: tuple[Any, Any]) -> tuple[Any, Collected]:
            (networks, seen), environments = own
            return jax.vmap(partial(self._collect_one, networks, seen))(*environments)

        found = on_all_devices(several, (shared, jax.tree.map(grouped, environments)), max(1, at_once // group))
        (states, observations, sums), collected = jax.tree.map(apart, found)
        return learners._replace(states=states, observations=observations, sums=sums), collected

    def _collect_one(
        self, networks: Networks, seen: Moments, place: Any, state: Any, observation: Array, sum: Array, key: Array
    ) -> tuple[tuple[Any, Array, Array], Collected]:
        problem, settings = self.problem, self.settings
        world = problem.prepare(place)

        def act(now: tuple[Any, Array, Array], key: Array) -> tuple[tuple[Any, Array, Array], Collected]:
            state, observation, sum = now
            noise, resets = jax.random.split(key)
            mean = forward(networks.actor, normalized(observation, seen.mean, seen.deviation))
            random = jax.random.normal(noise, mean.shape, mean.dtype)
            action = mean + jnp.exp(networks.log_deviation) * random
            came = problem.step(world, state, action)
            over = came.terminated | came.truncated
            first = problem.reset(world, resets)
            following = jax.tree.map(lambda new, old: jnp.where(over, new, old), first, (came.state, came.observation))
            sum = settings.discount * sum + came.reward
            kept = Collected(
                observation=observation,
                action=action,
                reward=came.reward,
                sum=sum,
                terminated=came.terminated.astype(mean.dtype),
                over=over.astype(mean.dtype),
                following=came.observation,
            )
            return (*following, jnp.where(over, 0, sum)), kept

        return problem.scan(world)(act, (state, observation, sum), jax.random.split(key, settings.horizon))

    def _learn(self, learner: Learner, collected: Collected, mask: Array, key: Array) -> Learner:
        """One learner after it has learned from its steps, (environments, horizon, ...).

        mask: 1 for outputs that do something, (outputs,), or, where they differ, (environments, outputs).
        """
        settings, seen = self.settings, learner.seen
        collected = jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), collected)
        returned = with_batch(learner.returned, collected.sum, (0, 1)) if settings.scale_rewards else learner.returned
        reward = collected.reward
        if settings.scale_rewards:
            reward = jnp.clip(reward / returned.deviation, -LARGEST_REWARD, LARGEST_REWARD)
        inputs = normalized(collected.observation, seen.mean, seen.deviation)
        values, following = (
            forward(learner.networks.critic, one)[..., 0]
            for one in (inputs, normalized(collected.following, seen.mean, seen.deviation))
        )
        advantage = advantages_of(
            reward, values, following, collected.terminated, collected.over, settings.discount, settings.trace
        )
        mean = forward(learner.networks.actor, inputs)
        old = log_probability(mean, learner.networks.log_deviation, collected.action, mask)
        own = jnp.broadcast_to(mask, (settings.horizon, *mask.shape)) if mask.ndim > 1 else None
        steps = Minibatch(inputs, collected.action, old, advantage, advantage + values, own)
        steps = jax.tree.map(lambda leaf: leaf.reshape(settings.steps, *leaf.shape[2:]), steps)
        rate = settings.rate * (jnp.maximum(1 - learner.updates / self.total, 0) if settings.anneal else 1.0)
        optimizer = self.optimizer()

        def improve(now: tuple[Pair, Any], part: Minibatch) -> tuple[tuple[Pair, Any], None]:
            networks, adam = now
            slope = jax.grad(lambda own: loss_of(settings, own, part, mask))(networks)
            if settings.fixed_deviation:
                slope = slope._replace(log_deviation=jnp.zeros_like(slope.log_deviation))
            change, adam = optimizer.update(slope, adam)
            return (jax.tree.map(lambda own, by: own - rate * by, networks, change), adam), None

        def order(key: Array) -> Array:
            return jax.random.permutation(key, settings.steps).reshape(settings.minibatches, -1)

        orders = jax.vmap(order)(jax.random.split(key, settings.epochs))
        after, _ = jax.lax.scan(
            lambda now, places: improve(now, jax.tree.map(lambda leaf: leaf[places], steps)),
            _everywhere(paired, Networks, (learner.networks, learner.adam)),
            orders.reshape(settings.epochs * settings.minibatches, -1),
        )
        networks, adam = _everywhere(unpaired, Pair, after)
        if settings.normalize:
            seen = with_batch(seen, collected.observation, (0, 1))
        return learner._replace(networks=networks, adam=adam, seen=seen, returned=returned, updates=learner.updates + 1)


def _everywhere(change: Callable[[Any], Any], kind: type, tree: Any) -> Any:
    """A tree with its parts of one kind changed."""
    return jax.tree.map(
        lambda part: change(part) if isinstance(part, kind) else part, tree, is_leaf=lambda part: isinstance(part, kind)
    )


def _joined(tree: Any) -> Any:
    """The first two axes as one."""
    return jax.tree.map(lambda leaf: leaf.reshape(leaf.shape[0] * leaf.shape[1], *leaf.shape[2:]), tree)


def trained(
    training: Training, keys: Array, policies: Array, places: Any, masks: Array, trials: Any, rounds: int, updates: int
) -> tuple[Array, Array]:
    """Best policies, (learners, numbers), and scores of all evaluations, the first before training, (1 + rounds,
    learners). Pure."""
    learners, first = training.judge(training.start(keys, policies, places), trials)

    def one(learners: Learner, _: None) -> tuple[Learner, Array]:
        return training.round(learners, places, masks, trials, updates)

    learners, scores = jax.lax.scan(one, learners, length=rounds)
    return learners.best, jnp.concatenate([first[None], scores])
