"""Files: YAML as people mean it, every fault told, round trips."""

import json
import math

import pytest
import yaml
from conftest import ROOT

from experiments.config import ConfigError, dump_yaml, load_scene, parse_scene
from experiments.config.yaml_reader import parse_yaml
from vsr import MLP, Body, Development, Material, Polyline, Robot, Scene, Sense, Sine, Steppy, World

CONFIGS = sorted((ROOT / "configs").glob("*.yaml"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-3", 1e-3), ("1E5", 1e5), (".5", 0.5), ("5.", 5.0), ("-3", -3), ("+.5e1", 5.0), ("no", "no"), ("yes", "yes"),
        ("on", "on"), ("true", True), ("False", False), ("null", None), ("~", None), ("1:30", "1:30"), ("0o17", "0o17"),
        ("'1'", "1"), ('"true"', "true"), ("2001-01-01", "2001-01-01"), ("1_000", "1_000"), (".inf", math.inf),
    ],
)  # fmt: skip
def test_plain_values_mean_what_they_look_like(text, value):
    read = parse_yaml(f"key: {text}").data["key"]
    assert read == value
    assert type(read) is type(value)


def test_every_line_is_known():
    document = parse_yaml("a:\n  b: 1\n  c:\n    - x\n    - y: 2\n")
    assert document.lines[("a", "b")] == 2
    assert document.lines[("a", "c", 1, "y")] == 5
    assert document.line_of(("a", "b", "unknown")) == 2


def faults(text):
    with pytest.raises(ConfigError) as caught:
        parse_scene(text, "robot.yaml")
    return [str(problem) for problem in caught.value.problems]


BODY = "robot:\n  body:\n    shape: aa\n"


def test_all_faults_are_told_with_line_and_path():
    text = """\
robot:
  body:
    shape: |
      aab
      a.a
    materials:
      a: {mass_side_ratio: 0.7, frictoin: 3}
      b: {scaffolding: [central_cross], actuation: no}
  controller:
    type: sine
    frequency: fast
    frequency: 2
world:
  terrain: flatt
  gravity: yes
task:
  durration: 3
  measures: [travel_speed]
physics:
  time_step: 1/0
  substeps: 0
"""
    told = faults(text)
    for wanted in (
        "robot.yaml:7: robot.body.materials.a.mass_side_ratio: 0.7 given; it should be less than or equal to 0.5",
        "robot.yaml:7: robot.body.materials.a.frictoin: unknown key; did you mean 'friction'?",
        "robot.yaml:8: robot.body.materials.b.actuation: 'no' given; allowed: area, force",
        "robot.yaml:11: robot.controller.frequency: 'fast' given; it should be a finite number, or rows of them as the shape is drawn",
        "robot.yaml:12: robot.controller.frequency: given twice; first on line 11",
        "robot.yaml:14: world.terrain: unknown type 'flatt'; did you mean 'flat'?",
        "robot.yaml:15: world.gravity: 'yes' given; it should be a valid number",
        "robot.yaml:17: task.durration: unknown key; did you mean 'duration'?",
        "robot.yaml:18: task.measures: unknown measure 'travel_speed'; did you mean 'travel_velocity'?",
        "robot.yaml:20: physics.time_step: '1/0' given; it should be a valid number",
        "robot.yaml:21: physics.substeps: 0 given; it should be greater than or equal to 1",
    ):
        assert wanted in told
    assert any("robot.yaml:8: robot.body.materials.b.scaffolding: central_cross alone" in line for line in told)
    assert len(told) == 12


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", "robot.yaml: the file is empty; it should have the keys robot, world, task, physics"),
        ("[1, 2]", "robot.yaml: the file holds [1, 2]; it should have the keys robot, world, task, physics"),
        ("world: {}", "robot.yaml:1: robot: missing; it has no default"),
        ("robot: {}", "robot.yaml:1: robot.body: missing; it has no default"),
        ("robot: [\n", "robot.yaml:2: this is not valid YAML: expected the node content, but found '<stream end>'"),
        (BODY + "  controller: {phase: 1}\n", "robot.yaml:4: robot.controller: missing key type; choose from sine, development, mlp"),
        (BODY + "  controller:\n    type: sine\n    phase: [[1]]\n", "robot.yaml:6: robot.controller.phase: 1 rows of 1 values given; the body has 1 rows of 2"),
        (BODY + "physics: {substeps: 1}\n", "robot.yaml:4: physics.substeps: 1 substep of 16.67 ms would blow up"),
        (BODY + "    materials: {a: {mass: .nan}}\n", "robot.yaml:4: robot.body.materials.a.mass: nan given; it should be a finite number"),
        (BODY + "    materials: {a: &x {mass: 1}, b: *x, c: {mass: true}}\n", "robot.yaml:4: robot.body.materials.c.mass: true given; it should be a valid number"),
        (BODY + "task: {duration: 1e12}\n", "robot.yaml:4: task.duration: 3.6e+14 substeps in all; at most 1e+09: shorten it"),
        (BODY + "physics: {time_step: 1e9}\n", "robot.yaml:4: physics.substeps: 3.36e+11 substeps in a time step of 1e+09 s would be needed"),
        (BODY + "    materials: {a: {mass: 1e-300}}\n", "robot.yaml:4: robot.body.materials.a.mass: 1e-300 given; it should be zero or between"),
        (BODY + "task: {placement: {left: 5000}}\n", "robot.yaml:4: task.placement.left: 5000 given; the ground reaches from 0 to 2000 m"),
        (BODY + "task: {measures: [foo, travel_velocity, bar]}\n", "robot.yaml:4: task.measures: unknown measure 'foo'; choose from"),
        (BODY + "world: {terrain: {type: steppy, length: 41, wall_width: 30}}\n", "robot.yaml:4: world.terrain: a length of 41 m leaves no ground"),
        (BODY + "world: {terrain: {type: steppy, riser: 1e-6}}\n", "robot.yaml:4: world.terrain: the shortest segment"),
        (BODY + "world: {terrain: {type: hilly, seed: -1}}\n", "robot.yaml:4: world.terrain.seed: -1 given; it should be greater than or equal to 0"),
        ("robot: 3\n", "robot.yaml:1: robot: 3 given; it should be a mapping with keys of body, controller"),
        ("robot:\n  body: {shape: 12}\n", "robot.yaml:2: robot.body.shape: 12 given; it should be a list; put a shape of digits in quotes"),
    ],
)  # fmt: skip
def test_each_fault_reads_well(text, wanted):
    told = faults(text)
    assert len(told) == 1
    assert told[0].startswith(wanted)


def test_faults_that_others_hide_are_told_too():
    told = faults(
        "robot:\n  body:\n    shape: aa\n    materials: {a: {mas: 1}}\n"
        "  controller: {type: sine, phase: [[1]], frequency: fast}\nphysics: {substeps: 1, precision: half}\n"
        "task: {duration: 0, placement: {left: -5}}\n"
    )
    for path in (
        "materials.a.mas",
        "controller.frequency",
        "controller.phase",
        "physics.precision",
        "physics.substeps",
        "task.duration",
        "task.placement.left",
    ):
        assert sum(path in line for line in told) == 1
    assert len(told) == 7


def test_an_anchor_that_contains_itself_is_told():
    assert any("contains itself" in line for line in faults("robot: &a {body: *a}\n"))


def test_files_that_cannot_be_read_are_told(tmp_path):
    binary = tmp_path / "robot.yaml"
    binary.write_bytes(b"\xff\xfe\x00\x01")
    for path, wanted in (
        (tmp_path / "none.yaml", "there is no such file"),
        (tmp_path, "this is a folder"),
        (binary, "not a text file"),
    ):
        with pytest.raises(ConfigError, match=wanted):
            load_scene(path)


SCENES = [
    Scene(
        robot=Robot(
            body=Body(shape=("ab", ".a"), materials={"a": Material(), "b": Material(scaffolding=("side_cross",))})
        )
    ),
    Scene(
        robot=Robot(
            body=Body(shape="aa", materials={"a": Material(upper_limit=1.5, actuation="force")}),
            controller=MLP(senses=(Sense(quantity="angle", reading="mean", voxels=((1, 0),)),), weights=(1e-7,) * 6),
        ),
        world=World(terrain=Steppy(seed=7), gravity=0.0),
    ),
    Scene(
        robot=Robot(body=Body(shape="a"), controller=Development(start=1, end=((0.5,),))),
        world=World(terrain=Polyline(x=(0, 1, 2), y=(1, 0, 1))),
    ),
    Scene(
        robot=Robot(
            body=Body(shape="a"),
            controller=MLP(senses=(Sense(quantity="angle"),), weights=(1.0, 2.0), driving=None),
        ),
        world=World(terrain=None),
    ),
    Scene(robot=Robot(body=Body(shape="no", materials={"n": Material(), "o": Material()}), controller=Sine())),
]


@pytest.mark.parametrize(
    "scene", [*SCENES, *map(load_scene, CONFIGS)], ids=lambda scene: "".join(scene.robot.body.shape)
)
def test_scenes_round_trip(scene):
    assert parse_scene(dump_yaml(scene)) == scene
    assert parse_scene(json.dumps(scene.to_plain())) == scene
    assert Scene.model_validate(yaml.safe_load(dump_yaml(scene))) == scene


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_every_shipped_config_is_sound(path):
    scene = load_scene(path)
    assert scene.schedule().substeps >= 1
    scene.build()
