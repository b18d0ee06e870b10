"""A study is run and reported: with the tiny experiment that other tests of runs share, so that it is compiled once."""

import csv
import hashlib
import json

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import TINY
from PIL import Image

import vsr.cli as cli
from vsr.evidence.reproduce.statement import BEFORE_DIGEST, state_claims, statement_lines
from vsr.experiments.storage.runs import read_run
from vsr.experiments.study import load_study

STUDY = """
title: Two draws of the same
experiments:
  one: {file: one.yaml, label: seeds 0 and 1}
  two: {file: one.yaml, label: never run}
figure: {panels: [{curves: [one, two]}]}
scales:
  tiny: {repeats: 3, factors: [1]}
claims:
  - {type: above, experiment: two, than: one, text: The second is better}
"""


@pytest.mark.full
def test_a_part_of_a_study_is_run_and_reported(tmp_path):
    (tmp_path / "own.yaml").write_text(STUDY)
    (tmp_path / "one.yaml").write_text(TINY)
    command = ["reproduce", str(tmp_path / "own.yaml"), "--scale", "tiny", "--only", "one", "--out", str(tmp_path)]
    result = CliRunner().invoke(cli.main, command)
    assert result.exit_code == 0, result.output
    home = tmp_path / "own"
    written = {"figure.png", "figure.pdf", "curves.csv", "table.csv", "pairs.csv", "report.md", "claims.md", "best"}
    written |= {"provenance.md"}
    assert written | {"one"} == {path.name for path in home.iterdir()}
    report = (home / "report.md").read_text()
    assert "![](figure.png)" in report
    assert "two missing |  |  | **not run**" in report
    stated = (home / "claims.md").read_text()
    body, _, digest = stated.rstrip("\n").rpartition(BEFORE_DIGEST)
    assert digest == hashlib.sha256(body.encode()).hexdigest()
    assert f"sha256 `{digest}`." in report
    assert "| The second is better | above | two, one | all |" in stated
    assert len(list(csv.DictReader((home / "curves.csv").open()))) == 2 * 5
    with Image.open(home / "best" / "one.png") as strip:
        assert strip.width > 3 * strip.height
    repeats = json.loads((home / "best" / "one.json").read_text())["repeats"]
    assert np.shape(repeats) == (2, 3)
    np.testing.assert_allclose(np.array(repeats)[:, 0], read_run(home / "one").best[:, -1], rtol=0.05)


@pytest.mark.slow
def test_experiments_of_a_study_run_at_the_same_time(tmp_path):
    """Each in a process of its own, without a report; the report comes at the end, and says what runs alone do."""
    (tmp_path / "own.yaml").write_text(STUDY.replace("never run", "seeds 0 and 1 again"))
    (tmp_path / "one.yaml").write_text(TINY)
    command = ["reproduce", str(tmp_path / "own.yaml"), "--scale", "tiny", "--out", str(tmp_path)]
    result = CliRunner().invoke(cli.main, [*command, "--jobs", "2"])
    assert result.exit_code == 0, result.output
    home = tmp_path / "own"
    one, two = (read_run(home / name) for name in ("one", "two"))
    np.testing.assert_array_equal(one.best, two.best)
    assert (home / "report.md").is_file()
    assert str(home / "report.md") in result.output
    assert "report" not in (home / "one.log").read_text()
    (tmp_path / "one.yaml").write_text(TINY.replace("generations: 5", "generations: 6"))
    failed = CliRunner().invoke(cli.main, [*command, "--jobs", "2", "--set", "physics.substeps=1"])
    assert failed.exit_code == 2
    assert "physics.substeps" in failed.output


def test_a_study_without_runs_and_report_is_refused():
    result = CliRunner().invoke(cli.main, ["reproduce", "body", "--report-only", "--no-report"])
    assert result.exit_code == 2
    assert "--report-only and --no-report" in result.output


def test_claims_are_stated_once_and_changes_are_reported(tmp_path):
    (tmp_path / "own.yaml").write_text(STUDY)
    (tmp_path / "one.yaml").write_text(TINY)
    file, home = load_study(tmp_path / "own.yaml"), tmp_path / "out"
    experiments = {name: file.experiment(name) for name in file.study.experiments}
    assert "were not stated before" in statement_lines(file, "tiny", experiments, home)[0]
    state_claims(file, "tiny", experiments, home, begun=False)
    stated = (home / "claims.md").read_text()
    said = statement_lines(file, "tiny", experiments, home)
    assert said[0].startswith("Stated before the experiments were run")
    assert len(said) == 2
    (tmp_path / "own.yaml").write_text(STUDY.replace("experiment: two, than: one", "experiment: one, than: two"))
    other = load_study(tmp_path / "own.yaml")
    state_claims(other, "tiny", experiments, home, begun=True)
    assert (home / "claims.md").read_text() == stated
    assert any("are not those of `claims.md`" in line for line in statement_lines(other, "tiny", experiments, home))
    (home / "claims.md").write_text(stated.replace("better", "worse"))
    assert any("is not as it was written" in line for line in statement_lines(file, "tiny", experiments, home))
    (home / "claims.md").unlink()
    state_claims(file, "tiny", experiments, home, begun=True)
    assert statement_lines(file, "tiny", experiments, home)[0].endswith("after some experiments were run.")
