"""Evaluation in several worlds: other grounds and materials in every start, common to all or drawn anew."""

import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner
from conftest import ROOT
from growing import rows_of

from vsr.cli import main
from vsr.experiments.config import load_experiment, parse_experiment
from vsr.experiments.config.problems import ConfigError
from vsr.experiments.evolve.evaluation import draw, evaluate_all
from vsr.experiments.perturbation import EvaluationOptions, Jitter, Vary, starts_of
from vsr.scene import Scene, simulate

pytestmark = pytest.mark.usefixtures("quickly_compiled")
ROBOT = "robot: {body: {shape: aa}, controller: phases}\ntask: {duration: 0.8, placement: {clearance: 0.0}}\n"
EVALUATION = """
evaluation:
  starts: 4
  jitter: {height: 0.0}
  vary: {friction: [0.02, 0.1], mass: [0.5, 2.0], stiffness: [0.5, 1.5], gravity: [0.5, 1.0]}
  terrains: [{type: uphill, angle: 15}]
"""
REST = "ea: {n_pop: 3, n_tour: 2}\ngenerations: 4\nseeds: 2\ncheckpoint_seconds: 0\n"
FRESH = EVALUATION.replace("starts: 4", "starts: 2\n  take: worst\n  draws: fresh")


def of_text(text):
    return parse_experiment(ROBOT + text + REST)


# Starts


def test_common_starts_are_spread_over_their_intervals():
    vary = Vary(friction=(0.5, 1.0), mass=(0.8, 1.25), stiffness=(1.0, 4.0))
    starts = starts_of(Jitter(), 9, vary=vary, grounds=3)
    assert float(starts.friction[0]) == 0.75  # the first is in the middle of everything
    assert 0.5 <= float(starts.friction.min()) < 0.56
    assert 0.94 < float(starts.friction.max()) <= 1.0
    stiffness = starts.frequency**2 * starts.mass
    assert 1.0 <= float(stiffness.min()) < 1.4
    assert 3.6 < float(stiffness.max()) <= 4.0
    assert abs(np.corrcoef(stiffness, starts.friction)[0, 1]) < 0.7
    assert starts.ground.tolist() == [0, 1, 2] * 3
    assert starts.gravity is None


def test_fresh_starts_are_new_in_every_generation_and_seed_and_the_same_for_all_individuals():
    experiment = of_text(FRESH)
    told = [jnp.array(one, jnp.uint32) for one in ((0, 0), (0, 1), (7, 0))]
    count, drawn, keys = draw(experiment, 2, 9, tuple(told), 0)
    assert keys is None  # the task draws nothing
    friction = np.asarray(drawn.friction).reshape(3, 3, count)  # seeds, individuals, starts
    assert (friction == friction[:, :1]).all()
    assert len(np.unique(friction[:, 0])) == 6
    assert set(np.asarray(drawn.ground).reshape(3, 3, count)[0, 0].tolist()) == {
        0,
        1,
    }  # all grounds, whichever is first
    again = draw(experiment, 2, 9, tuple(told), 0).starts
    np.testing.assert_array_equal(drawn.mass, again.mass)
    assert (np.asarray(draw(experiment, 2, 9, tuple(told), 1).starts.mass) != np.asarray(drawn.mass)).all()


# Against scenes of their own


def test_every_start_is_what_a_scene_of_its_own_gives():
    experiment = of_text(EVALUATION.replace("starts: 4", "starts: 4\n  take: mean"))
    genes = jax.jit(lambda key: experiment.robot.sample(key, 2))(jax.random.key(3))
    (found,) = jax.jit(lambda given: evaluate_all(experiment, 8, (given,)))(genes)
    options = experiment.evaluation
    starts = starts_of(options.jitter, 4, vary=options.vary, grounds=2)
    scene = experiment.scene({part: np.asarray(own[1]) for part, own in genes.items()})
    values = []
    for number in range(4):
        plain = scene.to_plain()
        material = plain["robot"]["body"]["materials"]["a"]
        for key, name in (("mass", "mass"), ("friction", "friction"), ("spring_frequency", "frequency")):
            material[key] *= float(getattr(starts, name)[number])
        plain["world"]["gravity"] *= float(starts.gravity[number])
        if starts.ground[number] == 1:
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
    assert "worst of 2 starts, 2 terrains, friction x 0.02 to 0.1" in title
    assert "drawn anew in every generation" in title
    robots = json.loads(vsr("verify", tmp_path / "whole", "--json").stdout)["robots"]
    assert [robot["exact"] for robot in robots] == [True, True]


# What does not go together


@pytest.mark.parametrize(
    ("evaluation", "message"),
    [
        ("{vary: {mass: [0.5, 2]}}", "evaluation.vary: one start alone draws the middle of every interval"),
        ("{vary: {mass: [2, 0.5]}, starts: 2}", "evaluation.vary.mass: [2, 0.5] given; it should be two factors"),
        ("{vary: {mass: [0, 0.5]}, starts: 2}", "evaluation.vary.mass.0: 0 given; it should be greater than"),
        ("{terrains: [flat, hilly], starts: 2}", "evaluation.starts: 2 given, which do not reach all 3 terrains"),
        (
            "{terrains: [flat, hilly], starts: 3, refine: {starts: 2}}",
            "evaluation.refine.starts: 2 given, which do not reach all 3 terrains",
        ),
        ("{terrains: [sand], starts: 2}", "evaluation.terrains: sand lies in one world only"),
        (
            "{terrains: [{type: hily}], starts: 2}",
            "evaluation.terrains.0.type: unknown type 'hily'; did you mean 'hilly'",
        ),
        ("{terrains: [bumpy], starts: 2}", "'bumpy' and 'flat' given; lines and height fields cannot be used together"),
        ("{draws: often}", "evaluation.draws: 'often' given; allowed: common, fresh"),
    ],
)
def test_what_does_not_go_together_is_told(evaluation, message):
    with pytest.raises(ConfigError) as caught:
        parse_experiment(f"{ROBOT}evaluation: {evaluation}\n", "walk.yaml")
    assert message in str(caught.value)
    assert "walk.yaml:3: " in str(caught.value)


def test_masses_that_have_no_friction_cannot_vary_it():
    body = "{shape: [h], masses: evogym, materials: {h: {actuation: horizontal}}}"
    text = f"robot: {{body: {body}, controller: phases}}\n"
    with pytest.raises(ConfigError, match="evogym masses have no friction of their own"):
        parse_experiment(text + "evaluation: {starts: 2, vary: {friction: [0.5, 1]}}\n")


def test_substeps_suit_the_stiffest_and_lightest():
    usual = of_text("").schedule().substeps
    stiff = of_text("evaluation: {starts: 2, vary: {stiffness: [1, 4], mass: [0.25, 1]}}\n").schedule().substeps
    assert stiff >= 2 * usual
    soft = of_text("evaluation: {starts: 2, vary: {stiffness: [0.25, 1]}}\n").schedule().substeps
    assert soft == usual
    with pytest.raises(ConfigError, match=r"physics.substeps: .* would blow up"):
        of_text("physics: {substeps: 4}\nevaluation: {starts: 2, vary: {stiffness: [1, 100]}}\n")


def test_the_shipped_example_varies_everything():
    options = load_experiment(ROOT / "vsr" / "configs" / "robust.yaml").evaluation
    assert (options.draws, options.take, 1 + len(options.terrains)) == ("fresh", "worst", 4)
    assert EvaluationOptions().summary == ""
    assert options.cost(60) == 480
