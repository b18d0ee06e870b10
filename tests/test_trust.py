"""What is broken is reported as failed: hard robots, what judges them, and what a search does with exploding ones."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner

import vsr.cli as cli
from vsr import Scene
from vsr.episode import begin, record
from vsr.evidence.validate.trust import watching
from vsr.evidence.validate.trust.batches import batch_of, calls_of, episodes, schedule_of, surroundings
from vsr.evidence.validate.trust.robots import Kind, blob, samples
from vsr.evidence.validate.trust.suite import SCALES, Batch, judge, validate_trust
from vsr.experiments.config import parse_experiment
from vsr.experiments.evolve.generation import compile_evolution
from vsr.physics.failure import REASONS, Failure, most_severe
from vsr.physics.points.geometry import size
from vsr.world.placement import place

sizes = jax.jit(watching.sizes)
pytestmark = pytest.mark.usefixtures("quickly_compiled")


# The second pair of eyes


@pytest.mark.parametrize("dimension", [2, 3])
def test_sizes_by_integration_are_those_of_closed_forms(dimension):
    random = np.random.default_rng(1)
    bits = np.array([[(corner >> axis) & 1 for axis in range(dimension)] for corner in range(2**dimension)])
    corner = jnp.asarray(bits[:, None] + 0.3 * random.normal(size=(2**dimension, 20, dimension)), jnp.float32)
    corner = corner.at[:, 0].set(bits * ([-1] + [1] * (dimension - 1)))
    whole, at_corners = sizes(corner, jnp.ones(20))
    np.testing.assert_allclose(whole, jax.jit(size, static_argnums=1)(corner, dimension), atol=1e-5)
    assert float(whole[0]) == -1
    np.testing.assert_array_equal(at_corners[:, 0], -1)


def test_a_dent_is_a_corner_inside_out_and_not_a_voxel():
    dented = jnp.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.3, 0.3]])
    whole, at_corners = sizes(dented[:, None], jnp.ones(1))
    assert float(whole[0]) > 0
    assert (np.asarray(at_corners[:, 0]) < 0).tolist() == [False, False, False, True]


# Hard robots

TINY = SCALES["tiny"][0]


def test_a_sample_is_seeded_covers_corners_and_takes_the_substeps_of_its_batch():
    kind = Kind("points", "points", (2, 3, 2), (9,), 40, 1.0)
    (once, again), other = (samples(kind, 9) for _ in range(2)), samples(kind, 9, seed=1)
    assert all((a.cells == b.cells).all() and a.materials == b.materials for a, b in zip(once, again, strict=True))
    assert any((a.cells != b.cells).any() for a, b in zip(once, other, strict=True))
    assert {kind.substeps_of(robot.materials) for robot in once} == {9}
    assert {1, 12} <= {int((robot.cells >= 0).sum()) for robot in once}
    assert {material.spring_damping_ratio for robot in once[:20] for material in robot.materials} == {0.0, 1.0}
    assert max(material.mass for robot in once for material in robot.materials) == 1000
    assert {robot.control for robot in once} == {"passive", "sine", "chatter", "chess"}


def test_blobs_hang_together():
    random = np.random.default_rng(0)
    for count in (1, 5, 11, 12):
        full = blob(random, (3, 2, 2), count)
        assert full.sum() == count
        reached = np.zeros_like(full)
        reached[tuple(np.argwhere(full)[0])] = True
        for _ in range(count):
            for axis in range(3):
                for step in (-1, 1):
                    moved = np.roll(reached, step, axis)
                    moved[(slice(None),) * axis + (0 if step > 0 else -1,)] = False
                    reached |= moved & full
        assert (reached == full).all()


@pytest.mark.slow
def test_no_hard_robot_is_broken_and_not_reported_and_a_step_too_long_is_seen():
    (substeps,) = TINY.substeps
    robots = samples(TINY, substeps)
    stiff = {"spring_frequency": 60.0, "spring_damping_ratio": 0.0, "linear_damping": 0.0}  # stable up to 27 Hz
    materials = tuple(material.model_copy(update=stiff) for material in robots[0].materials)
    robots = [*robots, replace(robots[0], materials=materials, control="passive", start="floating")]
    schedule = schedule_of(substeps)
    ground, systems, floor = surroundings(TINY, schedule)
    batch = batch_of(TINY, robots, floor)
    failure, watch = jax.device_get(episodes(batch, ground, systems, calls_of(TINY), schedule))
    *judged, blown_up = judge(TINY, substeps, robots, failure, watch)
    batch = Batch(TINY, substeps, judged, 0.0)
    assert [robot.broken for robot in batch.unreported] == []
    assert 0 < sum(batch.reported.values()) < len(judged)
    assert {"spurious energy gain", "too high or too fast"} <= set(blown_up.broken)
    assert blown_up.reported


@pytest.mark.parametrize(
    ("risen", "raised", "coarsest", "reported", "unreported", "needless"),
    [
        (0.9, 0.0, False, Failure.none, True, False),
        (0.0, 0.9, True, Failure.none, True, False),
        (0.9, 0.0, True, Failure.none, False, False),  # it swings where steps are as long as they may be
        (0.5, 0.0, False, Failure.none, False, False),
        (0.5, 0.0, False, Failure.gained_energy, False, False),
        (0.2, 0.1, False, Failure.gained_energy, False, False),
        (0.2, 0.0, False, Failure.gained_energy, False, True),
        (0.2, 0.0, False, Failure.inverted, False, True),
        (0.5, 0.0, False, Failure.inverted, False, True),  # energy is no excuse for another report
        (0.0, 0.0, False, Failure.contact_overflow, False, False),
        (float("nan"), 0.0, False, Failure.none, True, False),
    ],
)
def test_what_energy_says_of_a_report(risen, raised, coarsest, reported, unreported, needless):
    fine = dict.fromkeys(watching.Watch.__dataclass_fields__, np.zeros(1))
    fine |= {"finite": np.ones(1), "least_size": np.ones(1), "least_corner": np.ones(1)}
    watch = watching.Watch(**{**fine, "risen": np.array([risen]), "raised": np.array([raised])})
    kind = replace(TINY, coarsest=coarsest)
    (judged,) = judge(kind, 2, samples(TINY, 2)[:1], np.array([reported]), watch)
    assert (judged.unreported, judged.needless) == (unreported, needless)


@pytest.mark.full
def test_no_robot_of_the_quick_scale_is_broken_and_not_reported():
    report = validate_trust("quick")
    assert (report["unreported"], report["reported_though_fine"]) == (0, 0)
    assert report["robots"] > 300


@pytest.mark.parametrize(
    ("options", "message"),
    [(["--large"], "2d suite has no larger checks"), (["--suite", "trust", "--plots", "x"], "draws nothing")],
)
def test_options_of_other_suites_are_refused(options, message):
    result = CliRunner().invoke(cli.main, ["validate", *options])
    assert result.exit_code == 2
    assert message in result.output


# What is reported


def test_of_what_befalls_at_once_the_gravest_counts():
    assert int(most_severe(jnp.array([0, 4, 2, 6]))) == Failure.not_finite
    assert int(most_severe(jnp.zeros((2, 2), int))) == Failure.none
    assert all(int(most_severe(jnp.array([[0], [reason]]))) == reason for reason in REASONS)


def test_a_voxel_that_was_inside_out_has_failed_though_it_is_right_again():
    """Pressed flat and through itself; at the end it is as it should be."""
    body = {"shape": ["a"], "engine": "points", "materials": {"a": {"spring_frequency": 2, "spring_damping_ratio": 0}}}
    scene = Scene.model_validate(
        {"robot": {"body": body}, "world": {"terrain": None, "gravity": 0}, "task": {"duration": 1}}
    )
    scenario, controller = scene.build()
    robot = place(scenario.model, None, scene.task.placement)
    inwards = -40 * jnp.sign(robot.position - robot.position.mean((0, 1, 2))) * jnp.array([1.0, 0.0])
    pressed = replace(robot, velocity=inwards)
    summary, frames = jax.jit(lambda state: record(scenario, controller, begin(scenario, state)))(pressed)
    width = np.asarray(frames.state.position[:, 0, :, 1, 0] - frames.state.position[:, 0, :, 0, 0]).min(1)
    assert width.min() < 0 < width[-1]
    assert int(summary.failure) == Failure.inverted


EXPLOSIVE = """
robot:
  body:
    type: material_grid
    grid: [2, 1]
    engine: points
    materials: {a: {}, b: {actuation: force, max_force: 1.0e+12}}
  controller: {type: sine_by_material, drives: {a: {frequency: 1.0}, b: {frequency: 2.0}}}
task: {duration: 0.5, placement: {clearance: 0.0}}
evaluation: {trials: 1, refine: null}
optimizer: {population_size: 16, tournament_size: 2}
generations: 3
"""


@pytest.mark.slow
def test_robots_that_explode_neither_stop_nor_win_a_run():
    """Half of the voxels drawn tear their robot apart; the search goes on, and its best has none of them."""
    experiment = parse_experiment(EXPLOSIVE)
    evolution = compile_evolution(experiment)
    search = evolution.start()
    for _ in range(3):
        search, (found,) = evolution.step(search)
        failed = dict(zip((reason.name for reason in REASONS), np.asarray(found.failures).tolist(), strict=True))
        assert failed["not_finite"] + failed["exploded"] + failed["inverted"] > 0
        assert np.isfinite(found.best)
        assert (np.asarray(found.fitness) == -np.inf).sum() == sum(failed.values())
        best = experiment.robot.body.describe(np.asarray(found.best_genes["body"]))
        assert best is not None
        assert set("".join(best.shape)) <= {"a", "."}
