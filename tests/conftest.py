"""Shared shapes and helpers. Small bodies, few of them, so that compilations are shared."""

from __future__ import annotations

import contextlib
import gc
import inspect
import json
import os
import signal
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import settings

from vsr.body import Body, Material
from vsr.experiments.devices import prepare
from vsr.physics.engine import assemble_body
from vsr.physics.squares.geometry import rest_state

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Begun in the background of a shell; runs that tests start would inherit that, and could not be stopped.
    signal.signal(signal.SIGINT, signal.default_int_handler)

with contextlib.suppress(ImportError):
    # Loaded first: it closes every log handler that it finds, and with absl's the file that pytest captures into.
    import submitit  # noqa: F401

settings.register_profile("suite", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("suite")

SLOWEST = (
    "evolve",
    "episode",
    "points",
    "refine",
    "advance",
    "hosts",
    "sweep",
    "validation",
    "motion",
    "lattice_kernel",
    "points_kernel",
    "evo",
    "encodings",
    "contact",
    "grains",
    "study_run",
    "machines",
    "grains_kernel",
    "sand_study",
    "chambers",
    "studies",
    "motion_reference",
    "world",
    "play",
    "sand_pictures",
    "objects",
    "named_tasks",
    "own_tasks",
)
"""Files of tests that take longest; they are run first, so that no worker is left with one at the end."""


def apart() -> CliRunner:
    """Keeps standard output and standard error separate, which click 8.1 mixes by default."""
    joins = "mix_stderr" in inspect.signature(CliRunner).parameters
    return CliRunner(**{"mix_stderr": False} if joins else {})


def pytest_configure(config):
    config.option.loadscopereorder = False  # or else xdist puts files with many tests first, however quick


SLOW_CASES = (
    "test_an_episode_is_the_same_by_either_implementation[feeling]",
    "test_the_kernel_does_what_the_reference_does[flat-13-32-tiles0]",
    "test_every_shipped_study_is_sound[body]",
    "test_a_browser_draws_grains_and_switches_their_colours[3]",
    "test_overlays_are_switched[space]",
    "test_time_is_scrubbed_and_stepped[space]",
    "test_colours_are_chosen[space]",
    "test_a_robot_stands_on_sand_and_not_on_the_ground_below[squares]",
    "test_forces_are_minus_the_gradient_of_the_energy[3-D]",
    "test_the_kernel_does_what_plain_jax_does[3-kind2]",
    "test_blocks_of_voxels_make_the_whole_matrix[pressure-2]",
    "test_unreachable_targets_end_at_the_nearest_point[target0]",
    "test_slopes_are_those_of_neighbouring_poses",
    "test_a_job_out_of_time_saves_and_goes_on",
    "test_a_beam_swings_as_euler_and_bernoulli_say",
    "test_a_quadruped_lands_on_bumpy_ground_and_stays_above_it",
    "test_a_page_plays_and_pauses[plane]",
    "test_a_page_plays_and_pauses[many]",
    "test_pages_fit_phones_and_follow_the_scheme[many]",
    "test_a_failure_ends_the_episode[<lambda>-6]",
    "test_a_reader_on_many_cores_has_memory_for_its_threads",
    "test_time_after_the_last_call_counts_for_a_task",
    "test_environments_are_timed_in_steps",
    "test_every_key_of_grains_changes_them[2]",
    "test_friction_is_back_when_a_bed_has_fallen",
    "test_the_swarm_moves_and_stays_together",
    "test_the_cantilever_loses_more_material_than_stiffness",
    "test_bound_holds_for_bodies",
    "test_the_suite_reports_and_draws",
    "test_every_shipped_config_passes_vsr_check[sand]",
    "test_every_shipped_study_is_sound[devo]",
    "test_a_robot_in_free_space_keeps_its_momentum[interpreted]",
    "test_the_kernel_does_what_plain_jax_does[2-kind1]",
    "test_all_that_acts_from_outside[3]",
    "test_beams_of_different_lengths_and_times_run_together",
    "test_two_devices_give_the_same_as_one",
    "test_every_shipped_config_passes_vsr_check[walking_on_sand]",
    "test_explicit_euler_is_traced_with_the_others_steps",
    "test_a_bouncing_lattice_gains_no_energy_and_comes_to_rest",
    "test_worms_differ_in_one_call",
    "test_springs_break_beyond_their_yield_force_and_stay_broken[3]",
    "test_free_fall[1.0]",
    "test_blocks_of_voxels_make_the_whole_matrix[volume-2]",
    "test_worlds_of_a_batch_in_the_kernel",
    "test_pressure_inflates_a_hollow_lattice_and_keeps_its_energy_and_momentum",
    "test_what_bodies_feel_is_what_grains_lose",
)
"""Left to `make test-full`: quicker cases, or tests of nearly the same, are run every time."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    for item in items:
        if item.name in SLOW_CASES:
            item.add_marker(pytest.mark.slow)
    place = {f"test_{name}": number for number, name in enumerate(SLOWEST)}
    items.sort(key=lambda item: place.get(item.path.stem, len(place)))


ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "vsr" / "evidence" / "validate" / "data" / "2d-vsr-sim"

# Programs compiled once serve the processes that tests start, and the next run of the tests.
os.environ.setdefault("XDG_CACHE_HOME", str(ROOT / ".cache"))
prepare()  # as the command does, so that tests in this process and in others agree
gc.set_threshold(50_000, 20, 50)  # tracing makes many objects that live long: looking for garbage took a twentieth


TINY = """
robot: {body: {shape: aa}, controller: phases}
task: {duration: 0.6, placement: {clearance: 0.0}}
ea: {n_pop: 6, n_tour: 2}
generations: 5
seeds: 2
checkpoint_seconds: 0
"""
"""An experiment for tests of runs."""


@pytest.fixture(scope="module")
def quickly_compiled():
    """Programs that XLA does not optimise: for tests of formulas, which spend their time on compiling."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)
    jax.clear_caches()  # or else other tests would meet these programs, which may round differently


@pytest.fixture(scope="session")
def original_voxel() -> dict:
    """Springs and terrains as the original builds them."""
    return json.loads((DATA / "voxel_and_terrains.json").read_text())


@pytest.fixture(scope="session")
def biped() -> Body:
    return Body(shape=("aaaa", "a..a"))


@pytest.fixture(scope="session")
def ell() -> Body:
    """Three voxels around a corner: clusters of one, two and three masses."""
    return Body(shape=("a.", "aa"), materials={"a": Material(linear_damping=0.0, angular_damping=0.0)})


@pytest.fixture
def disturbed(ell):
    """The ell's model (float64 is the caller's business) and a state with every cluster pushed, turned and moving."""

    def make(dtype=jnp.float32, size=0.1, body=ell):
        from dataclasses import replace

        model = assemble_body(body, dtype=dtype)
        random = np.random.default_rng(3)
        state = rest_state(model)
        exists = np.asarray(model.cluster_mass > 0)[..., None]
        angle = size * random.normal(size=state.spin.shape) * exists[..., 0]
        return model, replace(
            state,
            position=state.position + jnp.asarray(exists * size * random.normal(size=state.position.shape), dtype),
            rotation=jnp.stack([jnp.cos(angle), jnp.sin(angle)], -1).astype(dtype),
            velocity=jnp.asarray(exists * 3 * size * random.normal(size=state.position.shape), dtype),
            spin=jnp.asarray(exists[..., 0] * 3 * size * random.normal(size=state.spin.shape), dtype),
        )

    return make
