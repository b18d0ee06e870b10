"""Files from anyone: what is too much or odd is refused in one line, one fault is told once."""

import math
from itertools import pairwise

import pytest
import yaml
from click.testing import CliRunner
from conftest import ROOT

import vsr.cli as cli
from vsr import Body
from vsr.experiments.config import (
    ConfigError,
    UserError,
    load,
    load_experiment,
    parse_experiment,
    parse_scene,
)
from vsr.experiments.config import yaml as yaml_module
from vsr.experiments.config.check import shown
from vsr.experiments.config.problems import MOST_REPORTED
from vsr.experiments.config.yaml import parse_yaml, read_yaml
from vsr.experiments.reach.spec import voxel_at
from vsr.experiments.storage.robots import is_changed
from vsr.experiments.study import is_study

EXPERIMENT = "robot:\n  body: {shape: aa}\n  controller: sine\n"


def faults(text, parse=parse_experiment):
    with pytest.raises(ConfigError) as caught:
        parse(text, "f.yaml")
    return str(caught.value).split("\n")


def bomb(first, again):
    """Ten times as much in every line, by aliases."""
    names = "abcdefghij"
    lines = [f"a: &a {first}"] + [f"{new}: &{new} {again(old)}" for old, new in pairwise(names)]
    return "\n".join(lines) + "\n"


TOO_MUCH = {
    "lists of lists": (
        bomb("[x, x, x, x, x, x, x, x, x, x]", lambda name: f"[{', '.join([f'*{name}'] * 10)}]"),
        "f.yaml:6: f.7: more than 1,000,000 values, with what *e repeats",
    ),
    "mappings of mappings": (
        bomb("{x: 1}", lambda name: "{" + ", ".join(f"k{i}: *{name}" for i in range(10)) + "}"),
        "f.yaml:7: g.k1: more than 1,000,000 values, with what *f repeats",
    ),
    "brackets": (EXPERIMENT + "world: " + "[" * 3000 + "]" * 3000, "f.yaml:4: world.0.0.0: nested more than 50 deep"),
    "indentation": ("".join(" " * i + "a:\n" for i in range(3000)), "f.yaml:51: a.a.a.a: nested more than 50 deep"),
    "dashes": ("- " * 3000 + "x\n", "f.yaml:1: 0.0.0.0: nested more than 50 deep"),
    "aliases inside each other": (
        "a: &a " + "[" * 30 + "]" * 30 + "\nb: " + "[" * 20 + "*a" + "]" * 20 + "\n",
        "f.yaml:2: b.0.0.0: nested more than 50 deep, with what *a repeats",
    ),
    "digits": (EXPERIMENT + f"generations: {'9' * 5000}\n", "f.yaml:4: generations: a number of 5,000 characters given; at most 300"),
    "digits in a list": (EXPERIMENT + f"seeds: [{'9' * 5000}]\n", "f.yaml:4: seeds.0: a number of 5,000 characters given; at most 300"),
    "text": (EXPERIMENT + f"fitness: {'x' * 1_000_001}\n", "f.yaml:4: fitness: 1,000,001 characters in one value; at most 1,000,000"),
    "a key": (EXPERIMENT + f"{'x' * 900}: 1\n", "f.yaml:4: a key of 900 characters (" + "x" * 57 + "...); at most 200"),
    "directives": ("".join(f"%TAG !a{i}! b\n" for i in range(50_000)) + "--- 1\n", "f.yaml: more than 10 %TAG directives; none is needed"),
    "seeds": (EXPERIMENT + f"seeds: [{', '.join(map(str, range(100_001)))}]\n", "f.yaml:4: seeds: 100,001 given; it should have at most 100,000 items"),
}  # fmt: skip


@pytest.mark.parametrize("what", TOO_MUCH)
def test_too_much_is_refused(what):
    text, wanted = TOO_MUCH[what]
    assert faults(text) == [wanted]


def test_no_more_of_a_robot_is_read_than_a_file_may_hold(tmp_path, monkeypatch):
    """`vsr simulate /dev/zero` used to read all of it to see whether a run had written it."""
    file = tmp_path / "robot.yaml"
    file.write_text("# " + "x" * 2000)
    monkeypatch.setattr(yaml_module, "MOST_BYTES", 1000)
    assert is_changed(file)
    result = CliRunner().invoke(cli.main, ["simulate", str(file)])
    assert result.exit_code == 2
    assert "the most that is read" in result.output


ODD = [
    ("optimizer: {type: [x]}", "f.yaml:4: optimizer.type: unknown type ['x']; choose from mu_plus_lambda, random_search"),
    ("optimizer: {type: {a: 1}}", "f.yaml:4: optimizer.type: unknown type {'a': 1}; choose from mu_plus_lambda, random_search"),
    ("task: {type: null}", "f.yaml:4: task.type: unknown type nothing; choose from"),
    ("world: {terrain: {type: [[x]]}}", "f.yaml:4: world.terrain.type: unknown type [['x']]; choose from flat"),
    ("fitness: {measure: [x]}", "f.yaml:4: fitness.measure: ['x'] given; it should be a valid string"),
    ("plugins: [[x]]", "f.yaml:4: plugins.0: ['x'] given; it should be a valid string"),
    ("? [a, b]\n: 1", "f.yaml:4: a key must be a single word"),
    ("generations: !!int 5", "f.yaml:4: generations: !!int: tags are not read; leave it out, and put text in quotes"),
    ("generations: *five", "f.yaml:4: this is not valid YAML: found undefined alias 'five'"),
    ("a: &x 1\nb: &x 2", "f.yaml:5: this is not valid YAML: found duplicate anchor 'x'"),
    ("---\n1", "f.yaml:4: more than one document in the file; --- should not be in it twice"),
    ("a: \0", "f.yaml:4: this is not valid YAML: unacceptable character #x0000"),
    ("a: \ud800", "f.yaml: this is not text (UTF-8)"),
    ("fitness: " + "x" * 9000, f"f.yaml:4: fitness.measure: unknown measure '{'x' * 57}...'; choose from"),
    *(
        (f"seeds: {given}", f"f.yaml:4: seeds: {reported} given; it should be a number n from 1 to 100,000 for the seeds 0 to n-1, a range such as 1000-1029, or a list of seeds")
        for given, reported in (("1000000000", "1000000000"), ("0", "0"), ("2.5", "2.5"), ("ten", "'ten'"), ("9-2", "'9-2'"), ("0-100000", "'0-100000'"), ("true", "true"), ("", "nothing"))
    ),
]  # fmt: skip


@pytest.mark.parametrize(("line", "wanted"), ODD, ids=[line[:20] for line, _ in ODD])
def test_odd_values_are_refused_in_one_line(line, wanted):
    (reported,) = faults(EXPERIMENT + line + "\n")
    assert reported.startswith(wanted)


def test_masses_that_are_no_name_are_refused():
    body = "{type: material_grid, grid: [2, 2], engine: [x]}"
    (reported,) = faults(f"robot: {{body: {body}, controller: sine_by_material}}\n")
    assert reported.startswith("f.yaml:1: robot.body.engine: ['x'] given; allowed: squares, points")


def test_odd_types_do_not_hide_what_a_file_is(tmp_path):
    """Whether a file holds an experiment or a scene is asked before anything of it is checked."""
    for robot in ("{body: {shape: aa}, controller: {type: [x]}}", "{body: {type: [1]}, controller: sine}"):
        file = tmp_path / "f.yaml"
        file.write_text(f"robot: {robot}\n")
        with pytest.raises(
            ConfigError, match=r"^\S*f.yaml:1: robot.(body|controller).type: unknown type \[.*\]; choose"
        ):
            load(file)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("seeds: [x]", "seeds.0: 'x' given; it should be a valid integer"),
        ("seeds: []", "seeds: [] given; it should have at least 1 item"),
        ("robot: {body: {shape: [aa, 3, aa]}, controller: sine}", "robot.body.shape.1: 3 given; it should be a valid string"),
        ("robot: {body: {shape: [[aa], 3, [aa]]}, controller: sine}", "robot.body.shape.1: 3 given; it should be a list"),
        ("fitness: speed\ntask: {type: workspace, duration: no}\nrobot: {body: {shape: aa}, controller: sine}", None),
    ],
)  # fmt: skip
def test_one_fault_is_told_once(line, wanted):
    """Not as each of the kinds that a value may be of, nor again when other faults are taken out of the way."""
    reported = faults(line + "\n" + ("" if "robot" in line else EXPERIMENT))
    if wanted is not None:
        assert [text.partition(": ")[2] for text in reported] == [wanted]
    places = [text.split(": ")[1] for text in reported]
    assert len(set(places)) == len(places)


def test_a_fault_in_rows_is_told_as_one_of_rows():
    reported = faults("robot: {body: {shape: aa}, controller: {type: sine, phase: [[0, 1e308]]}}\n", parse_scene)
    assert reported == [
        "f.yaml:1: robot.controller.phase.0.1: 1e+308 given; it should be zero or between 1e-30 and 1e30 in size"
    ]
    reported = faults("robot: {body: {shape: aa}, controller: {type: sine, phase: [[]]}}\n", parse_scene)
    assert len(reported) == 1


@pytest.mark.slow
def test_of_very_many_faults_the_first_are_told():
    reported = faults(EXPERIMENT + f"seeds: [{'x, ' * 3000}x]\n")
    assert len(reported) == MOST_REPORTED + 1
    assert reported[0] == "f.yaml:4: seeds.0: 'x' given; it should be a valid integer"
    assert reported[-1].startswith("and ")
    assert len(faults(EXPERIMENT + "generations: 5\n" * 3000)) == MOST_REPORTED + 1
    assert len(faults(EXPERIMENT + "".join(f"key{i}: 1\n" for i in range(3000)))) == MOST_REPORTED + 1


def test_values_are_shown_as_far_as_people_read():
    for value in ([1, [2, {"a": None}], "b"], {}, [], {"a": {}}, "it's", 3.5, ()):
        assert shown(value) == repr(value)
    assert shown(None) == "nothing"
    assert shown([["x" * 1000] * 1000] * 1000) == f"[['{'x' * 54}..."
    assert len(shown({f"key {i}": i for i in range(100_000)})) == 60


def test_large_files_are_not_read(tmp_path, monkeypatch):
    file = tmp_path / "f.yaml"
    file.write_text(EXPERIMENT)
    monkeypatch.setattr(yaml_module, "MOST_BYTES", len(EXPERIMENT))
    load_experiment(file)
    file.write_text(EXPERIMENT + "#")
    with pytest.raises(ConfigError, match=r"f\.yaml: larger than 0 MiB, the most that is read"):
        load_experiment(file)
    with pytest.raises(ConfigError, match="cannot be read: embedded null byte"):
        read_yaml("a\0b")


@pytest.mark.parametrize(
    ("setting", "wanted"),
    [
        (".".join("a" * 3000) + "=1", "a path of 3,000 names; at most 50"),
        ("optimizer={population_size: 3, population_size: 4}", "population_size: given twice; first on line 1"),
        ("generations=" + "9" * 5000, "a number of 5,000 characters given; at most 300"),
        ("world=" + "[" * 3000, "nested more than 50 deep"),
        ("fitness=\udcff", "this is not text"),
        ("fitness=[" + "x" * 900, "this is not valid YAML"),
    ],
    ids=lambda text: text[:12],
)
def test_settings_are_bounded_like_files(tmp_path, setting, wanted):
    file = tmp_path / "f.yaml"
    file.write_text(EXPERIMENT)
    with pytest.raises(UserError, match=wanted) as caught:
        load_experiment(file, [setting])
    assert "--set" in str(caught.value)
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


def test_what_an_anchor_holds_is_there_again_with_its_lines():
    text = "a: &x\n  b: [1, two]\nc: *x\nd: [*x, &y 3, *y]\n*y : key\n"
    document = parse_yaml(text)
    inner = {"b": [1, "two"]}
    assert document.data == {"a": inner, "c": inner, "d": [inner, 3, 3], "3": "key"}
    assert document.data["a"]["b"] is not document.data["c"]["b"]
    paths = {("a", "b", 1): 2, ("c",): 3, ("c", "b", 0): 2, ("d", 0): 4, ("d", 0, "b"): 2, ("3",): 5, ("d", 9, "b"): 4}
    assert {path: document.line_of(path) for path in paths} == paths


@pytest.mark.parametrize(
    "text", ["1_000", "nan", "Infinity", "inf", "１２", "+-1", "1e", "e5", ".", "--", "0x10", "1 2"]
)
def test_numbers_of_python_are_no_numbers_of_yaml(text):
    assert parse_yaml(f"[{text}]").data == [text]
    assert parse_yaml(f"key: {text}").data == {"key": text}


def test_numbers_in_lists_are_read_as_anywhere():
    texts = ["1", "-2", "+3", "4.", ".5", "-6e-3", "7E2", "1e400", "0" * 301 + "1", "true", "'8'", "~", ""]
    alone = [parse_yaml(f"key: {text}").data["key"] for text in texts]
    listed = parse_yaml("\n".join(f"- {text}" for text in texts)).data
    assert listed == alone
    assert list(map(type, listed)) == list(map(type, alone))
    assert alone[:8] == [1, -2, 3, 4.0, 0.5, -0.006, 700.0, math.inf]
    assert alone[8] is None


SHIPPED = sorted((ROOT / "vsr" / "configs").rglob("*.yaml"))


def test_without_libyaml_files_mean_the_same(monkeypatch):
    """Where PyYAML was built without it, its own scanner is used."""
    texts = [*(path.read_text() for path in SHIPPED), *(EXPERIMENT + line for line, _ in ODD)]
    texts += [TOO_MUCH[what][0] for what in ("brackets", "aliases inside each other", "digits", "a key")]

    def read(text):
        try:
            document = parse_yaml(text, "f.yaml")
        except ConfigError as error:
            return str(error)
        return document.data, document.place, document.problems

    assert yaml.__with_libyaml__
    with_it = list(map(read, texts))
    monkeypatch.setattr(yaml_module, "_Scanner", yaml.SafeLoader)
    assert list(map(read, texts)) == with_it


def test_points_far_away_are_in_no_voxel(recwarn):
    body = Body(shape="aa", engine="points")
    assert voxel_at(body, (1e29, -1e29)) is None
    assert voxel_at(body, (4.0, 1.0))[0] == (0, 1)
    assert not recwarn.list


def test_results_are_not_copied_onto_themselves(tmp_path):
    result = CliRunner().invoke(cli.main, ["reproduce", "body", "--out", str(tmp_path), "--copy", f"{tmp_path}/."])
    assert result.exit_code == 2
    assert result.output == f"--copy {tmp_path}/.: the runs are there already; give another folder\n"
    assert list(tmp_path.iterdir()) == []


def test_studies_are_told_from_experiments(tmp_path):
    assert is_study(ROOT / "vsr" / "configs" / "studies" / "body.yaml")
    assert not is_study(ROOT / "vsr" / "configs" / "examples" / "01_first_walker.yaml")
    file = tmp_path / "f.yaml"
    file.write_text(EXPERIMENT + "# experiments\n")
    assert not is_study(file)
    result = CliRunner().invoke(cli.main, ["check", str(tmp_path / "none.yaml")])
    assert result.exit_code == 2
    assert result.output.startswith(f"{tmp_path / 'none.yaml'}: there is no such file")
