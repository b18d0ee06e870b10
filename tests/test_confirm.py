"""The fitness that a run reports: that of fresh trials with smaller time steps, one number everywhere."""

import csv
import io
import shutil
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from conftest import TINY
from growing import add_generation, begin_run, rows_of
from pydantic import ValidationError

import vsr.experiments.evolve.command as evolve_module
from vsr.experiments.check import _trials_text
from vsr.experiments.config import dump_yaml, load_experiment, parse_experiment
from vsr.experiments.evolve.command import Stopped, evolve
from vsr.experiments.evolve.fitness import FRESH, confirmed, evaluation_of, fresh_trials, second_trials
from vsr.experiments.evolve.generation import compile_evolution
from vsr.experiments.experiment import Experiment
from vsr.experiments.options import EvolveOptions
from vsr.experiments.perturbation import (
    MOST_TRIALS,
    EvaluationOptions,
    InitialNoise,
    Perturbation,
    perturbations_of,
)
from vsr.experiments.storage.robots import read_record, read_title, robot_file
from vsr.experiments.storage.runs import as_csv, read_curves, read_run
from vsr.experiments.storage.statistics import STATISTICS, Statistics, read_statistics, write_statistics
from vsr.experiments.verify import judge, read_all
from vsr.scene import Scene, simulate
from vsr.tasks.locomotion import Settled, SettledLocomotion, net_velocity
from vsr.tasks.measures import Summary
from vsr.world.build import build_beds, build_systems, chosen_bed

pytestmark = pytest.mark.usefixtures("quickly_compiled")
CONFIG = """
robot: {body: {shape: aa}, controller: sine}
task: {duration: 0.6, placement: {clearance: 0.0}}
evaluation: {trials: 1, refine: {factor: 2, top: 0.3, trials: 2}, confirm: {trials: 5}}
optimizer: {population_size: 6, tournament_size: 2}
generations: 3
seeds: 2
checkpoint_seconds: 0
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    file = tmp_path_factory.mktemp("confirm") / "walk.yaml"
    file.write_text(CONFIG)
    return file


@pytest.fixture(scope="module", autouse=True)
def _compiled_once():
    known = {}

    def compiled(experiment, counted):
        key = dump_yaml(experiment.model_copy(update={"generations": 1}))
        if key not in known:
            known[key] = compile_evolution(experiment, counted)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evolve_module, "compile_evolution", compiled)
        yield


@pytest.fixture(scope="module")
def run(config):
    return evolve(EvolveOptions(str(config), out=str(config.parent / "run"), report=False))


def options(**given):
    """Of an experiment with these."""
    experiment = Experiment.model_validate(
        {"robot": {"body": {"shape": "aa"}, "controller": "sine"}, "evaluation": given}
    )
    return experiment.evaluation


def test_winners_are_confirmed_wherever_leaders_are_rechecked():
    assert options().confirm is not None
    assert options().last_cost == 16 * 4
    assert "16 fresh trials with time steps 4 times smaller" in options().confirmation
    assert options(refine=None).confirm is None
    assert (options(confirm=None).last_cost, options(confirm=None).confirmation) == (0, "")
    with pytest.raises(ValidationError, match="set this to null, too"):
        options(refine=None, confirm={})
    evogym = {"body": {"shape": "hh", "engine": "evogym"}, "controller": "sine"}
    assert Experiment.model_validate({"robot": evogym}).evaluation.confirm is None
    grounds = [{"type": "hilly", "seed": seed} for seed in range(20)]
    found = options(terrains=grounds).confirm
    assert found is not None
    assert found.trials == 21


def test_fresh_trials_are_neither_of_the_search_nor_of_refine():
    experiment = parse_experiment(CONFIG)
    fresh = fresh_trials(experiment, 2, 6)
    again = second_trials(experiment, 2, 6, None)
    assert again is not None
    assert jax.tree.structure(again) == jax.tree.structure(fresh[0])  # so that one program serves both
    assert [leaf.shape for leaf in jax.tree.leaves(fresh)] == [leaf.shape for leaf in jax.tree.leaves(again)] * 2
    (first, second), places = (one.perturbations for one in fresh), 2 * 2
    np.testing.assert_array_equal(first.number, np.tile(np.arange(FRESH, FRESH + places), 2))
    np.testing.assert_array_equal(second.number, np.tile(np.arange(FRESH + places, FRESH + 2 * places), 2))
    assert FRESH >= 2 * MOST_TRIALS  # `vsr refine` takes those from MOST_TRIALS on
    for factor in (first.frequency, first.damping, first.friction):
        assert 0.002 < float(abs(factor - 1).max()) <= 0.01 + 1e-6
    for name, plain in (("frequency", 1), ("damping", 1), ("friction", 1)):
        np.testing.assert_array_equal(getattr(again.perturbations, name), plain)


def test_the_first_of_all_places_count_and_failures_are_worst():
    experiment = parse_experiment(CONFIG)
    calls = [np.array([[1.0, 2, 3, 9], [1, -np.inf, 2, -np.inf]]), np.array([[0.0, 99, 99, 99], [-np.inf, 9, 9, 9]])]
    middle, low, high = confirmed(experiment, calls)
    np.testing.assert_array_equal(middle, [2.0, -np.inf])
    np.testing.assert_array_equal(low, [1.0, -np.inf])
    np.testing.assert_array_equal(high, [3.0, 1.0])


def test_a_task_with_its_own_grounds_has_another_in_every_fresh_trial():
    experiment = parse_experiment(CONFIG.replace("task: {", "task: {type: fresh_ground, "))
    when = np.concatenate([np.asarray(one.when).reshape(2, -1, 2) for one in fresh_trials(experiment, 2, 6)], 1)
    np.testing.assert_array_equal(when[0], when[1])
    assert len(np.unique(when[0, :, 1])) == when.shape[1]
    assert when[..., 1].min() > 2**31


@pytest.mark.slow
def test_one_number_is_reported_everywhere(run):
    found, file = read_run(run), robot_file(run, 0)
    reported = float(found.best[0, -1])
    assert found.is_confirmed
    record, _ = read_record(file)
    assert record.score == reported
    assert record.search_score == float(found.search_best[0, -1]) != reported
    title = read_title(file)
    assert title is not None
    assert title.value == pytest.approx(reported, rel=1e-5)
    assert title.meaning.startswith("median of 5 fresh trials with time steps 2 times smaller, quartiles ")
    assert record.quartiles is not None
    assert record.quartiles == tuple(found.quartiles[:, 0])
    assert record.quartiles[0] < reported < record.quartiles[1]
    last = list(csv.DictReader(io.StringIO(as_csv([found]))))[-2]
    assert (float(last["best"]), float(last["search_best"])) == (reported, record.search_score)
    np.testing.assert_array_equal(found.best[:, :-1], found.search_best[:, :-1])
    verdicts = judge(read_all([str(run)]), 0.01)
    assert [one.exact for one in verdicts] == [True, True]
    assert verdicts[0].score == reported


@pytest.mark.slow
def test_the_number_is_the_median_of_fresh_trials(run):
    """Simulated once more, by other programs."""
    experiment = load_experiment(run / "config.yaml")
    record, _ = read_record(robot_file(run, 1))
    genes = {part: jnp.asarray(own, jnp.float32) for part, own in record.genes.items()}
    trials = [one.perturbations for one in fresh_trials(experiment, 1, 6)]
    every = jax.tree.map(lambda *leaves: jnp.concatenate(leaves)[:5], *trials)
    fitness = jax.jit(jax.vmap(lambda trial: evaluation_of(experiment, 2)(genes, trial).fitness))(every)
    assert len(np.unique(fitness)) == 5
    assert record.score == pytest.approx(float(np.median(fitness)), rel=1e-3)


@pytest.mark.slow
def test_a_longer_run_and_a_stopped_one_end_alike(run, config, tmp_path, monkeypatch):
    longer, stopped = tmp_path / "longer", tmp_path / "stopped"
    evolve(EvolveOptions(str(config), ("generations=2",), out=str(longer), report=False))
    assert read_run(longer).is_confirmed
    evolve(EvolveOptions(str(config), out=str(longer), resume=True, report=False))

    def stop(*_):
        raise evolve_module._Stop

    with monkeypatch.context() as patch:
        patch.setattr(evolve_module, "_with_confirmed", stop)
        with pytest.raises(Stopped, match="stopped after 2 of 3 generations"):
            evolve(EvolveOptions(str(config), out=str(stopped), report=False))
    assert "; not yet confirmed" in robot_file(stopped, 0).read_text().splitlines()[0]
    evolve(EvolveOptions(str(config), out=str(stopped), resume=True, report=False))
    for other in (longer, stopped):
        assert rows_of(other) == rows_of(run)
        for seed in (0, 1):
            assert read_record(robot_file(other, seed))[0].score == read_record(robot_file(run, seed))[0].score


@pytest.mark.slow
def test_lost_numbers_are_found_again(run, tmp_path):
    """In the robots' files, or in the statistics."""
    path = tmp_path / "lost"
    shutil.copytree(run, path)
    text = robot_file(path, 0).read_text()
    robot_file(path, 0).unlink()
    evolve(EvolveOptions(str(path), resume=True, report=False))
    assert robot_file(path, 0).read_text() == text
    (path / STATISTICS).unlink()
    evolve(EvolveOptions(str(path), resume=True, report=False))
    np.testing.assert_array_equal(read_curves(path).best[:, -1], read_curves(run).best[:, -1])
    np.testing.assert_array_equal(read_curves(path).quartiles, read_curves(run).quartiles)


def test_a_robot_that_fails_in_fresh_trials_is_no_result(tmp_path):
    folder = begin_run(tmp_path / "run", TINY.replace("generations: 5", "generations: 2"))
    for generation in range(2):
        add_generation(folder, generation)
    assert not read_curves(folder).is_confirmed
    found = read_statistics(folder / STATISTICS)
    records = found.records.copy()
    records["values"][-1, found.header.columns.index("confirmed")] = [-np.inf, 0.125]
    write_statistics(folder / STATISTICS, Statistics(found.header, records))
    curves = read_curves(folder)
    np.testing.assert_array_equal(curves.best[:, -1], [np.nan, 0.125])
    np.testing.assert_array_equal(curves.fitness[:, -1], [-np.inf, 0.125])
    np.testing.assert_array_equal(curves.search_best[:, -1], found.column("best")[:, -1])
    longer = Statistics(replace(found.header, generations=3), records)  # the run goes on
    assert not longer.is_confirmed


def test_the_cost_is_said(config):
    said = dict(_trials_text(load_experiment(config)))["reported fitness"]
    assert said == "median of 5 fresh trials with time steps 2 times smaller, 20 episodes at the end: 24 % of the run"
    assert EvaluationOptions.model_validate({"refine": {"factor": 2}, "confirm": {"trials": 5}}).last_cost == 10


# Beds of grains

COARSE = {"type": "sand", "radius": 0.6, "depth": 1.4, "period": 26, "bed": 7}
SANDY = {
    "robot": {"body": {"shape": "aa"}, "controller": "sine"},
    "world": {"terrain": COARSE},
    "task": {"duration": 0.3, "placement": {"clearance": 0.0}},
    "evaluation": {"trials": 2, "beds": 2, "refine": {"factor": 2, "trials": 2}},
}


def test_trials_alternate_among_beds_and_fresh_ones_have_others():
    experiment = Experiment.model_validate(SANDY)
    assert experiment.bed_numbers(fresh=False) == (7, 8)
    assert experiment.bed_numbers(fresh=True) == (7, 8, 1007, 1008, 1009, 1010)
    again = second_trials(experiment, 1, 6, None)
    assert again is not None
    assert np.asarray(again.perturbations.bed).tolist() == [0, 1]
    fresh = np.concatenate([one.perturbations.bed for one in fresh_trials(experiment, 1, 6)])
    assert fresh.tolist() == [2, 3, 4, 5] * 4
    one_bed = {**SANDY, "evaluation": {"refine": {"factor": 2}}}
    again = second_trials(Experiment.model_validate(one_bed), 1, 6, None)
    assert again is not None
    assert np.asarray(again.perturbations.bed).tolist() == [0, 0, 0]  # fresh trials are on other beds all the same
    drawn = perturbations_of(InitialNoise(), 5, beds=20, key=jax.random.key(3)).bed
    assert drawn is not None
    assert len(np.unique(drawn)) == 5
    with pytest.raises(ValidationError, match="there are no grains"):
        options(beds=2)
    with pytest.raises(ValidationError, match="3 beds need as many at least"):
        Experiment.model_validate({**SANDY, "evaluation": {"trials": 2, "beds": 3}})


@pytest.mark.slow
def test_a_chosen_bed_is_that_of_its_number():
    experiment = Experiment.model_validate(SANDY)
    world = experiment.robot.body, experiment.schedule(), jnp.float32
    beds = build_beds(experiment.world, *world, (7, 8))
    terrain = experiment.world.terrain.model_copy(update={"bed": 8})
    alone = build_systems(experiment.world.model_copy(update={"terrain": terrain}), *world)["sand"]
    chosen = chosen_bed(beds, jnp.int32(1))["sand"]
    for one, other in zip(jax.tree.leaves(chosen), jax.tree.leaves(alone), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(np.sort(beds["sand"].radius[0]), np.sort(chosen.radius))  # the same grains
    assert not np.array_equal(beds["sand"].start.position[0], chosen.start.position)
    genes = jax.tree.map(lambda leaf: leaf[0], experiment.robot.sample(jax.random.key(0), 1))
    run_on = jax.jit(lambda bed: evaluation_of(experiment)(genes, Perturbation(bed=bed)))
    found = [run_on(jnp.int32(bed)) for bed in (0, 1)]
    assert [int(one.failure) for one in found] == [0, 0]
    assert float(found[0].fitness) != float(found[1].fitness)


# Distance that counts


def test_the_first_length_counts_nothing():
    def measured(way, allowance):
        account = Settled(jnp.float32(2.0), jnp.float32(1.0), jnp.float32(allowance))
        still = jnp.zeros(2)
        end = jnp.array([2.0 + way, 0.0])
        zero = jnp.float32(0)
        episode = Summary(
            still, end, jnp.array([3.0, 1.5]), jnp.float32(5.0), zero, zero, jnp.int32(0), account=account
        )
        return float(net_velocity(episode))

    assert measured(2.9, 1.0) == 0
    assert measured(9.0, 1.0) == pytest.approx(6 / 3 / 4)
    assert measured(9.0, 0.0) == pytest.approx(9 / 3 / 4)
    assert measured(-3.0, 1.0) == pytest.approx(-1 / 4)
    with pytest.raises(ValidationError, match="leaves nothing"):
        SettledLocomotion(duration=1.0, settle=1.0)


@pytest.mark.slow
def test_distance_counts_from_the_moment_of_settling():
    """By the displacements of two plain episodes, one as long as the settling."""
    robot = {"body": {"shape": ["aa", "a."]}, "controller": {"type": "sine", "phase": 0.3}}

    def scene(**task):
        return Scene.model_validate({"robot": robot, "task": {"placement": {"clearance": 0.5}, **task}})

    short, whole = (simulate(scene(duration=time)).measures["relative_velocity"] * time for time in (0.5, 2.0))
    settled = simulate(scene(type="settled_locomotion", duration=2.0, settle=0.5, allowance=0.0))
    assert settled.measures["relative_velocity"] * 2 == pytest.approx(whole, rel=1e-4)
    assert settled.measures["net_velocity"] == pytest.approx((whole - short) / 1.5, rel=1e-3)
