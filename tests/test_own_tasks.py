"""Tasks of our own: what they count, on robots and objects moved by hand, and grounds resampled."""

import json
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner

import vsr.cli as cli
from vsr.episode import Scenario, observe_task, reset, step
from vsr.experiments.evolve.fitness import evaluation_of, generation_key
from vsr.experiments.experiment import Experiment
from vsr.scene import Scene
from vsr.tasks import OWN_TASKS, TASKS
from vsr.tasks.locomotion import Command
from vsr.tasks.objects import moved_objects
from vsr.world.placement import move_rigidly


def scenario_of(task, shape=("aa", "aa"), **body):
    scenario, _ = Scene.model_validate({"robot": {"body": {"shape": list(shape), **body}}, "task": task}).build()
    return scenario


class ByHand:
    """An episode whose robot and thing are moved by the test [m]."""

    def __init__(self, task):
        self.scenario: Scenario = scenario_of(task, engine="points")
        self.state = jax.jit(reset)(jax.random.key(0), self.scenario)
        self.start = self.center()

    def center(self):
        robot = self.state.world.robots[0]
        return np.asarray(robot.position)[np.asarray(self.scenario.model.node_mass) > 0].mean(0)

    def move(self, robot=(0.0, 0.0), item=(0.0, 0.0), seconds=1.0):
        before, model = self.state.world, self.scenario.model
        after = replace(before, robots=(move_rigidly(model, before.robots[0], shift=jnp.array(robot)),))
        if "objects" in after.systems:
            after = moved_objects(after, jnp.array(item))
        after = replace(after, time=before.time + seconds)
        task, world = self.scenario.task, self.scenario.world
        account = task.accumulate(self.state.account, world, before, after, jnp.zeros(()))
        self.state = replace(self.state, world=after, account=account)
        return float(account.value), float(account.reward), bool(account.over)


@pytest.mark.slow
def test_jumping_counts_the_highest_point():
    episode = ByHand("jump")
    assert episode.move((1, 2)) == pytest.approx((2, 2, False))
    assert episode.move((0, -1)) == pytest.approx((2, 0, False))
    assert episode.move((0, 1.5)) == pytest.approx((2.5, 0.5, False))


def test_climbing_begins_at_the_bottom_of_the_shaft_and_ends_above_its_walls():
    episode = ByHand({"type": "climb", "width": 4, "walls": 5})
    assert episode.start == pytest.approx([3 * (3 + 2), 3])
    assert episode.move((0, 9)) == pytest.approx((9, 9, False))
    assert episode.move((0, 4))[2]


def test_balancing_counts_seconds_on_the_pole():
    episode = ByHand({"type": "balance", "height": 4})
    assert episode.start == pytest.approx([3 * 20.5, 12 + 3])
    assert episode.move((0, 0), seconds=0.5) == pytest.approx((0.5, 0.5, False))
    assert episode.move((3, -4), seconds=0.5) == pytest.approx((0.5, 0, True))


def test_escaping_counts_height_and_then_the_way_out():
    episode = ByHand({"type": "escape", "depth": 2, "width": 6})
    assert episode.move((0, 3)) == pytest.approx((0.5, 0.5, False))
    assert episode.move((0, 4)) == pytest.approx((1, 0.5, False))
    assert episode.move((9.5, 0)) == pytest.approx((2, 1, True))


@pytest.mark.slow
def test_going_and_returning_follows_commands_that_come_at_random():
    episode = ByHand({"type": "go_and_return", "distance": 10, "shortest": 2, "longest": 4})
    command: Command = episode.state.account.kept
    assert 2 <= float(command.until) <= 4
    values, there = observe_task(episode.scenario, episode.state)
    assert values.shape == there.shape
    assert float(values[0]) == pytest.approx(10 / 3, rel=1e-5)
    assert episode.move((4, 0), seconds=float(command.until)) == pytest.approx((4, 4, False), abs=1e-5)
    assert not bool(episode.state.account.kept.away)
    assert float(observe_task(episode.scenario, episode.state)[0][0]) == pytest.approx(-4 / 3, rel=1e-5)
    assert episode.move((-3, 0))[1] == pytest.approx(3, abs=1e-5)


@pytest.mark.slow
def test_things_are_pushed_carried_and_thrown():
    pushed = ByHand("push")
    assert pushed.move((5, 0), (2, 0)) == pytest.approx((2, 2, False), abs=1e-4)
    carried = ByHand("carry")
    assert carried.move((3, 0), (3, 0)) == pytest.approx((3, 3, False), abs=1e-4)
    assert carried.move((1, 0), (1, -20)) == pytest.approx((3, 0, True), abs=1e-4)
    thrown = ByHand({"type": "throw", "kind": "soft"})
    assert thrown.move((1, 0), (8, 3)) == pytest.approx((7, 7, False), abs=1e-4)
    assert thrown.move((0, 0), (-2, 0)) == pytest.approx((7, 0, False), abs=1e-4)


@pytest.mark.slow
def test_a_thing_that_is_carried_starts_on_the_robots_back():
    episode = ByHand("carry")
    center = episode.scenario.task.object_center(episode.scenario.world, episode.state.world)
    assert np.asarray(center) == pytest.approx([episode.start[0], episode.start[1] + 3 + 1.5], abs=1e-4)


def test_evogym_masses_refuse_tasks_with_our_things():
    with pytest.raises(ValueError, match="use squares or points"):
        scenario_of("push", shape=("hv",), engine="evogym")


FRESH = {
    "robot": {"body": {"shape": ["aa"]}, "controller": "sine"},
    "task": {"type": "fresh_ground", "duration": 1.0, "roughness": 2.0},
    "evaluation": {"trials": 1, "refine": None},
    "optimizer": {"population_size": 4},
    "generations": 2,
}


def test_every_generation_has_a_ground_of_its_own_and_scenes_one_of_the_held_out_set():
    experiment = Experiment.model_validate(FRESH)
    task, environment = experiment.task, experiment.world.build()
    grounds = [task.drawn(generation_key(jnp.array([0, number])), environment).terrain for number in (0, 1)]
    one, other = (np.asarray(ground.vertex_y) for ground in grounds)
    assert np.abs(one - other).max() > 1
    assert one[np.asarray(grounds[0].vertex_x) <= 24].max() == 0
    assert np.asarray(grounds[0].slope) == pytest.approx(
        np.diff(one) / np.diff(np.asarray(grounds[0].vertex_x)), abs=1e-5
    )
    again = task.drawn(generation_key(jnp.array([0, 0])), environment).terrain
    assert np.array_equal(again.vertex_y, one)
    held = [
        task.model_copy(update={"ground": number}).overrides("squares", 3.0, 2).world["terrain"] for number in (0, 1)
    ]
    assert held[0] != held[1]
    assert experiment.world.terrain == held[0]
    assert Experiment.model_validate(experiment.to_plain()) == experiment


@pytest.mark.slow
def test_a_robot_is_measured_on_the_held_out_set(tmp_path):
    file = tmp_path / "robot.yaml"
    file.write_text("robot: {body: {shape: [aa]}}\ntask: {type: fresh_ground, duration: 1.0, level: 0, roughness: 3}\n")
    said = CliRunner().invoke(cli.main, ["simulate", str(file), "--held-out", "2", "--json", "-"])
    assert said.exit_code == 0, said.output
    heights = json.loads(said.stdout)["average_height"]
    assert len(heights) == 2
    assert heights[0] != heights[1]
    file.write_text("robot: {body: {shape: [aa]}}\n")
    said = CliRunner().invoke(cli.main, ["simulate", str(file), "--held-out", "2"])
    assert said.exit_code == 2
    assert "tasks that draw their ground" in said.output


@pytest.mark.slow
def test_the_same_robot_goes_another_way_on_another_ground():
    experiment = Experiment.model_validate({**FRESH, "task": {**FRESH["task"], "duration": 5.0, "level": 0.0}})
    genes = {"body": jnp.zeros(0), "controller": jnp.zeros(experiment.robot.gene_count)}
    fitness = jax.jit(lambda key: evaluation_of(experiment)(genes, key=key).fitness)
    one, other = (float(fitness(jax.random.key(number))) for number in (0, 1))
    assert np.isfinite([one, other]).all()
    assert one != other


@pytest.mark.slow
@pytest.mark.parametrize("name", list(OWN_TASKS))
def test_every_task_can_be_played(name):
    assert name in TASKS
    scenario = scenario_of({"type": name, "duration": 1.5})
    state = jax.jit(reset)(jax.random.key(0), scenario)
    for _ in range(5):
        state, transition = jax.jit(step)(scenario, state, jnp.zeros((2, 2)))
        assert np.isfinite(float(transition.reward))
        assert not bool(state.failed)
