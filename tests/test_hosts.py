"""Evolution on several hosts, played by processes of this one: all end alike, and none waits for ever."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
from conftest import ROOT

from vsr.experiments.config import UserError
from vsr.experiments.launch import Launch, find_launch, join
from vsr.experiments.storage.runs import read_run
from vsr.experiments.storage.statistics import read_statistics

TINY = """
robot: {body: {shape: aa}, controller: sine}
task: {duration: 0.3, placement: {clearance: 0.0}}
evaluation: {trials: 1, refine: null}
optimizer: {population_size: 7, tournament_size: 2}
generations: 100000
checkpoint_seconds: 0
"""
COMMAND = "import sys, vsr.cli as cli; sys.argv = ['vsr', *sys.argv[1:]]; cli.main()"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    file = tmp_path_factory.mktemp("config") / "tiny.yaml"
    file.write_text(TINY)
    return file


def free_port():
    with socket.create_server(("", 0)) as server:
        return server.getsockname()[1]


def start(*arguments, devices=1, code=COMMAND, launcher=()):
    environment = (
        os.environ
        | dict(launcher)
        | {
            "XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}",
            # Programs of several processes are not kept by us, but JAX can.
            "JAX_COMPILATION_CACHE_DIR": str(ROOT / ".cache" / "jax"),
            "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
            "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
        }
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


@pytest.fixture
def crew():
    """Start two processes that belong together; whatever happens, none is left."""
    started = []

    def start_two(*arguments, before=(), more=((), ()), code=COMMAND):
        where = ("--coordinator", f"localhost:{free_port()}", "--processes", 2)
        every = [(*before, "evolve", "--no-report", *arguments, *more[i], *where, "--process", i) for i in (0, 1)]
        started.extend(start(*words, code=code) for words in every)
        return started[-2:]

    yield start_two
    for process in started:
        process.kill()
        process.wait()


def ends(processes, seconds=120):
    """Exit codes and outputs."""
    outputs = [process.communicate(timeout=seconds)[0] for process in processes]
    return [process.returncode for process in processes], outputs


def wait_for_generations(path, number, seconds=120):
    deadline = time.monotonic() + seconds
    file = path / "statistics.bin"
    while not (file.exists() and read_statistics(file).generations >= number):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def last_checkpoint(path):
    newest = sorted((path / "checkpoints").glob("*.npz"))[-1]
    with np.load(newest) as stored:
        return {"file": newest.name, **{name: stored[name] for name in stored.files}}


@pytest.fixture(scope="module")
def stopped(tiny, tmp_path_factory):
    """Where a run of two processes is that was stopped by a signal to the second, and what they said."""
    path = tmp_path_factory.mktemp("runs") / "two"
    where = ("--coordinator", f"localhost:{free_port()}", "--processes", 2)
    processes = [start("evolve", "--no-report", tiny, "--out", path, *where, "--process", i) for i in (0, 1)]
    try:
        wait_for_generations(path, 2)
        processes[1].send_signal(signal.SIGTERM)
        return path, *ends(processes)
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_a_signal_to_any_process_stops_and_saves(stopped):
    path, codes, outputs = stopped
    assert codes == [130, 130], outputs
    done = read_run(path).generations
    assert f"stopped after {done:,} of 100,000 generations, all saved" in outputs[0]
    assert "generation" not in outputs[1]
    assert "process 1: process 0 has ended" in outputs[1]
    assert not any("Traceback" in output for output in outputs)
    assert json.loads((path / "meta.json").read_text())["sessions"][0]["processes"] == 2


LIMITED = f"""
import resource, signal, sys
limit = int(sys.argv.pop(1))
if sys.argv[-1] == "0":
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
{COMMAND}
"""


@pytest.mark.full
def test_whatever_befalls_two_processes_they_go_on_to_the_same_population_as_one(stopped, tiny, tmp_path, crew):
    path = stopped[0]
    enough_to_begin = 900 + max((path / name).stat().st_size for name in ("config.yaml", "meta.json"))
    codes, outputs = ends(crew(path, "--resume", code=LIMITED, before=(enough_to_begin,)))
    assert codes == [2, 2], outputs
    assert "cannot be written: File too large" in outputs[0]
    assert not any("Traceback" in output for output in outputs)

    before = read_run(path).generations
    processes = crew(path, "--resume")
    wait_for_generations(path, before + 1)
    processes[1].kill()
    codes, outputs = ends(processes)
    assert codes == [1, -signal.SIGKILL], outputs
    assert "process 0 cannot go on without the others" in outputs[0]
    assert "start all again with --resume" in outputs[0]

    generations = f"generations={read_run(path).generations + 2}"
    codes, outputs = ends(crew(path, "--resume", "--set", generations))
    assert codes == [0, 0], outputs
    assert "fitness curve" in outputs[0]
    codes, outputs = ends(
        [start("evolve", "--no-report", tiny, "--out", tmp_path / "one", "--set", generations, devices=2)]
    )
    assert codes == [0], outputs
    one, two = last_checkpoint(tmp_path / "one"), last_checkpoint(path)
    assert set(one) == set(two)
    for name in one:
        np.testing.assert_array_equal(one[name], two[name])


@pytest.mark.slow
def test_what_process_0_refuses_ends_all(tiny, tmp_path, crew):
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "mine.txt").write_text("mine")
    codes, outputs = ends(crew(tiny, "--out", tmp_path / "taken"))
    assert codes == [2, 2], outputs
    assert "it exists and is not a run folder" in outputs[0]
    assert "process 0 has ended" in outputs[1]
    assert not any("Traceback" in output for output in outputs)


@pytest.mark.full
def test_tasks_of_slurm_find_each_other(tmp_path):
    step = {
        "SLURM_JOB_ID": "7", "SLURM_STEP_NODELIST": "localhost", "SLURM_NTASKS": "2", "SLURM_STEP_NUM_TASKS": "2",
        "SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_NODEID": "0", "JAX_COORDINATOR_PORT": str(free_port()),
    }  # fmt: skip
    processes = [
        start("evolve", tmp_path / "none.yaml", launcher=step | {"SLURM_PROCID": task, "SLURM_LOCALID": task})
        for task in ("0", "1")
    ]
    codes, outputs = ends(processes)
    assert codes == [2, 2], outputs
    assert "none.yaml: there is no such file" in outputs[0]
    assert "process 1: process 0 has ended" in outputs[1]


@pytest.mark.full
def test_processes_with_different_orders_do_not_begin(tiny, tmp_path, crew):
    codes, outputs = ends(crew(tiny, "--out", tmp_path / "run", more=(("--seed", 1), ("--seed", 2))))
    assert codes == [2, 2], outputs
    for output in outputs:
        assert "process 1 was started with other arguments than process 0" in output
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_process_whose_fellows_do_not_come_gives_up(tiny, tmp_path):
    code = f"from vsr.experiments import launch; launch.SECONDS_TO_JOIN = 1; {COMMAND}"
    where = ("--coordinator", f"localhost:{free_port()}", "--processes", 2, "--process", 0)
    (code,), (output,) = ends([start("evolve", tiny, "--out", tmp_path / "run", *where, code=code)])
    assert code == 2
    assert "process 0 of 2: the others did not come" in output
    assert "stack trace" not in output


# who is who


@pytest.fixture
def environment(monkeypatch):
    for name in list(os.environ):
        if name.startswith(("SLURM_", "OMPI_", "CUDA_")):
            monkeypatch.delenv(name)

    def put(**values):
        for name, value in values.items():
            monkeypatch.setenv(name, str(value))

    return put


STEP = {
    "SLURM_JOB_ID": 7, "SLURM_STEP_NODELIST": "node[1-3]", "SLURM_NTASKS": 5, "SLURM_STEP_NUM_TASKS": 5,
    "SLURM_PROCID": 4, "SLURM_LOCALID": 0, "SLURM_NODEID": 2, "SLURM_STEP_TASKS_PER_NODE": "2(x2),1",
}  # fmt: skip


def test_without_launcher_or_options_a_process_is_alone(environment):
    assert find_launch(None, None, None) is None
    assert find_launch(None, 1, None) is None
    assert find_launch("localhost:5000", 1, 0) is None


def test_tasks_of_slurm_are_recognized(environment):
    environment(**STEP)
    assert find_launch(None, None, None) == Launch(5, 4, launcher="slurm", share_devices=False)
    environment(SLURM_NODEID=1)
    assert find_launch(None, None, None) == Launch(5, 4, launcher="slurm", share_devices=True)
    environment(CUDA_VISIBLE_DEVICES=0)
    assert find_launch(None, None, None) == Launch(5, 4, launcher="slurm", share_devices=False)
    assert find_launch(None, 1, None) is None
    assert find_launch("node1:5000", 2, 1) == Launch(2, 1, "node1:5000")
    environment(SLURM_STEP_NUM_TASKS="many")
    with pytest.raises(UserError, match="SLURM_STEP_NUM_TASKS=many: the launcher should set it to a number"):
        find_launch(None, None, None)


def test_one_task_of_slurm_is_alone(environment, monkeypatch):
    environment(**STEP | {"SLURM_NTASKS": 1, "SLURM_STEP_NUM_TASKS": 1, "SLURM_PROCID": 0})
    assert find_launch(None, None, None) is None
    environment(**STEP)
    monkeypatch.delenv("SLURM_STEP_NODELIST")  # in a batch script, which is no step of its own
    assert find_launch(None, None, None) is None


def test_ranks_of_open_mpi_are_recognized(environment):
    environment(OMPI_COMM_WORLD_SIZE=4, OMPI_COMM_WORLD_RANK=3, OMPI_COMM_WORLD_LOCAL_SIZE=1)
    assert find_launch(None, None, None) is None  # JAX would not find the coordinator
    environment(OMPI_MCA_orte_hnp_uri="1531576320.0;tcp://10.96.0.1:34911")
    assert find_launch(None, None, None) == Launch(4, 3, launcher="ompi")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((None, 2, None), "--processes given without --coordinator and --process; all three are needed"),
        (("node1:5000", None, 0), "--coordinator and --process given without --processes"),
        (("node1", 2, 0), "--coordinator node1: write it as HOST:PORT"),
        (("node1:70000", 2, 0), "a free port there .1 to 65535."),
        (("node1:5000", 2, 2), "--process 2: with --processes 2 it should be 0 to 1"),
    ],
)
def test_options_that_do_not_fit_are_told(environment, given, message):
    with pytest.raises(UserError, match=message):
        find_launch(*given)


def test_places_that_cannot_be_used_are_told():
    with socket.create_server(("", 0)) as server:
        taken = f"localhost:{server.getsockname()[1]}"
        with pytest.raises(UserError, match=f"--coordinator {taken}: it cannot be used: .*; give another port to all"):
            join(Launch(2, 0, taken))
    with pytest.raises(UserError, match="give the name or address of process 0's host"):
        join(Launch(2, 1, "no-such-host.invalid:5000"))


# devices


SHARED_OUT = """
import sys, jax, numpy as np
from vsr.evidence.bench.benchmark import peak_bytes
from vsr.experiments.devices import prepare
from vsr.experiments.evolve.fitness import evaluation_of
from vsr.experiments.experiment import Experiment
from vsr.experiments.population import in_parts, on_all_devices
prepare()
assert jax.device_count() == 2
experiment = Experiment.model_validate(
    {"robot": {"body": {"shape": "aa"}, "controller": "sine"},
     "task": {"duration": 0.3, "placement": {"clearance": 0.0}}}
)
genes = experiment.robot.sample(jax.random.key(0), 11)
shared, alone = (
    jax.jit(lambda everyone, share=share: share(evaluation_of(experiment), everyone, 3))(genes)
    for share in (on_all_devices, in_parts)
)
assert len(alone.fitness.devices()) == 1
assert np.isfinite(alone.fitness).all() and len(set(alone.fitness.tolist())) == 11
np.testing.assert_array_equal(shared.fitness, alone.fitness)

values = np.arange(11.0)
for at_once in (1, 4, 11, 50):
    doubled = jax.jit(lambda x, n=at_once: on_all_devices(lambda one: 2 * one, x, n))(values)
    assert len(doubled.devices()) == 2
    np.testing.assert_array_equal(doubled, 2 * values)

everyone = jax.numpy.ones((2048, 16))
program = jax.jit(lambda rows: on_all_devices(lambda row: row * 2, rows, 256)).lower(everyone).compile()
both_ends = 2 * everyone.nbytes
assert both_ends <= peak_bytes(program) < 3 * both_ends, "what the compiler reports is one device's share"
"""


@pytest.mark.full
def test_two_devices_give_the_same_as_one():
    (code,), (output,) = ends([start(devices=2, code=SHARED_OUT)])
    assert code == 0, output
