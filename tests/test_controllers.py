"""Controllers: their formulas, their fit to a body, and a plain network for comparison."""

import json
import math

import jax.numpy as jnp
import numpy as np
import pytest
from conftest import DATA
from pydantic import ValidationError

from vsr import MLP, Body, Development, Robot, Sine
from vsr.controllers.base import Clock
from vsr.sensors.readings import Sensor

BIPED = Body(shape=("aaaa", "a..a"))


def test_sine_follows_its_formula():
    phase = ((0.1, 0.2, 0.3, 0.4), (0.5, None, None, 0.6))
    controller = Sine(phase=phase, frequency=2.0, amplitude=0.5).build(BIPED)
    values = np.asarray(controller.control(jnp.float32(0.3), None))
    assert values[1, 2] == pytest.approx(0.5 * math.sin(2 * math.pi * 2 * 0.3 + 0.3), abs=1e-5)
    assert values[0, 3] == pytest.approx(0.5 * math.sin(2 * math.pi * 2 * 0.3 + 0.6), abs=1e-5)


@pytest.mark.parametrize("time", [0.0, 15.0, 60.0])
def test_development_drifts_from_start_to_end(time):
    controller = Development(start=0.2, end=-0.6, duration=60.0, phase=0.1).build(BIPED)
    wanted = math.sin(2 * math.pi * time + 0.1) + 0.2 + time / 60 * (-0.8)
    np.testing.assert_allclose(controller.control(jnp.float32(time), None), wanted, atol=1e-4)


def plain_network(inputs, weights, sizes):
    """The original's loops: for each layer, for each input, for each output; tanh everywhere."""
    values, used = list(inputs), 0
    for layer in range(len(sizes) - 1):
        following = [0.0] * sizes[layer + 1]
        for j in range(sizes[layer]):
            for k in range(sizes[layer + 1]):
                following[k] += values[j] * weights[used]
                used += 1
        values = [math.tanh(value) for value in following]
    return values


@pytest.mark.parametrize("hidden", [(), (5,), (4, 3)])
@pytest.mark.parametrize("clock", [None, Clock(frequency=0.5, amplitude=0.7, phase=0.2)], ids=["free", "driven"])
def test_network_equals_plain_loops(hidden, clock):
    sensors = (Sensor(quantity="area_ratio"), Sensor(quantity="contact", voxels=((0, 0), (3, 0))))
    template = MLP(sensors=sensors, weights=(), hidden=hidden, clock=clock)
    random = np.random.default_rng(1)
    weights = random.normal(size=template.weight_count(BIPED))
    spec = template.model_copy(update={"weights": tuple(weights.tolist())})
    assert spec.check(BIPED) == []
    readings = random.normal(size=(2, 2, 4)) * BIPED.present
    values = np.asarray(spec.build(BIPED).control(jnp.float32(0.4), jnp.asarray(readings, jnp.float32)))
    inputs = []
    for row in range(2):
        for column in range(4):
            if BIPED.present[row, column]:
                inputs.append(readings[0, row, column])
                if (column, row) in sensors[1].voxels:
                    inputs.append(readings[1, row, column])
    if clock:
        inputs.append(0.7 * math.sin(2 * math.pi * 0.5 * 0.4 + 0.2))
    wanted = plain_network([*inputs, 1.0], weights, spec.sizes(BIPED))
    np.testing.assert_allclose(values[BIPED.present], wanted, atol=1e-5)
    np.testing.assert_array_equal(values[~BIPED.present], 0)


def test_weight_count_of_the_papers_example():
    """Six voxels, three means each, touching for two of them, driving, bias, ten hidden neurons: 280 weights."""
    means = tuple(
        Sensor(quantity=q, reading="mean") for q in ("area_ratio", "rotated_velocity_x", "rotated_velocity_y")
    )
    body = Body(shape=("aaa", "aaa"))
    contact = Sensor(quantity="contact", voxels=((0, 0), (1, 0)))
    assert MLP(sensors=(*means, contact), weights=(), hidden=(10,)).weight_count(body) == 280


@pytest.mark.parametrize(("shape", "count"), [(("aaaa",), 104), (("aaaa", "a..a"), 228), (("aaaaa", "a.a.a"), 400)])
def test_weight_counts_of_the_sensing_study(shape, count):
    sensors = tuple(
        Sensor(quantity=q, reading=r)
        for q in ("area_ratio", "rotated_velocity_x", "rotated_velocity_y")
        for r in ("mean", "difference")
    )
    assert MLP(sensors=sensors, weights=()).weight_count(Body(shape=shape)) == count


def test_the_originals_network_gives_the_originals_control():
    """First control call of a reference case, from its own raw sensor values (legacy angle)."""
    from vsr.evidence.validate.original.files import body_of, controller_of

    data = json.loads((DATA / "locomotion_ccd_none" / "mlp_biped_seed2_dt0333.json").read_text())
    body, spec = body_of(data["input"]), controller_of(data["input"])
    call = data["output"]["control_first_40_calls"][0]
    raw = next(value for key, value in call.items() if key.startswith("raw_sensors"))
    area, rot_x, rot_y = (np.array(raw).reshape(-1, 7)[:, i] for i in range(3))
    zero = np.zeros_like(area)
    readings = np.zeros((6, *body.cells.shape))
    for i, values in enumerate((rot_x, rot_y, area, zero, zero, zero)):
        readings[i][body.present] = values
    ours = spec.build(body).control(jnp.float32(call["t"]), jnp.asarray(readings, jnp.float32))
    np.testing.assert_allclose(np.asarray(ours)[body.present], call["control_rowmajor"], atol=2e-5)


@pytest.mark.parametrize(
    ("controller", "message"),
    [
        (Sine(phase=((1.0, 2.0),)), "1 rows of 2"),
        (Sine(phase=((1.0, 2.0, None, 0.0), (1.0, 1.0, 1.0, 1.0))), "column 2, row 1"),
        (MLP(sensors=(Sensor(quantity="angle"),), weights=(1.0,)), "need 48"),
        (MLP(sensors=(Sensor(quantity="angle", voxels=((1, 0),)),), weights=(1.0,)), "column 1, row 0"),
    ],
)
def test_a_controller_that_does_not_fit_its_body_is_refused(controller, message):
    with pytest.raises(ValidationError, match=message):
        Robot(body=BIPED, controller=controller)
