"""PPO: estimates and loss beside plain loops, many learners beside one, and a problem that is known to be solved."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pydantic import ValidationError

from vsr.controllers.policy import join_policy
from vsr.experiments import ppo
from vsr.experiments.encodings.networks import first_layers, orthogonal
from vsr.experiments.ppo import (
    PPO,
    Minibatch,
    Moments,
    Networks,
    Problem,
    Step,
    Training,
    advantages_of,
    loss_of,
    paired,
)

pytestmark = pytest.mark.usefixtures("quickly_compiled")


def test_advantages_equal_plain_loops():
    random = np.random.default_rng(0)
    rewards, values, following = random.normal(size=(3, 9))
    terminated = np.array([0, 0, 1, 0, 0, 0, 0, 0, 0.0])
    over = np.array([0, 0, 1, 0, 0, 1, 0, 0, 0.0])  # the second end is for want of time
    discount, trace = 0.9, 0.8
    wanted, later = np.zeros(9), 0.0
    for step in reversed(range(9)):
        worth = 0.0 if terminated[step] else following[step]
        error = rewards[step] + discount * worth - values[step]
        later = error + (0.0 if over[step] else discount * trace * later)
        wanted[step] = later
    found = advantages_of(*map(jnp.asarray, (rewards, values, following, terminated, over)), discount, trace)
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_the_loss_equals_plain_numpy():
    random = np.random.default_rng(1)
    settings = PPO(clip=0.1, value_weight=0.7, entropy_weight=0.03)
    actor = [0.5 * random.normal(size=size) for size in ((4, 5), (6, 2))]
    critic = [0.5 * random.normal(size=size) for size in ((4, 5), (6, 1))]
    spread, mask = np.array([-0.3, 0.4]), np.array([1.0, 0.0])
    inputs, action = random.normal(size=(8, 3)), random.normal(size=(8, 2))
    old, advantage, target = random.normal(size=(3, 8))

    def network(layers, values):
        hidden = np.tanh(values @ layers[0][:-1] + layers[0][-1])
        return hidden @ layers[1][:-1] + layers[1][-1]

    mean, total = network(actor, inputs), []
    scaled = (advantage - advantage.mean()) / advantage.std()
    for row in range(8):
        # Only the first output does something.
        new = -0.5 * ((action[row, 0] - mean[row, 0]) / np.exp(-0.3)) ** 2 + 0.3 - 0.5 * np.log(2 * np.pi)
        ratio = np.exp(new - old[row])
        total.append(min(ratio * scaled[row], min(max(ratio, 0.9), 1.1) * scaled[row]))
    error = ((network(critic, inputs)[:, 0] - target) ** 2).mean()
    random_part = -0.3 + 0.5 * np.log(2 * np.pi * np.e)
    wanted = -np.mean(total) + 0.7 * error - 0.03 * random_part
    networks = Networks(tuple(map(jnp.asarray, actor)), tuple(map(jnp.asarray, critic)), jnp.asarray(spread))
    part = Minibatch(*map(jnp.asarray, (inputs, action, old, advantage, target)))
    assert float(loss_of(settings, paired(networks), part, jnp.asarray(mask))) == pytest.approx(wanted, rel=1e-4)


def test_running_moments_are_those_of_all_values():
    values = np.random.default_rng(2).normal(3, 2, (4, 30, 2))
    moments = Moments(jnp.float32(0), jnp.zeros(2), jnp.ones(2))
    for part in values:
        moments = ppo.with_batch(moments, jnp.asarray(part), (0,))
    np.testing.assert_allclose(moments.mean, values.mean((0, 1)), rtol=1e-5)
    np.testing.assert_allclose(moments.variance, values.var((0, 1)), rtol=1e-4)


def test_presets_and_what_does_not_divide():
    assert PPO.model_validate("evogym").minibatches == 32
    mixed = PPO(preset="macd", rate=1e-3)
    assert (mixed.rate, mixed.clip, mixed.fixed_deviation) == (1e-3, 0.1, True)
    assert PPO.model_validate(mixed.to_plain()) == mixed
    with pytest.raises(ValidationError, match="are 96 steps, which they must divide"):
        PPO(environments=3, horizon=32, minibatches=5)
    assert PPO(environments=4, horizon=8, minibatches=4, evaluate_every=3).rounds(320) == (4, 3)
    assert PPO(environments=4, horizon=8, minibatches=4, evaluate_every=3).rounds(1) == (1, 1)


# Problems


def learned(problem, settings, steps, seeds, hidden=(16, 16)):
    """Scores of all evaluations, (1 + rounds, learners), best policies, and their scores once more."""
    rounds, updates = settings.rounds(steps)
    training = Training(settings, problem, hidden, total=rounds * updates)

    def first(key):
        inputs = problem.inputs
        return join_policy(jnp.zeros(inputs), jnp.ones(inputs), first_layers(key, inputs, hidden, problem.outputs))

    def numbered(count):
        return jnp.broadcast_to(jnp.arange(count, dtype=jnp.uint32), (len(seeds), count))

    def run(keys):
        places, trials = numbered(settings.environments), numbered(10)
        masks, policies = jnp.ones((len(seeds), problem.outputs)), jax.vmap(first)(keys)
        best, scores = ppo.trained(training, keys, policies, places, masks, trials, rounds, updates)
        return scores, best, training.scores(best, trials)

    return [np.asarray(one) for one in jax.jit(run)(jax.vmap(jax.random.PRNGKey)(jnp.asarray(seeds)))]


def put_somewhere(place, key):
    at = jax.random.uniform(jax.random.fold_in(key, place), minval=-1, maxval=1)
    return jnp.stack([at, 0.0]), at[None]


def pulled(place, state, action):
    """A point on a line that is paid for being near 0.5, for 8 steps."""
    at = state[0] + 0.5 * jnp.clip(action[0], -1, 1)
    reward = 1 - jnp.abs(at - 0.5)
    return Step(jnp.stack([at, state[1] + 1]), at[None], reward, at > 3, state[1] >= 7, jnp.zeros((), bool))


POINT = Problem(put_somewhere, pulled, inputs=1, outputs=1, limit=8)
QUICK = PPO(environments=8, horizon=16, minibatches=2, rate=1e-2, discount=0.9, evaluate_every=4)


def test_a_point_learns_where_to_go():
    """Of at most 8, less what the way there costs; standing still is worth less."""
    scores, _, again = learned(POINT, QUICK, 3_000, (0, 1), hidden=(8,))
    assert scores[0].max() < 6
    assert scores.max(0).min() > 7
    np.testing.assert_allclose(again, scores.max(0), rtol=1e-4)  # the best policy is that of the best evaluation


def test_an_inherited_policy_keeps_what_its_inputs_mean():
    """A first update takes the moments of a new policy's inputs from its steps; one that has learned keeps its own."""
    training, hidden = Training(QUICK, POINT, (8,), total=20), (8,)
    layers = first_layers(jax.random.key(0), 1, hidden, 1)
    new, inherited = (join_policy(jnp.full(1, mean), jnp.full(1, 2 * mean + 1), layers) for mean in (0.0, 3.0))
    places = jnp.broadcast_to(jnp.arange(QUICK.environments, dtype=jnp.uint32), (2, QUICK.environments))
    keys = jax.vmap(jax.random.PRNGKey)(jnp.arange(2))
    before = training.start(keys, jnp.stack([new, inherited]), places)
    seen = jax.jit(training.update)(before, places, jnp.ones((2, 1))).seen
    assert abs(seen.mean[0, 0]) > 0.02
    assert seen.count[0] == pytest.approx(QUICK.steps, rel=1e-5)
    np.testing.assert_allclose(seen.mean[1], 3.0, atol=0.25)
    np.testing.assert_allclose(seen.deviation[1], 7.0, atol=0.25)
    assert seen.count[1] == 21 * QUICK.steps


@pytest.mark.parametrize(("rows", "columns"), [(20, 7), (7, 7), (7, 20), (5, 1)])
def test_first_weights_are_those_of_an_orthogonal_initializer_without_lapack(rows, columns):
    """jaxlib 0.10 can hang in programs with several batches of LAPACK's calls."""
    key = jax.random.key(3)
    expected = jax.nn.initializers.orthogonal()(key, (rows, columns))
    np.testing.assert_allclose(orthogonal(key, rows, columns), expected, atol=2e-6)
    assert "lapack" not in jax.jit(lambda key: orthogonal(key, rows, columns)).lower(key).as_text()


@pytest.mark.slow
def test_learners_side_by_side_learn_what_each_learns_alone():
    together, policies, _ = learned(POINT, QUICK, 512, (3, 4), hidden=(8,))
    for place, seed in enumerate((3, 4)):
        alone, policy, _ = learned(POINT, QUICK, 512, (seed,), hidden=(8,))
        np.testing.assert_allclose(together[:, place], alone[:, 0], rtol=1e-3)
        np.testing.assert_allclose(policies[place], policy[0], atol=1e-3)


# Cart-pole (Barto, Sutton and Anderson 1983), with the constants and ends of gymnasium's CartPole-v1.

LIMIT, SOLVED = 500, 475.0
"""Steps of an episode, and gymnasium's threshold."""


def upright(place, key):
    state = jnp.append(jax.random.uniform(jax.random.fold_in(key, place), (4,), minval=-0.05, maxval=0.05), 0.0)
    return state, state[:4]


def balanced(place, state, action):
    """After 20 ms; the sign of the action is the direction of a force of 10 N."""
    x, v, angle, turn, steps = state
    force = jnp.where(action[0] > 0, 10.0, -10.0)
    sine, cosine = jnp.sin(angle), jnp.cos(angle)
    common = (force + 0.05 * turn**2 * sine) / 1.1
    spin = (9.8 * sine - cosine * common) / (0.5 * (4 / 3 - 0.1 * cosine**2 / 1.1))
    forward = common - 0.05 * spin * cosine / 1.1
    after = jnp.stack([x + 0.02 * v, v + 0.02 * forward, angle + 0.02 * turn, turn + 0.02 * spin, steps + 1])
    fallen = (jnp.abs(after[0]) > 2.4) | (jnp.abs(after[2]) > 12 * jnp.pi / 180)
    return Step(after, after[:4], jnp.float32(1), fallen, after[4] >= LIMIT, jnp.zeros((), bool))


CART_POLE = Problem(upright, balanced, inputs=4, outputs=1, limit=LIMIT)


@pytest.mark.slow
def test_cart_pole_is_solved_within_the_steps_of_a_known_good_ppo():
    """The RL Zoo of Stable Baselines3 trains PPO on CartPole-v1 for 100,000 steps, after which it scores 500."""
    settings = PPO(environments=8, horizon=32, minibatches=4, rate=1e-3, anneal=True, discount=0.98, evaluate_every=20)
    scores, *_ = learned(CART_POLE, settings, 100_000, range(5))
    assert np.median(scores[0]) < SOLVED
    assert np.median(scores[-1]) >= SOLVED, scores
    assert (scores.max(0) >= SOLVED).all(), scores
