"""Evaluation in several worlds: other grounds and materials in every start, common to all or resampled."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner
from growing import rows_of

from vsr.cli import main
from vsr.experiments.config import load_experiment, parse_experiment, parse_scene
from vsr.experiments.config.problems import ConfigError
from vsr.experiments.evolve.fitness import draw, evaluate_all
from vsr.experiments.perturbation import (
    EvaluationOptions,
    InitialNoise,
    Perturbation,
    perturbations_of,
    reset_perturbed,
)
from vsr.experiments.shipped import find_config
from vsr.randomization import DomainRandomization
from vsr.scene import Scene, simulate

pytestmark = pytest.mark.usefixtures("quickly_compiled")
ROBOT = "robot: {body: {shape: aa}, controller: sine}\ntask: {duration: 0.8, placement: {clearance: 0.0}}\n"
EVALUATION = """
evaluation:
  trials: 4
  refine: null
  jitter: {height: 0.0}
  randomize: {friction: [0.02, 0.1], mass: [0.5, 2.0], stiffness: [0.5, 1.5], gravity: [0.5, 1.0]}
  terrains: [{type: uphill, angle: 15}]
"""
REST = "optimizer: {population_size: 3, tournament_size: 2}\ngenerations: 4\nseeds: 2\ncheckpoint_seconds: 0\n"
FRESH = EVALUATION.replace("trials: 4", "trials: 2\n  aggregate: worst\n  resample: every_generation")


def of_text(text):
    return parse_experiment(ROBOT + text + REST)


# Starts


def test_common_starts_are_spread_over_their_intervals():
    randomize = DomainRandomization(friction=(0.5, 1.0), mass=(0.8, 1.25), stiffness=(1.0, 4.0))
    trials = perturbations_of(InitialNoise(), 9, randomize=randomize, grounds=3)
    assert float(trials.friction[0]) == 0.75  # the first is in the middle of everything
    assert 0.5 <= float(trials.friction.min()) < 0.56
    assert 0.94 < float(trials.friction.max()) <= 1.0
    stiffness = trials.frequency**2 * trials.mass
    assert 1.0 <= float(stiffness.min()) < 1.4
    assert 3.6 < float(stiffness.max()) <= 4.0
    assert abs(np.corrcoef(stiffness, trials.friction)[0, 1]) < 0.7
    assert trials.ground.tolist() == [0, 1, 2] * 3
    assert trials.gravity is None


def test_fresh_starts_are_new_in_every_generation_and_seed_and_the_same_for_all_individuals():
    experiment = of_text(FRESH)
    reported = [jnp.array(one, jnp.uint32) for one in ((0, 0), (0, 1), (7, 0))]
    count, drawn, keys = draw(experiment, 2, 9, tuple(reported), 0)
    assert keys is None  # the task draws nothing
    friction = np.asarray(drawn.friction).reshape(3, 3, count)  # seeds, individuals, starts
    assert (friction == friction[:, :1]).all()
    assert len(np.unique(friction[:, 0])) == 6
    assert set(np.asarray(drawn.ground).reshape(3, 3, count)[0, 0].tolist()) == {
        0,
        1,
    }  # all grounds, whichever is first
    again = draw(experiment, 2, 9, tuple(reported), 0).trials
    np.testing.assert_array_equal(drawn.mass, again.mass)
    assert (np.asarray(draw(experiment, 2, 9, tuple(reported), 1).trials.mass) != np.asarray(drawn.mass)).all()


# Against scenes of their own


@pytest.mark.slow
def test_every_start_is_what_a_scene_of_its_own_gives():
    experiment = of_text(EVALUATION.replace("trials: 4", "trials: 4\n  aggregate: mean"))
    genes = jax.jit(lambda key: experiment.robot.sample(key, 2))(jax.random.key(3))
    (found,) = jax.jit(lambda given: evaluate_all(experiment, 8, (given,)))(genes)
    options = experiment.evaluation
    trials = perturbations_of(options.jitter, 4, randomize=options.randomize, grounds=2)
    scene = experiment.scene({part: np.asarray(own[1]) for part, own in genes.items()})
    values = []
    for number in range(4):
        plain = scene.to_plain()
        material = plain["robot"]["body"]["materials"]["a"]
        for key, name in (("mass", "mass"), ("friction", "friction"), ("spring_frequency", "frequency")):
            material[key] *= float(getattr(trials, name)[number])
        plain["world"]["gravity"] *= float(trials.gravity[number])
        if trials.ground[number] == 1:
            plain["world"]["terrain"] = options.terrains[0].to_plain()
        values.append(simulate(Scene.model_validate(plain)).measures["relative_velocity"])
    assert np.std(values) > 0.01
    assert float(found.fitness[1]) == pytest.approx(np.mean(values), rel=0.02)


# Runs


@pytest.mark.slow
def test_fresh_draws_resume_bit_for_bit_and_can_be_verified(tmp_path):
    config = tmp_path / "fresh.yaml"
    config.write_text(ROBOT + FRESH + REST)

    def vsr(*arguments):
        result = CliRunner().invoke(main, list(map(str, arguments)))
        assert result.exit_code == 0, result.output
        return result

    def statistics(name):
        return rows_of(tmp_path / name)

    vsr("evolve", config, "--out", tmp_path / "whole", "--no-report")
    vsr("evolve", config, "--set", "generations=2", "--out", tmp_path / "halves", "--no-report")
    vsr("evolve", config, "--resume", "--out", tmp_path / "halves", "--no-report")
    assert statistics("whole") == statistics("halves")
    title = (tmp_path / "whole" / "best" / "seed-1.yaml").read_text().splitlines()[0]
    assert "worst of 2 trials, 2 terrains, friction x 0.02 to 0.1" in title
    assert "resampled in every generation" in title
    robots = json.loads(vsr("verify", tmp_path / "whole", "--json", "-").stdout)["robots"]
    assert [robot["exact"] for robot in robots] == [True, True]


# What does not go together


@pytest.mark.parametrize(
    ("evaluation", "message"),
    [
        (
            "{randomize: {mass: [0.5, 2]}, trials: 1}",
            "evaluation.randomize: one start alone draws the middle of every interval",
        ),
        (
            "{randomize: {mass: [2, 0.5]}, trials: 2}",
            "evaluation.randomize.mass: [2, 0.5] given; it should be two numbers",
        ),
        ("{randomize: {mass: [0, 0.5]}, trials: 2}", "evaluation.randomize.mass.0: 0 given; it should be greater than"),
        ("{terrains: [flat, hilly], trials: 2}", "evaluation.trials: 2 given"),
        (
            "{terrains: [flat, hilly], trials: 3, refine: {trials: 2}}",
            "evaluation.refine.trials: 2 given",
        ),
        ("{terrains: [sand], trials: 2}", "evaluation.terrains: sand lies in one world only"),
        (
            "{terrains: [{type: hily}], trials: 2}",
            "evaluation.terrains.0.type: unknown type 'hily'; did you mean 'hilly'",
        ),
        ("{terrains: [bumpy], trials: 2}", "'bumpy' and 'flat' given; lines and height fields cannot be used together"),
        ("{resample: often}", "evaluation.resample: 'often' given; allowed: never, every_generation"),
    ],
)
def test_what_does_not_go_together_is_told(evaluation, message):
    with pytest.raises(ConfigError) as caught:
        parse_experiment(f"{ROBOT}evaluation: {evaluation}\n", "walk.yaml")
    assert message in str(caught.value)
    assert "walk.yaml:3: " in str(caught.value)


def test_masses_that_have_no_friction_cannot_vary_it():
    body = "{shape: [h], engine: evogym, materials: {h: {actuation: horizontal}}}"
    text = f"robot: {{body: {body}, controller: sine}}\n"
    with pytest.raises(ConfigError, match="evogym masses have no friction of their own"):
        parse_experiment(text + "evaluation: {trials: 2, randomize: {friction: [0.5, 1]}}\n")


def test_substeps_suit_the_stiffest_and_lightest():
    default = of_text("").schedule().substeps
    stiff = of_text("evaluation: {trials: 2, randomize: {stiffness: [1, 4], mass: [0.25, 1]}}\n").schedule().substeps
    assert stiff >= 2 * default
    soft = of_text("evaluation: {trials: 2, randomize: {stiffness: [0.25, 1]}}\n").schedule().substeps
    assert soft == default
    with pytest.raises(ConfigError, match=r"physics.substeps: .* would blow up"):
        of_text("physics: {substeps: 4}\nevaluation: {trials: 2, randomize: {stiffness: [1, 100]}}\n")


def test_the_shipped_example_varies_everything():
    options = load_experiment(find_config("robust")).evaluation
    assert (options.resample, options.aggregate, 1 + len(options.terrains)) == ("every_generation", "worst", 4)
    assert EvaluationOptions(trials=1, refine=None).summary == ""
    assert options.cost(40) == 40 * 4 + 2 * 3 * 4


def test_by_default_luck_and_large_steps_do_not_win():
    """Three trials, leaders re-checked; as many trials as there are grounds; no re-check where it cannot be."""
    default = of_text("").evaluation
    assert (default.trials, default.aggregate) == (3, "median")
    assert default.refine is not None
    assert (default.refine.factor, default.refine.top, default.refine.trials) == (4, 0.05, 3)
    assert default.cost(40) == 40 * 3 + 2 * 3 * 4
    many = of_text("evaluation: {terrains: [flat, hilly, uphill]}\n").evaluation
    assert (many.trials, many.refine.trials) == (4, 4)
    few = of_text("evaluation: {terrains: [hilly], refine: {factor: 2}}\n").evaluation
    assert (few.trials, few.refine.factor, few.refine.trials) == (3, 2, 3)
    assert of_text("evaluation: {refine: null}\n").evaluation.refine is None
    fixed = "robot: {body: {shape: hv, engine: evogym}, controller: sine}\n"
    assert parse_experiment(fixed).evaluation.refine is None
    with pytest.raises(
        ConfigError, match=r"evaluation.refine.factor: 2 given; evogym masses have substeps of one length only: give 1"
    ):
        parse_experiment(fixed + "evaluation: {refine: {factor: 2}}\n")


@pytest.mark.parametrize("task", ["Catcher-v0", "BidirectionalWalker-v0"])
def test_every_trial_has_its_own_draw_of_what_a_task_draws(task):
    """Where the package falls from, or where the goals are: trial 0 is the undisturbed one, others are others."""
    scene = parse_scene(f"robot: {{body: {{shape: [hv], engine: evogym}}}}\ntask: {task}\n")
    scenario, _ = scene.build()

    def drawn(trial):
        state = reset_perturbed(scenario, trial)[1]
        if state.account.goals is not None:
            return state.account.goals.place
        return state.world.robots[0].objects[0].position

    undisturbed = drawn(Perturbation())
    numbers = jnp.arange(4, dtype=jnp.uint32)
    every = jax.jit(jax.vmap(lambda number: drawn(Perturbation(number=number))))(numbers)
    np.testing.assert_array_equal(every[0], undisturbed)
    assert len(np.unique(np.asarray(every).reshape(4, -1), axis=0)) == 4
    np.testing.assert_array_equal(every[3], drawn(Perturbation(number=jnp.uint32(3))))
