"""Noise, delay and rate limits between controllers and voxels: their size, their order, and that they repeat."""

from dataclasses import dataclass, field, replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pydantic import ValidationError

import vsr
from vsr.controllers import decide, first_memory, in_trial, rate_limit
from vsr.episode import record, reset, scenario_of
from vsr.experiments.config import dump_yaml, parse_scene
from vsr.experiments.encodings import EvolvedRobot
from vsr.experiments.perturbation import InitialNoise, perturbations_of, rollout_from
from vsr.experiments.storage.robots import hashes_of
from vsr.physics.engine import assemble_body
from vsr.scene import Scene
from vsr.sensors import Sensor
from vsr.world.schedule import Schedule
from vsr.world.spec import World

pytestmark = pytest.mark.usefixtures("quickly_compiled")
CELLS = (40, 50)
ONE = vsr.Body(shape=("a",), engine="points")


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Echo:
    """What is read is what is done; without sensors, a tenth of the time [s]."""

    factor: jax.Array
    sensors: tuple = field(default=(Sensor(quantity="contact"),), metadata={"static": True})

    def control(self, time, readings):
        return self.factor * (jnp.full(CELLS, 0.1 * time) if readings is None else readings[0])


def done(hardware, count=4, read=0.0):
    """What is done at some calls, (calls, *cells)."""
    controller = vsr.Hardware(**hardware).around(Echo(jnp.float32(1)), CELLS, jnp.float32)
    memory, found, act = first_memory(controller), [], jax.jit(lambda *given: decide(controller, *given))
    for call in range(count):
        values, memory = act(memory, jnp.float32(call), jnp.full((1, *CELLS), read + 0.1 * call, jnp.float32))
        found.append(np.asarray(values))
    return np.stack(found)


def test_noise_has_its_size_and_is_new_at_every_call_and_voxel():
    for kind in ("sensor_noise", "control_noise"):
        noise = done({kind: 0.05}) - 0.1 * np.arange(4)[:, None, None]
        assert noise.std((1, 2)) == pytest.approx(np.full(4, 0.05), rel=0.05)
        assert np.abs(noise.mean((1, 2))).max() < 0.005
        assert len(np.unique(noise)) > 0.9 * noise.size
        np.testing.assert_array_equal(noise, done({kind: 0.05}) - 0.1 * np.arange(4)[:, None, None])
        assert (noise != done({kind: 0.05, "seed": 1}) - 0.1 * np.arange(4)[:, None, None]).any()


def test_noise_of_sensors_and_of_actuators_differ():
    both = done({"sensor_noise": 0.05, "control_noise": 0.05}) - 0.1 * np.arange(4)[:, None, None]
    assert both.std() == pytest.approx(0.05 * 2**0.5, rel=0.05)


def test_noise_is_added_to_what_can_be_done():
    """A value beyond 1 is clipped first, so that noise is felt at full control, too."""
    assert (done({"control_noise": 0.05}, read=30.0) < 1).mean() == pytest.approx(0.5, abs=0.05)


def test_a_delayed_value_is_the_one_of_calls_before():
    np.testing.assert_allclose(done({"delay": 2}, count=5)[:, 0, 0], [0, 0, 0, 0.1, 0.2], atol=1e-6)


def test_every_start_has_noise_of_its_own():
    own = vsr.Hardware(control_noise=0.1).around(Echo(jnp.float32(1)), CELLS, jnp.float32)
    read = jnp.zeros((1, *CELLS))

    def values(number):
        controller = in_trial(own, jnp.asarray(number))
        return np.asarray(controller.decide(controller.first_memory(), jnp.float32(0), read)[0])

    np.testing.assert_array_equal(values(0), own.decide(own.first_memory(), jnp.float32(0), read)[0])
    assert (values(0) != values(1)).all()
    plain = Echo(jnp.float32(1))
    assert in_trial(plain, jnp.asarray(3)) is plain
    assert perturbations_of(InitialNoise(), 1).number is None
    np.testing.assert_array_equal(perturbations_of(InitialNoise(), 3).number, [0, 1, 2])
    fresh = [np.asarray(perturbations_of(InitialNoise(), 3, key=jax.random.key(seed)).number) for seed in (0, 1)]
    assert len(np.unique(fresh)) == 6


def test_the_lower_of_two_limits_counts():
    mlp = vsr.MLP(sensors=(Sensor(quantity="contact"),), weights=(0.0,) * 3, rate_limit=4.0).build(ONE)
    for limit, wanted in ((2.0, 2.0), (9.0, 4.0), (None, 4.0)):
        assert float(rate_limit(vsr.Hardware(rate_limit=limit).around(mlp, (1, 1), jnp.float32))) == wanted
    assert rate_limit(vsr.Hardware().around(vsr.Sine().build(ONE), (1, 1), jnp.float32)) is None


def test_an_episode_has_delay_first_and_then_the_limit():
    """Of a sine that is +1 for a long time: nothing, then a ramp. And noise in every start, one by one or together."""
    robot = vsr.Robot(
        body=ONE,
        controller=vsr.Sine(frequency=0.0, phase=np.pi / 2),
        hardware={"delay": 3, "rate_limit": 12.0, "control_noise": 1e-6},
    )
    controller = robot.build_controller()
    scenario = scenario_of(assemble_body(ONE), World().build(), Schedule(duration=16 / 60, substeps=1))
    run = jax.jit(lambda controller: record(scenario, controller, reset(jax.random.key(0), scenario)))
    control = np.asarray(run(controller)[1].control)[:, 0, 0]
    np.testing.assert_allclose(control, [0, 0, 0, 0, 0, 0.4, 0.8, 1, 1], atol=1e-5)
    noisy = replace(controller, control_noise=jnp.float32(0.2))
    trials = perturbations_of(InitialNoise(height=0.0), 2)
    effort = jax.jit(jax.vmap(lambda start: rollout_from(scenario, noisy, start).mean_squared_control))(trials)
    assert effort[0] != effort[1]
    assert float(effort[0]) == pytest.approx(float(run(noisy)[0].mean_squared_control), rel=1e-5)


def test_files_keep_the_hardware():
    hardware = {"sensor_noise": 0.1, "delay": 2, "seed": 7}
    evolved = EvolvedRobot.model_validate({"body": {"shape": "aa"}, "controller": "sine", "hardware": hardware})
    robot = evolved.describe({"body": np.zeros(0), "controller": np.zeros(2)}, 20.0)
    assert robot.hardware == vsr.Hardware(**hardware)
    scene = Scene(robot=robot)
    assert parse_scene(dump_yaml(scene)) == scene
    plain = scene.to_plain()
    other = {**plain, "robot": {**plain["robot"], "hardware": {**hardware, "delay": 1}}}
    none = {**plain, "robot": {name: part for name, part in plain["robot"].items() if name != "hardware"}}
    assert len({hashes_of(one).scene for one in (plain, other, none)}) == 3
    assert hashes_of(none) == hashes_of({**plain, "robot": {**plain["robot"], "hardware": None}})


@pytest.mark.parametrize(
    "wrong", [{"delay": -1}, {"delay": 1.5}, {"sensor_noise": -0.1}, {"rate_limit": 0}, {"dealy": 1}]
)
def test_impossible_hardware_is_refused(wrong):
    with pytest.raises(ValidationError, match=next(iter(wrong))):
        vsr.Robot(body=ONE, hardware=wrong)
