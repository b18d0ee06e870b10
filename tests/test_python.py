"""From Python: `vsr.evolve`, `vsr.evaluate` and `vsr.load`."""

import json
import sys
import types

import jax.numpy as jnp
import numpy as np
import pytest
import yaml
from conftest import TINY, apart

import vsr
from vsr.cli import main
from vsr.experiments.config.problems import UserError, in_python
from vsr.experiments.evolve.python import register_fitness
from vsr.experiments.storage.sources import sources_of
from vsr.tasks import MEASURES

pytestmark = pytest.mark.usefixtures("quickly_compiled")


@pytest.fixture(scope="module")
def seen():
    return []


@pytest.fixture(scope="module")
def run(tmp_path_factory, seen):
    out = tmp_path_factory.mktemp("python") / "run"
    return vsr.evolve(
        yaml.safe_load(TINY), settings={"generations": 2}, seeds=[3], out=out, on_generation=seen.append, quiet=True
    )


def test_a_run_comes_back_with_its_statistics_and_its_best_robot(run, seen):
    assert run.seeds == (3,)
    assert run.generations == 2
    assert [progress.generation for progress in seen] == [0, 1]
    np.testing.assert_allclose([progress.best[0] for progress in seen], run.best[0], rtol=1e-6)
    table = run.table()
    assert list(table["generation"]) == [0, 1]
    np.testing.assert_allclose(table["best"], run.best[0])
    robot = run.robot()
    assert vsr.simulate(robot).measures["relative_velocity"] == pytest.approx(run.best[0, -1], rel=1e-3)


def test_statistics_are_a_data_frame_where_there_is_pandas(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", types.SimpleNamespace(DataFrame=lambda columns: ("frame", columns)))
    kind, columns = run.table()
    assert kind == "frame"
    assert list(columns["generation"]) == [0, 1]
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert list(run.table()["generation"]) == [0, 1]


def test_a_run_is_printed_on_one_line(run):
    assert repr(run) == f"Run('{run.path}', 2 of 2 generations)"


def test_it_is_the_run_of_the_command(run, tmp_path):
    file = tmp_path / "tiny.yaml"
    file.write_text(TINY)
    arguments = ["evolve", str(file), "--set", "generations=2", "--seed", "3", "--no-report", "--out"]
    result = apart().invoke(main, [*arguments, str(tmp_path / "run")])
    assert result.exit_code == 0, result.output
    other = vsr.load(tmp_path / "run")
    np.testing.assert_array_equal(other.best, run.best)
    assert other.experiment == run.experiment


def test_it_goes_on_and_is_drawn(run, tmp_path):
    longer = vsr.evolve(run.experiment, settings={"generations": 3}, out=run.path, resume=True, quiet=True)
    assert longer.generations == 3
    np.testing.assert_array_equal(longer.best[:, :2], run.best)
    assert longer.plot(tmp_path / "curve.png").stat().st_size > 1000


def test_what_is_wrong_is_said(run, tmp_path):
    with pytest.raises(UserError, match="it already holds a run"):
        vsr.evolve(run.experiment, out=run.path, quiet=True)
    with pytest.raises(UserError, match="generations: -1 given"):
        vsr.evolve(yaml.safe_load(TINY), settings={"generations": -1}, out=tmp_path / "other", quiet=True)
    assert not (tmp_path / "other").exists()


def test_files_are_loaded_as_what_they_are(run):
    assert isinstance(vsr.load(run.path / "best" / "seed-3.yaml"), vsr.Scene)
    assert isinstance(vsr.load(run.path / "config.yaml"), vsr.Experiment)


def test_errors_speak_of_parameters_not_of_options(run, tmp_path):
    with pytest.raises(UserError) as raised:
        vsr.evolve(run.experiment, out=run.path, quiet=True)
    assert "add resume=True to go on with it, or give another out" in str(raised.value)
    with pytest.raises(UserError) as raised:
        vsr.evolve(yaml.safe_load(TINY), settings={"population": 3}, out=tmp_path / "other", quiet=True)
    assert str(raised.value).startswith("settings population=3: population: unknown key")


@pytest.mark.parametrize(
    ("message", "meant"),
    [
        ("to go on: vsr evolve 'a b/c' --resume", "to go on: vsr.evolve(..., out='a b/c', resume=True)"),
        ("runs/a: wait, or give another --out", "runs/a: wait, or give another out"),
        ("--device gpu: it cannot be used", "device gpu: it cannot be used"),
        ("fix it: vsr evolve a.yaml --out FOLDER, or --seeds 3", "fix it: vsr evolve a.yaml --out FOLDER, or seeds 3"),
        ("a--set", "a--set"),
    ],
)
def test_messages_are_worded_for_python(message, meant):
    assert in_python(message) == meant


# Fitness as a function


def calm(measures):
    return measures["relative_velocity"] - 0.1 * measures["average_squared_control"]


@pytest.fixture(scope="module")
def calm_run(tmp_path_factory):
    out = tmp_path_factory.mktemp("function") / "run"
    return vsr.evolve(yaml.safe_load(TINY), fitness=calm, settings={"generations": 2}, seeds=[3], out=out, quiet=True)


@pytest.fixture
def forgotten(calm_run):
    """A process that was never given the function."""
    known = MEASURES.pop(calm_run.experiment.fitness.measure)
    yield
    dict.__setitem__(MEASURES, calm_run.experiment.fitness.measure, known)


def test_fitness_may_be_a_function_of_measures(calm_run):
    assert calm_run.experiment.fitness.measure == "python:calm"
    found = vsr.simulate(calm_run.robot()).measures
    assert calm(found) == pytest.approx(calm_run.best[0, -1], rel=1e-3)
    meta = json.loads((calm_run.path / "meta.json").read_text())
    assert meta["python_fitness"]["measure"] == "python:calm"
    assert "average_squared_control" in meta["python_fitness"]["source"]
    assert "plugins: []" in (calm_run.path / "config.yaml").read_text()
    assert (calm_run.path / "plugins" / "test_python.py").is_file()
    own = sources_of(calm_run.experiment)
    assert own.has_any  # so that no program is kept under the function's name
    assert not own.unkept


def test_a_run_without_its_function_says_what_is_missing(calm_run, forgotten):
    best = calm_run.path / "best" / "seed-3.yaml"
    for command in (["play", str(calm_run.path)], ["verify", str(best)], ["evolve", str(calm_run.path), "--resume"]):
        result = apart().invoke(main, command)
        assert result.exit_code == 2, result.output
        assert "'python:calm' is a function in Python" in result.output
        assert "give it again" in result.output
        assert "put back a copy" not in result.output
    with pytest.raises(UserError, match="give it again"):
        vsr.load(calm_run.path)
    assert isinstance(vsr.load(best), vsr.Scene)  # robots need no fitness


@pytest.mark.slow
def test_a_run_goes_on_and_is_verified_with_its_function(calm_run, forgotten):
    loaded = vsr.load(calm_run.path, fitness=calm)
    np.testing.assert_array_equal(loaded.best, calm_run.best)
    (verdict,) = loaded.verify()
    assert verdict.confirmed
    longer = vsr.evolve(
        loaded.experiment, fitness=calm, settings={"generations": 3}, out=loaded.path, resume=True, quiet=True
    )
    assert longer.generations == 3


@pytest.mark.slow
def test_another_function_of_the_same_name_does_not_go_on(calm_run):
    def calm(measures):
        return measures["average_height"]

    with pytest.raises(UserError, match="does not compute what it did"):
        vsr.evolve(
            calm_run.experiment, fitness=calm, settings={"generations": 9}, out=calm_run.path, resume=True, quiet=True
        )


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda measures: measures["speed"], "there is no measure 'speed'"),
        (lambda measures: 1.0 if measures["relative_velocity"] > 0 else 0.0, r"jnp\.where"),
        (lambda measures: jnp.ones(3) * measures["relative_velocity"], "one number"),
        (lambda measures: 1.0, "reads no measure"),
        (lambda measures: measures["score"], "this task has no score"),
    ],
    ids=["unknown", "branch", "array", "constant", "of another task"],
)
def test_a_function_that_can_be_no_fitness_is_refused(function, words, tmp_path):
    with pytest.raises(UserError, match=words):
        vsr.evolve(yaml.safe_load(TINY), fitness=function, out=tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_measures_of_gait_are_followed_for_a_function_that_reads_them():
    name = register_fitness(lambda measures: jnp.where(measures["contact_time"] > 0.5, 1.0, 0.0))
    assert vsr.Locomotion(measures=(name,)).follows_gait
    assert not vsr.Locomotion().follows_gait


# Many robots


def test_robots_are_evaluated_in_one_batch_as_they_are_alone(run):
    best = run.robot()
    controller = best.robot.controller.model_copy(update={"phase": 0.7})
    other = best.model_copy(update={"robot": best.robot.model_copy(update={"controller": controller})})
    batches = []
    found = vsr.evaluate([run, run.path / "best" / "seed-3.yaml", other], trials=2, on_episodes=batches.append)
    assert found.names == (f"{run.name}, seed 3", "seed-3", "robot 2")
    assert sum(batches) == 6
    assert not found.failures.any()
    alone = [vsr.simulate(one).measures["relative_velocity"] for one in (best, best, other)]
    # Positions of some meters are rounded by 2e-7 m, which is much beside a robot that stays where it is.
    np.testing.assert_allclose(found["relative_velocity"][:, 0], alone, rtol=1e-4, atol=2e-6)
    assert (found["average_height"][:, 0] != found["average_height"][:, 1]).all()  # the second fell from higher
    table = found.table()
    assert list(table["robot"][:3]) == [f"{run.name}, seed 3"] * 2 + ["seed-3"]
    assert list(table["trial"]) == [0, 1] * 3
    assert set(table["failure"]) == {"none"}


def test_evaluate_says_what_is_wrong(run):
    with pytest.raises(UserError, match="trials: 0 given"):
        vsr.evaluate(run, trials=0)
    with pytest.raises(UserError, match="none given"):
        vsr.evaluate([])
    with pytest.raises(UserError, match="no such file"):
        vsr.evaluate("nobody.yaml")
