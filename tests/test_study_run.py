"""A study is run and reported: with the tiny experiment that other tests of runs share, so that it is compiled once."""

import csv
import json

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import TINY
from PIL import Image

import vsr.cli as cli
from vsr.experiments.storage.runs import read_run

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
    assert {"figure.png", "figure.pdf", "curves.csv", "table.csv", "pairs.csv", "report.md", "best", "one"} == {
        path.name for path in home.iterdir()
    }
    report = (home / "report.md").read_text()
    assert "![](figure.png)" in report
    assert "two missing | **not run**" in report
    assert len(list(csv.DictReader((home / "curves.csv").open()))) == 2 * 5
    with Image.open(home / "best" / "one.png") as strip:
        assert strip.width > 3 * strip.height
    repeats = json.loads((home / "best" / "one.json").read_text())["repeats"]
    assert np.shape(repeats) == (2, 3)
    np.testing.assert_allclose(np.array(repeats)[:, 0], read_run(home / "one").best[:, -1], rtol=0.05)
