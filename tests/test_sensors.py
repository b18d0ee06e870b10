"""Sensors against hand computation."""

import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jsonschema import Draft202012Validator
from pydantic import ValidationError

from vsr.environment import Environment
from vsr.experiments.catalog import components, schema
from vsr.experiments.config import ConfigError, dump_yaml, parse_experiment, parse_scene
from vsr.physics.engine import assemble_body, engine_of
from vsr.physics.squares.geometry import rest_state
from vsr.robot import Body
from vsr.sensors import QUANTITIES, Quantity, Sensor, empty_memory, readings, remember
from vsr.terrain import Flat
from vsr.world.placement import move_rigidly

BODY = Body(shape=("a.", "aa"))
GROUND = Environment(gravity=jnp.float32(9.8), terrain=Flat().build())


@pytest.fixture(scope="module")
def model():
    return assemble_body(BODY)


def feel(model, state, name):
    return np.asarray(QUANTITIES[name](engine_of(model).voxel_motion(model, GROUND, state)))


def moved(model, *, tilt=0.0, velocity=(0.0, 0.0), shift=(50.0, 5.0)):
    return move_rigidly(model, rest_state(model), tilt=tilt, shift=jnp.array(shift), velocity=jnp.array(velocity))


@pytest.mark.slow
@pytest.mark.parametrize("tilt", [0.0, 0.4, -0.4, 2.0, -3.0])
def test_angle_is_the_robots_tilt(model, tilt):
    np.testing.assert_allclose(feel(model, moved(model, tilt=tilt), "angle")[BODY.present], tilt, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(("tilt", "wrong"), [(0.4, 0.4 - np.pi / 2), (-0.4, -0.4 + np.pi / 2)])
def test_legacy_angle_is_the_originals(model, tilt, wrong):
    np.testing.assert_allclose(feel(model, moved(model, tilt=tilt), "legacy_angle")[BODY.present], wrong, atol=1e-5)


def test_velocities(model):
    state = moved(model, tilt=0.5, velocity=(3.0, -4.0))
    felt = {name: feel(model, state, name)[0, 1] for name, own in QUANTITIES.items() if own.dimensions == (2, 3)}
    assert felt["velocity_x"] == pytest.approx(3.0, abs=1e-5)
    assert felt["velocity_y"] == pytest.approx(-4.0, abs=1e-5)
    assert felt["velocity_magnitude"] == pytest.approx(5.0, abs=1e-5)
    assert felt["rotated_velocity_x"] == pytest.approx(3 * np.cos(0.5) - 4 * np.sin(0.5), abs=1e-5)
    assert felt["rotated_velocity_y"] == pytest.approx(-4 * np.cos(0.5) - 3 * np.sin(0.5), abs=1e-5)


def test_velocity_of_a_turning_voxel_is_the_mean_of_its_masses():
    """One voxel turning as a whole about its center does not move; about the origin it does."""
    single = assemble_body(Body(shape="a"))
    state = rest_state(single)
    spin = 0.7
    turning = replace(
        state,
        velocity=spin * jnp.stack([-state.position[..., 1], state.position[..., 0]], -1),
        spin=jnp.full_like(state.spin, spin),
    )
    assert feel(single, turning, "velocity_x")[0, 0] == pytest.approx(-spin * 1.5, abs=1e-5)
    assert feel(single, turning, "velocity_y")[0, 0] == pytest.approx(spin * 1.5, abs=1e-5)


def test_area_ratio_of_a_stretched_voxel():
    single = assemble_body(Body(shape="a"))
    state = rest_state(single)
    stretched = replace(state, position=state.position + jnp.sign(state.position - 1.5) * jnp.array([0.3, 0.0]))
    assert feel(single, stretched, "area_ratio")[0, 0] == pytest.approx(3.6 / 3.0, rel=1e-5)


def test_touching_tells_which_voxels_are_in_the_ground(model):
    above, in_ground = (moved(model, shift=(50.0, height)) for height in (0.01, -0.01))
    np.testing.assert_array_equal(feel(model, above, "contact") * BODY.present, 0)
    np.testing.assert_array_equal(feel(model, in_ground, "contact") * BODY.present, [[1, 1], [0, 0]])
    nowhere = Environment(gravity=jnp.float32(0))
    free = engine_of(model).voxel_motion(model, nowhere, in_ground)
    assert float(QUANTITIES["contact"](free).sum()) == 0


def test_readings_over_calls_follow_their_definition(model):
    sensors = tuple(Sensor(quantity="velocity_x", reading=kind, window=3) for kind in ("current", "mean", "difference"))
    memory = empty_memory(model, sensors)
    speeds = [1.0, 4.0, 2.0, 8.0, 5.0]
    for call, speed in enumerate(speeds):
        state = moved(model, velocity=(speed, 0.0))
        memory = remember(sensors, model, GROUND, state, memory, jnp.asarray(call == 0))
        history = ([speeds[0]] * 3 + speeds[1 : call + 1])[-3:] if call else [speeds[0]] * 3
        wanted = [speed, np.mean(history), speed - history[0]]
        read = readings(sensors, memory)
        np.testing.assert_allclose(read[:, 0, 0], wanted, atol=1e-5)
        np.testing.assert_array_equal(read[:, 1, 1], 0)


def test_readings_run_under_jit_and_vmap(model):
    sensors = (Sensor(quantity="angle"), Sensor(quantity="area_ratio", reading="mean"))
    states = [moved(model, tilt=tilt) for tilt in (0.1, 0.3)]
    stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *states)
    memory = empty_memory(model, sensors)

    @jax.jit
    @jax.vmap
    def feel_all(state):
        return readings(sensors, remember(sensors, model, GROUND, state, memory, jnp.asarray(True)))

    np.testing.assert_allclose(feel_all(stacked)[:, 0, 0, 0], [0.1, 0.3], atol=1e-5)


@pytest.mark.parametrize(
    "fields", [{"quantity": "angel"}, {"quantity": "angle", "window": 0}, {"quantity": "angle", "reading": "sum"}]
)
def test_bad_senses_are_refused(fields):
    with pytest.raises(ValidationError):
        Sensor(**fields)


MLP = "robot: {body: {shape: aa}, controller: {type: KIND, sensors: SENSES}}\n"


@pytest.mark.parametrize("kind", ["mlp", "recurrent", "distributed"])
def test_plain_names_stand_for_present_values(kind):
    """In files as in `vsr.make`, in every list of sensors; what is written back is the whole."""
    short, long = (
        parse_experiment(MLP.replace("KIND", kind).replace("SENSES", sensors))
        for sensors in ("[contact, {quantity: angle}]", "[{quantity: contact}, {quantity: angle}]")
    )
    assert short == long
    assert short.robot.controller.sensors == (Sensor(quantity="contact"), Sensor(quantity="angle"))
    assert dump_yaml(short) == dump_yaml(long)
    assert parse_experiment(dump_yaml(short)) == short


def test_plain_names_are_checked_and_in_the_schema():
    with pytest.raises(ConfigError, match=r"<text>:1: robot.controller.sensors.1: .*'angel'.*'angle'"):
        parse_experiment(MLP.replace("KIND", "mlp").replace("SENSES", "[contact, angel]"))
    for file in ("experiment", "scene"):
        known = Draft202012Validator({"$defs": schema(file)["$defs"], "$ref": "#/$defs/Sensor"})
        assert known.is_valid("contact")
        assert known.is_valid({"quantity": "contact", "window": 3})
        assert not known.is_valid("touched")


PRESSURE = '''
from vsr.sensors import QUANTITIES, Quantity

def ground_pressure(voxels, direction):
    """Pressure from a side [Pa]."""
    return voxels.size_ratio * (7 if direction is None else direction[0])

QUANTITIES["ground_pressure"] = Quantity(
    ground_pressure, unit="Pa", at_rest=7.0, dimensions=(2,), parameters=("direction",)
)
'''


def test_a_plugins_sensor_says_all_that_others_need_of_it(model, tmp_path):
    """One function and one line: nothing is guessed from its name, which begins as those in meters."""
    (tmp_path / "pressed.py").write_text(PRESSURE)
    sensor = "{quantity: ground_pressure, direction: [3, 1]}"
    network = f"{{type: mlp, sensors: [ground_pressure, {sensor}], weights: {[0] * 12}}}"
    text = f"plugins: [pressed]\nrobot:\n  body: {{shape: aa}}\n  controller: {network}\n"
    try:
        scene = parse_scene(text, str(tmp_path / "scene.yaml"), run_plugins=True)
        plain, sided = scene.robot.controller.sensors
        assert (plain.unit, plain.at_rest) == ("Pa", 7.0)
        assert plain.model_copy(update={"reading": "difference"}).at_rest == 0
        memory = remember(
            (plain, sided), model, GROUND, moved(model), empty_memory(model, (plain, sided)), jnp.bool_(1)
        )
        np.testing.assert_allclose(readings((plain, sided), memory)[:, 0, 0], [7, 3], rtol=1e-5)
        with pytest.raises(ConfigError, match=r"sensors.1: .*ground_pressure.*range.*ground_distance"):
            parse_scene(text.replace("direction: [3, 1]", "range: 2.0"), str(tmp_path / "scene.yaml"))
        with pytest.raises(ConfigError, match=r"sensors.0.quantity: ground_pressure.*2-D.*3-D"):
            parse_scene(text.replace("aa", '[["aa"], ["aa"]]'), str(tmp_path / "scene.yaml"))
        listed = {one.name: one.help for one in components("sensors")}
        assert listed["ground_pressure"] == "Pressure from a side [Pa]."
        with pytest.raises(ValueError, match=r"'ground_pressure' exists: pressed.ground_pressure"):
            QUANTITIES["ground_pressure"] = Quantity(lambda voxels: voxels.size_ratio)
    finally:
        QUANTITIES.pop("ground_pressure", None)
        sys.modules.pop("pressed", None)
