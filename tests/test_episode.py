"""Episodes: when control is called, what is measured, how failure is reported; steps by hand; tasks of one's own."""

import sys
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from vsr import (
    MLP,
    Body,
    Development,
    Flat,
    Locomotion,
    Material,
    Physics,
    Placement,
    Robot,
    Scene,
    Sine,
    World,
    simulate,
)
from vsr.environment import Environment
from vsr.episode import begin, observe, record, reset, rollout, scenario_of, step, summarize
from vsr.experiments.catalog import schema
from vsr.experiments.population import repeat, rollout_population, stack
from vsr.experiments.terminal import show_catalog
from vsr.physics.engine import engine_of
from vsr.physics.squares.assembly import SquareMaterials, assemble
from vsr.sensors import empty_memory, readings, remember
from vsr.sensors.readings import Sensor
from vsr.tasks import TASKS
from vsr.world.schedule import Schedule

pytestmark = pytest.mark.usefixtures("quickly_compiled")
BIPED = Body(shape=("aaaa", "a..a"))
SHORT = Schedule(duration=0.5, time_step=1 / 60, control_every=2, substeps=4)

KEY = jax.random.key(0)


def scene(**changes):
    fields = {
        "robot": Robot(body=BIPED, controller=Sine(phase=((0.0, 1.0, 2.0, 3.0), (1.0, None, None, -2.0)))),
        "task": Locomotion(duration=0.5),
    }
    return Scene(**{**fields, **changes})


def test_schedule_counts_steps():
    assert Schedule(duration=60.0).steps == 3600
    assert Schedule(duration=60.0, time_step=0.0333).steps == 1802
    assert Schedule(duration=1e-9).steps == 1
    assert Schedule(duration=1.01, time_step=0.5).total_time == 1.5


@pytest.mark.slow
def test_control_is_called_after_every_interval_and_not_before():
    """The control in force during each recorded interval is the one computed at its start; at first it is zero."""
    scenario, controller = scene().build()
    scenario = replace(scenario, schedule=replace(SHORT, control_every=3))
    _, trajectory = jax.jit(record)(scenario, controller, reset(KEY, scenario))
    interval = 3 / 60
    np.testing.assert_allclose(trajectory.time, interval * np.arange(11), atol=1e-6)
    for call in range(11):
        wanted = 0.0 if call < 2 else np.sin(2 * np.pi * (call - 1) * interval + 1.0)
        assert float(trajectory.control[call, 0, 0]) == pytest.approx(wanted, abs=1e-5)


def test_measures_of_a_flying_robot_are_known():
    """No gravity, no damping: it keeps its velocity."""
    body = Body(shape=("aa",), materials={"a": Material(linear_damping=0.0)})
    outcome = simulate(
        Scene(
            robot=Robot(body=body),
            world=World(gravity=0.0),
            task=Locomotion(duration=1.0, placement=Placement(left=50.0, clearance=2.0, velocity=(3.0, 0.5))),
        )
    )
    assert not outcome.failed
    assert outcome.measures["travel_velocity"] == pytest.approx(3.0, abs=1e-3)
    assert outcome.measures["relative_velocity"] == pytest.approx(0.5, abs=1e-3)
    assert outcome.measures["average_height"] == pytest.approx(3.5 + 0.25, abs=0.02)
    assert outcome.measures["average_squared_control"] == 0.0


def test_average_squared_control_counts_clipped_values_of_voxels_only():
    controller = Development(amplitude=0.0, start=2.0, end=2.0)
    assert simulate(scene(robot=Robot(body=BIPED, controller=controller))).measures["average_squared_control"] == 1.0


def test_only_the_asked_measures_are_made():
    asked = Locomotion(duration=0.5, measures=("average_height", "travel_velocity"))
    assert list(simulate(scene(task=asked)).measures) == ["average_height", "travel_velocity"]


def test_the_same_scene_gives_the_same_numbers():
    assert simulate(scene()).measures == simulate(scene()).measures


@pytest.mark.slow
def test_float64_is_selectable_and_near_float32():
    single, double = (simulate(scene(physics=Physics(precision=p))) for p in ("float32", "float64"))
    assert double.measures["average_height"] == pytest.approx(single.measures["average_height"], abs=1e-3)
    assert double.measures != single.measures
    assert jnp.zeros(1).dtype == jnp.float32


def test_a_state_that_is_not_finite_or_explodes_is_a_failure():
    scenario, controller = scene().build()
    run = jax.jit(lambda state: rollout(scenario, controller, begin(scenario, state)))
    state = reset(KEY, scenario).world.robots[0]
    for broken in (
        replace(state, position=state.position.at[0, 0, 0, 0].set(jnp.nan)),
        replace(state, velocity=state.velocity + 1e4),
    ):
        episode = run(broken)
        assert bool(episode.failed)
        assert np.isnan(float(scenario.task.evaluate(episode)["travel_velocity"]))
    assert not bool(run(state).failed)


TABLE = SquareMaterials.of([Material()])
GROUND = Environment(gravity=jnp.float32(9.8), terrain=Flat().build())


@jax.jit
def episode_of_anybody(cells):
    model = assemble(cells, TABLE, 3.0)
    controller = Sine().build(Body(shape=("aaa", "aaa")))
    scenario = scenario_of(model, GROUND, replace(SHORT, duration=0.8))
    return rollout(scenario, controller, reset(KEY, scenario))


@pytest.mark.slow
@given(arrays(np.int32, (2, 3), elements=st.integers(-1, 0)))
def test_any_body_lives_or_is_told_to_fail(cells):
    """Empty, single, diagonal and disconnected bodies through one compilation."""
    episode = episode_of_anybody(jnp.asarray(cells))
    voxels = int((cells >= 0).sum())
    assert bool(episode.failed) == (voxels == 0)
    assert episode_of_anybody._cache_size() == 1
    if voxels:
        assert bool(jnp.isfinite(episode.end).all())
        assert -0.1 < float(episode.end[1]) < float(episode.start[1]) + 0.5


@pytest.mark.slow
def test_a_population_equals_its_robots_one_by_one():
    single = sensor_scene("squares")  # its program is compiled for other tests, too
    body, count = single.robot.body, len(single.robot.controller.weights)
    random = np.random.default_rng(0)
    scenario, _ = single.build()
    start = reset(KEY, scenario)
    specs = [MLP(sensors=SENSORS, weights=tuple(random.uniform(-1, 1, count).tolist())) for _ in range(3)]
    built = [spec.build(body) for spec in specs]
    environment, robot = scenario.world.environment, start.world.robots[0]
    many = rollout_population(repeat(scenario.model, 3), stack(built), environment, repeat(robot, 3), scenario.schedule)
    assert np.ptp(np.asarray(many.mean_squared_control)) > 1e-3
    for i, controller in enumerate(built):
        alone = jax.jit(rollout)(scenario, controller, start)
        np.testing.assert_allclose(many.end[i], alone.end, atol=1e-3)
        np.testing.assert_allclose(many.mean_squared_control[i], alone.mean_squared_control, atol=1e-3)


def test_substeps_that_would_blow_up_are_refused():
    with pytest.raises(ValueError, match="would blow up"):
        scene(physics=Physics(substeps=1))


# Reset, observe, step


SENSORS = (Sensor(quantity="area_ratio", reading="mean"), Sensor(quantity="velocity_x"))
BOTH = pytest.mark.parametrize("engine", ["squares", "points"])


def sensor_scene(engine, duration=0.5):
    body = Body(shape=("aa", "a."), engine=engine)
    weights = np.random.default_rng(1).uniform(-2, 2, MLP(sensors=SENSORS, weights=()).weight_count(body))
    robot = Robot(body=body, controller=MLP(sensors=SENSORS, weights=tuple(weights.tolist())))
    return Scene(robot=robot, task=Locomotion(duration=duration), physics=Physics(substeps=4))


@BOTH
def test_a_rollout_is_a_loop_of_steps(engine):
    """Observe, decide and step by hand: the same episode, its rewards adding up to the way gone."""
    scenario, controller = sensor_scene(engine).build()
    aggregate = jax.jit(step)
    state = first = jax.jit(reset)(KEY, scenario)
    action, rewards = state.action, []
    for call in range(scenario.limit):
        state, transition = aggregate(scenario, state, action)
        rewards.append(float(transition.reward))
        assert not bool(transition.terminated)
        assert bool(transition.truncated) == (call == scenario.limit - 1)
        action = controller.control(state.world.time, observe(scenario, state))
    whole = jax.jit(rollout)(scenario, controller, first)
    by_hand = summarize(scenario, first, state)
    np.testing.assert_allclose(by_hand.end, whole.end, atol=1e-4)
    np.testing.assert_allclose(by_hand.mean_height, whole.mean_height, rtol=1e-5)
    assert float(by_hand.total_time) == pytest.approx(float(whole.total_time))
    assert sum(rewards) == pytest.approx(float(by_hand.end[0] - by_hand.start[0]), abs=1e-4)
    assert float(state.world.time) == pytest.approx(0.5)


@BOTH
def test_a_rollout_is_what_its_engine_does(engine):
    """Against the engine, the sensors and the controller called directly, in the order of the paper."""
    scenario, controller = sensor_scene(engine).build()
    model, environment, schedule = scenario.model, scenario.world.environment, scenario.schedule
    first = reset(KEY, scenario)
    robot, control = first.world.robots[0], jnp.zeros(model.present.shape)
    memory = empty_memory(model, SENSORS)
    move = jax.jit(
        lambda robot, control: engine_of(model).advance(
            model, environment, robot, control[None], substep=schedule.substep, count=2 * schedule.substeps
        )[0]
    )
    for call in range(schedule.calls):
        robot = move(robot, control)
        memory = remember(SENSORS, model, environment, robot, memory, jnp.asarray(call == 0))
        time = jnp.float32(call + 1) * schedule.interval
        control = jnp.clip(controller.control(time, readings(SENSORS, memory)), -1, 1) * model.present
    summary, trajectory = jax.jit(record)(scenario, controller, first)
    np.testing.assert_allclose(trajectory.state.position[-1], robot.position, atol=5e-4)
    np.testing.assert_allclose(summary.end, engine_of(model).center(model, robot), atol=5e-4)


@pytest.mark.slow
def test_a_part_of_an_episode_is_summed_up_as_such():
    scenario, _ = scene().build()
    first = reset(KEY, scenario)
    second = step(scenario, first, first.action)[0]
    third = step(scenario, second, jnp.ones_like(first.action))[0]
    part, whole = summarize(scenario, second, third), summarize(scenario, first, third)
    assert float(part.total_time) == pytest.approx(1 / 30)
    assert float(whole.total_time) == pytest.approx(2 / 30)
    assert float(part.mean_squared_control) == 1.0
    assert float(whole.mean_squared_control) == 0.5
    assert 4.0 < float(part.mean_height) < float(whole.mean_height) < float(whole.start[1])


@pytest.mark.slow
@pytest.mark.parametrize("implementation", ["xla", pytest.param("interpreted", marks=pytest.mark.slow)])
def test_a_rollout_goes_on_from_where_an_episode_is(implementation):
    """Also with the controls of many calls at once, whose times then begin later."""
    body = Body(shape=("aa",))
    robot = Robot(body=body, controller=Sine(phase=((0.0, 1.0),)))
    scenario, controller = scene(robot=robot, task=Locomotion(duration=0.2)).build()
    scenario = replace(scenario, schedule=replace(SHORT, duration=0.1, implementation=implementation))
    first = reset(KEY, scenario)
    begun = step(scenario, first, jnp.full_like(first.action, 0.5))[0]
    went_on = jax.jit(record if implementation == "xla" else rollout)(scenario, controller, begun)
    summary = went_on[0] if implementation == "xla" else went_on
    later, fresh = (
        [np.mean(np.asarray(controller.control(jnp.float32(t), None))[body.present] ** 2) for t in times]
        for times in ((begin + np.arange(3)) * scenario.schedule.interval for begin in (2, 1))
    )
    assert np.mean(later) != pytest.approx(np.mean(fresh), rel=1e-2)  # or else nothing would be distinguished
    assert float(summary.mean_squared_control) == pytest.approx(np.mean(later), rel=1e-4)


def test_there_is_something_to_observe_from_the_start():
    scenario, _ = sensor_scene("squares").build()
    seen = observe(scenario, reset(KEY, scenario))
    assert seen.shape == (2, 2, 2)
    np.testing.assert_allclose(seen[0], [[1, 0], [1, 1]], atol=1e-5)  # areas at rest; no voxel, no reading
    one = Sensor(quantity="area_ratio", voxels=((0, 1),))
    some = replace(scenario, sensors=(one,))
    np.testing.assert_allclose(observe(some, reset(KEY, some))[0], [[0, 0], [1, 0]], atol=1e-5)  # who lacks it reads 0
    bare = replace(scenario, sensors=())
    with pytest.raises(ValueError, match="nothing to observe"):
        observe(bare, reset(KEY, bare))
    with pytest.raises(ValueError, match="other sensors than the controller has"):
        rollout(bare, sensor_scene("squares").build()[1], reset(KEY, bare))


@pytest.mark.slow
def test_steps_of_many_bodies_are_one_program():
    """Bodies are data: episodes of different ones run under one `vmap`, each as it does alone."""
    cells = jnp.array([[[0, 0], [0, -1]], [[0, 0], [0, 0]], [[0, 0], [-1, -1]]])

    @jax.jit
    def after_some_steps(cells):
        scenario = scenario_of(assemble(cells, TABLE, 3.0), GROUND, SHORT)
        state = reset(KEY, scenario)

        def once(state, _):
            state, transition = step(scenario, state, jnp.full((2, 2), 2.0))  # clipped to 1
            return state, transition.reward

        state, rewards = jax.lax.scan(once, state, length=5)
        return state.world.robots[0].position, rewards, state.effort

    together = jax.jit(jax.vmap(after_some_steps))(cells)
    for i in range(3):
        for one, many in zip(after_some_steps(cells[i]), together, strict=True):
            np.testing.assert_allclose(many[i], one, atol=1e-4)
    np.testing.assert_allclose(together[2], 5.0)


# Tasks of one's own

PUSH = '''
"""Push a ball to the right, past a line."""
from dataclasses import replace
from typing import Literal

import jax
import jax.numpy as jnp

from vsr.world.spec import Object
from vsr.physics.contact.system import Objects
from vsr.world.build import build_solids
from vsr.tasks import TASKS, Task


def pushed(episode):
    """How far the ball was pushed [m]."""
    return episode.account["way"]


class Push(Task):
    """Push a ball along x."""

    type: Literal["shove"] = "shove"
    line: float = 28.0
    """where the task is over [m]"""
    scatter: float = 0.0
    """how far to the right the ball may start [m]"""
    own_measures = {"pushed": pushed}

    def systems(self, dimension, dtype):
        shape = {"type": "ball", "radius": 0.9}
        ball = Object(name="ball", shape=shape, position=(27.0, 0.9), mass=2.0, friction=0.0)
        return {"ball": Objects(build_solids([ball], dimension, dtype))}

    def start(self, key, world, state):
        if not self.scatter:
            return state
        aside = self.scatter * jax.random.uniform(key)
        ball = state.systems["ball"]
        solids = replace(ball.solids, position=ball.solids.position.at[0, 0].add(aside))
        return replace(state, systems={"ball": replace(ball, solids=solids)})

    def begin(self, world, state):
        assert self.placement.left == 20.0
        return {"way": jnp.zeros(()), "steps": jnp.int32(0)}

    def accumulate(self, account, world, before, after, action):
        way = self._x(after) - world.systems["ball"].solids.position[0, 0]
        return {"way": way, "steps": account["steps"] + 1}

    def reward(self, account, world, before, after, action):
        return self._x(after) - self._x(before)

    def ended(self, account, world, state):
        return self._x(state) > self.line

    def _x(self, state):
        return state.systems["ball"].solids.position[0, 0]


TASKS["shove"] = Push
'''
PUSHING = """
plugins: [push_task]
robot:
  body: {shape: ["aa"]}
  controller: CONTROLLER
task:
  type: shove
  duration: 1.5
  line: LINE
  measures: [pushed, travel_velocity]
  placement: {left: 20.0, clearance: 0.3, velocity: [4.0, 0.0]}
physics: {time_step: 1/60, substeps: 8}
"""


@pytest.fixture
def push_task(tmp_path, monkeypatch):
    (tmp_path / "push_task.py").write_text(PUSH)
    monkeypatch.syspath_prepend(tmp_path)

    def write(line, controller="sine", more=""):
        file = tmp_path / "push.yaml"
        file.write_text(PUSHING.replace("LINE", str(line)).replace("CONTROLLER", controller) + more)
        return file

    yield write
    TASKS.pop("shove", None)
    sys.modules.pop("push_task", None)


@pytest.mark.slow
def test_a_plugin_brings_a_task_with_its_own_world(push_task, capsys):
    """What the world holds, the reward, the end and the measures are the task's."""
    from vsr.experiments.config import load

    far, near = (simulate(load(push_task(line), run_plugins=True), keep_trajectory=True) for line in (1000.0, 28.0))
    assert not far.failed
    assert far.measures["pushed"] > 1.5
    assert 1.0 < near.measures["pushed"] < 1.0 + 0.3  # it ends at the line, within a control step
    assert near.measures["travel_velocity"] > far.measures["travel_velocity"] > 0.1  # over the time it took
    stopped = np.asarray(near.trajectory.systems["ball"].position)[:, 0, 0]
    assert stopped[-1] == stopped[-2] < float(far.trajectory.systems["ball"].position[-1, 0, 0])
    for kind in ("tasks", "measures"):
        show_catalog(kind, ["push_task"])
    listed = capsys.readouterr().out
    assert "Push a ball along x" in listed
    assert "How far the ball was pushed" in listed
    assert "shove" in str(schema("scene"))


@pytest.mark.slow
def test_what_is_random_at_the_start_hangs_on_the_key(push_task):
    from vsr.experiments.config import load

    scattered = load(push_task(1000.0), ["task.scatter=5.0"], run_plugins=True)
    scenario, _ = scattered.build()
    starts = [reset(jax.random.key(seed), scenario).world.systems["ball"].solids.position for seed in (0, 0, 1)]
    np.testing.assert_array_equal(starts[0], starts[1])
    assert np.abs(starts[0] - starts[2]).max() > 0.01
    outcomes = [simulate(scattered, key=jax.random.key(seed)).measures["pushed"] for seed in (0, 1)]
    assert outcomes[0] != outcomes[1]


@pytest.mark.slow
def test_time_after_the_last_call_counts_for_a_task(push_task):
    """1.5 s are 45 control steps; 1.516 s have one time step more, which the account sees."""
    from vsr.experiments.config import load

    scenes = (load(push_task(1000.0), [f"task.duration={t}"], run_plugins=True) for t in (1.5, 1.516))
    exact, more = (simulate(scene).measures["pushed"] for scene in scenes)
    assert more > exact


@pytest.mark.slow
def test_a_plugins_task_is_evolved(push_task):
    """Its measure is the fitness; the file is checked, and unknown measures are refused by the task."""
    from vsr.experiments.check import check_file
    from vsr.experiments.config import ConfigError, load
    from vsr.experiments.evolve.fitness import evaluation_of

    search = (
        "evaluation: {trials: 1, refine: null}\noptimizer: {population_size: 2, tournament_size: 1}\ngenerations: 1\n"
    )
    file = push_task(1000.0, "sine", f"fitness: pushed\n{search}")
    assert ("experiment", "maximize pushed") in check_file(str(file), run_plugins=True)
    experiment = load(file)
    genes = experiment.robot.sample(KEY, 2)
    evaluation = jax.jit(jax.vmap(evaluation_of(experiment)))(genes)
    assert (evaluation.fitness > 1.0).all()
    assert not evaluation.failed.any()
    np.testing.assert_array_equal(evaluation.measures["pushed"], evaluation.fitness)
    with pytest.raises(ConfigError, match=r"physics.implementation: 'fused' moves one robot on its ground"):
        load(file, ["physics.implementation=fused"])
    with pytest.raises(ConfigError, match=r"fitness.*unknown measure 'pushd'; did you mean 'pushed'"):
        load(push_task(1000.0, "sine", f"fitness: pushd\n{search}"))
