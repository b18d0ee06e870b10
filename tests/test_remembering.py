"""Controllers that remember: against plain loops and closed forms, from genes, and through whole episodes."""

import math
from itertools import pairwise, product

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from pydantic import ValidationError

import vsr
from vsr.controllers import decide, first_memory, knows_time_alone
from vsr.episode import observe, record, reset, step
from vsr.experiments.check import check_file
from vsr.experiments.config import dump_yaml, load, load_experiment, parse_scene
from vsr.experiments.encodings import EvolvedRobot
from vsr.experiments.encodings.bodies import MaterialGrid
from vsr.experiments.encodings.registry import CONTROLLERS
from vsr.experiments.memory import needs_of_experiment
from vsr.experiments.shipped import find_config
from vsr.scene import Scene, simulate

pytestmark = pytest.mark.usefixtures("quickly_compiled")
SENSORS = ({"quantity": "area_ratio"}, {"quantity": "velocity_x", "reading": "difference", "window": 3})
BODIES = {2: ("aba", "b.a"), 3: (("ab", "a."), ("aa", ".b"))}
AB = {"a": {}, "b": {}}
EVOLVED = {
    "sine": {},
    "oscillators": {"passive": ["b"]},
    "oscillators, coupling": {"frequencies": None, "amplitude": 0.5, "amplitudes": None, "couplings": [0, 5]},
    "mlp": {"sensors": SENSORS},
    "recurrent": {"sensors": SENSORS, "hidden": 3, "passive": ["b"]},
    "recurrent, gated": {"sensors": SENSORS, "hidden": 2, "unit": "gated", "clock": None},
    "distributed": {"sensors": SENSORS, "passive": ["b"]},
    "distributed, deep": {"sensors": SENSORS, "signals": 2, "hidden": [3], "clock": None},
}


def body_in(dimension):
    return vsr.Body(shape=BODIES[dimension], materials=AB, engine="points")


def calls(controller, times, readings):
    """Control values at some times."""
    memory, found, act = first_memory(controller), [], jax.jit(decide)
    for time, read in zip(times, readings, strict=True):
        values, memory = act(controller, memory, jnp.float32(time), read if controller.sensors else None)
        found.append(np.asarray(values))
    return found


def with_weights(controller, body, seed=0):
    """A described network with random weights, as many as it asks for."""
    ((_, message),) = controller(weights=()).check(body)
    count = int(message.split()[-1])
    return controller(weights=tuple(np.random.default_rng(seed).uniform(-1.5, 1.5, count).tolist()))


def read_at_random(body, count, sensors=2):
    random = np.random.default_rng(3)
    return [
        jnp.asarray(random.normal(size=(sensors, *body.cells.shape)) * body.present, jnp.float32) for _ in range(count)
    ]


# Against plain loops


def plain_layers(values, weights, sizes):
    used = 0
    for inputs, outputs in pairwise(sizes):
        block = np.asarray(weights[used : used + inputs * outputs]).reshape(inputs, outputs)
        values, used = np.tanh(np.asarray(values) @ block), used + inputs * outputs
    return values


@pytest.mark.parametrize("dimension", [2, 3])
def test_every_voxel_runs_the_same_network_on_what_neighbors_sent(dimension):
    body = body_in(dimension)

    def spec(weights):
        return vsr.Distributed(sensors=SENSORS, signals=2, hidden=(4,), weights=weights, clock={"frequency": 0.7})

    described = with_weights(spec, body)
    readings, times = read_at_random(body, 3), (0.1, 0.2, 0.3)
    places = [place for place in product(*map(range, body.cells.shape)) if body.present[place]]
    sent = {}  # by place and step through a side, of the previous call
    for time, read, found in zip(times, readings, calls(described.build(body), times, readings), strict=True):
        following = {}
        for place in places:
            inputs = [float(read[number][place]) for number in range(2)]
            for axis in range(dimension):
                for way in (-1, 1):
                    where = dimension - 1 - axis
                    next_to = tuple(at + way * (i == where) for i, at in enumerate(place))
                    inputs += list(sent.get((next_to, axis, -way), (0.0, 0.0)))
            inputs += [math.sin(2 * math.pi * 0.7 * time), 1.0]
            out = plain_layers(inputs, described.weights, described.sizes(dimension))
            assert found[place] == pytest.approx(out[0], abs=1e-5)
            for number, (axis, way) in enumerate(product(range(dimension), (-1, 1))):
                following[place, axis, way] = out[1 + 2 * number : 3 + 2 * number]
        sent = following


@pytest.mark.parametrize("unit", ["elman", "gated"])
def test_hidden_neurons_remember(unit):
    body = body_in(2)
    described = with_weights(lambda weights: vsr.Recurrent(sensors=SENSORS, hidden=3, unit=unit, weights=weights), body)
    readings, times = read_at_random(body, 3), (0.1, 0.2, 0.3)
    weights, hidden = np.asarray(described.weights), np.zeros(3)
    count = (2 * 5 + 2 + 3) * 3
    inward, rest = weights[:count].reshape(-1, 3), weights[count:]
    gate = rest[:count].reshape(-1, 3)
    outward = rest[count * (unit == "gated") :].reshape(3, 5)
    for time, read, found in zip(times, readings, calls(described.build(body), times, readings), strict=True):
        inputs = [*np.moveaxis(np.asarray(read), 0, -1)[body.present].ravel(), math.sin(2 * math.pi * time), 1.0]
        if unit == "gated":
            opened = 1 / (1 + np.exp(-(np.array([*inputs, *hidden]) @ gate)))
            hidden = (1 - opened) * hidden + opened * np.tanh(np.array([*inputs, *(opened * hidden)]) @ inward)
        else:
            hidden = np.tanh(np.array([*inputs, *hidden]) @ inward)
        np.testing.assert_allclose(found[body.present], np.tanh(hidden @ outward), atol=1e-5)


# Oscillators


def test_oscillators_of_one_frequency_are_sines():
    body = body_in(2)
    phase = ((0.1, 0.2, 0.3), (0.4, None, 0.5))
    times, nothing = np.arange(1, 6) / 30, [None] * 5
    free = calls(vsr.Oscillators(phase=phase, frequency=1.3, coupling=7.0).build(body), times, nothing)
    sine = vsr.Sine(phase=phase, frequency=1.3).build(body)
    for time, found in zip(times, free, strict=True):
        wanted = np.asarray(sine.control(jnp.float32(time), None))
        np.testing.assert_allclose(found[body.present], wanted[body.present], atol=2e-5)


@pytest.mark.parametrize("gap", [False, True])
def test_two_oscillators_follow_their_closed_form(gap):
    """Of dΔ/dt = a - b sin Δ, with Δ = θ2 - θ1, a = 2π (ν2 - ν1), b = 2 K; while apart neither knows of the other."""
    body = vsr.Body(shape=("a.a",) if gap else ("aa",), engine="points")
    frequency = ((1.0, None, 1.2),) if gap else ((1.0, 1.2),)
    built = vsr.Oscillators(frequency=frequency, coupling=2.0).build(body)
    a, b = 2 * math.pi * 0.2, 0.0 if gap else 4.0
    root = math.sqrt(b * b - a * a) if not gap else 0.0
    low, high = ((b - root) / a, (b + root) / a) if not gap else (0.0, 0.0)
    memory, times, act = built.first_memory(), np.arange(1, 31) / 15, jax.jit(decide)
    for time in times:
        _, memory = act(built, memory, jnp.float32(time), None)
        first, *_, second = np.asarray(memory.ahead)[0]
        grown = high / low * math.exp(root * time) if not gap else 0.0
        wanted = a * time if gap else 2 * math.atan((high - grown * low) / (1 - grown))
        assert math.remainder(second - first - wanted, 2 * math.pi) == pytest.approx(0, abs=1e-4)
        if not gap:  # what one gains the other loses
            assert math.remainder(first + second - 2 * math.pi * 2.2 * time, 2 * math.pi) == pytest.approx(0, abs=1e-4)
    if not gap:
        assert second - first == pytest.approx(math.asin(a / b), abs=1e-2), "they keep step in the end"


# From genes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "dimension"),
    [
        *((name, 2) for name in EVOLVED),
        ("distributed", 3),
        *(pytest.param(name, 3, marks=pytest.mark.full) for name in ("recurrent", "oscillators")),
    ],
)
def test_a_file_holds_the_controller_that_was_evaluated(name, dimension):
    encoding = CONTROLLERS[name.split(",")[0]].model_validate(EVOLVED[name])
    body = body_in(dimension)
    grid = MaterialGrid(grid=body.cells.shape[::-1], materials=AB, engine="points")
    genes = np.asarray(encoding.sample(jax.random.key(1), 1, grid))[0]
    assert genes.shape == (encoding.gene_count(grid),)
    built = encoding.build(jnp.asarray(genes), jnp.asarray(body.cells), grid, 20.0)
    described = encoding.describe(genes, body.cells, grid, 20.0)
    assert described.check(body) == []
    again = type(described).model_validate(described.to_plain()).build(body)
    readings, times = read_at_random(body, 3), (0.1, 0.2, 0.5)
    pairs = zip(calls(built, times, readings), calls(again, times, readings), strict=True)
    for first, second in pairs:
        np.testing.assert_allclose(first[body.present], second[body.present], atol=5e-6)
    assert np.abs(first[body.cells == 0]).max() > 0.01
    if "passive" in EVOLVED[name]:
        np.testing.assert_array_equal(first[body.cells == 1], 0)


def test_the_shared_network_does_not_grow_with_the_body():
    def genes(shape):
        controller = {"type": "distributed", "sensors": list(SENSORS)}
        return EvolvedRobot.model_validate({"body": {"shape": shape}, "controller": controller}).gene_count

    assert genes("a") == genes(["aaa", "aaa"]) == (2 + 4 + 2) * 5
    assert genes([["aa", "aa"]]) == (2 + 6 + 2) * 7


# Through episodes


def scene_with(controller, body):
    physics = {"time_step": 1 / 60, "control_every": 2, "substeps": 4}
    return Scene(
        robot=vsr.Robot(body=body, controller=controller),
        task=vsr.Locomotion(duration=0.4),
        physics=vsr.Physics(**physics),
    )


def described(kind, body):
    if kind == "oscillators":
        return vsr.Oscillators(frequency=1.5)
    make = {"recurrent": vsr.Recurrent, "distributed": vsr.Distributed}[kind]
    return with_weights(lambda weights: make(sensors=SENSORS, weights=weights), body)


def test_an_episode_carries_the_memory_from_call_to_call():
    """As a loop of our own over `step` does."""
    body = vsr.Body(shape=("aa",), engine="points")
    scenario, controller = scene_with(described("distributed", body), body).build()
    start = jax.jit(lambda: reset(jax.random.key(0), scenario))()
    move = jax.jit(lambda state, action: step(scenario, state, action)[0])
    _, path = jax.jit(lambda: record(scenario, controller, start))()
    state, memory, action, act = start, first_memory(controller), start.action, jax.jit(decide)
    for control in np.asarray(path.control)[1:]:
        np.testing.assert_allclose(action, control, atol=2e-4)  # two programs: what is felt differs by rounding
        state = move(state, action)
        values, memory = act(controller, memory, state.world.time, observe(scenario, state))
        action = jnp.clip(values, -1, 1) * scenario.model.present
    assert np.abs(np.asarray(memory)).max() > 0.01
    assert np.abs(path.control[-1]).max() > 0.01


@pytest.mark.full
@pytest.mark.parametrize(
    "engine", ["squares", *(pytest.param(engine, marks=pytest.mark.full) for engine in ("points", "evogym"))]
)
@pytest.mark.parametrize("kind", ["oscillators", "recurrent", "distributed"])
def test_a_robot_replays_from_its_file_bit_for_bit(kind, engine):
    shape = ("hh", "vv") if engine == "evogym" else ("aa",)
    body = vsr.Body.model_validate({"shape": shape, "engine": engine})
    robot = vsr.Robot(body=body, controller=described(kind, body))
    scene = Scene.model_validate({"robot": robot, "task": {"duration": 0.4}})
    again = parse_scene(dump_yaml(scene))
    assert again == scene
    assert simulate(again).measures == simulate(scene).measures


def test_what_remembers_needs_every_call():
    """No many calls at once for a kernel; and a further robot in the world cannot have such a controller."""
    body = vsr.Body(shape=("aa",), engine="points")
    assert knows_time_alone(vsr.Sine().build(body))
    assert not knows_time_alone(vsr.Oscillators().build(body))
    other = {"name": "it", "robot": {"body": {"shape": "a"}, "controller": {"type": "oscillators"}}}
    with pytest.raises(
        ValidationError, match=r"world.other_robots.0.robot.controller: only the first robot reads sensors, remembers"
    ):
        Scene.model_validate({"robot": {"body": {"shape": "a"}}, "world": {"other_robots": [other]}})


def test_a_network_without_weights_is_to_evolve(tmp_path):
    for number, kind in enumerate(("mlp", "recurrent", "distributed")):
        file = tmp_path / f"{number}.yaml"
        file.write_text(
            f"robot: {{body: {{shape: aa}}, controller: {{type: {kind}, sensors: [{{quantity: contact}}]}}}}"
        )
        assert isinstance(load(file).robot, EvolvedRobot)


SHIPPED = ("distributed_network", "noisy_sensors", "coupled_oscillators", "recurrent_network", "seeing_quadruped")


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_experiments_tell_what_they_need(name):
    experiment = load_experiment(find_config(name))
    reported = [setting for need in needs_of_experiment(experiment) for setting in need.settings]
    assert any(f"{experiment.robot.gene_count:,} genes" in setting for setting in reported)


@pytest.mark.full
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_experiments_are_sound(name):
    assert "genes" in dict(check_file(name))


@pytest.mark.parametrize(
    ("controller", "message"),
    [
        (
            vsr.Recurrent(sensors=SENSORS, weights=(1.0,), hidden=3),
            "1 given; 12 inputs, 3 elman neurons and 5 outputs need 60",
        ),
        (vsr.Distributed(sensors=SENSORS, weights=(1.0,)), "1 given; layers of 8 x 5 neurons need 40"),
        (vsr.Distributed(sensors=SENSORS, weights=(1.0,) * 40, amplitude=((1.0,),)), "1 rows of 1"),
        (vsr.Oscillators(phase=((1.0, 2.0),)), "1 rows of 2"),
    ],
)
def test_what_does_not_fit_the_body_is_told(controller, message):
    with pytest.raises(ValidationError, match=message):
        vsr.Robot(body=body_in(2), controller=controller)
