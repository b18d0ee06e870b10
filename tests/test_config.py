"""Files: YAML as people mean it, every fault told, round trips."""

import json
import math
import sys

import pytest
import yaml
from click.testing import CliRunner
from conftest import ROOT
from jsonschema import Draft202012Validator

import vsr.cli as cli
from vsr import MLP, Body, Development, Material, Polyline, Robot, Scene, Sine, Steppy, World
from vsr.experiments.catalog import KINDS, components
from vsr.experiments.config import (
    ConfigError,
    UserError,
    dump_yaml,
    load,
    load_experiment,
    load_scene,
    parse_experiment,
    parse_scene,
)
from vsr.experiments.config.yaml import parse_yaml, read_yaml
from vsr.experiments.experiment import Experiment
from vsr.sensors.readings import Sensor

CONFIGS = [
    *sorted((ROOT / "configs" / "examples").glob("*.yaml")),
    *sorted((ROOT / "configs" / "robots").glob("*.yaml")),
]
OFTEN = ("biped", "01_first_walker", "walking_quadruped")
"""Whose programs are traced in `make test`; those of all others in `make test-slow`."""
assert {*OFTEN} <= {path.stem for path in CONFIGS}
SCENE_FILES = [path for path in CONFIGS if isinstance(load(path), Scene)]


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
    assert document.line_of(("a", "b")) == 2
    assert document.line_of(("a", "c", 1, "y")) == 5
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
    reported = faults(text)
    for wanted in (
        "robot.yaml:7: robot.body.materials.a.mass_side_ratio: 0.7 given; it should be less than or equal to 0.5",
        "robot.yaml:7: robot.body.materials.a.frictoin: unknown key; did you mean 'friction'?",
        "robot.yaml:8: robot.body.materials.b.actuation: 'no' given; allowed: area, force, horizontal, vertical, none; did you mean 'none'?",
        "robot.yaml:11: robot.controller.frequency: 'fast' given; it should be a finite number, or rows of them as the shape is drawn",
        "robot.yaml:12: robot.controller.frequency: given twice; first on line 11",
        "robot.yaml:14: world.terrain: unknown type 'flatt'; did you mean 'flat'?",
        "robot.yaml:15: world.gravity: 'yes' given; it should be a valid number",
        "robot.yaml:17: task.durration: unknown key; did you mean 'duration'?",
        "robot.yaml:18: task.measures: unknown measure 'travel_speed'; did you mean 'travel_velocity'?",
        "robot.yaml:20: physics.time_step: '1/0' given; it should be a valid number",
        "robot.yaml:21: physics.substeps: 0 given; it should be greater than or equal to 1",
    ):
        assert wanted in reported
    assert any("robot.yaml:8: robot.body.materials.b.scaffolding: central_cross alone" in line for line in reported)
    assert len(reported) == 12


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", "robot.yaml: the file is empty; it should have the keys format, kind, robot, world, task, physics, plugins"),
        ("[1, 2]", "robot.yaml: the file holds [1, 2]; it should have the keys format, kind, robot, world, task, physics, plugins"),
        ("world: {}", "robot.yaml:1: robot: missing; it has no default"),
        ("robot: {}", "robot.yaml:1: robot.body: missing; it has no default"),
        ("robot: [\n", "robot.yaml:2: this is not valid YAML: expected the node content, but found '<stream end>'"),
        (BODY + "  controller: {phase: 1}\n", "robot.yaml:4: robot.controller: missing key type; choose from sine, development, oscillators, mlp, "),
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
        (BODY + "world: {terrain: {type: hilly, spacing: 2}}\n", "robot.yaml:4: world.terrain.spacing: 'hilly' has no such key, unlike heights; allowed: friction, restitution, length, wall_height, wall_width, height, width, seed"),
        (BODY + "wrld: {}\n", "robot.yaml:4: wrld: unknown key; did you mean 'world'?"),
        (BODY + "world: {terrain: {wall: 2, type: flat}}\n", "robot.yaml:4: world.terrain.wall: unknown key; did you mean 'wall_width'?"),
        (BODY + "world: {terrain: {type: polyline, x: [0, 9], y: [0, 0], length: 50}}\n", "robot.yaml:4: world.terrain.length: 'polyline' has no such key, unlike flat, uneven"),
        ("robot: 3\n", "robot.yaml:1: robot: 3 given; it should be a mapping with keys of body, controller"),
        ("robot:\n  body: {shape: 12}\n", "robot.yaml:2: robot.body.shape: 12 given; it should be a list; put a shape of digits in quotes"),
    ],
)  # fmt: skip
def test_each_fault_reads_well(text, wanted):
    reported = faults(text)
    assert len(reported) == 1
    assert reported[0].startswith(wanted)


MANY = """\
robot:
  body: {type: material_grid, grid: [3, 0], materials: {a: {spring_frequency: -1}}}
  controller: {type: mlp, sensors: [{quantity: aera_ratio}], hidden: [4]}
world:
  terrain: {type: hilly, heigth: 2}
  gravity: -9.8
task: {duration: 0}
physics: {time_step: 1/0, integrator: euler}
fitness: relative_velocty
evaluation: {trials: 2, terrains: [flat, flat, hilly]}
optimizer: {type: map_elites, archives: {a: {type: grid, axes: [{measure: elongatoin, range: [0, 1], cells: 4}]}}}
generations: 0
seeds: [1, 1]
"""


def test_faults_of_all_sections_are_told_at_once():
    reported = experiment_faults(MANY)
    for wanted in (
        "f.yaml:2: robot.body.grid.1: 0 given",
        "f.yaml:2: robot.body.materials.a.spring_frequency: -1 given",
        "f.yaml:3: robot.controller.sensors.0.quantity: unknown quantity 'aera_ratio'; did you mean 'area_ratio'?",
        "f.yaml:5: world.terrain.heigth: unknown key",
        "f.yaml:6: world.gravity: -9.8 given",
        "f.yaml:7: task.duration: 0 given",
        "f.yaml:8: physics.time_step: '1/0' given",
        "f.yaml:8: physics.integrator: 'euler' given",
        "f.yaml:9: fitness.measure: unknown measure 'relative_velocty'; did you mean 'relative_velocity'?",
        "f.yaml:10: evaluation.trials: 2 given",
        "f.yaml:11: optimizer: unknown measure 'elongatoin'; did you mean 'elongation'?",
        "f.yaml:12: generations: 0 given",
        "f.yaml:13: seeds: a seed is named twice",
    ):
        assert any(line.startswith(wanted) for line in reported), (wanted, reported)
    assert len(reported) == 13, reported


def experiment_faults(text):
    with pytest.raises(ConfigError) as error:
        parse_experiment(text, "f.yaml")
    return str(error.value).splitlines()


HYDRAULIC = """\
robot:
  body:
    shape: swws
    materials:
      s: {young_modulus: 1.0e+5, density: 1000}
      w: {fluid: {pressure: [0, 2000]}}
  controller: sine
"""
HYDRAULIC_POINTS = HYDRAULIC.replace("    shape", "    engine: points\n    shape")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (HYDRAULIC, "f.yaml:6: robot.body.materials.w.fluid: squares cannot hold fluid: give the body `engine: points`"),
        (HYDRAULIC_POINTS.replace("1.0e+5", "-5"), "f.yaml:6: robot.body.materials.s.young_modulus: -5 given"),
        (HYDRAULIC_POINTS.replace("{young_modulus: 1.0e+5, density: 1000}", "3"), "f.yaml:6: robot.body.materials.s: 3 given"),
        ("robot: {body: {shape: aa}, controller: sine}\ntask: Walker-v1\nfitness: score\n", "f.yaml:2: task: unknown type 'Walker-v1'"),
        ("robot:\n  body: {type: material_grid, grid: [3, 3, 0]}\n  controller: sine\nworld: {terrain: {type: heights, heights: [[0, 1], [0, 1]]}}\n", "f.yaml:2: robot.body.grid.2: 0 given"),
        ("robot:\n  body: {shape: [a, 3]}\n  controller: sine\nworld: {terrain: {type: sand, radius: 4, depth: 20, period: 60}}\n", "f.yaml:2: robot.body.shape"),
        ("robot:\n  body: {type: gausian_mixture, grid: [3, 3]}\n  controller: sine\nfitness: filled_share\n", "f.yaml:2: robot.body.type: unknown type 'gausian_mixture'"),
    ],
)  # fmt: skip
def test_no_consequence_of_a_fault_is_told(text, wanted):
    reported = experiment_faults(text)
    assert len(reported) == 1, reported
    assert reported[0].startswith(wanted)


def test_faults_are_told_although_there_is_no_robot():
    reported = experiment_faults("fitness: relative_velocty\ntask: {placement: {left: 5000}}\n")
    assert sorted(line.split(": ")[1] for line in reported) == ["fitness.measure", "robot", "task.placement.left"]


def test_a_plugin_that_is_missing_hides_no_other_fault(tmp_path):
    file = tmp_path / "f.yaml"
    file.write_text("plugins: [no_such_plugin]\n" + MANY + "checkpoint_seconds: -1\n")
    with pytest.raises(ConfigError) as error:
        load_experiment(file, run_plugins=True)
    reported = str(error.value)
    for wanted in ("no_such_plugin", "f.yaml:13: generations: 0 given", "f.yaml:15: checkpoint_seconds: -1 given"):
        assert wanted in reported


HEIGHTS = "robot: {body: {shape: [[aa], [aa]]}}\nworld:\n  terrain:\n    type: heights\n    heights: [[0, 1], [0, 1]]\n"


def test_keys_of_other_grounds_are_refused_where_they_stand(tmp_path):
    """A kind of ground may have a key of its own name, which is not where its faults are."""
    file = tmp_path / "ground.yaml"
    file.write_text(HEIGHTS + "    length: 50\n    wall_width: 2.0\n    spacing: 0\n")
    result = CliRunner().invoke(cli.main, ["check", str(file)])
    assert result.exit_code == 2
    reported = " ".join(result.output.split())
    unlike = "unlike flat, uneven, hilly, steppy, uphill, downhill, bumpy, sand"
    for line, name in ((6, "length"), (7, "wall_width")):
        assert (
            f"ground.yaml:{line}: world.terrain.{name}: 'heights' has no such key, {unlike}; allowed: friction, "
            in reported
        )
    assert "ground.yaml:8: world.terrain.spacing" in reported
    assert reported.count("ground.yaml:") == 3


def test_grounds_that_runs_wrote_with_keys_of_walls_are_read():
    """Once every ground had them, and a run's own files hold all values, also those that meant nothing."""
    written = "    length: 2000.0\n    wall_height: 100.0\n    wall_width: 10.0\n"
    assert parse_scene(HEIGHTS + written) == parse_scene(HEIGHTS)
    assert len(faults(HEIGHTS + written.replace("100", "90"))) == 3


def test_faults_that_others_hide_are_told_too():
    reported = faults(
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
        assert sum(path in line for line in reported) == 1
    assert len(reported) == 7


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
            controller=MLP(sensors=(Sensor(quantity="angle", reading="mean", voxels=((1, 0),)),), weights=(1e-7,) * 6),
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
            controller=MLP(sensors=(Sensor(quantity="angle"),), weights=(1.0, 2.0), clock=None),
        ),
        world=World(terrain=None),
    ),
    Scene(robot=Robot(body=Body(shape=("...", "aaa")), controller=Sine())),
    Scene(robot=Robot(body=Body(shape="no", materials={"n": Material(), "o": Material()}), controller=Sine())),
]


@pytest.mark.parametrize(
    "scene", [*SCENES, *map(load_scene, SCENE_FILES)], ids=lambda scene: "".join(map("".join, scene.robot.body.shape))
)
def test_scenes_round_trip(scene):
    assert parse_scene(dump_yaml(scene)) == scene
    assert parse_scene(json.dumps(scene.to_plain())) == scene
    assert Scene.model_validate(yaml.safe_load(dump_yaml(scene))) == scene


@pytest.mark.slow
@pytest.mark.parametrize(
    "path", [pytest.param(path, id=path.stem, marks=[pytest.mark.slow] * (path.stem not in OFTEN)) for path in CONFIGS]
)
def test_every_shipped_config_passes_vsr_check(path):
    result = CliRunner().invoke(cli.main, ["check", str(path)])
    assert result.exit_code == 0, result.output
    assert "valid" in result.output
    assert "substeps" in result.output


@pytest.mark.parametrize("path", sorted(set(CONFIGS) - set(SCENE_FILES)), ids=lambda path: path.stem)
def test_experiments_round_trip(path):
    experiment = load_experiment(path).resolved()
    assert parse_experiment(dump_yaml(experiment)) == experiment
    assert parse_experiment(json.dumps(experiment.to_plain())) == experiment


EXPERIMENT = "robot:\n  body: {shape: aa}\n  controller: sine\n"


@pytest.mark.parametrize(
    ("text", "settings", "wanted"),
    [
        (EXPERIMENT, ["optimizer.n_popp=3"], "--set optimizer.n_popp=3: optimizer.n_popp: unknown key"),
        (EXPERIMENT, ["optimizer.population_size=0"], "--set optimizer.population_size=0: optimizer.population_size: 0 given; it should be greater than or equal to 1"),
        (EXPERIMENT, ["optimizer.population_size=many"], "--set optimizer.population_size=many: optimizer.population_size: 'many' given; it should be a valid integer"),
        (EXPERIMENT, ["ea=random"], "--set ea=random: ea: unknown key; did you mean 'optimizer'?"),
        (EXPERIMENT, ["optimizer.type=annealing"], "--set optimizer.type=annealing: optimizer.type: unknown type 'annealing'"),
        (EXPERIMENT, ["world.terrain.hight=3"], "--set world.terrain.hight=3: world.terrain.hight: unknown key"),
        (EXPERIMENT, ["generations"], "--set generations: write it as path=value"),
        (EXPERIMENT, ["generations=[1"], "--set generations=[1:1: this is not valid YAML"),
        (EXPERIMENT, ["robot.body.shape.0.1=3"], "--set robot.body.shape.0.1=3: 'robot.body.shape' holds 'aa'"),
        (EXPERIMENT, ["seeds=[1, 1]"], "--set seeds=[1, 1]: seeds: a seed is named twice"),
        (EXPERIMENT, ["seeds=0"], "--set seeds=0: seeds: 0 given; it should be a number n from 1 to 100,000 for the seeds 0 to n-1, a range such as 1000-1029, or a list of seeds"),
        (EXPERIMENT, ["generations=10000000000"], "--set generations=10000000000: generations: 4e+11 individuals in all"),
        (EXPERIMENT, ["fitness=speed"], "--set fitness=speed: fitness.measure: unknown measure 'speed'"),
        (EXPERIMENT, ["physics.substeps=1"], "--set physics.substeps=1: physics.substeps: 1 substep of 16.67 ms would blow up"),
        (EXPERIMENT, ["plugins=[nowhere_to_be_found]"], "--set plugins=[nowhere_to_be_found]: plugins.0: there is no module 'nowhere_to_be_found'"),
        (EXPERIMENT + "plugins: flat\n", [], "evolve.yaml:4: plugins: 'flat' given; it should be a list"),
        ("robot:\n  body: {shape: aa}\n  controller: sinus\n", [], "evolve.yaml:3: robot.controller: unknown type 'sinus'; did you mean 'sine'?"),
        ("robot:\n  body: {typ: fixed, shape: aa}\n  controller: sine\n", [], "evolve.yaml:2: robot.body.typ: unknown key; did you mean 'type'?"),
    ],
)  # fmt: skip
def test_faults_of_experiments_are_told_where_they_were_written(tmp_path, text, settings, wanted):
    file = tmp_path / "evolve.yaml"
    file.write_text(text)
    with pytest.raises(UserError) as caught:
        load_experiment(file, settings, run_plugins=True)
    reported = str(caught.value).replace(f"{tmp_path}/", "")
    assert reported.startswith(wanted)
    assert "\n" not in reported


def test_settings_change_values(tmp_path):
    file = tmp_path / "evolve.yaml"
    file.write_text(EXPERIMENT + "world: {terrain: hilly}\noptimizer: {population_size: 9}\n")
    settings = [
        "optimizer.population_size=7",
        "world.terrain.height=2.5",
        "fitness={measure: average_height, direction: minimize}",
    ]
    experiment = load_experiment(file, [*settings, "seeds=3", "robot.body.shape=[aaa, a.a]", "task.duration=1/2"])
    assert experiment.optimizer.population_size == 7
    assert experiment.world.terrain.type == "hilly"
    assert experiment.world.terrain.height == 2.5
    assert experiment.fitness.sign == -1
    assert experiment.seeds == (0, 1, 2)
    assert experiment.robot.body.shape == ("aaa", "a.a")
    assert experiment.task.duration == 0.5
    assert load_experiment(file, ["seeds=1000-1002"]).seeds == (1000, 1001, 1002)


PLUGIN = """
from typing import Literal
import jax.numpy as jnp
from pydantic import Field
from vsr.evo import OPTIMIZERS, RandomSearch
from vsr.tasks import MEASURES
from vsr.terrain import TERRAINS, Flat

class Moon(Flat):
    '''Flat and slippery.'''
    type: Literal["moon"] = "moon"
    friction: float = 0.05

class Lottery(RandomSearch):
    '''Nothing but luck.'''
    type: Literal["lottery"] = "lottery"

def drop(episode):
    '''How far the center fell [m].'''
    return episode.start[1] - episode.end[1]

TERRAINS["moon"] = Moon
OPTIMIZERS["lottery"] = Lottery
MEASURES["drop"] = drop
"""


@pytest.fixture
def plugin(tmp_path):
    (tmp_path / "my_moon.py").write_text(PLUGIN)
    yield tmp_path
    from vsr.evo import OPTIMIZERS
    from vsr.tasks import MEASURES
    from vsr.terrain import TERRAINS

    for registry, name in ((TERRAINS, "moon"), (OPTIMIZERS, "lottery"), (MEASURES, "drop")):
        registry.pop(name, None)
    sys.modules.pop("my_moon", None)


@pytest.mark.slow
def test_plugins_add_components(plugin):
    file = plugin / "evolve.yaml"
    text = (
        EXPERIMENT
        + "plugins: [my_moon]\nworld: {terrain: moon}\noptimizer: {type: lottery, population_size: 5}\nfitness: drop\n"
    )
    file.write_text(text)
    experiment = load_experiment(file, run_plugins=True)
    assert experiment.world.terrain.friction == 0.05
    assert experiment.optimizer.type == "lottery"
    result = CliRunner().invoke(cli.main, ["check", str(file)])  # it is loaded already
    assert result.exit_code == 0, result.output
    listed = CliRunner().invoke(cli.main, ["list", "terrains"]).output
    assert "moon" in listed
    assert "Flat and slippery." in listed


def test_a_plugin_that_fails_is_told(plugin):
    (plugin / "broken_plugin.py").write_text("1 / 0\n")
    file = plugin / "evolve.yaml"
    file.write_text(EXPERIMENT + "plugins: [broken_plugin]\n")
    with pytest.raises(
        ConfigError, match=r"evolve.yaml:4: plugins.0: plugin 'broken_plugin' failed on import: ZeroDiv"
    ):
        load_experiment(file, run_plugins=True)


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_schema_accepts_shipped_files_and_refuses_misspelt_ones(path):
    kind = "scene" if path in SCENE_FILES else "experiment"
    result = CliRunner().invoke(cli.main, ["schema", kind])
    schema = Draft202012Validator(json.loads(result.stdout))
    data = read_yaml(path).data
    assert list(schema.iter_errors(data)) == []
    assert list(schema.iter_errors({**data, "tusk": {}}))
    assert list(schema.iter_errors({**data, "world": {"terrain": "flatt"}}))
    assert list(schema.iter_errors({**data, "physics": {"time_step": "soon"}}))


def test_the_schema_accepts_what_people_write():
    schema = Draft202012Validator(json.loads(CliRunner().invoke(cli.main, ["schema"]).stdout))
    for text in ("seeds: 10", "seeds: [3, 5]", "seeds: 7-9", "optimizer: random_search", "optimizer: {type: random_search}", "optimizer: {population_size: 9}",
                 "fitness: average_height", "physics: {time_step: 1/60}", "world: {terrain: {height: 1, type: hilly}}"):  # fmt: skip
        assert list(schema.iter_errors(parse_yaml(EXPERIMENT + text).data)) == [], text


@pytest.mark.parametrize(
    ("robot", "kind"),
    [
        ("{body: {shape: aa}, controller: {type: mlp, sensors: [{quantity: angle}]}}", Experiment),
        ("{body: {type: gaussian_mixture, grid: [2, 2]}, controller: sine_by_material}", Experiment),
        ("{body: {shape: aa}, controller: sine}", Scene),
        ("{body: {shape: aa}, controller: development}", Scene),
        ("{body: {shape: aa}}", Scene),
    ],
)
def test_files_are_known_for_what_they_are(tmp_path, robot, kind):
    file = tmp_path / "some.yaml"
    file.write_text(f"robot: {robot}\n")
    assert isinstance(load(file), kind)


def test_list_names_every_component_with_its_parameters():
    names = CliRunner().invoke(cli.main, ["list"], env={"COLUMNS": "200"}).output
    assert len(names.splitlines()) < 60
    for kind in KINDS:
        output = CliRunner().invoke(cli.main, ["list", kind], env={"COLUMNS": "200"}).output
        for component in components(kind):
            assert component.help
            assert component.name in output
            assert component.name in names
            for parameter in component.parameters:
                assert parameter.name in output
                assert parameter.help, f"{component.name}.{parameter.name} has no help"
    result = CliRunner().invoke(cli.main, ["list", "terrain"])
    assert result.exit_code == 2
    assert "did you mean 'terrains'?" in result.output
