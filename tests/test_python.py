"""Evolving from Python: `vsr.evolve` and `vsr.load`."""

import numpy as np
import pytest
import yaml
from conftest import TINY, apart

import vsr
from vsr.cli import main
from vsr.experiments.config.problems import UserError, in_python

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
