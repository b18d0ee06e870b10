"""`vsr verify`: scores that hold, scores that do not, and files that were changed."""

import json
from dataclasses import replace

import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from conftest import TINY, apart
from growing import rows_of

from vsr.cli import main
from vsr.experiments.config import dump_plain, load_scene
from vsr.experiments.storage.provenance import describe_session
from vsr.experiments.storage.robots import experiment_of, load_robot, made_with, read_record
from vsr.experiments.verify import StoredRobot, _explained, _verdict, load_claim


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("verify")
    (folder / "tiny.yaml").write_text(TINY)
    result = vsr("evolve", folder / "tiny.yaml", "--out", folder / "run", "--no-report")
    assert result.exit_code == 0, result.output
    return folder / "run"


def vsr(*arguments):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


def found(*arguments):
    """Exit code, and what was found of every file."""
    result = apart().invoke(main, ["verify", *map(str, arguments), "--json", "-"])
    assert result.exit_code in (0, 1), result.output
    return result.exit_code, json.loads(result.stdout)["robots"]


def changed(run, target, change, seed=0):
    """A copy of a best robot's file with some values changed."""
    data = yaml.safe_load((run / "best" / f"seed-{seed}.yaml").read_text())
    change(data)
    target.write_text(dump_plain(data))
    return target


def test_scores_of_a_run_hold_with_all_digits(run, tmp_path):
    reordered = changed(run, tmp_path / "reordered.yaml", lambda data: data.update(physics=data.pop("physics")))
    code, robots = found(run, reordered)
    assert code == 0
    assert [robot["exact"] for robot in robots] == [True] * 3
    assert [robot["score"] for robot in robots[:2]] == [robot["again"] for robot in robots[:2]]
    assert robots[0]["otherwise"] == []
    last = rows_of(run)[-2:]
    assert [robot["score"] for robot in robots[:2]] == [line["best"] for line in last]
    shown = vsr("verify", run)
    assert shown.exit_code == 0
    assert "2 of 2 confirmed, 2 with all digits" in shown.output


@pytest.mark.slow
def test_what_was_changed_is_not_confirmed(run, tmp_path):
    def other_body(data):
        data["robot"]["body"]["materials"]["a"]["friction"] = 90.0

    def other_brain(data):
        data["robot"]["controller"]["frequency"] = 1.1

    def other_scene(data):
        data["world"]["gravity"] = 9.7

    def other_genes(data):
        data["evolved"]["genes"]["controller"][0] += 0.1

    def other_score(data):
        data["evolved"]["score"] *= 1.02

    def a_little_other_score(data):
        data["evolved"]["score"] *= 1.001

    changes = (other_body, other_brain, other_scene, other_genes, other_score, a_little_other_score)
    files = [changed(run, tmp_path / f"{change.__name__}.yaml", change) for change in changes]
    code, robots = found(*files)
    assert code == 1
    assert [robot["changed"] for robot in robots] == [["body"], ["controller"], ["scene"], ["genes"], [], []]
    assert [robot["confirmed"] for robot in robots] == [False] * 5 + [True]
    assert [robot["exact"] for robot in robots] == [False] * 6
    assert [robot["again"] is None for robot in robots] == [True] * 4 + [False] * 2
    assert robots[4]["difference"] == pytest.approx(1 / 1.02 - 1)
    assert found(files[-1], "--tolerance", "0")[0] == 1
    assert found(files[-1])[0] == 0


def test_files_that_cannot_be_verified_are_all_named(run, tmp_path):
    older = changed(run, tmp_path / "older.yaml", lambda data: data.pop("evolved"))
    short = changed(run, tmp_path / "short.yaml", lambda data: data["evolved"].pop("score"))
    strange = changed(
        run, tmp_path / "strange.yaml", lambda data: data["evolved"]["experiment"]["optimizer"].update(n_top=1)
    )
    late = changed(run, tmp_path / "late.yaml", lambda data: data["evolved"].update(seed=-1, generation=2**40))
    result = vsr("verify", run, older, short, strange, tmp_path / "gone.yaml", late)
    assert result.exit_code == 2
    lines = result.output.strip().splitlines()
    assert "older.yaml: it has no block `evolved`, so that there is no score to confirm" in lines[0]
    assert "evolved.score: missing" in lines[1]
    number = (tmp_path / "strange.yaml").read_text().splitlines()[int(lines[2].split(":")[1]) - 1]
    assert "optimizer:" in number or "n_top" in number
    assert "did you mean 'population_size'" in lines[2] or "tournament_size" in lines[2]
    assert "gone.yaml: cannot be read" in lines[3] or "no such file" in lines[3].lower()
    assert "evolved.seed: " in lines[4]
    assert "evolved.generation: " in lines[5]
    assert len(lines) == 6


@pytest.mark.parametrize("strange", ["text", 0.5, ["list"], {"XLA_FLAGS": 3}])
def test_what_a_file_says_of_its_making_may_be_anything(run, tmp_path, strange):
    def change(data):
        data["evolved"]["made_with"].update(flags=strange, plugins=strange, packages=strange)

    read_file = load_claim(changed(run, tmp_path / "strange.yaml", change), describe_session(0))
    assert any("flags was" in one for one in read_file.otherwise)
    assert any("packages was" in one for one in read_file.otherwise)


def test_genes_of_which_nothing_can_be_made_are_not_the_robots(run, tmp_path):
    def change(data):
        data["evolved"]["genes"]["controller"] = [1e300] * len(data["evolved"]["genes"]["controller"])

    assert load_claim(changed(run, tmp_path / "strange.yaml", change), describe_session(0)).changed == ("genes",)


def test_the_block_is_no_part_of_the_scene(run):
    file = run / "best" / "seed-0.yaml"
    assert load_robot(file) == load_scene(file)
    assert "evolved" not in load_scene(file).to_plain()
    record, _ = read_record(file)
    best = np.load(sorted((run / "lineage").glob("*.npz"))[-1])
    np.testing.assert_array_equal(np.float32(record.genes["controller"]), best["best_genes.controller"][0, -1])
    assert vsr("check", file).exit_code == 0


def test_a_robot_is_of_the_start_that_evaluated_it():
    sessions = [{"generation": 0, "device": "cpu"}, {"generation": 7, "device": "gpu", "time": "now"}]
    assert made_with(sessions, 6) == {"device": "cpu"}
    assert made_with(sessions, 7) == {"device": "gpu"}
    assert made_with([], 3) == {}


# Other devices and versions


@pytest.fixture
def elsewhere(run):
    """A robot from another device."""
    file = run / "best" / "seed-0.yaml"
    record, document = read_record(file)
    experiment = experiment_of(record, document)
    record = record.model_copy(update={"score": 0.2})
    return StoredRobot(file, record, load_scene(file), experiment, otherwise=("device was gpu, is cpu",))


def test_a_chaotic_gait_is_told_from_a_false_score(elsewhere):
    verdict = _verdict(elsewhere, 0.1, 0.01)
    assert not verdict.confirmed
    assert verdict.reason == "not confirmed, 50 % less"
    chaotic = _explained(verdict, (0.05, 0.21))
    assert "give 0.05 to 0.21" in chaotic.reason
    assert not chaotic.confirmed
    assert "rounding does not explain it" in _explained(verdict, (0.09, 0.11)).reason
    assert _verdict(elsewhere, 0.1999, 0.01).reason == "confirmed, 0.05 % less"
    assert _verdict(elsewhere, float("nan"), 0.01).reason == "not confirmed: the simulation failed"
    nothing = replace(elsewhere, record=elsewhere.record.model_copy(update={"score": 0.0}))
    assert not _verdict(nothing, 1e-9, 0.01).confirmed


@pytest.mark.slow
def test_on_another_version_a_robot_is_evaluated_alone(run, tmp_path):
    def of_another_version(data):
        data["evolved"]["made_with"]["packages"]["jax"] = "0.4.0"

    def false(data):
        of_another_version(data)
        data["evolved"]["score"] *= 2

    files = [changed(run, tmp_path / f"{change.__name__}.yaml", change) for change in (of_another_version, false)]
    code, robots = found(*files)
    assert code == 1
    assert [robot["confirmed"] for robot in robots] == [True, False]
    assert "packages was" in robots[0]["otherwise"][0]
    assert robots[0]["difference"] == pytest.approx(0, abs=1e-4)
    assert "rounding does not explain it" in robots[1]["reason"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        [
            "robot.controller={type: mlp, sensors: [{quantity: contact}, {quantity: area_ratio}]}",
            "optimizer.population_size=7",
            "seeds=3",
        ],
        [
            "evaluation={trials: 2, aggregate: worst, refine: {factor: 2, top: 0.6, trials: 3}}",
            "optimizer.population_size=5",
            "seeds=3",
        ],
        ["robot.body={type: material_grid, grid: [3, 2]}", "fitness={measure: average_height, direction: minimize}"],
    ],
)
def test_all_digits_hold_for_networks_leaders_and_bodies(run, tmp_path, settings):
    given = [word for setting in settings for word in ("--set", setting)]
    config = run.parent / "tiny.yaml"
    result = vsr("evolve", config, *given, "--out", tmp_path / "run", "--no-report")
    assert result.exit_code == 0, result.output
    code, robots = found(tmp_path / "run")
    assert code == 0
    assert all(robot["exact"] for robot in robots)
