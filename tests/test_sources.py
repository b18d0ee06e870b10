"""Code of the user's own that a run depends on: fingerprinted, kept with the run, and named where it cannot be kept."""

import importlib
import json
import shutil
import subprocess
import sys
from functools import wraps

import jax
import pytest
import yaml
from conftest import TINY

from vsr.experiments.config import load_experiment
from vsr.experiments.config.plugins import own_modules
from vsr.experiments.evolve.generation import program_digest
from vsr.experiments.storage.sources import sources_of, with_registered
from vsr.tasks import MEASURES

PLUGIN = """
from vsr.tasks import MEASURES
from scale_helper import FACTOR

def scaled(summary):
    from lazy_package.inside import offset
    return FACTOR * MEASURES["travel_velocity"](summary) + offset()

MEASURES["scaled"] = scaled
"""
SETTINGS = {**yaml.safe_load(TINY), "fitness": "scaled", "generations": 1, "seeds": 1}


@pytest.fixture
def home(tmp_path):
    """An experiment with a plugin of three files: one beside it, and a package that is imported late."""
    (tmp_path / "scale_plugin.py").write_text(PLUGIN)
    (tmp_path / "scale_helper.py").write_text("import math\nimport numpy\n\nFACTOR = 1.0\n")
    (tmp_path / "lazy_package").mkdir()
    (tmp_path / "lazy_package" / "__init__.py").write_text("")
    inside = "from .constants import ZERO\n\ndef offset():\n    return ZERO\n"
    (tmp_path / "lazy_package" / "inside.py").write_text(inside)
    (tmp_path / "lazy_package" / "constants.py").write_text("ZERO = 0.0\n")
    (tmp_path / "lazy_package" / "unused.py").write_text("")
    (tmp_path / "scaled.yaml").write_text(yaml.safe_dump({**SETTINGS, "plugins": ["scale_plugin"]}))
    return tmp_path


def vsr(folder, *arguments):
    command = [sys.executable, "-P", "-m", "vsr", *map(str, arguments)]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240)


def best(folder, run):
    return float((folder / run / "best" / "seed-0.yaml").read_text().split("\n")[0].split()[-1])


MODULES = {"scale_plugin", "scale_helper", "lazy_package", "lazy_package.inside", "lazy_package.constants"}


@pytest.mark.full
def test_a_change_in_any_imported_module_changes_the_result_and_ends_a_resume(home):
    for name, factor in (("one", "1.0"), ("thousand", "1000.0")):
        (home / "scale_helper.py").write_text(f"FACTOR = {factor}\n")
        ended = vsr(home, "evolve", "scaled.yaml", "--no-report", "--out", name)
        assert ended.returncode == 0, ended.stderr
    assert best(home, "thousand") == pytest.approx(1000 * best(home, "one"), rel=1e-4)
    assert {file.relative_to(home / "one/plugins").as_posix() for file in (home / "one/plugins").rglob("*.py")} == {
        "scale_plugin.py",
        "scale_helper.py",
        "lazy_package/__init__.py",
        "lazy_package/inside.py",
        "lazy_package/constants.py",
    }
    more = ("--resume", "--no-report", "--set", "generations=2")
    refused = vsr(home, "evolve", "scaled.yaml", "--out", "one", *more)
    assert refused.returncode == 2
    assert "is not what it was when the run began" in refused.stderr

    # A run that is taken elsewhere goes on and is verified with the code that it was made with.
    shutil.move(home / "one", home / "elsewhere" / "one")
    for file in home.glob("*.py"):
        file.unlink()
    went_on = vsr(home / "elsewhere", "evolve", "one", *more)
    assert went_on.returncode == 0, went_on.stderr
    verified = vsr(home / "elsewhere", "verify", "one", "--trust-plugins")
    assert verified.returncode == 0, verified.stderr
    assert "all digits" in verified.stdout

    # Other code than the score was reached with: the difference is not put down to rounding.
    (home / "elsewhere/one/plugins/scale_helper.py").write_text("FACTOR = 5.0\n")
    robot = "one/best/seed-0.yaml"
    simulated = vsr(home / "elsewhere", "simulate", robot, "--trust-plugins")
    assert "rounded" not in simulated.stdout + simulated.stderr
    assert f"vsr verify {robot}" in simulated.stdout + simulated.stderr


SCRIPT = """
import sys
from vsr.experiments.evolve.command import EvolveOptions, evolve
from vsr.tasks import MEASURES

HEIGHT = float(sys.argv[1])

def cheap_speed(summary):
    return HEIGHT - MEASURES["average_height"](summary)

if __name__ == "__main__":
    MEASURES["cheap_speed"] = cheap_speed
    evolve(EvolveOptions("cheap.yaml", out="run", resume=len(sys.argv) > 2, settings=tuple(sys.argv[2:])))
"""


@pytest.mark.full
def test_components_registered_by_a_script_are_named_and_a_change_of_them_ends_a_resume(home):
    (home / "cheap.yaml").write_text(yaml.safe_dump({**SETTINGS, "fitness": "cheap_speed"}))
    (home / "script.py").write_text(SCRIPT)

    def run(*arguments):
        return subprocess.run(
            [sys.executable, "script.py", *arguments], cwd=home, capture_output=True, text=True, timeout=240
        )

    first = run("100")
    assert first.returncode == 0, first.stderr
    assert "measure 'cheap_speed'" in first.stdout + first.stderr
    assert (home / "run/plugins/script.py").read_text() == SCRIPT
    read = vsr(home, "verify", "run")
    assert read.returncode == 2
    assert "cheap_speed" in read.stderr
    assert "registered" in read.stderr
    assert run("100", "generations=2").returncode == 0
    sessions = json.loads((home / "run/meta.json").read_text())["sessions"]
    refused = run("50", "generations=3")
    assert refused.returncode == 1  # an exception, as in any script
    assert "cheap_speed" in refused.stderr
    assert "put back what was changed" in refused.stderr
    assert json.loads((home / "run/meta.json").read_text())["sessions"] == sessions


def test_a_module_that_registers_a_component_becomes_a_plugin_of_the_run(home, monkeypatch):
    """As in a script that imports its own module: a run folder alone must be enough for others."""
    monkeypatch.syspath_prepend(str(home))
    (home / "late_measures.py").write_text(PLUGIN.replace('"scaled"', '"late_scaled"'))
    experiment = load_experiment_of(home)
    assert with_registered(experiment).plugins == ()
    try:
        late_measures = importlib.import_module("late_measures")
        experiment = experiment.model_copy(
            update={"fitness": experiment.fitness.model_copy(update={"measure": "late_scaled"})}
        )
        assert with_registered(experiment).plugins == ("late_measures",)
        assert with_registered(with_registered(experiment)).plugins == ("late_measures",)
        sources = sources_of(with_registered(experiment))
        assert set(sources.files) == {"late_measures", *MODULES - {"scale_plugin"}}
        assert sources.unkept == ()
        before = sources.digests
        assert sources.changed_since(before) is None
        (home / "lazy_package" / "constants.py").write_text("ZERO = 1.0\n")
        assert sources.changed_since(before) == "lazy_package.constants"
        assert late_measures.scaled is MEASURES["late_scaled"]
    finally:
        MEASURES.pop("late_scaled", None)
        for name in ("late_measures", "scale_helper"):
            sys.modules.pop(name, None)


@pytest.mark.slow
def test_data_that_a_plugin_reads_and_what_a_search_does_are_part_of_the_program(home, monkeypatch):
    """Whatever the number of devices: the evaluation of one robot is compared."""
    experiment = load_experiment_of(home)
    before = program_digest(experiment)
    assert program_digest(load_experiment_of(home)) == before
    measure = MEASURES["relative_velocity"]
    with monkeypatch.context() as patch:
        patch.setitem(MEASURES, "relative_velocity", wraps(measure)(lambda *given: 2 * measure(*given)))
        assert program_digest(experiment) != before
    ask = type(experiment.optimizer).ask
    monkeypatch.setattr(
        type(experiment.optimizer), "ask", lambda *given: jax.tree.map(lambda leaf: leaf + 1, ask(*given)), raising=True
    )
    assert program_digest(experiment) != before


def test_imports_by_a_literal_name_are_found(home, monkeypatch):
    monkeypatch.syspath_prepend(str(home))
    (home / "dynamic_import.py").write_text("import importlib\n\nimportlib.import_module('scale_helper')\n")
    try:
        importlib.import_module("dynamic_import")
        assert set(own_modules(["dynamic_import"])) == {"dynamic_import", "scale_helper"}
    finally:
        for name in ("dynamic_import", "scale_helper"):
            sys.modules.pop(name, None)


def load_experiment_of(home):
    file = home / "plain.yaml"
    file.write_text(TINY)
    return load_experiment(file)


def test_installed_packages_are_not_the_users_own():
    assert own_modules(["numpy", "json", "vsr.scene", "yaml"]) == {}
