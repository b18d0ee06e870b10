"""Files that extend others: what is merged, where faults are reported, and what a run keeps."""

import pytest
from click.testing import CliRunner
from conftest import ROOT
from jsonschema import Draft202012Validator

from vsr import cli
from vsr.experiments.catalog import schema_for_editors
from vsr.experiments.config import ConfigError, dump_plain, load, load_experiment, parse_experiment
from vsr.experiments.config.loading import load_variants, settled
from vsr.experiments.config.yaml import MOST_EXTENDED, parse_yaml, read_yaml
from vsr.experiments.installed import shipped_as
from vsr.experiments.shipped import EXPERIMENT, shipped_files
from vsr.experiments.study import is_study

BASE = """\
kind: experiment
format: 1
robot:
  body: {shape: aa}
  controller: {type: sine, frequency: 1.0}
task: {duration: 5, measures: [travel_velocity, relative_velocity]}
optimizer: {type: mu_plus_lambda, population_size: 9, tournament_size: 2}
seeds: [3, 4]
"""


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        return tmp_path / name

    write("base.yaml", BASE)
    return write


def faults(path):
    with pytest.raises(ConfigError) as error:
        load(path)
    return str(error.value).splitlines()


def test_mappings_are_merged_and_everything_else_is_replaced(write):
    own = write(
        "own.yaml",
        "extends: base.yaml\ntask: {duration: 7}\nrobot: {controller: {frequency: 2.0}}\nseeds: [5]\ngenerations: 3\n",
    )
    changes = ["task.duration=7", "robot.controller.frequency=2.0", "seeds=[5]", "generations=3"]
    assert load_experiment(own) == parse_experiment(BASE, settings=changes)
    assert read_yaml(own).data.keys() == {*parse_yaml(BASE).data, "generations"}


def test_a_component_of_another_type_replaces_the_whole(write):
    own = write(
        "own.yaml", "extends: base.yaml\noptimizer: {type: map_elites, archives: null}\nrobot: {controller: sine}"
    )
    data = read_yaml(own).data
    assert data["optimizer"] == {"type": "map_elites", "archives": None}
    assert data["robot"] == {"body": {"shape": "aa"}, "controller": "sine"}
    same = write("same.yaml", "extends: base.yaml\noptimizer: {type: mu_plus_lambda, population_size: 8}\n")
    assert read_yaml(same).data["optimizer"]["tournament_size"] == 2


def test_files_are_found_beside_the_one_that_names_them_and_shipped_ones_by_name(write, monkeypatch, tmp_path):
    write("inner/middle.yaml", "extends: ../base.yaml\ngenerations: 4\n")
    own = write("own.yaml", "extends: inner/middle.yaml\nseeds: 1\n")
    monkeypatch.chdir(tmp_path.parent)
    assert load_experiment(own).generations == 4
    shipped = write("shipped.yaml", "extends: first_walker\n")
    assert load_experiment(shipped) == load_experiment(shipped_as("examples/01_first_walker"))
    assert parse_experiment("extends: first_walker") == load_experiment(shipped)


def test_the_preset_of_the_paper(write):
    own = write("own.yaml", "extends: paper\nrobot: {body: {shape: aaaa}, controller: sine}\n")
    experiment = load_experiment(own)
    assert (experiment.optimizer.population_size, experiment.optimizer.tournament_size) == (250, 8)
    assert (experiment.generations, experiment.seeds, experiment.task.duration) == (500, tuple(range(10)), 60)
    assert (experiment.physics.time_step, experiment.physics.control_every) == (1 / 30, 2)
    assert (experiment.evaluation.trials, experiment.evaluation.refine) == (1, None)
    assert isinstance(load(own), type(experiment))


def test_faults_are_reported_in_the_file_and_at_the_line_of_the_value(write, tmp_path):
    write("base.yaml", BASE + "fitness: speed\n")
    write("middle.yaml", "# one\nextends: base.yaml\ntask:\n  duration: -1\n")
    own = write(
        "own.yaml", "\n\nextends: middle.yaml\nrobot:\n  controller:\n    frequency: fast\nphysics: {step: 1}\n"
    )
    found = [fault.split(": ")[:2] for fault in faults(own)]
    assert found[:2] == [[f"{own}:6", "robot.controller.frequency"], [f"{own}:7", "physics.step"]]
    assert sorted(found[2:]) == [
        [f"{tmp_path / 'base.yaml'}:9", "fitness.measure"],
        [f"{tmp_path / 'middle.yaml'}:4", "task.duration"],
    ]


def test_settings_go_over_all(write):
    own = write("own.yaml", "extends: base.yaml\n")
    assert load_experiment(own, ["task.duration=9"]).task.duration == 9
    with pytest.raises(ConfigError, match=r"--set task\.duration=0: "):
        load_experiment(own, ["task.duration=0"])


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"own.yaml": "seeds: 1\nextends: own.yaml"}, "own.yaml:2: extends: the file extends itself"),
        (
            {"own.yaml": "extends: other.yaml", "other.yaml": "seeds: 1\nextends: own.yaml"},
            "other.yaml:2: extends: .*own.yaml extends this file",
        ),
        ({"own.yaml": "extends: nothing.yaml"}, "own.yaml:1: extends: 'nothing.yaml' given; there is no such file"),
        ({"own.yaml": "extends: [base.yaml]"}, "own.yaml:1: extends: .* it should be a file"),
        ({"own.yaml": "extends: null"}, "own.yaml:1: extends: None given"),
        ({"own.yaml": 'extends: "a\\0b"'}, "own.yaml:1: extends: .* there is no such file"),
        ({"own.yaml": "extends: list.yaml", "list.yaml": "- 1"}, "own.yaml:1: extends: .*list.yaml has no keys"),
        ({"own.yaml": "extends: bad.yaml", "bad.yaml": "a: [1"}, r"bad.yaml:1: this is not valid YAML"),
        (
            {
                "own.yaml": "extends: 0.yaml",
                **{f"{n}.yaml": f"extends: {n + 1}.yaml" for n in range(MOST_EXTENDED + 2)},
            },
            "more than 10 files",
        ),
    ],
)
def test_what_cannot_be_extended(write, tmp_path, files, message):
    for name, text in files.items():
        write(name, text)
    with pytest.raises(ConfigError, match=message):
        read_yaml(tmp_path / "own.yaml")


def test_plugins_lie_beside_the_file_that_names_them(write, tmp_path):
    write("inner/named_in_base.py", "LOADED = True\n")
    write("inner/base.yaml", BASE + "plugins: [named_in_base]\n")
    own = write("own.yaml", "extends: inner/base.yaml\n")
    assert load_experiment(own, run_plugins=True).plugins == ("named_in_base",)


def test_what_is_kept_is_merged(write):
    own = write("own.yaml", "extends: base.yaml\ngenerations: 2\n")
    assert settled(own, ["seeds=1"]) == dump_plain({**parse_yaml(BASE).data, "generations": 2, "seeds": 1})
    swept = list(load_variants(own, [], [["optimizer.sigma=0.1"], ["generations=5"]]))
    assert [(one.optimizer.population_size, one.generations) for one in swept] == [(9, 2), (9, 5)]


def test_a_study_may_extend_another(tmp_path):
    own = tmp_path / "own.yaml"
    own.write_text(f"extends: {ROOT / 'configs' / 'studies' / 'body.yaml'}\n")
    assert is_study(own)
    assert not is_study(ROOT / "configs" / "studies" / "body" / "10x10.yaml")


def test_the_schema_accepts_parts_of_a_file_that_extends_another():
    accepts = Draft202012Validator(schema_for_editors("experiment"))
    raw = [parse_yaml(file.path.read_text()).data for file in shipped_files() if file.kind == EXPERIMENT]
    extending = [data for data in raw if "extends" in data]
    assert extending
    for data in extending:
        assert list(accepts.iter_errors(data)) == []
        assert list(accepts.iter_errors({**data, "tusk": 1}))
        assert list(accepts.iter_errors({**data, "extends": 1}))


def test_a_command_reads_it(write):
    result = CliRunner().invoke(cli.main, ["check", str(write("own.yaml", "extends: base.yaml\ngenerations: many\n"))])
    assert result.exit_code == 2
    assert "own.yaml:2: generations: 'many' given" in result.output
