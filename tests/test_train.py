"""`vsr train TASK`: what it makes of its options, what it refuses, the folder that it leaves, and how it goes on."""

import json
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner

from vsr import cli
from vsr.controllers.policy import join_policy, normalized, split_policy
from vsr.experiments.config import UserError, load_experiment
from vsr.experiments.encodings.networks import SharedPolicy, filled_in
from vsr.experiments.evolve.fitness import evaluate_once
from vsr.experiments.options import TrainOptions
from vsr.experiments.ppo import forward
from vsr.experiments.storage.runs import read_run
from vsr.experiments.train import machine, task
from vsr.experiments.train.task import OPTIONS, experiment_of

pytestmark = pytest.mark.usefixtures("quickly_compiled")

SMALL = ["--body", "hh/v.", "--environments", "4", "--no-film", "--set", "task.duration=0.4"]
SMALL += ["--set", "learning.ppo.horizon=4", "--set", "learning.ppo.minibatches=2"]
SMALL += ["--set", "learning.ppo.evaluate_every=2", "--set", "robot.controller.hidden=[4]"]


def vsr(*arguments):
    return CliRunner().invoke(cli.main, list(map(str, arguments)))


def described(name="Walker-v0", **given):
    return experiment_of(TrainOptions(name, "out"), {**OPTIONS, **given})


def test_every_option_belongs_to_tasks_or_machines():
    shared = {"what", "out", "seed", "resume", "film", "device"}
    assert {*TrainOptions.__dataclass_fields__} == {*task.OPTIONS, *machine.OPTIONS, *shared}


def test_a_training_is_an_experiment_of_one_robot():
    experiment = described(steps=5000, environments=8)
    assert experiment.robot.body.engine == "points"
    assert (experiment.fitness.measure, experiment.learning.ppo.environments) == ("score", 8)
    assert experiment.robot.controller.observed == 2 + 2 * 36
    assert described(preset="evogym").learning.ppo.minibatches == 32
    assert described("locomotion").robot.body.engine == "squares"
    assert len(described("locomotion").robot.controller.sensors) == 4


def test_bodies_are_files_drawings_and_arrays(tmp_path):
    assert described(body="hv/s.").robot.body.materials["s"].actuation == "none"
    assert described(body="aa/a.").robot.body.engine == "squares"
    assert described(body="hv/s.", engine="evogym").robot.body.engine == "evogym"
    assert described("locomotion", body="biped").robot.body.cells.shape == (2, 4)
    np.savez(tmp_path / "robot.npz", np.array([[3, 4], [1, 0]]))
    assert described(body=str(tmp_path / "robot.npz")).robot.body.shape == ("hv", "r.")
    with pytest.raises(UserError, match="--engine evogym: the body in biped is of squares"):
        described("locomotion", body="biped", engine="evogym")


@pytest.mark.parametrize(
    ("arguments", "reported"),
    [
        (["Walker-v0", "--grains", "20"], "--grains: this is for machines"),
        (["bulldozing", "--steps", "20"], "--steps: this is for tasks"),
        (["bulldozing", "--set", "a=1"], "--set: this is for tasks"),
        (["Walker-v1"], "no task or machine 'Walker-v1'; did you mean 'Walker-v0'?"),
        (["Walker-v0", "--body", "nobody"], "nobody"),
        (["Walker-v0", "--set", "learning.ppo.minibatches=7"], "which they must divide"),
        (["Walker-v0", "--set", "learning.method=es"], "it is ppo in a training"),
        (["Walker-v0", "--set", "robot.controller.shared=true"], "it is false in a training"),
        (["Walker-v0", "--set", "learning.ppo.speed=1"], "learning.ppo.speed: unknown key"),
        (["Walker-v0", "--resume"], "no run to go on with"),
        (["Walker-v0", "--seed", "1", "--seeds", "2"], "give one of them"),
    ],
)
def test_bad_input_is_told(tmp_path, arguments, reported):
    result = vsr("train", *arguments, "--out", tmp_path / "run")
    assert (result.exit_code, reported in result.output) == (2, True), result.output
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_training_leaves_a_robot_that_verifies_and_goes_on_bit_exactly(tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    done = vsr("train", "Walker-v0", "--out", whole, "--steps", "64", *SMALL)
    assert done.exit_code == 0, done.output
    assert {path.name for path in whole.iterdir()} == {
        "settings.json",
        "curve.json",
        "curve.png",
        "search.npz",
        "robot.yaml",
    }
    verified = vsr("verify", whole / "robot.yaml", "--tolerance", "0")
    assert (verified.exit_code, "1 with all digits" in verified.output) == (0, True), verified.output
    assert vsr("train", "Walker-v0", "--out", parts, "--steps", "32", *SMALL).exit_code == 0
    again = vsr("train", "Walker-v0", "--out", parts, "--steps", "64", *SMALL)
    assert (again.exit_code, "--resume" in again.output) == (2, True)
    other = vsr("train", "Walker-v0", "--out", parts, "--steps", "64", "--resume", "--seed", "1", *SMALL)
    assert (other.exit_code, "begun with --seeds [0]" in other.output) == (2, True)
    on = vsr("train", "Walker-v0", "--out", parts, "--steps", "64", "--resume", *SMALL)
    assert on.exit_code == 0, on.output
    curves = [json.loads((path / "curve.json").read_text()) for path in (whole, parts)]
    assert [row["environment_steps"] for row in curves[0]] == [32, 64]
    assert [row["score"] for row in curves[0]] == [row["score"] for row in curves[1]]
    assert (whole / "robot.yaml").read_text() == (parts / "robot.yaml").read_text()


EVOLVING = """
robot:
  body: {type: voxel_kinds, grid: [2, 2], engine: evogym}
  controller: {type: policy, hidden: [4]}
task: {type: Walker-v0, duration: 0.03}
fitness: score
evaluation: {trials: 1}
learning:
  method: ppo
  environment_steps: 32
  ppo: {environments: 2, horizon: 4, minibatches: 2, evaluate_every: 2}
  inheritance: INHERITANCE
optimizer: {type: evogym_ga, population_size: 4, budget: 8, part: body}
generations: 2
seeds: 2
checkpoint_seconds: 0
"""


@pytest.mark.slow
@pytest.mark.parametrize("inheritance", ["lamarckian", "baldwinian"])
def test_bodies_evolve_and_learn_by_ppo(tmp_path, inheritance):
    (tmp_path / "walkers.yaml").write_text(EVOLVING.replace("INHERITANCE", inheritance))
    result = vsr("evolve", tmp_path / "walkers.yaml", "--out", tmp_path / "run", "--no-report")
    assert result.exit_code == 0, result.output
    run = read_run(tmp_path / "run")
    # 4 individuals, 2 rounds of 2 updates of 8 steps each.
    np.testing.assert_array_equal(run.metrics["environment_steps"], 4 * 32)
    assert np.isfinite(run.best).all()
    verified = vsr("verify", tmp_path / "run", "--tolerance", "0")
    assert (verified.exit_code, "2 with all digits" in verified.output) == (0, True), verified.output


@pytest.mark.slow
def test_what_makes_nobody_fitter_is_not_kept(tmp_path):
    """In one round; all others have changed, and their fitness is that of the policies that they keep."""
    text = EVOLVING.replace("INHERITANCE", "lamarckian").replace("evaluate_every: 2", "evaluate_every: 4, RATE")
    stayed = []
    for rate in ("1.0e-3", "1.0e+5"):
        (tmp_path / "walkers.yaml").write_text(text.replace("RATE", f"rate: {rate}"))
        experiment = load_experiment(tmp_path / "walkers.yaml")
        assert (experiment.learning.in_one_round, experiment.learning.evaluations) == (True, 1)
        genes = tuple(experiment.robot.sample(jax.random.key(seed), 4) for seed in (0, 1))
        alone = experiment.model_copy(update={"learning": None})
        before, after = (jax.jit(partial(evaluate_once, given, 8))(genes) for given in (alone, experiment))
        again = jax.jit(partial(evaluate_once, alone, 8))(tuple(one.learned for one in after))
        for born, first, last, replayed in zip(genes, before, after, again, strict=True):
            fitter = np.asarray(last.fitness) > np.asarray(first.fitness)
            kept = (np.asarray(last.learned["controller"]) == np.asarray(born["controller"])).all(1)
            np.testing.assert_array_equal(kept, ~fitter)
            np.testing.assert_allclose(replayed.fitness, last.fitness, rtol=1e-4, atol=1e-6)
            stayed.extend(kept)
    assert any(stayed)
    assert not all(stayed)


@pytest.mark.slow
def test_a_generation_learns_one_policy_together(tmp_path):
    text = EVOLVING.replace("INHERITANCE", "lamarckian").replace("hidden: [4]", "hidden: [4], shared: true")
    (tmp_path / "walkers.yaml").write_text(text.replace("environments: 2", "environments: 8"))
    result = vsr("evolve", tmp_path / "walkers.yaml", "--out", tmp_path / "run", "--no-report")
    assert result.exit_code == 0, result.output
    verified = vsr("verify", tmp_path / "run", "--tolerance", "0")
    assert (verified.exit_code, "2 with all digits" in verified.output) == (0, True), verified.output
    # What individuals learned: each search one policy, with everybody's body filled in.
    experiment = load_experiment(tmp_path / "walkers.yaml")
    robot, controller = experiment.robot, experiment.robot.controller
    genes = [robot.sample(jax.random.key(seed), 4) for seed in (0, 1)]
    evaluate = jax.jit(lambda *genes: evaluate_once(experiment, 8, genes))
    once = [found.learned for found in evaluate(*genes)]
    again = evaluate(once[0], once[1])[0].learned
    own, inputs = controller.own_count(robot.body), controller.input_count(robot.body)
    total = inputs + controller.body_count(robot.body)
    for learned, updates in ((once[0], 4), (once[1], 4), (again, 8)):
        shared = np.asarray(learned["controller"][:, own:])
        np.testing.assert_array_equal(shared, np.broadcast_to(shared[0], shared.shape))
        assert shared[0, -1] == updates
        for body, numbers in zip(learned["body"], learned["controller"], strict=True):
            made_of = controller.body_inputs(robot.body.decode(body), robot.body)
            assert made_of.sum() == (robot.body.decode(body) >= 0).sum()
            policy = SharedPolicy.of(numbers[own:], total, (4,), 4).policy
            np.testing.assert_allclose(numbers[:own], filled_in(policy, made_of, inputs, (4,), 4), rtol=1e-5, atol=1e-6)
    assert not np.array_equal(once[0]["controller"][0, own:-1], again["controller"][0, own:-1])
    assert not np.array_equal(once[0]["controller"][0, own:], once[1]["controller"][0, own:])


def test_a_policy_with_inputs_filled_in_does_the_same():
    random = np.random.default_rng(0)
    layers = [jnp.float32(random.normal(size=size)) for size in ((6, 3), (4, 2))]
    mean, deviation = jnp.float32(random.normal(size=5)), jnp.float32(random.uniform(0.5, 2, 5))
    always, values = jnp.float32([1, 0, 1]), jnp.float32(random.normal(size=(7, 2)))
    whole = normalized(jnp.concatenate([values, jnp.broadcast_to(always, (7, 3))], 1), mean, deviation)
    filled = filled_in(join_policy(mean, deviation, layers), always, 2, (3,), 2)
    own_mean, own_deviation, own_layers = split_policy(filled, 2, (3,), 2)
    got = forward(own_layers, normalized(values, own_mean, own_deviation))
    np.testing.assert_allclose(got, forward(tuple(layers), whole), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("hidden: [4]}", "hidden: [4], shared: true}", "learning.ppo.environments: 2 given; 4 individuals share them"),
        ("hidden: [4]}", "hidden: [4], shared: true, sensors: [area_ratio]}", "a shared policy reads the task's"),
        ("{type: policy, hidden: [4]}", "{type: sine}", "trains the controller 'policy'"),
        ("hidden: [4]}", "hidden: [4], observed: 7}", "7 given; this task shows 38 numbers"),
        ("{type: Walker-v0, duration: 0.03}", "{duration: 0.03}", "shows nothing of its own"),
        ("task:", "  hardware: {delay: 1}\ntask:", "learns without noise and delay of hardware"),
    ],
)
def test_what_cannot_learn_by_ppo_is_refused(tmp_path, old, new, reason):
    (tmp_path / "walkers.yaml").write_text(EVOLVING.replace("INHERITANCE", "lamarckian").replace(old, new))
    result = vsr("check", tmp_path / "walkers.yaml")
    assert (result.exit_code, reason in result.output) == (2, True), result.output
