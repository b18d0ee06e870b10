"""The command as a user meets it."""

import json
import subprocess
import sys
from typing import get_args

import jax
import pytest
from click.testing import CliRunner
from conftest import ROOT
from PIL import Image

import vsr.cli as cli
from vsr.drawing.colors import GrainQuantity, Palette
from vsr.drawing.overlays import Overlay
from vsr.drawing.painter import Quantity
from vsr.environment.model import Sticking

SHORT = "robot:\n  body: {shape: aa}\n  controller: sine\ntask: {duration: 0.6}\n"


@pytest.fixture
def vsr():
    return lambda *arguments: CliRunner().invoke(cli.main, list(map(str, arguments)))


@pytest.fixture
def short(tmp_path):
    path = tmp_path / "short.yaml"
    path.write_text(SHORT)
    return path


def test_simulate_tells_the_measures(vsr, short):
    result = vsr("simulate", short)
    assert result.exit_code == 0
    assert "travel_velocity" in result.output
    assert "2 voxels" in result.output


@pytest.mark.parametrize("command", ["play", "watch"])
@pytest.mark.parametrize("seconds", ["nan", "0", "inf"])
def test_lives_last_a_while(vsr, command, seconds):
    result = vsr(command, "absent", "--seconds", seconds)
    assert result.exit_code == 2
    assert "is not in the range 0<x<=3600" in result.output


def test_simulate_as_json(vsr, short):
    result = vsr("simulate", short, "--json", "-")
    reported = json.loads(result.stdout)
    assert set(reported["measures"]) == {
        "travel_velocity",
        "relative_velocity",
        "average_height",
        "average_squared_control",
    }
    assert reported["failed"] is False
    assert reported["substeps"] == 6


@pytest.mark.parametrize("suffix", ["gif", "png"])
def test_simulate_draws(vsr, short, tmp_path, suffix):
    target = tmp_path / f"motion.{suffix}"
    assert vsr("simulate", short, "--out", target).exit_code == 0
    with Image.open(target) as image:
        assert len(image.convert("RGB").getcolors(1 << 24)) > 5
        # A GIF keeps equal neighbors as one longer frame.
        assert getattr(image, "n_frames", 1) in (range(9, 14) if suffix == "gif" else (1,))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["short.yaml", target.name])


@pytest.mark.parametrize("name", ["two_layer_worm", "worm", "biped", "tripod"])
def test_examples_are_shipped(name):
    assert (ROOT / "vsr" / "configs" / "robots" / f"{name}.yaml").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["simulate", "nowhere.yaml"], "nowhere.yaml: there is no such file"),
        (["simulate", "configs/robots/worm.yaml", "--out", "x.jpg"], "should end in .gif or .png"),
        (["simulate", "configs/robots/worm.yaml", "--out", "no/such/x.gif"], "there is no folder"),
        (["validate", "--reference", "nowhere"], "nowhere: there is no such folder"),
        (["validate", "--reference", "configs"], "configs: no reference data found"),
        (["validate", "--json", "no/such/file.json"], "there is no folder"),
        (["validate", "--json", "configs"], "--json configs: the name should end in .json"),
        (["validate", "--plots", "README.md"], "--plots README.md: this is a file; give a folder"),
    ],
)
def test_user_errors_are_one_line_and_exit_code_2(vsr, monkeypatch, arguments, message):
    monkeypatch.chdir(ROOT)
    result = vsr(*arguments)
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output
    assert len(result.output.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("single/x.json", '{"a": 1}', "the single data is not laid out as expected: no key 'material'"),
        ("population/x.json", "[]", "the population data is not laid out as expected"),
        ("cantilever/x.csv", "a,b\n1,2\n", "the cantilever_static data is not laid out as expected: no key 'w'"),
        ("locomotion/x.json", "{}", "the locomotion data is not laid out as expected: no key 'input'"),
        ("contact/x.json", "{", "x.json: not readable as JSON"),
    ],
)
def test_malformed_reference_data_is_told(vsr, tmp_path, file, content, message):
    target = tmp_path / file
    target.parent.mkdir()
    target.write_text(content)
    result = vsr("validate", "--reference", tmp_path)
    assert result.exit_code == 2
    assert message in result.output
    assert "Traceback" not in result.output


def test_a_faulty_file_exits_with_2(vsr, tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text("robot:\n  body: {shape: ax}\nphysics: {time_step: -1}\n")
    result = vsr("simulate", bad)
    assert result.exit_code == 2
    assert f"{bad}:2: robot.body" in result.output
    assert f"{bad}:3: physics.time_step" in result.output


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="the fused kernel runs on this device")
@pytest.mark.parametrize("command", ["check", "evolve"])
def test_an_implementation_that_cannot_run_here_is_refused(vsr, monkeypatch, tmp_path, command):
    monkeypatch.chdir(tmp_path)
    result = vsr(
        command,
        str(ROOT / "vsr" / "configs" / "examples" / "01_first_walker.yaml"),
        "--set",
        "physics.implementation=fused",
    )
    assert result.exit_code == 2
    assert result.output.startswith("physics.implementation: 'fused' cannot run here: it needs an NVIDIA GPU")
    assert not list(tmp_path.iterdir())


def test_help_shows_every_command_in_its_section(vsr):
    shown = vsr("--help").output
    for name, command in cli.main.commands.items():
        assert getattr(command, "section", None) in cli.SECTIONS
        assert f"\n  {name} " in shown


@pytest.mark.parametrize(
    ("command", "option", "values"),
    [
        ("validate", "sticking", get_args(Sticking)),
        ("play", "color", get_args(Quantity)),
        ("play", "palette", get_args(Palette)),
        ("play", "grain_color", get_args(GrainQuantity)),
        ("play", "overlays", get_args(Overlay)),
    ],
)
def test_choices_are_those_of_the_library(command, option, values):
    (found,) = [parameter for parameter in cli.main.commands[command].params if parameter.name == option]
    assert set(found.type.choices) == set(values)


@pytest.mark.parametrize("command", ["list", pytest.param("schema", marks=pytest.mark.slow)])
def test_a_closed_pipe_is_no_traceback(command):
    vsr = subprocess.Popen(
        [sys.executable, "-m", "vsr", command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT, text=True
    )
    vsr.stdout.close()
    assert vsr.stderr.read() == ""
    assert vsr.wait(60) == 0
