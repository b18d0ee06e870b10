"""Devices: flags for XLA, what is added to the user's and reported of a run; and GPUs on which kernels cannot run."""

import os
import subprocess
import sys
from types import SimpleNamespace

import jax
import pytest

from vsr.compute import implementation
from vsr.compute.gpu.language import PROCESSES
from vsr.compute.implementation import chosen
from vsr.experiments import devices, processes
from vsr.experiments.devices import OWN_FLAG, UNTIMED, code_generator, flags_of_user
from vsr.experiments.storage.provenance import describe_session, differences

USERS = "--xla_force_host_platform_device_count=2"


@pytest.fixture
def jaxlib(monkeypatch):
    """Set the version that is installed, and the user's XLA_FLAGS."""

    def install(version: str, flags: str | None) -> None:
        monkeypatch.setattr(devices, "version", {"jaxlib": version}.__getitem__)
        monkeypatch.setenv("XLA_FLAGS", flags or "")  # set, so that it is as before in the end, whatever is added
        if flags is None:
            monkeypatch.delenv("XLA_FLAGS")

    return install


def flags_after(times: int = 1) -> str | None:
    for _ in range(times):
        devices._generate_quick_code()
    return devices.os.environ.get("XLA_FLAGS")


@pytest.mark.parametrize(
    ("version", "given", "flags", "generator"),
    [
        ("0.10.0", None, OWN_FLAG, "older"),
        ("0.10.2", USERS, f"{USERS} {OWN_FLAG}", "older"),
        ("0.10.2", f"{USERS} --{devices.GENERATOR_FLAG}=true", f"{USERS} --{devices.GENERATOR_FLAG}=true", "newer"),
        ("0.10.2", f"--{devices.GENERATOR_FLAG}=0", f"--{devices.GENERATOR_FLAG}=0", "older"),
        ("0.11.0", None, None, None),
        ("0.11.0", USERS, USERS, None),
        ("0.9.2", USERS, USERS, None),
        ("0.100.0", None, None, None),
    ],
)
def test_the_older_generator_is_asked_for_where_there_are_two_and_the_user_has_not_chosen(
    jaxlib, version, given, flags, generator
):
    jaxlib(version, given)
    assert flags_after(times=2) == flags
    assert code_generator() == generator


def test_without_the_flag_jaxlib_takes_the_newer_generator(jaxlib):
    jaxlib("0.10.2", USERS)
    assert code_generator() == "newer"


@pytest.mark.parametrize("given", [None, USERS, f"{USERS} --{devices.GENERATOR_FLAG}=true"])
def test_a_run_tells_the_flags_that_the_user_set(jaxlib, given):
    jaxlib("0.10.2", given)
    flags_after()
    start = describe_session(0)
    assert start["flags"].get("XLA_FLAGS") == given
    assert start["code_generator"] == ("newer" if given and "true" in given else "older")
    assert flags_of_user(f"{OWN_FLAG} {USERS} {OWN_FLAG} --b=1") == f"{USERS} --b=1"


def test_flags_and_generators_that_did_change_are_told(jaxlib):
    jaxlib("0.10.2", None)
    flags_after()
    old = describe_session(0)
    jaxlib("0.10.2", f"{USERS} --{devices.GENERATOR_FLAG}=true")
    flags_after()
    flags, generator = differences(old, describe_session(0))
    assert flags.startswith("flags was {")
    assert USERS in flags
    assert generator == "code_generator was older, is newer"


@pytest.mark.parametrize(
    ("given", "added"),
    [
        (None, UNTIMED),
        (USERS, UNTIMED),
        (f"{USERS} --xla_gpu_autotune_level=2", UNTIMED[1:]),
        (" ".join(UNTIMED), ()),
    ],
)
def test_kernels_are_not_timed_unless_the_user_asks_for_it(jaxlib, given, added):
    jaxlib("0.12.0", given)
    for _ in range(2):
        devices._time_no_kernels()
    flags = devices.os.environ["XLA_FLAGS"].split()
    assert flags == [*(given or "").split(), *added]
    assert flags_of_user(" ".join(flags)) == " ".join(flag for flag in (given or "").split() if flag not in UNTIMED)


def test_a_gpu_draws_random_numbers_by_a_kernel():
    """Instead of by hundreds of operations, which take long to compile; as JAX lowers them for one anywhere."""
    name = "jax_threefry_gpu_kernel_lowering"
    before = getattr(jax.config, name)
    try:
        devices._draw_by_kernel()
        drawn = jax.jit(lambda key: jax.random.uniform(key, (8,))).trace(jax.random.key(0))
        text = drawn.lower(lowering_platforms=("cuda",)).as_text()
    finally:
        jax.config.update(name, before)
    assert "cu_threefry2x32" in text
    assert text.count("shift_left") <= 1  # of the operations, every round has one


CUDA = "PJRT C API\ncuda 12090"


@pytest.mark.parametrize(
    ("platform", "capability", "nvrtc", "reason"),
    [
        (CUDA, "7.5", True, None),  # a T4
        (CUDA, "6.1", True, "it needs compute capability 7.0, and this GPU has 6.1"),
        ("PJRT C API\nrocm 60300", "gfx942", True, "this one is AMD's"),
        (CUDA, "9.0", False, "pip install 'jax[cuda12]' or 'jax[cuda13]'"),
    ],
)
def test_a_gpu_without_kernels_computes_in_plain_jax_and_one_line_says_why(
    monkeypatch, capsys, jaxlib, platform, capability, nvrtc, reason
):
    gpu = SimpleNamespace(
        platform="gpu", compute_capability=capability, client=SimpleNamespace(platform_version=platform)
    )
    jaxlib("0.10.1", None)
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", "")
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")
    for name in ("devices", "local_devices"):
        monkeypatch.setattr(jax, name, lambda *_: [gpu])
    monkeypatch.setattr(implementation, "library", lambda: object() if nvrtc else None)
    assert devices.prepare() is gpu
    assert chosen("auto") == ("xla" if reason else "fused")
    said = capsys.readouterr().err.splitlines()
    assert len(said) == (1 if reason else 0)
    if reason:
        assert reason in said[0]
        with pytest.raises(ValueError, match="'fused' cannot run here"):
            chosen("fused")


@pytest.mark.parametrize("jobs", [1, 3])
def test_processes_at_the_same_time_share_a_gpu(monkeypatch, tmp_path, jobs):
    for name in (*processes.MEMORY, PROCESSES):
        monkeypatch.delenv(name, raising=False)
    code = f"import os; print(os.environ.get({PROCESSES!r}), os.environ.get({processes.MEMORY[0]!r}))"
    works = {str(number): processes.Work([sys.executable, "-c", code], tmp_path / f"{number}") for number in range(3)}
    assert processes.run_processes(works, jobs) == (dict.fromkeys(works, 0), False)
    expected = {1: "None None", 3: "3 0.300"}[jobs]
    assert {(tmp_path / name).read_text().strip() for name in works} == {expected}


EARLY = """
import sys
from vsr.experiments.devices import prepare, start_early
assert not {"vsr.episode", "vsr.scene", "vsr.experiments.config.loading"} & set(sys.modules), "it loads much"
start_early(sys.argv[1])
import vsr.experiments.evolve.command
from vsr.experiments.config.problems import UserError
try:
    print(prepare(sys.argv[1]).platform)
except UserError as error:
    print(error)
"""


@pytest.mark.parametrize(("device", "said"), [("cpu", "cpu"), ("gpu", "--device gpu: it cannot be used")])
def test_devices_start_while_modules_are_loaded(device, said):
    """Errors are those of `prepare`."""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-c", EARLY, device]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.startswith(said)
    assert "Traceback" not in done.stderr
