"""Compiled programs of experiments outlive the process, and are those of the same experiment and code only."""

from __future__ import annotations

import jax
import pytest
from jax.experimental.compilation_cache import compilation_cache

from vsr.experiments.config import load_experiment
from vsr.experiments.devices import cache_folder
from vsr.experiments.evolve import stored_programs
from vsr.experiments.evolve.generation import compile_evolution

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
        other.setattr(stored_programs, "_code", lambda: "edited")
        with pytest.raises(AssertionError, match="compiled again"):
            compile_evolution(experiment)
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(AssertionError, match="compiled again"):  # cut short
        compile_evolution(experiment)


def test_nothing_is_kept_where_the_user_keeps_programs(store, tmp_path):
    experiment = written(tmp_path / "small.yaml")
    assert stored_programs._file(experiment) is not None
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "elsewhere"))
    assert stored_programs._file(experiment) is None
