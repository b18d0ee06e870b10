"""Files that come with the package: found by name from anywhere, listed, and second to those of the current folder."""

import shutil

import pytest
from click.testing import CliRunner
from conftest import ROOT, TINY

from vsr import cli
from vsr.experiments.config.problems import ConfigError
from vsr.experiments.evolve.command import read_options
from vsr.experiments.options import EvolveOptions
from vsr.experiments.shipped import EXPERIMENT, REACH, SCENE, STUDY, USE, find_config, shipped_files, source_of
from vsr.experiments.study import find_studies

CONFIGS = ROOT / "vsr" / "configs"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def vsr(*arguments):
    return CliRunner().invoke(cli.main, [str(argument) for argument in arguments])


def test_every_file_is_found_by_its_name_and_tells_what_it_is():
    files = shipped_files()
    assert {file.path for file in files} == set(CONFIGS.rglob("*.yaml"))
    assert {file.kind for file in files} == set(USE)
    for file in files:
        assert find_config(file.name, file.kind) == file.path
        assert len(file.about) > 20, f"{file.path} does not begin with a comment"
        assert "same" not in file.about.split()[:3], f"{file.path}: a list shows this line without the one before"


def test_all_are_listed():
    listed = vsr("list", "configs")
    assert listed.exit_code == 0
    first_words = [line.split()[0] for line in listed.output.splitlines() if line.startswith("   ")]
    assert {file.name for file in shipped_files()} <= set(first_words)
    assert "vsr list configs" in vsr("list").output
    assert "there is no kind 'confgs'; did you mean 'configs'?" in vsr("list", "confgs").output


@pytest.mark.parametrize(
    ("given", "kinds", "file"),
    [
        ("biped", (EXPERIMENT, SCENE, STUDY), "biped"),
        ("quadruped", (EXPERIMENT,), "3d/quadruped"),
        ("worm", (SCENE,), "worm"),
        ("worm", (EXPERIMENT,), "3d/worm"),
        ("sand", (EXPERIMENT,), "sand"),
        ("sand", (STUDY,), "studies/sand"),
        ("finger", (REACH,), "reach/finger"),
    ],
)
def test_a_name_is_what_the_command_works_with(given, kinds, file):
    assert find_config(given, *kinds) == CONFIGS / f"{file}.yaml"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "biepd"), "biepd: there is no such file; did you mean 'biped', which is shipped?"),
        (("evolve", "quickstrat"), "quickstrat: there is no such file; did you mean 'quickstart', which is shipped?"),
        (("evolve", "configs/3d/quadruped.yaml"), "did you mean '3d/quadruped', which is shipped?"),
        (("evolve", "runs/gone", "--resume"), "runs/gone: there is no such file; vsr list configs shows what is"),
        (("check", "body"), "body: several shipped files have this name; give one of 3d/body, studies/body"),
        (("simulate", "quadruped"), "quadruped: no shipped scene has this name; 3d/quadruped is for vsr evolve"),
        (("play", "quickstart"), "quickstart: no shipped scene has this name; quickstart is for vsr evolve"),
        (("refine", "bipd"), "bipd: there is no such file; did you mean 'biped', which is shipped?"),
        (("reach", "fingr"), "fingr: there is no such file; did you mean 'finger', which is shipped?"),
        (
            ("sweep", "quickstrat", "--sweep", "optimizer.population_size=2,3"),
            "did you mean 'quickstart', which is shipped?",
        ),
    ],
)
def test_near_misses_are_helped(elsewhere, arguments, message):
    result = vsr(*arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert len(result.output.strip().splitlines()) == 1
    assert not list(elsewhere.iterdir())


def test_what_lies_in_the_current_folder_goes_first(elsewhere):
    own = elsewhere / "quickstart.yaml"
    own.write_text(TINY)
    assert find_config("quickstart", EXPERIMENT).resolve() == own
    assert find_config("quickstart", STUDY, EXPERIMENT).resolve() == own
    own.write_text("robot: [")
    with pytest.raises(ConfigError, match=r"quickstart.yaml:\d+: this is not valid YAML"):
        read_options(EvolveOptions(config="quickstart"))
    (elsewhere / "body.yaml").write_text(TINY)  # no study
    assert find_studies("body")[0].path == CONFIGS / "studies" / "body.yaml"
    (elsewhere / "biped").write_text(TINY)
    assert str(find_config("biped", SCENE)) == "biped"
    (elsewhere / "tripod").mkdir()  # a folder, where only a file can be meant
    assert find_config("tripod", SCENE) == CONFIGS / "tripod.yaml"


def test_a_run_of_a_shipped_file_goes_where_that_of_a_file_would(elsewhere):
    experiment, path = read_options(EvolveOptions(config="3d/worm"))
    assert str(path) == "runs/worm"
    shutil.copy(CONFIGS / "3d" / "worm.yaml", "own.yaml")
    assert read_options(EvolveOptions(config="own.yaml"))[0] == experiment
    assert source_of(find_config("3d/worm", EXPERIMENT)) == "3d/worm, shipped with vsr"
    assert source_of(find_config("own", EXPERIMENT)) == "own.yaml"
