"""`vsr check` lets a few robots land, and says when all of them fail; lengths that are left out suit the voxels."""

import io

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import TINY
from rich.console import Console

import vsr.cli as cli
from vsr.experiments.check import check_file
from vsr.experiments.config import UserError, dump_yaml, parse_experiment, parse_scene
from vsr.experiments.evolve.display import PlainLines, Progress
from vsr.experiments.refine import jobs_of
from vsr.physics.failure import REASONS, Failure, by_reason, failure_summary, remedies

SMALL = """
robot:
  body:
    shape: |
      ssss
      swws
      ssss
    voxel_side: 0.03
    engine: points
    materials:
      s: {young_modulus: 2.0e+4, density: 1000, max_area_change: 0}
      w: {fluid: {pressure: [0, 2000]}}
  controller: {type: sine, frequency: 1.0}
task: {duration: 2}
evaluation: {trials: 1, refine: null}
optimizer: {population_size: 4, tournament_size: 2}
generations: 2
"""


@pytest.fixture
def small(tmp_path):
    file = tmp_path / "small.yaml"
    file.write_text(SMALL)
    return file


# Defaults in proportion to the voxels


def test_lengths_that_are_left_out_suit_the_voxels():
    small = parse_experiment(SMALL)
    assert small.task.placement.clearance == pytest.approx(0.01)
    assert small.evaluation.jitter.height == pytest.approx(1e-5)
    default = parse_experiment("robot: {body: {shape: aa}, controller: sine}")
    assert default.task.placement.clearance == 1.0
    assert default.evaluation.jitter.height == 0.001


def test_lengths_that_are_given_are_kept():
    settings = ["task.placement.clearance=1.0", "evaluation.jitter.height=0.001"]
    given = parse_experiment(SMALL, settings=settings)
    assert given.task.placement.clearance == 1.0
    assert given.evaluation.jitter.height == 0.001


def test_what_is_written_has_the_lengths_and_keeps_them():
    written = dump_yaml(parse_experiment(SMALL).resolved())
    assert "clearance: 0.01" in written
    larger = parse_experiment(written, settings=["robot.body.voxel_side=3.0"])
    assert larger.task.placement.clearance == pytest.approx(0.01)


def test_other_robots_fall_from_a_height_that_suits_them():
    scene = parse_scene("""
robot: {body: {shape: a, engine: points, voxel_side: 0.03}}
world: {other_robots: [{name: giant, robot: {body: {shape: a, engine: points}}, placement: {left: 9}}]}
""")
    assert scene.task.placement.clearance == pytest.approx(0.01)
    assert scene.world.other_robots[0].placement.clearance == 1.0


def test_robots_of_different_voxels_are_refined_from_heights_of_their_own():
    scenes = [parse_scene(f"robot: {{body: {{shape: aa, voxel_side: {side}}}}}") for side in (3.0, 0.3)]
    small, large = jobs_of(range(2), scenes[::-1], ["relative_velocity"] * 2, (1,), 3, None, ())
    np.testing.assert_allclose(10 * small.trials.higher, large.trials.higher, rtol=1e-6)


# Robots that cannot be simulated


@pytest.mark.slow
def test_an_experiment_in_which_all_robots_fail_is_not_sound(small):
    result = CliRunner().invoke(cli.main, ["check", str(small), "--set", "task.placement.clearance=1.0"])
    assert result.exit_code == 2, result.output
    assert ": valid" not in result.output
    assert "8 of 8 failed: inverted 8" in result.output
    assert Failure.inverted.meaning in result.output
    for cause in ("clearance", "stiffer", "substeps"):
        assert cause in result.output


@pytest.mark.slow
def test_an_experiment_whose_robots_land_is_sound(small):
    found = dict(check_file(str(small)))
    assert "8 robots" in found["tried"]
    assert "none failed" in found["tried"]


@pytest.mark.slow
def test_a_scene_whose_robot_fails_is_not_sound(tmp_path):
    file = tmp_path / "scene.yaml"
    scene = SMALL.split("evaluation:")[0]
    file.write_text(scene.replace("duration: 2", "duration: 2, placement: {clearance: 1}"))
    with pytest.raises(UserError, match=r"scene\.yaml: .* 1 of 1 failed: inverted 1"):
        check_file(str(file))


@pytest.mark.slow
def test_genes_that_give_no_body_are_told(tmp_path):
    file = tmp_path / "empty.yaml"
    file.write_text("""
robot:
  body: {type: gaussian_mixture, grid: [3, 3], threshold: 1.0e+6, materials: {a: {}}}
  controller: sine
task: {duration: 1}
optimizer: {population_size: 4, tournament_size: 2}
""")
    with pytest.raises(UserError, match=r"64 of 64 failed: empty 64 \(it has no voxels\)"):
        check_file(str(file))


def test_every_failure_is_explained():
    for reason in REASONS:
        assert reason.meaning
        assert reason.remedy
    failures = {Failure.exploded: 1, Failure.inverted: 3}
    assert failure_summary(failures, 8).startswith("4 of 8 failed: inverted 3 (")
    assert remedies(failures).startswith(Failure.inverted.remedy)
    assert failure_summary({}, 8) == "0 of 8 failed"
    numbers = np.zeros((2, len(REASONS)))
    numbers[:, REASONS.index(Failure.inverted)] = [1, 2]
    assert by_reason(numbers) == {Failure.inverted: 3}


# Evolution


def shown(*generations):
    text = io.StringIO()
    display = PlainLines(parse_experiment(TINY), Console(file=text, width=400))
    for progress in generations:
        display.show(progress)
    return text.getvalue()


def progress(generation, failures):
    none = np.array([np.nan])
    return Progress(generation, none, none, sum(failures.values()), 0.5, failures)


def test_evolution_says_at_once_that_all_of_the_first_generation_failed():
    experiment = parse_experiment(TINY)
    everyone = experiment.optimizer.population_size * len(experiment.seeds)
    text = shown(progress(0, {Failure.inverted: everyone}))
    assert f"warning: all robots of the first generation failed: {everyone} of {everyone} failed: inverted" in text
    assert Failure.inverted.remedy in text
    assert "warning" not in shown(progress(0, {Failure.inverted: everyone - 1}))


def test_evolution_names_the_reasons_of_failures():
    assert "failed 3 (inverted 2, exploded 1)" in shown(progress(0, {Failure.exploded: 1, Failure.inverted: 2}))
    assert "failed 0 " in shown(progress(0, {}))
