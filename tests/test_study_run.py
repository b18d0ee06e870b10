"""A study is run and reported: with the tiny experiment that other tests of runs share, so that it is compiled once."""

import csv
import dataclasses
import hashlib
import json
import lzma
import shutil
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import TINY
from PIL import Image

import vsr.cli as cli
from vsr.evidence.reproduce.command import plan
from vsr.evidence.reproduce.statement import BEFORE_DIGEST, state_claims, statement_lines
from vsr.evidence.reproduce.transfer import read_checked
from vsr.experiments.config.problems import UserError
from vsr.experiments.options import ReproduceOptions
from vsr.experiments.storage.runs import read_run
from vsr.experiments.study import find_studies, load_study
from vsr.robot import KINDS

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
    written = {"figure.png", "figure.pdf", "curves.csv.xz", "table.csv", "pairs.csv", "report.md", "claims.md", "best"}
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
    with lzma.open(home / "curves.csv.xz", "rt") as curves:
        assert len(list(csv.DictReader(curves))) == 2 * 5
    with Image.open(home / "best" / "one.png") as strip:
        assert strip.width > 3 * strip.height
    repeats = json.loads((home / "best" / "one.json").read_text())["repeats"]
    assert np.shape(repeats) == (2, 3)
    np.testing.assert_allclose(np.array(repeats)[:, 0], read_run(home / "one").best[:, -1], rtol=0.05)

    kept = tmp_path / "kept"
    assert CliRunner().invoke(cli.main, [*command, "--report-only", "--copy", str(kept)]).exit_code == 0
    for name in ("best/one.png", "figure.png"):
        with Image.open(home / name) as picture, Image.open(kept / "own" / name) as small:
            assert (small.mode, small.size) == ("P", picture.size)
            difference = np.asarray(small.convert("RGB"), int) - np.asarray(picture.convert("RGB"), int)
            assert np.abs(difference).mean() < 1
    (kept / "own" / "report.md").unlink()
    remake = ["reproduce", str(kept / "own.yaml"), "--scale", "tiny", "--report-only", "--out", str(kept)]
    assert CliRunner().invoke(cli.main, remake).exit_code == 0
    assert (kept / "own" / "report.md").read_text().split("## Verdict")[0] == report.split("## Verdict")[0]


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
    more = CliRunner().invoke(cli.main, [*command, "--jobs", "2", "--resume"])
    assert more.exit_code == 0, more.output
    assert [read_run(home / name).generations for name in ("one", "two")] == [6, 6]
    failed = CliRunner().invoke(cli.main, [*command, "--jobs", "2", "--set", "physics.substeps=1"])
    assert failed.exit_code == 2
    assert "physics.substeps" in failed.output


EVOGYM_STUDY = """
kind: study
format: 1
title: EvoGym in small
experiments:
  one: {file: one.yaml, label: one, row: Walker-v0, method: search}
figure: {panels: [{curves: [one]}]}
scales: {tiny: {repeats: 2, factors: [1]}}
transfer: {engines: [evogym, points]}
published: {about: Nobody's., columns: [Nobody], rows: {Walker-v0: [-1.0]}}
"""
EVOGYM_TINY = """
robot: {body: {type: voxel_kinds, grid: [2, 2], engine: evogym}, controller: {type: sine, frequencies: [3.0, 40.0]}}
task: {type: Walker-v0, duration: 0.03}
fitness: score
evaluation: {trials: 1, refine: null}
optimizer: {type: random_search, population_size: 2}
generations: 2
seeds: 2
"""


@pytest.mark.full
def test_winners_of_evogym_are_tried_again_and_elsewhere(tmp_path):
    """Evolving alone leaves nothing else; the report comes later, with winners that `vsr verify` replays, and is the
    same again. The same study in other physics is another one."""
    (tmp_path / "own.yaml").write_text(EVOGYM_STUDY)
    (tmp_path / "one.yaml").write_text(EVOGYM_TINY)
    command = ["reproduce", str(tmp_path / "own.yaml"), "--scale", "tiny", "--out", str(tmp_path)]
    alone = CliRunner().invoke(cli.main, [*command, "--no-report"])
    assert alone.exit_code == 0, alone.output
    home = tmp_path / "own"
    assert [path.name for path in home.iterdir()] == ["one"]
    for name in ("checkpoints", "lineage"):  # what is too large to be brought home
        shutil.rmtree(home / "one" / name)
    result = CliRunner().invoke(cli.main, [*command, "--report-only", "--tasks", "Walker-v0"])
    assert result.exit_code == 0, result.output
    seen = read_checked(read_run(home / "one"), home / "best", "one")
    assert seen.repeats.shape == (2, 2)
    assert [one.name for one in seen.elsewhere] == ["points", "points, time steps 2 times smaller"]
    assert all(np.isfinite(one.measured).all() for one in seen.elsewhere)
    assert not seen.broken.any()
    assert "| Walker-v0 | search | evogym" in (home / "report.md").read_text()
    assert (home / "best" / "one.png").exists()
    verified = CliRunner().invoke(cli.main, ["verify", str(home / "best" / "one.yaml")])
    assert verified.exit_code == 0, verified.output
    stored = (home / "best" / "one.json").read_bytes()
    assert CliRunner().invoke(cli.main, [*command, "--report-only"]).exit_code == 0
    assert (home / "best" / "one.json").read_bytes() == stored
    there = CliRunner().invoke(cli.main, [*command, "--engine", "points"])
    assert there.exit_code == 0, there.output
    seen = read_checked(read_run(tmp_path / "own-points" / "one"), tmp_path / "own-points" / "best", "one")
    assert [one.name for one in seen.elsewhere] == ["points, time steps 2 times smaller", "evogym"]


def test_tasks_and_engines_are_chosen():
    """Every method of a task, with control steps as they are; tasks that another engine cannot have are left out."""
    (file,) = find_studies("evogym")
    there = dataclasses.replace(file, engine="points")
    chosen = ReproduceOptions("evogym", scale="full", tasks="Walker-v0, CaveCrawler-v0", engine="points")
    assert [job.name for job in plan([there], chosen, Path("runs"))] == ["Walker-v0", "Walker-v0-policy"]
    home, abroad = file.experiment("Walker-v0"), there.experiment("Walker-v0")
    assert abroad.robot.body.engine == "points"
    assert abroad.robot.body.materials == KINDS["points"]
    assert abroad.schedule().calls == home.schedule().calls == 500
    cycles = [
        np.array(one.robot.controller.frequencies) * one.schedule().interval for one in (home, abroad)
    ]  # in a control step
    np.testing.assert_allclose(*cycles)
    with pytest.raises(UserError, match="no such row"):
        plan([file], ReproduceOptions("evogym", scale="full", tasks="Walker"), Path("runs"))


@pytest.mark.slow
def test_winners_are_looked_at_again_in_processes_and_only_that(tmp_path):
    (tmp_path / "own.yaml").write_text(STUDY)
    (tmp_path / "one.yaml").write_text(TINY)
    command = ["reproduce", str(tmp_path / "own.yaml"), "--scale", "tiny", "--only", "one", "--out", str(tmp_path)]
    assert CliRunner().invoke(cli.main, [*command, "--no-report"]).exit_code == 0
    result = CliRunner().invoke(cli.main, [*command, "--report-only", "--no-report", "--jobs", "2"])
    assert result.exit_code == 0, result.output
    home = tmp_path / "own"
    assert "own/one: finished" in result.output
    assert {path.name for path in home.iterdir()} == {"one", "one.log", "best", "claims.md"}
    before = {path.name: path.stat().st_mtime_ns for path in (home / "best").iterdir()}
    assert {"one.yaml", "one.png"} < set(before)
    assert CliRunner().invoke(cli.main, [*command, "--report-only"]).exit_code == 0
    assert (home / "report.md").exists()
    assert {path.name: path.stat().st_mtime_ns for path in (home / "best").iterdir()} == before


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
