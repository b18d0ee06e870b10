"""Files that come with the package: found by name from anywhere, listed, and second to those of the current folder."""

import shutil

import pytest
from click.testing import CliRunner
from conftest import ROOT, TINY

from vsr import cli
from vsr.experiments.config.problems import ConfigError
from vsr.experiments.evolve.command import read_options
from vsr.experiments.installed import names_of
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
        for name in names_of(file.path):
            assert find_config(name, file.kind) == file.path
        assert len(file.about) > 20, f"{file.path} does not begin with a comment"
        assert "same" not in file.about.split()[:3], f"{file.path}: a list shows this line without the one before"


def test_a_name_means_one_file():
    names = [name for file in shipped_files() for name in names_of(file.path)]
    assert len(names) == len(set(names))


def listed(*options):
    result = vsr("list", "configs", *options)
    assert result.exit_code == 0
    return {line.split()[0] for line in result.output.splitlines() if line.startswith("   ")}


def test_all_are_listed_and_parts_of_studies_only_if_asked_for():
    assert {file.name for file in shipped_files()} <= listed("--all")
    shown = listed()
    assert {"01_first_walker", "biped", "paper", "body"} <= shown
    assert not {"5x5", "recurrent_network"} & shown
    assert "vsr list configs" in vsr("list").output
    assert "there is no kind 'confgs'; did you mean 'configs'?" in vsr("list", "confgs").output


@pytest.mark.parametrize(
    ("given", "kinds", "file"),
    [
        ("biped", (EXPERIMENT, SCENE, STUDY), "robots/biped"),
        ("robots/biped", (SCENE,), "robots/biped"),
        ("first_walker", (EXPERIMENT,), "examples/01_first_walker"),
        ("01_first_walker", (EXPERIMENT,), "examples/01_first_walker"),
        ("examples/first_walker", (EXPERIMENT,), "examples/01_first_walker"),
        ("3d_quadruped", (EXPERIMENT,), "examples/08_3d_quadruped"),
        ("5x5", (EXPERIMENT,), "studies/body/5x5"),
        ("grounds", (STUDY,), "studies/grounds"),
        ("finger", (REACH,), "reach/finger"),
    ],
)
def test_a_name_is_what_the_command_works_with(given, kinds, file):
    assert find_config(given, *kinds) == CONFIGS / f"{file}.yaml"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("check", "biepd"), "biepd: there is no such file; did you mean 'biped', which is shipped?"),
        (("evolve", "first_wakler"), "first_wakler: there is no such file; did you mean 'first_walker', which is"),
        (("evolve", "configs/examples/quadruped.yaml"), "did you mean 'examples/3d_quadruped', which is shipped?"),
        (("evolve", "runs/gone", "--resume"), "runs/gone: there is no such file; vsr list configs shows what is"),
        (("simulate", "3d_quadruped"), "no shipped scene has this name; 08_3d_quadruped is for vsr evolve"),
        (("evolve", "paper"), "no shipped experiment has this name; paper is for `extends: NAME` in a file"),
        (("refine", "bipd"), "bipd: there is no such file; did you mean 'biped', which is shipped?"),
        (("reach", "fingr"), "fingr: there is no such file; did you mean 'finger', which is shipped?"),
        (
            ("sweep", "first_wakler", "--sweep", "optimizer.population_size=2,3"),
            "did you mean 'first_walker', which is shipped?",
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
    own = elsewhere / "first_walker.yaml"
    own.write_text(TINY)
    assert find_config("first_walker", EXPERIMENT).resolve() == own
    assert find_config("first_walker", STUDY, EXPERIMENT).resolve() == own
    own.write_text("robot: [")
    with pytest.raises(ConfigError, match=r"first_walker.yaml:\d+: this is not valid YAML"):
        read_options(EvolveOptions(config="first_walker"))
    (elsewhere / "body.yaml").write_text(TINY)  # no study
    assert find_studies("body")[0].path == CONFIGS / "studies" / "body.yaml"
    (elsewhere / "biped").write_text(TINY)
    assert str(find_config("biped", SCENE)) == "biped"
    (elsewhere / "tripod").mkdir()  # a folder, where only a file can be meant
    assert find_config("tripod", SCENE) == CONFIGS / "robots" / "tripod.yaml"


def test_a_run_of_a_shipped_file_goes_where_that_of_a_file_would(elsewhere):
    experiment, path = read_options(EvolveOptions(config="robust"))
    assert str(path) == "runs/robust"
    shutil.copy(CONFIGS / "examples" / "07_robust.yaml", "own.yaml")
    assert read_options(EvolveOptions(config="own.yaml"))[0] == experiment
    assert source_of(find_config("robust", EXPERIMENT)) == "07_robust, shipped with vsr"
    assert source_of(find_config("own", EXPERIMENT)) == "own.yaml"
