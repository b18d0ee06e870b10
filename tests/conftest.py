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

from vsr.experiments.devices import prepare
from vsr.physics.engine import assemble_body
from vsr.physics.squares.geometry import rest_state
from vsr.robot import Body, Material

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
    "faults",
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


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    place = {f"test_{name}": number for number, name in enumerate(SLOWEST)}
    missing = [name for name in place if not any(Path(__file__).parent.rglob(f"{name}.py"))]
    if missing:
        raise pytest.UsageError(f"conftest.py: SLOWEST names files that are not there: {', '.join(missing)}")
    # Modules that are compiled alike one after another: they share programs, which a change would throw away.
    items.sort(key=lambda item: (is_quickly_compiled(item), place.get(item.path.stem, len(place))))


def is_quickly_compiled(node) -> bool:
    return any("quickly_compiled" in mark.args for mark in node.iter_markers("usefixtures"))


ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "vsr" / "evidence" / "validate" / "data" / "2d-vsr-sim"

# Programs compiled once serve the processes that tests start, and the next run of the tests.
os.environ.setdefault("XDG_CACHE_HOME", str(ROOT / ".cache"))
# One device: workers share the cores already. Tests of several devices start processes of their own (test_hosts.py).
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=1")
prepare()  # as the command does, so that tests in this process and in others agree
gc.set_threshold(50_000, 20, 50)  # tracing makes many objects that live long: looking for garbage took a twentieth


TINY = """
robot: {body: {shape: aa}, controller: sine}
task: {duration: 0.6, placement: {clearance: 0.0}}
evaluation: {trials: 1, refine: null}
optimizer: {population_size: 6, tournament_size: 2}
generations: 5
seeds: 2
checkpoint_seconds: 0
"""
"""An experiment for tests of runs."""


MOST_MAPPINGS = 30_000
"""Of a process's memory, at the end of a module; every compiled program has some, and Linux allows 65,530."""


def compile_quickly(quickly: bool) -> None:
    if compiled_quickly() != quickly:
        jax.config.update("jax_disable_most_optimizations", quickly)
        jax.clear_caches()  # or else tests would meet programs of the other kind, which may round differently


def compiled_quickly() -> bool:
    return jax.config.read("jax_disable_most_optimizations")


@pytest.fixture(scope="module", autouse=True)
def _compiled(request):
    compile_quickly(is_quickly_compiled(request.node))
    yield
    mappings = Path("/proc/self/maps")
    if mappings.exists() and mappings.read_bytes().count(b"\n") > MOST_MAPPINGS:
        jax.clear_caches()


@pytest.fixture(scope="module")
def quickly_compiled():
    """For whole modules, by `pytestmark`: programs that XLA does not optimize.

    For tests of formulas, which spend their time on compiling.
    """
    assert compiled_quickly(), "quickly_compiled is for whole modules"


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
