"""Hints lead to the right key, wherever it stands, and all faults of a file come at once, each with its line."""

import pytest

from vsr.experiments.catalog import FILES, KINDS, names
from vsr.experiments.config import ConfigError, load, parse_experiment
from vsr.experiments.config.hints import paths_of
from vsr.spec import SYNONYMS

PLAIN = "robot: {body: {shape: aa}, controller: sine}"


@pytest.mark.parametrize(
    ("setting", "hint"),
    [
        ("terrain=flat", "'world.terrain'"),
        ("population=9", "'optimizer.population_size'"),
        ("pop_size=9", "'optimizer.population_size'"),
        ("optimizer.n_pop=9", "'population_size'"),
        ("search=random", "'optimizer'"),
        ("ea=random", "'optimizer'"),
        ("starts=3", "'evaluation.trials'"),
        ("robot.body.masses=points", "'engine'"),
        ("masses=points", "'robot.body.engine'"),
        ("physics.control_interval=1", "'control_every', which is 1 more"),
        ("control_interval=1", "'physics.control_every', which is 1 more"),
        ("optimizer.generations=9", "'generations', at the top of the file"),
        ("robot.shape=aa", "'robot.body.shape'"),
        ("friction=1", "'world.terrain.friction'"),
        ("gravty=1", "'world.gravity'"),
        ("genrations=9", "'generations'"),
        ("robot.controller.type=phases", "'sine'"),
        ("optimizer.type=ga", "'mu_plus_lambda'"),
        ("fitness=speed", "'relative_velocity'"),
    ],
)
def test_hints_lead_to_the_right_key(setting, hint):
    with pytest.raises(ConfigError) as raised:
        parse_experiment(PLAIN, settings=[setting])
    assert f"did you mean {hint}?" in str(raised.value)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("robot.controller.senses=[]", "'sine' has no 'sensors', unlike "),
        ("robot.controller.sensors=[]", "'sine' has no such key, unlike "),
        ("optimizer.zzzzzz=1", "unknown key; choose from population_size, "),
        ("world.self_contact=yes", "write true or false"),
    ],
)
def test_what_has_no_such_place_is_said_too(setting, message):
    with pytest.raises(ConfigError) as raised:
        parse_experiment(PLAIN, settings=[setting])
    assert message in str(raised.value)


def test_synonyms_stand_for_something():
    keys = {path[-1] for kind in FILES.values() for path in paths_of(kind)}
    components = {name for kind in KINDS for name in names(kind)}
    assert set(SYNONYMS.values()) <= keys | components
    assert not set(SYNONYMS) & components


def test_paths_lead_into_every_part():
    paths = set(paths_of(FILES["experiment"]))
    for dotted in (
        "world.terrain",
        "robot.body.engine",
        "robot.body.materials.SYMBOL.friction",
        "world.objects.0.name",
    ):
        assert tuple(0 if key == "0" else key for key in dotted.split(".")) in paths


FAULTY = """\
kind: experiment
robot:
  body:
    shape: aaa
    voxel_side: -3
  controller:
    type: phases
    freq: 2
terrain: flat
world: {gravity: heavy}
task:
  type: locomotin
  duration: -10
fitness: speed
optimizer:
  type: ga
  population: 30
generations: 0
physics:
  time_step: zero
evaluation:
  starts: 3
seeds: [1, 1]
"""


def test_all_faults_of_a_file_come_at_once():
    with pytest.raises(ConfigError) as raised:
        parse_experiment(FAULTY, "f.yaml")
    found = {problem.line: ".".join(map(str, problem.path)) for problem in raised.value.problems}
    assert found == {
        5: "robot.body.voxel_side",
        7: "robot.controller.type",
        8: "robot.controller.freq",
        9: "terrain",
        10: "world.gravity",
        12: "task.type",
        13: "task.duration",
        14: "fitness.measure",
        16: "optimizer.type",
        17: "optimizer.population",
        18: "generations",
        20: "physics.time_step",
        22: "evaluation.starts",
        23: "seeds",
    }
    assert len(raised.value.problems) == len(found)


def test_a_part_of_unknown_type_may_have_what_some_type_has():
    text = f"{PLAIN}\noptimizer: {{type: gaa, mutation_rate: 0.1, sigma: 0.2}}\n"
    with pytest.raises(ConfigError) as raised:
        parse_experiment(text, "f.yaml")
    assert [problem.path for problem in raised.value.problems] == [("optimizer", "type")]


def test_a_misspelled_kind_is_taken_as_what_it_resembles(tmp_path):
    file = tmp_path / "walk.yaml"
    file.write_text("kind: experimnt\nrobot: {body: {shape: [aa]}, controller: sine}\nseeds: many\n")
    with pytest.raises(ConfigError) as refused:
        load(file)
    assert {fault.path[0] for fault in refused.value.problems} == {"kind", "seeds"}
    assert "'experiment'" in str(refused.value)
