"""Plugins are code: reading runs none unless asked, shows what can be shown without, and says what it leaves out."""

import shutil
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from conftest import TINY
from growing import add_generation, begin_run, put_best, put_meta

import vsr.cli as cli
from vsr.evo import OPTIMIZERS
from vsr.experiments.config import ConfigError, UserError, load, load_scene, run_plugins_of
from vsr.experiments.config.plugins import PluginRequiredError
from vsr.experiments.encodings import CONTROLLERS
from vsr.experiments.evolve.command import read_options
from vsr.experiments.options import EvolveOptions, SweepOptions
from vsr.experiments.play.recordings import read_sources
from vsr.experiments.report.findings import find_out
from vsr.experiments.storage.files import write_arrays
from vsr.experiments.storage.runs import read_run
from vsr.experiments.storage.settings import check_same_experiment
from vsr.experiments.sweep.command import plan_sweep
from vsr.experiments.sweep.folder import write_sweep
from vsr.experiments.watch.following import Follower
from vsr.experiments.watch.portrait import Portrait
from vsr.tasks import MEASURES
from vsr.terrain import TERRAINS

PLUGIN = '''
from pathlib import Path
from typing import Literal

from vsr.evo import OPTIMIZERS, RandomSearch
from vsr.experiments.encodings import CONTROLLERS
from vsr.tasks import MEASURES
from vsr.terrain import TERRAINS, Flat

Path(__file__).with_name("was_run").touch()


class Ice(Flat):
    """Very slippery."""

    type: Literal["ice"] = "ice"
    friction: float = 0.01


class Lottery(RandomSearch):
    """Nothing but luck."""

    type: Literal["lottery"] = "lottery"


class Waves(CONTROLLERS["sine"]):
    """As sine."""

    type: Literal["waves"] = "waves"


def slide(episode):
    """How far the center came [m]."""
    return episode.end[0] - episode.start[0]


TERRAINS["ice"], OPTIMIZERS["lottery"], MEASURES["slide"], CONTROLLERS["waves"] = Ice, Lottery, slide, Waves
'''
NAME = "plugin_of_a_stranger"
EXPERIMENT = (
    TINY.replace("{population_size: 6, tournament_size: 2}", "{type: lottery, population_size: 6}")
    + "world: {terrain: ice}\nfitness: slide\n"
)
ROBOT = (
    "robot: {body: {shape: [ab], materials: {a: {}, b: {}}}, controller: sine}\nworld: {terrain: ice}\n"
    "task: {duration: 0.1, placement: {clearance: 0.0}}\n"
)


def forget():
    for registry, name in ((TERRAINS, "ice"), (OPTIMIZERS, "lottery"), (MEASURES, "slide"), (CONTROLLERS, "waves")):
        registry.pop(name, None)
    sys.modules.pop(NAME, None)


@pytest.fixture
def run(tmp_path):
    """A run folder as somebody sends it, with three generations, a robot, lineage and the plugin it was made with."""
    folder = begin_run(tmp_path / "run", EXPERIMENT + f"plugins: [{NAME}]\n")
    for generation in range(3):
        add_generation(folder, generation)
    for seed in (0, 1):
        put_best(folder, seed, 6, ROBOT + f"plugins: [{NAME}]\n")
    put_meta(folder, sessions=[{"generation": 0}])
    every = np.arange(18).reshape(3, 6)
    parents = np.stack([every - 6, np.full_like(every, -1)], -1)
    arrays = {"id": every, "parents": np.maximum(parents, -1), "fitness": every / 20.0, "best_id": every[:, -1]}
    of_seeds = {name: np.stack([value] * 2) for name, value in arrays.items()}
    write_arrays(folder / "lineage" / "00000000.npz", of_seeds, {"first": 0, "count": of_seeds["id"].shape[1]})
    (folder / "plugins").mkdir()
    (folder / "plugins" / f"{NAME}.py").write_text(PLUGIN)
    yield folder
    forget()


def was_run(folder):
    return (folder / "plugins" / "was_run").exists()


def vsr(*arguments):
    result = CliRunner().invoke(cli.main, list(map(str, arguments)), env={"COLUMNS": "300", "VSR_TRUST_PLUGINS": None})
    assert not result.exception or isinstance(result.exception, SystemExit), result.exception
    return result


def robot_of(folder):
    return folder / "best" / "seed-0.yaml"


READERS = {
    "plot": lambda run: ["plot", run, "--out", run.parent / "curve.png"],
    "compare": lambda run: ["compare", run, run],
    "compare as JSON": lambda run: ["compare", run, "--json", "-"],
}
SIMULATORS = {
    "report": lambda run: ["report", run, "--out", run.parent / "page.html"],
    "play": lambda run: ["play", run, "--out", run.parent / "film.png"],
    "play a generation": lambda run: ["play", run, "--generation", 1, "--out", run.parent / "film.png"],
    "play a file": lambda run: ["play", robot_of(run), "--out", run.parent / "film.png"],
    "refine": lambda run: ["refine", run, "--json", run.parent / "all.json"],
    "simulate": lambda run: ["simulate", robot_of(run)],
    "check a robot": lambda run: ["check", robot_of(run)],
    "check an experiment": lambda run: ["check", run / "config.yaml"],
}


@pytest.mark.parametrize("what", READERS)
def test_curves_are_shown_without_running_code(run, what):
    result = vsr(*READERS[what](run))
    assert result.exit_code == 0, result.output
    assert not was_run(run)
    assert NAME not in sys.modules


@pytest.mark.parametrize("what", SIMULATORS)
def test_nothing_is_simulated_without_its_code(run, what):
    before = sorted(run.parent.rglob("*"))
    result = vsr(*SIMULATORS[what](run))
    assert result.exit_code == 2
    assert len(result.output.strip().splitlines()) == 1
    file = run / "plugins" / f"{NAME}.py"
    assert (
        f"this needs the plugin {NAME} ({file}): code, which reading does not run; --trust-plugins runs it"
        in result.output
    )
    assert not was_run(run)
    assert sorted(run.parent.rglob("*")) == before


def test_the_page_of_a_run_is_served_without_its_robots(run):
    follower = Follower(run)
    shown = follower.look()
    assert shown["generations"] == 3
    assert shown["robots"] == 12
    assert "--trust-plugins" in follower.left_out
    portrait = Portrait(follower, 0.1)
    portrait.request()
    assert portrait.look()
    assert portrait.version == 0
    assert "--trust-plugins runs it" in portrait.trouble
    assert not was_run(run)
    assert Follower(run, run_plugins=True).look()["generations"] == 3
    assert was_run(run)


@pytest.mark.slow
def test_with_trust_all_is_there(run):
    result = vsr("check", robot_of(run), "--trust-plugins")
    assert result.exit_code == 0, result.output
    assert was_run(run)
    scene = load_scene(robot_of(run))  # it is loaded now
    assert scene.world.terrain.friction == 0.01
    assert read_sources([str(run)])[0].scene.world.terrain.type == "ice"
    found = find_out(read_run(run), "run")
    assert found.warnings == ()
    assert found.scene == scene


@pytest.mark.slow
@pytest.mark.parametrize("command", ["report", "check"])
def test_trust_is_given_by_an_option_or_a_variable(run, command, tmp_path):
    more = {"report": ["--out", tmp_path / "page.html"]}.get(command, [])
    given = robot_of(run) if command == "check" else run
    result = CliRunner().invoke(cli.main, list(map(str, [command, given, *more])), env={"VSR_TRUST_PLUGINS": "1"})
    assert result.exit_code == 0, result.output
    assert was_run(run)


def test_what_would_pass_without_a_plugin_is_not_simulated_either(tmp_path):
    """A plugin may change what is there already: the same names need not mean the same."""
    file = tmp_path / "robot.yaml"
    file.write_text(ROBOT.replace("ice", "flat") + "plugins: [nobody_knows]\n")
    with pytest.raises(PluginRequiredError, match="plugin nobody_knows: code"):
        load_scene(file)


def test_evolving_runs_plugins_and_says_which_a_folder_brings_along(run, capsys):
    with (run / "config.yaml").open("a") as config:
        config.write("physics: {substeps: 6, integrator: semi_implicit_euler}\n")
    experiment, path = read_options(EvolveOptions(str(run), resume=True))
    assert path == run
    assert experiment.world.terrain.type == "ice"
    assert was_run(run)
    file = run / "plugins" / f"{NAME}.py"
    assert capsys.readouterr().out == f"running the plugin {file}, which the run brings along\n"
    (run / "config.yaml").write_text(EXPERIMENT)
    with pytest.raises(UserError, match="plugins: "):
        check_same_experiment(run, experiment)


def test_a_run_does_not_go_on_with_another_plugin_of_the_same_name(run, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / f"{NAME}.py").write_text(PLUGIN.replace("0.01", "0.5"))
    (home / "f.yaml").write_text((run / "config.yaml").read_text())
    with pytest.raises(UserError, match=f"plugin '{NAME}' is not what it was when the run began"):
        read_options(EvolveOptions(str(home / "f.yaml"), out=str(run), resume=True))
    assert not was_run(run)


def test_how_a_sweep_stands_is_shown_to_those_who_trust_its_code(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / f"{NAME}.py").write_text(PLUGIN)
    (home / "f.yaml").write_text(EXPERIMENT + f"plugins: [{NAME}]\n")
    options = SweepOptions(str(home / "f.yaml"), sweeps=("optimizer.population_size=6,7",), out=str(tmp_path / "sweep"))
    write_sweep(plan_sweep(options), options.config)
    forget()
    shutil.rmtree(home)
    result = vsr("sweep", tmp_path / "sweep")
    assert result.exit_code == 2
    assert "--trust-plugins" in result.output
    assert not (tmp_path / "sweep" / "plugins" / "was_run").exists()
    result = vsr("sweep", tmp_path / "sweep", "--trust-plugins")
    assert result.exit_code == 0, result.output
    assert result.output.count("not begun") == 2
    assert (tmp_path / "sweep" / "plugins" / f"{NAME}.py").is_file()


def test_two_plugins_of_one_name_are_not_confused(run, tmp_path):
    (tmp_path / "second").mkdir()
    (tmp_path / "second" / f"{NAME}.py").write_text(PLUGIN.replace("0.01", "0.5"))
    file = tmp_path / "second" / "robot.yaml"
    file.write_text(ROBOT + f"plugins: [{NAME}]\n")
    run_plugins_of(robot_of(run))
    with pytest.raises(PluginRequiredError):
        load_scene(file)
    with pytest.raises(ConfigError, match=f"robot.yaml:4: plugins.0: another plugin '{NAME}' is loaded"):
        load_scene(file, run_plugins=True)


def test_a_plugin_may_bring_what_evolves(tmp_path):
    """Whether a file is an experiment is known once its plugins are loaded."""
    (tmp_path / f"{NAME}.py").write_text(PLUGIN)
    file = tmp_path / "f.yaml"
    file.write_text(f"plugins: [{NAME}]\nrobot: {{body: {{shape: aa}}, controller: waves}}\n")
    try:
        assert load(file, run_plugins=True).robot.controller.type == "waves"
    finally:
        forget()


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("raise SystemExit", "ends the program on import (sys.exit())"),
        ("import sys; sys.exit(3)", "ends the program on import (sys.exit(3))"),
        ("raise GeneratorExit('enough')", "failed on import: GeneratorExit: enough"),
        ("import not_a_module_at_all", "failed on import: ModuleNotFoundError: No module named 'not_a_module_at_all'"),
        ("x =", "failed on import: SyntaxError: invalid syntax"),
    ],
)
def test_a_plugin_that_ends_or_fails_is_told(tmp_path, code, wanted):
    (tmp_path / "faulty_plugin.py").write_text(code + "\n")
    file = tmp_path / "f.yaml"
    file.write_text(TINY + "plugins: [faulty_plugin]\n")
    result = vsr("evolve", file, "--out", tmp_path / "run")
    assert result.exit_code == 2
    assert result.output.startswith(f"{file}:9: plugins.0: plugin 'faulty_plugin' {wanted}")
    assert not (tmp_path / "run").exists()
    result = vsr("list", "--plugin", "faulty_plugin")  # looked for in the current folder
    assert result.exit_code == 2
    assert result.output.startswith("--plugin faulty_plugin: there is no module")


def test_code_that_ends_the_program_is_told(tmp_path, monkeypatch):
    """As a component of a plugin may do, when it is used."""
    import vsr.experiments.check as check

    def leave(*_, **__):
        sys.exit(0)

    monkeypatch.setattr(check, "load", leave)
    (tmp_path / "f.yaml").write_text(TINY)
    result = vsr("check", tmp_path / "f.yaml")
    assert result.exit_code == 2
    assert f"{__file__}:" in result.output
    assert "it called sys.exit(0)" in result.output


EMPTY = [
    ["evolve", "first_walker", "--out", ""], ["evolve", ""], ["evolve", "first_walker", "--coordinator", " "],
    ["play", "", "--out", "a.png"], ["play", "robot.yaml", "--out", ""], ["refine", "robot.yaml", "--plot", ""],
    ["refine", "robot.yaml", "--json", ""], ["report", "run", ""], ["report", "run", "--out", "\t"], ["plot", "run", "--out", ""],
    ["compare", ""], ["watch", ""], ["check", ""], ["check", "first_walker", "--set", ""], ["simulate", "robot.yaml", "--out", ""],
    ["sweep", "first_walker", "--out", "", "--sweep", "optimizer.population_size=1,2"], ["sweep", "first_walker", "--sweep", ""],
    ["reproduce", "body", "--out", ""], ["reproduce", "body", "--copy", ""], ["reproduce", ""], ["list", ""], ["list", "--plugin", ""],
    ["bench", "2d", "--json", ""], ["validate", "--plots", ""], ["validate", "--reference", ""], ["train", "bulldozing", "--out", ""],
    ["reach", ""], ["reach", "x.yaml", "--json", ""],
]  # fmt: skip


@pytest.mark.parametrize("arguments", EMPTY, ids=lambda arguments: "_".join(arguments))
def test_nothing_is_called_the_empty_name(arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = vsr(*arguments)
    assert result.exit_code == 2
    assert "it is empty." in result.output
    assert list(tmp_path.iterdir()) == []
