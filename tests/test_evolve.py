"""Evolution as a user meets it: runs, resumes, survives kills and full disks, and tells the truth about itself."""

import errno
import io
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import jax
import numpy as np
import pytest
import yaml
from click.testing import CliRunner
from conftest import ROOT, TINY
from growing import put_meta, put_statistics, rows_of
from rich.console import Console

import vsr.cli as cli
import vsr.experiments.evolve.command as evolve_module
from vsr.evo import OPTIMIZERS
from vsr.experiments.config import UserError, dump_yaml, load_experiment, load_scene
from vsr.experiments.evolve.command import evolve
from vsr.experiments.evolve.display import Progress, open_display
from vsr.experiments.evolve.fitness import evaluation_of
from vsr.experiments.evolve.generation import compile_evolution, program_digest, search_shapes, within_memory
from vsr.experiments.experiment import Experiment
from vsr.experiments.options import EvolveOptions
from vsr.experiments.population import in_parts, on_all_devices
from vsr.experiments.run_time import Operations
from vsr.experiments.storage.checkpoints import load_checkpoint, save_checkpoint
from vsr.experiments.storage.runs import read_run
from vsr.scene import simulate

MANY_GENES = """
robot:
  body: {type: gaussian_mixture, grid: [2, 2], materials: {a: {}, b: {}}}
  controller: {type: mlp, sensors: [{quantity: area_ratio}], hidden: [9]}
task: {duration: 0.4, placement: {clearance: 0.0}}
evaluation: {trials: 1, refine: null}
optimizer: {population_size: 7, tournament_size: 2}
generations: 4
seeds: 3
"""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    file = tmp_path_factory.mktemp("config") / "tiny.yaml"
    file.write_text(TINY)
    return file


@pytest.fixture(scope="module")
def compiled():
    """Compiled experiments, so that each is compiled once for all tests."""
    known = {}

    def compile_once(experiment, counted):
        # How many generations there are is no part of the compiled program.
        key = dump_yaml(experiment.model_copy(update={"generations": 1, "checkpoint_seconds": 0.0}))
        if key not in known:
            known[key] = compile_evolution(experiment, counted)
        return known[key]

    return compile_once


@pytest.fixture(autouse=True)
def _shared_compilations(monkeypatch, compiled):
    monkeypatch.setattr(evolve_module, "compile_evolution", compiled)


@pytest.fixture(scope="module")
def whole(tiny, compiled, tmp_path_factory):
    """A run that nothing has interrupted."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(evolve_module, "compile_evolution", compiled)
        return evolve(EvolveOptions(str(tiny), out=str(tmp_path_factory.mktemp("runs") / "whole")))


@pytest.fixture
def vsr():
    return lambda *arguments: CliRunner().invoke(cli.main, list(map(str, arguments)))


def final_population(path):
    """All arrays of the last checkpoint."""
    newest = sorted((path / "checkpoints").glob("*.npz"))[-1]
    with np.load(newest) as stored:
        return {"file": newest.name, **{name: stored[name] for name in stored.files}}


def statistics(path):
    """What the statistics say, but for how long objects took and of which run they are."""
    return rows_of(path)


def lineage(path):
    """All pieces joined along generations."""
    pieces = [dict(np.load(file)) for file in sorted((path / "lineage").glob("*.npz"))]
    return {name: np.concatenate([piece[name] for piece in pieces], axis=1) for name in pieces[0]}


def assert_same_run(path, other):
    jax.tree.map(np.testing.assert_array_equal, final_population(path), final_population(other))
    assert statistics(path) == statistics(other)
    jax.tree.map(np.testing.assert_array_equal, lineage(path), lineage(other))
    for file in (other / "best").iterdir():
        assert (path / "best" / file.name).read_text() == file.read_text()


# what a run leaves


def test_a_run_explains_itself(whole, tiny):
    rows = statistics(whole)
    assert [(row["generation"], row["seed"]) for row in rows] == [(g, s) for g in range(5) for s in (0, 1)]
    for seed in (0, 1):
        best = [row["best"] for row in rows if row["seed"] == seed]
        assert best == sorted(best)
    for row, genes in zip(rows[-2:], final_population(whole)["population.genes.controller"], strict=True):
        assert row["spread"] == pytest.approx(genes.std(0).mean(), rel=1e-5)
        assert row["bodies"] == 1
    meta = json.loads((whole / "meta.json").read_text())
    assert meta["config"] == str(tiny)
    assert meta["seeds"] == [0, 1]
    assert meta["sessions"][0]["packages"]["jax"] == jax.__version__
    assert meta["sessions"][0]["device"].startswith(jax.devices()[0].platform)
    assert {"commit", "command", "flags", "python"} <= set(meta["sessions"][0])
    stored = load_experiment(whole / "config.yaml")
    assert stored == load_experiment(tiny).resolved()
    assert stored.physics.substeps == 6
    assert (whole / "fitness.png").stat().st_size > 5000


def test_lineage_is_kept(whole):
    kept = lineage(whole)
    assert kept["id"].shape == (2, 5, 6)
    np.testing.assert_array_equal(kept["id"][0].ravel(), np.arange(30))
    assert (kept["parents"][:, 0] == -1).all()
    assert (kept["parents"][:, 1:, :, 0] >= 0).all()
    rows = [row for row in statistics(whole) if row["seed"] == 1]
    assert [row["best_id"] for row in rows] == kept["best_id"][1].tolist()
    for row in rows:
        fitness = kept["fitness"][1].ravel()[: 6 * (int(row["generation"]) + 1)]
        assert row["best"] == pytest.approx(float(fitness.max()))
        assert kept["fitness"][1].ravel()[int(row["best_id"])] == pytest.approx(row["best"])


def test_the_best_robot_can_be_simulated_and_does_as_well(whole):
    recorded = read_run(whole).best[:, -1]
    for seed in (0, 1):
        scene = load_scene(whole / "best" / f"seed-{seed}.yaml")
        assert simulate(scene).measures["relative_velocity"] == pytest.approx(recorded[seed], rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 2])
def test_seeds_in_a_batch_are_the_same_as_alone(tmp_path, devices):
    """Bodies and networks of many genes, where a last digit would soon show."""
    file = tmp_path / "many.yaml"
    file.write_text(MANY_GENES)
    batch, alone = tmp_path / "batch", tmp_path / "alone"
    environment = os.environ | {"XLA_FLAGS": f"--xla_force_host_platform_device_count={devices}"}
    for path, more in ((batch, ()), (alone, ("--seed", "1"))):
        command = [sys.executable, "-P", "-m", "vsr", "evolve", str(file), "--no-report", "--out", str(path), *more]
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
        assert ended.returncode == 0, ended.stderr
    together, single = final_population(batch), final_population(alone)
    assert together["population.genes.controller"].shape == (3, 7, 90)
    for name in set(together) - {"file"}:
        np.testing.assert_array_equal(single[name][0], together[name][1])
    assert statistics(alone) == [row for row in statistics(batch) if row["seed"] == 1]


def test_parts_cover_everyone_once():
    values = np.arange(11.0)
    for at_once in (1, 3, 4, 10, 11, 50):
        for share in (in_parts, on_all_devices):
            doubled = jax.jit(lambda x, share=share, n=at_once: share(lambda one: 2 * one, x, n))(values)
            np.testing.assert_array_equal(doubled, 2 * values)


def test_memory_decides_how_many_robots_run_at_once():
    class Program:
        def __init__(self, at_once):
            self.at_once = at_once

        def memory_analysis(self):
            return SimpleNamespace(temp_size_in_bytes=1000 + 10 * self.at_once)

    for limit, expected in ((1e9, 500), (3000, range(100, 200)), (10, 1)):
        program, at_once = within_memory(Program, 500, limit)
        assert program.at_once == at_once
        assert at_once in (expected if isinstance(expected, range) else [expected])


@pytest.mark.slow
def test_an_empty_body_is_a_failed_robot():
    experiment = Experiment.model_validate(
        {
            "robot": {"body": {"type": "gaussian_mixture", "grid": [2, 2]}, "controller": "sine_by_material"},
            "task": {"duration": 0.2},
        }
    )
    genes = {"body": np.zeros((2, 80), np.float32), "controller": np.zeros((2, 0), np.float32)}
    genes["body"][1] = np.tile([0.5, 0.5, 0.3, 1.0], 20)
    fitness = jax.jit(jax.vmap(evaluation_of(experiment)))(genes).fitness
    assert fitness[0] == -np.inf
    assert np.isfinite(fitness[1])


@pytest.mark.slow
def test_what_is_minimized_falls_also_in_double_precision(tiny, tmp_path):
    settings = ("fitness={measure: average_height, direction: minimize}", "physics.precision=float64", "seeds=1")
    path = evolve(EvolveOptions(str(tiny), settings=settings, out=str(tmp_path / "low")))
    run = read_run(path)
    assert (np.diff(run.best[0]) <= 0).all()
    assert (run.best > 0).all()
    assert (run.median >= run.best).all()
    assert final_population(path)["population.genes.controller"].dtype == np.float64


@pytest.mark.slow
def test_programs_are_known_by_what_they_compute(tiny):
    def program(*settings):
        return program_digest(load_experiment(tiny, settings).resolved())

    assert program("seeds=[7, 9]") == program("seeds=[3]", "generations=9")
    assert program("seeds=[7, 9]") != program("seeds=[7, 9]", "task.duration=0.5")


@pytest.mark.slow
def test_a_second_start_of_cma_es_goes_on(tiny, tmp_path):
    """Its eigenvectors come from LAPACK, whose functions must be there in a process that loads a compiled program."""
    search = "optimizer={type: cma_es, population_size: 6}"
    ends = []
    for name, more in (("first", ()), ("second", ()), ("first", ("--resume", "--set", "generations=2"))):
        command = [sys.executable, "-P", "-m", "vsr", "evolve", str(tiny), "--set", search, "--set", "generations=1"]
        command += ["--no-report", "--out", str(tmp_path / name), *more]
        ends.append(subprocess.run(command, capture_output=True, text=True, timeout=240))
    assert [end.returncode for end in ends] == [0, 0, 0], ends[-1].stderr


def test_a_search_that_no_checkpoint_holds_is_refused_before_anything_is_written(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr(evolve_module, "MOST_BYTES", 100)
    with pytest.raises(UserError, match="in a checkpoint, at most"):
        evolve(EvolveOptions(str(tiny), out=str(tmp_path / "run")))
    assert not (tmp_path / "run").exists()


def test_lineage_of_many_generations_is_saved_before_it_is_too_much(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("vsr.experiments.storage.run_folder.MOST_BYTES", 1600)
    path = evolve(EvolveOptions(str(tiny), ("checkpoint_seconds=3600",), out=str(tmp_path / "run")))
    assert len(list((path / "lineage").iterdir())) == 3  # the first at once, then two and two


# going on


def crash_at(monkeypatch, number):
    """Break off, as if the process had died, at the given one of the operations that make files durable."""
    count = iter(range(1000))

    class Died(BaseException):
        pass

    def dying(original):
        def operation(*arguments, **options):
            if next(count) == number:
                raise Died
            return original(*arguments, **options)

        return operation

    monkeypatch.setattr(os, "fsync", dying(os.fsync))
    monkeypatch.setattr(Path, "replace", dying(Path.replace))
    return Died


@pytest.mark.slow
def test_a_run_that_died_at_any_write_goes_on_to_the_same_end(whole, tiny, tmp_path):
    number, finished = 0, False
    while not finished:
        path = tmp_path / f"died-{number}"
        order = EvolveOptions(str(tiny), out=str(path), resume=True)
        with pytest.MonkeyPatch.context() as patch:
            died = crash_at(patch, number)
            try:
                evolve(order)
                finished = True
            except died:
                pass
        evolve(order)
        assert_same_run(path, whole)
        number += 3
    assert number > 50


KILLED = """
import os, signal, sys, time
from vsr.experiments.evolve.command import EvolveOptions, evolve
count, number = 0, int(sys.argv[3])
original = os.fsync
def fsync(descriptor):
    global count
    count += 1
    if count == number:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(float(sys.argv[4]))
    original(descriptor)
os.fsync = fsync
evolve(EvolveOptions(sys.argv[1], ("generations=60",), out=sys.argv[2], resume=True))
"""
NEVER = 10**9


def start_process(*arguments, code=KILLED):
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def wait_until(condition, seconds=120):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


@pytest.mark.slow
def test_sigkill_at_random_moments_then_resume(tiny, tmp_path):
    """Killed while writing, killed at random moments of running generations, then left to end."""
    undisturbed = evolve(EvolveOptions(str(tiny), ("generations=60",), out=str(tmp_path / "undisturbed")))
    path = tmp_path / "killed"

    def sessions():
        return json.loads((path / "meta.json").read_text())["sessions"]

    def recorded():
        return len(statistics(path))

    generator = random.Random(1)
    slowly = 0.01  # so that no machine is through before it is killed
    assert start_process(tiny, path, generator.randrange(4, 40), slowly).wait(timeout=120) == -signal.SIGKILL
    for number in (2, 3, 4):
        process = start_process(tiny, path, NEVER, slowly)
        wait_until(lambda number=number: len(sessions()) == number)
        wait_until(lambda: recorded() > 2 * sessions()[-1]["generation"])
        time.sleep(generator.uniform(0, 0.5))
        process.kill()
        assert process.wait(timeout=60) == -signal.SIGKILL
    output, _ = start_process(tiny, path, NEVER, 0).communicate(timeout=120)
    assert "going on after generation" in output
    assert len(sessions()) == 5
    assert_same_run(path, undisturbed)


INTERRUPTED = "import sys, vsr.cli as cli; sys.argv = ['vsr', *sys.argv[1:]]; cli.main()"


@pytest.mark.slow
def test_ctrl_c_saves_and_says_how_to_go_on(tiny, tmp_path):
    path = tmp_path / "stopped"
    many = ["--set", "generations=100000", "--set", "checkpoint_seconds=1000"]
    process = start_process("evolve", tiny, "--out", path, *many, code=INTERRUPTED)
    wait_until((path / "best" / "seed-0.yaml").exists)  # the first generation is saved at once, for those who watch
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert f"vsr evolve {path} --resume" in output
    assert "Traceback" not in output
    assert "all saved" in output
    done = len(statistics(path)) // 2
    assert f"stopped after {done:,} of 100,000" in output
    evolve(EvolveOptions(str(path), settings=(f"generations={done + 2}",), resume=True))
    assert read_run(path).generations == done + 2


def test_file_and_estimate_come_before_compiling(tiny, tmp_path, monkeypatch, vsr):
    def compiled(experiment, counted):
        counted(Operations(plain=1e6))
        raise UserError("that will do")

    monkeypatch.setattr(evolve_module, "compile_evolution", compiled)
    result = vsr("evolve", tiny, "--out", tmp_path / "run")
    names = [line.split(":")[0] for line in result.output.splitlines()]
    assert names == [
        "file", "run", "memory of this computer", "time of a generation", "time of the run", "that will do",
    ]  # fmt: skip
    assert f"file: {tiny}\n" in result.output


@pytest.mark.slow
def test_ctrl_c_while_compiling_says_how_to_begin(tiny, tmp_path):
    path = tmp_path / "early"
    settings = ["--set", "robot.body.shape=[aaa, a.a]"]  # nothing that is compiled already
    process = start_process("evolve", tiny, "--out", path, *settings, code=INTERRUPTED)
    wait_until(lambda: (path / "statistics.bin").exists())
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130, output
    assert f"to begin: vsr evolve {path} --resume" in output
    assert "Traceback" not in output


def test_more_generations_go_on_as_one_longer_run(whole, tiny, tmp_path):
    path = tmp_path / "longer"
    evolve(EvolveOptions(str(tiny), settings=("generations=3",), out=str(path)))
    evolve(EvolveOptions(str(tiny), out=str(path), resume=True))
    assert_same_run(path, whole)
    assert len(json.loads((path / "meta.json").read_text())["sessions"]) == 2


def test_torn_records_and_half_checkpoints_are_skipped(whole, tmp_path, capsys):
    path = tmp_path / "torn"
    shutil.copytree(whole, path)
    with (path / "statistics.bin").open("ab") as file:
        file.write(b"half of a record")
    newest = sorted((path / "checkpoints").glob("*.npz"))[-1]
    newest.write_bytes(newest.read_bytes()[:-200])
    (path / "checkpoints" / "00000009.npz.partial").write_bytes(b"half")
    assert read_run(path).generations == 5
    evolve(EvolveOptions(str(path), resume=True))
    output = capsys.readouterr().out
    assert "00000005.npz: corrupted (its end is missing or changed); skipped" in output
    assert not list(path.rglob("*.partial"))
    assert_same_run(path, whole)


def test_a_checkpoint_of_another_experiment_is_refused(whole):
    other = load_experiment(whole / "config.yaml", ["optimizer.population_size=7"])
    with pytest.raises(UserError, match=r"made by another experiment: .* is .*\(2, 6"):
        load_checkpoint(whole / "checkpoints", search_shapes(other), 2)


def test_a_run_that_lost_its_checkpoints_is_not_begun_anew(whole, tmp_path):
    for name, damage in (("gone", Path.unlink), ("torn", lambda file: file.write_bytes(b"half"))):
        path = tmp_path / name
        shutil.copytree(whole, path)
        for file in (path / "checkpoints").iterdir():
            damage(file)
        before = (path / "statistics.bin").read_bytes()
        with pytest.raises(UserError, match="no whole checkpoint to go on from"):
            evolve(EvolveOptions(str(path), settings=("generations=6",), resume=True))
        assert (path / "statistics.bin").read_bytes() == before
        assert len(list((path / "lineage").iterdir())) == 5


@pytest.mark.parametrize("content", ["", "{}", '{"seeds": [0'])
def test_a_damaged_meta_file_is_told_and_kept(whole, tmp_path, capsys, content):
    path = tmp_path / "meta"
    shutil.copytree(whole, path)
    (path / "meta.json").write_text(content)
    evolve(EvolveOptions(str(path), settings=("generations=6",), resume=True))
    assert "; kept as meta.corrupted, and begun again" in capsys.readouterr().out
    assert (path / "meta.corrupted").read_text() == content
    assert len(json.loads((path / "meta.json").read_text())["sessions"]) == 1


def test_fewer_generations_than_there_are_is_refused(whole):
    before = (whole / "config.yaml").read_bytes()
    with pytest.raises(UserError, match="it has 5 generations already, 2 are asked for"):
        evolve(EvolveOptions(str(whole), settings=("generations=2",), resume=True))
    assert (whole / "config.yaml").read_bytes() == before


def test_foreign_files_do_no_harm(whole, tmp_path):
    path = tmp_path / "notes"
    shutil.copytree(whole, path)
    (path / "lineage" / "notes.npz").write_text("mine")
    (path / "checkpoints" / "notes.npz").write_text("mine")
    evolve(EvolveOptions(str(path), settings=("generations=6",), resume=True))
    assert read_run(path).generations == 6
    assert (path / "lineage" / "notes.npz").read_text() == "mine"


def test_a_folder_with_a_config_of_the_users_own_is_no_run(vsr, tmp_path):
    own = tmp_path / "config.yaml"
    own.write_text(TINY)
    result = vsr("evolve", own, "--out", tmp_path, "--resume")
    assert result.exit_code == 2
    assert "it exists and is not a run folder" in result.output
    assert own.read_text() == TINY


def test_a_finished_run_is_left_as_it_is(whole, capsys):
    before = (whole / "statistics.bin").read_bytes()
    evolve(EvolveOptions(str(whole), resume=True))
    assert "already finished" in capsys.readouterr().out
    assert (whole / "statistics.bin").read_bytes() == before


# what cannot be


def test_another_experiment_is_refused(vsr, whole, tiny):
    result = vsr("evolve", tiny, "--out", whole, "--resume", "--set", "optimizer.sigma=0.5", "--seeds", 3)
    assert result.exit_code == 2
    assert "optimizer.sigma: 0.15 in the run, 0.5 now" in result.output
    assert "seeds: [0, 1] in the run, [0, 1, 2] now" in result.output
    assert f"vsr evolve {whole} --resume" in result.output


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--out", "{whole}"], "it already holds a run; add --resume"),
        (["--out", "{config}"], "it exists and is not a run folder"),
        (["--out", "/proc/nowhere"], "cannot be written: No such file or directory; nothing was written"),
        (["--out", "x" * 300], "File name too long"),
        (["--seeds", "2", "--seed", "1"], "--seeds and --seed: give one of them"),
        (["--set", "seeds=[]"], "--set seeds=[]: seeds: "),
        (["--device", "gpu"], "--device gpu: it cannot be used"),
    ],
)
def test_what_cannot_be_done_is_one_line(vsr, whole, tiny, tmp_path, arguments, message):
    if "gpu" in arguments:
        if jax.default_backend() != "cpu":
            pytest.skip("there is a GPU here")
        process = start_process("evolve", tiny, "--out", tmp_path / "run", *arguments, code=INTERRUPTED)
        output, _ = process.communicate(timeout=60)
        code = process.returncode
    else:
        result = vsr("evolve", tiny, *(a.format(whole=whole, config=tiny.parent) for a in arguments))
        output, code = result.output, result.exit_code
    assert code == 2, output
    assert message in output
    assert len(output.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_two_processes_do_not_write_one_run(whole, tiny):
    from vsr.experiments.storage.run_folder import RunFolder

    folder = RunFolder(whole, load_experiment(whole / "config.yaml"))
    folder.lock()
    try:
        with pytest.raises(UserError, match="another process is writing this run"):
            evolve(EvolveOptions(str(whole), resume=True))
    finally:
        folder.close()


@pytest.mark.slow
@pytest.mark.parametrize("number", [3, 7, 12])
def test_a_full_disk_is_one_clear_line_and_loses_nothing(whole, tiny, tmp_path, monkeypatch, number):
    path = tmp_path / "full"
    count = iter(range(1000))
    original = os.fsync

    def fsync(descriptor):
        if next(count) >= number:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(UserError) as caught:
        evolve(EvolveOptions(str(tiny), out=str(path)))
    assert str(caught.value).startswith(f"{path}: cannot be written: No space left on device; ")
    assert "\n" not in str(caught.value)
    monkeypatch.setattr(os, "fsync", original)
    evolve(EvolveOptions(str(tiny), out=str(path), resume=True))
    assert_same_run(path, whole)


LIMITED = """
import resource, signal, sys
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
import vsr.cli as cli
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.RLIM_INFINITY))
sys.argv = ["vsr", *sys.argv[2:]]
cli.main()
"""


@pytest.mark.slow
def test_files_that_may_not_grow_are_told(tiny, whole, tmp_path):
    """The operating system itself refuses to write on: what was renamed before is whole."""
    path = tmp_path / "limited"
    enough_to_begin = 300 + max((whole / name).stat().st_size for name in ("config.yaml", "meta.json"))
    more = "generations=30"  # of which statistics grow larger than that
    process = start_process(enough_to_begin, "evolve", tiny, "--out", path, "--set", more, code=LIMITED)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 2, output
    assert f"{path}: cannot be written: File too large" in output
    assert "Traceback" not in output
    assert 0 < len(list((path / "lineage").iterdir())) < 29
    evolve(EvolveOptions(str(tiny), (more,), out=str(path), resume=True))
    evolve(EvolveOptions(str(tiny), (more,), out=str(tmp_path / "undisturbed")))
    assert_same_run(path, tmp_path / "undisturbed")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write to read-only folders")
def test_a_read_only_folder_is_one_clear_line(vsr, tiny, tmp_path):
    tmp_path.chmod(0o500)
    result = vsr("evolve", tiny, "--out", tmp_path / "run")
    tmp_path.chmod(0o700)
    assert result.exit_code == 2
    assert "cannot be written: Permission denied" in result.output


# looking at runs


def test_plot_draws_every_format(vsr, whole, tmp_path):
    for suffix, start_of_file in (("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<?xml")):
        target = tmp_path / f"curves.{suffix}"
        assert vsr("plot", whole, whole, "--out", target, "--band", "quartiles").exit_code == 0
        assert target.read_bytes().startswith(start_of_file)
    result = vsr("plot", whole, "--out", tmp_path / "curves.jpg")
    assert result.exit_code == 2
    assert "the name should end in .png or .pdf or .svg" in result.output


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: path / "none", "there is no such run folder"),
        (lambda path: path, "this is not a run folder"),
        (lambda path: "x" * 300, "File name too long"),
        (lambda path: shutil.copytree(path.parent / "source", path / "run"), "no generation is finished yet"),
    ],
)
def test_folders_without_a_run_are_told(vsr, whole, tmp_path, make, message):
    source = tmp_path / "source"
    source.mkdir()
    shutil.copy(whole / "config.yaml", source)
    shutil.copy(whole / "meta.json", source)
    (tmp_path / "given").mkdir()
    result = vsr("plot", make(tmp_path / "given"), "--out", tmp_path / "x.png")
    assert result.exit_code == 2
    assert message in result.output


def write_run(path, finals, measure="relative_velocity"):
    """A run folder with the given final values, one per seed."""
    path.mkdir()
    experiment = yaml.safe_load(TINY) | {"seeds": len(finals), "fitness": measure, "generations": 2}
    (path / "config.yaml").write_text(json.dumps(experiment))
    put_meta(path)
    rows = [
        {"generation": g, "seed": s, "best": None if value is None else value * (g + 1) / 2, "median": 0.0, "failed": 0}
        for g in range(2)
        for s, value in enumerate(finals)
    ]
    put_statistics(path, rows)
    return path


def test_compare_tests_ranks(vsr, tmp_path):
    """Complete separation of 5 and 5 has the exact two-sided p of 2 / C(10, 5)."""
    high = write_run(tmp_path / "high", [6, 7, 8, 9, 10])
    low = write_run(tmp_path / "low", [1, 2, 3, 4, 5])
    mixed = write_run(tmp_path / "mixed", [5.5, 2.5, 8.5, 0.5, 9.5])
    reported = json.loads(vsr("compare", high, low, mixed, "--json", "-").stdout)
    first = reported["pairs"][0]
    assert first["p"] == pytest.approx(2 / 252)
    assert first["p_holm"] == pytest.approx(6 / 252)
    assert first["effect"] == 1.0
    assert first["difference"] == pytest.approx(5.0)
    assert reported["rows"][0]["final"] == 8
    assert reported["rows"][0]["first"] == 4
    assert "0.0079" in vsr("compare", high, low).output
    one = write_run(tmp_path / "one", [1])
    assert json.loads(vsr("compare", high, one, "--json", "-").stdout)["pairs"][0]["p"] is None
    half = write_run(tmp_path / "half", [20, 30, None, None, None])
    reported = json.loads(vsr("compare", low, half, "--json", "-").stdout)
    assert reported["rows"][1] == {"run": "half", "seeds": 5, "failed": 3, "generations": 2, "first": None,
                                   "final": None, "worse": None, "better": 20.0}  # fmt: skip
    assert reported["pairs"][0]["effect"] == pytest.approx(0.6)
    assert "failed" in vsr("compare", low, half).output
    assert vsr("plot", low, half, "--out", tmp_path / "half.png").exit_code == 0
    other = write_run(tmp_path / "other", [1, 2], "travel_velocity")
    assert "different goals" in vsr("plot", high, other, "--out", tmp_path / "other.png").output
    result = vsr("compare", high, other)
    assert result.exit_code == 2
    assert "different goals" in result.output


def test_a_comparison_that_is_not_fair_is_told(vsr, tmp_path):
    whole = write_run(tmp_path / "whole", [1, 2, 3])
    short = write_run(tmp_path / "short", [1, 2, 3])
    put_statistics(short, rows_of(short)[:3])
    output = vsr("compare", whole, short).output
    assert "short is not finished: 1 of 2 generations" in output
    assert "different numbers of evaluations" in output


def test_a_run_of_failures_says_so(whole, tmp_path, monkeypatch):
    path = tmp_path / "failures"
    shutil.copytree(whole, path)
    put_statistics(path, [{**row, "best": None, "median": None} for row in rows_of(path)])
    shutil.rmtree(path / "best")
    said = []
    monkeypatch.setattr(evolve_module, "say", said.append)
    evolve_module._conclude(path, report=False)
    assert said[0] == "all robots failed, so there is no best relative_velocity"
    assert not any("vsr play" in line for line in said)


@pytest.mark.parametrize(
    ("fault", "reported"),
    [
        (None, "report: {path}/report.html (written in "),
        (UserError("no room"), "no room; the run is whole, its report was left out; to write it: vsr report {path}"),
        (ZeroDivisionError("by 0"), "warning: the report could not be written: ZeroDivisionError: by 0; to try again"),
        (KeyboardInterrupt(), "the run is whole, its report was left out; to write it: vsr report {path}"),
    ],
)
def test_a_report_ends_a_run_and_never_harms_it(vsr, whole, tmp_path, monkeypatch, fault, reported):
    def page(runs):
        assert [found.run.generations for found in runs] == [5]
        if fault is not None:
            raise fault
        return "the page"

    path = tmp_path / "run"
    shutil.copytree(whole, path)
    monkeypatch.setattr("vsr.experiments.report.command.report_page", page)
    result = vsr("evolve", path, "--resume")
    to_repair = isinstance(fault, UserError)
    assert result.exit_code == (2 if to_repair else 0), result.output
    assert reported.format(path=path) in result.output
    assert (f"watch the best: vsr play {path}" in result.output) == (not to_repair)
    assert (path / "report.html").exists() == (fault is None)
    if fault is None:
        (path / "report.html").unlink()
        assert "report.html" not in vsr("evolve", path, "--resume", "--no-report").output
        assert not (path / "report.html").exists()


def test_names_are_not_taken_for_markup(tmp_path):
    console = Console(force_terminal=True, width=80, file=io.StringIO())
    experiment = Experiment.model_validate(yaml.safe_load(TINY))
    display = open_display(experiment, "[/x][red]run", console)
    for generation in range(2):
        display.show(Progress(generation, np.array([0.1, np.nan]), np.array([np.nan, np.nan]), 3, 0.5))
    display.close()
    assert "[/x][red]run" in console.file.getvalue()
    assert "24 " in console.file.getvalue()


@pytest.mark.slow
def test_plugins_travel_with_the_run(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    (home / "low_gravity.py").write_text(
        "from typing import Literal\nfrom vsr.terrain import TERRAINS, Flat\n"
        "class Ice(Flat):\n    '''Very slippery.'''\n    type: Literal['ice'] = 'ice'\n    friction: float = 0.01\n"
        "TERRAINS['ice'] = Ice\n"
    )
    (home / "ice.yaml").write_text(TINY + "plugins: [low_gravity]\nworld: {terrain: ice}\n")
    run = ["evolve", home / "ice.yaml", "--out", tmp_path / "run", "--no-report", "--set", "generations=1", "--seed", 4]
    process = start_process(*run, code=INTERRUPTED)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    (home / "low_gravity.py").write_text((home / "low_gravity.py").read_text() + "# changed\n")
    more = ["evolve", home / "ice.yaml", "--out", tmp_path / "run", "--resume", "--set", "generations=2", "--seed", 4]
    process = start_process(*more, code=INTERRUPTED)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 2, output
    assert "plugin 'low_gravity' is not what it was" in output
    shutil.rmtree(home)
    check = ["check", tmp_path / "run" / "best" / "seed-4.yaml"]
    process = start_process(*check, code=INTERRUPTED)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 2, output
    assert f"this needs the plugin low_gravity ({tmp_path / 'run' / 'plugins' / 'low_gravity.py'})" in output
    process = start_process(*check, "--trust-plugins", code=INTERRUPTED)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert "seed-4.yaml: valid" in output


# Searches of any kind

CLIMBER = '''
"""A search whose state is like no other: nested mappings, two random keys, a table of behavior."""
from typing import Literal

import jax
import jax.numpy as jnp

from vsr.evo import OPTIMIZERS, SearchSummary
from vsr.evo.population import NO_PARENT, Population, best, with_fitness, offspring
from vsr.evo.settings import Settings, Size


class Climber(Settings):
    """Steps from the best so far, kept only if they lead up."""

    type: Literal["climber"] = "climber"
    population_size: Size = 4

    @property
    def descriptors(self):
        return ("average_height", "travel_velocity")

    def start(self, key, sample):
        one, two = jax.random.split(key)
        size = self.population_size
        nobody = offspring(sample(two, size), jnp.full((size, 2), NO_PARENT), jnp.int32(0), jnp.int32(0))
        return {"keys": {"steps": one, "spare": two}, "round": jnp.int32(0), "kept": nobody,
                "seen": (jnp.zeros((self.population_size, 2)), jnp.float32(0))}

    def ask(self, state, sample):
        number, kept = state["round"], state["kept"]
        noise = sample(jax.random.fold_in(state["keys"]["steps"], number), self.population_size)
        genes = jax.tree.map(lambda old, new: jnp.where(number == 0, old, 0.9 * old + 0.1 * new), kept.genes, noise)
        return offspring(genes, jnp.stack([kept.id, kept.id], 1), number * self.population_size, number)

    def tell(self, state, asked, evaluation):
        assert set(evaluation.measures) == {"relative_velocity", *self.descriptors}
        asked, kept = with_fitness(asked, evaluation.fitness, evaluation.failed), state["kept"]
        better = ~(asked.fitness <= kept.fitness)
        pick = lambda new, old: jnp.where(better.reshape(-1, *(1,) * (new.ndim - 1)), new, old)
        return {**state, "round": state["round"] + 1, "kept": jax.tree.map(pick, asked, kept),
                "seen": (evaluation.descriptors, evaluation.measures["average_height"].max())}

    def summary(self, state):
        kept = state["kept"]
        return SearchSummary(best(kept), jnp.median(kept.fitness), jnp.float32(0), kept, archive=state["seen"])


OPTIMIZERS["climber"] = Climber
'''


@pytest.fixture
def climber(tmp_path, monkeypatch):
    (tmp_path / "climber.py").write_text(CLIMBER)
    monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "climb.yaml"
    file.write_text(
        "plugins: [climber]\nrobot: {body: {shape: aa}, controller: sine}\noptimizer: {type: climber}\n"
        "task: {duration: 0.3, placement: {clearance: 0.0}}\nevaluation: {trials: 1, refine: null}\n"
        "generations: 5\nseeds: 2\n"
    )
    yield file
    OPTIMIZERS.pop("climber", None)
    sys.modules.pop("climber", None)


@pytest.mark.slow
def test_a_search_keeps_what_state_it_likes(climber, tmp_path):
    """Only the optimizer looks inside: its state is checkpointed and taken up again, bit for bit."""
    options = EvolveOptions(str(climber), out=str(tmp_path / "whole"))
    evolve(options)
    evolve(replace(options, out=str(tmp_path / "parts"), settings=("generations=2",)))
    evolve(replace(options, out=str(tmp_path / "parts"), resume=True))
    assert_same_run(tmp_path / "parts", tmp_path / "whole")
    stored = final_population(tmp_path / "whole")
    assert stored["round"].tolist() == [5, 5]
    assert stored["seen.0"].shape == (2, 4, 2)
    np.testing.assert_array_equal(stored["seen.0"][:, :, 0].max(1), stored["seen.1"])  # both are heights
    assert (stored["keys.steps"] != stored["keys.spare"]).any()
    run = read_run(tmp_path / "whole")
    assert (np.diff(run.fitness, axis=1) >= 0).all()
    with np.load(tmp_path / "whole" / "archive.npz") as archive:
        np.testing.assert_array_equal(archive["0"], stored["seen.0"])


def test_checkpoints_hold_any_state(tmp_path):
    """Names with dots, numpy's own names, keys of any kind, numbers that numpy does not know."""
    state = {
        "file": jax.numpy.arange(3),
        "a.b": jax.numpy.float32(1),
        "a": {"b": jax.numpy.float32(2)},
        "key": jax.random.key(7, impl="rbg"),
        "half": jax.numpy.array([1.5, -2.0], jax.numpy.bfloat16),
        "nothing": (),
    }
    save_checkpoint(tmp_path, 3, (state, jax.tree.map(lambda leaf: leaf, state)), {"experiment": "this"})
    found = load_checkpoint(tmp_path, jax.eval_shape(lambda: state), 2)
    assert (found.generations, found.skipped) == (3, ())
    assert found.label == {"generation": 3, "experiment": "this"}
    first, _ = found.searches
    assert jax.tree.structure(first) == jax.tree.structure(state)
    np.testing.assert_array_equal(jax.random.bits(first.pop("key")), jax.random.bits(state.pop("key")))
    for one, other in zip(jax.tree.leaves(first), jax.tree.leaves(state), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(one, other)


def test_a_measure_that_a_search_needs_must_be_known(climber):
    (climber.parent / "climber.py").write_text(CLIMBER.replace("travel_velocity", "travel_velosity"))
    with pytest.raises(
        UserError, match=r"optimizer: unknown measure 'travel_velosity'; did you mean 'travel_velocity'"
    ):
        load_experiment(climber, run_plugins=True)
