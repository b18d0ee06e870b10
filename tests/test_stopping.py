"""Ctrl-C and SIGTERM at any moment of a command: exit code 130, one sentence, no traceback, nothing half-written."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT, TINY

from vsr.experiments import stopping
from vsr.experiments.storage.run_folder import is_free, is_run

LINUX = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")


def hears_signals(process: subprocess.Popen) -> bool:
    """Whether a process has a handler for SIGTERM, which Python itself has not."""
    assert process.poll() is None
    lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
    caught = next(line.split()[1] for line in lines if line.startswith("SigCgt"))
    return bool(int(caught, 16) >> (signal.SIGTERM - 1) & 1)


def signalled(arguments, delay, number=signal.SIGINT):
    """What a command says and its exit code, if a signal comes some seconds after it has begun to hear them."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "vsr", *map(str, arguments)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    try:
        while not hears_signals(process):
            time.sleep(0.002)
        time.sleep(delay)
        process.send_signal(number)
        output, _ = process.communicate(timeout=20)
    finally:
        process.kill()
    return output, process.returncode


def check_ending(output, code, path):
    assert code == 130, output
    assert "Traceback" not in output
    assert "Aborted" not in output
    last = output.splitlines()[-1]
    if is_run(path):
        assert f"vsr evolve {path} --resume" in last
    else:
        assert is_free(path)
        assert last == stopping.NOTHING_BEGUN


@LINUX
@pytest.mark.parametrize(
    ("delay", "number"), [(0.0, signal.SIGINT), (0.05, signal.SIGTERM), (0.4, signal.SIGINT), (1.0, signal.SIGTERM)]
)
def test_an_early_signal_ends_with_a_sentence(tmp_path, delay, number):
    (tmp_path / "tiny.yaml").write_text(TINY)
    path = tmp_path / "run"
    output, code = signalled(["evolve", tmp_path / "tiny.yaml", "--out", path], delay, number)
    check_ending(output, code, path)


@LINUX
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_any_moment_ends_with_a_sentence(tmp_path, number):
    (tmp_path / "tiny.yaml").write_text(TINY)
    for tenths in (0, 2, 5, 9, 14, 20, 27, 35, 45, 60):
        path = tmp_path / f"run-{tenths}"
        endless = ["--set", "generations=1000000", "--set", "robot.body.shape=[aaa, a.a]"]
        output, code = signalled(["evolve", tmp_path / "tiny.yaml", "--out", path, *endless], tenths / 10, number)
        check_ending(output, code, path)


@LINUX
@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        ["simulate", "configs/robots/biped.yaml"],
        ["check", "configs/examples/01_first_walker.yaml"],
        ["play", "configs/robots/biped.yaml", "--out", "{path}.html"],
        ["refine", "configs/robots/biped.yaml"],
        ["bench", "2d"],
        ["reproduce", "body", "--scale", "smoke", "--out", "{path}"],
        ["train", "bulldozing", "--out", "{path}"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_every_command_hears_signals_while_it_loads_compiles_and_computes(tmp_path, arguments):
    for number, delay in enumerate((0.3, 2.2, 5.0)):
        given = [part.format(path=tmp_path / f"{number}") for part in arguments]
        output, code = signalled(given, delay)
        if code == 0:
            continue  # it was through
        assert code == 130, output
        assert "Traceback" not in output
        assert any(line.startswith("stopped") for line in output.splitlines()[-2:]), output  # and how to go on
        assert not list(tmp_path.rglob("*partial*"))


IN_C = """
import time, zlib
from vsr.experiments import stopping
stopping.listen()
print("listening", flush=True)
with stopping.on_interrupt("stopped in the middle"), stopping.remove_on_interrupt({file!r}):
    open({file!r}, "w").close()
    print("there", flush=True)
    {work}
"""
POLITE = """
with stopping.graceful_shutdown() as stop:
        print("polite", flush=True)
        while True:
            time.sleep(0.01)
            if stop: print("noted", flush=True)
"""


def begun(tmp_path, work):
    """A process that has come to its work, and the file that it writes."""
    file = tmp_path / "half"
    process = subprocess.Popen(
        [sys.executable, "-c", IN_C.format(file=str(file), work=work.strip())],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["listening\n", "there\n"]
    return process, file


def test_whoever_computes_outside_python_is_ended_and_half_a_file_removed(tmp_path):
    """Python's own handlers would wait until the lock is free, or the program compiled, or the work done."""
    process, file = begun(tmp_path, "import threading; lock = threading.Lock(); lock.acquire(); lock.acquire()")
    assert file.exists()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert errors == "stopped in the middle\n"
    assert not file.exists()


def test_an_exception_that_somebody_swallows_does_not_keep_a_command_going(tmp_path):
    """As in a callback of JAX, where KeyboardInterrupt would be printed and forgotten."""
    process, _ = begun(tmp_path, "exec('while True:\\n try: time.sleep(0.01)\\n except BaseException: pass')")
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (130, "stopped in the middle\n")


def test_the_first_signal_is_noted_and_the_second_ends_at_once(tmp_path):
    process, _ = begun(tmp_path, POLITE)
    assert process.stdout is not None
    assert process.stdout.readline() == "polite\n"
    process.send_signal(signal.SIGTERM)
    assert process.stdout.readline() == "noted\n"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (130, "stopped in the middle\n")


def test_a_signal_that_the_parent_ignores_stays_ignored(tmp_path):
    """As of a command that a shell has put into the background, or nohup."""
    code = (
        "import signal, os; signal.signal(signal.SIGINT, signal.SIG_IGN); from vsr.experiments import stopping; "
        "stopping.listen(); os.kill(os.getpid(), signal.SIGINT); print('went on')"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=20)
    assert (done.returncode, done.stdout) == (0, "went on\n")


def test_elsewhere_signals_are_handled_only_while_politeness_is_asked_for():
    before = signal.getsignal(signal.SIGINT)
    with stopping.graceful_shutdown() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop == [signal.SIGINT]
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
