"""Policies: their network, what they are given, where they are refused, and the robot files that hold them."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pydantic import ValidationError

import vsr
from vsr.controllers import Policy
from vsr.controllers.base import Clock
from vsr.controllers.policy import join_policy, pack, policy_count, policy_sizes, unpack
from vsr.envs.spaces import in_drawn_order
from vsr.episode import record, reset, rollout
from vsr.robot import Body
from vsr.scene import Scene
from vsr.world.spec import Robot

pytestmark = pytest.mark.usefixtures("quickly_compiled")

HIDDEN = (5, 4)
BODY = Body(shape=("aa", "a."), engine="points")
SHOWN = 2 + 2 * 9
"""Walker-v0 shows the velocity and the places of all points."""


def numbers_of(inputs, outputs, seed=0, scale=0.5):
    """Weights of a policy, drawn."""
    random = np.random.default_rng(seed)
    layers = [scale * random.normal(size=size) for size in policy_sizes(inputs, HIDDEN, outputs)]
    mean, deviation = random.normal(size=inputs), random.uniform(0.5, 2, inputs)
    return np.asarray(join_policy(*map(jnp.asarray, (mean, deviation)), list(map(jnp.asarray, layers))), np.float32)


def walker(policy):
    return Scene(robot=Robot(body=BODY, controller=policy), task={"type": "Walker-v0", "duration": 0.4})


def test_numbers_survive_a_text():
    for kind in ("float32", "float64"):
        numbers = np.random.default_rng(0).normal(size=7).astype(kind)
        np.testing.assert_array_equal(unpack(pack(numbers)), numbers)
        assert unpack(pack(numbers)).dtype == kind


@pytest.mark.parametrize(
    ("text", "reason"),
    [("1,2,3", "float32: or float64:"), ("float32:!", "no base64"), ("float32:AAA=", "no whole number of float32")],
)
def test_texts_that_hold_no_numbers_are_refused(text, reason):
    with pytest.raises(ValidationError, match=reason):
        Policy(weights=text)
    with pytest.raises(ValidationError, match="finite"):
        Policy(weights=pack(np.array([np.nan])))


def test_network_equals_plain_loops():
    clock = Clock(frequency=0.5, amplitude=0.7, phase=0.2)
    numbers = numbers_of(SHOWN + 2, 4)
    assert len(numbers) == policy_count(SHOWN + 2, HIDDEN, 4)
    seen = np.random.default_rng(1).normal(size=SHOWN)
    policy = Policy(weights=pack(numbers), hidden=HIDDEN, clock=clock)
    assert policy.check(BODY) == []
    found = policy.build(BODY).control(jnp.float32(0.4), jnp.asarray(seen, jnp.float32))
    angle = 2 * np.pi * 0.5 * 0.4 + 0.2
    values = np.concatenate([seen, 0.7 * np.array([np.sin(angle), np.cos(angle)])])
    inputs = SHOWN + 2
    values = np.clip((values - numbers[:inputs]) / np.exp(numbers[inputs : 2 * inputs]), -10, 10)
    used = 2 * inputs
    for place, (rows, columns) in enumerate(policy_sizes(inputs, HIDDEN, 4)):
        layer = numbers[used : used + rows * columns].reshape(rows, columns)
        used += rows * columns
        values = np.append(values, 1) @ layer
        values = values if place == 2 else np.tanh(values)
    np.testing.assert_allclose(np.ravel(found), values, atol=1e-5)


def test_a_policy_in_a_robot_does_what_its_actions_do_in_the_environment():
    """The same control values, reward for reward, from the first step on."""
    policy = Policy(weights=pack(numbers_of(SHOWN, 4)), hidden=HIDDEN)
    scene = walker(policy)
    scenario, controller = scene.build()
    first = reset(jax.random.key(0), scenario)
    _, path = jax.jit(record)(scenario, controller, first)
    summary = jax.jit(rollout)(scenario, controller, first)
    env = vsr.make("Walker-v0", body=BODY, duration=0.4)
    seen, state = env.reset(jax.random.key(0))
    total, controls = 0.0, []
    for _ in range(env.max_steps):
        control = controller.control(state.world.time, seen)
        controls.append(np.clip(control, -1, 1))
        lengths = jnp.where(control > 0, 1 - 0.4 * control, 1 - 0.6 * control)
        action = jnp.clip(in_drawn_order(lengths, 2), 0.6, 1.6)
        seen, state, reward, *_ = env.step_env(jax.random.key(0), state, action, env.default_params)
        total += float(reward)
    assert env.max_steps == scene.schedule().calls == len(path.control) - 1
    present = np.asarray(BODY.present)
    np.testing.assert_allclose(np.asarray(path.control)[1:][:, present], np.stack(controls)[:, present], atol=1e-4)
    assert float(scene.task.evaluate(summary)["score"]) == pytest.approx(total, abs=1e-4)
    # Every action that was in force counts as effort, and none that was not.
    effort = np.mean(np.square(np.asarray(path.control)[1:][:, present]))
    assert float(summary.mean_squared_control) == pytest.approx(effort, rel=1e-5)


def test_policies_that_cannot_be_are_refused():
    fitting = Policy(weights=pack(numbers_of(SHOWN, 4)), hidden=HIDDEN)
    with pytest.raises(ValidationError, match="shows nothing of its own"):
        Scene(robot=Robot(body=BODY, controller=fitting))
    with pytest.raises(ValidationError, match="observation of 20 numbers, and this task shows 24"):
        Scene(robot=Robot(body=BODY, controller=fitting), task={"type": "Carrier-v0"})
    with pytest.raises(ValidationError, match="a grid of 3 x 2 cells: a policy is for the grid"):
        Robot(body=Body(shape=("aaa", "a.a"), engine="points"), controller=fitting)


def test_a_policy_of_sensors_reads_all_cells():
    """Also for tasks that show nothing, and bounded as environments bound observations."""
    policy = Policy(weights=pack(numbers_of(4, 4)), hidden=HIDDEN, sensors=("area_ratio",))
    scene = Scene(robot=Robot(body=BODY, controller=policy), task={"type": "locomotion", "duration": 0.2})
    scenario, controller = scene.build()
    _, path = jax.jit(record)(scenario, controller, reset(jax.random.key(0), scenario))
    at_rest = controller.control(jnp.float32(0), jnp.asarray(BODY.present, jnp.float32)[None])
    np.testing.assert_allclose(path.control[1], np.clip(at_rest, -1, 1) * BODY.present, atol=1e-6)
    two = policy.model_copy(update={"sensors": (*policy.sensors, *policy.sensors)})
    with pytest.raises(ValidationError, match="for 4 readings; 2 x 2 cells have 8"):
        Robot(body=BODY, controller=two)


def test_noise_of_hardware_reaches_a_policy():
    policy = Policy(weights=pack(numbers_of(SHOWN, 4)), hidden=HIDDEN)
    scene = walker(policy)
    noisy = scene.model_copy(
        update={"robot": Robot(body=BODY, controller=policy, hardware={"sensor_noise": 0.2, "delay": 1})}
    )
    paths = []
    for one in (scene, noisy):
        scenario, controller = one.build()
        paths.append(jax.jit(record)(scenario, controller, reset(jax.random.key(0), scenario))[1].control)
    np.testing.assert_array_equal(paths[1][1], 0)  # delayed by one call
    assert np.abs(paths[0][1] - paths[1][2]).max() > 1e-3
    assert replace(controller, sensor_noise=None).observes_task
