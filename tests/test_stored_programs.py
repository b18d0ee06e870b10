"""Compiled programs of experiments outlive the process, and are those of the same experiment and code only."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest
from jax.experimental.compilation_cache import compilation_cache

from vsr.experiments.config import load_experiment
from vsr.experiments.devices import cache_folder
from vsr.experiments.evolve import stored_programs
from vsr.experiments.evolve.generation import compile_evolution, program_digest
from vsr.experiments.evolve.stored_programs import what_programs_depend_on
from vsr.scene import precision

SMALL = """
robot: {body: {shape: [aa]}, controller: sine}
task: {duration: 0.5}
optimizer: {population_size: 4, tournament_size: 2}
"""


@pytest.fixture
def store(tmp_path, monkeypatch):
    """An empty one."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    before = jax.config.jax_compilation_cache_dir  # pyright: ignore[reportAttributeAccessIssue]
    folder = cache_folder()
    jax.config.update("jax_compilation_cache_dir", str(folder))
    compilation_cache.reset_cache()
    yield folder
    jax.config.update("jax_compilation_cache_dir", before)
    compilation_cache.reset_cache()


def written(path, more=""):
    path.write_text(f"kind: experiment\nformat: 1\n{SMALL}generations: 2\n{more}")
    return load_experiment(path).resolved()


def fitness_of_two_generations(evolution):
    searches, found = evolution.start(), []
    for _ in range(2):
        searches, statistics = evolution.step(searches)
        found += jax.tree.leaves(statistics)
    return [value.tolist() for value in found]


@pytest.mark.slow
def test_a_second_start_reads_what_the_first_compiled(store, tmp_path, monkeypatch):
    experiment = written(tmp_path / "small.yaml")
    counted, again = [], []
    first = fitness_of_two_generations(compile_evolution(experiment, counted.append))
    (file,) = store.glob("experiment-*")

    def must_not(*_):
        raise AssertionError("compiled again")

    monkeypatch.setattr("vsr.experiments.evolve.generation._compile", must_not)
    assert fitness_of_two_generations(compile_evolution(experiment, again.append)) == first
    assert again == counted[:1]
    assert again[0].plain > 1e5
    with pytest.raises(AssertionError, match="compiled again"):  # another experiment
        compile_evolution(written(tmp_path / "other.yaml", "fitness: average_height\n"))
    with monkeypatch.context() as other:
        other.setattr(stored_programs, "source_digest", lambda: "edited")
        with pytest.raises(AssertionError, match="compiled again"):
            compile_evolution(experiment)
    whole = file.read_bytes()
    for other in (whole[:1000], whole[:-1000], b"", b"no program", pickle.dumps(("of", 1, "another kind"))):
        file.write_bytes(other)
        with pytest.raises(AssertionError, match="compiled again"):
            compile_evolution(experiment)
    file.write_bytes(whole)
    assert compile_evolution(experiment).were_kept


COUNTING = """
import json, sys
from jax import monitoring
traced = []
monitoring.register_event_duration_secs_listener(
    lambda event, _, **more: traced.append(more["fun_name"]) if "trace_duration" in event else None
)
import jax
from vsr.experiments.config import load_experiment
from vsr.experiments.devices import prepare
from vsr.experiments.evolve.generation import compile_evolution
prepare("cpu")
evolution = compile_evolution(load_experiment(sys.argv[1]).resolved())
searches, numbers = evolution.start(), []
for _ in range(2):
    searches, statistics = evolution.step(searches)
    numbers += [leaf.tobytes().hex() for leaf in map(jax.device_get, jax.tree.leaves(statistics))]
print(json.dumps([traced, numbers]))
"""


@pytest.mark.slow
def test_a_second_process_traces_nothing(tmp_path):
    def run(*more):
        written(tmp_path / "small.yaml", "\n".join(more))
        command = [sys.executable, "-c", COUNTING, str(tmp_path / "small.yaml")]
        environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
        done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
        return json.loads(done.stdout.splitlines()[-1])

    traced, numbers = run()
    assert {"evaluate_once", "confirm_leaders", "ask", "tell"} <= set(traced)
    assert run() == [[], numbers]
    assert run("checkpoint_seconds: 3") == [[], numbers]
    traced, others = run("seeds: [7]")
    assert traced == []
    assert others != numbers


def key_of(experiment):
    return stored_programs._file(what_programs_depend_on(experiment))


@pytest.mark.parametrize(
    "change",
    [
        {"robot.body.materials": {"a": {"friction": 9.0}}},
        {"world.terrain": {"type": "uneven"}},
        {"world.gravity": 9.0},
        {"task.duration": 0.6},
        {"physics.substeps": 20},
        {"physics.implementation": "xla"},
        {"physics.precision": "float64"},
        {"fitness": "average_height"},
        {"optimizer.population_size": 6},
        {"evaluation.trials": 4},
        {"seeds": 2},
    ],
    ids=lambda change: next(iter(change)),
)
def test_another_description_has_other_programs(store, tmp_path, change):
    experiment = written(tmp_path / "small.yaml")
    settings = [f"{path}={json.dumps(value)}" for path, value in change.items()]
    assert key_of(experiment) != key_of(load_experiment(tmp_path / "small.yaml", settings).resolved())


def test_what_no_program_depends_on_is_not_in_the_key(store, tmp_path):
    experiment = written(tmp_path / "small.yaml")
    other = experiment.model_copy(update={"generations": 9, "seeds": (5,), "checkpoint_seconds": 1.0})
    assert key_of(experiment) == key_of(other)
    assert program_digest(other) == program_digest(what_programs_depend_on(other))


def test_other_code_settings_and_devices_have_other_programs(store, tmp_path, monkeypatch):
    experiment, found = written(tmp_path / "small.yaml"), []

    def note():
        found.append(key_of(experiment))

    note()
    monkeypatch.setattr(stored_programs, "source_digest", lambda: "edited")
    note()
    monkeypatch.setattr(stored_programs, "version", lambda _: "99")
    note()
    for name in stored_programs.VARIABLES:
        monkeypatch.setenv(name, "7")
        note()
    with precision("float64"):
        note()
    with jax.default_matmul_precision("highest"):
        note()
    monkeypatch.setattr(stored_programs, "why_plain", lambda _: None)
    for known in ((98, 0), (99, 0)):  # of NVRTC, neither of them this computer's
        monkeypatch.setattr(stored_programs.nvrtc, "version", lambda known=known: known)
        note()
    for name in ("jax_disable_most_optimizations", "jax_threefry_partitionable"):
        before = jax.config.values[name]  # pyright: ignore[reportAttributeAccessIssue]
        jax.config.update(name, not before)
        note()
        jax.config.update(name, before)
    monkeypatch.setattr(jax, "devices", lambda: jax.local_devices() * 2)
    note()
    assert len(set(found)) == len(found)


def test_beds_of_sand_are_known_by_their_grains(store, tmp_path, monkeypatch):
    experiment = written(tmp_path / "small.yaml", "world: {terrain: {type: sand}}\n")
    found = []
    for height in (0.1, 0.2):
        monkeypatch.setattr(stored_programs, "build_beds", lambda *_, height=height: {"sand": jnp.full(3, height)})
        found.append(key_of(experiment))
    assert found[0] != found[1]


def test_programs_of_plugins_are_not_kept(store, tmp_path):
    experiment = written(tmp_path / "small.yaml")
    assert key_of(experiment) is not None
    assert key_of(experiment.model_copy(update={"plugins": ("an_installed_package",)})) is None


def test_only_programs_of_the_experiment_count_as_held_by_jax(store):
    def compiling(compile_it):
        jax.clear_caches()
        return stored_programs._noting_hits(lambda: compile_it(jax.jit(lambda x: jnp.sin(x) + 1).lower(1.0)))[1]

    assert compiling(stored_programs.compiled)  # for the first time
    assert not compiling(stored_programs.compiled)
    assert compiling(lambda lowered: lowered.compile())  # something else, such as an array that is made meanwhile


def test_nothing_is_kept_where_the_user_keeps_programs(store, tmp_path):
    experiment = written(tmp_path / "small.yaml")
    assert key_of(experiment) is not None
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "elsewhere"))
    assert key_of(experiment) is None
