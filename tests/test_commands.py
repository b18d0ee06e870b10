"""Commands as a whole: their help, options that mean the same everywhere, and those that help to begin."""

import io
import json
import re
import subprocess
import sys
import tomllib
from collections import defaultdict

import click
import pytest
from click.shell_completion import BashComplete
from click.testing import CliRunner
from conftest import ROOT

import vsr.cli as cli
from vsr.experiments import doctor
from vsr.experiments.new import extending_by_name, renamed
from vsr.experiments.shipped import Shipped
from vsr.experiments.storage.files import json_result

OF_FILES = ("check", "simulate", "evolve", "sweep", "play", "refine", "evaluate", "landscape", "reach", "reproduce")
"""Commands that simulate what a file describes."""
SIMULATING = (*OF_FILES, "report", "verify", "train", "bench", "validate")
"""Those that choose a device; `watch` leaves a GPU to the run."""
WITH_RESULTS = (
    "simulate", "compare", "verify", "refine", "evaluate", "landscape", "reach", "bench", "validate",
)  # fmt: skip


@pytest.fixture
def run():
    return lambda *arguments: CliRunner().invoke(cli.main, list(map(str, arguments)))


def options_of(command):
    return {name: one for one in command.params if isinstance(one, click.Option) for name in one.opts}


# Help


def test_summaries_are_short_and_whole(run):
    shown = run("--help").output
    for name, command in cli.main.commands.items():
        summary = command.help.split("\n")[0]
        assert len(summary) <= 50, f"{name}: {summary}"
        assert summary.endswith("."), f"{name}: {summary}"
        assert re.search(rf"^  {name} +{re.escape(summary)}$", shown, re.MULTILINE)
    assert "..." not in shown.split("COMMAND [ARGS]...")[1]


def test_commands_stand_in_groups(run):
    shown = run("--help").output
    places = [shown.index(f"\n{section}:\n") for section in cli.SECTIONS]
    assert places == sorted(places)
    assert [cli.main.commands[name].section for name in ("new", "evolve", "play", "verify", "convert", "reach")] == [
        "Start", "Run", "Look at results", "Test robots", "Convert", "Laboratory",
    ]  # fmt: skip


def test_an_option_of_one_name_means_one_thing():
    """Help begins with what all have in common, up to a comma or the like; types and arity are the same."""
    known = defaultdict(dict)
    for command in cli.main.commands.values():
        for name, option in options_of(command).items():
            assert option.help, f"{command.name} {name} explains nothing"
            meaning = re.split(r"[;:,.]", option.help)[0]
            kind = repr(option.type) if not isinstance(option.type, click.types.StringParamType) else "text"
            known[name].setdefault((meaning, kind, option.is_flag, option.multiple), []).append(command.name)
    different = {name: meanings for name, meanings in known.items() if len(meanings) > 1}
    assert not different


@pytest.mark.parametrize(
    ("option", "commands"), [("--set", OF_FILES), ("--device", SIMULATING), ("--json", WITH_RESULTS)]
)
def test_options_stand_wherever_they_have_a_meaning(option, commands):
    assert {name for name, command in cli.main.commands.items() if option in options_of(command)} >= set(commands)


# Results as JSON


def test_json_goes_into_a_file_to_standard_output_or_nowhere(tmp_path, capsys):
    for given in (None, str(tmp_path / "a.json"), "-"):
        with json_result(given) as write:
            print("a table")  # noqa: T201
            write({"first": 1})
            write({"nan": float("nan")})
        printed = capsys.readouterr().out
        if given == "-":
            assert json.loads(printed) == {"nan": None}
        else:
            assert printed == "a table\n"
    assert json.loads((tmp_path / "a.json").read_text()) == {"nan": None}


def test_a_description_is_not_overwritten_by_results(run, tmp_path):
    """Whoever forgets the file gives the robot's."""
    robot = tmp_path / "robot.yaml"
    robot.write_text("robot: {body: {shape: aa}}\n")
    result = run("simulate", "--json", robot, robot)
    assert result.exit_code == 2
    assert "should end in .json" in result.output
    assert robot.read_text().startswith("robot:")


def test_values_are_set_over_a_robots_file(run, tmp_path):
    robot = tmp_path / "robot.yaml"
    robot.write_text("robot: {body: {shape: aa}, controller: sine}\ntask: {duration: 0.6}\n")
    result = run("simulate", robot, "--set", "task.duration=0.3", "--json", "-")
    assert json.loads(result.stdout)["duration_s"] == pytest.approx(0.3)
    result = run("play", robot, "--set", "task.duraton=0.3", "--out", tmp_path / "a.png")
    assert result.exit_code == 2
    assert "--set task.duraton=0.3: task.duraton: unknown key" in result.output


# A file of one's own


def test_new_copies_an_example_with_its_comments(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    example = next(iter(sorted((ROOT / "vsr" / "configs").rglob("*first_walker.yaml"))), None)
    example = example or ROOT / "vsr" / "configs" / "quickstart.yaml"
    result = run("new", "mine", "--from", example.stem)
    assert result.exit_code == 0, result.output
    copy, original = (tmp_path / "mine.yaml").read_text(), example.read_text()
    assert copy.startswith("#")
    assert copy.count("\n") == original.count("\n")
    values = [line for line in original.splitlines() if not line.startswith("#")]
    assert [line for line in copy.splitlines() if not line.startswith("#")] == values
    assert "next: vsr check mine.yaml, then vsr evolve mine.yaml" in result.output
    (tmp_path / "mine.yaml").write_text("own")
    again = run("new", "mine", "--from", example.stem)
    assert again.exit_code == 2
    assert "mine.yaml: it exists" in again.output
    assert (tmp_path / "mine.yaml").read_text() == "own"


def test_new_knows_no_such_example(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = run("new", "mine", "--from", "nothing_like_it")
    assert result.exit_code == 2
    assert "there is no such file" in result.output
    assert not list(tmp_path.iterdir())


def test_commands_in_comments_are_for_the_copy(tmp_path):
    text = (
        "# Run it: vsr evolve 01_walker, or vsr evolve examples/01_walker.yaml --out runs/01_walker\nname: 01_walker\n"
    )
    copied = renamed(text, "01_walker", tmp_path / "mine.yaml")
    file = tmp_path / "mine.yaml"
    assert copied == f"# Run it: vsr evolve {file}, or vsr evolve {file} --out runs/mine\nname: 01_walker\n"


def test_a_copy_extends_shipped_files_by_name():
    configs = ROOT.resolve() / "vsr" / "configs"
    source = next(iter(sorted(configs.glob("*/*.yaml"))))
    text = f"extends: {source.name}  # the rest\nname: extends\n"
    assert extending_by_name(text, source) == f"extends: {Shipped(source).name}  # the rest\nname: extends\n"
    assert extending_by_name("extends: elsewhere\n", source) == "extends: elsewhere\n"


# What is installed


def test_doctor_finds_all_that_evolve_needs(run):
    result = run("doctor")
    assert result.exit_code == 0, result.output
    for word in ("jaxlib", "python", "devices", "implementation", "cache", "ffmpeg", "[gym]", "links"):
        assert word in result.output
    assert "vsr evolve has all it needs" in result.output


def test_doctor_says_how_to_get_an_extra(run, monkeypatch):
    monkeypatch.setitem(doctor.EXTRAS, "gym", (("no_such_module",), "environments"))
    result = run("doctor")
    assert result.exit_code == 0
    assert "pip install 'voxel-soft-robots[gym]'" in result.output


def test_doctor_fails_for_what_evolve_needs(run, monkeypatch):
    monkeypatch.setattr(doctor, "requires", lambda _: ["jax<0.1", "absent-package>=1", "extra-one; extra == 'x'"])
    result = run("doctor")
    assert result.exit_code == 1
    assert "pip install 'jax<0.1'" in result.output
    assert "pip install 'absent-package>=1'" in result.output
    assert "broken: jax, absent-package" in result.output
    assert "extra-one" not in result.output


def test_doctor_knows_the_extras():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(doctor.EXTRAS) == {name for name in declared if not name.startswith(("cuda", "docs", "test", "oracles"))}
    for extra, (modules, _) in doctor.EXTRAS.items():
        packages = [re.match(r"[\w-]+", line)[0].replace("-", "_") for line in declared[extra]]
        assert list(modules) == packages


@pytest.mark.parametrize(
    ("version", "bounds", "fine"),
    [
        ("0.10.2", ">=0.10.1,<0.12", True),
        ("0.12.0.1", ">=0.10.1,<0.12", False),
        ("0.9", ">=0.10.1", False),
        ("2", "", True),
    ],
)
def test_versions_lie_within_bounds(version, bounds, fine):
    assert doctor.within(version, bounds) is fine


# Shells


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_for_this_command(run, shell):
    result = run("completion", shell)
    assert result.exit_code == 0
    assert f"_VSR_COMPLETE={shell}_complete" in result.output


def completed(*words):
    complete = BashComplete(cli.main, {}, "vsr", "_VSR_COMPLETE")
    return [item.value for item in complete.get_completions(list(words[:-1]), words[-1])]


def test_commands_options_and_shipped_names_are_completed():
    assert completed("evol") == ["evolve"]
    assert "--set" in completed("simulate", "--s")
    assert "biped" in completed("simulate", "bi")
    assert "biped" in completed("new", "mine", "--from", "bi")
    assert completed("completion", "f") == ["fish"]


# Streams without a reader


@pytest.mark.parametrize("arguments", [["--help"], ["completion", "bash"], ["check", "absent"]])
def test_commands_need_no_reader(arguments):
    command = subprocess.Popen(
        [sys.executable, "-m", "vsr", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    )
    command.stdout.close()
    assert b"Traceback" not in command.stderr.read()
    assert command.wait(60) == (2 if "absent" in arguments else 0)


def test_what_nobody_reads_is_lost(tmp_path):
    class Gone(io.FileIO):
        def write(self, data):
            raise BrokenPipeError

    class Pipe(cli._Pipe, Gone):
        pass

    with Pipe(tmp_path / "pipe", "w") as pipe:
        assert pipe.write(b"abc") == 3
